"""Sums of chosen products, each record scaled down to a public norm: the values of a release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.records.grids import INSIDE, FeatureGrid
from hushcov.records.protocol import Progress, Records
from hushcov.records.rows import CentringSums, centre_row, round_row, square_norm

# Squared products add up to less than 2**53, so sums of this many products stay below 2**39.
EXACT_ROWS = 4096
ROOT_HALF = math.sqrt(0.5)
N_NORM_BINS = 2 * 54


@dataclass(frozen=True, eq=False)
class ProductMap:
    """What each record contributes: weighted products, how far it was scaled down, and its size.

    With y the record's integers on `grid`, z has `pair_weight` y_i y_j for each chosen pair and
    `diagonal_weight` (y_i^2 - `centre`) for each feature. The record contributes the integers

        trunc(f z),  trunc(f * `factor_range`),  and  Q `size_range` / `size_cap` rounded down,

    with f = min(1, `norm_bound` / ||z||) and Q = min(sum of y_i^2, `size_cap`).

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves the sum of contributions by at
    most sqrt((2 norm_bound)^2 + factor_range^2 + size_range^2) in Euclidean norm: the first part
    has norm at most `norm_bound` for every record, the two numbers lie in [0, their range]. All
    of it is exact (`docs/proofs/screened.md`, step 5), and sums fit in int64 up to 2^36 records.
    """

    grid: FeatureGrid
    rows: IntArray
    columns: IntArray
    pair_weight: int
    diagonal_weight: int
    centre: int
    norm_bound: int
    factor_range: int
    size_range: int
    size_cap: int

    def __post_init__(self) -> None:
        for name in ("norm_bound", "size_cap"):
            check_integer(name, getattr(self, name), at_least=1, cure="use screened_parameters.")
        for name in ("pair_weight", "diagonal_weight", "centre", "factor_range", "size_range"):
            check_integer(name, getattr(self, name), at_least=0, cure="use screened_parameters.")
        indices = np.stack([self.rows, self.columns])
        if indices.size and not 0 <= indices.min() <= indices.max() < self.grid.n_features:
            raise ParameterError(
                f"rows and columns must be features, 0 to {self.grid.n_features - 1}: select "
                "pairs of features."
            )
        if self.largest_square_norm >= LARGEST_EXACT_FLOAT:
            raise CapacityError(
                f"half_width must keep the squared norm of {self.n_products} weighted products "
                f"below 2**53, got {self.grid.half_width}: use finest_half_width."
            )
        if self.grid.n_features * self.grid.half_width**2 * self.size_range >= LARGEST_SUM:
            raise CapacityError(
                f"size_range must keep sums of squares below 2**62, got {self.size_range}: "
                "use a smaller one."
            )

    @property
    def n_products(self) -> int:
        """Number of chosen pairs and features."""
        return len(self.rows) + self.grid.n_features

    @property
    def largest_square_norm(self) -> int:
        """Bound on ||z||^2 for every record."""
        off = (self.pair_weight * self.grid.half_width**2) ** 2 * len(self.rows)
        largest = max(self.centre, self.grid.half_width**2 - self.centre)
        return off + (self.diagonal_weight * largest) ** 2 * self.grid.n_features

    def sum(self, records: Records, *, progress: Progress | None = None) -> IntArray:
        """Return the summed contributions: pairs, then features, then factor, then size."""
        sums = self.sums_of(records)
        return records.map_sum(sums, progress=progress)

    def sums_of(self, records: Records) -> CentringSums:
        """What `sum` sums up, for `sum_together`."""
        self.grid.check_features(records.n_features)
        bounds = np.array(
            [self.norm_bound, self.factor_range, self.size_range, self.size_cap], dtype=np.int64
        )
        return Contributions((*self._kernel_arguments, bounds), self.n_products + 2)

    def norm_histogram(self, records: Records, *, progress: Progress | None = None) -> IntArray:
        """Return how many records have ||z|| in each of `N_NORM_BINS` bins; see `norm_of_bin`.

        Privacy
        -------
        Nothing here is private by itself. Replacing one record moves one count from one bin to
        another.
        """
        self.grid.check_features(records.n_features)
        return records.map_sum(_Norms(self._kernel_arguments), progress=progress)

    def norm_of_bin(self, index: int, factor: float) -> int:
        """Return `factor` times a norm in the middle of a bin, or the largest norm if that is less.

        Bins are quarter octaves. The answer is an integer of at least 1.
        """
        norm = int(factor * 2.0 ** ((index - 1.5) / 4))
        return max(1, min(norm, math.isqrt(self.largest_square_norm)))

    @property
    def _kernel_arguments(self) -> tuple[FloatArray, float, IntArray, IntArray, FloatArray]:
        weights = np.array([self.pair_weight, self.diagonal_weight, self.centre], dtype=np.float64)
        half_width = float(self.grid.half_width)
        return self.grid.multipliers, half_width, self.rows, self.columns, weights


@dataclass(frozen=True, eq=False)
class Contributions(CentringSums):
    """The contributions of the records of a block, summed."""

    arguments: Any
    size: int

    @property
    def n_pairs(self) -> int:
        """How many pairs were chosen."""
        return len(self.arguments[2])

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (self.size,)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`."""
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *self.arguments, total)
        return _add_contributions(*arguments)

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""
        from hushcov.records import tensor_kernels

        return tensor_kernels.contributions(block, self.arguments)


@dataclass(frozen=True, eq=False)
class _Norms(CentringSums):
    """How many records of a block have their norm in each bin."""

    arguments: Any

    def shape(self, n_features: int) -> tuple[int, ...]:
        return (N_NORM_BINS,)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *self.arguments, total)
        return _count_norms(*arguments)

    def of_tensor(self, block: Any) -> Any:
        from hushcov.records import tensor_kernels

        return tensor_kernels.norm_counts(block, self.arguments, N_NORM_BINS)


def finest_half_width(n_pairs: int, n_features: int, weight: int, *, at_most: int) -> int:
    """Return the largest half width for which `ProductMap` is exact with weights up to `weight`."""
    root = (LARGEST_EXACT_FLOAT / (n_pairs + n_features + 1)) ** 0.25
    return max(1, min(at_most, int(root / weight**0.5)))


@compiled
def _fill_products(
    y: FloatArray, rows: IntArray, columns: IntArray, weights: FloatArray, z: FloatArray
) -> tuple[float, float]:
    """Fill z for one record of integers y and return ||z||^2 and ||y||^2; see `ProductMap`."""
    n_pairs = len(rows)
    pair_weight, diagonal_weight, centre = weights
    for e in range(n_pairs):
        z[e] = pair_weight * (y[rows[e]] * y[columns[e]])
    own = z[n_pairs:]
    for i in range(len(y)):
        own[i] = diagonal_weight * (y[i] * y[i] - centre)
    return square_norm(z), square_norm(y)


@compiled
def _add_contributions(
    block: FloatArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    bounds: IntArray,
    total: IntArray,
) -> bool:
    """Add the contributions of the block's records to `total`."""
    n_products = len(rows) + block.shape[1]
    norm_bound, factor_range, size_range, size_cap = bounds
    y, z = np.empty(block.shape[1]), np.empty(n_products)
    sums = np.zeros(n_products)
    finite = True
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], taken, reach, y)
        round_row(y, multipliers, half_width)
        square, size = _fill_products(y, rows, columns, weights, z)
        if square <= float(norm_bound) * float(norm_bound):
            total[n_products] += factor_range
            for e in range(n_products):
                sums[e] += z[e]
        else:
            factor = norm_bound / math.sqrt(square) * INSIDE
            total[n_products] += int(factor * factor_range)
            for e in range(n_products):
                sums[e] += np.trunc(z[e] * factor)
        total[n_products + 1] += min(int(size), size_cap) * size_range // size_cap
        if a % EXACT_ROWS == EXACT_ROWS - 1 or a == block.shape[0] - 1:
            for e in range(n_products):
                total[e] += int(sums[e])
                sums[e] = 0.0
    return finite


@compiled
def _count_norms(
    block: FloatArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    total: IntArray,
) -> bool:
    """Add one for each record to the bin of its norm: half octaves of the square."""
    y, z = np.empty(block.shape[1]), np.empty(len(rows) + block.shape[1])
    finite = True
    for a in range(block.shape[0]):
        if not centre_row(block[a], taken, reach, y):
            finite = False
            continue
        round_row(y, multipliers, half_width)
        square, _ = _fill_products(y, rows, columns, weights, z)
        mantissa, exponent = math.frexp(square)
        total[2 * exponent + (1 if mantissa >= ROOT_HALF else 0)] += 1
    return finite
