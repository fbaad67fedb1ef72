"""Sums of chosen products, each record or unit scaled down to a public norm."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled, threads
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.kernel.grids import INSIDE, FeatureGrid
from hushcov.kernel.records.base import Records, hands_out_arrays, layers_of
from hushcov.kernel.sums.rows import (
    LARGEST_LANE,
    Lanes,
    Multipliers,
    Reaches,
    RowSums,
    SumsSoFar,
    add_unit,
    centre_row,
    empty_lanes,
    exact_reduction,
    fill_lanes,
    grid_limits,
    grid_row,
    near_square_norm,
    norm_bin,
    row_parts,
    shorten_row,
)

# Squared products add up to less than 2**53, so sums of this many products stay below 2**39.
EXACT_ROWS = 4096
N_NORM_BINS = 2 * 54
#: Products that a unit may have: sums of their squares are then within 2**-40 of what they are.
MOST_PRODUCTS = 2**23
_KEPT_BYTES = 2**24  # most bytes of norms and sizes of records that are kept between passes
_SOME = 2**23  # values of records that are taken out of a block at a time
_WINDOW = 9  # neighbours in a row, from which on sums of their squares are slid along
_NEAR = 8  # squares of integers below `LARGEST_LANE` whose sum has room in four bytes


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

    Privacy
    -------
    Nothing here is private by itself. Replacing one record, or one unit, moves the sum of
    contributions by at most sqrt((2 norm_bound)^2 + factor_range^2 + size_range^2) in Euclidean
    norm: the first part has norm at most `norm_bound` for every one, the two numbers lie in
    [0, their range]. All of it is exact (`docs/proofs/screened.md`, steps 4 and 11), and sums fit
    in int64 up to 2^36 records. `means` are public or released.
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
        too_fine = max(self.grid.half_width, math.isqrt(self.centre)) >= LARGEST_LANE
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
    def _numbers(self) -> tuple[Any, ...]:
        """Return numbers that z is made with."""
        weights = (self.pair_weight, self.diagonal_weight, self.centre, self.rows_per_unit)
        return (*self.grid.numbers, weights, self.rows, self.columns)

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
        kept: Any
        kept, whose = records.kept_products or (None, lambda: None)
        useful = whose() is records and self.rows_per_unit == 1
        if useful and not all(map(np.array_equal, kept.numbers, self._numbers)):
            # Records are read twice then: where they have no copy, once is better.
            useful = any(layer.keeps_copy for layer in layers_of(records))
            kept = self._measured(records) if useful else None
        if not useful:
            return records.map_sum(self.sums_of(records))
        short = kept.found[:, 0] <= float(self.norm_bound) * float(self.norm_bound)
        sums = self._row_sums(records, self._bounds, self.n_products + 2, add_shrunk)
        sums = _OfSome(sums.kernel, sums.arguments, sums.shape, chosen=~short)
        found: IntArray = records.map_sum(sums)
        found[:-2] += kept.sums
        found[-2] += self.factor_range * int(short.sum())
        sizes = np.minimum(kept.found[short, 1].astype(np.int64), self.size_cap)
        found[-1] += int((sizes * self.size_range // self.size_cap).sum())
        return found

    @property
    def _bounds(self) -> list[int]:
        return [self.norm_bound, self.factor_range, self.size_range, self.size_cap]

    def sums_of(self, records: Records) -> RowSums:
        """Return what `sum` sums up, for `sum_together`."""
        return self._row_sums(records, self._bounds, self.n_products + 2)

    def norm_histogram(self, records: Records) -> IntArray:
        """Return how many records have ||z|| in each of `N_NORM_BINS` bins; see `norm_of_bin`.

        Of units it is the norm of v; there are more bins. Of records that come to this process,
        norms, sizes and the sums of z are kept: `sum` then scales those beyond the bound alone.

        Privacy
        -------
        Nothing here is private by itself. Replacing one record, or one unit, moves one count from
        one bin to another.
        """
        n_bins = N_NORM_BINS
        if self.rows_per_unit > 1:
            n_bins += 4 * (self.rows_per_unit.bit_length() + 1)
        kept = hands_out_arrays(records) and 16 * records.n_records <= _KEPT_BYTES
        if self.rows_per_unit > 1 or not kept:
            return records.map_sum(self._row_sums(records, [], n_bins))
        measured, counts = self._measured(records), np.zeros(n_bins, dtype=np.int64)
        records.kept_products = measured, weakref.ref(records)
        count_squares(measured.found, counts)
        return counts

    def _measured(self, records: Records) -> _KeptProducts:
        found = np.empty((records.n_rows, 2))
        plain = self._row_sums(records, [], self.n_products, measure_products)
        plain = _Measured(plain.kernel, plain.arguments[:-1], plain.shape, found=found)
        return _KeptProducts(self._numbers, records.map_sum(plain), found)

    def _row_sums(
        self, records: Records, bounds: list[int], size: int, kernel: Any = None
    ) -> RowSums:
        self.grid.check_features(records.n_features)
        weights = np.array([self.pair_weight, self.diagonal_weight, self.centre], dtype=np.float64)
        arguments: tuple[Any, ...] = (self.grid.numbers, self.rows, self.columns, weights)
        limits = np.array(bounds, dtype=np.int64)
        if kernel is None and self.rows_per_unit == 1 and bounds and not len(self.rows):
            # This kernel is compiled in a fraction of the time of the other.
            squares = (self.grid.numbers, np.inf, self.grid.numbers, weights, limits)
            return RowSums(add_sums_and_squares, squares, (size,))
        if self.rows_per_unit == 1:
            return RowSums(kernel or add_contributions, (*arguments, limits), (size,))
        means = np.zeros(self.n_products) if self.means is None else self.means
        arguments = (*arguments, means.astype(np.float64), limits, self.rows_per_unit)
        return RowSums(add_unit_contributions, arguments, (size,), self.rows_per_unit)

    def norm_of_bin(self, index: int, factor: float) -> int:
        """Return `factor` times a norm in the middle of a bin, or the largest norm if that is less.

        Bins are quarter octaves. The answer is an integer of at least 1.
        """
        norm = int(factor * 2.0 ** ((index - 1.5) / 4))
        return max(1, min(norm, self.rows_per_unit * math.isqrt(self.largest_square_norm)))


@dataclass(frozen=True, eq=False)
class _KeptProducts:
    """Sums of z over records, and by record its squared norm and its sum of y_i^2."""

    numbers: tuple[Any, ...]
    sums: IntArray
    found: FloatArray


class _BesideRows(SumsSoFar):
    """Sums of blocks whose rows have numbers beside them."""

    def __init__(self, totals: Any, beside: Any) -> None:
        super().__init__(totals)
        self._beside = beside

    def cut(self, block: Any, starts: IntArray | None) -> Iterator[list[tuple[Any, ...]]]:
        low, self.position = self.position, self.position + len(block)
        own = self._beside[low : self.position]
        if own.dtype == np.bool_:  # rows that are chosen
            chosen, step = np.flatnonzero(own), max(1, _SOME // block.shape[1])
            for some in np.split(chosen, range(step, len(chosen), step)):
                yield [(part,) for part in row_parts(block[some], threads())]
        else:
            parts = row_parts(block, threads())
            yield list(zip(parts, np.array_split(own, len(parts)), strict=True))


@dataclass(frozen=True, eq=False)
class _Measured(RowSums):
    """Sums whose kernel also fills in numbers for every row."""

    found: Any = None

    def begin(self) -> Any:
        return _BesideRows(super().begin().totals, self.found)


@dataclass(frozen=True, eq=False)
class _OfSome(RowSums):
    """Sums over some of the rows."""

    chosen: Any = None

    def begin(self) -> Any:
        return _BesideRows(super().begin().totals, self.chosen)


def finest_half_width(n_pairs: int, n_features: int, weight: int, *, at_most: int) -> int:
    """Return the largest half width for which `ProductMap` is exact with weights up to `weight`."""
    root = (LARGEST_EXACT_FLOAT / (n_pairs + n_features + 1)) ** 0.25
    return max(1, min(at_most, int(root / weight**0.5)))


@compiled
def add_contributions(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    bounds: IntArray,
    total: IntArray,
) -> bool:
    """Add the contributions of records, many side by side; without bounds, count their norms."""
    n_products = len(rows) + block.shape[1]
    lanes, sums = empty_lanes(block.shape[1]), np.zeros(n_products)
    together, added = lanes.shape[1], 0
    sizes, squares, factors = np.empty((2, together)), np.empty(together), np.empty(together)
    for first in range(0, len(block), together):
        part = block[first : first + together]
        if not fill_lanes(part, about[0], about[1], grid, weights[2], lanes, sizes):
            return False
        _fill_norms(lanes, rows, columns, weights, sizes, squares)
        if not len(bounds):
            for k in range(len(part)):
                total[norm_bin(squares[k], len(total))] += 1
            continue
        _fill_factors(sizes, squares, bounds, factors, len(part), total[n_products:])
        _add_products(lanes, rows, columns, weights, factors, sums)
        added += len(part)
        if added + together > EXACT_ROWS or first + together >= len(block):
            for e in range(n_products):
                total[e] += int(sums[e])
                sums[e] = 0.0
            added = 0
    return True


@compiled
def add_sums_and_squares(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    bound: float,
    square_grid: Multipliers,
    weights: FloatArray,
    bounds: IntArray,
    total: IntArray,
) -> bool:
    """Add contributions without pairs; before them, where there is room, bounded rows.

    The rows are those of `sum_rows`, on a grid of their own. They are centred once for both.
    """
    (centre, reach), (multipliers, half_width) = about, grid
    square_multipliers, square_half_width = square_grid
    finite, n = True, block.shape[1]
    with_sums = len(total) > n + 2
    own = total[len(total) - n - 2 :]
    y, z, squares = np.empty(n), np.empty(n), np.zeros(n)
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        size, square = _square_row(y, square_multipliers, square_half_width, weights, z)
        shorten_squares(z, size, square, bounds, own[n:])
        for i in range(n):
            squares[i] += z[i]
        if with_sums:
            long = _round_and_square(y, multipliers, half_width)
            if bound < np.inf:
                shorten_row(y, long, bound)
            for i in range(n):
                total[i] += np.int64(y[i])
        if a % EXACT_ROWS == EXACT_ROWS - 1 or a == block.shape[0] - 1:
            for i in range(n):
                own[i] += np.int64(squares[i])
                squares[i] = 0.0
    return finite


@exact_reduction
def _square_row(
    y: FloatArray, multipliers: FloatArray, half_width: float, weights: FloatArray, z: FloatArray
) -> tuple[float, float]:
    """Fill in the z of `ProductMap` without pairs; return the squared norms of integers and z."""
    size = square = 0.0
    weight, middle = weights[1], weights[2]
    for i in range(len(y)):
        integer = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))
        own = integer * integer
        z[i] = weight * (own - middle)
        size += own
        square += z[i] * z[i]
    return size, square


@exact_reduction
def _round_and_square(y: FloatArray, multipliers: FloatArray, half_width: float) -> float:
    """Round as `round_row` does, and return the squared norm."""
    square = 0.0
    for i in range(len(y)):
        y[i] = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))
        square += y[i] * y[i]
    return square


@compiled
def shorten_squares(
    z: FloatArray, size: float, square: float, bounds: IntArray, total: IntArray
) -> None:
    """Scale z of a record down, and add its factor and its size to two sums."""
    norm_bound, factor_range, size_range, size_cap = bounds
    total[1] += min(np.int64(size), size_cap) * size_range // size_cap
    if square <= float(norm_bound) * float(norm_bound):
        total[0] += factor_range
        return
    factor = norm_bound / math.sqrt(square) * INSIDE
    total[0] += np.int64(factor * factor_range)
    for i in range(len(z)):
        z[i] = np.trunc(z[i] * factor)


@compiled
def measure_products(
    block: FloatArray,
    found: FloatArray,
    about: Reaches,
    grid: Multipliers,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    total: IntArray,
) -> bool:
    """Add z of `ProductMap`; fill in squared norms of records, and their sums of y_i^2."""
    lanes = empty_lanes(block.shape[1])
    together = lanes.shape[1]
    sizes, squares = np.empty((2, together)), np.empty(together)
    narrow = grid[1] * grid[1] * together < 2.0**31
    weight, own_weight, centre = int(weights[0]), int(weights[1]), int(weights[2])
    for first in range(0, len(block), together):
        part = block[first : first + together]
        if not fill_lanes(part, about[0], about[1], grid, weights[2], lanes, sizes):
            return False
        _fill_norms(lanes, rows, columns, weights, sizes, squares)
        for k in range(len(part)):
            found[first + k, 0], found[first + k, 1] = squares[k], sizes[0, k]
        lanes[:, len(part) :] = 0  # those of records before
        flat = lanes.ravel()
        for e in range(len(rows)):
            total[e] += weight * _plain_sum(flat, rows[e], columns[e], together, narrow)
        for i in range(len(lanes)):
            own = _plain_sum(flat, i, i, together, narrow) - centre * len(part)
            total[len(rows) + i] += own_weight * own
    return True


@compiled
def _plain_sum(flat: Lanes, i: int, j: int, together: int, narrow: bool) -> int:
    """Return the sum of the products of two features; `narrow` says that four bytes hold it."""
    n = np.uint64(together)
    x, y = np.uint64(i) * n, np.uint64(j) * n
    if narrow:
        short = np.int32(0)
        for k in range(n):
            short = np.int32(short + _product(flat[x + k], flat[y + k]))
        return int(short)
    total = 0
    for k in range(n):
        total += int(_product(flat[x + k], flat[y + k]))
    return total


@compiled
def count_squares(found: FloatArray, counts: IntArray) -> None:
    """Count squared norms by `norm_bin`."""
    for k in range(len(found)):
        counts[norm_bin(found[k, 0], len(counts))] += 1


@compiled
def add_shrunk(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    bounds: IntArray,
    total: IntArray,
) -> bool:
    """Add as `add_contributions` does, less the z of all records."""
    n_products = len(rows) + block.shape[1]
    lanes, sums = empty_lanes(block.shape[1]), np.zeros(n_products)
    together = lanes.shape[1]
    sizes, squares, factors = np.empty((2, together)), np.empty(together), np.empty(together)
    whole, less = np.ones(together), weights.copy()
    less[:2] = -weights[:2]
    for first in range(0, len(block), together):
        part = block[first : first + together]
        if not fill_lanes(part, about[0], about[1], grid, weights[2], lanes, sizes):
            return False
        _fill_norms(lanes, rows, columns, weights, sizes, squares)
        _fill_factors(sizes, squares, bounds, factors, len(part), total[n_products:])
        factors[len(part) :] = 1.0
        _add_products(lanes, rows, columns, weights, factors, sums)
        _add_products(lanes, rows, columns, less, whole, sums)
        for e in range(n_products):
            total[e] += int(sums[e])
            sums[e] = 0.0
    return True


@compiled
def _fill_norms(
    lanes: Lanes,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    sizes: FloatArray,
    squares: FloatArray,
) -> None:
    """Fill in ||z||^2 of records side by side; see `ProductMap`."""
    pair_weight, diagonal_weight, _ = weights
    _fill_squares(lanes, rows, columns, squares)
    for k in range(len(squares)):
        off = pair_weight * pair_weight * squares[k]
        squares[k] = off + diagonal_weight * diagonal_weight * sizes[1, k]


@compiled
def _fill_factors(
    sizes: FloatArray,
    squares: FloatArray,
    bounds: IntArray,
    factors: FloatArray,
    n_records: int,
    total: IntArray,
) -> None:
    """Fill in how far each record is scaled down, and add that and its size to the last sums.

    A factor of 1 scales and rounds nothing. Where there is no record, it is 0.
    """
    norm_bound, factor_range, size_range, size_cap = bounds
    factors[:] = 0.0
    for k in range(n_records):
        if squares[k] <= float(norm_bound) * float(norm_bound):
            factors[k] = 1.0
            total[0] += factor_range
        else:
            factors[k] = norm_bound / math.sqrt(squares[k]) * INSIDE
            total[0] += int(factors[k] * factor_range)
        total[1] += min(int(sizes[0, k]), size_cap) * size_range // size_cap


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
            i, stop = rows[e], min(e + _NEAR, len(rows))
            near[:] = 0
            while e + 1 < stop and rows[e] == rows[e + 1] == i:
                _add_two(flat, columns[e], columns[e + 1], near)
                e += 2
            if e < stop and rows[e] == i:
                _add_one(flat, columns[e], near)
                e += 1
            _add_window(flat, i, near, squares)


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
def _add_one(flat: Lanes, j: int, near: Any) -> None:
    n = np.uint64(len(near))
    y = np.uint64(j) * n
    for k in range(n):
        near[k] = np.int32(near[k] + _product(flat[y + k], flat[y + k]))


@compiled
def _add_two(flat: Lanes, j: int, h: int, near: Any) -> None:
    n = np.uint64(len(near))
    y, w = np.uint64(j) * n, np.uint64(h) * n
    for k in range(n):
        two = np.int32(_product(flat[y + k], flat[y + k]) + _product(flat[w + k], flat[w + k]))
        near[k] = np.int32(near[k] + two)


@compiled
def _product(x: Any, y: Any) -> Any:
    return np.int32(np.int32(x) * np.int32(y))


@compiled
def _add_products(
    lanes: Lanes,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    factors: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the products z of `ProductMap`, each times the factor of its record, rounded to zero."""
    flat = lanes.ravel()
    weight, own_weight, centre = np.int32(weights[0]), np.int32(weights[1]), np.int32(weights[2])
    for e in range(len(rows)):
        sums[e] += _scaled_sum(flat, rows[e], columns[e], weight, np.int32(0), factors)
    for i in range(len(lanes)):
        sums[len(rows) + i] += _scaled_sum(flat, i, i, own_weight, centre, factors)


@exact_reduction
def _scaled_sum(
    flat: Lanes, i: int, j: int, weight: Any, centre: Any, factors: FloatArray
) -> float:
    # Weighted in integers: the only product that is rounded is the last one, in whatever order
    # the sum is made.
    n, total = np.uint64(len(factors)), 0.0
    x, y = np.uint64(i) * n, np.uint64(j) * n
    for k in range(n):
        z = np.int32(weight * np.int32(_product(flat[x + k], flat[y + k]) - centre))
        total += np.trunc(np.float64(z) * factors[k])
    return total


@compiled
def add_unit_contributions(
    block: FloatArray,
    starts: IntArray,
    about: Reaches,
    grid: Multipliers,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    means: FloatArray,
    bounds: IntArray,
    most_rows: int,
    total: IntArray,
) -> bool:
    """Add the contributions of units; without bounds, count their norms."""
    (taken, reach), (multipliers, half_width) = about, grid
    y, v = np.empty(block.shape[1]), np.empty(len(rows) + block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    for u in range(len(starts) - 1):
        n_rows, size = starts[u + 1] - starts[u], 0.0
        v[:] = 0.0
        for a in range(starts[u], starts[u + 1]):
            if not grid_row(block[a], taken, reach, multipliers, limits, y):
                return False
            size += _add_row_products(y, rows, columns, v)
        _centre_unit(v, len(rows), n_rows, weights, means)
        if not len(bounds):
            total[norm_bin(near_square_norm(v), len(total))] += 1
            continue
        norm_bound, factor_range, size_range, size_cap = bounds
        whole = factor_range * min(n_rows, most_rows) // most_rows
        add_unit(v, float(norm_bound), whole, total)
        most_size = float(size_cap) * most_rows
        share = min(size, most_size) / most_size
        total[len(v) + 1] += min(np.int64(share * size_range), size_range)
    return True


@compiled
def _add_row_products(y: FloatArray, rows: IntArray, columns: IntArray, v: FloatArray) -> float:
    """Add the products of a row's integers; return the sum of their squares."""
    size, n_pairs = 0.0, len(rows)
    for e in range(n_pairs):
        v[e] += y[rows[e]] * y[columns[e]]
    for i in range(len(y)):
        own = y[i] * y[i]
        v[n_pairs + i] += own
        size += own
    return size


@compiled
def _centre_unit(
    v: FloatArray, n_pairs: int, n_rows: int, weights: FloatArray, means: FloatArray
) -> None:
    """Weight the products of a unit, and take off the means of as many rows."""
    pair_weight, diagonal_weight, centre = weights
    number = float(n_rows)
    for e in range(n_pairs):
        v[e] = pair_weight * v[e] - number * means[e]
    for e in range(n_pairs, len(v)):
        v[e] = diagonal_weight * (v[e] - number * centre) - number * means[e]
