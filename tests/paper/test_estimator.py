"""`MultiscaleCovariance`, with the theorem's constants and with calibrated ones."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from estimators.stand_ins import RepeatedRecords, UntouchableRecords
from hushcov import MultiscaleCovariance
from hushcov.exceptions import (
    AccuracyWarning,
    DataError,
    HopelessError,
    HushcovError,
    ParameterError,
    PrivacyConditionError,
    SeededNoiseWarning,
)
from hushcov.metrics import operator_norm_error
from hushcov.paper import estimator as multiscale
from hushcov.simulate import SimulatedMoments, gaussian_records, sparse_covariance, wishart_moments
from statistics_helpers import short_and_long

BUDGET = {"epsilon": 1.0, "delta": 0.1, "row_sparsity": 1, "scale": 1.0}
# delta is far above 1 / n at the numbers of records that the theorem needs: insisted on here.
INSIST = {**BUDGET, "on_large_delta": "warn"}
pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")
# Two independent features; 1e9 records are enough for two features at these parameters.
BLOCK = gaussian_records(np.diag([1.0, 0.5]), 1000, random_state=3)
LARGE = RepeatedRecords(BLOCK, 1_000_000)


def seeded(**changes):
    return MultiscaleCovariance(**{**INSIST, "random_state": 0, **changes})


def fit_seeded(estimator, X):
    with pytest.warns(SeededNoiseWarning):
        return estimator.fit(X)


@pytest.fixture(scope="module")
def fitted():
    """A private fit on a stand-in for a file of 1e9 records."""
    return MultiscaleCovariance(**INSIST).fit(LARGE)


@pytest.fixture(scope="module")
def at_theorem_size():
    """The mechanism at n = 6e10 on a simulated S, d = 20, k = 2."""
    truth = sparse_covariance("block", 20, 2)
    moments = wishart_moments(truth, 60_000_000_000, random_state=1)
    estimator = MultiscaleCovariance(epsilon=1.0, delta=1e-6, row_sparsity=2, scale=1.0)
    return estimator.fit_statistics(moments), truth


def test_too_few_records_are_refused_before_any_is_read():
    estimator = MultiscaleCovariance(**INSIST)
    needed = estimator.public_parameters(1000, 2).smallest_private_n
    for n in (1, 1000, needed - 1):
        with pytest.raises(PrivacyConditionError, match=f"{needed:,}") as info:
            estimator.fit(UntouchableRecords(n, 2))
        assert info.value.smallest_private_n == needed
    assert not hasattr(estimator, "covariance_")
    # With the named number it goes on to read.
    with pytest.raises(AssertionError, match="records were read"):
        estimator.fit(UntouchableRecords(needed, 2))


def test_a_fit_on_records_estimates_their_covariance(fitted):
    truth = BLOCK.T @ BLOCK / len(BLOCK)
    # The off-diagonal sample covariance is below the theorem's target; the error counts it too.
    assert operator_norm_error(fitted.covariance_, truth) < 0.25 / 20
    assert fitted.n_features_in_ == 2
    assert fitted.release_.guarantee.private
    np.testing.assert_array_equal(fitted.support_, fitted.release_.integers != 0)
    np.testing.assert_array_equal(fitted.covariance_, fitted.release_.covariance())
    np.testing.assert_array_equal(fitted.location_, [0, 0])
    assert fitted.parameters_.inputs.n_records == 10**9


def test_simulated_statistics_run_at_the_size_of_the_theorem(at_theorem_size):
    estimator, truth = at_theorem_size
    assert operator_norm_error(estimator.covariance_, truth) < 0.25 / 20
    np.testing.assert_array_equal(estimator.support_, truth != 0)
    assert not estimator.release_.guarantee.private  # simulated moments protect nobody
    assert estimator.n_features_in_ == 20


# With calibrated constants.

TRUTH = sparse_covariance("block", 10, 2)
RECORDS = gaussian_records(TRUTH, 100_000)


def calibrated(**changes):
    settings = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2, "scale": 1.0}
    settings |= {"constants": "calibrated", "reconstruction": "value"}
    return MultiscaleCovariance(**(settings | changes))


@short_and_long("reconstruction", "value", "gate")
def test_a_calibrated_fit_meets_its_prediction(reconstruction):
    fitted = calibrated(reconstruction=reconstruction).fit(RECORDS)
    error = operator_norm_error(fitted.covariance_, TRUTH)
    assert error < 2 * fitted.plan_.predicted_error["block"] < 0.5
    assert fitted.release_.guarantee.private
    assert fitted.release_.guarantee.transcript_epsilon <= 1
    assert set(fitted.plan_.predicted_error) == {"block", "banded", "random", "diagonal"}
    # Nothing of it remains in a fit with the theorem's constants.
    fitted.set_params(constants="theorem", reconstruction="gate")
    fitted.fit_statistics(wishart_moments(TRUTH, 10**14))
    assert not hasattr(fitted, "plan_")


@pytest.mark.parametrize("constants", ["theorem", "calibrated"])
def test_an_unknown_mean_is_refused(constants):
    unknown = calibrated(assume_centered=False, constants=constants)
    with pytest.raises(ParameterError, match=r"assume_centered must be True.*Subtract means"):
        unknown.fit(RECORDS)
    with pytest.raises(ParameterError, match=r"assume_centered must be True.*partial_fit"):
        unknown.partial_fit(RECORDS, total_records=len(RECORDS))


def test_too_few_records_are_said_to_be_too_few():
    with pytest.raises(HopelessError, match=r"too few.*on_hopeless='warn'"):
        calibrated().fit(RECORDS[:20])
    with pytest.warns(AccuracyWarning, match="too few"):
        fitted = calibrated(on_hopeless="warn").fit(RECORDS[:20])
    assert fitted.warnings_ == fitted.release_.warnings == (fitted.plan_.advice,)


def test_values_need_calibrated_constants():
    with pytest.raises(ParameterError, match="reconstruction must"):
        calibrated(constants="theorem").fit(RECORDS)


@pytest.mark.parametrize("moments", [np.eye(2), None, [[1.0, 0.0], [0.0, 1.0]], "moments"])
def test_other_things_than_moments_are_refused(moments):
    with pytest.raises(HushcovError):
        MultiscaleCovariance(**BUDGET).fit_statistics(moments)


@pytest.mark.parametrize(
    "matrix",
    [np.ones((2, 3)), np.array([[73737.0, 1.0], [2.0, 1.0]]), np.full((2, 2), np.nan), np.ones(4)],
    ids=["not square", "not symmetric", "NaN", "one dimension"],
)
def test_simulated_moments_must_be_a_symmetric_matrix(matrix):
    with pytest.raises(DataError) as info:
        SimulatedMoments(matrix, 10**9)
    assert "73737" not in str(info.value)


def test_the_examples_in_the_documentation_run():
    assert doctest.testmod(multiscale).failed == 0
