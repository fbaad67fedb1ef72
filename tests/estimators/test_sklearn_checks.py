"""scikit-learn's own checks of an estimator, once for each class."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import hushcov
import hushcov.paper.estimator
from estimators.settings import BUDGET

pytestmark = pytest.mark.usefixtures("no_search")

WARN = {"on_hopeless": "warn", "on_large_delta": "warn"}
ESTIMATORS = [
    # A budget with which another mechanism than the multiscale one is the best; a known mean.
    hushcov.PrivateSparseCovariance(
        epsilon=10.0, delta=0.1, row_sparsity=2, assume_centered=True, **WARN
    ),
    hushcov.GaussianCovariance(**BUDGET, **WARN),
]
OTHERS = [
    hushcov.ScreenedCovariance(**BUDGET, **WARN),
    hushcov.ThresholdedCovariance(),
    hushcov.MultiscaleCovariance(
        **BUDGET | WARN | {"row_sparsity": 1},
        scale=1.0,
        constants="calibrated",
        reconstruction="value",
    ),
    hushcov.RowTopKCovariance(**BUDGET, **WARN),
    hushcov.PaceCovariance(**BUDGET, **WARN),
    hushcov.SeparateCovariance(**BUDGET, **WARN),
    hushcov.CoinPressCovariance(**BUDGET, **WARN),
    hushcov.EigenSamplingCovariance(epsilon=1.0, feature_scale=1.0, assume_centered=True),
]
WEIGHTS = dict.fromkeys(
    (
        *("check_sample_weights_pandas_series", "check_sample_weights_not_an_array"),
        *("check_sample_weights_list", "check_all_zero_sample_weights_error"),
        *("check_sample_weights_shape", "check_sample_weights_not_overwritten"),
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",  # asked by scikit-learn 1.6 alone
    ),
    "passes sample_weight without max_sample_weight, which is public and never taken from it",
)
PARTIAL_FIT = {
    "check_fit_score_takes_y": "calls partial_fit after fit, which has released: refused",
    "check_n_features_in_after_fitting": "calls partial_fit without total_records: refused",
}


def test_every_class_is_checked():
    exported = {name for name in dir(hushcov) if name.endswith("Covariance")}
    exported -= {"GenotypeCovariance"}  # it takes 0, 1 and 2 alone, and the checks take any numbers
    assert {type(estimator).__name__ for estimator in ESTIMATORS + OTHERS} == exported


def expected_failed_checks(estimator):
    return WEIGHTS | (PARTIAL_FIT if hasattr(estimator, "partial_fit") else {})


# The checks set a seed, and their data are far too few for an accurate release, or for a delta of
# 0.1: all is said.
def all_is_said(test):
    for category in ("SeededNoiseWarning", "AccuracyWarning", "PrivacyWarning"):
        test = pytest.mark.filterwarnings(f"ignore::hushcov.exceptions.{category}")(test)
    return test


@all_is_said
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@all_is_said
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)
