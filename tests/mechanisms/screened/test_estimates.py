"""Accuracy of the assembled estimate, against errors stated beforehand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.mechanisms.screened import values
from hushcov.simulate import gaussian_records, sparse_covariance
from mechanisms.screened.settings import parameters_of, released

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
    monkeypatch.setattr(values, "rounded_normal", lambda _, sigma, size: np.zeros(size, int))
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


@pytest.mark.parametrize("norm_factor", [0.8, 2.0])
def test_heavy_tails_are_corrected_by_the_size_of_the_records(norm_factor):
    """Elliptical t with 5 degrees: trace and pairs within 10 % of the truth."""
    n, d = 40_000, 200
    truth = correlated("block", d, 5)
    random = np.random.default_rng(2)
    X = gaussian_records(truth, n, random_state=2)
    X *= np.sqrt(3 / random.chisquare(5, n))[:, None]
    release = released(X, parameters_of(n, d, 5, epsilon=2.0, norm_factor=norm_factor))
    covariance = release.covariance()
    found = np.triu(truth != 0, 1) & release.released
    assert 0.9 < np.trace(covariance) / d < 1.1
    assert 0.9 < slope(covariance, truth, found) < 1.1


def test_scales_that_are_wrong_by_a_factor_change_the_noise_and_not_the_estimate():
    n, d = 20_000, 30
    truth = correlated("block", d, 3)
    units = np.geomspace(1e-6, 1e6, d)
    X = gaussian_records(truth, n, random_state=3) * units
    scale = units * np.where(np.arange(d) % 2, 0.7, 1.4)
    parameters = parameters_of(n, d, 3, epsilon=5.0, norm_factor=2.0)
    release = released(X, parameters, scale=scale)
    correlation = release.covariance() / np.multiply.outer(units, units)
    deviation = max(release.noise_sd) * 1.4**2 + math.sqrt(2 / n)
    errors = np.abs(correlation - truth)[release.released]
    assert release.released[truth != 0].all()
    assert errors.max() < 0.05 + SIX_DEVIATIONS * deviation


def test_constant_features_are_zero_and_disturb_nobody():
    n, d = 20_000, 40
    truth = correlated("block", d, 4)
    X = gaussian_records(truth, n, random_state=4)
    X[:, 8:12] = 0.0
    scale = np.ones(d)
    scale[8:12] = 0.0
    release = released(X, parameters_of(n, d, 4, epsilon=3.0, norm_factor=2.0), scale=scale)
    covariance = release.covariance()
    assert (covariance[8:12] == 0).all()
    assert (covariance[:, 8:12] == 0).all()
    others = np.ones(d, dtype=bool)
    others[8:12] = False
    there = np.multiply.outer(others, others) & (truth != 0)
    assert release.released[there].all()
    deviation = max(release.noise_sd) + math.sqrt(2 / n)
    assert np.abs(covariance - truth)[there].max() < SIX_DEVIATIONS * deviation


def test_duplicated_columns_have_correlation_one():
    n, d = 20_000, 40
    X = np.random.default_rng(5).standard_normal((n, d))
    X[:, 1::2] = X[:, ::2]
    X[:, 3] *= -1
    release = released(X, parameters_of(n, d, 2, epsilon=3.0, norm_factor=2.0))
    covariance = release.covariance()
    expected = np.ones(d // 2)
    expected[1] = -1
    found = covariance[np.arange(0, d, 2), np.arange(1, d, 2)]
    deviation = release.noise_sd[0] + math.sqrt(2 / n)
    assert np.abs(found - expected).max() < 0.02 + SIX_DEVIATIONS * deviation


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (2, 2), (6, 6), (6, 1)])
def test_few_features_all_pairs_or_none(d, k):
    n = 50_000
    truth = np.full((d, d), 0.5) + 0.5 * np.eye(d)
    X = gaussian_records(truth, n, random_state=6)
    release = released(X, parameters_of(n, d, k, epsilon=3.0, norm_factor=4.0))
    covariance = release.covariance()
    deviation = max(release.noise_sd) + math.sqrt(2 / n)
    expected = truth if k > 1 else np.eye(d)
    # Few features have heavy-tailed products: shrinking the largest costs a few percent.
    assert np.abs(covariance - expected).max() < 0.06 + SIX_DEVIATIONS * deviation


def test_more_records_come_closer():
    truth = correlated("random", 50, 3)
    errors = []
    for n in (2_000, 8_000, 32_000):
        X = gaussian_records(truth, n, random_state=7)
        covariance = released(X, parameters_of(n, 50, 3, norm_factor=1.5)).covariance()
        errors.append(np.sqrt(np.mean((covariance - truth) ** 2)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
