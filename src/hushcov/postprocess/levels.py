"""Entries of a symmetric matrix beyond several levels, and noise in their places.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, even_parts, run_parts
from hushcov.postprocess.eigen import largest, largest_together

_ROWS = 16  # for which a thread pays
_DRAWN = 512  # features up to which the norm of noise is that of drawn noise
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@dataclass(frozen=True, eq=False)
class Beyond:
    """What of a matrix is beyond each level, off its diagonal, and what is left below it.

    `counts` has the numbers of entries left by level and row, `energy` the sums of their squares
    and `total` their sums. `signal` is the largest eigenvalue of what is left, `noise` that of
    noise of deviation 1 in the places beyond and on the diagonal.
    """

    counts: IntArray
    energy: FloatArray
    total: FloatArray
    signal: FloatArray
    noise: FloatArray


def look_beyond(matrix: FloatArray, levels: FloatArray) -> Beyond:
    """Levels are above zero and ascend; the last may be infinite."""
    d, many = len(matrix), len(levels)
    sums, sizes = np.zeros((2, d, many)), np.zeros((d, many + 1), dtype=np.int64)
    parts = even_parts(d, _ROWS)
    run_parts(_measure, [(*part, matrix, levels, *sums, sizes) for part in parts])
    beyond = d - 1 - np.cumsum(sizes[:, :-1], axis=1)  # entries beyond each level, by row
    starts = np.concatenate([[0], np.cumsum(beyond[:, 0])])
    number = int(starts[-1])
    places, passed = np.empty(number, dtype=np.int32), np.empty(number, dtype=np.int8)
    values, noise = np.empty((2, number), dtype=np.float32)
    entries = places, passed, values, noise
    run_parts(_collect, [(*part, matrix, levels, starts, *entries) for part in parts])
    diagonal = np.array([normal_at(i, i) for i in range(d)])[:, None]

    def product(x: FloatArray) -> FloatArray:
        y = np.empty_like(x)
        y[:, :many] = matrix @ x[:, :many] - matrix.diagonal()[:, None] * x[:, :many]
        y[:, many:] = diagonal * x[:, many:]
        run_parts(_move, [(*part, starts, *entries, x, y, many) for part in parts])
        return y

    found = largest_together(product, d, 2 * many)
    energy, total = np.cumsum(sums.sum(axis=1), axis=1)
    return Beyond(d - 1 - beyond.T, energy, total, found[:many], found[many:])


def noise_size(n_features: int) -> float:
    """The largest eigenvalue of noise of deviation 1, as `largest` has it."""
    if n_features > _DRAWN:
        return 2 * math.sqrt(n_features) * math.cos(math.pi / 18)
    every = range(n_features)
    return largest(np.array([[normal_at(i, j) for j in every] for i in every]))


@compiled
def _mixed(word: Any) -> Any:
    """A word that looks random: splitmix64."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@compiled
def normal_at(i: int, j: int) -> float:
    """A standard normal for each pair, always the same, in either order."""
    word = _mixed(np.uint64(min(i, j) * 2**32 + max(i, j)) * _STEP + _STEP)
    first = (np.float64(word >> _S11) + 0.5) * 2.0**-53
    second = np.float64(_mixed(word + _STEP) >> _S11) * 2.0**-53
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@compiled
def _measure(
    start: int,
    stop: int,
    matrix: FloatArray,
    levels: FloatArray,
    energy: FloatArray,
    total: FloatArray,
    sizes: IntArray,
) -> None:
    """Squares, sums and numbers of entries between one level and the next, by row."""
    for i in range(start, stop):
        for j in range(len(matrix)):
            value = matrix[i, j]
            passed = 0
            for level in levels:
                passed += abs(value) > level
            if j != i:
                sizes[i, passed] += 1
                if passed < len(levels):
                    energy[i, passed] += value * value
                    total[i, passed] += value


@compiled
def _collect(
    start: int,
    stop: int,
    matrix: FloatArray,
    levels: FloatArray,
    starts: IntArray,
    places: npt.NDArray[np.int32],
    passed: npt.NDArray[np.int8],
    values: FloatArray,
    noise: FloatArray,
) -> None:
    """List entries beyond the first level, with how many levels they are beyond."""
    for i in range(start, stop):
        at = starts[i]
        for j in range(len(matrix)):
            size = abs(matrix[i, j])
            if size > levels[0] and j != i:
                beyond = 0
                for level in levels:
                    beyond += size > level
                places[at], passed[at] = j, beyond
                values[at], noise[at] = matrix[i, j], normal_at(i, j)
                at += 1


@compiled
def _move(
    start: int,
    stop: int,
    starts: IntArray,
    places: npt.NDArray[np.int32],
    passed: npt.NDArray[np.int8],
    values: FloatArray,
    noise: FloatArray,
    x: FloatArray,
    y: FloatArray,
    many: int,
) -> None:
    """Take the products of entries beyond a level from the left columns, add those of noise."""
    for i in range(start, stop):
        for at in range(starts[i], starts[i + 1]):
            j = places[at]
            for level in range(passed[at]):
                y[i, level] -= values[at] * x[j, level]
                y[i, many + level] += noise[at] * x[j, many + level]
