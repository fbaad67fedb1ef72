"""Exact Gram matrices in integers of records and of units, and scores of pairs from panels.

No rounding takes place after that of a record's own coordinates, so the block size, the order of
the records and the number of threads change no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray, namespace
from hushcov._compiled import run_parts
from hushcov._triangle import mirror
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.kernel.grids import DIGIT_BITS, FeatureGrid, IntegerGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.bounded import bounded_integers, bounded_rows
from hushcov.kernel.sums.rows import (
    Multipliers,
    RowSums,
    SumsSoFar,
    count_in_bins,
    grid_integers,
    norm_bins,
    rows_near,
    square_norms,
    whole,
)
from hushcov.kernel.sums.statistics import RecordMap, Statistics

#: Sums of products of features start..stop-1 (rows) with features from start on (columns).
Panel = Callable[[int, int], IntArray]

PANEL_BYTES = 2**30  # bytes of sums held in one pass over the records
#: The largest integers, and with fewest features, that `engines.int16` multiplies more quickly.
LARGEST_PACKED, FEWEST_PACKED = 2**15 - 1, 32
# Sums of squares of a unit are within 2**-31 of what they are, for units of up to 2**20 rows: more
# than the rounding of one row, of which `INSIDE` tells.
_UNIT_INSIDE = 1.0 - 2.0**-30
# Products of digits of 15 bits that doubles add up exactly.
_EXACT_ROWS = LARGEST_EXACT_FLOAT >> 2 * DIGIT_BITS
_AGAIN = 0.99  # of a factor for which truncated rows came out too long


def second_moments(records: Records, grid: IntegerGrid) -> Statistics:
    """Return the exact second moments of `records` on `grid`, in one pass.

    `IntegerGrid.for_records` makes a grid that always has room.
    """
    record_map = RecordMap(records.n_features, grid, feature_names=records.feature_names)
    return record_statistics(records, record_map)


def record_statistics(records: Records, record_map: RecordMap) -> Statistics:
    """Return the exact second moments of records mapped to integers; see `second_moments`."""
    record_map.check_records(records)
    grid = record_map.grid
    gram: NDArray[Any]
    if isinstance(grid, IntegerGrid) and grid.wide:
        gram = _wide_gram(records, grid)
    elif isinstance(grid, IntegerGrid):
        d = records.n_features
        rows = (np.full(d, grid.multiplier), float(grid.half_width)), np.inf
        gram = records.map_sum(_Gram(add_gram, rows, (d, d)))
    else:
        gram = row_bounded_gram(records, grid, record_map.norm_bound)
    gram.setflags(write=False)  # then `Statistics` need not copy it
    return Statistics(gram, records.n_records, record_map)


def add_wide(rows: Any, grid: IntegerGrid, total: Any) -> None:
    """Add the products of digits of integers on a wide grid.

    An integer is up to three digits of 15 bits with signs. Sums of products over some rows are cut
    into twice 15 bits and the rest, which is at most the number of rows: int64 has room for 2**62.
    """
    xp, base = namespace(rows), 1 << DIGIT_BITS
    for start in range(0, len(rows), _EXACT_ROWS):
        near = rows[start : start + _EXACT_ROWS].clip(-grid.radius, grid.radius)
        near, digits = xp.round(near * grid.multiplier), []
        for _ in range(grid.n_digits - 1):
            upper = xp.round(near / base)
            digits.append(near - upper * base)
            near = upper
        both = xp.concatenate([*digits, near], 1)  # digit by digit
        sums = whole(both.T @ both)
        total[0] += sums & (base - 1)
        total[1] += sums >> DIGIT_BITS & (base - 1)
        total[2] += sums >> 2 * DIGIT_BITS


def _wide_gram(records: Records, grid: IntegerGrid) -> NDArray[Any]:
    """Return the Gram matrix of integers on a wide grid, in Python's integers."""
    n, d = grid.n_digits, records.n_features
    found = records.map_sum(RowSums(add_wide, (grid,), (3, n * d, n * d)))
    low, middle, high = found.astype(object)
    sums = low + (middle << DIGIT_BITS) + (high << 2 * DIGIT_BITS)
    parts = ((i, j, sums[i * d : i * d + d, j * d : j * d + d]) for i in range(n) for j in range(n))
    return np.asarray(sum(part << DIGIT_BITS * (i + j) for i, j, part in parts))


def row_bounded_gram(records: Records, grid: FeatureGrid, norm_bound: int | None) -> IntArray:
    """Return the sum over records of z_i z_j, with z as in `bounded_rows`."""
    _check_capacity(records, grid)
    d = grid.n_features
    return records.map_sum(_Gram(add_gram, bounded_rows(grid, norm_bound), (d, d)))


def unit_bounded_gram(records: Records, grid: FeatureGrid, bound: int, most_rows: int) -> IntArray:
    """Return the sum over units of Z'Z, an exact integer matrix.

    Y are the integers of the rows of a unit on `grid`. Z is Y where the Frobenius norm of Y'Y is
    at most `bound`; else all its numbers are multiplied by one factor and rounded towards zero,
    and the factor is made smaller until Z'Z is within the bound (`docs/proofs/gaussian.md`, step
    7).
    """
    cure = "it is a public bound on the norm of what a unit adds, in squared steps of the grid."
    check_integer("bound", bound, at_least=1, cure=cure)
    _check_capacity(records, grid)
    grid.check_squared_norms()
    arguments, d = (grid.numbers, float(bound)), grid.n_features
    return records.map_sum(_UnitGram(add_gram, arguments, (d, d), most_rows))


def unit_norm_histogram(records: Records, grid: FeatureGrid, most_rows: int) -> IntArray:
    """Return how many units have the Frobenius norm of Y'Y in each of its quarter octaves.

    Bin b has norms of 2^((b - 2) / 4) up to 2^((b - 1) / 4).
    """
    _check_capacity(records, grid)
    grid.check_squared_norms()
    n_bins = 4 * (54 + most_rows.bit_length())
    return records.map_sum(RowSums(count_units, (grid.numbers,), (n_bins,), most_rows))


def _check_capacity(records: Records, grid: FeatureGrid) -> None:
    grid.check_features(records.n_features)
    if records.n_rows * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )


class GramSoFar(SumsSoFar):
    """An exact Gram matrix so far: recent rows in doubles below the diagonal, the others settled.

    Every partial sum in doubles, in whatever order BLAS takes them, is an integer of at most 2**53.
    """

    def __init__(self, n_features: int, half_width: int) -> None:
        super().__init__(None)
        self._exact_rows = LARGEST_EXACT_FLOAT // half_width**2
        self.recent: FloatArray = np.zeros((n_features, n_features), order="F")
        self.n_rows = 0
        self.settled: IntArray | None = None
        self._room: FloatArray = np.empty((0, n_features))

    def take(self, parts: list[tuple[Any, ...]], sizes: list[int], fill: Any) -> bool:
        """Add parts of so many rows that `fill` makes integers; False if it says so of one."""
        if len(self._room) < sum(sizes):  # new room for each block would take time
            self._room = np.empty((sum(sizes), self._room.shape[1]))
        integers = self._room[: sum(sizes)]
        own = np.split(integers, np.cumsum(sizes)[:-1])
        finite = all(run_parts(fill, [(to, *part) for part, to in zip(parts, own, strict=True)]))
        if finite:
            self.add(integers)
        return finite

    def add(self, integers: FloatArray) -> None:
        """Add products of these."""
        from scipy.linalg.blas import dsyrk

        for start in range(0, len(integers), self._exact_rows):
            part = integers[start : start + self._exact_rows]
            if self.n_rows + len(part) > self._exact_rows:
                self._settle()
            self.recent = dsyrk(1.0, part.T, beta=1.0, c=self.recent, lower=1, overwrite_c=1)
            self.n_rows += len(part)

    def _settle(self) -> None:
        exact = self.recent.astype(np.int64, order="F")
        self.settled = exact if self.settled is None else np.add(exact, self.settled, out=exact)
        self.recent[:] = 0.0
        self.n_rows = 0

    def total(self) -> IntArray:
        """Return the whole matrix."""
        self._settle()
        assert self.settled is not None
        gram = self.settled.T  # the sums are above the diagonal of this, row by row
        del self.recent
        mirror(gram)
        return gram


class _Gram(RowSums):
    """Gram matrices of rows; parts of a block become integers on all cores."""

    def begin(self) -> GramSoFar:
        n_features, half_width = self.shape[0], int(self.arguments[0][1])
        if half_width <= LARGEST_PACKED and n_features >= FEWEST_PACKED:
            from hushcov.engines import int16

            if int16.vector_words() > 0:
                return int16.PackedSoFar(n_features, half_width)
        return GramSoFar(n_features, half_width)

    def add_parts(self, parts: list[tuple[Any, ...]], sums: GramSoFar) -> bool:
        return sums.take(parts, [len(rows) for rows, *_ in parts], self._fill)

    def _fill(self, integers: FloatArray, rows: Any, *starts: IntArray) -> bool:
        finite, done = True, 0
        with np.errstate(all="ignore"):  # what overflows is clipped
            for near in [rows] if starts else rows_near(rows):
                ready, all_finite = self.ready(near)
                finite &= all_finite
                if finite:
                    integers[done : done + len(near)] = self.integers(ready, *starts)
                done += len(near)
        return finite

    def integers(self, rows: FloatArray, *starts: IntArray) -> FloatArray:
        """Return the integers of rows."""
        return np.asarray(bounded_integers(rows, *self.arguments))


def add_gram(rows: Any, grid: Multipliers, bound: float, total: Any) -> None:
    """Add the products of bounded rows on a device."""
    for part in bounded_integers(rows, grid, bound).split(LARGEST_EXACT_FLOAT // int(grid[1]) ** 2):
        total += whole(part.T @ part)


class _UnitGram(_Gram):
    """Gram matrices of units, the rows of each scaled down together."""

    def integers(self, rows: FloatArray, *starts: IntArray) -> FloatArray:
        """Return the integers of units."""
        grid, bound = self.arguments
        (own,), largest = starts, bound * bound * _UNIT_INSIDE
        y = grid_integers(rows, grid)
        square = unit_squares(y, own)
        factor = np.sqrt(bound / np.sqrt(square))
        found, long = y.copy(), square > largest
        while long.any():
            again = np.repeat(long, np.diff(own))
            scaled = np.trunc(y[again] * np.repeat(factor[long], np.diff(own)[long])[:, None])
            found[again] = scaled
            square[long] = unit_squares(scaled, np.cumsum([0, *np.diff(own)[long]]))
            factor *= _AGAIN
            long = square > largest
        return np.asarray(found)


def unit_squares(y: FloatArray, starts: IntArray) -> FloatArray:
    """Return the squared Frobenius norms of Y'Y of units, which are those of YY'.

    Sums of products are exact, and their squares are added up in two steps of up to 2**20 each.
    """
    sizes = np.diff(starts)
    found = np.empty(len(sizes))
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        rows = y[starts[own][:, None] + np.arange(size)]
        turned = rows.transpose(0, 2, 1)
        products = rows @ turned if size <= y.shape[1] else turned @ rows
        found[own] = (
            square_norms(products.reshape(-1, products.shape[2]))
            .reshape(products.shape[:2])
            .sum(axis=1)
        )
    return found


def count_units(rows: FloatArray, starts: IntArray, grid: Multipliers, total: IntArray) -> None:
    """Count units by the norm of their matrix."""
    count_in_bins(norm_bins(unit_squares(grid_integers(rows, grid), starts), len(total)), total)


def pair_sums(
    panel: Panel, n_features: int, largest: int, *, panel_bytes: int | None = None
) -> NDArray[Any]:
    """Return sums of all pairs i < j, row by row, from panels that fit in memory.

    `largest` bounds their sizes; if it is below 2^31 they take four bytes each. Where each panel
    takes a pass over the records, there is one up to 11,585 features, beyond about
    (n_features / 11,585)^2 / 2. `panel_bytes` asks for other panels than of 1 GiB.
    """
    d, panel_bytes = n_features, PANEL_BYTES if panel_bytes is None else panel_bytes
    found = np.empty(d * (d - 1) // 2, dtype=np.int32 if largest < 2**31 else np.int64)
    start = filled = 0
    while start < d - 1:
        stop = min(d, start + max(1, panel_bytes // (8 * (d - start))))
        sums = panel(start, stop)
        for i in range(stop - start):
            row = sums[i, i + 1 :]
            found[filled : filled + len(row)] = row
            filled += len(row)
        start = stop
    return found
