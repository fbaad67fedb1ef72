"""hushcov: sparse covariance estimation under differential privacy."""

from hushcov._version import __version__
from hushcov.estimators import MultiscaleCovariance

__all__ = ["MultiscaleCovariance", "__version__"]
