"""Decisions follow from released numbers alone, and selections are charged for what scores move."""

from __future__ import annotations

import numpy as np
import pytest

from exact_sums import norm_histogram
from fit.adaptive.settings import blocks, dense, drawn, fit, one_factor
from fit.adaptive.tape import others, replayed
from hushcov.fit.adaptive import mechanism as adaptive
from hushcov.fit.adaptive.pairs import Ladder
from hushcov.fit.norms import choose_norm, squared_norms
from hushcov.fit.preparation import HALF_WIDTH, WIDEST
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.session import unwrap

CASES = {"sparse": (blocks, 80), "factors": (one_factor, 40), "dense": (dense, 30)}
N, EPSILON = 8_000, 2.0
note = Ladder._note


def replay(monkeypatch, case, gaps=False, **options):
    make, d = CASES[case]
    X, Y = drawn(make(d), N)[0], others(N, d)
    if gaps:
        X[::3, 0], Y[::7, 5] = np.nan, np.nan

    def release(rows):
        return fit(rows, epsilon=EPSILON, **options).release_

    return replayed(monkeypatch, release, X, Y)


OPTIONS = {
    "nothing known": {},
    "sparse output": {"sparse_output": True},
    "means": {"assume_centered": True},
    "advice": {"row_sparsity": 20},
}


def both():
    """All cases with nothing known and all options for one case; the others are slow."""
    for case in CASES:
        for name, options in OPTIONS.items():
            marks = () if case == "sparse" or not options else pytest.mark.slow
            yield pytest.param(case, options, id=f"{case}, {name}", marks=marks)


@pytest.mark.parametrize(("case", "options"), tuple(both()))
def test_the_release_follows_from_released_numbers(monkeypatch, case, options):
    before, after = replay(monkeypatch, case, **options)
    assert after == before
    assert after.making == before.making
    assert after.parameters == before.parameters


def test_incomplete_records_are_only_counted_with_noise(monkeypatch):
    before, after = replay(monkeypatch, "sparse", gaps=True, drop_nulls=True)
    assert after == before


def planted_note(self, size, mean):
    """A rung says how many of its pairs are real by the scores that are left, without noise."""
    best = np.sort(self._session._scores(self._scores))[-size:]
    return note(self, size, float(best.mean()) / self._scores.resolution)


def planted_look(run, probe):
    """The bound of the last look follows from the norms as they are."""
    edges = squared_norms(FeatureGrid(run.scale, WIDEST, HALF_WIDTH), run.d)
    records, _, _ = unwrap(run.session)
    counts = norm_histogram(records, FeatureGrid(run.scale, WIDEST, HALF_WIDTH), edges)
    run.norm = choose_norm(counts, 1, records.n_records, run.d, run.session.mu_left)
    whole = run.matrix()
    whole.measure(run.session.mu_left)
    return whole


@pytest.mark.parametrize(
    ("case", "owner", "name", "planted"),
    [
        ("sparse", Ladder, "_note", planted_note),  # sparse output: nothing but the ladder decides
        ("dense", adaptive, "_measure_whole", planted_look),
    ],
    ids=["true scores", "true norms"],
)
def test_a_decision_that_looks_at_other_numbers_is_found(monkeypatch, case, owner, name, planted):
    monkeypatch.setattr(owner, name, planted)
    before, after = replay(monkeypatch, case, sparse_output=owner is Ladder)
    assert after != before
