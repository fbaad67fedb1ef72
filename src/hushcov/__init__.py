"""hushcov: sparse covariance estimation under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hushcov._version import __version__

if TYPE_CHECKING:
    from hushcov.candidates import pairs_within
    from hushcov.estimators import (
        CoinPressCovariance,
        EigenSamplingCovariance,
        GaussianCovariance,
        GenotypeCovariance,
        MultiscaleCovariance,
        PaceCovariance,
        PrivateSparseCovariance,
        RowTopKCovariance,
        ScreenedCovariance,
        SeparateCovariance,
        ThresholdedCovariance,
    )
    from hushcov.estimators.answering import load
    from hushcov.kernel.accounting.ledger import Ledger
    from hushcov.kernel.sums.statistics import Statistics
    from hushcov.tables.codebook import Codebook, read_codebook

__all__ = [
    "Codebook",
    "CoinPressCovariance",
    "EigenSamplingCovariance",
    "GaussianCovariance",
    "GenotypeCovariance",
    "Ledger",
    "MultiscaleCovariance",
    "PaceCovariance",
    "PrivateSparseCovariance",
    "RowTopKCovariance",
    "ScreenedCovariance",
    "SeparateCovariance",
    "Statistics",
    "ThresholdedCovariance",
    "__version__",
    "load",
    "pairs_within",
    "read_codebook",
]

_ELSEWHERE = {
    "Codebook": "hushcov.tables.codebook",
    "Ledger": "hushcov.kernel.accounting.ledger",
    "Statistics": "hushcov.kernel.sums.statistics",
    "load": "hushcov.estimators.answering",
    "pairs_within": "hushcov.candidates",
    "read_codebook": "hushcov.tables.codebook",
}


def __getattr__(name: str) -> Any:
    # Estimators load scikit-learn and the compiler; what does not need them should start at once.
    if name in __all__:
        module = _ELSEWHERE.get(name, "hushcov.estimators")
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'hushcov' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
