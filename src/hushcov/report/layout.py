"""The graph of the pairs that were found: where its nodes and their labels stand.

The same release always has the same picture.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from hushcov._arrays import BoolArray, FloatArray
from hushcov.postprocess import is_noise
from hushcov.report.heat import pair_graph
from hushcov.report.pages import Subject, short

_MOST_NODES, _MOST_EDGES = 120, 400
_EDGE, _MARGIN, _WIDTH = 74.0, 14.0, 1240.0  # pixels
_LETTER, _WIDE_LETTER = 6.4, 12.0  # pixels of a letter of a label, about, and not less
_LONGEST_LABEL = 22  # letters
_TALL = 52.0  # pixels of a node with its label below or above it
_LABEL_BELOW, _LABEL_ABOVE = 21.0, -13.0  # pixels from a node to the foot of its label
_NARROWEST_NODE, _BESIDE = 16.0, 10.0  # pixels of a node, and between labels
_PUSHES = 400  # rounds in which boxes that overlap are moved apart
_STRETCH = 1.1
_WIDER = 1.25  # labels lie across
_USUAL_PARTNERS, _LARGEST = 2.0, 2.2  # graphs of more partners are drawn larger, up to so much
_ROUNDS = 150
_BEND = 0.75  # long chains are drawn shorter than they are, so that they bend into the picture
_GAP = 0.6  # between components, in units of an edge


@dataclass(frozen=True)
class Graph:
    """Features as nodes, and found pairs as edges.

    `nodes` are features with x, y, the foot of a label and the label; `edges` pairs of features
    with the four coordinates of their ends, their correlation, and what kind of line it is.
    """

    nodes: list[tuple[int, float, float, float, str]]
    edges: list[tuple[tuple[int, int], list[float], float, str]]
    width: float
    height: float


def graph(subject: Subject, *, wide: float = 0.0, most: int = _MOST_NODES) -> Graph | None:
    """Return the graph of the strongest pairs of at most so many features; None without a pair."""
    view, drawn, seen = subject.view, [], set[int]()
    for pair in view.found.at(slice(0, _MOST_EDGES)).places:  # as many as a picture can show
        if len(seen | set(pair)) > most:
            break
        seen |= set(pair)
        drawn.append(pair)
    if not drawn:
        return None
    nodes = sorted(seen)
    place = {node: at for at, node in enumerate(nodes)}
    edges = [(place[i], place[j]) for i, j in drawn]
    labels = [short(subject.names[node], _LONGEST_LABEL) for node in nodes]
    boxes = np.array([(_label_width(label), _TALL) for label in labels])
    room = ((wide or _WIDTH) - 2 * _MARGIN) / _EDGE
    positions = layout(len(nodes), edges, room, boxes / _EDGE) * _EDGE
    positions += _MARGIN
    width, height = ((positions + boxes / 2).max(axis=0) + _MARGIN).tolist()
    values = view.correlations(view.found)[: len(drawn)]
    kinds = np.where(values < 0, "negative", "positive")
    kinds[is_noise(values)] = "noise"
    ends = [positions[list(edge)].ravel().tolist() for edge in edges]
    return Graph(
        nodes=[
            (node, *at, at[1] + foot, label)
            for node, at, foot, label in zip(
                nodes, positions.tolist(), _feet(positions, edges), labels, strict=True
            )
        ],
        edges=list(zip(drawn, ends, values.tolist(), kinds.tolist(), strict=True)),
        width=width,
        height=height,
    )


def _feet(positions: FloatArray, edges: Sequence[tuple[int, int]]) -> list[float]:
    """Return the foot of each label, on the side of its node to which fewer edges go."""
    down = np.zeros(len(positions))
    for i, j in edges:
        across, below = positions[j] - positions[i]
        steep = below / max(math.hypot(across, below), 1e-9)
        down[i] += steep
        down[j] -= steep
    return [_LABEL_ABOVE if each > 1e-6 else _LABEL_BELOW for each in down.tolist()]


def _label_width(label: str) -> float:
    """Return the approximate width of a label in pixels, with room beside it."""
    wide = [unicodedata.east_asian_width(x) in "WF" or x in "mwMW@%" for x in label]
    letters = sum(_WIDE_LETTER if each else _LETTER for each in wide)
    return max(_NARROWEST_NODE, letters) + _BESIDE


def layout(
    n_nodes: int, edges: Sequence[tuple[int, int]], width: float, boxes: FloatArray | None = None
) -> FloatArray:
    """Return positions in units of an edge, from 0 on; components stand side by side in rows.

    `boxes` has the width and the height of each node with its label, around its position, and no
    two of them overlap.

    Each component is laid out by stress majorization (Gansner, Koren and North 2004): distances
    in the picture come close to those in the graph. `width` is how wide a row may be; a wider
    component is shrunk.
    """
    if not n_nodes:
        return np.empty((0, 2))
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = pair_graph(n_nodes, ends[0], ends[1], np.ones(ends.shape[1]))
    _, label = csgraph.connected_components(graph, directed=False)
    distances = csgraph.shortest_path(graph, directed=False, unweighted=True)
    groups = [np.flatnonzero(label == each) for each in range(label.max() + 1)]
    groups.sort(key=lambda group: (-len(group), group[0]))
    sizes = np.zeros((n_nodes, 2)) if boxes is None else boxes
    placed = []
    for group in groups:
        at = _component(distances[np.ix_(group, group)], width)
        if boxes is not None:
            partners = 2 * np.isin(ends[0], group).sum() / len(group)
            larger = min(_LARGEST, math.sqrt(max(1.0, partners / _USUAL_PARTNERS)))
            at = spread_out(at * (_WIDER * larger, larger), boxes[group])
        placed.append(at - (at - sizes[group] / 2).min(axis=0))
    positions = np.empty((n_nodes, 2))
    x = y = height = 0.0  # of the next one in rows
    for group, at in zip(groups, placed, strict=True):
        across, down = (at + sizes[group] / 2).max(axis=0).tolist()
        if x > 0 and x + across > width:
            x, y, height = 0.0, y + height + _GAP, 0.0
        positions[group] = at + np.array([x, y])
        x, height = x + across + _GAP, max(height, down)
    return positions


def spread_out(positions: FloatArray, boxes: FloatArray) -> FloatArray:
    """Move positions apart until no two boxes around them overlap."""
    moved, room = positions.copy(), (boxes[:, None] + boxes[None]) / 2
    # No two at one height and place: it must be clear who goes where.
    moved += 1e-6 * np.arange(2 * len(moved)).reshape(-1, 2)
    for _ in range(_PUSHES):
        over = _overlap(moved, room)
        both: BoolArray = np.asarray((over > 1e-9).all(axis=2))
        if not both.any():
            return moved
        along = np.stack([both & (over.argmin(axis=2) == axis) for axis in range(2)], axis=2)
        away = np.sign(moved[:, None] - moved[None])
        push = np.where(along, away * (over + 1e-3), 0.0)
        moved += push.sum(axis=1) / (2 * np.maximum(1.0, (push != 0).sum(axis=1)))
    while (_overlap(moved, room) > 1e-9).all(axis=2).any():
        moved *= _STRETCH
    return moved


def _overlap(positions: FloatArray, room: FloatArray) -> FloatArray:
    """Return by how much each two boxes overlap along both axes; none overlaps itself."""
    over = room - np.abs(positions[:, None] - positions[None])
    own = np.arange(len(positions))
    over[own, own] = 0.0
    return np.asarray(over)


def _component(distances: FloatArray, width: float) -> FloatArray:
    """Return positions of connected nodes, the longer side across, from 0 on."""
    n = len(distances)
    if n == 1:
        return np.zeros((1, 2))
    targets = distances**_BEND
    angles = 2 * math.pi * np.arange(n) / n
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # Classical scaling, the plane in which distances fit best; no two nodes at one place.
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ targets**2 @ centre)
    flat = _signed(vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0)))
    positions = flat + 0.1 * targets.max() * circle
    weights = np.divide(1.0, targets**2, out=np.zeros_like(targets), where=targets > 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_ROUNDS):
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        pull = np.divide(weights * targets, apart, out=np.zeros_like(apart), where=apart > 1e-9)
        positions = inverse @ ((np.diag(pull.sum(axis=1)) - pull) @ positions)
    _, vectors = np.linalg.eigh(np.cov(positions.T))  # turned: its longer side lies across
    positions = _signed((positions - positions.mean(axis=0)) @ vectors[:, ::-1])
    positions -= positions.min(axis=0)
    return np.asarray(positions * min(1.0, width / max(positions[:, 0].max(), 1e-9)))


def _signed(columns: FloatArray) -> FloatArray:
    """Return columns with signs that do not depend on the linear algebra library."""
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    return columns * np.where(largest < 0, -1.0, 1.0)
