"""`MultiscaleCovariance` with the theorem's constants: when it fits, and what it then offers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from estimators.stand_ins import RepeatedRecords, UntouchableRecords
from hushcov import MultiscaleCovariance
from hushcov.exceptions import (
    ParameterError,
    PrivacyConditionError,
    PrivacyWarning,
    SeededNoiseWarning,
)
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance, wishart_moments
from hushcov.sums.gram import second_moments
from hushcov.sums.statistics import Statistics
from hushcov.tables.sources import ArrayRecords

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


def test_parameters_are_stored_as_given_and_cloned():
    given = {
        **BUDGET,
        "target_error": 0.1,
        "failure_probability": 0.05,
        "constants": "theorem",
        "store_precision": False,
        "assume_centered": False,
        "random_state": 7,
    }
    estimator = MultiscaleCovariance(**given)
    assert given.items() <= estimator.get_params().items()
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(epsilon=0.5).epsilon == 0.5
    defaults = MultiscaleCovariance().get_params()
    assert [defaults[name] for name in BUDGET] == [None] * 4
    assert (defaults["target_error"], defaults["failure_probability"]) == (0.25, 0.1)
    assert defaults["constants"] == "theorem"
    assert defaults["store_precision"]
    assert defaults["assume_centered"]
    with pytest.raises(TypeError):
        MultiscaleCovariance(1.0)


@pytest.mark.parametrize("name", BUDGET)
def test_missing_parameters_raise_in_fit_and_not_before(name):
    estimator = MultiscaleCovariance(**{**BUDGET, name: None})
    for attempt in (
        lambda: estimator.fit(UntouchableRecords(10**9, 2)),
        lambda: estimator.fit(np.eye(3)),
        lambda: estimator.fit_statistics(wishart_moments(np.eye(2), 10**9)),
    ):
        with pytest.raises(ParameterError, match=f"{name} is required"):
            attempt()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", 1.5),
        ("delta", 0.2),
        ("row_sparsity", 3),
        ("scale", -1),
        ("target_error", 0.3),
        ("failure_probability", 0.5),
        ("constants", "guess"),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_raise_before_any_record_is_read(name, value):
    estimator = MultiscaleCovariance(**{**INSIST, name: value})
    with pytest.raises(ParameterError, match=name) as info:
        estimator.fit(UntouchableRecords(10**9, 2))
    assert repr(value) in str(info.value)


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


def test_a_fit_is_the_release_of_the_integer_moments():
    first = fit_seeded(seeded(), LARGE)
    moments = second_moments(LARGE, first.grid(10**9, 2))
    second = seeded()
    with pytest.warns(SeededNoiseWarning):
        second.fit_statistics(moments)
    np.testing.assert_array_equal(first.release_.integers, second.release_.integers)


def test_a_seed_reproduces_warns_and_is_not_private():
    first, second = fit_seeded(seeded(), LARGE), fit_seeded(seeded(), LARGE)
    np.testing.assert_array_equal(first.covariance_, second.covariance_)
    assert not first.release_.guarantee.private
    assert "NOT PRIVATE" in str(first.release_.guarantee)
    other = fit_seeded(seeded(random_state=1), LARGE)
    assert not np.array_equal(first.covariance_, other.covariance_)


def test_private_fits_are_silent_and_differ():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        fits = [MultiscaleCovariance(**INSIST).fit(LARGE).release_.integers for _ in range(2)]
    assert not np.array_equal(*fits)


def test_refused_fits_leave_an_earlier_release_alone(fitted):
    estimator = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(PrivacyConditionError):
        estimator.fit(UntouchableRecords(1000, 2))
    np.testing.assert_array_equal(estimator.covariance_, fitted.covariance_)


def test_simulated_statistics_run_at_the_size_of_the_theorem(at_theorem_size):
    estimator, truth = at_theorem_size
    assert operator_norm_error(estimator.covariance_, truth) < 0.25 / 20
    np.testing.assert_array_equal(estimator.support_, truth != 0)
    assert not estimator.release_.guarantee.private  # simulated moments protect nobody
    assert estimator.n_features_in_ == 20


def test_integer_statistics_run_at_the_size_of_the_theorem():
    """A small exact Gram matrix scaled up stands for the rows repeated."""
    estimator = MultiscaleCovariance(**INSIST)
    n = 2 * 10**9
    grid = estimator.grid(n, 2)
    small = second_moments(ArrayRecords(BLOCK), grid)
    estimator.fit_statistics(Statistics(small.gram * (n // 1000), n, small.record_map))
    assert estimator.release_.guarantee.private
    assert operator_norm_error(estimator.covariance_, small.covariance()) < 0.25 / 20


def test_what_comes_with_an_empirical_covariance_works(at_theorem_size):
    estimator, truth = at_theorem_size
    X = gaussian_records(truth, 200, random_state=5)
    precision = estimator.get_precision()
    np.testing.assert_allclose(precision @ estimator.covariance_, np.eye(20), atol=1e-8)
    distances = estimator.mahalanobis(X)
    np.testing.assert_allclose(distances, np.einsum("ij,jk,ik->i", X, precision, X))
    log_likelihood = -0.5 * (
        distances.mean() + np.linalg.slogdet(estimator.covariance_)[1] + 20 * np.log(2 * np.pi)
    )
    assert estimator.log_likelihood(X) == pytest.approx(log_likelihood)
    spectral = operator_norm_error(estimator.covariance_, truth)
    unscaled = estimator.error_norm(truth, norm="spectral", scaling=False, squared=False)
    assert unscaled == pytest.approx(spectral)


def test_precision_is_computed_on_demand_when_not_stored():
    moments = wishart_moments(np.diag([1.0, 0.5]), 10**9)
    estimator = MultiscaleCovariance(**INSIST, store_precision=False).fit_statistics(moments)
    assert estimator.precision_ is None
    np.testing.assert_allclose(estimator.get_precision(), np.linalg.inv(estimator.covariance_))


def test_fitted_estimators_survive_pickling(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.covariance_, fitted.covariance_)
    assert copy.release_.guarantee == fitted.release_.guarantee
