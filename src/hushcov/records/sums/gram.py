"""Exact Gram matrices: one pass over the records, in integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.records.grids import INSIDE, FeatureGrid, IntegerGrid
from hushcov.records.protocol import Progress, Records, is_tensor
from hushcov.records.sums.statistics import RecordMap, Statistics
from hushcov.records.views import is_paired


def second_moments(
    records: Records, grid: IntegerGrid, *, progress: Progress | None = None
) -> Statistics:
    """Return the exact second moments of `records` on `grid`, in one pass.

    The result is the same bit for bit whatever the block size, the order of the records and
    the number of threads, because no rounding takes place after the grid's.

    Parameters
    ----------
    records : Records
        Where the rows are; see `open_records`.
    grid : IntegerGrid
        Public grid; `IntegerGrid.for_records` makes one that always has room.
    progress : callable, optional
        Called after each block with the number of rows in it.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map = RecordMap(
        records.n_features,
        grid,
        paired=is_paired(records),
        feature_names=records.feature_names,
    )
    return record_statistics(records, record_map, progress=progress)


def record_statistics(
    records: Records, record_map: RecordMap, *, progress: Progress | None = None
) -> Statistics:
    """Return the exact second moments of records mapped to integers; see `second_moments`.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map.check_records(records)
    grid = record_map.grid
    if isinstance(grid, IntegerGrid):
        gram = records.map_sum(_GridGram(grid), progress=progress)
    else:
        gram = row_bounded_gram(records, grid, record_map.norm_bound, progress=progress)
    gram.setflags(write=False)  # then `Statistics` need not copy it
    return Statistics(gram, records.n_records, record_map)


def row_bounded_gram(
    records: Records,
    grid: FeatureGrid,
    norm_bound: int | None,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over records of z_i z_j, an exact integer matrix.

    With y the record's integers on `grid`, z is y where ||y|| <= `norm_bound`. A longer y is
    multiplied by norm_bound / ||y||, less 2^-40 of it, and rounded towards zero. Without a norm
    bound z is y. The result is the same bit for bit whatever the block size and the order of the
    records, because no rounding takes place after that of the record's own coordinates.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers with
    |z_i| <= half_width and ||z|| <= norm_bound. From these two bounds `docs/proofs/gaussian.md`
    derives how far the matrix moves when one record is replaced.
    """
    bound = _check(records, grid, norm_bound)
    block_gram = _BoundedGram(grid.multipliers, grid.half_width, bound)
    return records.map_sum(block_gram, progress=progress)


def _check(records: Records, grid: FeatureGrid, norm_bound: int | None) -> float:
    """Return the norm bound as a float, infinite if there is none, after checking all sizes."""
    grid.check_features(records.n_features)
    if records.n_records * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )
    if norm_bound is None:
        return np.inf
    grid.check_squared_norms()
    cure = "it is a public bound on the norm of a record, in steps of the grid."
    bound = check_integer("norm_bound", norm_bound, at_least=1, cure=cure)
    return float(bound) if bound**2 < grid.n_features * grid.half_width**2 else np.inf


@dataclass(frozen=True)
class _GridGram:
    """The Gram matrix of a block on an `IntegerGrid`. Picklable, as all block functions."""

    grid: IntegerGrid

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            return self._on_device(block)
        return _exact_gram(block, self.grid.half_width, self.grid.quantise)

    def _on_device(self, block: Any) -> Any:
        from hushcov.records.sums import tensor_kernels as kernels

        grid = self.grid
        integers = block.clamp(-grid.radius, grid.radius).mul_(grid.half_width / grid.radius)
        return kernels.exact_gram(integers.round_(), grid.half_width**2)


@dataclass(frozen=True, eq=False)
class _BoundedGram:
    """The Gram matrix of a block on a `FeatureGrid`, its rows scaled down to a norm bound."""

    multipliers: FloatArray
    half_width: int
    bound: float

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            return self._on_device(block)
        return _exact_gram(block, self.half_width, self._integers)

    def _on_device(self, block: Any) -> Any:
        from hushcov.records.sums import tensor_kernels as kernels

        integers = kernels.integers_on_grid(block, self.multipliers, float(self.half_width))
        if self.bound < np.inf:
            integers = kernels.bound_rows(integers, self.bound)
        return kernels.exact_gram(integers, self.half_width**2)

    def _integers(self, block: FloatArray) -> FloatArray:
        integers = np.empty(block.shape)
        _fill_rows(block, self.multipliers, float(self.half_width), self.bound, integers)
        return integers


def _exact_gram(
    block: FloatArray, half_width: int, to_integers: Callable[[FloatArray], FloatArray]
) -> IntArray:
    """The Gram matrix of integers of at most `half_width`, in products of so many rows as is exact.

    In a product of that many rows every partial sum, in whatever order BLAS takes them, is an
    integer of at most 2**53.
    """
    exact_rows = LARGEST_EXACT_FLOAT // half_width**2
    gram = _gram(to_integers(block[:exact_rows]))
    for start in range(exact_rows, len(block), exact_rows):
        gram += _gram(to_integers(block[start : start + exact_rows]))
    return gram


def _gram(integers: FloatArray) -> IntArray:
    return np.asarray((integers.T @ integers).astype(np.int64))


@compiled
def _fill_rows(
    block: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    integers: FloatArray,
) -> None:
    for a in range(block.shape[0]):
        row = integers[a]
        for i in range(len(row)):
            scaled = block[a, i] * multipliers[i]
            row[i] = np.rint(min(max(scaled, -half_width), half_width))
        if bound < np.inf:
            square = _square_norm(row)
            if square > bound * bound:
                factor = bound / np.sqrt(square) * INSIDE
                for i in range(len(row)):
                    row[i] = np.trunc(row[i] * factor)


@compiled
def _square_norm(row: FloatArray) -> float:
    """Sum of squares of integers: exact in any order, so four sums run in parallel."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    rest = len(row) % 4
    for i in range(rest):
        s0 += row[i] * row[i]
    for i in range(rest, len(row), 4):
        s0 += row[i] * row[i]
        s1 += row[i + 1] * row[i + 1]
        s2 += row[i + 2] * row[i + 2]
        s3 += row[i + 3] * row[i + 3]
    return s0 + s1 + s2 + s3
