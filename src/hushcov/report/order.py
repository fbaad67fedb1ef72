"""An order of features in which related ones stand side by side, for heat maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.sparse import csgraph
from scipy.spatial.distance import squareform

from hushcov._arrays import FloatArray, IndexArray

_MOST_CLUSTERED = 2_000  # features of a group of which all distances are computed
_MOST_SETTLED = 500  # and of which the order of leaves is the best one
_MOST_GROUPS = 500  # groups that are looked at one by one
_FEWEST = 4  # features of a group in which an order matters
_FEWEST_OPENED = 24  # features of a side of a map
_OPPOSITE = 0.9  # what varies in opposite directions is a little less alike
_TOUCHING = 1e-6  # a distance above zero: sparse graphs take zeros for nothing

Array = npt.NDArray[Any]


def related_order(
    n_features: int, rows: Array, columns: Array, correlations: FloatArray
) -> IndexArray:
    """Features in the order of a heat map: groups of related ones, the largest first.

    A group is what pairs join, and nothing of it is ever elsewhere. Within a group, average
    linkage by the sizes of the correlations puts what is most alike side by side; in very large
    ones single linkage does. Features without a pair come last, in their order.
    """
    if not len(rows):
        return np.arange(n_features, dtype=np.intp)
    strength = np.clip(np.nan_to_num(np.abs(correlations), nan=0.0), 0.0, 1.0)
    strength *= np.where(correlations < 0, _OPPOSITE, 1.0)
    apart = np.maximum(1.0 - strength, _TOUCHING)
    far = sparse.csr_array((apart, (rows, columns)), shape=(n_features, n_features))
    _, group = csgraph.connected_components(far, directed=False)
    position = _single_linkage(csgraph.minimum_spanning_tree(far))
    both = sparse.csr_array(far + far.T)
    members = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    ends = np.cumsum(counts)
    largest = np.argsort(-counts, kind="stable")[:_MOST_GROUPS]
    for each in largest[(counts[largest] >= _FEWEST) & (counts[largest] <= _MOST_CLUSTERED)]:
        inside = members[ends[each] - counts[each] : ends[each]]
        position[inside[_average_linkage(both[inside][:, inside].toarray())]] = np.arange(
            len(inside)
        )
    first = members[ends - counts]  # of each group, which decides between groups of one size
    return np.lexsort((position, first[group], -counts[group])).astype(np.intp)


def opened_features(n_features: int, rows: Array, columns: Array) -> int:
    """How many features a map shows at first: those with a pair, where they are few."""
    related = len(np.union1d(rows, columns))
    few = max(_FEWEST_OPENED, related)
    return few if related and few <= n_features // 2 else n_features


def _average_linkage(far: FloatArray) -> IndexArray:
    """Leaves of the tree; pairs that were not found, zeros here, are as far as can be."""
    far[far == 0] = 1.0
    np.fill_diagonal(far, 0.0)
    apart = squareform(far, checks=False)
    tree = hierarchy.linkage(apart, "average")
    if len(far) <= _MOST_SETTLED:
        tree = hierarchy.optimal_leaf_ordering(tree, apart)
    return np.asarray(hierarchy.leaves_list(tree), dtype=np.intp)


def _single_linkage(tree: Any) -> Array:
    """Places in an order by joining the nearest groups first, along a spanning tree."""
    n, tree = tree.shape[0], tree.tocoo()
    nearest = np.lexsort((tree.col, tree.row, tree.data))
    joined, cluster = hierarchy.DisjointSet(range(n)), list(range(n))
    merges: list[tuple[float, ...]] = []
    pairs = np.stack([tree.row[nearest], tree.col[nearest]], axis=1).tolist()
    for i, j in [*pairs, *((0, other) for other in range(1, n))]:  # what no pair joins comes last
        both = cluster[joined[i]], cluster[joined[j]]
        if joined.merge(i, j):
            cluster[joined[i]] = n + len(merges)
            merges.append((*both, 0.0, 0.0))  # only the tree is read, not its heights
    return np.argsort(hierarchy.leaves_list(np.array(merges)))
