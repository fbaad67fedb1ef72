"""Pairs of features: the strongest ones with their intervals, and data of the heat map."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov.postprocess import is_noise
from hushcov.release.findings import Findings
from hushcov.report.order import opened_features, related_order
from hushcov.report.subject import Subject

_LISTED, _MOST_LISTED = 20, 200
_OPENED = 120  # columns of a known order that a map shows at first
_SEARCHED = 4_000  # pairs in which names are looked for, where there are very many features
_LARGEST_FLOAT = 1e30  # far from where floats of 32 bits end
_NARROWEST = 0.1  # correlation that the bars of the table reach at least
_FARTHEST = 1.5  # and at most: noise puts some beyond 1
_HALF_BAR = 118.0  # pixels from zero to the end of a bar

Array = npt.NDArray[Any]


# ---- the strongest pairs ----


@dataclass(frozen=True)
class Row:
    """A pair in the table; `interval` and `covariance` in the unit of the data.

    `ends` is the interval of the correlation, and `noise` the deviation of the
    noise over them. `bar` has the places of the ends and of the correlation in pixels from zero.
    """

    features: tuple[int, int]
    names: tuple[str, str]
    correlation: float
    ends: tuple[float, float] | None
    noise: float | None
    covariance: float
    interval: tuple[float, float] | None
    outside: bool
    holds: bool
    drowned: bool
    bar: tuple[float, float, float] | None


@dataclass(frozen=True)
class Largest:
    """The strongest pairs, `rest` more that are not listed, and the correlation bars reach."""

    first: list[Row]
    more: list[Row]
    rest: int
    noise: bool
    reach: float


def largest_pairs(subject: Subject, findings: Findings) -> Largest:
    """What the section on the strongest relations shows."""
    listed = min(_MOST_LISTED, len(findings.found))
    reach = _reach(findings, listed)
    outside = findings.outside
    rows = [_row(subject, findings, place, outside, reach) for place in range(listed)]
    return Largest(
        first=rows[:_LISTED],
        more=rows[_LISTED:],
        rest=findings.n_found - listed,
        noise=any(row.drowned for row in rows),
        reach=reach,
    )


def _reach(findings: Findings, listed: int) -> float:
    """A correlation that holds all bars, or nearly."""
    found = findings.found.at(slice(0, listed))
    sizes = [np.abs(findings.correlations(found))]
    if findings.correlation_intervals is not None:
        sizes.append(np.abs(findings.correlation_intervals[:, :listed]).ravel())
    every = np.concatenate(sizes)
    every = every[np.isfinite(every)]
    most = _FARTHEST if is_noise(sizes[0]).any() else 1.0
    return float(min(most, max(_NARROWEST, every.max(initial=0.0))))


def _size(findings: Findings, i: int, j: int) -> float:
    """The product of two released standard deviations, in units of the scales."""
    return float(findings.deviation[i] * findings.deviation[j])


def _row(subject: Subject, findings: Findings, place: int, outside: Array, reach: float) -> Row:
    found = findings.found.at(slice(place, place + 1))
    i, j = found.places[0]
    ends, scale = interval(findings, place), float(findings.scale[i] * findings.scale[j])
    size, noise_sd = _size(findings, i, j), subject.release.noise_sd
    value = float(findings.correlations(found)[0])
    drowned = bool(is_noise(np.array(value)))
    over, related = None, findings.correlation_intervals
    if ends is not None and related is not None and np.isfinite(related[:, place]).all():
        over = float(related[0, place]), float(related[1, place])
    bar = None
    if over is not None and np.isfinite(value):
        bar = tuple(_HALF_BAR * np.clip([*over, value], -reach, reach) / reach)
    return Row(
        features=(i, j),
        names=(subject.names[i], subject.names[j]),
        correlation=value,
        ends=over,
        noise=None if noise_sd is None or size == 0 else noise_sd[0] / size,
        covariance=float(found.values[0]) * float(findings.unit[i] * findings.unit[j]),
        interval=None if ends is None else (ends[0] * scale, ends[1] * scale),
        outside=ends is not None and bool(outside[place]),
        holds=bool(subject.holds[i] and subject.holds[j]),
        drowned=drowned,
        bar=bar,
    )


def interval(findings: Findings, place: int) -> tuple[float, float] | None:
    """The interval of a found pair in units of the scales."""
    ends = findings.intervals
    if ends is None or place >= ends.shape[1] or not np.isfinite(ends[:, place]).all():
        return None
    return float(ends[0, place]), float(ends[1, place])


# ---- the heat map ----


def heat_data(subject: Subject, findings: Findings) -> dict[str, Any]:
    """Everything the map shows, arrays as text."""
    pairs, d = findings.shown.pairs, subject.n_features
    pairs = pairs.at(np.lexsort((pairs.columns, pairs.rows)))
    narrow = d <= 2**16
    starts = np.searchsorted(pairs.rows, np.arange(d + 1))
    noise = subject.release.noise_sd
    strongest = np.abs(pairs.values[~findings.noise(pairs)]).max(initial=0.0)
    found = findings.found
    order, opened = np.arange(d), min(d, _OPENED)
    if not subject.release.in_order:  # a known order is kept
        order = related_order(d, found.rows, found.columns, findings.correlation)
        opened = opened_features(d, found.rows, found.columns)
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
        "order": None if np.array_equal(order, np.arange(d)) else _text(order, "<u4"),
        "opened": opened,
        "unresolved": list(subject.release.making.unresolved),
        "uncovered": np.flatnonzero(~subject.holds).tolist(),
    }


def search_data(subject: Subject, findings: Findings) -> dict[str, Any]:
    """The strongest pairs of very many features, in which the page looks for names."""
    found, ends = findings.found.at(slice(0, _SEARCHED)), findings.correlation_intervals
    values = findings.correlations(found)
    places = subject.release.positions
    entries = []
    for at, ((i, j), value) in enumerate(zip(found.places, values.tolist(), strict=True)):
        inside = None
        if ends is not None and at < ends.shape[1] and np.isfinite(ends[:, at]).all():
            inside = [round(float(end), 4) for end in ends[:, at]]
        where = None if places is None else [int(places[i]), int(places[j])]
        shown = round(value, 4) if np.isfinite(value) else None
        entries.append([subject.names[i], subject.names[j], shown, inside, where])
    return {"entries": entries}


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
