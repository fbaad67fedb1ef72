"""scikit-learn estimators: they validate, call a mechanism and store what it released."""

from hushcov.estimators.multiscale import MultiscaleCovariance

__all__ = ["MultiscaleCovariance"]
