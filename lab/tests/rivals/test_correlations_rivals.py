"""Counts above medians: truth without noise, what a record moves, laws of noise, coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from hushcov.exceptions import ParameterError
from hushcov.kernel.accounting import Gaussian, Pure, compose
from hushcov_lab.rivals import correlations as rivals
from hushcov_lab.rivals.correlations_study import STUDY
from statistics_helpers import FALSE_ALARM, variance_p_value

P = 4
TRUTH = 0.6 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
PAIRS = np.triu_indices(P, 1)


def drawn(n, seed):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((n, P)) @ np.linalg.cholesky(TRUTH).T, generator


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("medians", [None, np.zeros(P)])
def test_without_noise_correlations_are_found_whatever_the_margins(delta, medians):
    X, generator = drawn(100_000, 1)
    found = rivals.median_split(X, 1e6, delta, generator, medians)
    assert np.abs(found.values - TRUTH[PAIRS]).max() < 0.02
    margins = None if medians is None else np.exp(medians)
    again = rivals.median_split(np.exp(X), 1e6, delta, generator, margins)
    np.testing.assert_allclose(again.values, found.values, atol=1e-4)


def test_a_replaced_record_moves_counts_by_what_is_charged():
    """All tables of four or five records with distinct values, and all places of the new one."""
    worst = {True: 0, False: 0}
    for n in (4, 5):
        new = np.arange(-0.5, n)
        first = np.arange(n, dtype=float)
        for second in itertools.permutations(range(n)):
            X = np.column_stack([first, second]).astype(float)
            for public in (False, True):
                medians = np.full(2, (n - 1) / 2 + 0.1) if public else None
                before = rivals.same_sides(rivals.highs(X, medians))
                for values in itertools.product(new, new):
                    Y = np.vstack([values, X[1:]])
                    moved = rivals.same_sides(rivals.highs(Y, medians)) - before
                    worst[public] = max(worst[public], int(np.abs(moved).max()))
    assert worst == {True: 1, False: 2}


def test_halves_are_equal_and_ties_are_broken_by_order():
    high = rivals.highs(np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 2.0], [1.0, 1.0]]))
    assert high.sum(axis=0).tolist() == [2, 2]
    assert high[:, 0].tolist() == [False, False, True, True]
    assert high[:, 1].tolist() == [True, True, False, False]
    assert rivals.same_sides(high).tolist() == [0]


def test_noise_has_the_law_that_is_charged():
    """False alarms: once in 1e6 for each assertion."""
    n_pairs, generator = 20_000, np.random.default_rng(3)
    nothing = np.zeros(n_pairs, dtype=np.int64)
    for public in (False, True):
        moved = 1 if public else 2
        deviation, none = rivals.noise_of(n_pairs, 1.0, 1e-6, public=public)
        assert none == 0.0
        mu = moved * math.sqrt(n_pairs) / deviation
        assert compose([Gaussian(mu)], delta=1e-6).epsilon <= 1.0
        assert compose([Gaussian(1.1 * mu)], delta=1e-6).epsilon > 1.0
        drawn = rivals.with_noise(nothing, deviation, 0.0, generator)
        assert variance_p_value(drawn, deviation) > FALSE_ALARM
        assert variance_p_value(drawn, 0.9 * deviation) < FALSE_ALARM
        none, scale = rivals.noise_of(n_pairs, 1.0, 0.0, public=public)
        assert none == 0.0
        assert compose([Pure(moved / scale)] * n_pairs).epsilon <= 1.0 + 1e-9
        drawn = rivals.with_noise(nothing, 0.0, scale, generator)
        assert stats.kstest(drawn / scale, "laplace").pvalue > FALSE_ALARM
        assert stats.kstest(drawn / (0.85 * scale), "laplace").pvalue < FALSE_ALARM


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_cover(delta):
    """240 intervals of 95 %, those of a table related: 0.88 is missed less than once in 1e6."""
    inside = []
    for seed in range(40):
        X, generator = drawn(1_000, [seed, 9])
        found = rivals.median_split(X, 2.0, delta, generator)
        inside.append((found.lower <= TRUTH[PAIRS]) & (TRUTH[PAIRS] <= found.upper))
    assert 0.86 <= np.mean(inside) <= 1.0


def test_no_budget_is_refused():
    with pytest.raises(ParameterError, match="epsilon must be above 0"):
        rivals.median_split(np.zeros((4, 2)), 0.0, 0.0, np.random.default_rng(1))


def test_a_tiny_cell_of_the_study():
    cell = STUDY.cells("quick", None)[0]
    rows = STUDY.measure(cell | {"n": 3_000, "p": 3})
    assert {row["knows"] for row in rows} == {"nothing", "scales", "all"}
    assert all(row["answered"] and row["rmse"] < 0.2 for row in rows)
    skewed = STUDY.measure(cell | {"n": 3_000, "p": 3, "margins": "lognormal"})
    figure = STUDY.draw(rows + skewed)
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylabel() == "RMSE of correlations"
