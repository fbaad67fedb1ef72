"""How long records are, as counts of integer squared norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._compiled import compiled
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.records.arrays import is_tensor
from hushcov.records.feature_grid import FeatureGrid
from hushcov.records.source import Progress, Records

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Every integer up to this size is a float64.
_LARGEST_EXACT_FLOAT = 2**53


def norm_histogram(
    records: Records,
    grid: FeatureGrid,
    squared_edges: tuple[int, ...],
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Count the records whose squared norm lies between successive edges.

    With y the record's integers on `grid` and q = ||y||^2, bin j counts the records for which
    exactly j edges are below q: bin 0 has q <= the first edge, the last bin q > the last edge, and
    an edge belongs to the bin below it. Squared norms are exact integers, so the counts are the
    same whatever the block size, the order of the records and the machine.

    Privacy
    -------
    Nothing here is private by itself. A record adds one to one count, so replacing a record moves
    the counts by at most sqrt(2) in Euclidean norm.
    """
    grid.check_features(records.n_features)
    largest = grid.n_features * grid.half_width**2
    if largest >= _LARGEST_EXACT_FLOAT:
        raise CapacityError(
            f"half_width must keep n_features * half_width**2 below 2**53, got {grid.half_width} "
            f"for {grid.n_features} features: squared norms are not exact beyond that; use a "
            "smaller one."
        )
    edges = np.array(squared_edges, dtype=np.int64)
    if np.any(np.diff(edges) <= 0) or np.any(edges < 0) or np.any(edges >= _LARGEST_EXACT_FLOAT):
        raise ParameterError(
            f"squared_edges must be integers from 0 to below 2**53 that increase, got {len(edges)} "
            "that do not: they are public squared norms, in steps of the grid."
        )
    block_counts = _BlockCounts(grid.multipliers, float(grid.half_width), edges.astype(np.float64))
    return records.map_sum(block_counts, progress=progress)


@dataclass(frozen=True, eq=False)
class _BlockCounts:
    """The counts of a block; it travels to where the rows are."""

    multipliers: FloatArray
    half_width: float
    edges: FloatArray

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            from hushcov.records import tensor_kernels

            return tensor_kernels.norm_bins(block, self.multipliers, self.half_width, self.edges)
        counts = np.zeros(len(self.edges) + 1, dtype=np.int64)
        _count(block, self.multipliers, self.half_width, self.edges, counts)
        return counts


@compiled
def _count(
    block: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    edges: FloatArray,
    counts: IntArray,
) -> None:
    for a in range(block.shape[0]):
        square = 0.0
        for i in range(block.shape[1]):
            scaled = block[a, i] * multipliers[i]
            integer = np.rint(min(max(scaled, -half_width), half_width))
            square += integer * integer
        counts[np.searchsorted(edges, square)] += 1
