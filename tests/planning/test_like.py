"""Predictions from an earlier release."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.accounting import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.planning import forecast_like
from hushcov.planning.like import earlier_release
from hushcov.simulate import gaussian_records, sparse_covariance

BLOCK = sparse_covariance("block", 60, 5)
FACTOR = np.full((30, 30), 0.4) + 0.6 * np.eye(30)


def fitted(truth, n, seed=0, **options):
    X = gaussian_records(truth, n, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=seed, **options)
        return est.fit(X)


@pytest.fixture(scope="module")
def block():
    return fitted(BLOCK, 30_000)


@pytest.fixture(scope="module")
def factor():
    return fitted(FACTOR, 20_000)


def test_its_own_size_has_about_its_own_error_estimate(block, factor):
    for est in (block, factor):
        same = forecast_like(est.release_)
        assert (same.n_records, same.epsilon, same.delta) == (est.n_records_, 1.0, 1e-6)
        assert same.error >= 0.99 * est.error_estimate_.error
        assert same.error < 2 * est.error_estimate_.error
        assert same.noise_sd == pytest.approx(est.release_.noise_sd[0])


def test_more_records_and_more_budget_help_and_are_worth_the_same(block, factor):
    for est in (block, factor):
        errors = [forecast_like(est.release_, n).error for n in (10_000, 30_000, 100_000)]
        assert errors[0] > errors[1] > errors[2]
        small = forecast_like(est.release_, epsilon=0.3)
        ratio = calibrate_gaussian(1.0, 1e-6) / calibrate_gaussian(0.3, 1e-6)
        assert small.noise_sd == pytest.approx(ratio * est.release_.noise_sd[0])
        assert small.error > forecast_like(est.release_).error


@pytest.mark.parametrize(("truth", "n"), [(BLOCK, 100_000), (FACTOR, 60_000)])
def test_what_is_measured_later_is_inside(truth, n, block, factor):
    """The median of three seeded fits; of twelve, ten were inside by themselves."""
    before = block if truth is BLOCK else factor
    found = forecast_like(before.release_, n)
    after = [fitted(truth, n, seed=seed).covariance_ for seed in (5, 6, 7)]
    error = np.median([operator_norm_error(each, truth) for each in after]) / operator_norm(truth)
    assert found.least <= error <= found.most
    assert found.least <= found.error <= found.most


def test_hopeless_sizes_have_the_error_of_zeros(factor):
    assert forecast_like(factor.release_, 20).error == 1.0


def test_sparse_releases_are_predicted_like_dense_ones(block):
    sparse = fitted(BLOCK, 30_000, sparse_output=True)
    found = forecast_like(sparse.release_, 100_000)
    assert found.least < found.error < 0.2
    assert found.noise_sd < sparse.release_.noise_sd[0]


def test_releases_of_other_mechanisms_can_be_used():
    X = gaussian_records(FACTOR, 20_000, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = GaussianCovariance(epsilon=1.0, delta=1e-6, random_state=1).fit(X)
    earlier = earlier_release(est.release_)
    assert earlier.missed == 0.0
    assert earlier.forecast(200_000).error < earlier.forecast(20_000).error < 0.2


def test_predictions_are_the_same_every_time_and_json_ready(factor):
    one, other = (forecast_like(factor.release_, 50_000).to_dict() for _ in range(2))
    assert one == other
    assert list(one)[:4] == ["n_records", "epsilon", "delta", "predicted_error"]


def test_refusals(factor):
    with pytest.raises(ParameterError, match="one noise level"):
        forecast_like(replace(factor.release_, noise_sd=None))
    with pytest.raises(ParameterError, match="n_records must"):
        forecast_like(factor.release_, 0)
    with pytest.raises(ParameterError, match="epsilon must"):
        forecast_like(factor.release_, epsilon=-1.0)
    with pytest.raises(ParameterError, match="delta must"):
        forecast_like(factor.release_, delta=0.0)
