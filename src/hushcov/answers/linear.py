"""Linear prediction: a matrix and the law of its error in, coefficients with intervals out.

With M = S + E released, the equations M_Xy - M_XX b = 0 have at the true b an error whose
covariance V(b) is known at any noise (`equation_covariance`). The coefficients that pass the test
of these equations form a quadric (`docs/questions.md`): an ellipsoid where noise is small beside
the matrix, and unbounded where it is not. So intervals are infinite exactly where nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray
from hushcov.answers.uncertain import Uncertain

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
_DOUBTS = 2.0  # deviations of noise within which the first matrix refutes nothing
_REFUTED = 0.05  # how often a true structure does not pass
#: Weight of the coefficients of a structure beside those of a ridge, measured.
WEIGHT_OF_STRUCTURE = 0.7
_NOTHING = 0.95  # of the limit, from which on an interval counts as infinite


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
    declared : bool
        Whether they are those of a declared target.
    """

    coefficients: FloatArray
    ridge: float
    kept: float
    explained: float
    long: BoolArray
    with_factors: bool = False
    declared: bool = False


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
        """Return values of linear functions of the coefficients, and ends of their intervals."""
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

    Parameters
    ----------
    part : Uncertain
        The matrix, and the law of its error.
    width : float
        How many deviations an interval reaches.
    shape : ndarray, optional
        An estimate of the whole matrix by a structure, which `chosen_ridge` takes.
    limit : float, optional
        The most that coefficients have as their length: intervals are then those of a ridge where
        noise hides what tells features apart.
    ridge : "auto" or float, optional
        How the coefficients are made, by `chosen_ridge`. None shrinks them by what noise makes them
        too large.
    """
    shape = None if shape is None else shape[np.ix_(part.features, part.features)]
    shape = None if shape is None else shape / np.multiply.outer(part.deviations, part.deviations)
    part = part.standardized()
    if len(part.features) == 1:
        alone = float(part.deviation(np.ones((1, 1))))
        return Linear(np.zeros(0), 1.0, np.inf, alone, np.zeros((1, 1)))
    raw = shrunk(part.values, part.of_squares)
    M, P = part.values[1:, 1:], part.covariance
    chosen = None if ridge is None else chosen_ridge(part, ridge, shape)
    b = raw if chosen is None else chosen.coefficients
    W, size = _quadric(part, raw, width)
    own = np.linalg.eigvalsh(W[1:, 1:])
    least = max(_LEAST * own[-1], 0.0 if limit is None else size / limit**2)
    if own[0] > least and np.linalg.eigvalsh(M)[0] > 0:
        left = _unexplained(part, raw, np.asarray(np.linalg.inv(M)))
        centre = b if chosen is None else _with_ridge(part, 0.0)[0]
        return Linear(b, *left, W, centre=centre, chosen=chosen)
    found = None if limit is None or size == 0 else _within_limit(part, raw, width, limit)
    if found is not None:
        return replace(found, coefficients=b, centre=b if chosen is None else None, chosen=chosen)
    explained = float(2 * raw @ P[1:, 0] - raw @ P[1:, 1:] @ raw)
    unexplained = 1 - explained / float(P[0, 0]) if P[0, 0] > 0 else 1.0
    return Linear(b, min(max(unexplained, 0.0), 1.0), np.inf, np.inf, None, chosen=chosen)


# ---- what is known of the coefficients ----


def equation_covariance(part: Uncertain, b: FloatArray) -> FloatArray:
    """Return V(b), the covariance of the equations: noise, of which two share entries; sampling.

    And what shortening records may have left in a further look.
    """
    tilde, P = np.concatenate([[1.0], -b]), part.covariance
    shared = part.of_equations(b)
    if part.lost is not None:
        shared = shared + (tilde @ part.lost @ tilde) * part.lost[1:, 1:]
    return np.asarray(shared + (1 + part.excess) * (tilde @ P @ tilde) * P[1:, 1:] / part.n)


def _quadric(part: Uncertain, b: FloatArray, width: float) -> tuple[FloatArray, float]:
    """Return W of the coefficients that are not refuted, and what its form is to be less than at b.

    V(b) counts as its shape at the estimate times its trace, which is a quadratic form in b; of a
    further look it is that of V(b) times its inverse at the estimate, so that what long records
    have lost in some directions does not hide the others.
    """
    V = equation_covariance(part, b)
    trace = float(np.trace(V))
    equations, P = part.values[1:], part.covariance
    if trace == 0:  # nothing is off, and b is all that passes
        return equations.T @ equations, 0.0
    inverse = np.linalg.inv(V / trace + _LEAST * np.eye(len(b)) / len(b))
    weights = np.eye(len(b)) if part.shape is None else inverse / len(b)
    form = part.of_traces(weights) + (1 + part.excess) * np.sum(weights * P[1:, 1:]) * P / part.n
    if part.lost is not None:
        form += np.sum(weights * part.lost[1:, 1:]) * part.lost
    W = equations.T @ inverse @ equations - width**2 * form
    return np.asarray(W), width**2 * trace


def _within_limit(part: Uncertain, b: FloatArray, width: float, limit: float) -> Linear | None:
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
    weak = vectors[:, own <= unit]
    doubt = width * np.sqrt(part.of_forms(np.vstack([np.zeros(weak.shape[1]), weak])))
    gain = (limit + np.abs(weak.T @ b)) ** 2 @ (np.einsum("ik,ik->k", weak, P @ weak) + doubt)
    both = np.vstack([P, part.of_squares])  # as `shrunk` has it
    inverse = np.linalg.lstsq(both, np.eye(*both.shape), rcond=_LEAST)[0]
    load = (weak**2).sum(axis=1)
    hidden, left = load >= min(_HIDDEN, load.max()), _unexplained(part, b, inverse)
    found = Linear(b, *left, W, tuple(ridges.tolist()), limit, hidden, float(gain))
    _, low, high = found.ends(np.eye(len(b)))
    return found if np.isfinite(high - low).any() else None


def _unexplained(part: Uncertain, b: FloatArray, inverse: FloatArray) -> tuple[float, float, float]:
    """Return the share of the variance that is left, and deviations of it and of what is left.

    A change E of the matrix changes the variance left by (1, -b)' E (1, -b), less a square of the
    errors of the equations, whose mean is put back: noise explains something, too. `inverse` is
    that of the matrix, or of a ridge.
    """
    M = part.values
    exact = inverse @ M[1:, 0]
    chance = inverse @ equation_covariance(part, b)
    own = float(M[0, 0])
    left = own - float(exact @ (2 * M[1:, 0] - M[1:, 1:] @ exact)) + float(np.trace(chance))
    deviation = np.sqrt(max(2 * float(np.trace(chance @ chance)), 0.0))
    tilde = np.concatenate([[1.0], -b])
    gradient = np.multiply.outer(tilde, tilde)
    relative = gradient / own
    relative[0, 0] -= left / own**2
    of_variance = float(np.hypot(part.deviation(gradient), deviation))
    of_share = float(np.hypot(part.deviation(relative), deviation / own))
    return min(max(left / own, 0.0), 1.0), of_share, of_variance / own


# ---- coefficients that predict ----


def shrunk(M: FloatArray, of_squares: FloatArray) -> FloatArray:
    """Return coefficients of the first feature on the others.

    Noise makes the square of M_XX larger by a matrix, of which `of_squares` is a root, and an
    inverse too large by as much: least squares of M_Xy on M_XX with that ridge. It vanishes where
    noise is small.
    """
    values, vectors = np.linalg.eigh(M[1:, 1:])
    P = (vectors * np.maximum(values, 0.0)) @ vectors.T
    right = np.concatenate([M[1:, 0], np.zeros(len(P))])
    return np.asarray(np.linalg.lstsq(np.vstack([P, of_squares]), right, rcond=_LEAST)[0])


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
        return ChosenRidge(b, float(ridge), 1.0, explained_share(part, b, G)[0], none)
    part, long = _for_predictions(part)
    M = part.values
    values, vectors = np.linalg.eigh(M[1:, 1:])
    values, right = np.maximum(values, 0.0), vectors.T @ M[1:, 0]
    unit = float(np.sqrt((part.noise_sd[1:, 1:] ** 2).sum(axis=0)).mean())
    ridges = _TRIED * unit + np.where(_TRIED > 0, _LEAST, 0.0)
    regular = values[0] > _LEAST * values[-1]
    weights = 1 / (values + ridges[0 if regular else 1 :, None])  # a row for each ridge
    pilot, place = shrunk(M, part.of_squares), 0
    for _ in range(_ROUNDS):
        V = np.einsum("ij,ik,kj->j", vectors, equation_covariance(part, pilot), vectors)
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
        shares = [explained_share(part, G @ M[1:, 0], G)[0] for G in inverses[place:]]
        place += int(np.argmax(shares))
        kept = _factor(part, inverses[place])
    G, used = inverses[place], float(ridges[place + (not regular)])
    kept *= factor_of_first(part, G @ M[1:, 0])
    b = kept * (G @ M[1:, 0])
    made = ChosenRidge(b, used, kept, max(explained_share(part, b, kept * G)[0], 0.0), long)
    least_squares = used == 0 and kept == 1
    return made if shape is None or least_squares else _with_factors(made, part, kept * G, shape)


def _factor(part: Uncertain, G: FloatArray) -> float:
    """Return what to multiply coefficients G M_Xy by, so that noise makes predictions no worse."""
    b = G @ part.values[1:, 0]
    explains = float(b @ part.covariance[1:, 1:] @ b)
    surely = float(b @ part.values[1:, 0] - (G * equation_covariance(part, b)).sum())
    by_noise = float(np.clip(1 - surely / explains, 0.0, 1.0)) if explains > 0 else 1.0
    kept = 1 - by_noise**2
    return 1.0 if kept > 1 - _WORTH_A_RIDGE else kept


def factor_of_first(part: Uncertain, b: FloatArray) -> float:
    """Return what to multiply coefficients by, where the first matrix says that they are too large.

    Further looks shorten far records more, which may have other relations than most.
    """
    if part.first is None:
        return 1.0
    M = part.first.values
    explains, shared = float(b @ M[1:, 1:] @ b), float(b @ M[1:, 0])
    doubt = float(np.sqrt(part.first.of_forms(np.concatenate([[0.0], b]))))
    of_shared = float(np.sqrt(b**2 @ part.first.noise_sd[1:, 0] ** 2))
    surely = explains - _DOUBTS * doubt
    if surely <= 0 or shared + _DOUBTS * of_shared >= surely:
        return 1.0
    return float(np.clip(shared / explains, 0.0, 1.0))


def _with_factors(
    made: ChosenRidge, part: Uncertain, G: FloatArray, shape: FloatArray
) -> ChosenRidge:
    """Take the mean with the coefficients of a structure, unless the equations refute these."""
    M, b = part.values, made.coefficients
    other = shrunk(shape, np.zeros_like(shape[1:, 1:]))
    V, off = equation_covariance(part, other), M[1:, 0] - M[1:, 1:] @ other
    passes = off @ np.linalg.lstsq(V, off, rcond=_LEAST)[0] <= special.chdtri(len(b), _REFUTED)
    b = b + WEIGHT_OF_STRUCTURE * (other - b)
    explained, noise = explained_share(part, b, (1 - WEIGHT_OF_STRUCTURE) * G)
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
    values = part.values if part.steady is None else part.steady
    values = values + np.diag(np.where(long, more, 0.0))
    return replace(part, values=values, noise_sd=noise), long[1:]


def explained_share(part: Uncertain, b: FloatArray, G: FloatArray) -> tuple[float, float]:
    """Estimate the R^2 of predictions with b = G M_Xy, and the deviation of its noise.

    Their squared error is (1, -b)' S (1, -b). With M = S + E for S that is too low by
    (1, -b)' E (1, -b), whose mean is -2 tr(G V(b)) to first order, as b moves by G times the error
    of the equations (Stein). The error of predicting the mean is M_yy, so that noise of that entry
    is not counted.
    """
    tilde = np.concatenate([[1.0], -b])
    noise = float(part.of_forms(tilde)) - float(part.noise_sd[0, 0]) ** 2
    fitted = 2 * float((G * equation_covariance(part, b)).sum())
    error = float(tilde @ part.values @ tilde) + fitted
    own = max(float(part.values[0, 0]), 1e-300)
    return (own - error) / own, float(np.sqrt(max(noise, 0.0))) / own
