"""Records and units as integers of bounded norm, their exact sums, and several in one reading."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import Records, hands_out_arrays, layers_of, namespace
from hushcov.kernel.sums.counts import add_signs, count_norms
from hushcov.kernel.sums.products import (
    MOST_PRODUCTS,
    add_sums_and_squares,
)
from hushcov.kernel.sums.rows import (
    About,
    Multipliers,
    Reaches,
    RowSums,
    add_unit,
    centre_row,
    count_below,
    exact_reduction,
    grid_limits,
    grid_row,
    round_row,
    shorten_row,
    square_norm,
)

_EARLY_BYTES = 2**27  # most bytes of signs that are packed before anybody asks for them
# Values that all sums look at before the next ones: they stay in the second cache.
_VALUES_NEAR = 2**18


def bounded_rows(grid: FeatureGrid, norm_bound: int | None) -> tuple[Multipliers, float]:
    """Return what makes rows integers z on a grid, none of them longer than a norm bound.

    With y the integers of a row, z is y where ||y|| <= `norm_bound`. A longer y is multiplied by
    norm_bound / ||y||, less 2^-40 of it, and rounded towards zero. No z is longer than the bound:
    step 1 of `docs/proofs/gaussian.md`. The bound is infinite where none is given, or none that can
    bind.
    """
    bound = np.inf
    if norm_bound is not None:
        grid.check_squared_norms()
        given = _check_norm_bound(norm_bound)
        if given**2 < grid.n_features * grid.half_width**2:
            bound = float(given)
    return grid.numbers, bound


def _check_norm_bound(norm_bound: object) -> int:
    cure = "it is a public bound on the norm of a record, in steps of the grid."
    return check_integer("norm_bound", norm_bound, at_least=1, cure=cure)


def bounded_sums(records: Records, grid: FeatureGrid, norm_bound: int) -> IntArray:
    """Return the sum over records of z_i for each feature i, with z as in `bounded_rows`.

    The sums are the same whatever the block size, the order of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers with
    ||z|| <= norm_bound, whatever its values. So replacing one record moves the sums by at most
    2 norm_bound in Euclidean norm.
    """
    sums = bounded_sums_of(records, grid, norm_bound)
    return records.map_sum(sums)


def bounded_sums_of(records: Records, grid: FeatureGrid, norm_bound: int) -> RowSums:
    """Return what `bounded_sums` sums up, for `sum_together`."""
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)  # None would be no bound
    if records.n_rows * grid.half_width > LARGEST_SUM:
        raise CapacityError(
            f"half_width must keep n_records * half_width within 2**62, got {grid.half_width} for "
            f"{records.n_records} records: use a smaller one."
        )
    return RowSums(sum_rows, bounded_rows(grid, bound), (grid.n_features,))


def fourth_sums_of(records: Records, grid: FeatureGrid, unit_bits: int, norm_bound: int) -> RowSums:
    """Return what sums fourth powers over records, for each feature, in units of 2^`unit_bits`.

    With y a record's integers on `grid`, the powers are floor(y_i^4 / 2^unit_bits), none above
    `norm_bound`; where their Euclidean norm is more, they are scaled down to it and rounded towards
    zero. The sums are the same whatever the block size, the order of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers that are not
    negative, of norm at most `norm_bound`. Two such vectors are at most sqrt(2) norm_bound apart,
    and so are the sums when one record is replaced.
    """
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)
    unit = 2 ** check_integer("unit_bits", unit_bits, at_least=0, at_most=52, cure="use 30.")
    too_large = max(bound * unit, bound**2 * records.n_features) >= LARGEST_EXACT_FLOAT
    if too_large or records.n_rows * bound > LARGEST_SUM:
        raise CapacityError(
            f"norm_bound must keep sums of powers and of their squares exact, got {bound} for "
            f"{records.n_records} records: use a smaller one."
        )
    # Squares beyond `most` have powers beyond the bound, and no exact products.
    most = float(np.floor(np.sqrt(float(unit) * float(bound))))
    return RowSums(sum_fourths, (grid.numbers, most, float(unit), float(bound)), (grid.n_features,))


def unit_means(
    records: Records, grid: FeatureGrid, bound: int, factor_range: int, most_rows: int
) -> IntArray:
    """Return the sums over units of their rows' integers, each at most `bound` long, and a number.

    With v the sum of the integers of the m rows of a unit, it adds trunc(f v) and
    trunc(f * floor(`factor_range` m / `most_rows`)), with f = min(1, `bound` / ||v||).

    Privacy
    -------
    Nothing here is private by itself. Whatever a unit is, what it adds has norm at most `bound`,
    beside a number from 0 to `factor_range`: `docs/proofs/preparation.md`, step 10.
    """
    grid.check_features(records.n_features)
    largest = max(records.n_rows * grid.half_width, factor_range * most_rows)
    if largest > LARGEST_SUM or grid.n_features > MOST_PRODUCTS:
        raise CapacityError(
            f"half_width must keep sums within 2**62, got {grid.half_width}: use a smaller one."
        )
    arguments = (grid.numbers, float(bound), factor_range, most_rows)
    return records.map_sum(RowSums(add_means, arguments, (grid.n_features + 1,), most_rows))


@compiled
def fill_rows(
    block: FloatArray, about: Reaches, grid: Multipliers, bound: float, integers: FloatArray
) -> bool:
    """Fill in bounded integers of rows."""
    (centre, reach), (multipliers, half_width) = about, grid
    finite, limits = True, grid_limits(reach, multipliers, half_width)
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, integers[a])
        if bound < np.inf:
            shorten_row(integers[a], square_norm(integers[a]), bound)
    return finite


@compiled
def sum_rows(
    block: FloatArray, about: Reaches, grid: Multipliers, bound: float, total: IntArray
) -> bool:
    """Add bounded rows up in int64: no block is too long for it."""
    (centre, reach), (multipliers, half_width) = about, grid
    finite, y = True, np.empty(block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, y)
        if bound < np.inf:
            shorten_row(y, square_norm(y), bound)
        for i in range(len(y)):
            total[i] += np.int64(y[i])
    return finite


@compiled
def sum_fourths(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    most: float,
    unit: float,
    bound: float,
    total: IntArray,
) -> bool:
    """Add fourth powers up."""
    (centre, reach), (multipliers, half_width) = about, grid
    finite, y = True, np.empty(block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, y)
        _, size = _to_fourths(y, most, 1.0 / unit)  # exact: the unit is a power of two
        shorten_row(y, size, bound)
        for i in range(len(y)):
            total[i] += np.int64(y[i])
    return finite


@exact_reduction
def _to_fourths(y: FloatArray, most: float, per_unit: float) -> tuple[float, float]:
    """Make integers their fourth powers; return squared norms, old and new."""
    old = new = 0.0
    for i in range(len(y)):
        square = y[i] * y[i]
        limited = min(square, most)
        power = np.floor(limited * limited * per_unit)
        old += square
        new += power * power
        y[i] = power
    return old, new


@compiled
def add_means(
    block: FloatArray,
    starts: IntArray,
    about: Reaches,
    grid: Multipliers,
    bound: float,
    factor_range: int,
    most_rows: int,
    total: IntArray,
) -> bool:
    """Add bounded sums of the rows of units."""
    (centre, reach), (multipliers, half_width) = about, grid
    y, v = np.empty(block.shape[1]), np.empty(block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    for u in range(len(starts) - 1):
        first, stop = starts[u], starts[u + 1]
        v[:] = 0.0
        for a in range(first, stop):
            if not grid_row(block[a], centre, reach, multipliers, limits, y):
                return False
            for i in range(len(y)):
                v[i] += y[i]
        add_unit(v, bound, factor_range * min(stop - first, most_rows) // most_rows, total)
    return True


@dataclass(frozen=True, eq=False)
class Together(RowSums):
    """Several sums in one reading of the records; a kernel may look at a row once for all."""

    sums: tuple[RowSums, ...] = ()

    @classmethod
    def of(
        cls, sums: Sequence[RowSums], kernel: Any = None, arguments: tuple[Any, ...] = ()
    ) -> Self:
        """Return the sums as one, with its parts one after the other in a row."""
        size = sum(math.prod(each.shape) for each in sums)
        return cls(kernel, arguments, (size,), sums=tuple(sums))

    def centred(self, about: About) -> Self:
        """See `RowSums`."""
        return replace(self, sums=tuple(each.centred(about) for each in self.sums), about=about)

    def split(self, total: IntArray) -> list[IntArray]:
        """Return the sums, each in its shape."""
        ends = np.cumsum([math.prod(each.shape) for each in self.sums])
        parts = zip(np.split(total, ends[:-1]), self.sums, strict=True)
        return [part.reshape(each.shape) for part, each in parts]

    def add_rows(self, total: Any, rows: Any, *starts: IntArray) -> bool:
        """See `RowSums`."""
        if self.kernel is not None:
            return super().add_rows(total, rows)
        own, finite = self.split(total), True
        step = max(1, _VALUES_NEAR // rows.shape[1])
        for start in range(0, len(rows), step):
            near = rows[start : start + step]
            for each, part in zip(self.sums, own, strict=True):
                finite &= each.add_rows(part, near)
        return finite

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""
        parts = [each.of_tensor(block).reshape(-1) for each in self.sums]
        return namespace(parts[0]).cat(parts)


@dataclass(frozen=True, eq=False)
class _BlockByBlock(Together):
    """Sums that take a block as a whole, on all cores, one after the other."""

    def begin(self) -> Any:
        return [each.begin() for each in self.sums]

    def add(self, block: FloatArray, sums: Any) -> bool:
        return all(each.add(block, own) for each, own in zip(self.sums, sums, strict=True))

    def total(self, sums: Any) -> IntArray:
        own = [each.total(part).ravel() for each, part in zip(self.sums, sums, strict=True)]
        return np.concatenate(own)


def joined(sums: Sequence[RowSums]) -> Together:
    """Return the sums as one, which looks at a row once for all of them where that can be."""
    arguments = [each.arguments for each in sums]
    match [each.kernel for each in sums]:
        case [first, second] if first is count_norms and second is sum_fourths:
            norms, ((multipliers, half_width), *powers) = arguments
            if norms[0][1] == half_width and np.array_equal(norms[0][0], multipliers):
                return Together.of(sums, add_norms_and_fourths, (*norms, *powers))
        case [first, second] if first is sum_rows and second is add_sums_and_squares:
            _, _, *squares = arguments[1]
            return Together.of(sums, add_sums_and_squares, (*arguments[0], *squares))
    return Together.of(sums)


@compiled
def add_norms_and_fourths(
    block: FloatArray,
    about: Reaches,
    grid: Multipliers,
    edges: FloatArray,
    n_signs: int,
    most: float,
    unit: float,
    bound: float,
    total: IntArray,
) -> bool:
    """Add as `count_norms` and `sum_fourths` do; rows are centred and rounded once for both."""
    (centre, reach), (multipliers, half_width) = about, grid
    finite, y = True, np.empty(block.shape[1])
    signs, counts, fourths = total[:n_signs], total[n_signs:], total[n_signs + len(edges) + 1 :]
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        add_signs(y[:n_signs], signs)
        round_row(y, multipliers, half_width)
        square, size = _to_fourths(y, most, 1.0 / unit)
        counts[count_below(edges, square)] += 1
        shorten_row(y, size, bound)
        for i in range(len(y)):
            fourths[i] += np.int64(y[i])
    return finite


def sum_together(records: Records, sums: Sequence[RowSums]) -> list[IntArray]:
    """Return several sums over the records, which are read once for all of them.

    Privacy
    -------
    Nothing here is private by itself; each sum is what it is alone.
    """
    together = joined(sums)
    return together.split(records.map_sum(together))


def early_signs(n_records: int, n_features: int) -> int:
    """Return the most bytes of signs that `sum_and_keep_signs` keeps; 0 where it keeps none."""
    size = -(-2 * n_records * n_features // 8)
    return size if size <= _EARLY_BYTES else 0


def sum_and_keep_signs(
    records: Records, sums: Sequence[RowSums], *, keep: bool = True
) -> list[IntArray]:
    """Sum as `sum_together` does, and keep signs for `sign_scores` where it spares a reading.

    That is where the records themselves are read for each sum: no compact copy of them is kept.

    Privacy
    -------
    As `sum_together` and `PackedSigns`: what is kept is in the memory of this process, until the
    signs are scored.
    """
    from hushcov.kernel.sums.signs import PackedSigns

    copied = any(layer.keeps_copy for layer in layers_of(records))
    size = early_signs(records.n_records, records.n_features)
    if not keep or copied or not size or not hands_out_arrays(records):
        return sum_together(records, sums)
    found: list[IntArray] = []

    def read(packing: RowSums) -> IntArray:
        both = _BlockByBlock.of((joined(sums), packing))
        others, signs = both.split(records.map_sum(both))
        found.extend(joined(sums).split(others))
        return signs

    records.kept_signs = PackedSigns(records, read=read), weakref.ref(records)
    return found
