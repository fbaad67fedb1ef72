"""Estimators in scikit-learn's convention: validate, call a mechanism, store its release."""

from hushcov.estimators.multiscale import MultiscaleCovariance
from hushcov.estimators.screened import ScreenedCovariance

__all__ = ["MultiscaleCovariance", "ScreenedCovariance"]
