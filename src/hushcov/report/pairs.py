"""Pairs of features: the largest correlations with their intervals, and data of the heat map."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from hushcov.postprocess import is_noise
from hushcov.release.findings import STRONGEST, Findings
from hushcov.report.charts import Whisker, interval_chart
from hushcov.report.pages import correlation, number, short
from hushcov.report.subject import Subject

if TYPE_CHECKING:
    from markupsafe import Markup

_DRAWN, _LISTED, _MOST_LISTED = 15, 20, 200
_SHORT = 12  # characters of a name in the chart
_LARGEST_FLOAT = 1e30  # far from where floats of 32 bits end
_MOST_MIXED = 0.5  # share of pairs from which on no order brings related features together

Array = npt.NDArray[Any]


# ---- the largest correlations ----


@dataclass(frozen=True)
class Row:
    """A pair in the table; numbers in the unit of the data."""

    features: tuple[int, int]
    names: tuple[str, str]
    correlation: float
    covariance: float
    interval: tuple[float, float] | None
    outside: bool


@dataclass(frozen=True)
class Largest:
    """The strongest pairs, `rest` more that are not listed, and a chart of the first."""

    first: list[Row]
    more: list[Row]
    rest: int
    noise: bool
    drawn: int
    drawn_noise: bool
    chart: Markup | None


def largest_pairs(subject: Subject, findings: Findings) -> Largest:
    """What the section on the largest correlations shows."""
    listed = min(_MOST_LISTED, len(findings.found))
    outside = findings.outside
    rows = [_row(subject, findings, place, outside) for place in range(listed)]
    noise = findings.noise(findings.found.at(slice(0, listed)))
    drawn = min(_DRAWN, listed)
    chart = None
    if drawn and findings.intervals is not None:
        chart = interval_chart([_whisker(findings, at, rows[at]) for at in range(drawn)])
    return Largest(
        first=rows[:_LISTED],
        more=rows[_LISTED:],
        rest=findings.n_found - listed,
        noise=bool(noise.any()),
        drawn=drawn,
        drawn_noise=bool(noise[:drawn].any()),
        chart=chart,
    )


def _row(subject: Subject, findings: Findings, place: int, outside: Array) -> Row:
    found = findings.found.at(slice(place, place + 1))
    i, j = found.places[0]
    ends, size = interval(findings, place), float(findings.scale[i] * findings.scale[j])
    return Row(
        features=(i, j),
        names=(subject.names[i], subject.names[j]),
        correlation=float(findings.correlations(found)[0]),
        covariance=float(found.values[0]) * float(findings.unit[i] * findings.unit[j]),
        interval=None if ends is None else (ends[0] * size, ends[1] * size),
        outside=ends is not None and bool(outside[place]),
    )


def interval(findings: Findings, place: int) -> tuple[float, float] | None:
    """The interval of a found pair in units of the scales."""
    ends = findings.intervals
    if ends is None or place >= ends.shape[1] or not np.isfinite(ends[:, place]).all():
        return None
    return float(ends[0, place]), float(ends[1, place])


def _whisker(findings: Findings, place: int, row: Row) -> Whisker:
    times = " \N{MULTIPLICATION SIGN} "
    title = f"{times.join(row.names)}: {correlation(row.correlation)}"
    ends = interval(findings, place)
    if ends is not None:
        i, j = row.features
        size = float(findings.deviation[i] * findings.deviation[j])
        ends = (ends[0] / size, ends[1] / size)
        title += f", from {number(ends[0])} to {number(ends[1])}"
    names = times.join(short(name, _SHORT) for name in row.names)
    return Whisker(names, row.correlation, ends, bool(is_noise(np.array(row.correlation))), title)


# ---- the heat map ----


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
    related = sparse.csr_array((ones, (found.rows, found.columns)), shape=(d, d))
    related = sparse.csr_array(related + related.T)
    near = csgraph.reverse_cuthill_mckee(related, symmetric_mode=True)
    _, group = csgraph.connected_components(related, directed=False)
    sizes = np.bincount(group)[group]
    position = np.empty(d, dtype=np.int64)
    position[near] = np.arange(d)
    return np.lexsort((position, group, -sizes))
