"""Regression of features on others, from a release with a known error.

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
from hushcov._words import figure
from hushcov.answers.files import Table
from hushcov.answers.names import feature_names, positions
from hushcov.answers.tables import Answer
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
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.view import LEVEL
from hushcov.text.printing import AnswerPage, between

_LEAST = 1e-10  # of an eigenvalue, over the largest: below it is rounding
#: The most that the root of the sum of squares of standardized coefficients counts as, in a ridge.
LIMIT = 2.0
_RIDGES = np.geomspace(1e-3, 1e3, 25)
#: A ridge that is chosen from the noise of the release.
AUTO_RIDGE = "auto"
# Ridges that are compared, over the root of the summed squares of a row of noise. The constants
# below were chosen on the tables of benchmarks/studies/ridge.py, three of which were held out.
_TRIED = np.concatenate([[0.0], np.geomspace(0.05, 50, 16)])
# Share of the expected excess error that a ridge must save over ridge 0; and what a factor must
# take off the coefficients to be used.
_WORTH_A_RIDGE = 0.1
_ROUNDS = 3  # in which the chosen coefficients replace the pilot in the expected error
_LONG_TAIL = 1.5  # of its variance, from which on a column counts with what may be missing
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
    centre : ndarray, or None
        The coefficients that intervals are for: least squares. Where `coefficients` are others,
        intervals also reach as far to both sides of these. None takes the middle of an interval.
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
    chosen : ChosenRidge, or None
        How the coefficients were made; None where nobody asked for a ridge.
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
    centre: FloatArray | None = None
    chosen: ChosenRidge | None = None

    @property
    def bounded(self) -> bool:
        """Whether noise leaves anything to say."""
        return self.quadric is not None

    def ends(self, directions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values of linear functions of the coefficients, and ends of their intervals."""
        C, W = np.atleast_2d(directions), self.quadric
        values, unit = C @ self.coefficients, np.abs(C).max(axis=1, initial=0.0)
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
        with np.errstate(invalid="ignore"):  # the middle of an infinite interval
            centre = (low + high) / 2 if self.centre is None else C @ self.centre
            moved = np.nan_to_num(values / unit - centre)
        low, high = unit * (low + np.minimum(moved, 0)), unit * (high + np.maximum(moved, 0))
        return values, np.minimum(low, values), np.maximum(high, values)


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
    "auto" and numbers are those of `chosen_ridge`, which takes `shape`.
    """
    shape = None if shape is None else shape[np.ix_(part.features, part.features)]
    shape = None if shape is None else shape / np.multiply.outer(part.deviations, part.deviations)
    part = part.standardized()
    if len(part.features) == 1:
        alone = float(part.deviation(np.ones((1, 1))))
        return Linear(np.zeros(0), 1.0, np.inf, alone, np.zeros((1, 1)))
    raw = shrunk(part.values, part.noise_sd)
    M, P = part.values[1:, 1:], part.covariance
    chosen = None if ridge is None else chosen_ridge(part, ridge, shape)
    b = raw if chosen is None else chosen.coefficients
    W, size = _quadric(part, raw, width)
    own = np.linalg.eigvalsh(W[1:, 1:])
    least = max(_LEAST * own[-1], 0.0 if limit is None else size / limit**2)
    if own[0] > least and np.linalg.eigvalsh(M)[0] > 0:
        left = _left(part, raw, np.asarray(np.linalg.inv(M)))
        centre = b if chosen is None else _with_ridge(part, 0.0)[0]
        return Linear(b, *left, W, centre=centre, chosen=chosen)
    found = None if limit is None or size == 0 else _ridge(part, raw, width, limit)
    if found is not None:
        return replace(found, coefficients=b, centre=b if chosen is None else None, chosen=chosen)
    explained = float(2 * raw @ P[1:, 0] - raw @ P[1:, 1:] @ raw)
    unexplained = 1 - explained / float(P[0, 0]) if P[0, 0] > 0 else 1.0
    return Linear(b, min(max(unexplained, 0.0), 1.0), np.inf, np.inf, None, chosen=chosen)


@dataclass(frozen=True, eq=False)
class ChosenRidge:
    """Coefficients of a standardized regression, and how they were made.

    Parameters
    ----------
    coefficients : ndarray
    ridge : float
        Number added to the standardized variances; 0 is least squares.
    kept : float
        Factor of the coefficients: 1 leaves them as they are, and 0 predicts the mean.
    explained : float
        Estimated R^2 of predictions with these coefficients.
    long : ndarray of bool
        Features that count with a larger variance, because their tails are long.
    with_factors : bool
        Whether the coefficients are averaged with those of the factors of the release.
    """

    coefficients: FloatArray
    ridge: float
    kept: float
    explained: float
    long: BoolArray
    with_factors: bool = False


def _with_ridge(part: Uncertain, ridge: float) -> tuple[FloatArray, FloatArray]:
    """Return coefficients G M_Xy with a ridge, and G."""
    P = part.covariance
    G = np.linalg.pinv(P[1:, 1:] + ridge * np.eye(len(P) - 1), rcond=_LEAST, hermitian=True)
    return np.asarray(G @ P[1:, 0]), np.asarray(G)


def chosen_ridge(
    part: Uncertain, ridge: float | str = AUTO_RIDGE, shape: FloatArray | None = None
) -> ChosenRidge:
    """Return the coefficients of a given ridge, or those that are expected to predict best.

    With b = G M_Xy and G = (M_XX + ridge)^-1, the coefficients are off by G (e - ridge beta), where
    the covariance V of the error e of the equations is known. So predictions have an excess error
    of tr(G M_XX G V) + |M_XX^(1/2) G ridge beta|^2, in which the coefficients of the round before
    stand for beta. Ridge 0 is kept unless another one saves a tenth of that, and for one feature,
    where a ridge is a factor.

    Then coefficients are multiplied by 1 - x^2, where 1 - x = (b' M_Xy - tr(G V)) / b' M_XX b is
    the factor of James and Stein. Both are 0 where b explains no more than noise does; this one
    leaves more of weak relations that are there. Factors above 0.9 count as 1. Before a factor is
    used, a larger ridge is taken if its predictions are expected to explain more.

    `shape` is an estimate of the whole matrix with a structure. Where least squares is not the
    answer and the coefficients of the structure pass the test of the equations, a mean of both is
    returned: the structure predicts better where it is true, and may be far off where it is not.
    """
    none = np.zeros(len(part.features) - 1, dtype=bool)
    if ridge != AUTO_RIDGE:
        b, G = _with_ridge(part, float(ridge))
        return ChosenRidge(b, float(ridge), 1.0, _explained(part, b, G)[0], none)
    part, long = _for_predictions(part)
    M = part.values
    values, vectors = np.linalg.eigh(M[1:, 1:])
    values, right = np.maximum(values, 0.0), vectors.T @ M[1:, 0]
    unit = float(np.sqrt((part.noise_sd[1:, 1:] ** 2).sum(axis=0)).mean())
    ridges = _TRIED * unit + np.where(_TRIED > 0, _LEAST, 0.0)
    regular = values[0] > _LEAST * values[-1]
    weights = 1 / (values + ridges[0 if regular else 1 :, None])  # a row for each ridge
    pilot, place = shrunk(M, part.noise_sd), 0
    for _ in range(_ROUNDS):
        V = np.einsum("ij,ik,kj->j", vectors, _covariance_of_equations(part, pilot), vectors)
        bias = (1 - weights * values) * (vectors.T @ pilot)
        excess = (weights**2 * V + bias**2) @ values
        place = int(np.argmin(excess))
        saves = excess[place] < (1 - _WORTH_A_RIDGE) * excess[0]
        if regular and (len(pilot) == 1 or not saves):
            place = 0
        pilot = vectors @ (weights[place] * right)
    inverses = [(vectors * each) @ vectors.T for each in weights]
    kept = _factor(part, inverses[place])
    if kept < 1 and len(pilot) > 1:
        shares = [_explained(part, G @ M[1:, 0], G)[0] for G in inverses[place:]]
        place += int(np.argmax(shares))
        kept = _factor(part, inverses[place])
    G, used = inverses[place], float(ridges[place + (not regular)])
    b = kept * (G @ M[1:, 0])
    made = ChosenRidge(b, used, kept, max(_explained(part, b, kept * G)[0], 0.0), long)
    least_squares = used == 0 and kept == 1
    return made if shape is None or least_squares else _with_factors(made, part, kept * G, shape)


def _factor(part: Uncertain, G: FloatArray) -> float:
    """Return what to multiply coefficients G M_Xy by, so that noise makes predictions no worse."""
    b = G @ part.values[1:, 0]
    explains = float(b @ part.covariance[1:, 1:] @ b)
    surely = float(b @ part.values[1:, 0] - (G * _covariance_of_equations(part, b)).sum())
    by_noise = float(np.clip(1 - surely / explains, 0.0, 1.0)) if explains > 0 else 1.0
    kept = 1 - by_noise**2
    return 1.0 if kept > 1 - _WORTH_A_RIDGE else kept


def _with_factors(
    made: ChosenRidge, part: Uncertain, G: FloatArray, shape: FloatArray
) -> ChosenRidge:
    """Average with the coefficients of a structure, unless the equations refute these."""
    M, b = part.values, made.coefficients
    other = shrunk(shape, np.zeros_like(shape))
    V, off = _covariance_of_equations(part, other), M[1:, 0] - M[1:, 1:] @ other
    passes = off @ np.linalg.lstsq(V, off, rcond=_LEAST)[0] <= special.chdtri(len(b), _REFUTED)
    b = b + _OF_STRUCTURE * (other - b)
    explained, noise = _explained(part, b, (1 - _OF_STRUCTURE) * G)
    if not passes or other @ other > LIMIT**2 or explained < noise:
        return made
    return replace(made, coefficients=b, explained=explained, with_factors=True)


def _for_predictions(part: Uncertain) -> tuple[Uncertain, BoolArray]:
    """Return the matrix that a ridge is chosen by, and which features have long tails.

    These count with the variance that they may have. Pairs that were not released count as zero
    give or take the noise of the others: that is about what they are, while intervals allow for
    the largest that they may be.
    """
    more = np.expm1(part.tail)
    long = more > _LONG_TAIL
    long[0] = False
    pairs = part.known & ~np.eye(len(more), dtype=bool)
    usual = float(np.median(part.noise_sd[pairs])) if pairs.any() else 0.0
    noise = np.where(part.known, part.noise_sd, np.minimum(part.noise_sd, usual))
    values = part.values + np.diag(np.where(long, more, 0.0))
    return replace(part, values=values, noise_sd=noise), long[1:]


def _explained(part: Uncertain, b: FloatArray, G: FloatArray) -> tuple[float, float]:
    """Estimate the R^2 of predictions with b = G M_Xy, and the deviation of its noise."""
    error, noise = prediction_error(part, b, G)
    own = max(float(part.values[0, 0]), 1e-300)
    return (own - error) / own, noise / own


def prediction_error(part: Uncertain, b: FloatArray, G: FloatArray) -> tuple[float, float]:
    """Estimate the squared error of predictions with b = G M_Xy, and the noise of that estimate.

    It is (1, -b)' S (1, -b). With M = S + E for S that is too low by (1, -b)' E (1, -b), whose
    mean is -2 tr(G V(b)) to first order, as b moves by G times the error of the equations (Stein).
    The error of predicting the mean is M_yy, so that noise of that entry is not counted.
    """
    tilde, square = np.concatenate([[1.0], -b]), part.noise_sd**2
    noise = 2 * tilde**2 @ square @ tilde**2 - tilde**4 @ square.diagonal() - square[0, 0]
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
#: Said where no coefficient has an interval.
UNBOUNDED = (
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
    ridge : float
        Number added to the standardized variances for the coefficients; 0 is least squares.
    multiplier : float
        Factor of the coefficients after that: 1, less where noise is nearly as large as what they
        explain, and 0 where the best prediction is the mean of the target.
    ridge_reason : str
        Reason for this ridge and this factor, in a sentence.
    predicted_r_squared : float
        Estimated R^2 of predictions with these coefficients: `r_squared` less what their error
        costs. It is never below 0 with `ridge="auto"`.
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
    ridge: float
    multiplier: float
    ridge_reason: str
    predicted_r_squared: float

    @property
    def noise(self) -> FloatArray:
        """Which coefficients are noise: their intervals are infinite."""
        return np.asarray(~np.isfinite(self.upper - self.lower))

    def table(self) -> Table:
        """Return one line for each feature, in the order of `features` and `coefficients`."""
        return {
            "feature": np.array(self.features, dtype=object),
            "coefficient": self.coefficients,
            "lower": self.lower,
            "upper": self.upper,
            "standardized": self.standardized,
            "hidden": self.hidden,
            "noise": self.noise,
        }

    def page(self) -> AnswerPage:
        """R^2, what is left of the variance, and the coefficients, the strongest first."""
        order = np.argsort(-np.abs(self.standardized), kind="stable")
        table = {name: column[order] for name, column in self.table().items()}
        ends = figure(self.r_squared_lower), figure(self.r_squared_upper)
        residual = math.sqrt(max(self.residual_variance, 0.0))
        facts = [
            ("target", self.target),
            ("R^2", f"{figure(self.r_squared)}, between {ends[0]} and {ends[1]}"),
            ("residuals", f"standard deviation {figure(residual)}"),
            ("ridge", f"{figure(self.ridge)}: {self.ridge_reason}"),
            ("records", f"{self.n:,}"),
        ]
        if self.intercept is not None:
            assert self.intercept_lower is not None
            assert self.intercept_upper is not None
            ends = figure(self.intercept_lower, 4), figure(self.intercept_upper, 4)
            words = f"{figure(self.intercept, 4)}, between {ends[0]} and {ends[1]}"
            facts.insert(1, ("intercept", words))
        legend = (
            f"coefficient: how much more {self.target} to expect for one more of the feature, the "
            f"others being equal, in the units of the data; {between(self.level)}. standardized: "
            "the same in standard deviations."
        )
        if self.hidden.any():
            legend += " hidden: noise makes this column indistinguishable from others."
        if self.noise.any():
            legend += " noise: nothing is known of this coefficient."
        return AnswerPage("Regression", facts, table, legend, self.notes, self.warning)


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
    y, notes = _target(release, target)
    shape, said = of_factors(release), list[str]()
    apart = on is None and shape is None
    if apart:
        X, more = without_references(release, partners(release, y))
        part, said = _told_apart(release, y, X, width)
    else:
        X, more, said = _asked(release, y, on)
        part = with_missing(release, np.concatenate([[y], X]))
    notes += more
    found = linear(part, width, shape, None if apart else limit, ridge)
    if not found.bounded:
        said.append(UNBOUNDED)
    if found.hidden is not None:
        said.append(ridge_words(release, part.features[1:][found.hidden], limit))
    reason = _ridge_reason(release, part.features[1:], found.chosen, ridge)
    if ridge != AUTO_RIDGE and found.chosen is not None and found.chosen.explained < 0:
        said.append(
            "These coefficients are expected to predict worse than the mean of the target (R^2 "
            f"{figure(found.chosen.explained)}): pass ridge='auto'."
        )
    made = _regression(release, part, found, level, said)
    return replace(made, notes=tuple(notes), ridge_reason=reason)


def _ridge_reason(
    release: Release, X: IntArray, made: ChosenRidge | None, asked: float | str
) -> str:
    """Say why the coefficients are those of this ridge."""
    if made is None:
        return "there are no columns to regress on"
    if asked != AUTO_RIDGE:
        return "as asked" if made.ridge else "least squares, as asked"
    words = "least squares, which is expected to predict best"
    if made.ridge:
        words = "chosen because noise makes least squares (ridge 0) predict worse"
    if made.kept < 1:
        words += f"; coefficients are multiplied by {figure(made.kept)}, because noise is as large "
        words += "as what they explain" if made.kept == 0 else "as much of what they explain"
    if made.long.any():
        words += f"; the variance of {in_words(release, X[made.long])} counts as larger than "
        words += "released, because of its long tails"
    if made.with_factors:
        words += (
            f"; averaged with the factors of the release, which have a weight of {_OF_STRUCTURE:g}"
        )
    return words


def _target(release: Release, target: Any) -> tuple[int, list[str]]:
    """Return the feature to explain, and a note where its name is not the one that was given.

    A category of two levels is explained by the share of one of them.
    """
    given, notes = spelt_out(release, [target])
    places = positions(release, given)
    if len(places) == 2:
        places, more = without_references(release, places)
        notes += more
    if len(places) != 1:
        places = positions(release, target)
    refuse_unknown(release, "target", places)
    return int(places[0]), notes


def _asked(release: Release, y: int, on: Any) -> tuple[IntArray, list[str], list[str]]:
    """Return the features to regress on, notes on what was taken for them, and what to warn of.

    All are those that were found, without levels of the target's own category, and without one
    level of each other. Of those that are named, the ones that were not found are left out.
    """
    names = feature_names(release)
    if on is None or (isinstance(on, str) and on == "all" and on not in names):
        every, lost = chosen(release, None, "on")
        every = every[~release.exclude_each_other(every, np.array(y))]
        X, notes = without_references(release, every)
        return X, notes + say_left_out(tuple(name for name in lost if name != names[y])), []
    one = isinstance(on, str | int | np.integer)
    given, notes = spelt_out(release, [on] if one else list(on))
    X = positions(release, given)
    if len(X) == 0:
        raise ParameterError("on must name at least one feature, got none: or pass None.")
    if y in X:
        raise ParameterError(
            f"on must not hold the target, got {names[y]!r} as both: leave it out of on."
        )
    unknown = nothing_known(release)[X]
    if unknown.all():
        refuse_unknown(release, "on", X)
    said = []
    if unknown.any():
        do = "does not vary or cannot" if unknown.sum() == 1 else "do not vary or cannot"
        said = [f"Left out: {in_words(release, X[unknown])}, which {do} be told from noise."]
    X, more = without_references(release, X[~unknown])
    return X, notes + more, said


def ridge_words(release: Release, hidden: IntArray, limit: float) -> str:
    """Say which features noise hides, and what intervals then are."""
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
        ridge=0.0 if found.chosen is None else found.chosen.ridge,
        multiplier=1.0 if found.chosen is None else found.chosen.kept,
        ridge_reason="",
        predicted_r_squared=0.0 if found.chosen is None else found.chosen.explained,
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


# ---- means ----


def means_of(release: Release, means: Mapping[Any, float] | None) -> tuple[FloatArray, FloatArray]:
    """Means of all features and the noise they have: public ones where given, else released ones.

    NaN where there is neither; noise is NaN where a released mean does not say it.
    """
    d = release.n_features
    location = np.full(d, np.nan) if release.location is None else release.location.astype(float)
    known = release.making.means_sd
    noise = np.full(d, np.nan) if known is None else np.array(known)
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
