"""Counts of records: by the size of each feature, by their norm, and without missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov.exceptions import ParameterError
from hushcov.records.grids import FeatureGrid
from hushcov.records.protocol import Progress, Records, is_tensor, namespace

# Bins of `log2_histogram`: values from 2^-64 (5e-20) up to 2^64 (2e19) have bins of their own.
SMALLEST_EXPONENT = -64
LARGEST_EXPONENT = 64
N_BINS = LARGEST_EXPONENT - SMALLEST_EXPONENT + 2

# A double is sign, 11 bits of exponent, 52 bits of fraction. Its size lies in [2^e, 2^(e+1)) for
# e the exponent bits minus 1023; zero and subnormal numbers have exponent bits 0.
_FRACTION_BITS = 52
_EXPONENT_MASK = 0x7FF
_EXPONENT_OF_ONE = 1023
# The exponent bits of the smallest value that is not in bin 0 become 1.
_SHIFT = 1 - (_EXPONENT_OF_ONE + SMALLEST_EXPONENT)


def log2_histogram(records: Records, *, progress: Progress | None = None) -> IntArray:
    """Count for each feature (row) the records whose value lies in each octave (column).

    Column k of the `N_BINS` columns counts |x| in [2^(k-65), 2^(k-64)). Column 0 counts all smaller
    values, zeros included, and the last column all larger ones. The octave is read from the bits of
    a number, so the counts are the same on every machine.

    Privacy
    -------
    Nothing here is private by itself. A record adds one count to every row, so replacing a
    record moves the counts by at most sqrt(2 n_features) in Euclidean norm.
    """
    return records.map_sum(_octave_counts, progress=progress)


def _octave_counts(block: Any) -> Any:
    if is_tensor(block):
        from hushcov.records import tensor_kernels

        return tensor_kernels.octave_counts(block, _SHIFT, N_BINS)
    counts = np.zeros((block.shape[1], N_BINS), dtype=np.int64)
    _count_octaves(block.view(np.int64), counts)
    return counts


@compiled
def _count_octaves(bits: IntArray, counts: IntArray) -> None:
    last = counts.shape[1] - 1
    for a in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            octave = (bits[a, i] >> _FRACTION_BITS & _EXPONENT_MASK) + _SHIFT
            counts[i, min(max(octave, 0), last)] += 1


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
    grid.check_squared_norms()
    edges = np.array(squared_edges, dtype=np.int64)
    if np.any(np.diff(edges) <= 0) or np.any(edges < 0) or np.any(edges >= LARGEST_EXACT_FLOAT):
        raise ParameterError(
            f"squared_edges must be integers from 0 to below 2**53 that increase, got {len(edges)} "
            "that do not: they are public squared norms, in steps of the grid."
        )
    block_counts = _NormCounts(grid.multipliers, float(grid.half_width), edges.astype(np.float64))
    return records.map_sum(block_counts, progress=progress)


@dataclass(frozen=True, eq=False)
class _NormCounts:
    """The counts of a block by squared norm. Picklable, as all block functions."""

    multipliers: FloatArray
    half_width: float
    edges: FloatArray

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            from hushcov.records import tensor_kernels

            return tensor_kernels.norm_bins(block, self.multipliers, self.half_width, self.edges)
        counts = np.zeros(len(self.edges) + 1, dtype=np.int64)
        _count_norms(block, self.multipliers, self.half_width, self.edges, counts)
        return counts


@compiled
def _count_norms(
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


def count_complete(records: Records, *, progress: Progress | None = None) -> int:
    """Return how many records miss no value.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves the count by at most 1.
    """
    return int(records.map_sum(_CountComplete(), progress=progress)[0])


class _CountComplete:
    """Number of complete records of a block. Picklable, as all block functions."""

    takes_gaps = True

    def __call__(self, block: FloatArray) -> IntArray:
        complete = ~namespace(block).isnan(block).any(1)
        return np.array([int(complete.sum())], dtype=np.int64)
