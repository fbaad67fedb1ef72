"""What steps refuse before they charge, how a search goes on, and what is handed on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hushcov.exceptions import ParameterError
from hushcov.fit import location, preparation, quantiles
from hushcov.fit.location import Location, LocationParameters, find_location
from hushcov.fit.mechanism import Prepared
from hushcov.fit.preparation import Preparation
from hushcov.fit.quantiles import Quantiles
from hushcov.kernel import session as kernel
from hushcov.kernel.accounting import UNSPENT
from hushcov.kernel.queries import SignedOctaves
from hushcov.kernel.records.base import CountedRecords
from hushcov.kernel.session import Session, unwrap
from hushcov.kernel.transforms import Transform, Transforms
from hushcov.ledger import Ledger
from hushcov.tables.sources import ArrayRecords
from sessions import ample, seeded, session_of

# Refusals, before anything is charged or read.


D = 4


def records_in(prepared):
    return unwrap(prepared.session)[0]


class Unread(ArrayRecords):
    """Records of which no block may be asked for."""

    def _blocks(self):
        raise AssertionError("records were read")


@pytest.mark.parametrize("wrong", ["generator", "seeded"])
def test_noise_that_is_not_secret_is_refused_before_anything_is_charged(wrong):
    other = np.random.default_rng(0) if wrong == "generator" else seeded()
    if wrong == "seeded":
        object.__setattr__(other, "private", True)  # what it says of itself
    budget = ample()
    with pytest.raises(ParameterError, match="entropy"):
        Session(Unread(np.zeros((60, D))), budget, other)
    assert [part for part, _ in budget.parts] == [UNSPENT]


def test_a_cost_that_is_none_is_refused_before_a_ledger_is_looked_for(tmp_path):
    with pytest.raises(ParameterError, match="cost must be"):
        Ledger(tmp_path / "missing").charge("a", 0.5, label="b")


# How a search goes on: what later looks are told of earlier ones.


@pytest.mark.parametrize("share", [1.0, 0.5, 1e-9])
def test_looks_are_told_what_earlier_ones_saw(monkeypatch, share):
    n, d = 10**6, 3
    seen = []
    told = SignedOctaves(np.zeros(d), np.zeros(d), np.arange(d))
    used = [Counter({5: 3, 7: 2, 9: 1}), Counter({7: 1, 9: 1, **dict.fromkeys(range(20, 28), 4)})]

    def look_at(look, columns):
        seen.append(look)
        return used[len(seen) - 1] if len(seen) <= len(used) else Counter()

    monkeypatch.setattr(location, "_look_at_octaves", look_at)
    session = session_of(CountedRecords(ArrayRecords(np.zeros((2, d))), n))
    looks = LocationParameters(n, d, 1.0)
    find_location(session, looks, share=share, first=told)
    assert len(seen) == len(session.parts) - 1 == 6
    assert [look.first is told for look in seen] == [True] + [False] * 5
    assert all(look.first is None for look in seen[1:])
    expected = max(1, round(share * n))
    assert {look.n for look in seen} == {expected}
    assert [dict(look.popular) for look in seen[:2]] == [{}, {5: 3}]
    most = dict(seen[2].popular)  # the most popular eight, of those that three columns have
    assert most == dict.fromkeys(range(20, 28), 4)
    (first,) = {look.low_reach for look in seen}
    assert first == (16.0 if expected > 60 * seen[0].sigma else 6.0)


# What is handed on, in the units that it is said to have.


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scales_that_are_known_bound_how_far_values_count(size):
    """At 64 of them, where a search found values farther away."""
    scale = size * np.array([1.0, 2.0])
    X = np.random.default_rng(1).standard_normal((500, 2)) * scale
    place = Location(np.zeros(2), scale, scale * [500.0, 20.0], np.ones(2, dtype=bool))
    step = Preparation(500, 2, 3.0, known_scale=True)
    found = step.run(Prepared(session_of(X), scale, place=place))
    assert records_in(found)._about.reach == pytest.approx(scale * [64.0, 20.0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scales_that_grow_let_values_count_farther_away(size):
    """To 64 scales that the search found; one column that was not found changes nothing."""
    scale = size * np.array([1.0, 1.0, 0.0, 1.0])
    X = 3 * size * np.random.default_rng(1).standard_normal((3_000, 4))
    place = Location(np.zeros(4), scale, scale * [10.0, 50.0, 0.0, 900.0], scale > 0)
    found = Preparation(3_000, 4, 3.0).run(Prepared(session_of(X), np.ones(4), place=place))
    assert len(found.session.transcript) == 5
    grown = found.feature_scale[[0, 1, 3]] / size
    assert (grown > 2).all()
    assert records_in(found)._about.reach[0] == pytest.approx(10 * size * grown[0])
    assert records_in(found)._about.reach[1:].tolist() == [64 * size, 0.0, 900 * size]


def test_mean_squares_are_in_squared_scales(monkeypatch):
    monkeypatch.setattr(kernel, "rounded_normal", lambda _, s, k: np.zeros(k, dtype=np.int64))
    X = np.random.default_rng(1).choice([-1.0, 1.0], (400, 3)) * [1.0, 1.5, 0.5]
    session = session_of(X)
    query = preparation.squares_of(session, np.ones(3), 1.0)
    squares, _ = preparation.release_squares(session, query, 1.0)
    assert squares == pytest.approx([1.0, 2.25, 0.25], rel=0.01, abs=0.01)


def test_the_number_beside_squares_says_how_many_records_are_not_zero():
    rows = np.zeros((9, 3))
    products = preparation.squares_of(session_of(rows), np.ones(3), 1.0).products
    rows[:5, 0] = np.array([1, -1, 2, 50, 1000]) * products.grid.step
    assert products.sum(ArrayRecords(rows))[-1] == 5


def given_rows(X):
    return Prepared(session_of(X), np.ones(4), share=0.5, making={"complete": "known"})


def test_quantiles_are_read_for_complete_records_and_columns_that_vary(monkeypatch):
    """A column of scale 0 becomes constant; one of a small scale is read as any other."""
    scale = np.array([0.01, 0.0, 3.0, 0.2])
    X = np.random.default_rng(1).standard_normal((2_000, 4)) * scale
    place = Location(np.zeros(4), scale, 9 * scale, scale > 0)
    monkeypatch.setattr(quantiles, "find_location", lambda *_, **__: place)
    read, numbers = quantiles.read_shares, []
    monkeypatch.setattr(
        quantiles, "read_shares", lambda c, s, n, *rest: numbers.append(n) or read(c, s, n, *rest)
    )
    rank = Transform("rank")
    transforms = Transforms((rank, rank, None, None))
    for marginals in (None, 0.2):
        step = Quantiles(2_000, 4, 3.0, transforms, marginals=marginals)
        found = step.run(given_rows(X))
        assert found.place.found.tolist() == [True, False, True, True]
        assert found.place.scale == pytest.approx([1.0, 0.0, 3.0, 0.2], rel=0.2, abs=0.0)
        made = found.making["transforms"]
        assert [own and len(own.edges) > 5 for own in made] == [True, False, None, None]
        assert made[1].shares == (1.0,)
        assert found.making["complete"] == "known"
        written = found.making.get("marginals", (None,) * 4)
        assert [own is not None for own in written] == [bool(marginals) and s > 0 for s in scale]
    assert set(numbers) == {1_000.0}
    none = Quantiles(2_000, 4, 3.0, Transforms((None,) * 4), marginals=0.2)
    assert "transforms" not in none.run(given_rows(X)).making
