"""The report of a release: one page that needs no other file and no network.

The words are in `templates/report`. Here is what they say it with: numbers from the release, from
public inputs, and from the sections that have modules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._version import __version__
from hushcov._words import counted, digits_beside
from hushcov.candidates import Candidates
from hushcov.exceptions import HushcovError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.kernel.accounting import (
    RECORD,
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    Pure,
    TotalVariation,
    compose,
)
from hushcov.kernel.accounting.guarantee import (
    change_words,
    fails_words,
    guess_words,
    in_percent,
    largest_factor,
)
from hushcov.planning import Request, comparable, compare, forecast
from hushcov.postprocess import Matrix, is_noise, is_sparse, multiply_outer, upper_pairs
from hushcov.postprocess.structure import tridiagonals
from hushcov.release import Part, Release, named_parts
from hushcov.release.description import (
    UNRESOLVED,
    error_words,
    noise_words,
    not_found,
    preparation_words,
    relation_words,
    released_factors,
    verdict,
)
from hushcov.release.pairs import LEVEL, NOISE, UNRELIABLE, View, ratio
from hushcov.report.charts import decay_chart, order_chart, spectrum_chart
from hushcov.report.heat import BINS, condense_band, map_svg, strongest_map
from hushcov.report.layout import graph
from hushcov.report.pages import (
    LARGEST,
    Subject,
    check_pages,
    count,
    number,
    page,
    percent,
    printable,
    short,
    subject_of,
)

if TYPE_CHECKING:
    from markupsafe import Markup

_TOP = 10  # pairs in sentences
_MOST_DRAWN, _FEW = 120, 12  # features of a map, and of one that fits a phone
_LONGEST_AXIS = 22  # letters of a name beside it
_SEARCHED = 4_000  # pairs in which names are looked for, where there are very many features
_NARROWEST = 0.1  # correlation that the bars of the table reach at least
_HALF_BAR = 58.0  # pixels from zero to the end of a bar


# ---- the strongest pairs ----


def largest_pairs(subject: Subject) -> dict[str, Any]:
    """Return the strongest pairs in sentences and numbers, and the correlation that bars reach.

    `bar` has the places of the ends and of the correlation in pixels from zero.
    """
    from markupsafe import Markup, escape

    view, pairs, release = subject.view, subject.found.strongest, subject.release
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
        words = escape(relation_words(release, pair).replace(" -", " \N{MINUS SIGN}"))
        said = words.format(*(Markup("<bdi>{}</bdi>").format(name) for name in names))
        rows.append({"pair": pair, "names": names, "sentence": said, "noise": noise, "bar": bar})
    return {
        "found": subject.found.lines()[0][1],
        "first": rows[:_TOP],
        "more": rows[_TOP:],
        "rest": max(len(view.found), view.n_found) - len(rows),
        "noise": any(pair.noise for pair in pairs),
        "noise_words": noise_words(release),
        "reach": reach,
        "uncovered": any(pair.status == UNRELIABLE for pair in pairs),
        "outside": any(pair.outside for pair in pairs),
    }


# ---- the heat map ----


def heat_section(subject: Subject) -> dict[str, Any]:
    """Return the picture of the correlations, or of those of the strongest pairs."""
    from markupsafe import Markup

    found = strongest_map(subject.view, _MOST_DRAWN)
    names = [short(subject.names[i], _LONGEST_AXIS) for i in found.order.tolist()]
    label = f"Correlations of {counted(len(names), 'feature')}"
    kind = "map small" if len(names) <= _FEW else "map"
    return {
        "picture": Markup(map_svg(found.cells, found.limit, label, names=names, kind=kind)),
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


# ---- variances ----

MOST_LISTED = 1_000  # features in the table
_QUANTILES = (
    *((0.0, "the smallest"), (0.01, "1 % are below"), (0.25, "25 % are below")),
    *((0.5, "half are below"), (0.75, "75 % are below"), (0.99, "99 % are below")),
    (1.0, "the largest"),
)
_NONE, _UNCOVERED = "\N{EN DASH}", " \N{DAGGER}"


@dataclass(frozen=True)
class Spread:
    """A feature in words: its mean and its standard deviation with intervals, and its variance.

    `mean_error` is the standard error of the mean.
    """

    name: str
    mean: str
    mean_ends: str
    mean_error: str
    deviation: str
    deviation_ends: str
    variance: str


def spreads(subject: Subject) -> list[Spread]:
    """Return the first features, in the order of the table."""
    release, table, found = subject.release, subject.view.variances(), []
    lost, unresolved = set(not_found(release)), set(release.making.unresolved)
    roots, low_roots, high_roots = table.deviations
    means = subject.view.means()
    for i in range(min(subject.n_features, MOST_LISTED)):
        name, value, mean = subject.names[i], table.variance[i], _NONE
        error = float(means.standard_error[i])
        digits = digits_beside(float(means.mean[i]), error, 3)
        if release.location is not None:
            mean = UNRESOLVED if i in lost else number(float(release.location[i]), digits)
        mean_ends = mean_error = _NONE
        if np.isfinite([means.lower[i], means.upper[i]]).all():
            ends = (number(float(each[i]), digits) for each in (means.lower, means.upper))
            mean_ends, mean_error = " to ".join(ends), number(error, 2)
        if i in unresolved:
            found.append(Spread(name, mean, _NONE, _NONE, UNRESOLVED, _NONE, UNRESOLVED))
            continue
        words = number(value) + (": noise" if value < 0 else "")
        root, root_ends = number(roots[i]) if value >= 0 else UNRESOLVED, _NONE
        if np.isfinite([table.lower[i], table.upper[i]]).all():
            mark = _UNCOVERED if table.status[i] == UNRELIABLE else ""
            root_ends = f"{number(low_roots[i])} to {number(high_roots[i])}{mark}"
        found.append(Spread(name, mean, mean_ends, mean_error, root, root_ends, words))
    return found


def spread_rows(view: View) -> list[list[str]]:
    """Return standard deviations of very many features: quantiles, in words."""
    deviations = view.variances().deviations[0]
    found = deviations[deviations > 0]
    if not len(found):
        return []
    levels = np.quantile(found, [share for share, _ in _QUANTILES])
    return [
        [words, number(float(level)), number(float(level) ** 2)]
        for (_, words), level in zip(_QUANTILES, levels, strict=True)
    ]


# ---- eigenvalues ----

_ALL = 1_000  # features up to which every eigenvalue is computed
_LARGEST, _SMALLEST = 30, 10  # eigenvalues that are looked for where there are more features
_LANCZOS_STEPS = 60
_PRECISE = 0.001  # of an eigenvalue, as a share of the largest
_LARGEST_FACTOR = 1e150  # of variances; products of two stay in the range of doubles


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Eigenvalues from the largest on; `low` are the smallest ones where there is a gap."""

    values: FloatArray
    low: FloatArray
    n_features: int

    @property
    def complete(self) -> bool:
        """Whether these are all eigenvalues."""
        return len(self.values) == self.n_features


def spectrum(view: View) -> Eigenvalues | None:
    """Eigenvalues of the estimate in units of released standard deviations; None if they fail."""
    d, matrix, factors = len(view.scale), view.matrix, view.factors
    # A variance of nearly nothing, which is noise, may leave the range of doubles.
    if not (np.square(factors) < _LARGEST_FACTOR).all():
        return None
    if not np.isfinite(factors * (matrix @ factors)).all():  # without a copy of the matrix
        return None
    if not len(view.shown.pairs):
        return Eigenvalues(np.sort(matrix.diagonal() * factors**2)[::-1], np.empty(0), d)
    if d <= _ALL:
        dense = matrix.toarray() if is_sparse(matrix) else matrix.copy()
        multiply_outer(dense, factors)
        return Eigenvalues(np.linalg.eigvalsh(dense)[::-1], np.empty(0), d)
    return Eigenvalues(*_extreme(matrix, factors), d)


def _extreme(matrix: Matrix, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest and the smallest eigenvalues that a bounded number of steps finds."""
    columns = factors[:, None]
    inner, left = tridiagonals(
        lambda x: columns * (matrix @ (columns * x)), len(factors), 1, _LANCZOS_STEPS
    )
    # Zero beside the diagonal: all that there is was found.
    steps = 1 + int(np.argmin(np.append(np.diag(inner[0], 1), 0.0) > 0))
    values, vectors = np.linalg.eigh(inner[0, :steps, :steps])
    # How far each value is from a true one at most.
    residuals = np.abs(left[0] * vectors[-1])
    sure = residuals <= _PRECISE * np.abs(values).max()
    most = len(sure) // 2
    top = max(1, min(most, _LARGEST, int(np.argmin(np.append(sure[::-1], False)))))
    bottom = max(1, min(most, _SMALLEST, int(np.argmin(np.append(sure, False)))))
    return values[::-1][:top], values[:bottom][::-1]


def error_reach(view: View) -> float | None:
    """About the most that errors of the entries move an eigenvalue; None if noise is not one level.

    Noise and sampling error of the entries shown make a symmetric matrix of independent entries.
    Its norm is about twice the largest root of a row's summed variances.
    """
    noise, n = view.release.noise_sd, view.release.n_sampled
    if noise is None or n is None:
        return None
    inverse = ratio(np.ones_like(view.scale), view.deviation**2)
    if is_sparse(view.matrix):
        pattern = (view.matrix != 0).astype(np.float64)
        partners, around = pattern @ np.ones(len(inverse)) - 1, pattern @ inverse - inverse
    else:
        partners, around = np.full(len(inverse), len(inverse) - 1.0), inverse.sum() - inverse
    pairs = (noise[0] * noise[0]) * inverse * np.maximum(around, 0.0) + np.maximum(partners, 0) / n
    reach = 2 * math.sqrt(float((pairs + (noise[1] * inverse) ** 2 + 2 / n).max()))
    return reach if math.isfinite(reach) else None


def spectrum_section(view: View) -> dict[str, Any] | None:
    """The largest eigenvalues, how far errors reach, and how many are below zero."""
    found = spectrum(view)
    if found is None:
        return None
    reach = error_reach(view)
    values = np.concatenate([found.values, found.low])
    return {
        "found": found,
        "reach": reach,
        "sparse": is_sparse(view.matrix),
        "above": 0 if reach is None else int(np.count_nonzero(found.values > 1 + reach)),
        "negative": int(np.count_nonzero(values < -1e-9)),
        "smallest": float(values.min()),
        "chart": spectrum_chart(found.values, reach),
    }


# ---- along the order of the columns ----

#: Features beyond which a page has no map of all pairs, in a known order and else.
LARGE, LARGE_UNORDERED = 5_000, 100_000
_DECAY = 500  # distances of the curve
_SIDE = 40  # columns of a window
_WINDOWS = 4
_HALF_NORMAL = math.sqrt(2 / math.pi)  # mean size of noise over its deviation


@dataclass(frozen=True, eq=False)
class Tile:
    """Columns side by side as a picture."""

    names: tuple[str, str]
    where: str
    picture: Markup


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
        """How many columns apart the released pairs are at most."""
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

    @property
    def noise(self) -> float | None:
        """The mean size that noise and sampling alone give a correlation."""
        release = self.subject.release
        if release.noise_sd is None or release.n_sampled is None:
            return None
        variance = release.variances
        usual = float(np.median(variance[variance > 0])) if (variance > 0).any() else 1.0
        return _HALF_NORMAL * math.hypot(release.noise_sd[0] / usual, release.n_sampled**-0.5)

    @property
    def decay(self) -> Markup | None:
        """The curve of mean sizes by distance."""
        found = self.by_distance
        if len(found) < 2:
            return None
        return decay_chart([k for k, _, _ in found], [mean for _, _, mean in found], self.noise)

    @property
    def order(self) -> Markup:
        """Mean sizes along the columns, with the ends of chromosomes."""
        rows, columns, values = self._pairs
        d = self.subject.n_features
        bins = min(BINS, d)
        place = (rows + columns) // 2 * bins // d
        counts = np.bincount(place, minlength=bins)
        sums = np.bincount(place, np.abs(values), minlength=bins)
        means = np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
        middles = (np.arange(bins) + 0.5) * d / bins
        return order_chart(middles, means, self.borders, self.noise)

    @cached_property
    def borders(self) -> list[tuple[int, str]]:
        """Where chromosomes begin, with their names."""
        along = self.subject.release.chromosomes
        if along is None:
            return []
        starts = [0, *(i for i in range(1, len(along)) if along[i] != along[i - 1])]
        return [(i, along[i]) for i in starts]

    @property
    def band(self) -> dict[str, Any]:
        """The band seen from far: along the columns, by distance, the strongest of many pairs."""
        from markupsafe import Markup

        cells = condense_band(*self._pairs, self.subject.n_features, self.reach)
        limit = float(np.abs(cells).max(initial=0.0)) or 1.0
        high, wide = cells.shape
        label = "Correlations along the columns, by distance"
        return {
            "picture": Markup(map_svg(cells, limit, label, kind="tile band")),
            "limit": limit,
            "columns": math.ceil(self.subject.n_features / wide),
            "lags": math.ceil(self.reach / high),
        }

    @property
    def tiles(self) -> list[Tile]:
        """The first columns, and those around the strongest pairs, each as a small map."""
        found, d = self.subject.view.found, self.subject.n_features
        starts = [0]
        for i in found.rows[:2_000].tolist():
            start = min(max(0, i - _SIDE // 2), max(0, d - _SIDE))
            if all(abs(start - other) >= 2 * _SIDE for other in starts):
                starts.append(start)
            if len(starts) == _WINDOWS:
                break
        return [self._tile(start) for start in starts]

    def _tile(self, start: int) -> Tile:
        from markupsafe import Markup

        subject, d = self.subject, self.subject.n_features
        end = min(d, start + _SIDE)
        block = subject.view.matrix[start:end][:, start:end]
        dense = block.toarray() if is_sparse(block) else np.array(block)
        factors = np.where(subject.view.lost, np.nan, subject.view.factors)[start:end]
        values = dense * np.multiply.outer(factors, factors)
        values[dense == 0] = 0.0
        release, names = subject.release, (subject.names[start], subject.names[end - 1])
        words = f"columns {start:,} to {end - 1:,}"
        if release.chromosomes is not None:
            words += f", chromosome {release.chromosomes[start]}"
        if release.positions is not None:
            words += f", positions {release.positions[start]:,} to {release.positions[end - 1]:,}"
        label = f"Correlations of {end - start} columns, {words}"
        return Tile(names, words, Markup(map_svg(values, 1.0, label, kind="tile")))


# ---- what more records would bring ----

#: Of the records of a release, for which errors are predicted.
MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
_HERE = MULTIPLES.index(1)


def outlook(subject: Subject, error: float | None) -> dict[str, Any] | None:
    """Return what other numbers of records would bring; None where the planner cannot say.

    `error` is that of the release, by its verdict; without one the prediction itself is returned.
    With other numbers of records its noise changes in the proportion that the planner predicts for
    `mechanism`, which is not always the one that was run; what was cut off large values stays.
    """
    listed, selected = subject.inputs.get("candidate_pairs"), subject.release.selected
    lost = listed is not None and (selected is None or selected.shape[1] != listed)
    if subject.theorem or lost:
        return None
    try:
        mechanism, known = subject.release.name, comparable(_candidates(subject))
        if mechanism not in known:
            mechanism = compare(_inputs(subject)(1.0), refine=False).best.mechanism
        inputs, rough = _inputs(subject), known[mechanism].slow
        at = [inputs(multiple) for multiple in MULTIPLES]
        found = [forecast(each, mechanism, rough=rough) for each in at]
    except HushcovError:
        return None
    structure = subject.release.making.structure
    by_noise = error if structure is None or error is None else min(error, structure.noise)
    unit = 1.0 if by_noise is None else by_noise / found[_HERE].typical_error
    rest = 0.0 if error is None or by_noise is None else math.sqrt(error**2 - by_noise**2)
    records = [each.n_records for each in at]
    errors = [min(1.0, math.hypot(unit * each.typical_error, rest)) for each in found]
    limits = [each.detection_limit for each in found]  # correlations found nine times out of ten
    rows = []
    for multiple, n, off, limit in zip(MULTIPLES, records, errors, limits, strict=True):
        row = [f"\N{MULTIPLICATION SIGN} {number(multiple)}", count(n), number(off, 2)]
        row.append("\N{EN DASH}" if limit is None or limit >= 1 else number(limit, 2))
        rows.append(row)
    head = ["multiple", "records", "error", "smallest correlation found"]
    if all(limit is None for limit in limits):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return {
        "mechanism": mechanism,
        "own": mechanism == subject.release.name,
        "rough": any(each.rough for each in found),
        "rows": list(zip(records, errors, limits, strict=True)),
        "error": errors[_HERE],
        "table": (head, rows, _HERE),
    }


def _inputs(subject: Subject) -> Callable[[float], ReleaseInputs]:
    """Return the public inputs of the release as a function of the multiple of its records."""
    release, guarantee = subject.release, subject.release.guarantee
    sparsity, scales = subject.inputs.get("row_sparsity"), release.making.scales
    before = (scales == "released") + (release.making.complete is not None)
    if release.location is not None:  # what was taken for means is not set aside again
        before = 0
    events = [event for part in release.making.parts[:before] for event in part.events]
    mus = [event.mu for event in events if isinstance(event, Gaussian)]
    here = ReleaseInputs(
        n_records=release.making.n_records or 0,
        n_features=subject.n_features,
        row_sparsity=sparsity if type(sparsity) is int and 0 < sparsity <= LARGEST else 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        before=math.hypot(*mus),
        most_before=math.hypot(*mus),
        candidates=_candidates(subject),
    )

    def number_of(multiple: float) -> int:
        return min(max(1, round(multiple * here.n_records)), LARGEST_CALIBRATED_N)

    if release.location is not None:  # the share for means falls with the records, too
        sought = Request(
            here.row_sparsity,
            here.epsilon,
            here.delta,
            known_scale=scales == "given",
            candidates=here.candidates,
            drop_nulls=release.making.complete is not None,
        )
        return lambda multiple: sought.inputs(number_of(multiple), here.n_features)
    # The share for scales falls with the number of records, unless it was given.
    usual = _usual_inputs(here, here.n_records).before
    falls = scales == "released" and mus[-1:] != [] and math.isclose(mus[-1], usual)

    def at(multiple: float) -> ReleaseInputs:
        n = number_of(multiple)
        found = [*mus[:-1], _usual_inputs(here, n).before] if falls else mus
        return replace(here, n_records=n, before=math.hypot(*found), most_before=math.hypot(*found))

    return at


def _candidates(subject: Subject) -> Candidates | None:
    """The pairs that were said to be the only ones that may covary, as far as the release says."""
    width, selected = subject.inputs.get("bandwidth"), subject.release.selected
    if isinstance(width, int):
        return Candidates.band(subject.n_features, width)
    if "candidate_pairs" not in subject.inputs or selected is None:
        return None
    return Candidates.of_pairs(subject.n_features, selected[0], selected[1])


def _usual_inputs(here: ReleaseInputs, n_records: int) -> ReleaseInputs:
    """Return the inputs that a fit of so many records plans with, given its budget alone."""
    request = Request(here.row_sparsity, here.epsilon, here.delta, known_mean=True)
    return request.inputs(n_records, here.n_features)


_STYLES = ("colours.css", "base.css", "report.css", "screens.css")
_PROGRAMS = ("details.js", "graph.js", "search.js")
_LARGE_PROGRAMS = ("details.js", "columns.js")
_LONGEST_PART = 120  # characters of the name of a part
_LONGEST_DATASET = 80
_GROUP = 4  # units of one family or firm

#: What shares of the budget are shares of.
ZCDP, EPSILON = "zcdp", "epsilon"


def write_report(path: str | Path, release: Release) -> Path:
    """Write the report of a release as one HTML file, and return its path.

    Needs the extra `report`.

    Privacy
    -------
    Post-processing: everything on the page is computed from the release and from public inputs, and
    covered by the guarantee of the release.
    """
    Path(path).write_bytes(report_page(release).encode())
    return Path(path)


def report_page(release: Release) -> str:
    """Return what `write_report` writes: a function of the document alone."""
    check_pages()
    subject, made, found = subject_of(release), release.making.made, verdict(release)
    name = release.making.dataset
    table = counted(subject.n_features, "feature")
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
            spread_rows=spread_rows(view) if large else [],
            title=f"Private covariance of {table}",
            verdict=found,
            subject=subject,
            release=release,
            view=view,
            mechanism=short(printable(release.name), 40),
            warnings=[printable(sentence) for sentence in release.warnings],
            promise=promise(subject),
            assumed=assumed(subject),
            budget=budget(subject),
            structure=structure(subject),
            heat=None if tiled else heat_section(subject),
            negative="".join(words for _, words in subject.found.lines()[1:]),
            graph=None if large else graph(subject),
            largest=largest_pairs(subject),
            variances=[] if large else spreads(subject),
            spectrum=None if large else spectrum_section(view),
            outlook=None if release.of_candidates or large else outlook(subject, found.error),
            made=None if made is None else printable(made[:19].replace("T", " ")),
            version=__version__,
            level=LEVEL,
            noise_words=NOISE,
            unreliable=UNRELIABLE,
        )


# ---- what is promised ----


def promise(subject: Subject) -> dict[str, Any]:
    """The guarantee as a factor and in odds, for whom it is, and what it rests on."""
    guarantee = subject.release.guarantee
    epsilon, delta, unit = guarantee.epsilon, guarantee.delta, printable(guarantee.unit)
    conditions = "; ".join(map(printable, guarantee.preconditions)) or "nothing needed checking"
    of_groups = _GROUP * math.exp(min((_GROUP - 1) * epsilon, 600)) * delta
    odds = guarantee.odds()
    return {
        "factor": largest_factor(epsilon),
        "change": change_words(guarantee.adjacency, unit),
        "guess": guess_words(guarantee.adjacency, unit),
        "fails": fails_words(delta),
        "removed": guarantee.removes,
        "unit": unit,
        "grouped": unit != RECORD,
        "beliefs": [list(map(in_percent, each)) for each in odds.beliefs],
        "tests": [list(map(in_percent, each)) for each in odds.tests],
        "group": (_GROUP, _GROUP * epsilon, min(1.0, of_groups)),
        "conditions": conditions,
    }


# ---- what was assumed ----


def assumed(subject: Subject) -> dict[str, Any]:
    """Public inputs that are numbers, and how many records are complete."""
    making, listed = subject.release.making, []
    for name, value in subject.inputs.items():
        if isinstance(value, bool):
            listed.append((name, str(value)))
        elif isinstance(value, int):
            listed.append((name, count(value) if abs(value) < 10**300 else "out of range"))
        elif isinstance(value, float):
            listed.append((name, number(value, 4)))
    words = making.counted_words
    return {
        "inputs": listed,
        "complete": making.complete_words,
        "found": preparation_words(subject.release),
        "counted": None if words is None else printable(words),
    }


# ---- what the covariance was found to be ----


def structure(subject: Subject) -> dict[str, Any] | None:
    """Kind, reason, factors and error estimate; None where no structure was looked for."""
    found = subject.release.making.structure
    if found is None:
        return None
    factors = [
        [f"{place}", percent(each.share), each.named(tuple(subject.names))]
        for place, each in enumerate(released_factors(subject.release), start=1)
    ]
    return {
        "kind": found.kind,
        "words": printable(subject.found.kind()),
        "factors": factors,
        "error_words": error_words(subject.release),
    }


# ---- where the budget went ----


def budget(subject: Subject) -> dict[str, Any]:
    """Return what was charged for what; `unit` is that of the shares, None where none adds up."""
    guarantee, parts = subject.release.guarantee, privacy_parts(subject.release)
    unit = currency(parts)
    costs = [0.0 if unit is None else cost(part, unit) for part in parts]
    total = sum(costs)
    shares = [each / total if total > 0 else 0.0 for each in costs]
    rows = []
    for part, share, spent in zip(parts, shares, costs, strict=True):
        row = [part.name] if unit is None else [part.name, percent(share), number(spent)]
        epsilon = alone(part, guarantee.transcript_delta)
        rows.append([*row, "\N{EN DASH}" if epsilon is None else number(epsilon)])
    return {
        "unit": unit,
        "rows": rows,
        "spent_delta": guarantee.transcript_delta + guarantee.numerical_delta,
    }


def privacy_parts(release: Release) -> tuple[Part, ...]:
    """Everything the guarantee charges, in the order in which it happened; names as shown."""
    parts = release.making.parts or named_parts(release.guarantee.events, ())
    return tuple(Part(short(printable(part.name), _LONGEST_PART), part.events) for part in parts)


def currency(parts: tuple[Part, ...]) -> str | None:
    """In which unit the parts add up exactly; None where there is none."""
    events = [event for part in parts for event in part.events]
    for unit in (ZCDP, EPSILON):
        if events and all(_event_cost(event, unit) is not None for event in events):
            return unit
    return None


def cost(part: Part, unit: str) -> float:
    """Return what a part spent; nothing for what costs delta alone."""
    return sum(_event_cost(event, unit) or 0.0 for event in part.events)


def _event_cost(event: Event, unit: str) -> float | None:
    """Return the cost of an event in a unit; None if it has none."""
    match event:
        case TotalVariation():
            return 0.0
        case Gaussian(mu) | DiscreteGaussian(mu) if unit == ZCDP:
            return mu * mu / 2
        case BoundedRange(eta, n_steps) if unit == ZCDP:
            return n_steps * eta * eta / 8
        case Pure(epsilon) | Approximate(epsilon, _) if unit == EPSILON:
            return epsilon
    return None


def alone(part: Part, delta: float) -> float | None:
    """The epsilon that a part would have at this delta if it were all there is."""
    charged = [event for event in part.events if not isinstance(event, TotalVariation)]
    try:
        return compose(charged, delta=delta).epsilon
    except HushcovError:
        return None
