"""hushcov: sparse covariance estimation under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hushcov._version import __version__

if TYPE_CHECKING:
    from hushcov.candidates import pairs_within
    from hushcov.estimators import (
        GaussianCovariance,
        MultiscaleCovariance,
        PrivateSparseCovariance,
        ScreenedCovariance,
        ThresholdedCovariance,
    )
    from hushcov.estimators.answering import load
    from hushcov.kernel.sums.statistics import Statistics
    from hushcov.ledger import Ledger
    from hushcov.tables.codebook import Codebook, read_codebook

__all__ = [
    "Codebook",
    "GaussianCovariance",
    "Ledger",
    "MultiscaleCovariance",
    "PrivateSparseCovariance",
    "ScreenedCovariance",
    "Statistics",
    "ThresholdedCovariance",
    "__version__",
    "load",
    "pairs_within",
    "read_codebook",
]

_ELSEWHERE = {
    "Codebook": "hushcov.tables.codebook",
    "Ledger": "hushcov.ledger",
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
    if not name.startswith("_"):  # other distributions add estimators
        from hushcov._plugins import installed_plugins, load_plugin, require_plugin

        require_plugin("estimators", name, name)
        if name in installed_plugins("estimators"):
            return load_plugin("estimators", name)
    raise AttributeError(f"module 'hushcov' has no attribute {name!r}")


def __dir__() -> list[str]:
    from hushcov._plugins import installed_plugins

    return sorted({*globals(), *__all__, *installed_plugins("estimators")})
