"""How close fits come, with fixed seeds: to the truth, to their prediction, and to each other."""

import functools
import math

import numpy as np
import pytest

from estimators.settings import correlations, fit, make
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.fit import REFERENCE_MODELS, default_mechanism, predicted
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.simulate import gaussian_records

K = 5
KNOWN = {"feature_scale": 1.0, "assume_centered": True}
LEAN = {"row_sparsity": K}


@functools.cache
def records(model, d, n, seed=0):
    return gaussian_records(correlations(model, d, K), n, random_state=seed)


def relative_error(estimator, truth):
    return operator_norm_error(estimator.covariance_, truth) / operator_norm(truth)


# Twice the errors measured when this was written.
@pytest.mark.parametrize(
    ("cls", "d", "bound"),
    [
        (GaussianCovariance, 50, 0.13),
        (ScreenedCovariance, 50, 0.1),
        pytest.param(ScreenedCovariance, 200, 0.16, marks=pytest.mark.slow),
        pytest.param(PrivateSparseCovariance, 200, 0.16, marks=pytest.mark.slow),
    ],
)
def test_errors_are_below_their_bounds(cls, d, bound):
    """20,000 records of unknown mean and scales."""
    changes = {"threshold": "universal"} if cls is GaussianCovariance else {}
    estimator = fit(make(cls, **LEAN, **changes), records("block", d, 20_000) * 3.0 + 5.0)
    truth = 9 * correlations("block", d, K)
    assert relative_error(estimator, truth) < bound
    found, true = support_recovery(estimator.covariance_, truth)
    assert min(found, true) > 0.9


def test_the_default_is_run_and_all_forecasts_are_shown():
    estimator = fit(make(PrivateSparseCovariance, **LEAN, **KNOWN), records("block", 50, 20_000))
    plan = estimator.plan_
    errors = [forecast.typical_error for forecast in plan.forecasts]
    assert errors == sorted(errors)
    assert {forecast.mechanism for forecast in plan.forecasts} == set(predicted())
    assert estimator.mechanism_ == default_mechanism().name == estimator.release_.mechanism
    chosen = next(each for each in plan.forecasts if each.mechanism == estimator.mechanism_)
    assert estimator.detection_limit_ == chosen.detection_limit
    assert chosen.typical_error < 1.4 * plan.best.typical_error
    assert plan == estimator.plan(20_000, 50)  # which needs no data
    assert plan.inputs == estimator._public_inputs(20_000, 50)
    for name in (*predicted(), "n = 20,000", "d = 50", "k = 5"):
        assert name in str(plan)
    estimator = fit(make(ScreenedCovariance, **LEAN, **KNOWN), records("block", 50, 20_000))
    plan = estimator.plan_
    assert plan == estimator.plan(20_000, 50)
    assert set(plan.predicted_error) == set(REFERENCE_MODELS)
    assert estimator.detection_limit_ == plan.detection_limit
    assert 0 < plan.detection_limit < 0.1
    assert np.count_nonzero(np.triu(estimator.selected_, 1)) == plan.parameters.n_pairs
    assert plan.parameters.inputs == estimator._public_inputs(20_000, 50)
    design = estimator.release_.parameters["design"]
    assert design["keep_above"] == plan.parameters.design.keep_above


def test_thresholds_of_the_screened_estimator_count_deviations():
    X = records("random", 50, 5_000)
    everything = fit(make(ScreenedCovariance, threshold=None, **LEAN, **KNOWN), X)
    same = fit(make(ScreenedCovariance, threshold=0, **LEAN, **KNOWN), X)
    np.testing.assert_array_equal(everything.covariance_, same.covariance_)
    np.testing.assert_array_equal(everything.support_, everything.selected_)
    limits = [everything.detection_limit_]
    for number in (2.0, 10):
        estimator = fit(make(ScreenedCovariance, threshold=number, **LEAN, **KNOWN), X)
        np.testing.assert_array_equal(estimator.release_.integers, everything.release_.integers)
        deviation = math.hypot(estimator.release_.noise_sd[0], 1 / math.sqrt(5_000))
        kept = np.abs(everything.covariance_) > number * deviation
        np.testing.assert_array_equal(estimator.support_, kept | np.eye(50, dtype=bool))
        assert estimator.plan_.parameters.design.keep_above == number
        limits.append(estimator.detection_limit_)
    assert limits == sorted(limits)
    assert limits[-1] > 2 * limits[0]  # the plan knows of the threshold


def test_thresholds_of_the_gaussian_estimator_are_correlations():
    d, n = 50, 5_000
    X = records("random", d, n) * 7.0
    changes = LEAN | KNOWN | {"feature_scale": 7.0}
    everything = fit(make(GaussianCovariance, **changes), X)
    assert everything.support_.all()
    assert everything.detection_limit_ is None
    for number in (0.05, 0.3, "universal"):
        estimator = fit(make(GaussianCovariance, threshold=number, **changes), X)
        deviation = math.hypot(estimator.parameters_.noise_sd, 1 / math.sqrt(n))
        limit = deviation * math.sqrt(2 * math.log(d * (d - 1) / 2))
        limit = limit if number == "universal" else number
        kept = np.abs(everything.covariance_) > limit * 49
        np.testing.assert_array_equal(estimator.support_, kept | np.eye(d, dtype=bool))
        reported = 2 * (limit + 1.2816 * deviation)
        assert estimator.detection_limit_ == pytest.approx(reported, rel=1e-3)
    beyond = fit(make(GaussianCovariance, threshold=1e300, **changes), X)
    np.testing.assert_array_equal(beyond.support_, np.eye(d, dtype=bool))
    assert beyond.detection_limit_ == 1.0
