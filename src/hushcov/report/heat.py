"""Heat maps of released correlations: the order of the features, and the cells.

A report, a notebook and a PNG file draw the same cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.sparse import csgraph
from scipy.spatial.distance import squareform

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.release.view import View

_FEWEST_OPENED = 24  # features of a side of a map
_NEARLY_APART = 1 - 1e-6  # distance of the weakest pair; features without one have 1
_OPPOSITE = 0.9  # columns that vary in opposite directions count as a little less alike


class HeatMap(NamedTuple):
    """Features in the order of a map, its cells (NaN: noise), and the strongest colour's value."""

    order: IndexArray
    cells: FloatArray
    limit: float


def strongest_map(view: View, most: int) -> HeatMap:
    """Return the map of all features, or of those of the strongest pairs where there are many.

    Related features stand side by side, unless the order of the features means something. Cells are
    NaN for correlations beyond 1 and without a positive variance, which are noise.
    """
    some = np.arange(view.release.n_features)
    if len(some) > most:
        near = (i for pair in view.found.at(slice(0, most)).places for i in pair)
        chosen = np.sort(np.array(list(dict.fromkeys(near))[:most], dtype=np.intp))
        some = chosen if len(chosen) else some[:most]
    cells = np.asarray(view.correlation_matrix(some))
    if not view.release.in_order:
        order = related_order(cells)
        some, cells = some[order], cells[np.ix_(order, order)]
    return HeatMap(some, cells, colour_limit(cells))


def related_order(correlations: FloatArray) -> IndexArray:
    """Return features in the order of a heat map: groups of related ones, the largest first.

    Pairs that are not zero join features to groups, and a group is never split. Average linkage by
    the sizes of the correlations puts similar features side by side. Features without a pair come
    last, in their order, and are left out where they are most.
    """
    d = len(correlations)
    strength = np.clip(np.abs(np.nan_to_num(correlations)), 0.0, 1.0)
    joined = strength > 0
    np.fill_diagonal(joined, False)
    if not joined.any():
        return np.arange(d)
    graph = sparse.csr_array(joined.astype(np.float64))
    group = csgraph.connected_components(graph, directed=False)[1]
    alike = strength * np.where(correlations < 0, _OPPOSITE, 1.0)
    apart = np.where(joined, np.minimum(1 - alike, _NEARLY_APART), 1.0)
    np.fill_diagonal(apart, 0.0)
    distances = squareform(apart, checks=False)
    linked = hierarchy.optimal_leaf_ordering(hierarchy.linkage(distances, "average"), distances)
    sizes = np.bincount(group)
    position = np.argsort(hierarchy.leaves_list(linked))
    position = np.where(sizes[group] > 1, position, np.arange(d))
    first = np.unique(group, return_index=True)[1]
    order = np.lexsort((position, np.where(sizes[group] > 1, first[group], d), -sizes[group]))
    few = max(_FEWEST_OPENED, int(np.count_nonzero(sizes[group] > 1)))
    return order[: few if few <= d // 2 else d]


def colour_limit(cells: FloatArray) -> float:
    """Return the value of the strongest colour.

    The diagonal may pass it: on a scale made for it, other correlations would all be pale.
    """
    sizes = np.nan_to_num(np.abs(cells))
    apart = float((sizes - np.diag(np.diag(sizes))).max())
    largest = float(sizes.max())
    return min(1.0, min(largest, 1.5 * apart) or largest or 1.0)


#: Cells along the columns of a band, and distances.
BINS, _LAGS = 240, 40


def condense_band(
    rows: IntArray, columns: IntArray, values: FloatArray, n_features: int, reach: int
) -> FloatArray:
    """Return the strongest pair of each cell of a band: distances downwards, columns across."""
    wide, high = min(BINS, n_features), min(_LAGS, reach)
    x = (rows + columns) // 2 * wide // n_features
    y = (columns - rows - 1) * high // reach
    cell = y * wide + x
    largest, least = np.zeros(wide * high), np.zeros(wide * high)
    np.maximum.at(largest, cell, values)
    np.minimum.at(least, cell, values)
    return np.where(largest >= -least, largest, least).reshape(high, wide)
