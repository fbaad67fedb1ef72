"""Operator norms of many small sparse matrices: quick, and the same on every machine."""

from __future__ import annotations

import math

import numpy as np

from hushcov._arrays import FloatArray, IndexArray
from hushcov._compiled import compiled

_STEPS = 120  # of the power method; the norm is then within a percent or two, from below


def sparse_norms(
    draws: IndexArray,
    rows: IndexArray,
    columns: IndexArray,
    values: FloatArray,
    n_draws: int,
    size: int,
) -> FloatArray:
    """Operator norms of symmetric matrices given by entries of their upper triangles.

    Entry e belongs to matrix `draws[e]`; entries at the same place add up.
    """
    order = np.argsort(draws, kind="stable")
    starts = np.searchsorted(draws[order], np.arange(n_draws + 1))
    norms = np.empty(n_draws)
    begin = np.random.default_rng(0).standard_normal(size)
    _fill_norms(starts, rows[order], columns[order], values[order], begin, norms)
    return norms


@compiled
def _fill_norms(
    starts: IndexArray,
    rows: IndexArray,
    columns: IndexArray,
    values: FloatArray,
    begin: FloatArray,
    norms: FloatArray,
) -> None:
    """The power method on each matrix: ||E x|| for x the normalised image of many steps."""
    size = len(begin)
    x, image = np.empty(size), np.empty(size)
    for draw in range(len(norms)):
        x[:] = begin / math.sqrt(np.sum(begin * begin))
        norms[draw] = 0.0
        for _ in range(_STEPS):
            image[:] = 0.0
            for e in range(starts[draw], starts[draw + 1]):
                image[rows[e]] += values[e] * x[columns[e]]
                if rows[e] != columns[e]:
                    image[columns[e]] += values[e] * x[rows[e]]
            length = math.sqrt(np.sum(image * image))
            norms[draw] = length
            if length == 0.0:
                break
            for i in range(size):
                x[i] = image[i] / length
