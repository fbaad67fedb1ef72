"""Every estimator of the benchmark: how it is built, drawn, what it promises and cannot do."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance

import hushcov
from hushcov._arrays import FloatArray
from hushcov._validation import shown
from hushcov.exceptions import ParameterError
from hushcov.fit import mechanisms
from hushcov.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from hushcov_lab.benchmark.cells import DELTA, Point
from hushcov_lab.peers.separate import NAME as SEPARATE

ZERO = "zero"  # the contender that needs no data
NOT_PRIVATE = "not private"
APPROXIMATE, PURE = "(epsilon, delta)", "pure epsilon"
_NOISE = 7  # keeps the stream of the noise apart from that of the data


class Estimator(Protocol):
    """Interface of a contender."""

    covariance_: FloatArray

    def fit(self, X: FloatArray) -> Self:
        """Estimate the covariance of the records."""


@dataclass(frozen=True, eq=False)
class ContenderSetting:
    """Public inputs that every contender gets, and a seed for its noise."""

    point: Point
    feature_scale: FloatArray
    seed: int

    def told(self) -> dict[str, Any]:
        """Keyword arguments of all private estimators; each takes those that it knows."""
        return {
            "epsilon": self.point.epsilon,
            "delta": DELTA,
            "row_sparsity": self.point.row_sparsity,
            "feature_scale": self.feature_scale,
            "assume_centered": True,
            "random_state": np.random.default_rng([_NOISE, self.seed]),
            # delta does not fall with the number of records, and nobody is to be protected.
            "on_large_delta": "warn",
            "on_hopeless": "warn",  # measured all the same
        }


Build = Callable[[ContenderSetting], Estimator]


@dataclass(frozen=True)
class PlotStyle:
    """Colour, marker and line of one contender."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]] = "solid"
    width: float = 1.4

    def plot(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "linewidth": self.width,
            "markersize": 5,
        }


@dataclass(frozen=True)
class Contender:
    """One line of every figure and table.

    `privacy` is what it promises. `chooses` says that it runs one of the other contenders. Above
    `most_features` a cell is skipped, for the reason `limit`.
    """

    name: str
    title: str
    build: Build
    look: PlotStyle
    privacy: str = APPROXIMATE
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
        self.covariance_ = np.zeros((X.shape[1], X.shape[1]))
        return self


def _private(name: str, **options: Any) -> Build:
    """Return a class of `hushcov`; it is imported when it is built."""

    def build(setting: ContenderSetting) -> Estimator:
        kind = getattr(hushcov, name)
        known = inspect.signature(kind).parameters
        told = {key: value for key, value in setting.told().items() if key in known}
        estimator: Estimator = kind(**told, **options)
        return estimator

    return build


# Colours of Okabe and Ito and of Tol, which colour-blind readers can tell apart; markers differ
# too. Grey is not private.
_AUTO = Contender(
    "auto",
    "hushcov, automatic choice",
    _private("PrivateSparseCovariance"),
    PlotStyle(BLUE, "o", width=2.6),
    chooses=True,
)
# Mechanisms in the order of the registry take these, and after the last the first with dashes.
_COLOURS = (
    *(VERMILION, ORANGE, PURPLE, GREEN, "#CC6677", "#999933", "#332288", "#117733"),
    *("#661100", "#44AA99"),
)
_LOOKS = [PlotStyle(SKY, "*", (0, (4, 2)), 1.6), *map(PlotStyle, _COLOURS, "s^DvHPXhpd")]
_LOOKS += [replace(look, line="dashed") for look in _LOOKS]
# Mechanisms that are measured with other options than their usual ones, and under which names.
_VARIANTS = {
    SEPARATE: (
        Contender(
            SEPARATE,
            "SeparateCov (Dong et al.)",
            _private("SeparateCovariance", method="separate"),
            PlotStyle("#882255", "<"),
        ),
        Contender(
            "separate-adaptive",
            "AdaptiveCov (Dong et al.)",
            _private("SeparateCovariance", method="adaptive"),
            PlotStyle("#AA4499", ">", "dashed"),
        ),
    )
}
_CENTRED: Any = {"assume_centered": True}
_WITHOUT_PRIVACY = (
    Contender(
        "thresholded",
        "not private, thresholded",
        lambda _: hushcov.ThresholdedCovariance(threshold="adaptive", **_CENTRED),
        PlotStyle("0.35", ".", "dotted"),
        NOT_PRIVATE,
    ),
    Contender(
        "empirical",
        "not private, empirical",
        lambda _: EmpiricalCovariance(**_CENTRED),
        PlotStyle("0.6", ".", "dotted"),
        NOT_PRIVATE,
    ),
    Contender(
        ZERO,
        "zero matrix",
        lambda _: _ZeroMatrix(),
        PlotStyle("black", "", (0, (6, 3)), 1.0),
        NOT_PRIVATE,
    ),
)


def _contenders() -> Iterator[Contender]:
    """Return the default, every mechanism of the registry, and what is not private."""
    yield _AUTO
    for (name, each), look in zip(mechanisms().items(), itertools.cycle(_LOOKS), strict=False):
        kind, options = each.estimator or ("PrivateSparseCovariance", {"mechanism": name})
        known: Any = {"most_features": each.most_features, "limit": each.limit}
        privacy = PURE if each.pure else APPROXIMATE
        usual = Contender(name, each.title, _private(kind, **options), look, privacy, **known)
        yield from _VARIANTS.get(name, (usual,))
    yield from _WITHOUT_PRIVACY


#: Every contender by name, in the order of tables and legends.
CONTENDERS = {each.name: each for each in _contenders()}


def check_contenders(names: Sequence[str]) -> tuple[str, ...]:
    """Return the contenders named, in the order of `CONTENDERS`, or raise `ParameterError`."""
    known = ", ".join(CONTENDERS)
    if not names:
        raise ParameterError(f"contenders must name at least one of {known}.")
    for name in names:
        if name not in CONTENDERS:
            raise ParameterError(
                f"contenders must be among {known}, got {shown(name)}: write them with commas."
            )
    return tuple(name for name in CONTENDERS if name in names)
