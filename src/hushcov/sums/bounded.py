"""Records as integers of bounded norm, their exact sums, and several sums in one reading."""

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
from hushcov.sums.counts import NormCounts, add_signs
from hushcov.sums.grids import INSIDE, FeatureGrid
from hushcov.sums.products import EXACT_ROWS, Contributions
from hushcov.sums.records import Progress, Records, hands_out_arrays, layers_of
from hushcov.sums.rows import (
    About,
    CentringSums,
    Taken,
    centre_row,
    exact_reduction,
    grid_limits,
    grid_row,
    round_row,
    square_norm,
)


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """Rows as integers on a `FeatureGrid`, each scaled down to a norm bound where it is longer.

    With y the integers of a row, z is y where ||y|| <= `bound`. A longer y is multiplied by
    bound / ||y||, less 2^-40 of it, and rounded towards zero. No z is longer than the bound: step 1
    of `docs/proofs/gaussian.md`.
    """

    multipliers: FloatArray
    half_width: int
    bound: float

    @classmethod
    def on(cls, grid: FeatureGrid, norm_bound: int | None) -> BoundedRows:
        """Rows on a grid; the bound is infinite where there is none, or none that can bind."""
        bound = np.inf
        if norm_bound is not None:
            grid.check_squared_norms()
            given = _check_norm_bound(norm_bound)
            if given**2 < grid.n_features * grid.half_width**2:
                bound = float(given)
        return cls(grid.multipliers, grid.half_width, bound)

    def fill(self, block: FloatArray, about: Taken, integers: FloatArray) -> bool:
        """Fill in the integers of a block less a centre; False if a number is not finite."""
        grid = (self.multipliers, float(self.half_width), self.bound)
        arguments: Any = (block, *about, *grid, integers)
        return _fill_rows(*arguments)

    def of_tensor(self, block: Any) -> Any:
        """The same on a device."""
        from hushcov.sums import device as kernels

        integers = kernels.integers_on_grid(block, self.multipliers, float(self.half_width))
        return kernels.bound_rows(integers, self.bound) if self.bound < np.inf else integers


def bounded_sums(
    records: Records,
    grid: FeatureGrid,
    norm_bound: int,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over records of z_i for each feature i, with z as in `row_bounded_gram`.

    A record's integers on `grid` are scaled down, where they are longer, to Euclidean norm
    `norm_bound` and rounded towards zero. The sums are the same whatever the block size, the order
    of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers with
    ||z|| <= norm_bound, whatever its values. So replacing one record moves the sums by at most
    2 norm_bound in Euclidean norm.
    """
    sums = bounded_sums_of(records, grid, norm_bound)
    return records.map_sum(sums, progress=progress)


def bounded_sums_of(records: Records, grid: FeatureGrid, norm_bound: int) -> CentringSums:
    """What `bounded_sums` sums up, for `sum_together`."""
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)  # None would be no bound
    if records.n_rows * grid.half_width > LARGEST_SUM:
        raise CapacityError(
            f"half_width must keep n_records * half_width within 2**62, got {grid.half_width} for "
            f"{records.n_records} records: use a smaller one."
        )
    return BoundedSums(BoundedRows.on(grid, bound))


def fourth_sums(
    records: Records,
    grid: FeatureGrid,
    unit_bits: int,
    norm_bound: int,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over records of fourth powers for each feature, in units of 2^`unit_bits`.

    With y a record's integers on `grid`, the powers are floor(y_i^4 / 2^unit_bits), none above
    `norm_bound`; where their Euclidean norm is more, they are scaled down to it and rounded towards
    zero. The sums are the same whatever the block size, the order of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers that are not
    negative, of norm at most `norm_bound`. Two such vectors are at most sqrt(2) norm_bound apart,
    and so are the sums when one record is replaced.
    """
    sums = fourth_sums_of(records, grid, unit_bits, norm_bound)
    return records.map_sum(sums, progress=progress)


def fourth_sums_of(
    records: Records, grid: FeatureGrid, unit_bits: int, norm_bound: int
) -> CentringSums:
    """What `fourth_sums` sums up, for `sum_together`."""
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)
    unit = 2 ** check_integer("unit_bits", unit_bits, at_least=0, at_most=52, cure="use 30.")
    too_large = max(bound * unit, bound**2 * records.n_features) >= LARGEST_EXACT_FLOAT
    if too_large or records.n_rows * bound > LARGEST_SUM:
        raise CapacityError(
            f"norm_bound must keep sums of powers and of their squares exact, got {bound} for "
            f"{records.n_records} records: use a smaller one."
        )
    rows = BoundedRows(grid.multipliers, grid.half_width, np.inf)
    return FourthSums(rows, float(unit), float(bound))


def _check_norm_bound(norm_bound: object) -> int:
    cure = "it is a public bound on the norm of a record, in steps of the grid."
    return check_integer("norm_bound", norm_bound, at_least=1, cure=cure)


@dataclass(frozen=True, eq=False)
class BoundedSums(CentringSums):
    """The sums of a block."""

    rows: BoundedRows

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (n_features,)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`."""
        grid = (self.rows.multipliers, float(self.rows.half_width), self.rows.bound)
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, total)
        return _sum_rows(*arguments)

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""
        from hushcov.sums.device import exact_sums

        return exact_sums(self.rows.of_tensor(block))


@dataclass(frozen=True, eq=False)
class FourthSums(CentringSums):
    """The fourth powers of a block, summed."""

    rows: BoundedRows
    unit: float
    bound: float

    @property
    def most(self) -> float:
        """Squares beyond this have powers beyond the bound, and no exact products."""
        return float(np.floor(np.sqrt(self.unit * self.bound)))

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (n_features,)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`."""
        grid = (self.rows.multipliers, float(self.rows.half_width))
        powers = (self.most, self.unit, self.bound)
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, *powers, total)
        return _sum_fourths(*arguments)

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""
        from hushcov.sums.device import bound_rows, exact_sums

        squares = self.rows.of_tensor(block).square_().clamp_(max=self.most)
        powers = squares.square_().mul_(1 / self.unit).floor_()
        return exact_sums(bound_rows(powers, self.bound))


@compiled
def _sum_fourths(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    most: float,
    unit: float,
    bound: float,
    total: IntArray,
) -> bool:
    finite, y = True, np.empty(block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    per_unit = 1.0 / unit  # exact: the unit is a power of two
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, y)
        for i in range(len(y)):
            square = min(y[i] * y[i], most)
            y[i] = np.floor(square * square * per_unit)
        shorten_row(y, square_norm(y), bound)
        for i in range(len(y)):
            total[i] += np.int64(y[i])
    return finite


@compiled
def _fill_rows(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    integers: FloatArray,
) -> bool:
    finite, limits = True, grid_limits(reach, multipliers, half_width)
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, integers[a])
        _bound_row(integers[a], bound)
    return finite


@compiled
def _sum_rows(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    total: IntArray,
) -> bool:
    """Add up in int64: no block is too long for it."""
    finite, y = True, np.empty(block.shape[1])
    limits = grid_limits(reach, multipliers, half_width)
    for a in range(block.shape[0]):
        finite &= grid_row(block[a], centre, reach, multipliers, limits, y)
        _bound_row(y, bound)
        for i in range(len(y)):
            total[i] += np.int64(y[i])
    return finite


@compiled
def _bound_row(row: FloatArray, bound: float) -> None:
    if bound < np.inf:
        shorten_row(row, square_norm(row), bound)


@compiled
def shorten_row(row: FloatArray, square: float, bound: float) -> None:
    """Scale integers down to the bound if they are longer; `square` is their squared norm."""
    if square > bound * bound:
        factor = bound / np.sqrt(square) * INSIDE
        for i in range(len(row)):
            row[i] = np.trunc(row[i] * factor)


_EARLY_BYTES = 2**27  # most bytes of signs that are packed before anybody asks for them
# Values that all sums look at before the next ones: they stay in the second cache.
_VALUES_NEAR = 2**18


@dataclass(frozen=True, eq=False)
class Together(CentringSums):
    """Several sums in one reading of the records, one after the other in a row."""

    sums: tuple[CentringSums, ...]

    def centred(self, about: About) -> Self:
        """The same sums of centred rows."""
        return replace(self, sums=tuple(each.centred(about) for each in self.sums), about=about)

    def split(self, total: IntArray, n_features: int) -> list[IntArray]:
        """The sums, each in its shape."""
        shapes = [each.shape(n_features) for each in self.sums]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        parts = np.split(total, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (sum(math.prod(each.shape(n_features)) for each in self.sums),)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`."""
        own, finite = self.split(total, rows.shape[1]), True
        step = max(1, _VALUES_NEAR // rows.shape[1])
        for start in range(0, len(rows), step):
            near = rows[start : start + step]
            for each, part in zip(self.sums, own, strict=True):
                finite &= each.add_rows(near, part)
        return finite

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""

        from hushcov.sums import device

        return device.joined(*(each.of_tensor(block).reshape(-1) for each in self.sums))


@dataclass(frozen=True, eq=False)
class _BlockByBlock(Together):
    """Sums that take a block as a whole, on all cores, one after the other."""

    def begin(self, n_features: int) -> Any:
        """See `RowSums`."""
        return [each.begin(n_features) for each in self.sums]

    def add(self, block: FloatArray, sums: Any) -> bool:
        """See `RowSums`."""
        return all(each.add(block, own) for each, own in zip(self.sums, sums, strict=True))

    def total(self, sums: Any) -> IntArray:
        """See `RowSums`."""
        own = [each.total(part).ravel() for each, part in zip(self.sums, sums, strict=True)]
        return np.concatenate(own)


@dataclass(frozen=True, eq=False)
class NormsAndFourths(Together):
    """Counts by norm, and fourth powers, on the same grid."""

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`; rows are centred and rounded once for both."""
        norms, powers = self.sums
        assert isinstance(norms, NormCounts)
        assert isinstance(powers, FourthSums)
        counts, fourths = self.split(total, rows.shape[1])
        signs = rows.shape[1] * norms.signs
        grid = (norms.multipliers, norms.half_width, norms.edges)
        limits = (powers.most, powers.unit, powers.bound)
        sums = (counts[:signs], counts[signs:], fourths)
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, *limits, *sums)
        return _add_norms_and_fourths(*arguments)


@compiled
def _add_norms_and_fourths(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    edges: FloatArray,
    most: float,
    unit: float,
    bound: float,
    signs: IntArray,
    counts: IntArray,
    fourths: IntArray,
) -> bool:
    finite, y = True, np.empty(block.shape[1])
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        add_signs(y[: len(signs)], signs)
        round_row(y, multipliers, half_width)
        square, size = _to_fourths(y, most, 1.0 / unit)
        counts[np.searchsorted(edges, square)] += 1
        shorten_row(y, size, bound)
        for i in range(len(y)):
            fourths[i] += np.int64(y[i])
    return finite


@exact_reduction
def _to_fourths(y: FloatArray, most: float, per_unit: float) -> tuple[float, float]:
    """Make integers their fourth powers as in `FourthSums`; return squared norms, old and new."""
    old = new = 0.0
    for i in range(len(y)):
        square = y[i] * y[i]
        limited = min(square, most)
        power = np.floor(limited * limited * per_unit)
        old += square
        new += power * power
        y[i] = power
    return old, new


@dataclass(frozen=True, eq=False)
class SumsAndSquares(Together):
    """Sums of bounded rows, and contributions without pairs: squares, on another grid."""

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`; rows are centred once for both."""
        bounded, squares = self.sums
        assert isinstance(bounded, BoundedSums)
        assert isinstance(squares, Contributions)
        grid = (bounded.rows.multipliers, float(bounded.rows.half_width), bounded.rows.bound)
        multipliers, half_width, _, _, weights, bounds = squares.arguments
        others = (multipliers, half_width, weights, bounds)
        sums = self.split(total, rows.shape[1])
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, *others, *sums)
        return _add_sums_and_squares(*arguments)


@compiled
def _add_sums_and_squares(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    square_multipliers: FloatArray,
    square_half_width: float,
    weights: FloatArray,
    bounds: IntArray,
    sums: IntArray,
    total: IntArray,
) -> bool:
    norm_bound, factor_range, size_range, size_cap = bounds
    finite, n_features = True, block.shape[1]
    y, z, squares = np.empty(n_features), np.empty(n_features), np.zeros(n_features)
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        size, square = _fill_squares(y, square_multipliers, square_half_width, weights, z)
        total[n_features + 1] += min(int(size), size_cap) * size_range // size_cap
        if square <= float(norm_bound) * float(norm_bound):
            total[n_features] += factor_range
        else:
            factor = norm_bound / math.sqrt(square) * INSIDE
            total[n_features] += int(factor * factor_range)
            for i in range(n_features):
                z[i] = np.trunc(z[i] * factor)
        long = _round_and_square(y, multipliers, half_width)
        if bound < np.inf:
            shorten_row(y, long, bound)
        for i in range(n_features):
            squares[i] += z[i]
            sums[i] += np.int64(y[i])
        if a % EXACT_ROWS == EXACT_ROWS - 1 or a == block.shape[0] - 1:
            for i in range(n_features):
                total[i] += int(squares[i])
                squares[i] = 0.0
    return finite


@exact_reduction
def _fill_squares(
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
    """As `round_row`; return the squared norm."""
    square = 0.0
    for i in range(len(y)):
        y[i] = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))
        square += y[i] * y[i]
    return square


def joined(sums: Sequence[CentringSums]) -> Together:
    """The sums as one, which looks at a row once for all of them where that can be."""
    match sums:
        case [NormCounts() as norms, FourthSums() as powers] if (
            norms.half_width == powers.rows.half_width
            and np.array_equal(norms.multipliers, powers.rows.multipliers)
        ):
            return NormsAndFourths((norms, powers))
        case [BoundedSums() as bounded, Contributions() as squares] if not squares.n_pairs:
            return SumsAndSquares((bounded, squares))
        case _:
            return Together(tuple(sums))


def sum_together(
    records: Records, sums: Sequence[CentringSums], *, progress: Progress | None = None
) -> list[IntArray]:
    """Return several sums over the records, which are read once for all of them.

    Privacy
    -------
    Nothing here is private by itself; each sum is what it is alone.
    """
    together = joined(sums)
    total = records.map_sum(together, progress=progress)
    return together.split(total, records.n_features)


def early_signs(n_records: int, n_features: int) -> int:
    """Most bytes of signs that `sum_and_keep_signs` keeps; 0 where it keeps none."""
    size = -(-2 * n_records * n_features // 8)
    return size if size <= _EARLY_BYTES else 0


def sum_and_keep_signs(
    records: Records, sums: Sequence[CentringSums], *, keep: bool = True
) -> list[IntArray]:
    """As `sum_together`, and where it spares a reading, keep signs for `sign_scores` of `records`.

    That is where the records themselves are read for each sum: no compact copy of them is kept.

    Privacy
    -------
    As `sum_together` and `PackedSigns`: what is kept is in the memory of this process, until the
    signs are scored.
    """
    from hushcov.sums.signs import KeptSigns, PackedSigns

    copied = any(layer.keeps_copy for layer in layers_of(records))
    size = early_signs(records.n_rows, records.n_features)
    if not keep or copied or not size or not hands_out_arrays(records):
        return sum_together(records, sums)
    found: list[IntArray] = []

    def read(packing: CentringSums) -> IntArray:
        both = _BlockByBlock((joined(sums), packing))
        others, signs = both.split(records.map_sum(both), records.n_features)
        found.extend(joined(sums).split(others, records.n_features))
        return signs

    records.kept_signs = KeptSigns(PackedSigns(records, read=read), weakref.ref(records))
    return found
