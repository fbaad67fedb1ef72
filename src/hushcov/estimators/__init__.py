"""Estimators in scikit-learn's convention: validate, call a mechanism, store its release."""

from hushcov.estimators.coinpress import CoinPressCovariance
from hushcov.estimators.eigen_sampling import EigenSamplingCovariance
from hushcov.estimators.gaussian import GaussianCovariance
from hushcov.estimators.multiscale import MultiscaleCovariance
from hushcov.estimators.row_top_k import RowTopKCovariance
from hushcov.estimators.screened import ScreenedCovariance
from hushcov.estimators.separate import SeparateCovariance
from hushcov.estimators.sparse import PrivateSparseCovariance
from hushcov.estimators.thresholded import ThresholdedCovariance

__all__ = [
    "CoinPressCovariance",
    "EigenSamplingCovariance",
    "GaussianCovariance",
    "MultiscaleCovariance",
    "PrivateSparseCovariance",
    "RowTopKCovariance",
    "ScreenedCovariance",
    "SeparateCovariance",
    "ThresholdedCovariance",
]
