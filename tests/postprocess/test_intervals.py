"""Intervals: their exact coverage given that an entry is shown, their limits, and their symmetries.

Estimates beyond a threshold are drawn from their exact law, by inverting its distribution function.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, sparse, special, stats

from hushcov.postprocess import (
    normal_interval,
    sampling_sd,
    thresholded_interval,
)
from hushcov.postprocess.tails import LARGEST_ERROR, KnownErrors, estimate_error
from statistics_helpers import FALSE_ALARM

DRAWS = 4000


def shown(mean, threshold, n, seed):
    """Normal draws around `mean` of deviation 1, given that they are beyond the threshold."""
    generator = np.random.default_rng(seed)
    below, above = special.ndtr(-threshold - mean), special.ndtr(mean - threshold)
    side = np.where(generator.random(n) < above / (below + above), 1.0, -1.0)
    # On one side of the threshold: minus the quantile of a share of that side's tail.
    tail = np.where(side > 0, above, below) * generator.uniform(size=n)
    return side * (-special.ndtri(tail) + side * mean)


def intervals(estimate, threshold, level, deviation=1.0):
    full = np.full_like(estimate, deviation)
    return thresholded_interval(estimate, full, np.full_like(estimate, threshold), level)


def covered(ends, mean):
    return np.count_nonzero((ends[0] <= mean) & (mean <= ends[1]))


@pytest.mark.parametrize("threshold", [0.0, 1.0, 3.0, 4.5])
@pytest.mark.parametrize("mean", [0.0, 2.0, -3.0, 7.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_coverage_given_that_an_entry_is_shown_is_exact(threshold, mean, level):
    estimate = shown(mean, threshold, DRAWS, seed=1)
    assert (np.abs(estimate) > threshold).all()
    hits = covered(intervals(estimate, threshold, level), mean)
    assert stats.binomtest(hits, DRAWS, level).pvalue > FALSE_ALARM


def log_odds(mean, size, threshold, probability):
    """Zero where P(estimate > size | beyond the threshold) is 1 - probability; by logarithms."""
    beyond = stats.norm.logsf(size - mean)
    either = np.logaddexp(stats.norm.logcdf(-threshold - mean), stats.norm.logsf(threshold - mean))
    return beyond - either - math.log1p(-probability)


@pytest.mark.parametrize("threshold", [0.5, 3.0, 12.0, 25.0, 300.0])
@pytest.mark.parametrize("excess", [1e-6, 0.01, 0.5, 3.0])
def test_ends_solve_their_equations_also_for_large_thresholds(threshold, excess):
    """An estimate just beyond the threshold says little, however large both are."""
    size = threshold + excess
    lower, upper = intervals(np.array([size]), threshold, 0.95)
    reach = size + 40
    for end, probability in ((lower, 0.975), (upper, 0.025)):
        root = optimize.brentq(log_odds, -reach, reach, (size, threshold, probability), xtol=1e-12)
        assert end[0] == pytest.approx(root, abs=1e-7)
    if excess < 0.1 / threshold:
        assert lower[0] < 0 < upper[0]


def test_signs_scales_and_levels():
    estimate = np.array([3.1, 3.5, 4.0, 6.0, 9.0])
    lower, upper = intervals(estimate, 3.0, 0.95)
    mirrored = intervals(-estimate, 3.0, 0.95)
    np.testing.assert_array_equal(mirrored, (-upper, -lower))
    scaled = intervals(1e-30 * estimate, 3e-30, 0.95, deviation=1e-30)
    np.testing.assert_allclose(scaled, 1e-30 * np.stack([lower, upper]), rtol=1e-9)
    assert (np.diff(lower) > 0).all()
    assert (np.diff(upper) > 0).all()
    narrow = intervals(estimate, 3.0, 0.8)
    assert (lower < narrow[0]).all()
    assert (narrow[1] < upper).all()
    # Being shown favours large estimates: the truth is thought to be smaller than without.
    assert (upper < normal_interval(estimate, np.ones(5), 0.95)[1]).all()


def test_sampling_deviations_are_those_of_gaussian_records():
    sigma = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, -0.3], [0.0, -0.3, 0.5]])
    generator = np.random.default_rng(0)
    n, repetitions = 50, 4000
    X = generator.multivariate_normal(np.zeros(3), sigma, (repetitions, n), method="cholesky")
    moments = np.einsum("rni,rnj->rij", X, X) / n
    variance = np.diag(sigma)
    ratio = moments.std(axis=0) / sampling_sd(sigma, (variance[:, None], variance), n)
    # The deviation of a sample deviation is 1/sqrt(2 R), and a fifth more for these tails.
    limit = -stats.norm.ppf(FALSE_ALARM / 12) * 1.2 / math.sqrt(2 * repetitions)
    np.testing.assert_allclose(ratio, 1.0, atol=limit)
    assert limit < 0.1


# Errors of estimates: what each thing that is known or guessed adds to them.


D, N = 12, 50_000
NO_TAIL = np.zeros(D)
BLOCK = np.kron(np.eye(D // 3), 0.5 * np.eye(3) + 0.5)  # its norm is 2
QUIET = KnownErrors(0.0)


def estimated(matrix=BLOCK, known=QUIET, **named):
    return estimate_error(matrix, 1e-6, N, known, **({"tail": NO_TAIL} | named))


def test_independent_parts_add_up_as_squares():
    error, least, most = estimated(known=KnownErrors(0.03, 0.04))
    assert error == pytest.approx(0.05)
    assert (least, most) == (pytest.approx(error**2 / most), pytest.approx(math.exp(0.89) * error))
    assert most / least < 6
    assert 0.05 < estimated(known=KnownErrors(0.03, 0.04, 0.1))[0] < 0.06


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_what_is_cut_off_one_feature_counts_over_the_norm(to):
    """A variance cut to a quarter is off by 3/4 alone, and its two covariances by half of 0.5."""
    tail = NO_TAIL.copy()
    tail[4] = math.log(4)
    lost = np.array([[0.75, 0.25, 0.25], [0.25, 0.0, 0.0], [0.25, 0.0, 0.0]])
    expected = np.linalg.norm(lost, 2) / 2
    found = estimated(to(BLOCK), tail=tail, known_zeros=True)[0]
    assert found == pytest.approx(expected, rel=1e-6)
    # In other scales it is the same, as errors are in standard deviations.
    scale = np.exp(np.random.default_rng(0).normal(size=D))
    moved = to(BLOCK * np.multiply.outer(scale, scale))
    assert estimated(moved, tail=tail, known_zeros=True)[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_features_without_variance_do_not_count(to):
    tail = np.append(NO_TAIL, [3.0, 3.0])
    tail[4] = math.log(4)
    more = np.zeros((D + 2, D + 2))
    more[:D, :D] = BLOCK
    known = KnownErrors(0.03)
    alone = estimated(to(BLOCK), known, tail=tail[:D])
    assert estimated(to(more), known, tail=tail) == pytest.approx(alone)
    assert estimated(np.zeros((D, D))) == (1.0, 1.0, LARGEST_ERROR)


def test_pairs_left_at_zero_miss_chance_correlations_unless_they_are_known_zeros():
    kept = sparse.csr_array(BLOCK)
    assert estimated(kept)[0] == pytest.approx(math.sqrt((D - 3) / N), rel=0.01)
    assert estimated(kept, known_zeros=True)[0] == 0.0
    # A table of as many columns as records has chance correlations that nobody wants back.
    assert estimate_error(kept, 1e-6, D, QUIET, tail=NO_TAIL)[0] < 1e-6


def test_an_estimate_near_zero_has_the_error_of_zeros():
    assert estimated(known=KnownErrors(0.5), kept=0.01)[0] == pytest.approx(0.995)
    assert estimated(known=KnownErrors(3.0))[2] == LARGEST_ERROR
    huge = BLOCK * 1e308
    huge[0, 1] = huge[1, 0] = np.inf
    assert np.isnan(estimated(huge)).all()
