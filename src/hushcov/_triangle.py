"""Symmetric matrices from their pairs, row by row above the diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import even_parts, run_parts

_ROWS, _TILE = 16, 64  # for which a thread pays; of tiles that are mirrored


def spread_pairs(first: int, values: Any, matrix: Any, unit: float = 1) -> None:
    """Put values of pairs, of which `first` is the first, above the diagonal, times a unit."""
    d = len(matrix)
    ends = np.cumsum(np.arange(d - 1, 0, -1))
    places = np.array([first, first + len(values) - 1])
    row, last = np.searchsorted(ends, places, side="right").tolist()
    parts = even_parts(last + 1 - row, _ROWS)
    jobs = [(row + start, row + stop, first, values, unit, matrix) for start, stop in parts]
    run_parts(_spread, jobs)


def mirror(matrix: npt.NDArray[Any]) -> None:
    """Copy what is above the diagonal below it."""
    run_parts(_mirror, [(*part, matrix) for part in even_parts(-(-len(matrix) // _TILE), 1)])


def pairs_beyond(matrix: FloatArray, level: float) -> IntArray:
    """Positions, among all pairs, of those that are larger in size than a level; ascending."""
    jobs = [(*part, matrix, level) for part in even_parts(len(matrix), _ROWS)]
    return np.concatenate(run_parts(_find_beyond, jobs))


def _spread(start: int, stop: int, first: int, values: Any, unit: float, matrix: Any) -> None:
    d = len(matrix)
    for i in range(start, stop):
        shift = i * (2 * d - i - 1) // 2 - i - 1 - first  # of values, from columns
        low, high = max(i + 1, -shift), min(d, len(values) - shift)
        if low < high:
            np.multiply(values[shift + low : shift + high], unit, out=matrix[i, low:high])


def _mirror(start: int, stop: int, matrix: npt.NDArray[Any]) -> None:
    d = len(matrix)
    for first in range(start * _TILE, min(d, stop * _TILE), _TILE):
        last = min(d, first + _TILE)
        for i in range(first + 1, last):  # the tile on the diagonal
            matrix[i, first:i] = matrix[first:i, i]
        for row in range(last, d, _TILE):
            below = slice(row, min(d, row + _TILE))
            matrix[below, first:last] = matrix[first:last, below].T


def _find_beyond(start: int, stop: int, matrix: FloatArray, level: float) -> IntArray:
    d, found = len(matrix), [np.empty(0, dtype=np.int64)]
    for i in range(start, stop):
        first = i * (2 * d - i - 1) // 2
        found.append(first + np.flatnonzero(np.abs(matrix[i, i + 1 :]) > level))
    return np.concatenate(found)
