"""The graph of the pairs that were found, and the same as a list."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from hushcov.postprocess import is_noise
from hushcov.release.findings import NOISE, Findings
from hushcov.report.html.layout import layout
from hushcov.report.html.markup import (
    Markup,
    correlation_text,
    counted,
    figure,
    join,
    short,
    tag,
)
from hushcov.report.html.plot import picture, text
from hushcov.report.html.subject import Subject

_MOST_NODES, _MOST_EDGES = 120, 400
_MOST_LISTED, _MOST_PARTNERS = 300, 20
_EDGE, _MARGIN, _WIDTH = 74.0, 46.0, 860.0  # pixels
_SHORT = 12


def graph_section(subject: Subject, findings: Findings) -> Markup:
    """Features as nodes, found pairs as edges."""
    drawn = drawn_pairs(findings)
    if not drawn:
        return tag("p", "No pair counts as found: there is no graph to draw.")
    return join(_figure(subject, findings, drawn), _list(subject, findings))


def drawn_pairs(findings: Findings) -> list[tuple[int, int]]:
    """The strongest pairs, as many as a picture can show."""
    nodes: set[int] = set()
    drawn: list[tuple[int, int]] = []
    for pair in findings.found.at(slice(0, _MOST_EDGES)).places:
        if len(nodes | set(pair)) > _MOST_NODES:
            break
        nodes |= set(pair)
        drawn.append(pair)
    return drawn


def _figure(subject: Subject, findings: Findings, drawn: list[tuple[int, int]]) -> Markup:
    nodes = sorted({node for pair in drawn for node in pair})
    place = {node: at for at, node in enumerate(nodes)}
    edges = [(place[i], place[j]) for i, j in drawn]
    positions = layout(len(nodes), edges, (_WIDTH - 2 * _MARGIN) / _EDGE) * _EDGE + _MARGIN
    parts = [
        _edge(subject, pair, float(value), positions[[place[pair[0]], place[pair[1]]]])
        for pair, value in zip(drawn, findings.correlation[: len(drawn)], strict=True)
    ]
    parts += [_node(subject, node, positions[place[node]]) for node in nodes]
    width, height = (positions.max(axis=0) + _MARGIN).tolist()
    label = f"Graph of {counted(len(nodes), 'feature')} and {counted(len(drawn), 'pair')}"
    svg = picture(width, height, label, *parts, class_="graph", natural=True)
    return figure(svg, _caption(subject, findings, len(nodes), len(drawn)), wide=True)


def _edge(
    subject: Subject, pair: tuple[int, int], value: float, ends: npt.NDArray[np.float64]
) -> Markup:
    (x1, y1), (x2, y2) = ends.tolist()
    names = " \N{MULTIPLICATION SIGN} ".join(subject.names[node] for node in pair)
    noise = bool(is_noise(np.array(value)))
    return tag(
        "line",
        tag("title", f"{names}: correlation {correlation_text(value)}"),
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        stroke_width=2.0 if noise else 1.0 + 5.0 * abs(value),
        class_="edge " + ("noise" if noise else "negative" if value < 0 else "positive"),
        data_ends=f"{pair[0]} {pair[1]}",
    )


def _node(subject: Subject, node: int, position: npt.NDArray[np.float64]) -> Markup:
    x, y = position.tolist()
    return tag(
        "g",
        tag("title", subject.names[node]),
        tag("circle", cx=x, cy=y, r=7.0),
        text(x, y + 21, short(subject.names[node], _SHORT), anchor="middle"),
        class_="node",
        data_node=node,
    )


def _caption(subject: Subject, findings: Findings, nodes: int, drawn: int) -> str:
    left_out = findings.n_found - drawn
    rest = (
        f" The {drawn:,} strongest pairs are drawn; {left_out:,} weaker ones are left out, to keep "
        "the picture readable."
        if left_out
        else ""
    )
    noise = findings.noise(findings.found.at(slice(0, drawn))).any()
    drowned = f" A dotted grey line is noise: {NOISE}." if noise else ""
    alone = subject.n_features - len(set(findings.found.rows) | set(findings.found.columns))
    single = f" {counted(alone, 'feature')} without a pair: not drawn." if alone else ""
    return (
        f"What to see: {counted(nodes, 'feature')} and how they go together. A solid line joins "
        "two that vary together, a dashed one two that vary in opposite directions; the thicker, "
        f"the stronger. Lengths mean nothing.{drowned}{rest}{single}"
    )


def _list(subject: Subject, findings: Findings) -> Markup:
    """Every feature with its partners, for readers who do not see the picture."""
    partners: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for (i, j), value in zip(findings.found.places, findings.correlation.tolist(), strict=True):
        partners[i].append((j, value))
        partners[j].append((i, value))
    ranked = sorted(partners, key=lambda node: (-len(partners[node]), node))
    lines = [_partners(subject, node, partners[node]) for node in ranked[:_MOST_LISTED]]
    left_out = len(ranked) - len(lines)
    more = f" {counted(left_out, 'feature')} with fewer partners are left out." if left_out else ""
    return tag(
        "details",
        tag("summary", "The same as a list"),
        tag(
            "p",
            f"Features by their number of partners, each with its partners, strongest first.{more}",
        ),
        tag("ul", *lines, class_="partners"),
    )


def _partners(subject: Subject, node: int, partners: list[tuple[int, float]]) -> Markup:
    shown = partners[:_MOST_PARTNERS]
    parts: list[str] = []
    for place, (other, value) in enumerate(shown):
        parts += [
            ", " if place else " ",
            tag("bdi", subject.names[other]),
            f" ({correlation_text(value, 2)})",
        ]
    more = len(partners) - len(shown)
    return tag(
        "li",
        tag("strong", tag("bdi", subject.names[node])),
        ":",
        *parts,
        f", and {more:,} more" if more else None,
    )
