"""Private bounds, centres and scales of columns, and the bounded rows that most rivals sum.

Publications read norms of records, means and deviations off the data. Here they are released, out
of the budget of the method: one record, added or removed, moves the vector of everything that a
function below adds noise to by at most the l2 sensitivity that it states, and its noise is Gaussian
with the deviation sensitivity / mu. What several functions spend adds up as the sum of mu^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from hushcov._arrays import BoolArray, FloatArray
from hushcov.calibration import calibrate_gaussian
from hushcov.kernel.accounting import WITHIN
from hushcov_lab.rivals.coefficients import Coefficients

# Magnitudes are counted in cells of some octaves, from 2^-40 to 2^40: finer cells find narrower
# bounds and lose more of the records in tails, whose count must stand out of the noise.
_FEATURE_OCTAVES, _TARGET_OCTAVES, _LAST_OCTAVE = 4, 1, 40
_MISTAKEN = 0.001  # how probably any empty cell stands out of the noise of all
_OWN = 2.0  # deviations of noise by which a cell next to found ones stands out
# Shares of mu^2. Those of ranges are kept where bounds are given.
_COUNT, _FEATURE_MOMENTS, _TARGET_MOMENTS = 0.005, 0.06, 0.02
_FEATURE_RANGES, _FEATURE_SPREAD, _TARGET_RANGE = 0.09, 0.03, 0.01
_TARGET_REACH = 4.0  # deviations of the target, between its first and its second moments
_LARGEST = 1e100  # scaled values are cut here, so that nothing overflows
# Norm bound in root mean squared norms, for rows whose noise is small or large.
_SMALLEST_NORM, _LARGEST_NORM = 0.7, 3.0


@dataclass(frozen=True, eq=False)
class ColumnBounds:
    """Bounds of every column of X and, last, of y; values outside are clipped."""

    lower: FloatArray
    upper: FloatArray

    def clip(self, table: FloatArray) -> FloatArray:
        """Return the table with every value moved into its bounds."""
        clipped: FloatArray = np.clip(table, self.lower, self.upper)
        return clipped


@dataclass(frozen=True, eq=False)
class Scaling:
    """Released centres and deviations of the features and of the target, and the record count.

    A deviation of a feature that does not vary is infinite, so that its coefficient is zero.
    """

    centre: FloatArray
    scale: FloatArray
    target_centre: float
    target_scale: float
    n_records: float
    mu_left: float


def total_mu(epsilon: float, delta: float) -> float:
    """Return the mu of all Gaussian steps of a method together."""
    return calibrate_gaussian(epsilon, delta) * WITHIN


def standardise(values: Any, centre: Any, scale: Any, limit: float = _LARGEST) -> FloatArray:
    """Return (values - centre) / scale, clipped at a limit."""
    with np.errstate(over="ignore"):
        scaled: FloatArray = np.clip((values - centre) / scale, -limit, limit)
    return scaled


def release_count(n_records: int, mu: float, rng: np.random.Generator) -> float:
    """Release the number of records, which is not public where one is added or removed."""
    return max(1.0, n_records + rng.standard_normal() / mu)


def count_magnitudes(table: FloatArray, octaves: int) -> FloatArray:
    """Return counts of records in cells of the sign and the magnitude, a column for each column.

    Each record is in one cell of every column: it moves the counts by the root of the number of
    columns, in l2.
    """
    n_cells = 2 * _LAST_OCTAVE // octaves
    octave = np.frexp(np.abs(table))[1]
    cell = np.clip((octave + _LAST_OCTAVE - 1) // octaves + 1, 1, n_cells)
    signed = np.sign(table).astype(np.int64) * cell + n_cells
    counts = [np.bincount(column, minlength=2 * n_cells + 1) for column in signed.T]
    return np.stack(counts, axis=1).astype(np.float64)


def release_ranges(
    table: FloatArray, octaves: int, mu: float, rng: np.random.Generator
) -> tuple[ColumnBounds, BoolArray]:
    """Release the range of each column: from its first to its last cell that has records.

    A cell counts as empty unless it stands out of the noise of all cells, or, up to the next
    magnitude after one that does, out of its own. Also returned is where at most one cell stands
    out of the noise of all: such a column may be a constant, but for a few records.
    """
    counts = count_magnitudes(table, octaves)
    noise = math.sqrt(table.shape[1]) / mu
    counts += noise * rng.standard_normal(counts.shape)
    found = counts > -ndtri(_MISTAKEN / counts.size) * noise
    alone, n_cells = np.sum(found, axis=0) <= 1, len(counts) // 2
    magnitude = np.abs(np.arange(len(counts)) - n_cells)[:, np.newaxis]
    near = np.any(found, axis=0) & (magnitude <= np.max(found * magnitude, axis=0) + 1)
    found |= near & (counts > _OWN * noise)
    edges = np.ldexp(1.0, octaves * np.arange(n_cells + 1) - _LAST_OCTAVE)
    lower = np.concatenate([-edges[:0:-1], [0.0], edges[:-1]])
    upper = np.concatenate([-edges[-2::-1], [0.0], edges[1:]])
    first, last = np.argmax(found, axis=0), len(counts) - 1 - np.argmax(found[::-1], axis=0)
    seen = np.any(found, axis=0)
    ranges = ColumnBounds(np.where(seen, lower[first], 0.0), np.where(seen, upper[last], 0.0))
    return ranges, alone


def sum_moments(table: FloatArray, bounds: ColumnBounds) -> FloatArray:
    """Return sums of values, scaled to [-1, 1] between bounds, and of their squares.

    One record moves them by at most the root of twice the number of columns, in l2.
    """
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    scaled = standardise(table, middle, np.where(half > 0, half, np.inf), 1.0)
    return np.stack([np.sum(scaled, axis=0), np.sum(scaled**2, axis=0)])


def release_moments(
    table: FloatArray, bounds: ColumnBounds, count: float, mu: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Release mean and deviation of each column, the latter no smaller than its noise.

    Also returned is where the variance is four times its noise or more.
    """
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    sums = sum_moments(table, bounds)
    noise = math.sqrt(sums.size) / mu
    mean, square = (sums + noise * rng.standard_normal(sums.shape)) / count
    mean = np.clip(mean, -1, 1)
    least = min(1 / 3, 2 * noise / count)
    varies = square - mean**2 > 4 * noise / count * np.sqrt(1 + 4 * mean**2)
    variance = np.clip(square - mean**2, least, 1)
    return middle + half * mean, np.where(half > 0, half * np.sqrt(variance), np.inf), varies


def release_scaling(
    X: FloatArray, y: FloatArray, bounds: ColumnBounds | None, mu: float, rng: np.random.Generator
) -> Scaling:
    """Release centres and deviations of all columns, and bounds before them where none are given.

    Parameters
    ----------
    X, y : ndarray
        Records, clipped where bounds are given.
    bounds : ColumnBounds, optional
        Public bounds.
    mu : float
        The mu of the whole method, of which a share is spent here.
    rng : Generator
        For the noise.
    """
    target = y[:, np.newaxis]
    spent = _COUNT + _FEATURE_MOMENTS + _TARGET_MOMENTS
    count = release_count(len(y), mu * math.sqrt(_COUNT), rng)
    if bounds is None:
        part = mu * math.sqrt(_FEATURE_RANGES)
        of_features, _ = release_ranges(X, _FEATURE_OCTAVES, part, rng)
        # Finer cells tell columns that vary little from constants with outliers.
        _, alone = release_ranges(X, 1, mu * math.sqrt(_FEATURE_SPREAD), rng)
        part = mu * math.sqrt(_TARGET_RANGE)
        of_target, _ = release_ranges(target, _TARGET_OCTAVES, part, rng)
        spent += _FEATURE_RANGES + _FEATURE_SPREAD + _TARGET_RANGE
    else:
        of_features = ColumnBounds(bounds.lower[:-1], bounds.upper[:-1])
        alone = np.zeros(X.shape[1], dtype=bool)
        of_target = ColumnBounds(bounds.lower[-1:], bounds.upper[-1:])
    part = mu * math.sqrt(_FEATURE_MOMENTS)
    centre, scale, varies = release_moments(X, of_features, count, part, rng)
    scale = np.where(alone & ~varies, np.inf, scale)
    part = mu * math.sqrt(_TARGET_MOMENTS / 2)
    # Twice, since the range of a target may be much wider than its deviation.
    middle, deviation, _ = release_moments(target, of_target, count, part, rng)
    if np.all(np.isfinite(deviation)):
        reach = _TARGET_REACH * deviation
        of_target = ColumnBounds(
            np.maximum(of_target.lower, middle - reach), np.minimum(of_target.upper, middle + reach)
        )
        middle, deviation, _ = release_moments(target, of_target, count, part, rng)
    target_scale = float(deviation[0]) if math.isfinite(deviation[0]) else 1.0
    mu_left = mu * math.sqrt(1 - spent)
    return Scaling(centre, scale, float(middle[0]), target_scale, count, mu_left)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows (1, x) in released units, no longer than 1, and their targets in deviations.

    A row that is longer than the norm bound is shortened together with its target: such a record
    weighs less, and a linear relation stays as it is.
    """

    rows: FloatArray
    target: FloatArray
    scaling: Scaling
    norm_bound: float

    def to_coefficients(self, solution: FloatArray) -> Coefficients:
        """Return the solution for scaled rows in the units of the data."""
        scaling = self.scaling
        found = solution / self.norm_bound * scaling.target_scale
        slopes = found[1:] / scaling.scale
        return Coefficients(
            float(scaling.target_centre + found[0] - slopes @ scaling.centre), slopes
        )


def scale_rows(
    X: FloatArray, y: FloatArray, bounds: ColumnBounds | None, mu: float, rng: np.random.Generator
) -> ScaledRows:
    """Scale records by released centres and deviations, and bound the norms of their rows.

    In these units the mean square of a row's norm is its length. The norm bound is public: around
    its root, lower where noise is large beside the released count, since noise grows with the
    square of the bound, and higher where that costs little.
    """
    if bounds is not None:
        clipped = bounds.clip(np.column_stack([X, y]))
        X, y = clipped[:, :-1], clipped[:, -1]
    scaling = release_scaling(X, y, bounds, mu, rng)
    rows = np.column_stack([np.ones(len(y)), standardise(X, scaling.centre, scaling.scale)])
    length = rows.shape[1]
    noise = 1.5 / scaling.mu_left * (math.sqrt(2 * length) + 2.45) * length / scaling.n_records
    share = min(max((0.2 / noise) ** (1 / 3), _SMALLEST_NORM), _LARGEST_NORM)
    norm_bound = share * math.sqrt(length)
    weight = np.minimum(1, norm_bound / np.linalg.norm(rows, axis=1))
    target = standardise(y, scaling.target_centre, scaling.target_scale)
    return ScaledRows(
        rows * (weight / norm_bound)[:, np.newaxis], weight * target, scaling, norm_bound
    )
