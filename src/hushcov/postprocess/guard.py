"""The guard: from a noisy matrix one that is hardly ever worse than the matrix of zeros.

`docs/research.md` has the argument: what is proved, and what is measured. In short: the norm of the
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
from scipy import linalg, special

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import check_real
from hushcov.exceptions import ParameterError
from hushcov.postprocess.matrices import check_symmetric, project_psd

_MISS = 1e-3  # probability with which one bound on the noise may fail
_FALSELY_KEPT = 1e-4  # probability that any feature without variance is kept
# What the norm of noise exceeds its leading term by, at that probability. Measured.
_FEW_ROWS, _MANY_ROWS = 2.8, 3.8
_UNHARMED = 0.05  # noise of this share of the norm cannot make a release worse than 1.05 of zero
_GRID = 256
_ROUNDING_ERRORS = 1e-9  # of the largest eigenvalue: others below this have no digits


@dataclass(frozen=True)
class Guarded:
    """Noisy matrix after the guard.

    `left_out` are the features whose variance cannot be told from zero: their entries are zero.
    `changed` is false where the other entries are those of the release.
    """

    matrix: FloatArray
    left_out: BoolArray
    changed: bool


@dataclass(frozen=True)
class _Unit:
    """Kept features in one unit: their factors, and the sizes of noise and truth."""

    factors: FloatArray  # of rows and columns; the largest is 1
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
    scale = np.asarray(feature_scale, dtype=np.float64)
    if scale.shape != (len(matrix),) or not (np.isfinite(scale) & (scale > 0)).all():
        raise ParameterError(
            f"feature_scale must be {len(matrix)} positive numbers, one a feature, got shape "
            f"{scale.shape}: pass the scales that the matrix is in units of."
        )
    cure = "pass the standard deviations of the noise, zero where there is none."
    off = check_real("noise_sd", noise_sd, above=0, or_zero=True, cure=cure)
    on = check_real("diagonal_noise_sd", diagonal_noise_sd, above=0, or_zero=True, cure=cure)
    variance = matrix.diagonal()
    left_out = lost_features(variance, on)
    level = sure_level(len(matrix)) * on
    answer = np.zeros_like(matrix)
    if left_out.all():
        return Guarded(answer, left_out, changed=False)
    # Deviations are guessed, low where there is doubt: noise is large in units of them.
    deviation = np.sqrt(np.where(left_out, level or 1.0, variance - on))
    units = [
        _in_unit(matrix, left_out, factors, off, on)
        for factors in (np.ones_like(scale), scale, 1 / deviation)
    ]
    block = np.ix_(~left_out, ~left_out)
    changed = not all(_is_harmless(unit) for unit in units)
    estimate = matrix[block]
    if changed:
        estimate = _start(estimate, units[0].noise)
        for unit in units:
            estimate = _capped(estimate, unit)
    answer[block] = estimate
    return Guarded(answer, left_out, changed)


def lost_features(variance: FloatArray, noise_sd: float) -> BoolArray:
    """Return which features have a variance that cannot be told from zero, with such noise."""
    return np.asarray(variance <= sure_level(len(variance)) * noise_sd)


def sure_level(n_entries: int) -> float:
    """Return deviations of noise that hardly ever any of so many entries without signal exceeds."""
    return _level(_FALSELY_KEPT, n_entries)


def noise_norm(factors: FloatArray, noise_sd: float, diagonal_noise_sd: float) -> float:
    """Return what the norm of noise, times the factors of row and column, hardly ever exceeds.

    It is above the 99.9 % quantile; by 15 % at most where the diagonal has sqrt(2) times the
    deviation of the others, else by more (measured).
    """
    largest = float(factors.max(initial=0.0))
    if largest == 0:
        return 0.0
    squares = (factors / largest) ** 2
    wide = max(noise_sd, diagonal_noise_sd / math.sqrt(2))
    # What the diagonal has beyond sqrt(2) times the others may be bounded by itself instead.
    beyond = math.sqrt(max(0.0, wide - noise_sd)) * math.sqrt(2 * (wide + noise_sd))
    alone = _level(_MISS / 2, len(factors)) * beyond
    # The end of the limiting spectrum (Dyson's equation) is the least of these.
    ratio = 1 + np.geomspace(1e-4, 1, _GRID)
    mass = np.array([np.sum(squares / (each - squares)) for each in ratio])
    leading = float(np.min(ratio * np.sqrt(mass)))
    norm: float = leading + min(_FEW_ROWS, _MANY_ROWS * (leading / 2) ** (-1 / 3))
    return largest * largest * min(wide * norm, noise_sd * norm + alone)


def _in_unit(
    matrix: FloatArray, left_out: BoolArray, unit: FloatArray, off: float, on: float
) -> _Unit:
    """Return the kept features in one unit."""
    kept = ~left_out
    factors = unit / unit[kept].max()
    noise = noise_norm(factors[kept], off, on)
    within = _part(matrix, kept, factors)
    level = _level(_MISS, len(matrix))
    by_variance = float(np.max(within.diagonal() - level * on * factors[kept] ** 2))
    hidden = 0.0
    if left_out.any():
        beyond = _top(_part(matrix, left_out, factors))
        hidden = max(0.0, beyond + noise_norm(factors[left_out], off, on))
    return _Unit(factors[kept], noise, max(_top(within) - noise, by_variance, 0.0), hidden)


def _is_harmless(unit: _Unit) -> bool:
    """Return whether a release that is left as it is cannot be worse than zero, or 1.05 of it."""
    hidden, norm = unit.hidden, unit.norm
    lost = (hidden + math.sqrt(hidden * (hidden + 4 * norm))) / 2
    return unit.noise + lost <= norm or unit.noise <= _UNHARMED * norm


def _start(block: FloatArray, noise: float) -> FloatArray:
    """Return a positive semidefinite matrix near the release, with less noise.

    Off the diagonal eigenvalues are moved towards zero by the norm of the noise. The diagonal
    has far less noise, and is kept.
    """
    own = np.diag(block.diagonal())
    values, vectors = np.linalg.eigh(block - own)
    shrunk = np.sign(values) * np.maximum(np.abs(values) - noise, 0.0)
    others = (vectors * shrunk) @ vectors.T
    return project_psd(own + (others + others.T) / 2)


def _capped(estimate: FloatArray, unit: _Unit) -> FloatArray:
    """Cut the eigenvalues of the estimate, in this unit, to the norm that the truth has at least.

    That is smaller in the Loewner order, so that no other unit is hurt.
    """
    in_unit = estimate * np.multiply.outer(unit.factors, unit.factors)
    # Few are above it: without the vectors of the others this takes half the time.
    values, vectors = linalg.eigh(in_unit, subset_by_value=(unit.norm, np.inf))
    if not len(values):
        return estimate
    if unit.norm <= _ROUNDING_ERRORS * values[-1]:
        return np.zeros_like(estimate)
    # In units of the scales, without a division by factors that may be tiny.
    directions = estimate @ (unit.factors[:, None] * vectors) / values
    root = directions * np.sqrt(values - unit.norm)
    return np.asarray(estimate - root @ root.T)


def _part(matrix: FloatArray, which: BoolArray, factors: FloatArray) -> FloatArray:
    """Return the part of some features, in another unit."""
    part = matrix[np.ix_(which, which)]
    with np.errstate(over="ignore"):
        return part * factors[which, None] * factors[which]


def _level(probability: float, n_features: int) -> float:
    """Return what the largest of so many standard normals exceeds with this probability."""
    return float(-special.ndtri(probability / n_features))


def _top(matrix: FloatArray) -> float:
    """Return the largest eigenvalue; infinite where products overflowed."""
    return float(np.linalg.eigvalsh(matrix)[-1]) if np.isfinite(matrix).all() else math.inf
