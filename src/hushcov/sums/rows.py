"""Sums over rows by compiled loops: on all cores, in one reading of every block.

A block is checked, centred and summed row by row, so that no copy of it is made. The integers are
those of the same steps after each other: no order and no number of threads changes a bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, intrinsic, run_parts, threads

# Numbers that are not finite have all bits of the exponent set; one more carries into this bit.
_FRACTION_BITS = np.uint64(52)
_EXPONENT = np.uint64(0x7FF)
_ONE = np.uint64(1)
_CARRIED = np.uint64(0x800)
_SMALLEST_PART = 2**14  # values; fewer are summed before a thread wakes up

#: Records side by side: a row of integers of two bytes for each feature.
Lanes = NDArray[np.int16]

#: Integers are smaller: products of two of them, less another, have room in four bytes.
LARGEST_LANE = 2**14
# Records side by side: a multiple of 8, as many as leave all features in the second cache.
_MOST_LANES, _FEWEST_LANES, _LANE_VALUES = 64, 16, 2**18
# Records and features that are turned together; they stay in the nearest cache.
_TOGETHER, _PIECE = 8, 512


#: Of every feature: the centre, for integers as a row above their unit; and the reach.
Taken = tuple[FloatArray, FloatArray]

#: The integer with which a compact row begins where its record misses a value; none is as small.
MISSING = -(2**15)


@dataclass(frozen=True, eq=False)
class About:
    """What is taken off rows, and how far from it they may be; public or released, finite.

    Where there is a `unit`, rows are integers, in that of their feature: `CompactRecords`.
    """

    centre: FloatArray
    reach: FloatArray
    unit: FloatArray | None = None

    @classmethod
    def zero(cls, n_features: int) -> About:
        """Rows as they are."""
        return cls(np.zeros(n_features), np.full(n_features, np.finfo(np.float64).max))

    def of_tensor(self, block: Any) -> Any:
        """Rows on a device, centred; those are never integers."""
        assert self.unit is None
        reach = block.new_tensor(self.reach)
        return (block - block.new_tensor(self.centre)).clip_(-reach, reach)


@dataclass(frozen=True, eq=False)
class RowSums(ABC):
    """A block function that checks rows itself and adds them up on all cores. Picklable.

    Sums are exact integers, the same whatever rows are taken together.
    """

    def __call__(self, block: Any) -> Any:
        """The sums of a block, which is finite; see `BlockFunction`."""
        if not isinstance(block, np.ndarray):
            return self.of_tensor(block)
        sums = self.begin(block.shape[1])
        finite = self.add(block, sums)
        assert finite, "checked before"
        return self.total(sums)

    def over(self, records: Any) -> RowSums:
        """The same sums, told which records they are about to be of, with the views around them."""
        return self

    def begin(self, n_features: int) -> Any:
        """Where sums over several blocks are kept: by thread."""
        return np.zeros((threads(), *self.shape(n_features)), dtype=np.int64)

    def add(self, block: FloatArray, sums: Any) -> bool:
        """Add a block, on all cores; False if it has a number that is not finite."""
        parts = row_parts(block, len(sums))
        return all(run_parts(self.add_rows, [*zip(parts, sums, strict=False)]))

    def total(self, sums: Any) -> IntArray:
        """The sums over all blocks added."""
        return np.asarray(sums.sum(axis=0))

    @abstractmethod
    def shape(self, n_features: int) -> tuple[int, ...]:
        """The shape of the sums."""

    @abstractmethod
    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """Add rows to a total, in one thread; False if a number is not finite."""

    @abstractmethod
    def of_tensor(self, block: Any) -> Any:
        """The sums of a block on a device."""


@dataclass(frozen=True, eq=False)
class CentringSums(RowSums):
    """Sums that take `about` off the rows that they get; None is nothing."""

    about: About | None = field(default=None, kw_only=True)

    def __call__(self, block: Any) -> Any:
        """See `RowSums`."""
        if self.about is None or isinstance(block, np.ndarray):
            return super().__call__(block)
        return self.of_tensor(self.about.of_tensor(block))

    def centred(self, about: About) -> Self:
        """The same sums of centred rows."""
        return replace(self, about=about)

    def taken_off(self, n_features: int) -> Taken:
        """Centre and reach of every feature, as `centre_row` takes them."""
        about = self.about or About.zero(n_features)
        if about.unit is None:
            return about.centre, about.reach
        return np.stack([about.centre, about.unit]), about.reach


def row_parts(block: FloatArray, most: int) -> list[FloatArray]:
    """Parts of a block for at most so many threads, none of them tiny."""
    number = max(1, min(most, block.size // _SMALLEST_PART))
    return np.array_split(block, number) if number > 1 else [block]


def exact_reduction(function: Any) -> Any:
    """Compile a sum of integers in doubles: exact in any order, so any order may be taken."""
    return compiled(function, any_order=True)


@exact_reduction
def square_norm(row: FloatArray) -> float:
    """Sum of squares of integers."""
    square = 0.0
    for i in range(len(row)):
        square += row[i] * row[i]
    return square


@compiled
def centre_row(row: FloatArray, centre: FloatArray, reach: FloatArray, y: FloatArray) -> bool:
    """Fill y with a row less its centre, within reach; False if a number is not finite.

    Where the centre is a row above units, the row is integers in these units, which are finite.
    """
    if centre.ndim == 2:  # known when this is compiled
        _centre_integers(row, centre[0], centre[1], reach, y)
        return True
    for i in range(len(row)):
        y[i] = min(max(row[i] - centre[i], -reach[i]), reach[i])
    return finite_row(row)


@compiled
def _centre_integers(
    row: Any, centre: FloatArray, unit: FloatArray, reach: FloatArray, y: FloatArray
) -> None:
    if row[0] == MISSING:
        y[:] = 0.0
        return
    for i in range(len(row)):
        y[i] = min(max(row[i] * unit[i] - centre[i], -reach[i]), reach[i])


@compiled
def finite_row(row: FloatArray) -> bool:
    """Whether all numbers are finite."""
    bits = row.view(np.uint64)
    seen = np.uint64(0)
    for i in range(len(bits)):
        seen |= ((bits[i] >> _FRACTION_BITS) & _EXPONENT) + _ONE
    return bool(seen < _CARRIED)


@compiled
def round_row(y: FloatArray, multipliers: FloatArray, half_width: float) -> None:
    """Make y integers on a grid, in place."""
    for i in range(len(y)):
        y[i] = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))


@compiled
def empty_lanes(n_features: int) -> Lanes:
    """Room for as many records as are best taken together: features by records."""
    fitting = _LANE_VALUES // n_features // _TOGETHER * _TOGETHER
    return np.zeros((n_features, max(_FEWEST_LANES, min(_MOST_LANES, fitting))), dtype=np.int16)


@compiled
def fill_lanes(
    rows: FloatArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    centre: float,
    lanes: Lanes,
    sizes: FloatArray,
) -> bool:
    """Put rows side by side, centred and made integers y; False if a number is not finite.

    Their sums of y_i^2, and of (y_i^2 - `centre`)^2, become the two rows of `sizes`.
    """
    sizes[:] = 0.0
    y, integers = np.empty(_PIECE), np.zeros((_TOGETHER, _PIECE), dtype=np.int16)
    for k in range(len(rows)):
        if taken.ndim == 1 and not finite_row(rows[k]):
            return False
    for first in range(0, len(rows), _TOGETHER):
        for left in range(0, len(lanes), _PIECE):
            right = min(len(lanes), left + _PIECE)
            for k in range(first, min(first + _TOGETHER, len(rows))):
                _fill_piece(rows, k, left, right, taken, reach, multipliers, half_width, y)
                square, about = _small_integers(y, right - left, centre, integers, k - first)
                sizes[0, k] += square
                sizes[1, k] += about
            _turn(integers, lanes[left:right, first : first + _TOGETHER])
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
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    y: FloatArray,
) -> None:
    """Fill y with part of row k, as `centre_row` and `round_row` do."""
    start = np.uint64(left)
    if taken.ndim == 2 and rows[k, 0] == MISSING:
        y[:] = 0.0
        return
    for i in range(np.uint64(right - left)):
        if taken.ndim == 2:  # known when this is compiled
            centred = rows[k, start + i] * taken[1, start + i] - taken[0, start + i]
        else:
            centred = rows[k, start + i] - taken[start + i]
        near = min(max(centred, -reach[start + i]), reach[start + i])
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
def _turn(integers: Lanes, lanes: Lanes) -> None:
    """Put eight rows side by side."""
    whole = len(lanes) // _TOGETHER * _TOGETHER
    for i in range(0, whole, _TOGETHER):
        _turn_eight(integers[:, i:], lanes[i:])
    for i in range(whole, len(lanes)):
        for k in range(_TOGETHER):
            lanes[i, k] = integers[k, i]


@intrinsic
def _turn_eight(context: Any, rows: Any, lanes: Any) -> Any:
    """Turn eight times eight integers: compilers do not see that whole rows can be shuffled."""
    from llvmlite import ir
    from numba import types

    every, word = range(_TOGETHER), ir.IntType(64)
    vector, places = (ir.VectorType(ir.IntType(bits), _TOGETHER) for bits in (16, 32))

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointers(which: int) -> list[Any]:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            start = builder.ptrtoint(array.data, word)
            stride = builder.extract_value(array.strides, 0)
            starts = [builder.add(start, builder.mul(stride, word(k))) for k in every]
            return [builder.inttoptr(each, vector.as_pointer()) for each in starts]

        values = [builder.load(each, align=2) for each in pointers(0)]
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
            builder.store(value, each, align=2)
        return context.get_dummy_value()

    return types.void(rows, lanes), code


@compiled
def grid_limits(reach: FloatArray, multipliers: FloatArray, half_width: float) -> FloatArray:
    """The largest integers of `grid_row`, before they are rounded."""
    return np.minimum(reach * multipliers, half_width)


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
        _grid_integers(row, centre[0], centre[1], multipliers, limits, y)
        return True
    for i in range(len(row)):
        own = min(max(row[i] - centre[i], -reach[i]), reach[i])  # this may have been infinite
        y[i] = np.rint(min(max(own * multipliers[i], -limits[i]), limits[i]))
    return finite_row(row)


@compiled
def _grid_integers(
    row: Any,
    centre: FloatArray,
    unit: FloatArray,
    multipliers: FloatArray,
    limits: FloatArray,
    y: FloatArray,
) -> None:
    if row[0] == MISSING:
        y[:] = 0.0
        return
    for i in range(len(row)):
        own = (row[i] * unit[i] - centre[i]) * multipliers[i]
        y[i] = np.rint(min(max(own, -limits[i]), limits[i]))
