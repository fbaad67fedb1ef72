"""The graph of the pairs that were found: related features stand side by side on circles.

The same release always has the same picture.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from hushcov.postprocess import is_noise
from hushcov.report.heat import pair_graph, related_order
from hushcov.report.pages import Subject, short

_MOST_NODES, _MOST_EDGES = 120, 400
_WIDTH, _GAP = 1240.0, 16.0  # pixels of a picture, and between its circles
_SMALLEST, _APART = 48.0, 26.0  # pixels of a radius, and along a circle between two features
_BESIDE = 12.0  # pixels from a feature to its label
_STRAIGHT, _BENT = 12, 0.4  # features of a circle with straight lines; how far others bend inwards
_LETTER, _WIDE_LETTER = 6.4, 12.0  # pixels of a letter of a label, about, and not less
_LONGEST_LABEL = 22  # letters


@dataclass(frozen=True)
class Node:
    """A feature with its place in the picture, and its label beside it.

    `label` begins (or ends, on the left half of a circle) at `label_x` and `label_y`, and is turned
    by `angle` degrees clockwise.
    """

    feature: int
    x: float
    y: float
    label: str
    label_x: float
    label_y: float
    angle: float
    ends: bool


@dataclass(frozen=True)
class Graph:
    """Features as nodes, and found pairs as edges.

    `edges` are pairs of features with the coordinates of their ends and of what bends the line
    between them, their correlation, and what kind of line it is.
    """

    nodes: list[Node]
    edges: list[tuple[tuple[int, int], list[float], float, str]]
    width: float
    height: float


def graph(subject: Subject, *, wide: float = _WIDTH, most: int = _MOST_NODES) -> Graph | None:
    """Return the graph of the strongest pairs of at most so many features; None without a pair."""
    view, drawn, seen = subject.view, [], set[int]()
    for pair in view.found.at(slice(0, _MOST_EDGES)).places:  # as many as a picture can show
        if len(seen | set(pair)) > most:
            break
        seen |= set(pair)
        drawn.append(pair)
    if not drawn:
        return None
    features = np.array(sorted(seen))
    rows, columns = np.searchsorted(features, np.array(drawn).T)
    values = view.correlations(view.found)[: len(drawn)]
    kinds = np.where(values < 0, "negative", "positive")
    kinds[is_noise(values)] = "noise"
    order = related_order(len(features), rows, columns, values)
    joined = pair_graph(len(features), rows, columns, np.ones(len(rows)))
    _, group = csgraph.connected_components(joined, directed=False)
    nodes: dict[int, Node] = {}
    centres: dict[int, tuple[float, float]] = {}
    x = y = width = tall = 0.0  # of the next circle, and of the rows
    for each in dict.fromkeys(group[order].tolist()):
        members = features[order[group[order] == each]].tolist()
        labels = [short(subject.names[i], _LONGEST_LABEL) for i in members]
        radius = max(_SMALLEST, len(members) * _APART / (2 * math.pi))
        turns = 2 * math.pi * np.arange(len(members)) / len(members)
        across, down = np.cos(turns), np.sin(turns)
        reach = radius + _BESIDE + np.array([_label_width(label) for label in labels])
        half = (
            float((reach * np.abs(across)).max()),
            float((reach * np.abs(down)).max()) + _APART / 2,
        )
        if x > 0 and x + 2 * half[0] > wide:
            x, y, tall = 0.0, y + tall, 0.0
        middle = x + half[0], y + half[1]
        for feature, label, a, b in zip(members, labels, across, down, strict=True):
            inner, outer = (
                (middle[0] + size * a, middle[1] + size * b) for size in (radius, radius + _BESIDE)
            )
            left = a < -1e-9  # letters there would stand on their heads
            angle = math.degrees(math.atan2(-b, -a) if left else math.atan2(b, a))
            nodes[feature] = Node(feature, *inner, label, *outer, angle, left)
            centres[feature] = middle if len(members) > _STRAIGHT else (math.nan, math.nan)
        x, tall = x + 2 * half[0] + _GAP, max(tall, 2 * half[1])
        width = max(width, x - _GAP)
    places = np.array([[[nodes[i].x, nodes[i].y] for i in pair] for pair in drawn])
    between, inside = places.mean(axis=1), np.array([centres[i] for i, _ in drawn])
    bends = np.where(np.isnan(inside), between, _BENT * inside + (1 - _BENT) * between)
    ends = np.stack([places[:, 0], bends, places[:, 1]], axis=1).reshape(-1, 6).tolist()
    return Graph(
        nodes=[nodes[i] for i in features.tolist()],
        edges=list(zip(drawn, ends, values.tolist(), kinds.tolist(), strict=True)),
        width=width,
        height=y + tall,
    )


def _label_width(label: str) -> float:
    """Return the approximate width of a label in pixels."""
    wide = [unicodedata.east_asian_width(x) in "WF" or x in "mwMW@%" for x in label]
    return sum(_WIDE_LETTER if each else _LETTER for each in wide)
