"""Decisions follow from released numbers alone; two that do not are found by the same test."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.mechanisms.adaptive import mechanism as adaptive
from hushcov.mechanisms.adaptive.pairs import Ladder
from hushcov.steps.norms import choose_norm, squared_norms
from hushcov.steps.preparation import HALF_WIDTH, WIDEST
from hushcov.sums.counts import norm_histogram
from hushcov.sums.grids import FeatureGrid
from mechanisms.adaptive.settings import blocks, dense, drawn, fit, one_factor
from mechanisms.adaptive.tape import OtherStepError, Tape

CASES = {"sparse": (blocks, 80), "factors": (one_factor, 40), "dense": (dense, 30)}
N, EPSILON = 8_000, 2.0
note = Ladder._note


def others(d):
    """Records that have nothing in common with those of any case."""
    rng = np.random.default_rng(8)
    common = rng.standard_t(2, size=(N, 1)) * rng.standard_normal(d)
    return 1e3 * (common + rng.exponential(size=(N, d))) - 50


def replayed(monkeypatch, case, **options):
    """A release of one table, and what another table gives while all that was released is held.

    None where its steps were others.
    """
    make, d = CASES[case]
    tape = Tape()
    tape.install(monkeypatch)
    before = fit(drawn(make(d), N)[0], epsilon=EPSILON, **options).release_
    tape.rewind()
    try:
        after = fit(others(d), epsilon=EPSILON, **options).release_
    except OtherStepError:
        return before, None
    return before, after if tape.finished else None


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
    before, after = replayed(monkeypatch, case, **options)
    assert after == before
    assert after.making == before.making
    assert after.parameters == before.parameters


def test_incomplete_records_are_only_counted_with_noise(monkeypatch):
    make, d = CASES["sparse"]
    tape = Tape()
    tape.install(monkeypatch)
    X, Y = drawn(make(d), N)[0], others(d)
    X[::3, 0], Y[::7, 5] = np.nan, np.nan
    before = fit(X, drop_nulls=True, epsilon=EPSILON).release_
    tape.rewind()
    assert fit(Y, drop_nulls=True, epsilon=EPSILON).release_ == before
    assert tape.finished


def planted_note(self, size, mean):
    """A rung says how many of its pairs are real by the scores that are left, without noise."""
    best = np.sort(self._scores)[-size:]
    return note(self, size, float(best.mean()) / self._screen.resolution)


def planted_look(run, probe):
    """The bound of the last look follows from the norms as they are."""
    edges = squared_norms(FeatureGrid(run.scale, WIDEST, HALF_WIDTH), run.d)
    counts = norm_histogram(run.records, FeatureGrid(run.scale, WIDEST, HALF_WIDTH), edges)
    run.norm = choose_norm(counts, 1, run.records.n_records, run.d, run.budget.mu_left)
    whole = adaptive._whole(run)
    whole.look(run.budget.mu_left, run.budget, run.entropy)
    return whole


@pytest.mark.parametrize(
    ("case", "owner", "name", "planted"),
    [
        ("sparse", Ladder, "_note", planted_note),  # sparse output: nothing but the ladder decides
        ("dense", adaptive, "_released", planted_look),
    ],
    ids=["true scores", "true norms"],
)
def test_a_decision_that_looks_at_other_numbers_is_found(monkeypatch, case, owner, name, planted):
    monkeypatch.setattr(owner, name, planted)
    before, after = replayed(monkeypatch, case, sparse_output=owner is Ladder)
    assert after != before
