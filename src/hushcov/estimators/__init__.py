"""Estimators in scikit-learn's convention: validate, plan, call a mechanism, store its release.

Each is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushcov.estimators.gaussian import GaussianCovariance
    from hushcov.estimators.genotypes import GenotypeCovariance
    from hushcov.estimators.multiscale import MultiscaleCovariance
    from hushcov.estimators.peers import (
        CoinPressCovariance,
        EigenSamplingCovariance,
        RowTopKCovariance,
        SeparateCovariance,
    )
    from hushcov.estimators.screened import ScreenedCovariance
    from hushcov.estimators.sparse import PrivateSparseCovariance
    from hushcov.estimators.thresholded import ThresholdedCovariance

_MODULES = {
    "CoinPressCovariance": "peers",
    "EigenSamplingCovariance": "peers",
    "GaussianCovariance": "gaussian",
    "GenotypeCovariance": "genotypes",
    "MultiscaleCovariance": "multiscale",
    "PrivateSparseCovariance": "sparse",
    "RowTopKCovariance": "peers",
    "ScreenedCovariance": "screened",
    "SeparateCovariance": "peers",
    "ThresholdedCovariance": "thresholded",
}

__all__ = [
    "CoinPressCovariance",
    "EigenSamplingCovariance",
    "GaussianCovariance",
    "GenotypeCovariance",
    "MultiscaleCovariance",
    "PrivateSparseCovariance",
    "RowTopKCovariance",
    "ScreenedCovariance",
    "SeparateCovariance",
    "ThresholdedCovariance",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"hushcov.estimators.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'hushcov.estimators' has no attribute {name!r}")
