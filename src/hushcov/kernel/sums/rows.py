"""Sums over rows and units by compiled loops: on all cores, in one reading of every block.

A row is a unit of one row. A block is checked, centred and summed row by row, so that no copy of it
is made. The integers are those of the same steps after each other: no order and no number of
threads changes a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._compiled import Function, compiled, intrinsic, run_parts, threads
from hushcov.kernel.grids import INSIDE

_SMALLEST_PART = 2**14  # values; fewer are summed before a thread wakes up
# Values of long blocks, of more rows, that a thread takes at a time: others hardly wait for it.
_PART, _LONG = 2**21, 2**13
ROOT_HALF = math.sqrt(0.5)  # between the two halves of an octave
# Squares that are added up before their sum is added: few roundings after each other.
_SQUARES_TOGETHER = 2**12

#: Centre and reach of every feature, as `RowSums.bound_losses` returns them.
Reaches = tuple[FloatArray, FloatArray]
#: Factors from coordinates to integers, and the largest integer: `FeatureGrid.numbers`.
Multipliers = tuple[FloatArray, float]

#: Records side by side: a row of integers of two bytes for each feature.
Lanes = NDArray[np.int16]

#: Integers are smaller: products of two of them, less another, have room in four bytes.
LARGEST_LANE = 2**14
# Records side by side: a multiple of 8, as many as leave all features in the second cache.
_MOST_LANES, _FEWEST_LANES, _LANE_VALUES = 128, 16, 2**18
# Records and features that are turned together; they stay in the nearest cache.
_TOGETHER, _PIECE = 8, 512
_TURNED = 256  # rows that columns are turned into together

#: The integer with which a compact row begins where its record misses a value; none is as small.
MISSING = -(2**15)


@dataclass(frozen=True, eq=False)
class About:
    """Centre taken off rows, and how far from it they may be; public or released, finite.

    Where there is a `unit`, rows are integers, in that of their feature: `CompactRecords`.
    """

    centre: FloatArray
    reach: FloatArray
    unit: FloatArray | None = None

    @classmethod
    def zero(cls, n_features: int) -> About:
        """Return what leaves rows as they are."""
        return cls(np.zeros(n_features), np.full(n_features, np.finfo(np.float64).max))

    def of_tensor(self, block: Any) -> Any:
        """Return rows on a device, centred."""
        from hushcov.engines import device

        return device.centre_rows(block, self.centre, self.reach, self.unit)


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
            yield [(block, part) for part in parts]
        if inside[-1] < len(block):
            self.waiting.append(block[inside[-1] :].copy())

    def total(self) -> IntArray:
        """Return the sums over all blocks."""
        return np.asarray(self.totals.sum(axis=0))


@dataclass(frozen=True, eq=False)
class RowSums:
    """A block function that checks rows itself and adds them up on all cores. Picklable.

    Sums are exact integers of this shape, the same whatever rows are taken together. The kernel is
    compiled: `kernel(rows, (centre, reach), *arguments, total)` adds rows to a total, in one
    thread, and returns False if a number is not finite. The arguments are public or released.
    Without `centring` it takes no centre and reach, which are those of `about`, and adds nothing
    of rows that are not finite: `takes_gaps` then leaves out records with nulls. Where units have
    up to `most_rows` rows, `starts` follow the rows: where units start, and the last one ends.
    `hushcov.engines.device` has a function of the same name, which returns the sums of a tensor.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    most_rows: int = 1
    centring: bool = True
    takes_gaps: bool = field(default=False, kw_only=True)
    about: About | None = field(default=None, kw_only=True)
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

    @property
    def long_blocks(self) -> bool:
        """Whether blocks may be longer than a cache: rows are summed one by one, by each thread."""
        return type(self).add_parts is RowSums.add_parts

    def centred(self, about: About) -> Self:
        """Return these sums for centred rows."""
        return replace(self, about=about)

    def bound_losses(self, n_features: int) -> Reaches:
        """Return centre and reach of every feature, as `centre_row` takes them."""
        about = self.about or About.zero(n_features)
        if about.unit is None:
            return about.centre, about.reach
        return np.stack([about.centre, about.unit]), about.reach

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

        def add(*part: Any) -> bool:
            own = free.pop()
            finite = self.add_rows(own, *part)
            free.append(own)
            return finite

        return all(run_parts(add, parts, len(free)))

    def add_rows(self, total: Any, rows: Any, *starts: IntArray) -> bool:
        """Add rows to a total, in one thread; return False if a number is not finite."""
        about = (self.bound_losses(rows.shape[1]),) if self.centring else ()
        return bool(self.kernel(rows, *starts, *about, *self.arguments, total))

    def total(self, sums: Any) -> IntArray:
        """Return the sums over all blocks; refuse rows that are not those of all units."""
        if self.starts is not None and (sums.waiting or sums.position != self.starts[-1]):
            raise AssertionError("rows must be as many as those of all units")
        return np.asarray(sums.total())

    def of_tensor(self, block: Any) -> Any:
        """Return the sums of a block on a device."""
        from hushcov.engines import device

        return device.kernel_for(self.kernel.__name__, block)(block, *self.arguments)

    def on_host(self, sums: Any) -> Any:
        """Return the sums over all blocks on a device, as an array."""
        from hushcov.engines import device

        return device.to_host(sums)


def row_parts(block: FloatArray, most: int) -> list[FloatArray]:
    """Return parts of a block for at most so many threads, none tiny; several of a long one."""
    several = block.size // _PART // most * most if len(block) > _LONG else 1
    number = max(several, min(most, block.size // _SMALLEST_PART), 1)
    return np.array_split(block, number) if number > 1 else [block]


def exact_reduction(function: Function) -> Function:
    """Compile a sum of integers in doubles: exact in any order, so any order may be taken."""
    return compiled(function, any_order=True)


@exact_reduction
def square_norm(row: FloatArray) -> float:
    """Return the sum of squares of integers."""
    square = 0.0
    for i in range(len(row)):
        square += row[i] * row[i]
    return square


@compiled
def near_square_norm(v: FloatArray) -> float:
    """Return the squared norm of integers, too small or too large by less than 2**-40 of it."""
    total = 0.0
    for left in range(0, len(v), _SQUARES_TOGETHER):
        part = 0.0
        for e in range(left, min(len(v), left + _SQUARES_TOGETHER)):
            part += v[e] * v[e]
        total += part
    return total


@compiled
def norm_bin(square: float, n_bins: int) -> int:
    """Return the bin of a norm: half octaves of its square."""
    mantissa, exponent = math.frexp(square)
    return min(2 * exponent + (1 if mantissa >= ROOT_HALF else 0), n_bins - 1)


@compiled
def count_below(edges: FloatArray, value: float) -> int:
    """Return how many edges are below a value; they ascend."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def shorten_row(row: FloatArray, square: float, bound: float) -> None:
    """Scale integers down to the bound if they are longer; `square` is their squared norm."""
    if square > bound * bound:
        factor = bound / np.sqrt(square) * INSIDE
        for i in range(len(row)):
            row[i] = np.trunc(row[i] * factor)


@compiled
def add_unit(v: FloatArray, bound: float, whole: int, total: IntArray) -> None:
    """Add the integers of a unit, scaled down to the bound, and so much of `whole`."""
    square, n = near_square_norm(v), len(v)
    if square <= bound * bound * INSIDE:
        total[n] += whole
        for e in range(n):
            total[e] += np.int64(v[e])
    else:
        factor = bound / math.sqrt(square) * INSIDE
        total[n] += np.int64(factor * whole)
        for e in range(n):
            total[e] += np.int64(v[e] * factor)


@compiled
def centre_row(row: FloatArray, centre: FloatArray, reach: FloatArray, y: FloatArray) -> bool:
    """Fill y with a row less its centre, within reach; False if a number is not finite.

    Where the centre is a row above units, the row is integers in these units, which are finite.
    """
    if centre.ndim == 2:  # known when this is compiled
        missing = row[0] == MISSING
        for i in range(len(row)):
            own = min(max(row[i] * centre[1, i] - centre[0, i], -reach[i]), reach[i])
            y[i] = 0.0 if missing else own
        return True
    for i in range(len(row)):
        y[i] = min(max(row[i] - centre[i], -reach[i]), reach[i])
    return finite_row(row)


@exact_reduction
def finite_row(row: FloatArray) -> bool:
    """Return whether all numbers are finite: any other less itself is NaN, and so is the sum."""
    odd = 0.0
    for i in range(len(row)):
        odd += row[i] - row[i]
    return odd == 0.0


@compiled
def mark_finite(block: FloatArray, finite: BoolArray) -> bool:
    """Mark the rows that are finite; return False if a number is infinite."""
    infinite = False
    for a in range(len(block)):
        finite[a] = finite_row(block[a])
        if not finite[a]:
            for i in range(block.shape[1]):
                infinite |= np.abs(block[a, i]) == np.inf
    return not infinite


@compiled
def round_row(y: FloatArray, multipliers: FloatArray, half_width: float) -> None:
    """Make y integers on a grid, in place."""
    for i in range(len(y)):
        y[i] = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))


@compiled
def empty_lanes(n_features: int) -> Lanes:
    """Return room for as many records as are best taken together: features by records."""
    fitting = _LANE_VALUES // n_features // _TOGETHER * _TOGETHER
    return np.zeros((n_features, max(_FEWEST_LANES, min(_MOST_LANES, fitting))), dtype=np.int16)


@compiled
def fill_lanes(
    rows: FloatArray,
    taken: FloatArray,
    reach: FloatArray,
    grid: Multipliers,
    centre: float,
    lanes: Lanes,
    sizes: FloatArray,
) -> bool:
    """Put rows side by side, centred and made integers y; False if a number is not finite.

    Their sums of y_i^2, and of (y_i^2 - `centre`)^2, become the two rows of `sizes`.
    """
    sizes[:] = 0.0
    y, integers = np.empty(_PIECE), np.zeros((_TOGETHER, _PIECE), dtype=np.int16)
    limits = grid_limits(reach, grid[0], grid[1]) if taken.ndim == 2 else reach
    for k in range(len(rows)):
        if taken.ndim == 1 and not finite_row(rows[k]):
            return False
    for first in range(0, len(rows), _TOGETHER):
        for left in range(0, len(lanes), _PIECE):
            right = min(len(lanes), left + _PIECE)
            for k in range(first, min(first + _TOGETHER, len(rows))):
                _fill_piece(rows, k, left, right, taken, limits, grid, y)
                square, about = _small_integers(y, right - left, centre, integers, k - first)
                sizes[0, k] += square
                sizes[1, k] += about
            turn(integers, lanes[left:right, first : first + _TOGETHER])
    return True


# Loops below get whole arrays and where to begin: an array for each part would be counted for the
# release of memory, which takes as long as the loop. Places are unsigned, as none counts from the
# end. How many there are is not known to the compiler, which would not use vectors for so few.


@compiled
def _fill_piece(
    rows: FloatArray,
    k: int,
    left: int,
    right: int,
    taken: FloatArray,
    limits: FloatArray,
    grid: Multipliers,
    y: FloatArray,
) -> None:
    """Fill y with part of row k, as `centre_row` and `round_row` do; see `grid_row`."""
    start, (multipliers, half_width) = np.uint64(left), grid
    if taken.ndim == 2 and rows[k, 0] == MISSING:
        y[:] = 0.0
        return
    for i in range(np.uint64(right - left)):
        limit = limits[start + i]
        if taken.ndim == 2:  # known when this is compiled
            centred = rows[k, start + i] * taken[1, start + i] - taken[0, start + i]
            y[i] = np.rint(min(max(centred * multipliers[start + i], -limit), limit))
        else:
            near = min(max(rows[k, start + i] - taken[start + i], -limit), limit)
            scaled = near * multipliers[start + i]
            y[i] = np.rint(min(max(scaled, -half_width), half_width))


@exact_reduction
def _small_integers(
    y: FloatArray, n_values: int, centre: float, integers: Lanes, k: int
) -> tuple[float, float]:
    square, about = 0.0, 0.0
    for i in range(np.uint64(n_values)):
        integers[k, i] = np.int16(y[i])
        own = y[i] * y[i]
        square += own
        about += (own - centre) * (own - centre)
    return square, about


@compiled
def turn(integers: Any, lanes: Any) -> None:
    """Put eight rows of numbers of one type side by side."""
    whole = len(lanes) // _TOGETHER * _TOGETHER
    for i in range(0, whole, _TOGETHER):
        _turn_eight(integers[:, i:], lanes[i:])
    for i in range(whole, len(lanes)):
        for k in range(_TOGETHER):
            lanes[i, k] = integers[k, i]


@compiled
def turn_columns(columns: Any, rows: Any) -> None:
    """Make rows of columns, a few at a time: both stay in the cache."""
    whole = len(columns) // _TOGETHER * _TOGETHER
    for top in range(0, len(rows), _TURNED):
        own = rows[top : top + _TURNED]
        for left in range(0, whole, _TOGETHER):
            part = columns[left : left + _TOGETHER, top : top + _TURNED]
            turn(part, own[:, left : left + _TOGETHER])
        for i in range(whole, len(columns)):
            for a in range(len(own)):
                own[a, i] = columns[i, top + a]


@intrinsic
def _turn_eight(context: Any, rows: Any, lanes: Any) -> Any:
    """Turn eight times eight numbers: compilers do not see that whole rows can be shuffled."""
    from llvmlite import ir
    from numba import types

    every, word = range(_TOGETHER), ir.IntType(64)
    places, align = ir.VectorType(ir.IntType(32), _TOGETHER), rows.dtype.bitwidth // 8

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(rows.dtype), _TOGETHER)

        def pointers(which: int) -> list[Any]:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            start = builder.ptrtoint(array.data, word)
            stride = builder.extract_value(array.strides, 0)
            starts = [builder.add(start, builder.mul(stride, word(k))) for k in every]
            return [builder.inttoptr(each, vector.as_pointer()) for each in starts]

        values = [builder.load(each, align=align) for each in pointers(0)]
        for step in (1, 2, 4):  # exchange halves of blocks, twice as large each time
            upper = places([k + _TOGETHER - step if k & step else k for k in every])
            lower = places([k + _TOGETHER if k & step else k + step for k in every])
            values = [
                builder.shuffle_vector(values[k - step], values[k], lower)
                if k & step
                else builder.shuffle_vector(values[k], values[k + step], upper)
                for k in every
            ]
        for value, each in zip(values, pointers(1), strict=True):
            builder.store(value, each, align=align)
        return context.get_dummy_value()

    return types.void(rows, lanes), code


@compiled
def grid_limits(reach: FloatArray, multipliers: FloatArray, half_width: float) -> FloatArray:
    """Return the largest integers of `grid_row`, before they are rounded."""
    limits = np.empty(len(reach))
    for i in range(len(reach)):
        limits[i] = min(reach[i] * multipliers[i], half_width)
    return limits


@compiled
def grid_row(
    row: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    limits: FloatArray,
    y: FloatArray,
) -> bool:
    """Fill y as `centre_row` and then `round_row` do, at once; False if a number is not finite.

    Products are monotone, roundings included. So whether a finite number is clipped to the reach
    before or after it is multiplied makes no difference.
    """
    if centre.ndim == 2:  # known when this is compiled
        missing = row[0] == MISSING
        for i in range(len(row)):
            own = (row[i] * centre[1, i] - centre[0, i]) * multipliers[i]
            y[i] = 0.0 if missing else np.rint(min(max(own, -limits[i]), limits[i]))
        return True
    for i in range(len(row)):
        own = min(max(row[i] - centre[i], -reach[i]), reach[i])  # this may have been infinite
        y[i] = np.rint(min(max(own * multipliers[i], -limits[i]), limits[i]))
    return finite_row(row)
