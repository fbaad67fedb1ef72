"""Where to draw the nodes of a small graph: the same picture for the same graph, always."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from hushcov._arrays import FloatArray

_ROUNDS = 150
_BEND = 0.75  # long chains are drawn shorter than they are, so that they bend into the picture
_GAP = 1.1  # between components, in units of an edge


def layout(n_nodes: int, edges: Sequence[tuple[int, int]], width: float) -> FloatArray:
    """Positions in units of an edge, starting at 0; components side by side in rows.

    Each component is laid out by stress majorization (Gansner, Koren and North 2004): distances
    in the picture come close to those in the graph. `width` is how wide a row may be; a wider
    component is shrunk.
    """
    if not n_nodes:
        return np.empty((0, 2))
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = sparse.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n_nodes, n_nodes))
    _, label = csgraph.connected_components(graph, directed=False)
    distances = csgraph.shortest_path(graph, directed=False, unweighted=True)
    groups = [np.flatnonzero(label == each) for each in range(label.max() + 1)]
    groups.sort(key=lambda group: (-len(group), group[0]))
    boxes = [_component(distances[np.ix_(group, group)], width) for group in groups]
    positions = np.empty((n_nodes, 2))
    for group, box, corner in zip(groups, boxes, _shelves(boxes, width), strict=True):
        positions[group] = box + corner
    return positions


def _component(distances: FloatArray, width: float) -> FloatArray:
    """Positions of connected nodes, lying flat, from 0 on."""
    n = len(distances)
    if n == 1:
        return np.zeros((1, 2))
    targets = distances**_BEND
    angles = 2 * math.pi * np.arange(n) / n
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    positions = _flat_start(targets) + 0.1 * targets.max() * circle  # no two nodes at one place
    weights = np.divide(1.0, targets**2, out=np.zeros_like(targets), where=targets > 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_ROUNDS):
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        pull = np.divide(weights * targets, apart, out=np.zeros_like(apart), where=apart > 1e-9)
        positions = inverse @ ((np.diag(pull.sum(axis=1)) - pull) @ positions)
    positions = _lying(positions)
    positions -= positions.min(axis=0)
    return np.asarray(positions * min(1.0, width / max(positions[:, 0].max(), 1e-9)))


def _flat_start(targets: FloatArray) -> FloatArray:
    """Classical scaling: the plane in which distances fit best."""
    n = len(targets)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ targets**2 @ centre)
    return _signed(vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0)))


def _lying(positions: FloatArray) -> FloatArray:
    """The same picture, with its longer side across."""
    _, vectors = np.linalg.eigh(np.cov(positions.T))
    return _signed((positions - positions.mean(axis=0)) @ vectors[:, ::-1])


def _signed(columns: FloatArray) -> FloatArray:
    """Columns with a sign that does not depend on the linear algebra library."""
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    return columns * np.where(largest < 0, -1.0, 1.0)


def _shelves(boxes: Sequence[FloatArray], width: float) -> list[FloatArray]:
    """Corners of boxes in rows, in their order."""
    corners, x, y, height = [], 0.0, 0.0, 0.0
    for box in boxes:
        across, down = box.max(axis=0)
        if x > 0 and x + across > width:
            x, y, height = 0.0, y + height + _GAP, 0.0
        corners.append(np.array([x, y]))
        x, height = x + across + _GAP, max(height, float(down))
    return corners
