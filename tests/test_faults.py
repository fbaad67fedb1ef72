"""Faults at every point of a charge and of a release: see fault_points.py, which runs them."""

import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import fault_points
from fault_points import SCENARIOS, act_charge, exercise, in_program, open_book, release_of
from hushcov.kernel.accounting import ledger as ledger_module
from hushcov.release import files as release_files

# The faults there are with Python 3.11. Fewer are suspicious; other versions differ by a few.
FAULTS = {
    "statements": {"open": 160, "change": 112, "charge": 112, "fit": 112, "command": 200},
    "lines": {"charge": 213, "fit": 977, "overwrite": 481, "overwrite in steps": 486},
    "calls": {
        **{"open": 320, "change": 408, "charge": 408, "fit": 687, "overwrite": 377},
        **{"overwrite in steps": 390, "command": 827},
    },
}
FAST = {"statements": ("charge", 5), "lines": ("fit", 90), "calls": ("fit", 50)}
# A command makes the calls of a fit, and others: of its own, every fourth fails.
STRIDES = {("calls", "command"): 4}
ALL = [
    (source, name, STRIDES.get((source, name), 1)) for source in FAULTS for name in FAULTS[source]
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """fault_points.c, compiled."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("needs Linux and a C compiler")
    made = tmp_path_factory.mktemp("library") / "faults.so"
    source = Path(fault_points.__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


def known_window(place):
    """The end of the outermost `with`: an interrupt here has nobody left to note the charge."""
    return place.split(" ", 1)[-1].startswith("with stated_charges(")


@pytest.mark.parametrize(
    ("source", "scenario", "stride"),
    [
        *((source, *some) for source, some in FAST.items()),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL),
    ],
)
def test_nothing_is_lost_or_unsaid(request, source, scenario, stride):
    if source == "calls":
        found = in_program(scenario, request.getfixturevalue("library"), stride)
    else:
        found = exercise(source, scenario, stride)
    assert [each for each in found["wrong"] if not known_window(each[1])] == []
    assert len(found["wrong"]) <= 1
    assert sum(found["ran"].values()) == -(-found["faults"] // stride)
    same = 1 if sys.version_info[:2] == (3, 11) else 0.8
    assert found["faults"] >= same * FAULTS[source][scenario]
    if source == "calls" and stride == 1:
        assert {"open", "write", "fsync", "close"} <= set(found["ran"])


def wrong(source, scenario, stride=1):
    return {problem for each in exercise(source, scenario, stride)["wrong"] for problem in each[3]}


def test_a_release_before_its_charge_is_noticed(monkeypatch):
    def act(folder, made):
        release_of(1).write(folder / "out")
        act_charge(folder, made)

    monkeypatch.setitem(SCENARIOS, "hasty", (open_book, act))
    assert "there is a release without its charge" in wrong("statements", "hasty", 16)


def test_silence_is_noticed(monkeypatch):
    monkeypatch.setattr(ledger_module, "stated_charges", nullcontext)
    monkeypatch.setattr(ledger_module, "begin", lambda *_: SimpleNamespace())
    monkeypatch.setattr(ledger_module, "charge_begun", lambda: True)
    found = wrong("statements", "charge", 5)
    assert {"a charge is not said", "that nothing was charged is not said"} <= found


def test_what_is_left_is_noticed(monkeypatch):
    monkeypatch.setattr(release_files, "_discard", lambda _: None)
    with pytest.raises(AssertionError, match="left without a word"):
        exercise("lines", "overwrite", 400)


def test_a_part_of_a_release_is_noticed(monkeypatch):
    move = release_files._move

    def early(draft, place, *, replaced):
        move(draft, place, replaced=replaced)
        (place / "integers.npy").write_bytes(b"")

    monkeypatch.setattr(release_files, "_move", early)
    with pytest.raises(AssertionError, match="a part of a release has its name"):
        exercise("lines", "overwrite", 400)
