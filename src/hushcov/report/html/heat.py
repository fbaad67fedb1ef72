"""The heat map: the data that the page's program draws, and the controls around it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from hushcov.release.findings import NOISE, STRONGEST, Findings
from hushcov.report.html.entries import found_words
from hushcov.report.html.markup import Markup, counted, data_block, figure, join, number, tag
from hushcov.report.html.subject import Subject

_LARGEST_FLOAT = 1e30  # far from where floats of 32 bits end
_MOST_MIXED = 0.5  # share of pairs from which on no order brings related features together

Array = npt.NDArray[Any]


def heat_section(subject: Subject, findings: Findings) -> Markup:
    """The map, its controls, a place that says what the cursor is on, and the data."""
    together = related_order(findings)
    return join(
        tag("p", found_words(subject, findings)),
        _controls(ordered=together is not None),
        figure(
            tag(
                "div",
                tag(
                    "canvas",
                    "",
                    id="heat",
                    tabindex="0",
                    role="application",
                    aria_roledescription="heat map",
                    aria_label=f"Correlations of {subject.n_features:,} features",
                    aria_describedby="heat-keys",
                ),
                tag("div", "", id="heat-tip", class_="tip", aria_hidden="true", hidden=True),
                class_="heat",
            ),
            _caption(subject, findings),
        ),
        tag("p", _HINT, id="heat-said", role="status", aria_live="polite", class_="said"),
        tag("p", _KEYS, id="heat-keys", class_="keys"),
        tag("noscript", tag("p", "The heat map needs JavaScript; the tables below do not.")),
        data_block("heat-data", heat_data(subject, findings, together)),
    )


_HINT = "What the cursor is on is said here."
_KEYS = (
    "Point at a cell, or tap it, to see its values. Wheel, pinch or + and \N{MINUS SIGN} zoom; "
    "dragging moves the map. With the keyboard: arrows move the cursor (with Shift, ten times as "
    "far), Home and End go to the ends of the row, N and P to the next and the previous pair by "
    "strength, 0 shows everything."
)


def _controls(*, ordered: bool) -> Markup:
    buttons = [
        tag("button", "Zoom in", type="button", data_zoom="in"),
        tag("button", "Zoom out", type="button", data_zoom="out"),
        tag("button", "Show all", type="button", data_zoom="all"),
    ]
    find = tag(
        "form",
        tag("label", "Find a feature ", tag("input", type="search", id="heat-find")),
        tag("button", "Go", type="submit"),
        id="heat-search",
    )
    together = None
    if ordered:
        box = tag("input", type="checkbox", id="heat-order")
        together = tag("label", box, " related features side by side")
    return tag("div", *buttons, find, together, class_="controls")


def _caption(subject: Subject, findings: Findings) -> str:
    shown = findings.shown
    nothing = " The release shows no pair as related." if not len(shown.pairs) else ""
    left_out = (
        f" Only the {len(shown.pairs):,} strongest of {shown.total:,} values are in this page; no "
        f"other correlation is beyond {number(shown.cutoff, 2)}."
        if shown.cutoff is not None
        else ""
    )
    noise = int(np.count_nonzero(findings.noise(shown.pairs)))
    drowned = f" Grey cells with a question mark are noise, {counted(noise, 'pair')}: {NOISE}."
    everywhere = shown.total > _MOST_MIXED * subject.candidates and findings.rule == STRONGEST
    pale = " Pale cells may be noise." if everywhere or not findings.thresholded else ""
    from_zero = "" if subject.named else " Features are counted from 0."
    return (
        "What to see: each cell is a pair of features. Red (and +) ones vary together, blue (and "
        "\N{MINUS SIGN}) ones in opposite directions, the stronger the deeper; an empty cell is "
        "zero. The grey diagonal is each feature with itself. Seen from far, a cell shows the "
        f"strongest of many pairs.{nothing}{left_out}{pale if len(shown.pairs) else ''}"
        f"{drowned if noise else ''}{from_zero}"
    )


def heat_data(subject: Subject, findings: Findings, together: Array | None) -> dict[str, Any]:
    """Everything the map shows, arrays as text."""
    pairs, d = findings.shown.pairs, subject.n_features
    pairs = pairs.at(np.lexsort((pairs.columns, pairs.rows)))
    narrow = d <= 2**16
    starts = np.searchsorted(pairs.rows, np.arange(d + 1))
    noise = subject.release.noise_sd
    strongest = np.abs(pairs.values[~findings.noise(pairs)]).max(initial=0.0)
    return {
        "features": d,
        "names": list(subject.names) if subject.named else None,
        "narrow": narrow,
        "starts": _text(starts, "<u4"),
        "columns": _text(pairs.columns, "<u2" if narrow else "<u4"),
        "values": _text(_bounded(pairs.values), "<f4"),
        "limit": min(1.0, float(strongest or 1.0)),
        "cutoff": findings.shown.cutoff,
        "units": _text(findings.unit, "<f8"),
        "scales": _text(findings.scale, "<f8"),
        "variances": _text(findings.matrix.diagonal(), "<f8"),
        "varianceEnds": _ends(findings.variance_intervals, findings.deviation**2),
        "noise": None if noise is None else list(noise),
        "found": _found(findings),
        "order": None if together is None else _text(together, "<u4"),
    }


def _found(findings: Findings) -> dict[str, Any]:
    """The strongest pairs in order, with their intervals where there are any."""
    ends = findings.intervals
    most = 1_000 if ends is None else ends.shape[1]
    rows, columns = findings.found.rows[:most], findings.found.columns[:most]
    size = findings.deviation[rows] * findings.deviation[columns]
    return {"rows": _text(rows, "<u4"), "columns": _text(columns, "<u4"), "ends": _ends(ends, size)}


def _ends(ends: Array | None, size: Array) -> list[str] | None:
    """Ends of intervals over the standard deviations of their features."""
    if ends is None:
        return None
    return [_text(_bounded(end / size), "<f4") for end in ends]


def _bounded(values: Array) -> Array:
    return np.clip(values, -_LARGEST_FLOAT, _LARGEST_FLOAT)


def _text(values: Array, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def related_order(findings: Findings) -> Array | None:
    """Features with related ones side by side, or None where no order would help."""
    d, found = len(findings.scale), findings.found
    if d < 3 or not len(found) or findings.rule == STRONGEST:
        return None
    if len(found) > _MOST_MIXED * d * (d - 1) / 2:
        return None
    ones = np.ones(len(found))
    graph = sparse.csr_array((ones, (found.rows, found.columns)), shape=(d, d))
    graph = sparse.csr_array(graph + graph.T)
    near = csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)
    _, group = csgraph.connected_components(graph, directed=False)
    sizes = np.bincount(group)[group]
    position = np.empty(d, dtype=np.int64)
    position[near] = np.arange(d)
    return np.lexsort((position, group, -sizes))
