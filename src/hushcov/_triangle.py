"""Symmetric matrices from their pairs, row by row above the diagonal, in compiled threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, even_parts, run_parts

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


@compiled
def _spread(start: int, stop: int, first: int, values: Any, unit: float, matrix: Any) -> None:
    d = len(matrix)
    for i in range(start, stop):
        shift = i * (2 * d - i - 1) // 2 - i - 1 - first
        for j in range(max(i + 1, -shift), min(d, len(values) - shift)):
            matrix[i, j] = values[shift + j] * unit


@compiled
def _mirror(start: int, stop: int, matrix: npt.NDArray[Any]) -> None:
    d = len(matrix)
    for tile in range(start, stop):
        first, last = tile * _TILE, min(d, (tile + 1) * _TILE)
        for row in range(first, d, _TILE):
            for i in range(row, min(d, row + _TILE)):
                for j in range(first, min(i, last)):
                    matrix[i, j] = matrix[j, i]


@compiled
def _find_beyond(start: int, stop: int, matrix: FloatArray, level: float) -> IntArray:
    d, number = len(matrix), 0
    for i in range(start, stop):
        for j in range(i + 1, d):
            number += abs(matrix[i, j]) > level
    found, at = np.empty(number, dtype=np.int64), 0
    for i in range(start, stop):
        for j in range(i + 1, d):
            if abs(matrix[i, j]) > level:
                found[at] = i * (2 * d - i - 1) // 2 + j - i - 1
                at += 1
    return found
