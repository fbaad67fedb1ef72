"""Records as integers of bounded norm, and their exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.sums.grids import INSIDE, FeatureGrid
from hushcov.sums.protocol import Progress, Records
from hushcov.sums.rows import CentringSums, Taken, grid_limits, grid_row, square_norm


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
        from hushcov.sums import tensor_kernels as kernels

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
        from hushcov.sums.tensor_kernels import exact_sums

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
        from hushcov.sums.tensor_kernels import bound_rows, exact_sums

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
