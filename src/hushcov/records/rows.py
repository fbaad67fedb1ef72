"""The Gram matrix of whole records, each scaled down to a public norm, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._compiled import compiled
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError, DataError
from hushcov.records.arrays import is_tensor
from hushcov.records.feature_grid import FeatureGrid
from hushcov.records.source import Progress, Records

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Every integer up to this size is a float64.
_LARGEST_EXACT_FLOAT = 2**53
# The factor bound / norm is rounded four times; this leaves room for that and keeps norm <= bound.
_INSIDE = 1.0 - 2.0**-40


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
    |z_i| <= half_width and ||z|| <= norm_bound; `docs/proofs/gaussian.md` derives from these two
    facts how far the matrix moves when one record is replaced.
    """
    bound = _check(records, grid, norm_bound)
    block_gram = _BlockGram(grid.multipliers, grid.half_width, bound)
    return records.map_sum(block_gram, progress=progress)


@dataclass(frozen=True, eq=False)
class _BlockGram:
    """The Gram matrix of a block; it travels to where the rows are."""

    multipliers: FloatArray
    half_width: int
    bound: float

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            return self._on_device(block)
        # In a product of this many rows every partial sum, in whatever order BLAS takes them, is
        # an integer of at most 2**53: exact.
        exact_rows = _LARGEST_EXACT_FLOAT // self.half_width**2
        gram = self._exact(block[:exact_rows])
        for start in range(exact_rows, len(block), exact_rows):
            gram += self._exact(block[start : start + exact_rows])
        return gram

    def _on_device(self, block: Any) -> Any:
        from hushcov.records import tensor_kernels as kernels

        integers = kernels.integers_on_grid(block, self.multipliers, float(self.half_width))
        if self.bound < np.inf:
            integers = kernels.bound_rows(integers, self.bound, _INSIDE)
        return kernels.exact_gram(integers, self.half_width**2)

    def _exact(self, block: FloatArray) -> IntArray:
        integers = np.empty(block.shape)
        _fill_rows(block, self.multipliers, float(self.half_width), self.bound, integers)
        return np.asarray((integers.T @ integers).astype(np.int64))


def _check(records: Records, grid: FeatureGrid, norm_bound: int | None) -> float:
    """Return the norm bound as a float, infinite if there is none, after checking all sizes."""
    if records.n_features != grid.n_features:
        raise DataError(
            f"records must have the {grid.n_features} features of the grid, got "
            f"{records.n_features}: give one scale for each column."
        )
    if records.n_records * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )
    if norm_bound is None:
        return np.inf
    largest = grid.n_features * grid.half_width**2
    if largest >= _LARGEST_EXACT_FLOAT:
        raise CapacityError(
            f"half_width must keep n_features * half_width**2 below 2**53, got {grid.half_width} "
            f"for {grid.n_features} features: squared norms are not exact beyond that; use a "
            "smaller one."
        )
    cure = "it is a public bound on the norm of a record, in steps of the grid."
    bound = check_integer("norm_bound", norm_bound, at_least=1, cure=cure)
    return float(bound) if bound**2 < largest else np.inf


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
                factor = bound / np.sqrt(square) * _INSIDE
                for i in range(len(row)):
                    row[i] = np.trunc(row[i] * factor)


@compiled
def _square_norm(row: FloatArray) -> float:
    """Sum of squares of integers; exact in any order, so four sums run side by side."""
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
