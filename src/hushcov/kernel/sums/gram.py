"""Exact Gram matrices in integers of records and of units, and scores of pairs from panels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray, namespace
from hushcov._compiled import run_parts
from hushcov._triangle import mirror
from hushcov._validation import check_integer
from hushcov.engines import int16
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
_NEAR = 2**18  # integers that are packed while they are in cache
# Sums of squares of a unit are within 2**-31 of what they are, for units of up to 2**20 rows: more
# than the rounding of one row, of which `INSIDE` tells.
_UNIT_INSIDE = 1.0 - 2.0**-30
# Products of digits of 15 bits that doubles add up exactly.
_EXACT_ROWS = LARGEST_EXACT_FLOAT >> 2 * DIGIT_BITS
_AGAIN = 0.99  # of a factor for which truncated rows came out too long


def second_moments(records: Records, grid: IntegerGrid) -> Statistics:
    """Return the exact second moments of `records` on `grid`, in one pass.

    The result is the same bit for bit whatever the block size, the order of the records and
    the number of threads, because no rounding takes place after that of the grid, which is public.
    `IntegerGrid.for_records` makes one that always has room.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map = RecordMap(records.n_features, grid, feature_names=records.feature_names)
    return record_statistics(records, record_map)


def record_statistics(records: Records, record_map: RecordMap) -> Statistics:
    """Return the exact second moments of records mapped to integers; see `second_moments`.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map.check_records(records)
    grid = record_map.grid
    gram: NDArray[Any]
    if isinstance(grid, IntegerGrid) and grid.wide:
        digits = records.map_sum(_WideGram(grid))
        gram = sum(digit.astype(object) << DIGIT_BITS * q for q, digit in enumerate(digits))
    elif isinstance(grid, IntegerGrid):
        d = records.n_features
        rows = (np.full(d, grid.multiplier), float(grid.half_width)), np.inf
        gram = records.map_sum(_Gram(add_gram, rows, (d, d)))
    else:
        gram = row_bounded_gram(records, grid, record_map.norm_bound)
    gram.setflags(write=False)  # then `Statistics` need not copy it
    return Statistics(gram, records.n_records, record_map)


@dataclass(frozen=True)
class _WideGram:
    """Sums the digits of the products of integers on a wide grid; a block function. Picklable.

    An integer is up to three digits of 15 bits with signs, so the products of digits are those of a
    grid of `largest_half_width`. The sum of all pairs of digits of one place is carried on to the
    next places: all but the last of the digits that are returned stay within 2**14 a block, and the
    last within the number of records. So int64 holds their sums over 2**62 records.
    """

    grid: IntegerGrid

    def __call__(self, block: Any) -> Any:
        xp, n, d, base = namespace(block), self.grid.n_digits, block.shape[1], 1 << DIGIT_BITS
        total = 0
        for start in range(0, len(block), _EXACT_ROWS) or [0]:
            rows = block[start : start + _EXACT_ROWS].clip(-self.grid.radius, self.grid.radius)
            rows, digits = xp.round(rows * self.grid.multiplier), []
            for _ in range(n - 1):
                upper = xp.round(rows / base)
                digits.append(rows - upper * base)
                rows = upper
            both = xp.concatenate([*digits, rows], 1)  # digit by digit
            products = xp.asarray(both.T @ both, dtype=xp.int64).reshape(n, d, n, d)
            total = total + self._carried([products[i, :, j] for i in range(n) for j in range(n)])
        return total

    def _carried(self, products: list[Any]) -> Any:
        """Return digits, the lowest place first, of the sum of products of pairs of digits."""
        n, xp = self.grid.n_digits, namespace(products[0])
        places, carry = [], xp.zeros_like(products[0])
        for place in range(2 * n):
            value = carry + sum(products[i * n + place - i] for i in range(n) if 0 <= place - i < n)
            carry = (value + (1 << DIGIT_BITS - 1)) >> DIGIT_BITS
            places.append(value - (carry << DIGIT_BITS))
        return xp.stack([*places, carry])


def row_bounded_gram(records: Records, grid: FeatureGrid, norm_bound: int | None) -> IntArray:
    """Return the sum over records of z_i z_j, an exact integer matrix.

    With z as in `bounded_rows`. The result is the same bit for bit whatever the block size and the
    order of the records: no rounding takes place after that of the record's own coordinates.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers with
    |z_i| <= half_width and ||z|| <= norm_bound. From these two bounds `docs/proofs/gaussian.md`
    derives how far the matrix moves when one record is replaced.
    """
    _check_room(records, grid)
    d = grid.n_features
    return records.map_sum(_Gram(add_gram, bounded_rows(grid, norm_bound), (d, d)))


def unit_bounded_gram(records: Records, grid: FeatureGrid, bound: int, most_rows: int) -> IntArray:
    """Return the sum over units of Z'Z, an exact integer matrix.

    Y are the integers of the rows of a unit on `grid`. Z is Y where the Frobenius norm of Y'Y is
    at most `bound`; else all its numbers are multiplied by one factor and rounded towards zero,
    and the factor is made smaller until Z'Z is within the bound.

    Privacy
    -------
    Nothing here is private by itself. Each unit is mapped on its own to a matrix of norm at most
    `bound` without negative eigenvalues: `docs/proofs/gaussian.md`, step 7.
    """
    cure = "it is a public bound on the norm of what a unit adds, in squared steps of the grid."
    check_integer("bound", bound, at_least=1, cure=cure)
    _check_room(records, grid)
    grid.check_squared_norms()
    arguments, d = (grid.numbers, float(bound)), grid.n_features
    return records.map_sum(_UnitGram(add_gram, arguments, (d, d), most_rows))


def unit_norm_histogram(records: Records, grid: FeatureGrid, most_rows: int) -> IntArray:
    """Return how many units have the Frobenius norm of Y'Y in each of its quarter octaves.

    Bin b has norms of 2^((b - 2) / 4) up to 2^((b - 1) / 4).

    Privacy
    -------
    Nothing here is private by itself. Replacing one unit moves one count from one bin to another.
    """
    _check_room(records, grid)
    grid.check_squared_norms()
    n_bins = 4 * (54 + most_rows.bit_length())
    return records.map_sum(RowSums(count_units, (grid.numbers,), (n_bins,), most_rows))


def _check_room(records: Records, grid: FeatureGrid) -> None:
    grid.check_features(records.n_features)
    if records.n_rows * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )


class _GramSoFar(SumsSoFar):
    """An exact Gram matrix so far: recent rows in doubles below the diagonal, the others settled.

    Every partial sum in doubles, in whatever order BLAS takes them, is an integer of at most 2**53.
    """

    def __init__(self, n_features: int, half_width: int) -> None:
        super().__init__(None)
        self._exact_rows = LARGEST_EXACT_FLOAT // half_width**2
        self._recent: FloatArray = np.zeros((n_features, n_features), order="F")
        self._rows = 0
        self._settled: IntArray | None = None
        self._room: FloatArray = np.empty((0, n_features))

    def take(self, parts: list[tuple[Any, ...]], sizes: list[int], fill: Any) -> bool:
        """Add parts of so many rows that `fill` makes integers; False if it says so of one."""
        if len(self._room) < sum(sizes):  # new room for each block would take time
            self._room = np.empty((sum(sizes), self._room.shape[1]))
        integers = self._room[: sum(sizes)]
        own = np.split(integers, np.cumsum(sizes)[:-1])
        finite = all(run_parts(fill, [(to, *part) for part, to in zip(parts, own, strict=True)]))
        if finite:
            self._add(integers)
        return finite

    def _add(self, integers: FloatArray) -> None:
        """Add products of these."""
        from scipy.linalg.blas import dsyrk

        for start in range(0, len(integers), self._exact_rows):
            part = integers[start : start + self._exact_rows]
            if self._rows + len(part) > self._exact_rows:
                self._settle()
            self._recent = dsyrk(1.0, part.T, beta=1.0, c=self._recent, lower=1, overwrite_c=1)
            self._rows += len(part)

    def _settle(self) -> None:
        exact = self._recent.astype(np.int64, order="F")
        self._settled = exact if self._settled is None else np.add(exact, self._settled, out=exact)
        self._recent[:] = 0.0
        self._rows = 0

    def total(self) -> IntArray:
        """Return the whole matrix."""
        self._settle()
        assert self._settled is not None
        gram = self._settled.T  # the sums are above the diagonal of this, row by row
        del self._recent
        mirror(gram)
        return gram


class _PackedSoFar(_GramSoFar):
    """An exact Gram matrix so far, in integers of two bytes; in doubles where chunks are short."""

    def __init__(self, n_features: int, half_width: int) -> None:
        super().__init__(n_features, half_width)
        self._gram = int16.empty_gram(n_features)
        self._words, self._ends = int16.empty_words(0, n_features)

    def take(self, parts: list[tuple[Any, ...]], sizes: list[int], fill: Any) -> bool:
        """See `_GramSoFar`."""
        d = len(self._recent)
        stops = np.cumsum([-(-size // int16.STRIP) for size in sizes])
        if len(self._words) < stops[-1]:
            self._words, self._ends = int16.empty_words(stops[-1], d)
        words, ends = self._words[: stops[-1]], self._ends[: stops[-1]]
        own = np.split(words, stops[:-1]), np.split(ends, stops[:-1])
        jobs = [(fill, *each) for each in zip(sizes, *own, parts, strict=True)]
        if not all(run_parts(_pack, jobs)):
            return False
        for strip in np.flatnonzero(np.count_nonzero(ends, axis=1) > int16.MOST_CHUNKS):
            self._add(int16.unpacked(words[strip], d)[: 2 * ends[strip].max()])
            ends[strip] = 0
        int16.add_products(words, ends, self._gram)
        return True

    def total(self) -> IntArray:
        """See `_GramSoFar`."""
        gram = int16.whole(self._gram, len(self._recent))
        del self._gram, self._words
        if self._rows or self._settled is not None:
            gram += super().total()
        return gram


def _pack(fill: Any, size: int, words: Any, ends: IntArray, part: tuple[Any, ...]) -> bool:
    """Make rows integers, and pack them: a few strips at a time, or where there are units all."""
    rows, *starts = part
    finite, d = True, rows.shape[1]
    strips = len(words) if starts else max(1, _NEAR // (d * int16.STRIP))
    step = strips * int16.STRIP
    near = np.empty((min(step, size), d))
    for first in range(0, size, step):
        integers, begin = near[: size - first], first // int16.STRIP
        finite &= fill(integers, rows if starts else rows[first : first + step], *starts)
        own = slice(begin, begin + strips)
        int16.pack_rows(integers, words[own], ends[own])
    return finite


class _Gram(RowSums):
    """Gram matrices of rows; parts of a block become integers on all cores."""

    def begin(self) -> _GramSoFar:
        half_width = int(self.arguments[0][1])
        small = half_width <= int16.LARGEST and self.shape[0] >= int16.FEWEST
        packed = small and int16.vector_words() > 0
        return (_PackedSoFar if packed else _GramSoFar)(self.shape[0], half_width)

    def add_parts(self, parts: list[tuple[Any, ...]], sums: _GramSoFar) -> bool:
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
