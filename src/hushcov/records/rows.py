"""Sums over rows by compiled loops: on all cores, in one reading of every block.

A block is checked, centred and summed row by row, so that no copy of it is made. The integers are
those of the same steps after each other: no order and no number of threads changes a bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads

# Numbers that are not finite have all bits of the exponent set; one more carries into this bit.
_FRACTION_BITS = np.uint64(52)
_EXPONENT = np.uint64(0x7FF)
_ONE = np.uint64(1)
_CARRIED = np.uint64(0x800)
_SMALLEST_PART = 2**14  # values; fewer are summed before a thread wakes up


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
