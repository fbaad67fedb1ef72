"""The release: what it draws against what it is charged for, the law of its noise, its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fit.screened.settings import parameters_of, released
from hushcov.exceptions import DataError
from hushcov.fit.screened import mechanism as values
from hushcov.fit.screened.mechanism import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    sum_sigma,
)
from hushcov.kernel import session
from hushcov.kernel.accounting import ONE_REPLACED
from hushcov.kernel.grids import FeatureGrid
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import ArrayRecords
from statistics_helpers import FALSE_ALARM, normal_p_value

# The law of the noise


def residuals(X, parameters, seeds):
    """Released sums less exact ones, a row for each release: pairs, diagonal, shrinkage."""
    n, d = X.shape
    rows, columns = np.triu_indices(d, 1)
    grid = FeatureGrid(np.ones(d), 8.0, parameters.half_width)
    products = values.product_map(grid, rows, columns, parameters.norm_bound)
    exact = products.sum(ArrayRecords(X))[:-1]
    found = []
    for seed in seeds:
        release = released(X, parameters, seed=seed)
        shrinkage = release.parameters["shrinkage"]
        assert 1e-3 < shrinkage < 1
        weight = PAIR_WEIGHT * DIAGONAL_WEIGHT
        centre = round(products.centre * n * weight * shrinkage)
        off = release.integers[rows, columns]
        diagonal = release.integers.diagonal() - centre
        assert not (off % DIAGONAL_WEIGHT).any()
        assert not (diagonal % PAIR_WEIGHT).any()
        assert (release.integers == release.integers.T).all()
        factor = round(shrinkage * n * products.factor_range)
        found.append([*(off // DIAGONAL_WEIGHT), *(diagonal // PAIR_WEIGHT), factor] - exact)
    return np.array(found, dtype=float)


def law_p_values(noise, sigma):
    """Of all entries together, of each entry's variance and mean, and of products of neighbours."""
    z = noise / sigma
    runs, entries = z.shape
    squares = stats.chi2(runs).cdf((z**2).sum(axis=0))
    products = z[:, :-1] * z[:, 1:]
    return {
        "law": stats.kstest(z.ravel(), "norm").pvalue,
        "variance": 2 * min(f((z**2).sum(), z.size) for f in (stats.chi2.cdf, stats.chi2.sf)),
        "variance of each": min(1.0, 2 * entries * min(squares.min(), 1 - squares.max())),
        "mean of each": normal_p_value(z.mean(axis=0) * math.sqrt(runs)),
        "independence": normal_p_value(products.mean() * math.sqrt(products.size)),
    }


def test_released_values_have_the_law_of_the_noise():
    """False-alarm rate 1e-6 a test; a deviation that is wrong by a tenth is noticed."""
    X = np.random.default_rng(2).standard_normal((4_000, 16))
    parameters = parameters_of(4_000, 16, 16, epsilon=5.0, n_levels=0, norm_factor=0.7)
    sigma = sum_sigma(parameters.norm_bound, parameters.mu, ONE_REPLACED)
    noise = residuals(X, parameters, range(40))
    assert noise.shape == (40, 120 + 16 + 1)
    for name, p_value in law_p_values(noise, sigma).items():
        assert p_value > FALSE_ALARM, name
    for wrong in (0.9, 1.1):
        assert law_p_values(wrong * noise, sigma)["variance"] < FALSE_ALARM
    shifted = noise + 1.5 * sigma * (np.arange(137) == 7)
    assert law_p_values(shifted, sigma)["mean of each"] < FALSE_ALARM


# Any data, any size


# Refusals


@pytest.mark.parametrize("shape", [(49, 6), (51, 6), (50, 5), (50, 7)])
def test_records_of_another_size_are_refused(shape):
    with pytest.raises(DataError, match="as declared"):
        released(np.ones(shape), parameters_of(50, 6, 2))


# Accuracy of the assembled estimate, against errors stated beforehand.


SIX_DEVIATIONS = 6  # passed by chance less than once in 1e8


def correlated(model, d, k):
    covariance = sparse_covariance(model, d, k)
    return covariance / covariance[0, 0]


def slope(covariance, truth, found):
    return covariance[found] @ truth[found] / (truth[found] @ truth[found])


@pytest.mark.parametrize(
    ("model", "norm_factor", "bias"),
    [("block", 3.0, 0.0), ("random", 3.0, 0.0), ("block", 0.8, 0.025), ("banded", 0.8, 0.025)],
)
def test_gaussian_records_are_estimated_without_bias(model, norm_factor, bias):
    """No bias where no record is shrunk; 5 parts in d, uncorrected, where most of them are.

    The error of the slope over all pairs and of the trace: noise and sampling, 6 deviations.
    """
    n, d = 40_000, 200
    truth = correlated(model, d, 5)
    X = gaussian_records(truth, n, random_state=1)
    parameters = parameters_of(n, d, 5, epsilon=2.0, norm_factor=norm_factor)
    release = released(X, parameters)
    covariance = release.covariance()
    present = np.triu(truth != 0, 1)
    found = present & release.released
    assert found.sum() >= 0.98 * present.sum()
    pair_sd, diagonal_sd = release.noise_sd
    sampling = math.sqrt(2 * np.sum(truth**2) / d / n)  # of the mean variance, for Gaussian records
    noise = pair_sd / math.sqrt(np.sum(truth[found] ** 2))
    assert abs(slope(covariance, truth, found) - 1) <= bias + SIX_DEVIATIONS * (noise + sampling)
    noise = diagonal_sd / math.sqrt(d)
    assert abs(np.trace(covariance) / d - 1) <= bias + SIX_DEVIATIONS * (noise + sampling)
    assert (0.5 < release.parameters["shrinkage"] < 0.9) == (norm_factor < 1)


@pytest.mark.parametrize("norm_factor", [0.6, 1.0, 2.0])
def test_dividing_by_the_mean_shrinkage_restores_the_values(monkeypatch, norm_factor):
    """Without noise, and with so much of it announced that nothing else corrects the estimate."""
    monkeypatch.setattr(session, "rounded_normal", lambda _, sigma, size: np.zeros(size, int))
    n, d = 20_000, 100
    truth = correlated("block", d, 5)
    X = gaussian_records(truth, n, random_state=8)
    parameters = parameters_of(n, d, d, epsilon=1e-3, n_levels=0, norm_factor=norm_factor)
    release = released(X, parameters)
    covariance, shrinkage = release.covariance(), release.parameters["shrinkage"]
    assert 0.9 * min(1.0, norm_factor) < shrinkage <= 1
    pairs = np.triu(truth != 0, 1)
    assert abs(slope(covariance, truth, pairs) - 1) < 0.03
    assert abs(np.trace(covariance) / d - 1) < 0.03
