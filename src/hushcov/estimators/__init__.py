"""Estimators in scikit-learn's convention: validate, plan, call a mechanism, store its release.

Each is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushcov.estimators.gaussian import GaussianCovariance, ScreenedCovariance
    from hushcov.estimators.sparse import PrivateSparseCovariance
    from hushcov.estimators.thresholded import ThresholdedCovariance
    from hushcov.genotypes.estimator import GenotypeCovariance
    from hushcov.paper.estimator import MultiscaleCovariance
    from hushcov.peers.estimators import (
        CoinPressCovariance,
        EigenSamplingCovariance,
        PaceCovariance,
        RowTopKCovariance,
        SeparateCovariance,
    )

_MODULES = {
    "CoinPressCovariance": "peers.estimators",
    "EigenSamplingCovariance": "peers.estimators",
    "GaussianCovariance": "estimators.gaussian",
    "GenotypeCovariance": "genotypes.estimator",
    "MultiscaleCovariance": "paper.estimator",
    "PaceCovariance": "peers.estimators",
    "PrivateSparseCovariance": "estimators.sparse",
    "RowTopKCovariance": "peers.estimators",
    "ScreenedCovariance": "estimators.gaussian",
    "SeparateCovariance": "peers.estimators",
    "ThresholdedCovariance": "estimators.thresholded",
}

__all__ = [
    "CoinPressCovariance",
    "EigenSamplingCovariance",
    "GaussianCovariance",
    "GenotypeCovariance",
    "MultiscaleCovariance",
    "PaceCovariance",
    "PrivateSparseCovariance",
    "RowTopKCovariance",
    "ScreenedCovariance",
    "SeparateCovariance",
    "ThresholdedCovariance",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"hushcov.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'hushcov.estimators' has no attribute {name!r}")
