"""Sums over rows and units, on all cores: rows are centred and summed while they are in the cache.

A row is a unit of one row. Kernels are functions on arrays; those that are compiled have others for
tensors, in `hushcov.engines.device`. Every step that decides an integer is one IEEE operation (a
product, quotient, root, or rounding to an integer), and sums are sums of integers that are held
exactly. So no order, machine or number of threads changes a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from hushcov._arrays import FloatArray, IntArray, like, namespace
from hushcov._compiled import compiled, run_parts, threads
from hushcov.kernel.grids import INSIDE

_SMALLEST_PART = 2**14  # values; fewer are summed before a thread wakes up
# Values of long blocks, of more rows, that a thread takes at a time: others hardly wait for it.
_PART, _LONG = 2**21, 2**13
# Values that are centred and summed together, which stay in the second cache; and fewest rows.
_VALUES_NEAR, _FEWEST_ROWS = 2**17, 16
_ROOT_HALF = math.sqrt(0.5)  # between the two halves of an octave
_NOTHING_ELSE = np.array([0, 0, 1])  # ranges of factors and sizes

#: Factors from coordinates to integers, and the largest integer: `FeatureGrid.numbers`.
Multipliers = tuple[FloatArray, float]

#: The integer with which a compact row begins where its record misses a value; none is as small.
MISSING = -(2**15)


@dataclass(frozen=True, eq=False)
class Centring:
    """Centre taken off rows, and how far from it they may be; public or released, finite.

    Where there is a `unit`, rows are integers, in that of their feature: `CompactRecords`.
    """

    centre: FloatArray
    reach: FloatArray
    unit: FloatArray | None = None

    @classmethod
    def zero(cls, n_features: int) -> Centring:
        """Return what leaves rows as they are."""
        return cls(np.zeros(n_features), np.full(n_features, np.finfo(np.float64).max))

    def of(self, rows: Any) -> Any:
        """Return rows less their centre, within reach of it; zeros where a record misses a value.

        Finite rows stay finite: a difference that overflows is clipped.
        """
        integers = self.unit is not None
        if isinstance(rows, np.ndarray):
            y, unit = np.empty(rows.shape), np.ones(1) if self.unit is None else self.unit
            _centre(rows, unit, self.centre, self.reach, integers, y)
            return y
        from hushcov.engines import device

        return device.centred(rows, self)


@compiled
def _centre(
    rows: Any, unit: FloatArray, centre: FloatArray, reach: FloatArray, integers: bool, y: Any
) -> None:
    """Fill in rows less their centre, within reach of it; NaN stays. A row is read once."""
    for i in range(rows.shape[0]):
        if integers and rows[i, 0] == MISSING:
            y[i] = 0.0
            continue
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            x = (x * unit[j] if integers else x) - centre[j]
            y[i, j] = within(x, reach[j])


@compiled
def _round_to_grid(rows: Any, multipliers: FloatArray, half_width: float, y: Any) -> None:
    """Fill in coordinates times multipliers, clipped to the half width and rounded; NaN stays."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            y[i, j] = grid_integer(rows[i, j], multipliers[j], half_width)


@compiled
def grid_integer(x: Any, multiplier: float, half_width: float) -> Any:
    """Return a coordinate times a multiplier, clipped to the half width and rounded."""
    return np.rint(within(np.float64(x) * multiplier, half_width))


@compiled
def within(x: float, most: float) -> float:
    """Clip a number to [-most, most]; NaN stays."""
    return -most if x < -most else most if x > most else x


class SumsSoFar:
    """Sums by thread, how many rows were seen, and those of a unit that goes on."""

    def __init__(self, totals: Any) -> None:
        self.totals, self.position = totals, 0
        self.waiting: list[Any] = []

    def cut(self, block: Any, starts: IntArray | None) -> Iterator[list[tuple[Any, ...]]]:
        """Yield parts of a block for all threads: rows, or rows and where whole units start.

        Rows of a unit that goes on in the next block wait for it.
        """
        if starts is None:
            yield [(part,) for part in row_parts(block, threads())]
            return
        low, high = self.position, self.position + len(block)
        first, last = np.searchsorted(starts, low), np.searchsorted(starts, high, "right")
        inside, self.position = starts[first:last] - low, high
        if not len(inside):
            self.waiting.append(block.copy())
            return
        if self.waiting:
            rows = np.concatenate([*self.waiting, block[: inside[0]]])
            self.waiting = []
            yield [(rows, np.array([0, len(rows)]))]
        elif inside[0] > 0:
            raise AssertionError("rows of a unit were left out")
        cuts = np.linspace(inside[0], inside[-1], threads() + 1)[1:-1]
        ends = [0, *np.searchsorted(inside, cuts), len(inside) - 1]
        parts = [inside[a : b + 1] for a, b in itertools.pairwise(ends) if b > a]
        if parts:
            yield [(block[part[0] : part[-1]], part - part[0]) for part in parts]
        if inside[-1] < len(block):
            self.waiting.append(block[inside[-1] :].copy())

    def total(self) -> IntArray:
        """Return the sums over all blocks."""
        return np.asarray(self.totals.sum(axis=0))


@dataclass(frozen=True, eq=False)
class RowSums:
    """A block function that checks rows itself and adds them up on all cores. Picklable.

    Sums are exact integers of this shape, the same whatever rows are taken together.
    `kernel(rows, *arguments, total)` adds finite rows, centred about `about`, to a total; the
    arguments are public or released. Without `centring` rows come as they are, and `takes_gaps`
    leaves out those that are not finite. Where units have up to `most_rows` rows, the kernel
    also gets the places where units start, and where the last one ends.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    most_rows: int = 1
    centring: bool = field(default=True, kw_only=True)
    takes_gaps: bool = field(default=False, kw_only=True)
    about: Centring | None = field(default=None, kw_only=True)
    starts: IntArray | None = field(default=None, kw_only=True)

    def __call__(self, block: Any) -> Any:
        """Return the sums of a block, which is finite; see `BlockFunction`."""
        if not isinstance(block, np.ndarray):
            from hushcov.engines import device

            return device.sums_of(self, block)
        sums = self.begin()
        finite = self.add(block, sums)
        assert finite, "checked before"
        return self.total(sums)

    def centred(self, about: Centring) -> Self:
        """Return these sums for centred rows."""
        return replace(self, about=about)

    def begin(self) -> Any:
        """Return where sums over several blocks are kept."""
        return SumsSoFar(np.zeros((threads(), *self.shape), dtype=np.int64))

    def add(self, block: Any, sums: Any) -> bool:
        """Add a block, on all cores; return False if it has a number that is not finite."""
        finite = True
        for parts in sums.cut(block, self.starts):
            finite &= self.add_parts(parts, sums)
        if sums.waiting and block.dtype == np.float64:
            finite &= bool(np.isfinite(sums.waiting[-1]).all())
        return finite

    def add_parts(self, parts: list[tuple[Any, ...]], sums: Any) -> bool:
        """Add parts of a block; every thread has sums of its own."""
        free = list(sums.totals)

        def add(rows: Any, *starts: IntArray) -> bool:
            own, finite = free.pop(), True
            with np.errstate(all="ignore"):  # what overflows is clipped
                for near in rows_near(rows) if not starts else [rows]:
                    ready, whole = self.ready(near)
                    if whole or not starts:
                        self.kernel(ready, *starts, *self.arguments, own)
                    finite &= whole
            free.append(own)
            return finite

        return all(run_parts(add, parts, len(free)))

    def ready(self, rows: Any) -> tuple[Any, bool]:
        """Return the rows that a kernel takes, and whether all numbers are finite."""
        finite = rows.dtype != np.float64 or bool(np.isfinite(rows).all())
        rows = rows if finite else rows[np.isfinite(rows).all(axis=1)]
        return (self.about.of(rows) if self.centring and self.about else rows), finite

    def total(self, sums: Any) -> IntArray:
        """Return the sums over all blocks; refuse rows that are not those of all units."""
        if self.starts is not None and (sums.waiting or sums.position != self.starts[-1]):
            raise AssertionError("rows must be as many as those of all units")
        return np.asarray(sums.total())

    def on_host(self, sums: Any) -> Any:
        """Return the sums over all blocks on a device, as an array."""
        from hushcov.engines import device

        return device.to_host(sums)


def row_parts(block: FloatArray, most: int) -> list[FloatArray]:
    """Return parts of a block for at most so many threads, none tiny; several of a long one."""
    several = block.size // _PART // most * most if len(block) > _LONG else 1
    number = max(several, min(most, block.size // _SMALLEST_PART), 1)
    return np.array_split(block, number) if number > 1 else [block]


def rows_near(rows: Any) -> list[Any]:
    """Return rows a few at a time, that stay in the cache."""
    step = max(_FEWEST_ROWS, _VALUES_NEAR // rows.shape[1])
    return [rows[first : first + step] for first in range(0, len(rows), step)]


# Steps of kernels.


def grid_integers(rows: Any, grid: Multipliers) -> Any:
    """Return coordinates times multipliers, clipped to the half width and rounded, as doubles."""
    if isinstance(rows, np.ndarray):
        y = np.empty(rows.shape)
        _round_to_grid(rows, grid[0], grid[1], y)
        return y
    y, xp = rows * like(grid[0], rows), namespace(rows)
    return xp.round(xp.clip(y, -grid[1], grid[1], out=y), out=y)


def square_norms(rows: Any) -> Any:
    """Return sums of squares of rows."""
    return namespace(rows).einsum("ij,ij->i", rows, rows)


def shortening(square: Any, bound: float, longest: float | None = None) -> Any:
    """Return factors that scale down to a bound what is longer, from squared norms; 1 elsewhere.

    A norm is longer if its square is beyond `longest`, the square of the bound if left out.
    """
    xp, longest = namespace(square), bound * bound if longest is None else longest
    quotient = xp.full_like(square, bound) / xp.sqrt(square)  # rounded once
    return xp.where(square <= longest, 1.0, quotient * INSIDE)


def scaled(rows: Any, factor: Any) -> Any:
    """Return integers times the factor of their row, rounded towards zero."""
    if bool((factor == 1).all()):
        return rows
    return namespace(rows).trunc(rows * factor[:, None])


def shortened(rows: Any, bound: float) -> Any:
    """Return integers, where longer than the bound scaled down to it and rounded towards zero."""
    return rows if bound == np.inf else scaled(rows, shortening(square_norms(rows), bound))


def whole(numbers: Any) -> Any:
    """Return integers in doubles as such of 64 bits."""
    xp = namespace(numbers)
    return xp.asarray(numbers, dtype=xp.int64)


# What integers on a grid become before they are added: kinds of `power`, with two numbers.
INTEGERS, SQUARES, FOURTHS = 0, 1, 2


@compiled
def add_rows(
    rows: Any, grid: Multipliers, power: Any, bound: float, ranges: Any, square: Any, total: Any
) -> None:
    """Add z of rows, scaled down to the bound, then factors and sizes; see `ProductMap`.

    `square` has what is added to the squared norms of z, and gets the factors. Without ranges of
    factors and sizes, norms are counted, and it gets their squares.
    """
    z, sums, last = np.empty(rows.shape[1]), np.zeros(rows.shape[1]), len(total) - 1
    for a in range(len(rows)):
        size, own = _fill_row(rows[a], grid, power, z)
        square[a] += own
        if len(ranges) == 0:
            mantissa, exponent = math.frexp(square[a])
            total[min(2 * exponent + (mantissa >= _ROOT_HALF), last)] += 1
            continue
        factor = 1.0 if square[a] <= bound * bound else bound / math.sqrt(square[a]) * INSIDE
        for i in range(len(z) if factor == 1.0 else 0):
            sums[i] += z[i]
        for i in range(len(z) if factor < 1.0 else 0):
            sums[i] += np.trunc(z[i] * factor)
        total[last - 1] += np.int64(factor * ranges[0]) if factor < 1.0 else ranges[0]
        total[last] += min(np.int64(size), ranges[2]) * ranges[1] // ranges[2]
        square[a] = factor
    for i in range(len(z) if len(ranges) else 0):  # of so few rows that sums are exact
        total[last - 1 - len(z) + i] += np.int64(sums[i])


@partial(compiled, any_order=True)
def _fill_row(row: FloatArray, grid: Multipliers, power: Any, z: FloatArray) -> Any:
    """Fill in z; return squared norms of the integers and of z, which are exact."""
    kind, first, second = power
    size = square = 0.0
    for i in range(len(row)):
        y = grid_integer(row[i], grid[0][i], grid[1])
        own = y * y
        size += own
        if kind == SQUARES:
            y = first * (own - second)
        elif kind == FOURTHS:
            own = min(own, first)
            y = np.floor(own * own * second)
        z[i] = y
        square += y * y
    return size, square


def add_bounded(rows: Any, grid: Multipliers, power: Any, bound: float, total: Any) -> None:
    """Add z of rows, scaled down to the bound."""
    found = np.zeros(len(total) + 2, np.int64)
    add_rows(rows, grid, power, bound, _NOTHING_ELSE, np.zeros(len(rows)), found)
    total += found[:-2]


def column_sums(rows: Any) -> Any:
    """Return the sums of columns of integers below 2**27, in 64 bits."""
    if isinstance(rows, np.ndarray):  # so few rows that sums are below 2**43, exact in doubles
        return whole(np.ones(len(rows)) @ rows)
    return whole(rows).sum(0)


def norm_bins(square: Any, n_bins: int) -> Any:
    """Return the bins of norms: half octaves of their squares."""
    xp = namespace(square)
    mantissa, exponent = xp.frexp(square)
    upper = mantissa >= np.sqrt(0.5)
    return xp.clip(2 * whole(exponent) + whole(upper), None, n_bins - 1)


def count_in_bins(bins: Any, total: Any) -> None:
    """Add how often each bin occurs."""
    total += namespace(bins).bincount(bins, minlength=len(total))


# Several sums in one reading.


def sum_together(records: Any, sums: Sequence[RowSums]) -> list[IntArray]:
    """Return several sums over the records, which are read once for all of them."""
    return split(records.map_sum(joined(sums)), sums)


def joined(sums: Sequence[RowSums]) -> RowSums:
    """Return the sums as one, one after the other in a row."""
    size = sum(math.prod(each.shape) for each in sums)
    return RowSums(add_each, (tuple(sums),), (size,))


def add_each(rows: Any, sums: Sequence[RowSums], total: Any) -> None:
    """Add rows to each of the sums."""
    for each, part in zip(sums, split(total, sums), strict=True):
        each.kernel(rows, *each.arguments, part)


def split(total: Any, sums: Sequence[RowSums]) -> list[Any]:
    """Return parts of joined sums, each in its shape."""
    ends = list(itertools.accumulate(math.prod(each.shape) for each in sums))
    pairs = zip([0, *ends], ends, sums, strict=False)
    return [total[start:end].reshape(each.shape) for start, end, each in pairs]
