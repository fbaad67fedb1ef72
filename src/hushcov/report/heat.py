"""Heat maps of released correlations: the order of the features, the cells and their caption.

A report, a notebook and a PNG file draw the same cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.sparse import csgraph
from scipy.spatial.distance import squareform

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.exceptions import DataError
from hushcov.postprocess import Matrix, is_noise, is_sparse
from hushcov.postprocess.strongest import scan
from hushcov.release.view import MOST_PAIRS, View

_MOST_ORDERED = 100_000  # features of which all pairs are drawn
_MOST_CELLS = 400  # cells that a figure can show side by side
_MOST_CLUSTERED = 2_000  # features of a group of which all distances are computed
_MOST_SETTLED = 500  # and of which the order of leaves is the best one
_MOST_GROUPS = 500  # groups that are looked at one by one
_FEWEST = 4  # features of a group in which an order matters
_FEWEST_OPENED = 24  # features of a side of a map
_OPPOSITE = 0.9  # what varies in opposite directions is a little less alike
_TOUCHING = 1e-6  # a distance above zero: sparse graphs take zeros for nothing
#: How every caption of a figure begins.
SEE = "What to see: "

Array = npt.NDArray[Any]


# ---- the order of the features ----


def related_order(
    n_features: int, rows: Array, columns: Array, correlations: FloatArray
) -> IndexArray:
    """Return features in the order of a heat map: groups of related ones, the largest first.

    Pairs join features to groups, and a group is never split. Within a group, average linkage by
    the sizes of the correlations puts the most similar features side by side; very large groups
    follow a minimum spanning tree instead. Features without a pair come last, in their order.
    """
    if not len(rows):
        return np.arange(n_features, dtype=np.intp)
    strength = np.clip(np.nan_to_num(np.abs(correlations), nan=0.0), 0.0, 1.0)
    strength *= np.where(correlations < 0, _OPPOSITE, 1.0)
    apart = np.maximum(1.0 - strength, _TOUCHING)
    far = pair_graph(n_features, rows, columns, apart)
    _, group = csgraph.connected_components(far, directed=False)
    both = sparse.csr_array(far + far.T)
    members = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    ends = np.cumsum(counts)
    first = members[ends - counts]  # of each group, which decides between groups of one size
    position = np.zeros(n_features)
    for each in np.argsort(-counts, kind="stable")[:_MOST_GROUPS]:
        if counts[each] < _FEWEST:
            break
        inside = members[ends[each] - counts[each] : ends[each]]
        if counts[each] > _MOST_CLUSTERED:
            tree = csgraph.minimum_spanning_tree(far)
            walk, _ = csgraph.depth_first_order(tree, first[each], directed=False)
            position[walk] = np.arange(len(walk))
            continue
        square = both[inside][:, inside].toarray()
        square[square == 0] = 1.0  # pairs that were not found are as far as can be
        np.fill_diagonal(square, 0.0)
        distances = squareform(square, checks=False)
        linked = hierarchy.linkage(distances, "average")
        if len(inside) <= _MOST_SETTLED:
            linked = hierarchy.optimal_leaf_ordering(linked, distances)
        position[inside[hierarchy.leaves_list(linked)]] = np.arange(len(inside))
    return np.lexsort((position, first[group], -counts[group])).astype(np.intp)


def pair_graph(n_nodes: int, rows: Array, columns: Array, lengths: FloatArray) -> Any:
    """Return edges as scipy takes them: before 1.17.1 its graphs have indices of 32 bits alone."""
    ends = np.asarray(rows, dtype=np.int32), np.asarray(columns, dtype=np.int32)
    return sparse.csr_array((lengths, ends), shape=(n_nodes, n_nodes))


def opened_features(n_features: int, rows: Array, columns: Array) -> int:
    """Return how many features a map shows: those with a pair, where they are few."""
    related = len(np.union1d(rows, columns))
    few = max(_FEWEST_OPENED, related)
    return few if related and few <= n_features // 2 else n_features


# ---- the cells ----


class HeatMap(NamedTuple):
    """Features in the order of a map, its cells (NaN: noise), its strongest colour, and words."""

    order: IndexArray
    cells: FloatArray
    limit: float
    words: str


def heat_map(correlation: Matrix, *, in_order: bool = False) -> HeatMap:
    """Return the map of released correlations, and a caption that says what to see.

    Related features stand side by side, unless they are `in_order`; of very many, those of the
    strongest pairs are drawn. Noise, which is a correlation beyond 1 or none at all, is NaN.
    """
    check_square(correlation)
    d = correlation.shape[0]
    pairs = scan(correlation, np.ones(d), most=MOST_PAIRS).pairs
    if is_sparse(correlation) and d > _MOST_ORDERED:
        few = pairs.strongest_first().at(slice(0, _MOST_CELLS // 2))
        some = np.union1d(few.rows, few.columns)
        part = heat_map(correlation[some][:, some].toarray())
        more = f" Of {d:,} features, those of the strongest pairs are drawn."
        return part._replace(order=some[part.order], words=part.words + more)
    order = np.arange(d)
    if not in_order:
        order = related_order(d, pairs.rows, pairs.columns, pairs.values)
        order = order[: opened_features(d, pairs.rows, pairs.columns)]
    cells = condense(correlation, order)
    cells[is_noise(cells)] = np.nan
    words = describe_release(correlation, len(order))
    words = words.replace("; related ones stand side by side.", ".") if in_order else words
    return HeatMap(order, cells, min(1.0, colour_limit(correlation)), words)


def strongest_map(view: View, most: int) -> HeatMap:
    """Return the map of all features, or of those of the strongest pairs where there are many."""
    release = view.release
    some = np.arange(release.n_features)
    if len(some) > most:
        near = (i for pair in view.found.at(slice(0, most)).places for i in pair)
        chosen = np.sort(np.array(list(dict.fromkeys(near))[:most], dtype=np.intp))
        some = chosen if len(chosen) else some[:most]
    found = heat_map(view.correlation_matrix(some), in_order=release.in_order)
    return found._replace(order=some[found.order])


def check_square(matrix: Matrix) -> None:
    """Refuse what is not a square matrix."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"correlations must be a square matrix, got shape {matrix.shape}.")


def describe_release(correlation: Matrix, n_shown: int | None = None) -> str:
    """Say what the figure of a release shows, from the matrix itself; of all features, or some."""
    d = correlation.shape[0]
    pairs = drowned = 0
    for start, strip in _strips(correlation):
        above = np.triu(strip, start + 1)
        pairs += int(np.count_nonzero(above))
        drowned += int(np.count_nonzero(is_noise(above)))
    candidates = d * (d - 1) // 2
    if pairs == 0:
        return f"{SEE}no pair of features is shown as related; the diagonal stands alone."
    if drowned == pairs:
        return f"{SEE}no correlation was found. Grey is noise: beyond 1, or without a variance."
    n_shown = d if n_shown is None else n_shown
    width = _cell_width(n_shown)
    left_out = f" The {n_shown:,} of {d:,} features that are shown have all of them."
    grey = f" Grey ones, {drowned:,}, are noise: beyond 1, or without a positive variance."
    sentences = (
        f"{SEE}{pairs:,} of {candidates:,} pairs of features are coloured. Red ones vary "
        "together, blue ones in opposite directions, the stronger the darker; white is exactly "
        "zero. The diagonal is each feature with itself; related ones stand side by side.",
        left_out * (n_shown < d),
        " Nothing is zero, so that pale colours may be noise." * (pairs == candidates),
        grey * (drowned > 0),
        f" A dot shows the largest of {width} x {width} entries." * (width > 1),
    )
    return "".join(sentences)


def colour_limit(correlations: Matrix) -> float:
    """Return the value of the strongest colour.

    The diagonal may pass it: on a scale made for it, other correlations would all be pale.
    """
    diagonal, apart = np.abs(correlations.diagonal()), 0.0
    for start, strip in _strips(correlations):
        sizes = np.where(is_noise(strip), 0.0, np.abs(strip))
        np.fill_diagonal(sizes[:, start:], 0.0)
        apart = max(apart, float(sizes.max()))
    largest = max(float(diagonal[np.isfinite(diagonal)].max(initial=0.0)), apart)
    return min(largest, 1.5 * apart) or largest or 1.0


def _cell_width(d: int) -> int:
    return math.ceil(d / _MOST_CELLS)


def _strips(matrix: Matrix, order: IndexArray | None = None) -> Iterator[tuple[int, FloatArray]]:
    """Yield as many rows at a time as make one row of cells, dense, with the first one's number."""
    d = matrix.shape[0] if order is None else len(order)
    width = _cell_width(d)
    for start in range(0, d, width):
        here = slice(start, start + width)
        rows = matrix[here] if order is None else matrix[order[here]]
        strip = rows.toarray() if is_sparse(rows) else rows
        yield start, strip if order is None else strip[:, order]


def condense(matrix: Matrix, order: IndexArray | None = None) -> FloatArray:
    """Keep the largest entry of each square of cells: averages would hide a sparse matrix."""
    d = matrix.shape[0] if order is None else len(order)
    width = _cell_width(d)
    cells = math.ceil(d / width)
    condensed = np.zeros((cells, cells))
    for start, strip in _strips(matrix, order):
        padded = np.zeros((width, cells * width))
        padded[: len(strip), :d] = strip
        squares = padded.reshape(width, cells, width).swapaxes(0, 1).reshape(cells, -1)
        largest = np.nan_to_num(np.abs(squares), nan=np.inf).argmax(axis=1)  # none counts as most
        condensed[start // width] = squares[np.arange(cells), largest]
    return condensed


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
