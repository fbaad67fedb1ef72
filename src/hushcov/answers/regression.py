"""Regression of one feature on others, from a release."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import listed
from hushcov.answers.linear import Linear, linear, width_of
from hushcov.answers.means import MEANS_UNSURE, means_of, predicted
from hushcov.answers.partners import (
    assumed_zero,
    doubts,
    nothing_known,
    of_factors,
    partners,
    refuse_unknown,
    through_factors,
    with_missing,
)
from hushcov.answers.tables import Answer, Table, feature_names, positions
from hushcov.answers.uncertain import Uncertain, check_noise
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.findings import LEVEL

_UNBOUNDED = (
    "Noise is as large as what tells these features apart: the coefficients may be anything, and "
    "are shrunk towards zero. Regress on fewer features."
)


@dataclass(frozen=True, eq=False)
class Regression(Answer):
    """Coefficients of the least-squares regression of `target` on `features`, with intervals.

    They are those of the population: intervals count the noise of the release and the sampling
    error. Each covers by itself.

    Parameters
    ----------
    target : str
    features : tuple of str
    level : float
        The level of all intervals.
    coefficients, lower, upper : ndarray
        In the units of the data. Ends are infinite where noise leaves nothing to say.
    standardized : ndarray
        The coefficients in units of the standard deviations.
    intercept, intercept_lower, intercept_upper : float or None
        None where no mean was released.
    residual_variance, residual_variance_lower, residual_variance_upper : float
    r_squared, r_squared_lower, r_squared_upper : float
        The share of the variance that is explained, in the population.
    n : int
        How many records are surely independent.
    n_assumed_zero : int
        How many pairs among these features did not stand out in the release, and count as zero.
    warning : str or None
        What must be known to read the numbers.
    """

    target: str
    features: tuple[str, ...]
    level: float
    coefficients: FloatArray
    lower: FloatArray
    upper: FloatArray
    standardized: FloatArray
    intercept: float | None
    intercept_lower: float | None
    intercept_upper: float | None
    residual_variance: float
    residual_variance_lower: float
    residual_variance_upper: float
    r_squared: float
    r_squared_lower: float
    r_squared_upper: float
    n: int
    n_assumed_zero: int
    warning: str | None

    @property
    def noise(self) -> FloatArray:
        """Which coefficients are noise: their intervals are infinite."""
        return np.asarray(~np.isfinite(self.upper - self.lower))

    def table(self) -> Table:
        """A line for each feature, the strongest first."""
        order = np.argsort(-np.abs(self.standardized), kind="stable")
        return {
            "feature": np.array(self.features, dtype=object)[order],
            "coefficient": self.coefficients[order],
            "lower": self.lower[order],
            "upper": self.upper[order],
            "standardized": self.standardized[order],
            "noise": self.noise[order],
        }

    def __str__(self) -> str:
        head = (
            f"{self.target}: R^2 {self.r_squared:.3g} "
            f"({self.r_squared_lower:.3g} to {self.r_squared_upper:.3g}), {self.n:,} records"
        )
        columns = self.table()
        lines = [
            f"  {name}: {value:.4g} ({low:.4g} to {high:.4g})"
            for name, value, low, high in zip(*list(columns.values())[:4], strict=True)
        ]
        return "\n".join([head, *lines, *([self.warning] if self.warning else [])])


def regress(release: Release, target: Any, on: Any = None, *, level: float = LEVEL) -> Regression:
    """Regress one feature on others. It costs nothing: the release alone is read.

    Parameters
    ----------
    release : Release
    target : str or int
        The name or position of a feature.
    on : names or positions, optional
        The features to regress on. None takes those whose pair with the target was found, the
        strongest first, as many as the noise lets apart; or all, through factors, where the
        release is made of factors.
    level : float, default=0.95
        Of each interval.

    Privacy
    -------
    Post-processing of the release, covered by its guarantee.
    """
    width = width_of(level)
    check_noise(release)
    (y,) = positions(release, target)
    refuse_unknown(release, "target", np.array([y]))
    said: list[str] = []
    shape = of_factors(release)
    if on is None:
        X, part, found, said = _chosen(release, y, width, shape)
    else:
        X = positions(release, on)
        _check_features(release, y, X)
        part = with_missing(release, np.concatenate([[y], X]))
        found = linear(part, width, shape)
    if not found.bounded:
        said.append(_UNBOUNDED if shape is None else through_factors(release))
    return _regression(release, part, found, level, said)


def _check_features(release: Release, target: int, features: IntArray) -> None:
    if len(features) == 0:
        raise ParameterError("on must name at least one feature, got none: or pass None.")
    if target in features:
        raise ParameterError(
            f"on must not hold the target, got {feature_names(release)[target]!r} as both: leave "
            "it out of on."
        )
    refuse_unknown(release, "on", features)


def _chosen(
    release: Release, target: int, width: float, shape: FloatArray | None
) -> tuple[IntArray, Uncertain, Linear, list[str]]:
    """Features for a target: its partners, as many as noise lets apart."""
    X = partners(release, target)
    if shape is not None:
        X = np.flatnonzero(~nothing_known(release))
        X = X[target != X]
    whole = with_missing(release, np.concatenate([[target], X]))
    found = linear(whole, width, shape)
    if found.bounded or shape is not None or len(X) < 2:
        return X, whole, found, [] if len(X) else ["No partner of it was found."]

    def unbounded(number: int) -> bool:
        return not linear(whole.part(np.arange(1 + number)), width).bounded

    few = 1 + bisect_left(range(2, len(X)), True, key=unbounded)
    part = whole.part(np.arange(1 + few))
    return X[:few], part, linear(part, width), [_left_out(release, X[few:])]


def _left_out(release: Release, features: IntArray) -> str:
    if len(features) == 1:
        (name,) = feature_names(release)[features]
        return f"{name} was left out: its effect cannot be told from that of the others."
    names = listed(feature_names(release)[features].tolist())
    return f"The {names} were left out: their effects cannot be told from those of the others."


def _regression(
    release: Release, part: Uncertain, found: Linear, level: float, said: list[str]
) -> Regression:
    y, X = int(part.features[0]), part.features[1:]
    deviation, width = part.deviations, width_of(level)
    units = deviation[0] / deviation[1:]
    values, lower, upper = found.ends(np.diag(units))
    zero = assumed_zero(part)
    intercept, doubt = intercept_of(release, part, found, width)
    said = [*said, *doubts(release, part.features, zero), *doubt]
    own = deviation[0] ** 2
    left, half = found.unexplained, width * found.unexplained_sd
    of_variance = width * found.of_variance
    alone = linear(part.part(np.arange(1)), width).of_variance
    names = feature_names(release)
    return Regression(
        target=str(names[y]),
        features=tuple(map(str, names[X])),
        level=level,
        coefficients=values,
        lower=lower,
        upper=upper,
        standardized=found.coefficients,
        intercept=intercept[0],
        intercept_lower=intercept[1],
        intercept_upper=intercept[2],
        residual_variance=left * own,
        residual_variance_lower=max((left - of_variance) * own, 0.0),
        residual_variance_upper=min(left + of_variance, 1 + width * alone) * own,
        r_squared=1 - left,
        r_squared_lower=max(1 - left - half, 0.0),
        r_squared_upper=min(1 - left + half, 1.0),
        n=part.n,
        n_assumed_zero=zero,
        warning=" ".join(said) or None,
    )


def intercept_of(
    release: Release, part: Uncertain, found: Linear, width: float
) -> tuple[tuple[float | None, float | None, float | None], list[str]]:
    """The value predicted where all features are zero, with its interval; and what must be said."""
    location, noise = means_of(release, None)
    if release.location is None:
        return (None, None, None), ["No mean was released, so there is no intercept."]
    at = -location[part.features[1:]] / part.deviations[1:]
    value, low, high = predicted(part, found, at, noise, width)
    mean = float(location[part.features[0]])
    said = [] if np.isfinite(noise[part.features]).all() else [MEANS_UNSURE]
    return (mean + value, mean + low, mean + high), said
