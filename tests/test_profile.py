"""Where the time goes: off unless asked for, every second once, every reading counted."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov import _profile
from hushcov._profile import current_pass, profiled, timed
from hushcov.records import ArrayRecords, CentredRecords, WatchedRecords, sign_gram


class Clock:
    """A clock that goes on by itself only where it is told to."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(_profile, "time", found)
    return found


def test_nothing_is_measured_unless_asked_for(monkeypatch):
    monkeypatch.setattr(_profile, "time", None)  # reading the clock would fail
    with timed("selection"):
        ArrayRecords(np.ones((3, 2))).map_sum(lambda block: np.zeros(1, dtype=np.int64))


def test_what_is_measured_inside_counts_once(clock):
    profile = _profile.Profile(started=clock.now)
    with profile.measure("outer"):
        clock.now += 1
        with profile.measure("inner"):
            clock.now += 2
        clock.now += 4
    clock.now += 8
    profile.stop()
    assert profile.rows() == [("inner", 1, 2.0), ("outer", 1, 5.0), ("other", 1, 8.0)]
    assert profile.total == 15


def test_what_fails_is_measured_too_and_ends_the_profile(clock):
    def fail():
        clock.now += 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), profiled() as profile, timed("noise"):
        fail()
    assert profile.seconds == {"noise": 3.0}
    with timed("noise"):
        clock.now += 1
    assert profile.seconds == {"noise": 3.0}


def test_every_reading_counts_once_through_views_and_has_a_name():
    seen = []
    watched = WatchedRecords(
        ArrayRecords(np.eye(4)), lambda: seen.append(current_pass()), lambda _: None
    )
    records = CentredRecords(watched, np.zeros(4))
    with profiled() as profile:
        sign_gram(records, 0, 4)
        sign_gram(records, 0, 4)
    assert profile.readings == len(seen) == 2
    (name,) = {what for what in profile.seconds if what.startswith("pass: ")}
    assert profile.times[name] == 2
    assert name == f"pass: {seen[0]}"
    assert current_pass() == ""


def test_the_json_says_that_it_is_not_private(clock):
    with profiled() as profile, timed("planning"):
        clock.now += 1
    assert profile.to_dict() == {
        "private": False,
        "readings": 0,
        "total_seconds": 1.0,
        "parts": [
            {"what": "planning", "times": 1, "seconds": 1.0},
            {"what": "other", "times": 1, "seconds": 0.0},
        ],
    }
