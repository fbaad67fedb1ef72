"""scikit-learn's own checks: every one of them passes, but for two that call `partial_fit`.

What these two check is checked in `test_partial_fit.py`, with the public inputs they do not pass.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.planning import comparison

WARN = {"on_hopeless": "warn", "on_large_delta": "warn"}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2, **WARN}
PARTIAL_FIT = {
    "check_fit_score_takes_y": "calls partial_fit after fit, which has released: refused",
    "check_n_features_in_after_fitting": "calls partial_fit without total_records: refused",
}


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    """The multiscale search takes seconds at each of the checks' sizes: its rough forecast does."""
    monkeypatch.setattr(comparison, "_ROUGH_MARGIN", 0.0)


# The checks set a seed, and their data are far too few for an accurate release, or for a delta of
# 0.1: all is said.
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")
@parametrize_with_checks(
    [
        GaussianCovariance(**BUDGET),
        GaussianCovariance(**BUDGET, threshold="universal", assume_centered=True),
        ScreenedCovariance(**BUDGET),
        ScreenedCovariance(**BUDGET, screen="clipped", norm_bound="quantile", feature_scale=1.0),
        PrivateSparseCovariance(**BUDGET, mechanism="screened"),
        # A budget with which another mechanism than the multiscale one is the best.
        PrivateSparseCovariance(
            epsilon=10.0, delta=0.1, row_sparsity=2, assume_centered=True, **WARN
        ),
    ],
    expected_failed_checks=lambda est: PARTIAL_FIT if hasattr(est, "partial_fit") else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
