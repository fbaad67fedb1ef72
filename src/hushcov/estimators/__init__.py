"""Estimators in scikit-learn's convention: validate, call a mechanism, store its release."""

from hushcov.estimators.gaussian import GaussianCovariance
from hushcov.estimators.multiscale import MultiscaleCovariance
from hushcov.estimators.screened import ScreenedCovariance
from hushcov.estimators.sparse import PrivateSparseCovariance

__all__ = [
    "GaussianCovariance",
    "MultiscaleCovariance",
    "PrivateSparseCovariance",
    "ScreenedCovariance",
]
