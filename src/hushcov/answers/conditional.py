"""Predictions of features from values of others, from a release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.answers.columns import doubts, partners, refuse_unknown
from hushcov.answers.files import Table
from hushcov.answers.linear import AUTO_RIDGE, LIMIT, Linear, linear
from hushcov.answers.names import MOST_ASKED, feature_names, positions, transform_of
from hushcov.answers.regression import MEANS_UNSURE, UNBOUNDED, means_of, predicted, ridge_words
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import (
    Uncertain,
    factor_estimate,
    nothing_known,
    relations,
    width_of,
)
from hushcov.exceptions import ParameterError, raise_alone
from hushcov.release import Release
from hushcov.release.view import LEVEL, paired_with, view
from hushcov.text.printing import AnswerPage, between


@dataclass(frozen=True, eq=False, repr=False)
class Conditional(Answer):
    """Means and standard deviations of features among records with given values of others.

    The mean is the best linear prediction, and the deviation is that of its residuals. For normal
    features, the deviation holds for the given values; for others, it is an average over records.

    Parameters
    ----------
    given : mapping
        Given values, by feature.
    features : tuple of str
        Names of the predicted features.
    level : float
        Confidence level of the intervals.
    mean, lower, upper : ndarray
        The prediction with its interval, which counts noise and sampling but not how single
        records differ.
    deviation : ndarray
        Standard deviation of single records about the prediction.
    unconditional, unconditional_deviation : ndarray
        Mean and standard deviation of all records, whatever their values.
    n_used : ndarray of int
        Number of given features that each prediction uses.
    n_assumed_zero : int
        Number of pairs that did not stand out in the release, and count as zero.
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
        """Return one line for each feature."""
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

    def page(self) -> AnswerPage:
        """Show predictions beside the means of all records."""
        given = ", ".join(f"{name} = {value:,.10g}" for name, value in self.given.items())
        legend = (
            f"mean: that of all records with these values, in the unit of the feature; "
            f"{between(self.level)}. Single records differ more: sd is their standard deviation, "
            "and most lie within two of it. used: how many of the given values count."
        )
        return AnswerPage(
            "Prediction", [("given", given)], self.table(), legend, warning=self.warning
        )


def conditional(
    release: Release,
    given: Mapping[Any, float],
    features: Any = None,
    *,
    means: Mapping[Any, float] | None = None,
    level: float = LEVEL,
) -> Conditional:
    """Predict features from values of others; `Answers.conditional` has the parameters.

    Without `features` every other one that was found is predicted, and in a release of more than
    20,000 those of which a pair with one that is given was released.

    The given values must be no secrets.
    """
    width = width_of(level)
    X, values = _given(release, given)
    Y = _wanted(release, X, features)
    location, noise = means_of(release, means)
    missing = [each for each in (*X, *Y) if np.isnan(location[each])]
    if missing:
        raise ParameterError(
            f"means is required for {feature_names(release)[missing[0]]!r}, of which no mean was "
            "released: pass public ones as means={...}, or release with centre='private'."
        )
    shape = None if release.making.look is not None else factor_estimate(release)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        variances = view(release, Y).matrix.diagonal()
    rows, zeros, said = [], 0, []
    for y in Y:
        part, found = _prediction(release, int(y), X, width, shape)
        which = np.searchsorted(X, part.features[1:])
        at = (values[which] - location[part.features[1:]]) / part.deviations[1:]
        value, low, high = predicted(part, found, at, noise, width)
        # As `variances` has it; what a question is answered with, where the estimate has none.
        own = math.sqrt(variances[y]) if variances[y] > 0 else float(part.deviations[0])
        ends = location[y] + np.array([value, low, high])
        left = own * float(np.sqrt(found.unexplained))
        rows.append([*ends, left, location[y], own, len(which)])
        zeros += part.n_zero
        if not found.bounded and shape is not None:
            said = [UNBOUNDED]
        if found.hidden is not None:
            said = [ridge_words(release, part.features[1:][found.hidden], LIMIT)]
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
    """Check the given values; return places in ascending order, and the values there."""
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(
            f"given must map features to numbers, got {'none' if not given else 'no mapping'}: "
            "pass a dict, as {'age': 40}."
        )
    X = positions(release, list(given))
    refuse_unknown(release, "given", X)
    try:
        values = np.array([float(value) for value in given.values()])
        for i, name in enumerate(given):
            own = transform_of(release, name)
            values[i] = values[i] if own is None else own.mapped(values[i], np)
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
        for place in X:
            there &= ~release.exclude_each_other(np.arange(release.n_features), place)
        return np.flatnonzero(there)
    Y = positions(release, features)
    refuse_unknown(release, "features", Y)
    if np.isin(Y, X).any():
        raise ParameterError(
            "features must be others than those given, got some that are both: name each once."
        )
    return Y


def _prediction(
    release: Release, target: int, X: IntArray, width: float, shape: FloatArray | None
) -> tuple[Uncertain, Linear]:
    """Predict from all given features if noise allows; else from partners, or with a ridge."""
    part = relations(release, np.concatenate([[target], X]))
    found = linear(part, width, shape, ridge=AUTO_RIDGE)
    if found.bounded:
        return part, found
    near = X[np.isin(X, partners(release, target))]
    if len(near):  # the interval of none would be that of the mean of all records
        few = part.part(np.concatenate([[0], 1 + np.searchsorted(X, near)]))
        found = linear(few, width, shape, ridge=AUTO_RIDGE)
        if found.bounded:
            return few, found
    return part, linear(part, width, shape, LIMIT, AUTO_RIDGE)
