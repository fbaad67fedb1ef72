"""Sums of chosen products, each record or unit scaled down to a public norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.bounded import MOST_PRODUCTS, add_units, factor_shares, near_square_norms
from hushcov.kernel.sums.rows import (
    SQUARES,
    Multipliers,
    RowSums,
    add_rows,
    count_in_bins,
    grid_integer,
    grid_integers,
    norm_bins,
    whole,
)

#: Integers of records side by side: a row of two bytes each for every feature.
Lanes = NDArray[np.int16]

N_NORM_BINS = 2 * 54
# Integers are smaller: products of two of them, less another, have room in four bytes.
_LARGEST_LANE = 2**14
_VECTOR = 16  # records side by side are a multiple of this, for which vectors are used
_WINDOW = 9  # neighbours in a row, from which on sums of their squares are slid along
_NEAR = 8  # squares of integers below `_LARGEST_LANE` whose sum has room in four bytes
_UNIT_PRODUCTS = 2**18  # that are made at a time: in the second cache


@dataclass(frozen=True, eq=False)
class ProductMap:
    """Contribution of each record: weighted products, how far it was scaled down, and its size.

    With y the record's integers on `grid`, z has `pair_weight` y_i y_j for each chosen pair and
    `diagonal_weight` (y_i^2 - `centre`) for each feature. The record contributes the integers

        trunc(f z),  trunc(f * `factor_range`),  and  Q `size_range` / `size_cap` rounded down,

    with f = min(1, `norm_bound` / ||z||) and Q = min(sum of y_i^2, `size_cap`).

    Where `rows_per_unit` is M > 1, it is units of at most M records that contribute, each as one.
    With v the sum of z - `means` over the m records of a unit, these are the integers

        trunc(f v),  trunc(f * floor(`factor_range` m / M)),  and  Q `size_range` / (M `size_cap`),

    with f = min(1, `norm_bound` / ||v||) and Q the sum of all y_i^2, at most M `size_cap`.

    The first part has norm at most `norm_bound`, and the two numbers lie in [0, their range]. All
    of it is exact (`docs/proofs/screened.md`, steps 4 and 11), and sums fit in int64 up to 2^36
    records. `means` are public or released.
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
    rows_per_unit: int = 1
    means: IntArray | None = None

    def __post_init__(self) -> None:
        cure = "it is how many records of a unit are summed, at most."
        check_integer("rows_per_unit", self.rows_per_unit, at_least=1, cure=cure)
        if self.means is not None and (
            self.rows_per_unit == 1 or self.means.shape != (self.n_products,)
        ):
            raise ParameterError(
                "means must be one integer for each product of units with several records: leave "
                "them out for others."
            )
        if self.rows_per_unit > 1 and self.n_products > MOST_PRODUCTS:
            raise CapacityError(
                f"rows and columns must be at most {MOST_PRODUCTS:,} pairs and features where "
                f"records of a unit are bounded together, got {self.n_products:,}: select fewer."
            )
        if self.rows_per_unit * max(self.factor_range, self.size_range) >= LARGEST_SUM:
            raise CapacityError(
                f"rows_per_unit must keep its product with ranges below 2**62, got "
                f"{self.rows_per_unit}: use a smaller one."
            )
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
        # Only without weights may these be too large for lanes, and not the norms.
        too_fine = max(self.grid.half_width, math.isqrt(self.centre)) >= _LARGEST_LANE
        if too_fine or self.largest_square_norm >= LARGEST_EXACT_FLOAT:
            raise CapacityError(
                f"half_width must keep the squared norm of {self.n_products} weighted products "
                f"below 2**53, got {self.grid.half_width}: use finest_half_width."
            )
        largest = self.grid.n_features * self.grid.half_width**2
        if self.rows_per_unit == 1 and largest * self.size_range >= LARGEST_SUM:
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

    def sum(self, records: Records) -> IntArray:
        """Return the summed contributions: pairs, then features, then factor, then size."""
        return records.map_sum(self.sums_of(records))

    def sums_of(self, records: Records) -> RowSums:
        """Return the sums of `sum`, to be read with others."""
        bounds = [self.norm_bound, self.factor_range, self.size_range, self.size_cap]
        return self._row_sums(records, bounds, self.n_products + 2)

    def norm_histogram(self, records: Records) -> IntArray:
        """Return how many records have ||z||, or units ||v||, in each bin; see `norm_of_bin`."""
        n_bins = N_NORM_BINS
        if self.rows_per_unit > 1:
            n_bins += 4 * (self.rows_per_unit.bit_length() + 1)
        return records.map_sum(self._row_sums(records, [], n_bins))

    def _row_sums(self, records: Records, bounds: list[int], size: int) -> RowSums:
        """Return sums of contributions; without bounds, counts of their norms."""
        self.grid.check_features(records.n_features)
        weights = self.pair_weight, self.diagonal_weight, self.centre
        arguments: tuple[Any, ...] = self.grid.numbers, self.rows, self.columns, weights, bounds
        if self.rows_per_unit == 1:
            return RowSums(add_contributions, arguments, (size,))
        means = np.zeros(self.n_products) if self.means is None else self.means
        arguments = (*arguments, means.astype(np.float64), self.rows_per_unit)
        return RowSums(add_unit_contributions, arguments, (size,), self.rows_per_unit)

    def norm_of_bin(self, index: int, factor: float) -> int:
        """Return `factor` times the norm in the middle of a bin (a quarter octave), from 1 on.

        It is the largest possible norm, if that is less.
        """
        norm = int(factor * 2.0 ** ((index - 1.5) / 4))
        return max(1, min(norm, self.rows_per_unit * math.isqrt(self.largest_square_norm)))


def add_contributions(
    rows: Any, grid: Multipliers, left: Any, right: Any, weights: Any, bounds: list[int], total: Any
) -> None:
    """Add the contributions of records; without bounds, count their norms."""
    n_pairs, (pair_weight, *own) = len(left), weights
    square, lanes = np.zeros(len(rows)), _Lanes(rows, grid, left, right) if n_pairs else None
    if lanes is not None:
        square += float(pair_weight**2) * lanes.squares()
    power, bound = (SQUARES, *map(float, own)), float(bounds[0]) if bounds else 0.0
    add_rows(rows, grid, power, bound, np.array(bounds[1:], np.int64), square, total)
    if bounds and lanes is not None:
        total[:n_pairs] += lanes.scaled_sums(square, pair_weight)


class _Lanes:
    """Products of pairs of features of many records side by side, in integers of two bytes.

    Squared products add up to less than 2**53: a weighted product is below 2**27, so that doubles
    hold its sum over 2**26 records.
    """

    def __init__(self, rows: Any, grid: Multipliers, left: IntArray, right: IntArray) -> None:
        self._n_records, self._pairs = len(rows), (left, right)
        words = np.zeros((-(-len(rows) // _VECTOR) * _VECTOR // 4, rows.shape[1]), np.int64)
        _fill_words(rows, grid, words)
        self._lanes: Lanes = np.ascontiguousarray(words.T).view(np.int16)

    def squares(self) -> FloatArray:
        """Return sums over pairs of squared products, by record."""
        found = np.zeros(self._lanes.shape[1])
        _fill_squares(self._lanes, *self._pairs, found)
        return found[: self._n_records]

    def scaled_sums(self, factor: FloatArray, weight: int) -> IntArray:
        """Return the sums of products times a weight, each times a factor, rounded to zero."""
        sums, factors = np.zeros(len(self._pairs[0])), np.zeros(self._lanes.shape[1])
        factors[: len(factor)] = factor
        _add_products(self._lanes, self._pairs, weight, factors, sums)
        return np.asarray(whole(sums))


@compiled
def _fill_words(rows: FloatArray, grid: Multipliers, words: IntArray) -> None:
    """Put integers of four records beside each other in a word: words are turned faster."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            y = np.int64(grid_integer(rows[k, i], grid[0][i], grid[1]))
            words[k // 4, i] |= (y & 0xFFFF) << 16 * (k % 4)


@compiled
def _fill_squares(lanes: Lanes, rows: IntArray, columns: IntArray, squares: FloatArray) -> None:
    """Fill in the sum over pairs of (y_i y_j)^2 for each record; all of it is exact.

    Where a feature is paired with neighbours, as in a band, the sum of their squares slides along:
    that takes as long for a wide band as for a narrow one.
    """
    squares[:] = 0.0
    flat, inside = lanes.ravel(), np.zeros(len(squares))
    near = np.zeros(len(squares), dtype=np.int32)
    low = high = e = 0  # features whose squares are inside
    while e < len(rows):
        stop = e + 1
        while stop < len(rows) and rows[stop] == rows[e] and columns[stop] == columns[e] + stop - e:
            stop += 1
        if stop - e >= _WINDOW:
            if columns[e] < low or columns[e] > high:
                inside[:] = 0.0
                low = high = columns[e]
            while low < columns[e]:
                _slide(flat, low, -1.0, inside)
                low += 1
            while high <= columns[stop - 1]:
                _slide(flat, high, 1.0, inside)
                high += 1
            while high > columns[stop - 1] + 1:
                high -= 1
                _slide(flat, high, -1.0, inside)
            _add_window(flat, rows[e], inside, squares)
            e = stop
        else:
            near[:] = 0
            i, stop = rows[e], min(e + _NEAR, len(rows))
            while e < stop and rows[e] == i:
                _add_square(flat, columns[e], near)
                e += 1
            _add_window(flat, i, near, squares)


# Loops below get whole arrays and where to begin: an array for each part would be counted for the
# release of memory, which takes as long as the loop. Places are unsigned, as none counts from the
# end. How many there are is not known to the compiler, which would not use vectors for so few.


@compiled
def _slide(flat: Lanes, j: int, sign: float, inside: FloatArray) -> None:
    """Add the squares of a feature, or take them off."""
    n = np.uint64(len(inside))
    y = np.uint64(j) * n
    for k in range(n):
        inside[k] += sign * np.float64(_product(flat[y + k], flat[y + k]))


@compiled
def _add_window(flat: Lanes, i: int, inside: Any, squares: FloatArray) -> None:
    """Add the squares of a feature's products with all that are inside."""
    n = np.uint64(len(squares))
    x = np.uint64(i) * n
    for k in range(n):
        squares[k] += np.float64(_product(flat[x + k], flat[x + k])) * inside[k]


@compiled
def _add_square(flat: Lanes, j: int, near: Any) -> None:
    n = np.uint64(len(near))
    y = np.uint64(j) * n
    for k in range(n):
        near[k] = np.int32(near[k] + _product(flat[y + k], flat[y + k]))


@compiled
def _product(x: Any, y: Any) -> Any:
    return np.int32(np.int32(x) * np.int32(y))


@compiled
def _add_products(lanes: Lanes, pairs: Any, weight: int, factors: Any, sums: Any) -> None:
    flat = lanes.ravel()
    for e in range(len(sums)):
        sums[e] += _scaled_sum(flat, pairs[0][e], pairs[1][e], np.int32(weight), factors)


@partial(compiled, any_order=True)
def _scaled_sum(flat: Lanes, i: int, j: int, weight: Any, factors: FloatArray) -> float:
    # Weighted in integers: the only product that is rounded is the last one. The sum of integers
    # is exact in any order.
    n, total = np.uint64(len(factors)), 0.0
    x, y = np.uint64(i) * n, np.uint64(j) * n
    for k in range(n):
        z = np.int32(weight * _product(flat[x + k], flat[y + k]))
        total += np.trunc(np.float64(z) * factors[k])
    return total


def add_unit_contributions(
    rows: FloatArray,
    starts: IntArray,
    grid: Multipliers,
    left: IntArray,
    right: IntArray,
    weights: tuple[int, int, int],
    bounds: list[int],
    means: FloatArray,
    most_rows: int,
    total: IntArray,
) -> None:
    """Add the contributions of units; without bounds, count their norms."""
    y = grid_integers(rows, grid)
    pair_weight, diagonal_weight, centre = weights
    step = max(1, _UNIT_PRODUCTS // len(means))
    for first in range(0, len(starts) - 1, step):
        own = starts[first : first + step + 1]
        sizes = np.diff(own)[:, None]
        v = _unit_products(y, own, left, right, step)
        size = v[:, len(left) :].sum(axis=1)
        v[:, : len(left)] *= pair_weight
        v[:, len(left) :] = diagonal_weight * (v[:, len(left) :] - sizes * centre)
        v -= sizes * means
        if not bounds:
            count_in_bins(norm_bins(near_square_norms(v), len(total)), total)
            continue
        norm_bound, factor_range, size_range, size_cap = bounds
        add_units(v, float(norm_bound), factor_shares(own, factor_range, most_rows), total)
        most = float(size_cap) * most_rows
        shares = whole(np.minimum(size, most) / most * size_range)
        total[-1] += np.minimum(shares, size_range).sum()


def _unit_products(
    y: FloatArray, starts: IntArray, left: IntArray, right: IntArray, step: int
) -> FloatArray:
    """Return the sums of products of pairs and of squares over the rows of units."""
    found = np.zeros((len(starts) - 1, len(left) + y.shape[1]))
    for first in range(starts[0], starts[-1], step):
        stop = min(first + step, starts[-1])
        part = y[first:stop]
        inside = starts[(starts > first) & (starts < stop)]
        unit = np.searchsorted(starts, first, side="right") - 1
        z = np.concatenate([part[:, left] * part[:, right], part * part], axis=1)
        sums = np.add.reduceat(z, [0, *(inside - first)])
        found[unit : unit + len(sums)] += sums
    return found
