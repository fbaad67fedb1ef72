"""Exact second moments: one pass over the records, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov.records.arrays import is_tensor
from hushcov.records.grid import IntegerGrid
from hushcov.records.pairs import is_paired
from hushcov.records.record_map import RecordMap
from hushcov.records.rows import row_bounded_gram
from hushcov.records.source import Progress, Records
from hushcov.records.statistics import Statistics

# Every integer up to this size is a float64.
_LARGEST_EXACT_FLOAT = 2**53


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
    """Return the exact sums of products of mapped records, in one pass; see `second_moments`.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map.check_records(records)
    grid = record_map.grid
    if isinstance(grid, IntegerGrid):
        gram = records.map_sum(_BlockGram(grid), progress=progress)
    else:
        gram = row_bounded_gram(records, grid, record_map.norm_bound, progress=progress)
    gram.setflags(write=False)  # nobody else has it, so it need not be copied
    return Statistics(gram, records.n_records, record_map)


@dataclass(frozen=True)
class _BlockGram:
    """The Gram matrix of a block; it travels to where the rows are."""

    grid: IntegerGrid

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            return self._on_device(block)
        # In a product of this many rows every partial sum, in whatever order BLAS takes them, is
        # an integer of at most 2**53: exact.
        exact_rows = _LARGEST_EXACT_FLOAT // self.grid.half_width**2
        gram = _exact_gram(self.grid.quantise(block[:exact_rows]))
        for start in range(exact_rows, len(block), exact_rows):
            gram += _exact_gram(self.grid.quantise(block[start : start + exact_rows]))
        return gram

    def _on_device(self, block: Any) -> Any:
        from hushcov.records import tensor_kernels as kernels

        grid = self.grid
        integers = block.clamp(-grid.radius, grid.radius).mul_(grid.half_width / grid.radius)
        return kernels.exact_gram(integers.round_(), grid.half_width**2)


def _exact_gram(integers: NDArray[np.float64]) -> NDArray[np.int64]:
    return (integers.T @ integers).astype(np.int64)
