"""The guard: from a noisy matrix one that is hardly ever worse than the matrix of zeros.

`docs/guard.md` has the argument: what is proved, and what is measured. In short: the norm of the
truth is bounded from below in each unit. Where noise is below that bound nothing is changed. Else
the answer is positive semidefinite with a norm of at most the bound, as the truth has, and two such
matrices differ by no more than the larger norm.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import check_real
from hushcov.exceptions import ParameterError
from hushcov.postprocess.matrices import check_symmetric, project_psd

_MISS = 1e-3  # probability with which one bound on the noise may fail
_DEVIATE = float(-special.ndtri(_MISS))  # standard deviations that a normal exceeds as rarely
# What the norm of noise exceeds its leading term by, at that probability. Measured.
_FEW_ROWS, _MANY_ROWS = 2.8, 3.8
_UNHARMED = 0.05  # noise of this share of the norm cannot make a release worse than 1.05 of zero
_GRID = 256


@dataclass(frozen=True)
class Guarded:
    """What the guard makes of a noisy matrix.

    `left_out` are the features whose variance cannot be told from zero: their entries are zero.
    `changed` is false where the other entries are those of the release.
    """

    matrix: FloatArray
    left_out: BoolArray
    changed: bool


@dataclass(frozen=True)
class _Unit:
    """Kept features in one unit: their factors (largest 1), and the sizes of noise and truth."""

    factors: FloatArray
    noise: float  # the norm of the noise is at most this
    norm: float  # the norm of the truth is at least this
    hidden: float  # the norm of what was left out is at most this


def guarded(
    matrix: FloatArray, noise_sd: float, diagonal_noise_sd: float, feature_scale: FloatArray
) -> Guarded:
    """Return a matrix whose error is hardly ever above that of zero, in the units that matter.

    `matrix` is a positive semidefinite matrix in units of the features' scales plus independent
    normal noise, of standard deviation `noise_sd` off and `diagonal_noise_sd` on the diagonal. The
    error is the norm of the difference; it is compared with the norm of the truth in units of the
    scales, in units of the data (`feature_scale` times those), and in standard deviations.

    A matrix well above its noise is returned as it is. Which features are left out depends on the
    diagonal alone. No random numbers are used.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    matrix = check_symmetric(matrix)
    scale = _check_scale(feature_scale, len(matrix))
    cure = "pass the standard deviations of the noise, zero where there is none."
    off = check_real("noise_sd", noise_sd, at_least=0, cure=cure)
    on = check_real("diagonal_noise_sd", diagonal_noise_sd, at_least=0, cure=cure)
    # The largest value that the diagonal of noise alone has, but for one time in a thousand.
    largest = float(-special.ndtri(_MISS / len(matrix))) * on
    left_out = matrix.diagonal() <= largest
    kept = np.flatnonzero(~left_out)
    answer = np.zeros_like(matrix)
    if len(kept) == 0:
        return Guarded(answer, left_out, changed=False)
    block = np.ix_(kept, kept)
    deviation = np.sqrt(np.where(left_out, largest or 1.0, matrix.diagonal()))
    each = [
        _measured(matrix, left_out, u, off, on) for u in (np.ones_like(scale), scale, 1 / deviation)
    ]
    if all(_is_harmless(unit) for unit in each):
        answer[block] = matrix[block]
        return Guarded(answer, left_out, changed=False)
    estimate = _start(matrix[block], each[0])
    for unit in each:
        estimate = _capped(estimate, unit)
    answer[block] = estimate
    return Guarded(answer, left_out, changed=True)


def noise_norm(factors: FloatArray, noise_sd: float, diagonal_noise_sd: float) -> float:
    """Return what the norm of noise, times the factors of row and column, hardly ever exceeds.

    Below it is at least 99.9 % of the noise, and it is at most 15 % above that quantile (measured).
    """
    largest = float(factors.max(initial=0.0))
    if largest == 0:
        return 0.0
    squares = (factors / largest) ** 2
    wide = max(noise_sd, diagonal_noise_sd / math.sqrt(2))
    # What the diagonal has beyond sqrt(2) times the others may be bounded by itself instead.
    beyond = math.sqrt(max(0.0, diagonal_noise_sd**2 - 2 * noise_sd**2))
    alone = float(-special.ndtri(_MISS / 2 / len(factors))) * beyond
    # The end of the limiting spectrum (Dyson's equation) is the least of these.
    ratio = 1 + np.geomspace(1e-4, 1, _GRID)
    mass = np.array([np.sum(squares / (each - squares)) for each in ratio])
    leading = float(np.min(ratio * np.sqrt(mass)))
    norm = leading + min(_FEW_ROWS, _MANY_ROWS * (leading / 2) ** (-1 / 3))
    return largest**2 * min(wide * norm, noise_sd * norm + alone)


def _measured(
    matrix: FloatArray, left_out: BoolArray, unit: FloatArray, off: float, on: float
) -> _Unit:
    """Noise and least norm of the kept features in one unit."""
    kept = ~left_out
    factors = unit / unit[kept].max()
    noise = noise_norm(factors[kept], off, on)
    within = _in_unit(matrix, kept, factors)
    norm = max(
        _top(within) - noise,
        _least_norm(within, factors[kept], max(off, on / math.sqrt(2)), on),
        float(np.max(within.diagonal() - _level(kept) * on * factors[kept] ** 2)),
    )
    hidden = 0.0
    if left_out.any():
        beyond = _top(_in_unit(matrix, left_out, factors))
        hidden = max(0.0, beyond + noise_norm(factors[left_out], off, on))
    return _Unit(factors[kept], noise, norm, hidden)


def _least_norm(within: FloatArray, factors: FloatArray, sd: float, diagonal_sd: float) -> float:
    """A bound on the norm of the truth from below, by its trace and the largest eigenvalue.

    Truths of smaller norm have a largest eigenvalue with noise that is below the one seen.
    """
    top = _top(within)
    if top <= 0:
        return 0.0
    squares = factors**2
    weight = float(squares @ within.diagonal())
    weight += _DEVIATE * diagonal_sd * float(np.sqrt(np.sum(squares**4)))
    norms = top * np.linspace(0, 1, 2 * _GRID, endpoint=False)[:, None]
    gaps = top * np.geomspace(1e-4, 2, _GRID)
    ends = norms + gaps
    means = ends + sd**2 * (squares.sum() / ends + max(0.0, weight) / (ends * gaps))
    possible = means.min(axis=1) + _DEVIATE * math.sqrt(2) * sd >= top
    return float(norms[np.argmax(possible), 0]) if possible.any() else float(norms[-1, 0])


def _is_harmless(unit: _Unit) -> bool:
    """Whether a release that is left as it is cannot be worse than zero, or 1.05 of it."""
    hidden, norm = unit.hidden, unit.norm
    lost = (hidden + math.sqrt(hidden * (hidden + 4 * max(norm, 0.0)))) / 2
    return unit.noise + lost <= norm or unit.noise <= _UNHARMED * norm


def _start(block: FloatArray, unit: _Unit) -> FloatArray:
    """A positive semidefinite matrix near the release; without noise where that is the most."""
    if unit.noise <= unit.norm:
        return project_psd(block)
    diagonal = np.diag(block.diagonal())
    values, vectors = np.linalg.eigh(block - diagonal)
    root = vectors * np.sqrt(np.maximum(values - unit.noise, 0.0))
    return diagonal + root @ root.T


def _capped(estimate: FloatArray, unit: _Unit) -> FloatArray:
    """The estimate with its eigenvalues in this unit cut to the norm that the truth has at least.

    That is smaller in the Loewner order, so that no other unit is hurt.
    """
    values, vectors = np.linalg.eigh(estimate * np.multiply.outer(unit.factors, unit.factors))
    above = values > unit.norm
    if not above.any():
        return estimate
    # In units of the scales, without a division by factors that may be tiny.
    directions = estimate @ (unit.factors[:, None] * vectors[:, above]) / values[above]
    root = directions * np.sqrt(values[above] - unit.norm)
    return np.asarray(estimate - root @ root.T)


def _in_unit(matrix: FloatArray, which: BoolArray, factors: FloatArray) -> FloatArray:
    """Some features of a matrix, in another unit."""
    part = matrix[np.ix_(which, which)]
    with np.errstate(over="ignore"):
        return part * factors[which, None] * factors[which]


def _level(kept: BoolArray) -> float:
    """Standard deviations that the noise of no kept variance is above."""
    return float(-special.ndtri(_MISS / kept.size))


def _top(matrix: FloatArray) -> float:
    """The largest eigenvalue; infinite where products overflowed."""
    return float(np.linalg.eigvalsh(matrix)[-1]) if np.isfinite(matrix).all() else math.inf


def _check_scale(feature_scale: FloatArray, n_features: int) -> FloatArray:
    scale = np.asarray(feature_scale, dtype=np.float64)
    if scale.shape != (n_features,) or not (np.isfinite(scale) & (scale > 0)).all():
        raise ParameterError(
            f"feature_scale must be {n_features} positive numbers, one a feature, got shape "
            f"{scale.shape}: pass the scales that the matrix is in units of."
        )
    return scale
