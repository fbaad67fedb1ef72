"""Linear prediction of one feature from others, from a matrix with a known error.

With M = S + E released, the equations M_Xy - M_XX b = 0 have at the true b an error whose
covariance V(b) is known at any noise. What passes the test of a coefficient is a quadric
(`docs/questions.md`): an ellipsoid where noise is small beside the matrix, and unbounded where it
is not, so that intervals are infinite exactly where nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray
from hushcov._validation import check_level
from hushcov.answers.uncertain import Uncertain

_LEAST = 1e-10  # of an eigenvalue, over the largest: below it is rounding


@dataclass(frozen=True, eq=False)
class Linear:
    """The prediction of the first feature of a matrix from the others, in units of deviations.

    Parameters
    ----------
    coefficients : ndarray
        Shrunk by as much as noise makes them too large; or those of a structure.
    unexplained : float
        The variance that is left, over that of the first feature; between 0 and 1.
    unexplained_sd : float
        What it may be off by; infinite where noise is as large as the matrix.
    of_variance : float
        Standard deviation of the residual variance, in the unit of `unexplained`.
    centre, spread : ndarray, or None
        The ellipsoid of coefficients: those whose difference to `centre` has at most 1 as its
        square in the norm of the inverse of `spread`. None where it is unbounded.
    """

    coefficients: FloatArray
    unexplained: float
    unexplained_sd: float
    of_variance: float
    centre: FloatArray | None
    spread: FloatArray | None

    @property
    def bounded(self) -> bool:
        """Whether noise leaves anything to say."""
        return self.spread is not None

    def ends(self, directions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values of linear functions of the coefficients, and ends of their intervals."""
        C = np.atleast_2d(directions)
        values = C @ self.coefficients
        if self.centre is None or self.spread is None:
            infinite = np.where(np.any(C != 0, axis=1), np.inf, 0.0)
            return values, values - infinite, values + infinite
        half = np.sqrt(np.maximum(np.einsum("ci,ij,cj->c", C, self.spread, C), 0.0))
        middle = C @ self.centre
        return values, np.minimum(middle - half, values), np.maximum(middle + half, values)


def width_of(level: object) -> float:
    """How many deviations an interval of this level reaches; the level is checked."""
    level = check_level(level)
    return float(special.ndtri(0.5 + level / 2))


def linear(part: Uncertain, width: float, shape: FloatArray | None = None) -> Linear:
    """Predict the first feature of `part` from the others, in units of the deviations.

    `width` is how many deviations an interval reaches. `shape` is an estimate of the whole matrix
    with a structure, used where the released values do not speak against it. Intervals are theirs.
    """
    deviations, features = part.deviations, part.features
    part = part.standardized()
    if len(features) == 1:
        alone = float(part.deviation(np.ones((1, 1))))
        return Linear(np.zeros(0), 1.0, np.inf, alone, np.zeros(0), np.zeros((0, 0)))
    raw = shrunk(part.values, part.noise_sd)
    quadric = _quadric(part, raw, width)
    P, b = part.covariance, raw
    if shape is not None:
        P = shape[np.ix_(features, features)] / np.multiply.outer(deviations, deviations)
        b = shrunk(P, np.zeros_like(P))
    if quadric is not None:
        b = b if _allowed(b, *quadric, width) else raw
        return Linear(b, *_left(part, raw), *quadric)
    explained = float(2 * b @ P[1:, 0] - b @ P[1:, 1:] @ b)
    left = 1 - explained / P[0, 0] if P[0, 0] > 0 else 1.0
    return Linear(b, min(max(left, 0.0), 1.0), np.inf, np.inf, None, None)


def _allowed(b: FloatArray, centre: FloatArray, spread: FloatArray, width: float) -> bool:
    """Whether coefficients that a structure gives are among those that noise may have moved."""
    off = np.linalg.lstsq(spread * width**-2, b - centre, rcond=None)[0] @ (b - centre)
    return bool(off <= special.chdtri(len(b), 0.05))


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


def _quadric(part: Uncertain, b: FloatArray, width: float) -> tuple[FloatArray, FloatArray] | None:
    """Centre and spread of the coefficients that are not refuted; None if these are unbounded.

    V(b) counts as its shape at the estimate times its trace, which is a quadratic form in b.
    """
    V = _covariance_of_equations(part, b)
    trace = float(np.trace(V))
    equations, P = part.values[1:], part.covariance
    if trace == 0:
        return (b, np.zeros((len(b), len(b)))) if _full_rank(P[1:, 1:]) else None
    V = V / trace + _LEAST * np.eye(len(b)) / len(b)
    form = np.diag((part.noise_sd[1:] ** 2).sum(axis=0))
    form = form + (1 + part.excess) * np.trace(P[1:, 1:]) * P / part.n
    W = equations.T @ np.linalg.solve(V, equations) - width**2 * form
    values, vectors = np.linalg.eigh(W[1:, 1:])
    if not values[0] > _LEAST * values[-1] or not np.linalg.eigvalsh(equations[:, 1:])[0] > 0:
        return None
    inverse = (vectors / values) @ vectors.T
    centre = inverse @ W[1:, 0]
    size = max(float(W[1:, 0] @ centre - W[0, 0]), 0.0)
    return np.asarray(centre), np.asarray(size * inverse)


def _full_rank(P: FloatArray) -> bool:
    values = np.linalg.eigvalsh(P)
    return bool(values[0] > _LEAST * values[-1])


def _left(part: Uncertain, b: FloatArray) -> tuple[float, float, float]:
    """The share of the variance that is left, and deviations of it and of the variance left.

    A change E of the matrix changes the variance left by (1, -b)' E (1, -b), less a square of the
    errors of the equations, whose mean is put back: noise explains something, too.
    """
    M = part.values
    inverse = np.linalg.inv(M[1:, 1:])
    exact = inverse @ M[1:, 0]
    chance = inverse @ _covariance_of_equations(part, b)
    own = float(M[0, 0])
    left = own - float(M[0, 1:] @ exact) + float(np.trace(chance))
    square = 2 * float(np.trace(chance @ chance))
    tilde = np.concatenate([[1.0], -b])
    gradient = np.multiply.outer(tilde, tilde)
    of_variance = float(np.hypot(part.deviation(gradient), np.sqrt(max(square, 0.0))))
    relative = gradient / own
    relative[0, 0] -= left / own**2
    of_share = float(np.hypot(part.deviation(relative), np.sqrt(max(square, 0.0)) / own))
    return min(max(left / own, 0.0), 1.0), of_share, of_variance / own
