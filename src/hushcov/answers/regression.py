"""Regression and prediction of features from others, from a release with a known error.

With M = S + E released, the equations M_Xy - M_XX b = 0 have at the true b an error whose
covariance V(b) is known at any noise. What passes the test of a coefficient is a quadric
(`docs/questions.md`): an ellipsoid where noise is small beside the matrix, and unbounded where it
is not, so that intervals are infinite exactly where nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_real, listed
from hushcov.accounting import Gaussian
from hushcov.answers.printing import AnswerPage, between, figure
from hushcov.answers.tables import (
    MOST_ASKED,
    Answer,
    Table,
    feature_names,
    paired_with,
    positions,
    view_of,
)
from hushcov.answers.uncertain import (
    Uncertain,
    check_noise,
    chosen,
    doubts,
    in_words,
    nothing_known,
    of_factors,
    partners,
    refuse_unknown,
    say_left_out,
    spelt_out,
    width_of,
    with_missing,
    without_references,
)
from hushcov.exceptions import ParameterError, raise_alone
from hushcov.release import Release
from hushcov.release.document import MEANS
from hushcov.release.estimate import scales_of
from hushcov.release.pairs import LEVEL

_LEAST = 1e-10  # of an eigenvalue, over the largest: below it is rounding
#: The most that the root of the sum of squares of standardized coefficients counts as, in a ridge.
LIMIT = 2.0
_RIDGES = np.geomspace(1e-3, 1e3, 25)
#: A ridge that is chosen from the noise of the release.
AUTO_RIDGE = "auto"
_TRIED = np.geomspace(0.05, 50, 16)  # ridges, over the root of the summed squares of a row of noise
_HIDDEN = 0.1  # of the squared length of a feature, in directions that noise hides
_REFUTED = 0.05  # how often a true structure does not pass
_OF_STRUCTURE = 0.7  # weight of its coefficients beside those of a ridge, measured
_NOTHING = 0.95  # of the limit, from which on an interval counts as infinite


@dataclass(frozen=True, eq=False)
class Linear:
    """The prediction of the first feature of a matrix from the others, in units of deviations.

    Parameters
    ----------
    coefficients : ndarray
        As `linear` was asked for.
    unexplained : float
        The variance that is left, over that of the first feature; between 0 and 1.
    unexplained_sd : float
        What it may be off by; infinite where noise is as large as the matrix.
    of_variance : float
        Standard deviation of the residual variance, in the unit of `unexplained`.
    quadric : ndarray, or None
        W of the coefficients b that are not refuted: (1, -b)' W (1, -b) <= 0. None where these are
        unbounded, and a ridge says nothing either.
    ridges, limit : tuple of float, float
        Multiples of |b|^2 - limit^2 to add to W: each leaves an ellipsoid around all b of at most
        that length. A single 0 where W has one by itself.
    hidden, gain : ndarray of bool or None, float
        Features that noise does not let apart, and how much more of the variance they may explain.
    """

    coefficients: FloatArray
    unexplained: float
    unexplained_sd: float
    of_variance: float
    quadric: FloatArray | None
    ridges: tuple[float, ...] = (0.0,)
    limit: float = 0.0
    hidden: BoolArray | None = None
    gain: float = 0.0

    @property
    def bounded(self) -> bool:
        """Whether noise leaves anything to say."""
        return self.quadric is not None

    def ends(self, directions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values of linear functions of the coefficients, and ends of their intervals."""
        C, W = np.atleast_2d(directions), self.quadric
        values, unit = C @ self.coefficients, np.linalg.norm(C, ord=np.inf, axis=1)
        low, high = np.where(unit > 0, [[-np.inf], [np.inf]], 0.0)
        if W is None:
            return values, values + low, values + high
        unit[unit == 0] = 1.0
        C = C / unit[:, None]
        own, vectors = np.linalg.eigh(W[1:, 1:])
        turned, right = C @ vectors, vectors.T @ W[1:, 0]
        for ridge in self.ridges:
            inverse = 1 / (own + ridge)
            size = max(float(right**2 @ inverse - W[0, 0]) + ridge * self.limit**2, 0.0)
            middle, half = turned @ (right * inverse), np.sqrt(size * (turned**2 @ inverse))
            low, high = np.maximum(low, middle - half), np.minimum(high, middle + half)
        if self.limit:  # an interval of about that length tells nothing else
            nothing = high - low > 2 * _NOTHING * self.limit * np.linalg.norm(C, axis=1)
            low, high = np.where(nothing, [[-np.inf], [np.inf]], [low, high])
        return values, np.minimum(unit * low, values), np.maximum(unit * high, values)


def linear(
    part: Uncertain,
    width: float,
    shape: FloatArray | None = None,
    limit: float | None = None,
    ridge: float | str | None = None,
) -> Linear:
    """Predict the first feature of `part` from the others, in units of the deviations.

    `width` is how many deviations an interval reaches. With `limit`, the most that coefficients
    have as their length, intervals are those of a ridge where noise hides what tells features
    apart. `ridge` is for the coefficients: None shrinks them by what noise makes them too large,
    "auto" predicts best (`best_prediction`, with `shape`), and a number is added to the variances.
    """
    shape = None if shape is None else shape[np.ix_(part.features, part.features)]
    shape = None if shape is None else shape / np.multiply.outer(part.deviations, part.deviations)
    part = part.standardized()
    if len(part.features) == 1:
        alone = float(part.deviation(np.ones((1, 1))))
        return Linear(np.zeros(0), 1.0, np.inf, alone, np.zeros((1, 1)))
    raw = b = shrunk(part.values, part.noise_sd)
    M, P = part.values[1:, 1:], part.covariance
    if ridge == AUTO_RIDGE:
        b = best_prediction(part, shape)
    elif ridge is not None:
        with_ridge = P[1:, 1:] + float(ridge) * np.eye(len(M))
        b = np.asarray(np.linalg.lstsq(with_ridge, P[1:, 0], rcond=_LEAST)[0])
    W, size = _quadric(part, raw, width)
    own = np.linalg.eigvalsh(W[1:, 1:])
    least = max(_LEAST * own[-1], 0.0 if limit is None else size / limit**2)
    if own[0] > least and np.linalg.eigvalsh(M)[0] > 0:
        return Linear(b, *_left(part, raw, np.asarray(np.linalg.inv(M))), W)
    found = None if limit is None or size == 0 else _ridge(part, raw, width, limit)
    if found is not None:
        return replace(found, coefficients=b)
    explained = float(2 * raw @ P[1:, 0] - raw @ P[1:, 1:] @ raw)
    left = 1 - explained / P[0, 0] if P[0, 0] > 0 else 1.0
    return Linear(b, min(max(left, 0.0), 1.0), np.inf, np.inf, None)


def best_prediction(part: Uncertain, shape: FloatArray | None = None) -> FloatArray:
    """Coefficients of the least expected error of predictions, of a standardized matrix.

    Those of 16 ridges are tried: the least sum of `prediction_error` and its deviation counts.
    Variances of long tails count as what they may be.

    `shape` is an estimate of the whole matrix with a structure. Where its coefficients pass the
    test of the equations, a mean of both is returned: the structure predicts better where it is
    true, and may be far off where it is not.
    """
    M, more = part.values, np.expm1(part.tail[1:])
    values, vectors = np.linalg.eigh(M[1:, 1:])
    P = (vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(more)
    values, vectors = np.linalg.eigh(P)
    unit = float(np.sqrt((part.noise_sd[1:, 1:] ** 2).sum(axis=0)).mean())
    least, best = np.inf, M[1:, 0]
    for ridge in _TRIED * unit + _LEAST:
        G = (vectors / (values + ridge)) @ vectors.T
        b = G @ M[1:, 0]
        error = sum(prediction_error(part, b, G)) + float(more @ b**2)
        if error < least:
            least, best = error, b
    if shape is None:
        return best
    b = shrunk(shape, np.zeros_like(shape))
    V, off = _covariance_of_equations(part, b), M[1:, 0] - M[1:, 1:] @ b
    passes = off @ np.linalg.lstsq(V, off, rcond=_LEAST)[0] <= special.chdtri(len(b), _REFUTED)
    there = passes and b @ b <= LIMIT**2
    return best + _OF_STRUCTURE * (b - best) if there else best


def prediction_error(part: Uncertain, b: FloatArray, G: FloatArray) -> tuple[float, float]:
    """Squared error of predictions with b = G M_Xy, as M estimates it, and the noise of that.

    It is (1, -b)' S (1, -b). With M = S + E for S that is too low by (1, -b)' E (1, -b), whose
    mean is -2 tr(G V(b)) to first order, as b moves by G times the error of the equations (Stein).
    """
    tilde, square = np.concatenate([[1.0], -b]), part.noise_sd**2
    noise = 2 * tilde**2 @ square @ tilde**2 - tilde**4 @ square.diagonal()
    fitted = 2 * float((G * _covariance_of_equations(part, b)).sum())
    return float(tilde @ part.values @ tilde) + fitted, float(np.sqrt(max(noise, 0.0)))


def _ridge(part: Uncertain, b: FloatArray, width: float, limit: float) -> Linear | None:
    """Predict from features that noise does not let apart; None where nothing can be said.

    Whatever multiple of |b|^2 - limit^2 <= 0 is added to the quadric, it holds the b that it held:
    the ellipsoid of a ridge, as much longer as its bias can be. Intervals are within all of them.
    """
    values, vectors = np.linalg.eigh(part.values[1:, 1:])
    matrix = part.values.copy()
    matrix[1:, 1:] = P = (vectors * np.maximum(values, 0.0)) @ vectors.T
    W, size = _quadric(replace(part, values=matrix), b, width)
    own, vectors = np.linalg.eigh(W[1:, 1:])
    unit = max(size / limit**2, _LEAST * float(np.abs(own).max()))
    ridges = max(-float(own[0]), 0.0) + unit * _RIDGES
    right = vectors.T @ W[1:, 0]
    if np.any((right**2 / (own + ridges[:, None])).sum(axis=1) - W[0, 0] + ridges * limit**2 < 0):
        return None  # there are none of that length
    weak, noise = vectors[:, own <= unit], part.noise_sd[1:, 1:] ** 2
    doubt = width * np.sqrt(2 * np.einsum("ik,ik->k", weak**2, noise @ weak**2))
    gain = (limit + np.abs(weak.T @ b)) ** 2 @ (np.einsum("ik,ik->k", weak, P @ weak) + doubt)
    both = np.vstack([P, np.diag(np.sqrt(noise.sum(axis=0)))])  # as `shrunk` has it
    inverse = np.linalg.lstsq(both, np.eye(*both.shape), rcond=_LEAST)[0]
    load = (weak**2).sum(axis=1)
    hidden, left = load >= min(_HIDDEN, load.max()), _left(part, b, inverse)
    found = Linear(b, *left, W, tuple(ridges.tolist()), limit, hidden, float(gain))
    _, low, high = found.ends(np.eye(len(b)))
    return found if np.isfinite(high - low).any() else None


def shrunk(M: FloatArray, sd: FloatArray) -> FloatArray:
    """Coefficients of the first feature on the others.

    Noise of variance s^2 makes the square of M_XX larger by the sums of s^2 over its columns, and
    an inverse too large by as much: least squares of M_Xy on M_XX with that ridge. It vanishes
    where noise is small.
    """
    values, vectors = np.linalg.eigh(M[1:, 1:])
    P = (vectors * np.maximum(values, 0.0)) @ vectors.T
    ridge = np.diag(np.sqrt((sd[1:, 1:] ** 2).sum(axis=0)))
    right = np.concatenate([M[1:, 0], np.zeros(len(P))])
    return np.asarray(np.linalg.lstsq(np.vstack([P, ridge]), right, rcond=_LEAST)[0])


def _covariance_of_equations(part: Uncertain, b: FloatArray) -> FloatArray:
    """V(b): of noise, whose entries two equations share, and of sampling."""
    tilde = np.concatenate([[1.0], -b])
    square = part.noise_sd[1:] ** 2
    shared = square[:, 1:] * np.multiply.outer(b, b)
    np.fill_diagonal(shared, square @ tilde**2)
    P = part.covariance
    return np.asarray(shared + (1 + part.excess) * (tilde @ P @ tilde) * P[1:, 1:] / part.n)


def _quadric(part: Uncertain, b: FloatArray, width: float) -> tuple[FloatArray, float]:
    """W of the coefficients that are not refuted, and what its form is to be less than at b.

    V(b) counts as its shape at the estimate times its trace, which is a quadratic form in b.
    """
    V = _covariance_of_equations(part, b)
    trace = float(np.trace(V))
    equations, P = part.values[1:], part.covariance
    if trace == 0:  # nothing is off, and b is all that passes
        return equations.T @ equations, 0.0
    V = V / trace + _LEAST * np.eye(len(b)) / len(b)
    form = np.diag((part.noise_sd[1:] ** 2).sum(axis=0))
    form = form + (1 + part.excess) * np.trace(P[1:, 1:]) * P / part.n
    W = equations.T @ np.linalg.solve(V, equations) - width**2 * form
    return np.asarray(W), width**2 * trace


def _left(part: Uncertain, b: FloatArray, inverse: FloatArray) -> tuple[float, float, float]:
    """The share of the variance that is left, and deviations of it and of the variance left.

    A change E of the matrix changes the variance left by (1, -b)' E (1, -b), less a square of the
    errors of the equations, whose mean is put back: noise explains something, too. `inverse` is
    that of the matrix, or of a ridge.
    """
    M = part.values
    exact = inverse @ M[1:, 0]
    chance = inverse @ _covariance_of_equations(part, b)
    own = float(M[0, 0])
    left = own - float(exact @ (2 * M[1:, 0] - M[1:, 1:] @ exact)) + float(np.trace(chance))
    square = 2 * float(np.trace(chance @ chance))
    tilde = np.concatenate([[1.0], -b])
    gradient = np.multiply.outer(tilde, tilde)
    of_variance = float(np.hypot(part.deviation(gradient), np.sqrt(max(square, 0.0))))
    relative = gradient / own
    relative[0, 0] -= left / own**2
    of_share = float(np.hypot(part.deviation(relative), np.sqrt(max(square, 0.0)) / own))
    return min(max(left / own, 0.0), 1.0), of_share, of_variance / own


#: Said where the noise of means is not known.
MEANS_UNSURE = "The release does not say how much noise its means have: it is not counted."
_UNBOUNDED = (
    "Noise is as large as what tells these features apart: the coefficients predict together, and "
    "none has an interval. Regress on fewer features."
)
_MOST_TRIED = 200  # partners, one after the other


@dataclass(frozen=True, eq=False, repr=False)
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
    hidden : ndarray of bool
        Features that noise does not let apart; all intervals are then those of a ridge.
    notes : tuple of str
        Which features were taken, and left out because they were not found or follow from others.
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
    hidden: BoolArray
    notes: tuple[str, ...]

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
            "hidden": self.hidden[order],
            "noise": self.noise[order],
        }

    def page(self) -> AnswerPage:
        """R^2, what is left of the variance, and the coefficients."""
        ends = figure(self.r_squared_lower), figure(self.r_squared_upper)
        residual = math.sqrt(max(self.residual_variance, 0.0))
        facts = [
            ("target", self.target),
            ("R^2", f"{figure(self.r_squared)}, between {ends[0]} and {ends[1]}"),
            ("residuals", f"standard deviation {figure(residual)}"),
            ("records", f"{self.n:,}"),
        ]
        if self.intercept is not None:
            facts.insert(1, ("intercept", figure(self.intercept, 4)))
        legend = (
            f"coefficient: how much more {self.target} to expect for one more of the feature, the "
            f"others being equal, in the units of the data; {between(self.level)}. standardized: "
            "the same in standard deviations."
        )
        if self.hidden.any():
            legend += " hidden: noise does not let this column apart from others."
        if self.noise.any():
            legend += " noise: nothing is known of this coefficient."
        return AnswerPage("Regression", facts, self.table(), legend, self.notes, self.warning)


def regress(
    release: Release,
    target: Any,
    on: Any = None,
    *,
    level: float = LEVEL,
    limit: float = LIMIT,
    ridge: float | str = AUTO_RIDGE,
) -> Regression:
    """Regress one feature on others; `Answers.regression` has the parameters.

    Without `on` these are the features whose pair with the target was found, the strongest first,
    as many as the noise lets apart; or all, through factors, where the release is made of factors.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    width = width_of(level)
    limit = check_real("limit", limit, above=0, cure="2 is usual.")
    if ridge != AUTO_RIDGE:
        cure = "it is added to variances of 1; or pass 'auto'."
        ridge = check_real("ridge", ridge, above=0, or_zero=True, cure=cure)
    check_noise(release)
    (y,) = positions(release, target)
    refuse_unknown(release, "target", np.array([y]))
    shape, said = of_factors(release), list[str]()
    apart = on is None and shape is None
    if apart:
        X, notes = without_references(release, partners(release, y))
        part, said = _told_apart(release, y, X, width)
    else:
        X, notes = _asked(release, y, on)
        part = with_missing(release, np.concatenate([[y], X]))
    found = linear(part, width, shape, None if apart else limit, ridge)
    if not found.bounded:
        said.append(_UNBOUNDED)
    if found.hidden is not None:
        said.append(_ridge_words(release, part.features[1:][found.hidden], limit))
    return replace(_regression(release, part, found, level, said), notes=tuple(notes))


def _asked(release: Release, y: int, on: Any) -> tuple[IntArray, list[str]]:
    """Return the features to regress on, and notes on what was taken for them.

    All are those that were found, without levels of the target's own category, and without one
    level of each other.
    """
    names = feature_names(release)
    if on is None or (isinstance(on, str) and on == "all" and on not in names):
        every, lost = chosen(release, None, "on")
        every = every[~release.exclude_each_other(every, np.array(y))]
        X, notes = without_references(release, every)
        return X, notes + say_left_out(tuple(name for name in lost if name != names[y]))
    one = isinstance(on, str | int | np.integer)
    given, notes = spelt_out(release, [on] if one else list(on))
    X = positions(release, given)
    if len(X) == 0:
        raise ParameterError("on must name at least one feature, got none: or pass None.")
    if y in X:
        raise ParameterError(
            f"on must not hold the target, got {names[y]!r} as both: leave it out of on."
        )
    refuse_unknown(release, "on", X)
    X, more = without_references(release, X)
    return X, notes + more


def _ridge_words(release: Release, hidden: IntArray, limit: float) -> str:
    return (
        f"Noise hides what tells {in_words(release, hidden)} apart. All intervals are those of a "
        "ridge: they count its bias, and hold if the squares of the standardized coefficients add "
        f"up to at most {limit**2:.3g} (limit {limit:g}). For more, leave one of these out, take "
        "squares about a public centre (the transform square:CENTRE), or release with more budget "
        "or records."
    )


def _told_apart(
    release: Release, target: int, X: IntArray, width: float
) -> tuple[Uncertain, list[str]]:
    """Take features in their order, but those that noise does not let apart from others."""
    whole = with_missing(release, np.concatenate([[target], X]))
    if len(X) < 2 or linear(whole, width).bounded:
        return whole, [] if len(X) else ["No partner of it was found."]
    kept = np.arange(2)
    for place in range(2, min(1 + len(X), _MOST_TRIED)):
        more = np.append(kept, place)
        kept = more if linear(whole.part(more), width).bounded else kept
    left_out = feature_names(release)[np.delete(X, kept[1:] - 1)].tolist()
    words = f"The {listed(left_out)} were left out: their effects cannot be told from those of"
    if len(left_out) == 1:
        words = f"{left_out[0]} was left out: its effect cannot be told from that of"
    return whole.part(kept), [f"{words} the others."]


def _regression(
    release: Release, part: Uncertain, found: Linear, level: float, said: list[str]
) -> Regression:
    y, X = int(part.features[0]), part.features[1:]
    deviation, width = part.deviations, width_of(level)
    units = deviation[0] / deviation[1:]
    values, lower, upper = found.ends(np.diag(units))
    intercept, doubt = intercept_of(release, part, found, width)
    said = [*said, *doubts(release, part.features, part.n_zero), *doubt]
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
        residual_variance_lower=max((left - of_variance - found.gain) * own, 0.0),
        residual_variance_upper=min(left + of_variance, 1 + width * alone) * own,
        r_squared=1 - left,
        r_squared_lower=max(1 - left - half, 0.0),
        r_squared_upper=min(1 - left + half + found.gain, 1.0),
        n=part.n,
        n_assumed_zero=part.n_zero,
        warning=" ".join(said) or None,
        hidden=np.zeros(len(X), dtype=bool) if found.hidden is None else found.hidden,
        notes=(),
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


@dataclass(frozen=True, eq=False, repr=False)
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

    def page(self) -> AnswerPage:
        """Predictions beside what is expected without knowing anything."""
        given = ", ".join(f"{name} = {value:,.10g}" for name, value in self.given.items())
        legend = (
            f"mean: of all records with these values, in the unit of the feature; "
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

    Privacy
    -------
    Post-processing of the release, covered by its guarantee, if the given values are no secrets.
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
    shape = of_factors(release)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        variances = view_of(release, Y).matrix.diagonal()
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
            said = [_UNBOUNDED]
        if found.hidden is not None:
            said = [_ridge_words(release, part.features[1:][found.hidden], LIMIT)]
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
    """From all that is given, where noise lets them apart; else from partners, or by a ridge."""
    part = with_missing(release, np.concatenate([[target], X]))
    found = linear(part, width, shape, ridge=AUTO_RIDGE)
    if found.bounded:
        return part, found
    near = X[np.isin(X, partners(release, target))]
    few = part.part(np.concatenate([[0], 1 + np.searchsorted(X, near)]))
    found = linear(few, width, shape, ridge=AUTO_RIDGE)
    return (few, found) if found.bounded else (part, linear(part, width, shape, LIMIT, AUTO_RIDGE))


# ---- means ----


def mean_noise(release: Release) -> FloatArray | None:
    """Standard deviation of the noise of each released mean; None where the release does not say.

    Records are bounded to the norm sqrt(2 d) in units of the scales, and the mean of n of them
    moves by twice that over n: mu deviations of the noise.
    """
    n, scale = release.making.n_complete, release.feature_scale
    events = [event for part in release.making.parts if part.name == MEANS for event in part.events]
    if n is None or scale is None or release.guarantee.rows_per_unit > 1 or len(events) != 1:
        return None
    (event,) = events
    if not isinstance(event, Gaussian):
        return None
    sensitivity = 2 * math.sqrt(2 * int(np.count_nonzero(scale)))
    return np.asarray(sensitivity / (event.mu * n) * scales_of(release))


def means_of(release: Release, means: Mapping[Any, float] | None) -> tuple[FloatArray, FloatArray]:
    """Means of all features and the noise they have: public ones where given, else released ones.

    NaN where there is neither; noise is NaN where a released mean does not say it.
    """
    d = release.n_features
    location = np.full(d, np.nan) if release.location is None else release.location.astype(float)
    noise = mean_noise(release)
    noise = np.full(d, np.nan) if noise is None else noise.copy()
    for name, value in (means or {}).items():
        (at,) = positions(release, name)
        if not np.isfinite(value):
            raise ParameterError(f"means must be finite, got {value!r}: pass public ones.")
        location[at], noise[at] = float(value), 0.0
    return location, noise


def predicted(
    part: Uncertain, found: Linear, at: FloatArray, noise: FloatArray, width: float
) -> tuple[float, float, float]:
    """Predict from features at `at`, in deviations from their means, with an interval.

    Means are off by their noise and by sampling, and both by themselves.
    """
    (value,), (low,), (high,) = found.ends(at)
    tilde = np.concatenate([[1.0], -found.coefficients])
    of_means = np.nan_to_num(noise[part.features]) / part.deviations * tilde
    square = float(of_means @ of_means) + found.unexplained / part.n
    means = width * np.sqrt(square)
    unit = float(part.deviations[0])
    low, high = value - np.hypot(value - low, means), value + np.hypot(high - value, means)
    return float(value * unit), float(low * unit), float(high * unit)
