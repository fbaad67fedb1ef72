"""Counts of records until `hushcov.records` has them: the same names, arguments and integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.records import LARGEST_EXPONENT, SMALLEST_EXPONENT, Records

_OCTAVES = LARGEST_EXPONENT - SMALLEST_EXPONENT


def signed_octaves(
    records: Records, centre: FloatArray, nothing: FloatArray, columns: IntArray
) -> IntArray:
    """Counts of x - centre by sign and octave, (columns, 257); the last bin counts nothing."""
    return records.map_sum(_SignedOctaves(centre, nothing, columns))


def cell_counts(
    records: Records,
    columns: IntArray,
    starts: FloatArray,
    widths: FloatArray,
    firsts: IntArray,
    n_cells: int,
) -> IntArray:
    """Counts of records with floor((x - start) / width) - first == i, (columns, n_cells)."""
    return records.map_sum(_CellCounts(columns, starts, widths, firsts, n_cells))


@dataclass(frozen=True, eq=False)
class _SignedOctaves:
    centre: FloatArray
    nothing: FloatArray
    columns: IntArray

    def __call__(self, block: Any) -> Any:
        y = block[:, self.columns] - self.centre
        octave = np.clip(np.frexp(np.abs(y))[1] - 1 - SMALLEST_EXPONENT, -1, _OCTAVES - 1)
        bins = np.where(y < 0, octave, octave + _OCTAVES)
        bins[(octave < 0) | (y == 0) | (np.abs(y) <= self.nothing)] = 2 * _OCTAVES
        return _count(bins, 2 * _OCTAVES + 1)


@dataclass(frozen=True, eq=False)
class _CellCounts:
    columns: IntArray
    starts: FloatArray
    widths: FloatArray
    firsts: IntArray
    n_cells: int

    def __call__(self, block: Any) -> Any:
        with np.errstate(over="ignore"):
            cells = np.floor((block[:, self.columns] - self.starts) / self.widths) - self.firsts
        outside = (cells < 0) | (cells >= self.n_cells)
        bins = np.where(outside, self.n_cells, cells).astype(np.int64)
        return _count(bins, self.n_cells + 1)[:, : self.n_cells]


def _count(bins: IntArray, n_bins: int) -> IntArray:
    n_columns = bins.shape[1]
    flat = bins + n_bins * np.arange(n_columns)
    return np.bincount(flat.ravel(), minlength=n_bins * n_columns).reshape(n_columns, n_bins)
