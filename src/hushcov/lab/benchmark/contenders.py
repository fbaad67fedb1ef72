"""Every estimator of the benchmark: how it is built, what it promises, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from hushcov._validation import shown
from hushcov.exceptions import ParameterError

FloatArray = npt.NDArray[np.float64]

ZERO = "zero"  # the contender that needs no data
NOT_PRIVATE = "not private"
APPROXIMATE, PURE = "(epsilon, delta)", "pure epsilon"
_NOISE = 7  # keeps the stream of the noise apart from that of the data


class Estimator(Protocol):
    """What a contender does."""

    covariance_: FloatArray

    def fit(self, X: FloatArray) -> Self:
        """Estimate the covariance of the records."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What every contender is told: the public inputs, and a seed for its noise."""

    n_records: int
    n_features: int
    row_sparsity: int
    epsilon: float
    delta: float
    feature_scale: FloatArray
    seed: int

    def common(self) -> dict[str, Any]:
        """Keyword arguments that all private estimators share."""
        return {
            "epsilon": self.epsilon,
            "row_sparsity": self.row_sparsity,
            "feature_scale": self.feature_scale,
            "assume_centered": True,
            "store_precision": False,
            "random_state": np.random.default_rng([_NOISE, self.seed]),
        }

    def budget(self) -> dict[str, Any]:
        """The same with delta, for estimators that are not pure."""
        # It does not fall with the number of records, and nobody is to be protected.
        return self.common() | {"delta": self.delta, "on_large_delta": "warn"}

    def planned(self) -> dict[str, Any]:
        """The same for estimators that know beforehand what is hopeless, and is measured here."""
        return self.budget() | {"on_hopeless": "warn"}


@dataclass(frozen=True)
class Contender:
    """One line of every figure and table.

    `privacy` is what it promises. `chooses` says that it runs one of the other contenders. Above
    `most_features` a cell is skipped, for the reason `limit`.
    """

    name: str
    title: str
    privacy: str
    build: Callable[[Setting], Estimator]
    chooses: bool = False
    most_features: int | None = None
    limit: str = ""

    @property
    def private(self) -> bool:
        """Whether it makes any promise of privacy."""
        return self.privacy != NOT_PRIVATE

    def refusal(self, n_features: int) -> str | None:
        """Why a cell of this size is skipped; None if it is not."""
        if self.most_features is None or n_features <= self.most_features:
            return None
        return f"at most {self.most_features} features: {self.limit}"


class _ZeroMatrix:
    """The estimate that needs no data."""

    covariance_: FloatArray

    def fit(self, X: FloatArray) -> Self:
        d = X.shape[1]
        self.covariance_ = np.zeros((d, d))
        return self


def _auto(setting: Setting) -> Estimator:
    from hushcov.estimators import PrivateSparseCovariance

    return PrivateSparseCovariance(**setting.planned())


def _screened(setting: Setting) -> Estimator:
    from hushcov.estimators import ScreenedCovariance

    return ScreenedCovariance(**setting.planned())


def _multiscale(setting: Setting) -> Estimator:
    from hushcov.estimators import PrivateSparseCovariance

    return PrivateSparseCovariance(**setting.planned(), mechanism="multiscale")


def _gaussian(threshold: str | None) -> Callable[[Setting], Estimator]:
    def build(setting: Setting) -> Estimator:
        from hushcov.estimators import GaussianCovariance

        return GaussianCovariance(**setting.planned(), threshold=threshold)

    return build


def _row_top_k(setting: Setting) -> Estimator:
    from hushcov.estimators.row_top_k import RowTopKCovariance

    return RowTopKCovariance(**setting.budget())


def _separate(method: str) -> Callable[[Setting], Estimator]:
    def build(setting: Setting) -> Estimator:
        from hushcov.estimators.separate import SeparateCovariance

        return SeparateCovariance(**setting.budget(), method=method)

    return build


def _coinpress(setting: Setting) -> Estimator:
    from hushcov.estimators.coinpress import CoinPressCovariance

    return CoinPressCovariance(**setting.budget())


def _eigen_sampling(setting: Setting) -> Estimator:
    from hushcov.estimators.eigen_sampling import EigenSamplingCovariance

    return EigenSamplingCovariance(**setting.common())


def _thresholded(setting: Setting) -> Estimator:
    from hushcov.estimators.thresholded import ThresholdedCovariance

    return ThresholdedCovariance(
        rule="hard", threshold="adaptive", assume_centered=True, store_precision=False
    )


def _empirical(setting: Setting) -> Estimator:
    from sklearn.covariance import EmpiricalCovariance

    estimator: Estimator = EmpiricalCovariance(assume_centered=True, store_precision=False)
    return estimator


_ALL = (
    Contender("auto", "hushcov, automatic choice", APPROXIMATE, _auto, chooses=True),
    Contender("screened", "screened", APPROXIMATE, _screened),
    Contender("gaussian-threshold", "Gaussian + threshold", APPROXIMATE, _gaussian("universal")),
    Contender("gaussian", "Gaussian", APPROXIMATE, _gaussian(None)),
    Contender("multiscale", "multiscale", APPROXIMATE, _multiscale),
    Contender("row-top-k", "row top-k (Kumar et al.)", APPROXIMATE, _row_top_k),
    Contender("separate", "SeparateCov (Dong et al.)", APPROXIMATE, _separate("separate")),
    Contender("adaptive", "AdaptiveCov (Dong et al.)", APPROXIMATE, _separate("adaptive")),
    Contender("coinpress", "CoinPress", APPROXIMATE, _coinpress),
    Contender(
        "eigen-sampling",
        "eigenvector sampling (Amin et al.)",
        PURE,
        _eigen_sampling,
        most_features=200,
        limit="its time grows with the fourth power of their number, to minutes at 1,000.",
    ),
    Contender("thresholded", "not private, thresholded", NOT_PRIVATE, _thresholded),
    Contender("empirical", "not private, empirical", NOT_PRIVATE, _empirical),
    Contender(ZERO, "zero matrix", NOT_PRIVATE, lambda setting: _ZeroMatrix()),
)

#: Every contender by name, in the order of tables and legends.
CONTENDERS: dict[str, Contender] = {contender.name: contender for contender in _ALL}


def check_contenders(names: Sequence[str]) -> tuple[str, ...]:
    """Return the contenders named, in the order of the registry, or raise `ParameterError`."""
    known = ", ".join(CONTENDERS)
    if not names:
        raise ParameterError(f"contenders must name at least one of {known}.")
    for name in names:
        if name not in CONTENDERS:
            raise ParameterError(
                f"contenders must be among {known}, got {shown(name)}: write them with commas."
            )
    return tuple(name for name in CONTENDERS if name in names)
