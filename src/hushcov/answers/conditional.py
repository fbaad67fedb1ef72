"""What is to be expected of some features, given values of others, from a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.answers.linear import Linear, linear, width_of
from hushcov.answers.means import MEANS_UNSURE, means_of, predicted
from hushcov.answers.partners import (
    assumed_zero,
    doubts,
    nothing_known,
    of_factors,
    paired_with,
    partners,
    refuse_unknown,
    through_factors,
    with_missing,
)
from hushcov.answers.tables import MOST_ASKED, Answer, Table, feature_names, positions
from hushcov.answers.uncertain import Uncertain
from hushcov.exceptions import ParameterError, raise_alone
from hushcov.release import Release
from hushcov.release.findings import LEVEL


@dataclass(frozen=True, eq=False)
class Conditional(Answer):
    """Means and standard deviations of features among records with given values of others.

    The mean is the best linear prediction, and the deviation that of what it leaves: what records
    of normal features have, and an average over all records of others.

    Parameters
    ----------
    given : mapping
        The values, by feature.
    features : tuple of str
        What was predicted.
    level : float
        Of the intervals.
    mean, lower, upper : ndarray
        The prediction, and the interval of the mean: noise and sampling, not single records.
    deviation : ndarray
        How far single records lie from it.
    unconditional, unconditional_deviation : ndarray
        The same without knowing anything.
    n_used : ndarray of int
        How many of the given features each prediction uses.
    n_assumed_zero : int
        How many pairs did not stand out in the release, and count as zero.
    warning : str or None
    """

    given: Mapping[str, float]
    features: tuple[str, ...]
    level: float
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    deviation: FloatArray
    unconditional: FloatArray
    unconditional_deviation: FloatArray
    n_used: IntArray
    n_assumed_zero: int
    warning: str | None

    def table(self) -> Table:
        """A line for each feature."""
        return {
            "feature": np.array(self.features, dtype=object),
            "mean": self.mean,
            "lower": self.lower,
            "upper": self.upper,
            "deviation": self.deviation,
            "unconditional_mean": self.unconditional,
            "unconditional_deviation": self.unconditional_deviation,
            "used": self.n_used,
        }


def conditional(
    release: Release,
    given: Mapping[Any, float],
    features: Any = None,
    *,
    means: Mapping[Any, float] | None = None,
    level: float = LEVEL,
) -> Conditional:
    """Predict features from values of others. It costs nothing: the release alone is read.

    Parameters
    ----------
    release : Release
    given : mapping of names or positions to numbers
    features : names or positions, optional
        What to predict; None is every other feature that was found, and in a release of more than
        20,000 those of which a pair with one that is given was released.
    means : mapping of names or positions to numbers, optional
        Public means, where they are known or none were released.
    level : float, default=0.95
        Of each interval.

    Privacy
    -------
    Post-processing of the release, covered by its guarantee, if the given values are no secrets.
    """
    width = width_of(level)
    X, values = _given(release, given)
    Y = _wanted(release, X, features)
    location, noise = means_of(release, means)
    _check_means(release, location, np.concatenate([X, Y]))
    shape = of_factors(release)
    rows, zeros, said = [], 0, []
    for y in Y:
        part, found = _prediction(release, int(y), X, width, shape)
        which = np.searchsorted(X, part.features[1:])
        at = (values[which] - location[part.features[1:]]) / part.deviations[1:]
        value, low, high = predicted(part, found, at, noise, width)
        own = float(part.deviations[0])
        ends = location[y] + np.array([value, low, high])
        left = own * float(np.sqrt(found.unexplained))
        rows.append([*ends, left, location[y], own, len(which)])
        zeros += assumed_zero(part)
        if not found.bounded and shape is not None:
            said = [through_factors(release)]
    said += [*_beyond(release, X, values), *doubts(release, np.concatenate([X, Y]), zeros)]
    if not np.isfinite(noise[np.concatenate([X, Y])]).all():
        said.append(MEANS_UNSURE)
    names = feature_names(release)
    columns = np.array(rows).reshape(-1, 7).T
    return Conditional(
        given=dict(zip(names[X].tolist(), values.tolist(), strict=True)),
        features=tuple(map(str, names[Y])),
        level=float(level),
        mean=columns[0],
        lower=columns[1],
        upper=columns[2],
        deviation=columns[3],
        unconditional=columns[4],
        unconditional_deviation=columns[5],
        n_used=columns[6].astype(np.int64),
        n_assumed_zero=zeros,
        warning=" ".join(said) or None,
    )


def _given(release: Release, given: Mapping[Any, float]) -> tuple[IntArray, FloatArray]:
    """Places in ascending order, and values there; checked."""
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(
            f"given must map features to numbers, got {'none' if not given else 'no mapping'}: "
            "pass a dict, as {'age': 40}."
        )
    X = positions(release, list(given))
    refuse_unknown(release, "given", X)
    try:
        values = np.array([float(value) for value in given.values()])
    except (TypeError, ValueError):
        raise_alone(ParameterError("given must map features to numbers: pass a dict of them."))
    if not np.isfinite(values).all():
        raise ParameterError("given must have finite values: leave out features without one.")
    order = np.argsort(X)
    return X[order], values[order]


def _beyond(release: Release, X: IntArray, values: FloatArray) -> list[str]:
    """Say where a value lies outside the public bounds of its feature."""
    said: list[str] = []
    bounds = release.making.bounds or ((None, None),) * release.n_features
    for place, value in zip(X, values, strict=True):
        low, high = bounds[place]
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        if not low <= value <= high:
            limit = f"at least {low:,.10g}" if value < low else f"at most {high:,.10g}"
            said.append(
                f"{feature_names(release)[place]} = {value:,.10g} is outside its public bounds "
                f"({limit}): no record of the release lies there."
            )
    return said


def _wanted(release: Release, X: IntArray, features: Any) -> IntArray:
    if features is None:
        there = ~nothing_known(release)
        if release.n_features > MOST_ASKED:
            Y = paired_with(release, X)
            return Y[there[Y]]
        Y = np.flatnonzero(there)
        return Y[~np.isin(Y, X)]
    Y = positions(release, features)
    refuse_unknown(release, "features", Y)
    if np.isin(Y, X).any():
        raise ParameterError(
            "features must be others than those given, got some that are both: name each once."
        )
    return Y


def _check_means(release: Release, location: FloatArray, features: IntArray) -> None:
    missing = features[np.isnan(location[features])]
    if len(missing):
        raise ParameterError(
            f"means is required for {feature_names(release)[missing[0]]!r}, of which no mean was "
            "released: pass public ones as means={...}, or release with centre='private'."
        )


def _prediction(
    release: Release, target: int, X: IntArray, width: float, shape: FloatArray | None
) -> tuple[Uncertain, Linear]:
    """From all that is given, or where noise does not let them apart, from partners alone."""
    part = with_missing(release, np.concatenate([[target], X]))
    found = linear(part, width, shape)
    if found.bounded or shape is not None:
        return part, found
    near = X[np.isin(X, partners(release, target))]
    part = part.part(np.concatenate([[0], 1 + np.searchsorted(X, near)]))
    return part, linear(part, width)
