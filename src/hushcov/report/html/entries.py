"""The largest correlations, with intervals where the noise is known."""

from __future__ import annotations

import math

import numpy as np

from hushcov.postprocess import is_noise
from hushcov.release.findings import (
    BEYOND,
    KEPT,
    LEVEL,
    NOISE,
    SELECTED,
    STRONGEST,
    Findings,
)
from hushcov.report.html.markup import (
    Markup,
    correlation_text,
    counted,
    figure,
    join,
    number,
    short,
    table,
    tag,
)
from hushcov.report.html.plot import Axis, picture, text
from hushcov.report.html.subject import Subject

_DRAWN, _LISTED, _MOST_LISTED = 15, 20, 200
_WIDTH, _LEFT, _ROW, _TOP = 440, 176, 24, 30
_SHORT = 12  # characters of a name in the picture
_FARTHEST = 1.5  # correlation that the picture reaches where noise puts some beyond 1
_OUTSIDE = "*"  # marks an estimate outside its interval


def entries_section(subject: Subject, findings: Findings) -> Markup:
    """The strongest pairs: a picture, a table, and what the intervals mean."""
    if not len(findings.found):
        return tag("p", "No pair counts as found: there is none to list.")
    first = range(min(_LISTED, len(findings.found)))
    more = range(len(first), min(_MOST_LISTED, len(findings.found)))
    rest = findings.n_found - len(first) - len(more)
    return join(
        None if findings.intervals is None else _forest(subject, findings),
        _table(subject, findings, first, "The strongest pairs; a name leads to the heat map"),
        _more(subject, findings, more) if more else None,
        tag("p", f"{rest:,} weaker ones are not listed; see the heat map.") if rest else None,
        tag("p", _remarks(findings)),
    )


def _more(subject: Subject, findings: Findings, places: range) -> Markup:
    grid = _table(subject, findings, places, "Weaker pairs")
    return tag("details", tag("summary", f"{len(places):,} weaker pairs"), grid)


def found_words(subject: Subject, findings: Findings) -> str:
    """How pairs came to count as found, and how many did."""
    number_of = f"{findings.n_found:,} of {subject.candidates:,} pairs of features"
    limit = number(findings.threshold, 2)
    return {
        KEPT: f"{number_of} were found: they were released, and their values are beyond {limit} in "
        "units of the features' scales, which counts noise and sampling error.",
        SELECTED: f"{number_of} were found: the mechanism selected them, and no other pair has a "
        "value.",
        BEYOND: f"{number_of} are counted as found: their values are beyond {limit} in units of "
        "the features' scales, which noise alone hardly reaches. All pairs have a released value.",
        STRONGEST: f"All {subject.candidates:,} pairs have a released value, and this mechanism "
        "has no single noise level: which of them are noise cannot be said. The strongest "
        f"{findings.n_found:,} are taken here.",
    }[findings.rule]


def _remarks(findings: Findings) -> str:
    noise = findings.noise(findings.found.at(slice(0, _MOST_LISTED))).any()
    drowned = f"Noise is {NOISE}: noise is as large there as what it was added to. "
    strongest = "The strongest of many estimates tend to be too strong."
    strongest = drowned * bool(noise) + strongest
    if findings.intervals is None:
        return f"No intervals: this mechanism has no single noise level. {strongest}"
    passed = ", given that the pair passed the threshold" if findings.threshold > 0 else ""
    return (
        f"An interval counts privacy noise and sampling error (as for normal records), and covers "
        f"the true covariance with probability {100 * LEVEL:g} %{passed}. What bounding the "
        "records takes off large values is not counted: with few features and high correlations, "
        "coverage is a few percent lower, and for skewed columns or columns of mostly zeros it "
        f"can be far lower.{_outside(findings)} {strongest}"
    )


def _outside(findings: Findings) -> str:
    """Why some estimates lie outside their own intervals, if there are such."""
    if not findings.outside.any():
        return ""
    return (
        f" {_OUTSIDE} An estimate outside its interval barely passed the threshold, which favours "
        "those that noise made larger, or was moved when the matrix was made positive "
        "semidefinite. Believe the interval."
    )


def interval(findings: Findings, place: int) -> tuple[float, float] | None:
    """The interval of a found pair in units of the scales."""
    ends = findings.intervals
    if ends is None or place >= ends.shape[1] or not np.isfinite(ends[:, place]).all():
        return None
    return float(ends[0, place]), float(ends[1, place])


def _table(subject: Subject, findings: Findings, places: range, caption: str) -> Markup:
    rows = []
    found, unit, scale = findings.found, findings.unit, findings.scale
    correlation, outside = findings.correlation, findings.outside
    for place in places:
        i, j = int(found.rows[place]), int(found.columns[place])
        covariance = float(found.values[place]) * (unit[i] * unit[j])
        row = [_link(subject, i, j), correlation_text(float(correlation[place]))]
        row.append(number(covariance))
        if findings.intervals is not None:
            ends = interval(findings, place)
            size = float(scale[i] * scale[j])
            row.append(
                "\N{EN DASH}"
                if ends is None
                else f"{number(ends[0] * size)} to {number(ends[1] * size)}"
                + _OUTSIDE * bool(outside[place])
            )
        rows.append(row)
    head = ["features", "correlation", "covariance"]
    head += [] if findings.intervals is None else [f"{100 * LEVEL:g} % interval of the covariance"]
    return table(caption, head, rows)


def _link(subject: Subject, i: int, j: int) -> Markup:
    """The names of a pair, which lead to it in the heat map."""
    names = join(
        tag("bdi", subject.names[i]), " \N{MULTIPLICATION SIGN} ", tag("bdi", subject.names[j])
    )
    return tag("a", names, href="#correlations", data_pair=f"{i} {j}")


def _forest(subject: Subject, findings: Findings) -> Markup:
    """Correlations with their intervals, one below the other."""
    shown = min(_DRAWN, len(findings.found))
    height = _TOP + shown * _ROW + 44
    x = _reach(findings, shown)
    bottom = _TOP + shown * _ROW
    drawn = []
    for value in x.ticks():
        at = x.at(value)
        kind = "reference" if value == 0 else "grid"
        drawn.append(tag("line", x1=at, x2=at, y1=_TOP - 8, y2=bottom, class_=kind))
        drawn.append(text(at, bottom + 16, number(value), anchor="middle"))
    for place, (i, j) in enumerate(findings.found.places[:shown]):
        drawn.append(_whisker(subject, findings, place, (i, j), x))
    middle = (_LEFT + _WIDTH) / 2
    drawn.append(
        text(middle, bottom + 34, "correlation (no unit)", anchor="middle", class_="label")
    )
    drawn.append(text(4, 14, "pair of features", class_="label"))
    noise = findings.noise(findings.found.at(slice(0, shown))).any()
    beyond = " An empty dot is beyond 1, where only noise puts it." if noise else ""
    caption = (
        "What to see: the dot is the released correlation, the line its "
        f"{100 * LEVEL:g} % interval. A line that crosses zero says that even the sign is not "
        f"certain.{beyond} Shown: the {counted(shown, 'strongest pair')}."
    )
    label = "Correlations of the strongest pairs with their intervals"
    return figure(picture(_WIDTH, height, label, *drawn), caption)


def _reach(findings: Findings, shown: int) -> Axis:
    """An axis that holds zero and all that is drawn, within -1 and 1 but for noise."""
    low, high = 0.0, 0.0
    noise = findings.noise(findings.found.at(slice(0, shown))).any()
    end = _FARTHEST if noise else 1.0
    for place in range(shown):
        i, j = int(findings.found.rows[place]), int(findings.found.columns[place])
        size = float(findings.deviation[i] * findings.deviation[j])
        ends = interval(findings, place) or (0.0, 0.0)
        values = (float(findings.found.values[place]), ends[0] / size, ends[1] / size)
        low, high = min(low, *values), max(high, *values)
    room = 0.04 * (high - low)
    return Axis(max(-end, low - room), min(end, high + room), _LEFT, _WIDTH - 14)


def _whisker(
    subject: Subject, findings: Findings, place: int, pair: tuple[int, int], x: Axis
) -> Markup:
    i, j = pair
    y = _TOP + (place + 0.5) * _ROW
    value = float(findings.correlation[place])
    names = [subject.names[each] for each in pair]
    label = " \N{MULTIPLICATION SIGN} ".join(short(name, _SHORT) for name in names)
    parts = [text(_LEFT - 12, y + 4, label, anchor="end")]
    said = f"{names[0]} \N{MULTIPLICATION SIGN} {names[1]}: {correlation_text(value)}"
    if math.isnan(value):
        parts.append(text(_LEFT, y + 4, "none: noise"))
        return tag("g", tag("title", said), *parts)
    ends = interval(findings, place)
    if ends is not None:
        size = float(findings.deviation[i] * findings.deviation[j])
        low, high = (x.at(end / size) for end in ends)
        ends_drawn = f"M{low:.1f} {y - 5}v10M{high:.1f} {y - 5}v10M{low:.1f} {y}H{high:.1f}"
        parts.append(tag("path", d=ends_drawn, class_="whisker"))
        said += f", from {number(ends[0] / size)} to {number(ends[1] / size)}"
    kind = "dot noise" if is_noise(np.array(value)) else "dot"
    parts.append(tag("circle", cx=x.at(value), cy=y, r=3.5, class_=kind))
    return tag("g", tag("title", said), *parts)
