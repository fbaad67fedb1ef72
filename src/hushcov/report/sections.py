"""The report of a release: one page that needs no other file and no network.

The words are in `templates/report`. Here are the numbers and sentences that they take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._version import __version__
from hushcov._words import count, counted, finite, percent, typographic
from hushcov.exceptions import printable
from hushcov.fit.outlook import HERE, MULTIPLES, outlook
from hushcov.postprocess import is_noise, is_sparse, upper_pairs
from hushcov.release import Release
from hushcov.release.findings import error_bound, released_factors, spectrum
from hushcov.release.view import NOISE, UNRELIABLE, View
from hushcov.report.heat import BINS, condense_band, strongest_map
from hushcov.report.pages import Subject, check_pages, page, short, subject_of
from hushcov.report.svg import chart_svg, map_svg
from hushcov.text.description import (
    TAIL_CURE,
    TOO_STRONG,
    error_words,
    follower_words,
    noise_words,
    preparation_words,
    relation_words,
    verdict,
)
from hushcov.text.rows import (
    LEVEL_WORDS,
    UNKNOWN_CELL,
    budget,
    feature_rows,
    promise,
    quantile_rows,
)

#: Features beyond which a page has no map of all pairs, in a known order and else.
LARGE, LARGE_UNORDERED = 5_000, 100_000
#: Features in the table of variances.
MOST_LISTED = 1_000
_TOP = 10  # pairs in sentences
_MOST_DRAWN, _FEW = 120, 12  # features of a map, and of one that fits a phone
_LONGEST_AXIS = 22  # letters of a name beside it
_SEARCHED = 4_000  # pairs in which names are looked for, where there are very many features
_NARROWEST = 0.1  # correlation that the bars of the table reach at least
_HALF_BAR = 58.0  # pixels from zero to the end of a bar
_LONGEST_PART, _LONGEST_DATASET, _LONGEST_MECHANISM = 120, 80, 40  # characters

_STYLES = ("colours.css", "base.css", "report.css", "screens.css")
_PROGRAMS = ("details.js", "search.js")
_LARGE_PROGRAMS = ("details.js", "columns.js")


def write_report(path: str | Path, release: Release) -> Path:
    """Write the report of a release as one HTML file, and return its path.

    Needs the extra `report`.
    """
    Path(path).write_bytes(report_page(release).encode())
    return Path(path)


def report_page(release: Release) -> str:
    """Return what `write_report` writes: a function of the document alone."""
    check_pages()
    subject, made, found = subject_of(release), release.making.made, verdict(release)
    table, name = counted(subject.release.n_features, "feature"), release.making.dataset
    if name is not None:
        table = short(printable(name[:_LONGEST_PART]), _LONGEST_DATASET)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        view, most = subject.view, LARGE if release.in_order else LARGE_UNORDERED
        large = is_sparse(release.integers) and release.n_features > most  # for a map of all pairs
        data = search_data(subject) if large else None
        along = release.in_order and release.selected is not None and len(view.shown.pairs) > 0
        tiled = large or (along and release.n_features > _MOST_DRAWN)
        return page(
            "report.html.j2",
            styles=_STYLES,
            programs=_LARGE_PROGRAMS if large else _PROGRAMS,
            data=data,
            large=large,
            along=Along(subject) if along else None,
            searched=0 if data is None else len(data["entries"]),
            spread_rows=quantile_rows(view) if large else [],
            title=f"Private covariance of {table}",
            verdict=found,
            subject=subject,
            release=release,
            view=view,
            mechanism=short(release.name, _LONGEST_MECHANISM),
            warnings=release.warnings,
            promise=promise(release),
            assumed=assumed(subject),
            budget=(spent := budget(release)),
            spent_rows=[[short(each[0], _LONGEST_PART), *each[1:]] for each in spent["rows"]],
            structure=structure(subject),
            heat=None if tiled else heat_section(subject),
            negative="".join(words for _, words in subject.lines()[1:]),
            largest=largest_pairs(subject),
            variances=[] if large else feature_rows(view, subject.names, MOST_LISTED),
            spectrum=None if large else spectrum_section(view),
            theorem=(theorem := "smallest_accurate_n" in release.parameters),
            outlook=None if theorem or large else outlook_section(release, found.error),
            made=None if made is None else made[:19].replace("T", " "),
            version=__version__,
            level=LEVEL_WORDS,
            noise_words=NOISE,
            unreliable=UNRELIABLE,
            too_strong=TOO_STRONG,
            why_not=(
                "The interval may not hold: most of the variance of a feature with values far away "
                f"may have been cut off. {TAIL_CURE}"
            ),
        )


def largest_pairs(subject: Subject) -> dict[str, Any]:
    """Return the strongest pairs in sentences and numbers, and the correlation that bars reach.

    `bar` has the places of the ends and of the correlation in pixels from zero.
    """
    from markupsafe import Markup, escape

    view, pairs, release = subject.view, subject.strongest, subject.release
    top = [pair for pair in pairs[:_TOP] if pair.correlation is not None]
    sizes = [abs(pair.correlation or 0.0) for pair in top]
    sizes += [abs(end) for pair in top for end in pair.correlation_interval or ()]
    reach = min(1.0, max(_NARROWEST, *sizes, 0.0))
    rows = []
    for pair in pairs:
        i, j = pair.features
        unit, bar = float(view.unit[i] * view.unit[j]), None
        if pair.correlation_interval is not None and pair.correlation is not None:
            ends = np.clip([*pair.correlation_interval, pair.correlation], -reach, reach)
            bar = tuple((_HALF_BAR * ends / reach).tolist())
        noise = None if pair.noise_sd is None or unit == 0 else pair.noise_sd / unit
        names = subject.names[i], subject.names[j]
        words = escape(typographic(relation_words(release, pair)))
        said = words.format(*(Markup("<bdi>{}</bdi>").format(name) for name in names))
        rows.append({"pair": pair, "names": names, "sentence": said, "noise": noise, "bar": bar})
    return {
        "found": subject.lines()[0][1],
        "first": rows[:_TOP],
        "more": rows[_TOP:],
        "rest": max(len(view.found), view.n_found) - len(rows),
        "noise": any(pair.noise for pair in pairs),
        "noise_words": noise_words(release),
        "reach": reach,
        "uncovered": any(pair.status == UNRELIABLE for pair in pairs),
        "outside": any(pair.outside for pair in pairs),
    }


def heat_section(subject: Subject) -> dict[str, Any]:
    """Return the picture of the correlations, or of those of the strongest pairs."""
    found = strongest_map(subject.view, _MOST_DRAWN)
    names = [short(subject.names[i], _LONGEST_AXIS) for i in found.order.tolist()]
    label = f"Correlations of {counted(len(names), 'feature')}"
    kind = "map small" if len(names) <= _FEW else "map"
    return {
        "picture": map_svg(found.cells, found.limit, label, names=names, kind=kind),
        "n_shown": len(names),
        "limit": found.limit,
        "n_noise": int(np.isnan(found.cells[np.triu_indices(len(names), 1)]).sum()),
    }


def search_data(subject: Subject) -> dict[str, Any]:
    """Return the strongest pairs of very many features, in which the page looks for names."""
    places, entries = subject.release.positions, []
    for pair in subject.view.listed(_SEARCHED).pairs():
        i, j = pair.features
        ends = pair.correlation_interval
        inside = None if ends is None else [round(end, 4) for end in ends]
        where = None if places is None else [int(places[i]), int(places[j])]
        shown = None if pair.correlation is None else round(pair.correlation, 4)
        entries.append([subject.names[i], subject.names[j], shown, inside, where])
    return {"entries": entries}


def spectrum_section(view: View) -> dict[str, Any] | None:
    """Return the largest eigenvalues, how far errors reach, and how many are below zero."""
    found = spectrum(view)
    if found is None:
        return None
    reach, every = error_bound(view), found.values
    values = np.concatenate([every, found.low])
    low, high = min(0.0, float(every.min())), max(1.2, float(every.max()))
    chart = chart_svg(
        np.arange(1.0, len(every) + 1),
        every,
        "Eigenvalues of the released correlations, the largest first",
        ("rank of the eigenvalue", "eigenvalue (no unit)"),
        (0.5, len(every) + 0.5, 1.05 * low, 1.08 * high),
        level=(1.0, "unrelated features: 1"),
        shaded=None if reach is None else (1 - reach, 1 + reach),
        joined=False,
    )
    return {
        "found": found,
        "reach": reach,
        "sparse": is_sparse(view.matrix),
        "above": 0 if reach is None else int(np.count_nonzero(every > 1 + reach)),
        "negative": int(np.count_nonzero(values < -1e-9)),
        "smallest": float(values.min()),
        "chart": chart,
    }


def outlook_section(release: Release, error: float | None) -> dict[str, Any] | None:
    """Return the errors to expect of other numbers of records, as a table."""
    found = None if release.of_candidates else outlook(release, error)
    if found is None:
        return None
    rows = [
        [
            f"\N{MULTIPLICATION SIGN} {multiple:g}",
            count(n),
            finite(off, 2),
            UNKNOWN_CELL if limit is None or limit >= 1 else finite(limit, 2),
        ]
        for multiple, n, off, limit in zip(
            MULTIPLES, found.records, found.errors, found.limits, strict=True
        )
    ]
    head = ["multiple", "records", "error", "smallest correlation found"]
    if all(limit is None for limit in found.limits):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return {
        "mechanism": found.mechanism,
        "own": found.mechanism == release.name,
        "rough": found.rough,
        "error": found.errors[HERE],
        "table": (head, rows, HERE),
    }


def assumed(subject: Subject) -> dict[str, Any]:
    """Return public inputs that are numbers, and how many records are complete."""
    making, listed = subject.release.making, []
    for name, value in subject.release.inputs.items():
        if isinstance(value, bool):
            listed.append((name, str(value)))
        elif isinstance(value, int):
            small = abs(value) < 10**300
            listed.append((name, typographic(count(value)) if small else "out of range"))
        elif isinstance(value, float):
            listed.append((name, typographic(finite(value, 4))))
    return {
        "inputs": listed,
        "complete": making.complete_words,
        "found": preparation_words(subject.release),
        "counted": making.counted_words,
    }


def structure(subject: Subject) -> dict[str, Any] | None:
    """Return kind, reason, factors and error estimate; None where no structure was looked for."""
    release, found = subject.release, subject.release.making.structure
    if found is None:
        return None
    factors = [
        [f"{place}", percent(each.share), follower_words(subject.names, each)]
        for place, each in enumerate(released_factors(release), start=1)
    ]
    words, error = subject.kind(), error_words(release)
    return {"kind": found.kind, "words": words, "factors": factors, "error_words": error}


# ---- columns in a known order ----

_DECAY = 500  # distances of the curve
_SIDE = 40  # columns of a window
_WINDOWS = 4
_HALF_NORMAL = math.sqrt(2 / math.pi)  # mean size of noise over its deviation
_MOST_BORDERS = 30  # chromosomes whose ends are drawn
_UPWARDS = "mean size of a correlation"


@dataclass(frozen=True, eq=False)
class Along:
    """Contents of the section on the order."""

    subject: Subject

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs with their correlations; those that are noise are left out."""
        rows, columns, values = upper_pairs(self.subject.view.matrix)
        factors = np.where(self.subject.view.lost, 0.0, self.subject.view.factors)
        values = values * (factors[rows] * factors[columns])
        good = ~is_noise(values) & (values != 0)
        return rows[good], columns[good], values[good]

    @cached_property
    def reach(self) -> int:
        """Largest distance of released pairs, in columns."""
        return max(1, self.subject.release.bandwidth or 1)

    @property
    def by_distance(self) -> list[tuple[int, int, float]]:
        """For each distance in columns how many pairs there are, and their mean size."""
        rows, columns, values = self._pairs
        lag = columns - rows
        near = lag <= _DECAY
        counts = np.bincount(lag[near], minlength=2)
        sums = np.bincount(lag[near], np.abs(values[near]), minlength=2)
        there = np.flatnonzero(counts)
        return [(int(k), int(counts[k]), float(sums[k] / counts[k])) for k in there]

    @cached_property
    def noise(self) -> float | None:
        """The mean size that noise and sampling alone give a correlation."""
        release = self.subject.release
        if release.noise_sd is None or release.n_sampled is None:
            return None
        variance = release.variances
        usual = float(np.median(variance[variance > 0])) if (variance > 0).any() else 1.0
        return _HALF_NORMAL * math.hypot(release.noise_sd[0] / usual, release.n_sampled**-0.5)

    @property
    def _level(self) -> tuple[float, str] | None:
        return None if self.noise is None else (self.noise, "noise alone")

    @property
    def decay(self) -> str | None:
        """The curve of mean sizes by distance."""
        found = np.array(self.by_distance).T
        if found.size < 6:
            return None
        top = 1.15 * max(float(found[2].max()), self.noise or 0.0) or 1.0
        ends = found[0].min() - 0.5, found[0].max() + 0.5, 0.0, top
        titles, label = ("columns apart", _UPWARDS), "Mean size of correlations by distance"
        return chart_svg(found[0], found[2], label, titles, ends, level=self._level)

    @property
    def order(self) -> str:
        """Mean sizes along the columns, with the ends of chromosomes."""
        rows, columns, values = self._pairs
        release, d = self.subject.release, self.subject.release.n_features
        bins = min(BINS, d)
        place = (rows + columns) // 2 * bins // d
        counts = np.bincount(place, minlength=bins)
        sums = np.bincount(place, np.abs(values), minlength=bins)
        means = np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
        top = 1.2 * max(float(np.nan_to_num(means).max()), self.noise or 0.0) or 1.0
        along = release.chromosomes or ()
        borders = [i for i in range(1, len(along)) if along[i] != along[i - 1]]
        return chart_svg(
            (np.arange(bins) + 0.5) * d / bins,
            means,
            "Mean size of correlations along the columns",
            ("column" + "; lines: chromosomes" * bool(along), _UPWARDS),
            (0.0, float(d), 0.0, top),
            level=self._level,
            borders=borders if len(borders) < _MOST_BORDERS else (),
            dots=False,
        )

    @property
    def band(self) -> dict[str, Any]:
        """The band seen from far: along the columns, by distance, the strongest of many pairs."""
        cells = condense_band(*self._pairs, self.subject.release.n_features, self.reach)
        limit = float(np.abs(cells).max(initial=0.0)) or 1.0
        high, wide = cells.shape
        label = "Correlations along the columns, by distance"
        return {
            "picture": map_svg(cells, limit, label, kind="tile band"),
            "limit": limit,
            "columns": math.ceil(self.subject.release.n_features / wide),
            "lags": math.ceil(self.reach / high),
        }

    @property
    def tiles(self) -> list[dict[str, Any]]:
        """The first columns, and those around the strongest pairs, each as a small map."""
        found, d = self.subject.view.found, self.subject.release.n_features
        starts = [0]
        for i in found.rows[:2_000].tolist():
            start = min(max(0, i - _SIDE // 2), max(0, d - _SIDE))
            if all(abs(start - other) >= 2 * _SIDE for other in starts):
                starts.append(start)
            if len(starts) == _WINDOWS:
                break
        return [self._tile(start, min(d, start + _SIDE)) for start in starts]

    def _tile(self, start: int, end: int) -> dict[str, Any]:
        release, names = self.subject.release, self.subject.names
        words = f"columns {start:,} to {end - 1:,}"
        if release.chromosomes is not None:
            words += f", chromosome {release.chromosomes[start]}"
        if release.positions is not None:
            words += f", positions {release.positions[start]:,} to {release.positions[end - 1]:,}"
        cells = self.subject.view.correlation_matrix(np.arange(start, end))
        label = f"Correlations of {end - start} columns, {words}"
        picture = map_svg(cells, 1.0, label, kind="tile")
        return {"names": (names[start], names[end - 1]), "where": words, "picture": picture}
