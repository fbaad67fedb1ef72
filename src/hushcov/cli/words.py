"""Guarantees, predictions and pairs in words, for people who have not read the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from hushcov._arrays import FloatArray
from hushcov._words import counted, number
from hushcov.accounting import ONE_REPLACED, RELATIONS, Neighbours
from hushcov.accounting.guarantee import odds_of, promise_words
from hushcov.cli.output import clean, heading, paragraph, short_name, show, text_table
from hushcov.planning import COMPARED_MODELS, Families, Forecast, named
from hushcov.postprocess import is_noise
from hushcov.predicting import DENSE, FACTOR
from hushcov.release import Release
from hushcov.release.findings import (
    BEYOND,
    KEPT,
    LEVEL,
    SELECTED,
    STRONGEST,
    Findings,
    find,
)
from hushcov.release.preparation import preparation_words
from hushcov.release.structure import (
    ERROR,
    VERDICT,
    multiplied_words,
    structure_words,
    verdict,
)
from hushcov.steps.complete import complete_words

#: The heading over what a plan promises.
PROMISED = "What would be promised"
LEVEL_WORDS = f"{number(100 * LEVEL)} %"
_TOO_STRONG = "The strongest of many estimates tend to be too strong."
# Which features go together in a reference model.
_RELATED = {
    "block": "in groups",
    "banded": "with neighbours among the columns",
    "random": "in pairs anywhere",
}
_OUTSIDE = "*"  # marks an estimate that lies outside its interval


def promised(
    epsilon: float, delta: float, neighbours: Neighbours = ONE_REPLACED
) -> list[tuple[str, str]]:
    """What is promised to whom, and what could be learnt of them; before anything is certified."""
    to_whom = RELATIONS[neighbours.relation], neighbours.unit
    return [
        ("promise", promise_words(epsilon, delta, *to_whom)),
        ("odds", str(odds_of(epsilon, delta, *to_whom))),
    ]


def families_error(found: Families) -> str:
    """Return the predicted errors by what the covariance may be like."""
    few = {each.row_sparsity - 1: e for each, e in found.errors.items() if each.row_sparsity}
    ends = dict.fromkeys(number(error, 2) for error in (min(few.values()), max(few.values())))
    others = " to ".join(str(each) for each in sorted({min(few), max(few)}))
    words = [" to ".join(ends)]
    if max(few):
        words = [f"{words[0]} where each feature is related to {others} others"]
    kinds = {FACTOR: "with one strong factor", DENSE: "where all pairs are related a little"}
    words += [
        f"{number(error, 2)} {kinds[each.name]}"
        for each, error in found.errors.items()
        if each.name in kinds
    ]
    return f"about {', '.join(words)}; zeros for all entries would have 1"


def typical_error(forecast: Forecast) -> str:
    """Return the predicted error, with what it is measured against."""
    models = ", ".join(
        f"{_RELATED[model]} {number(forecast.predicted_error[model], 2)}"
        for model in COMPARED_MODELS
    )
    return (
        f"about {number(forecast.typical_error, 2)} of the covariance's norm, where features have "
        f"equal scales (if they go together {models}); zeros for all entries would have 1"
    )


def detection(forecast: Forecast) -> str:
    """Say which correlations will be found."""
    limit = forecast.detection_limit
    if limit is None:
        return f"no prediction: {named(forecast.mechanism).no_limit}"
    if limit >= 1:
        return "hardly any pair: there are too few records"
    return f"correlations of {number(limit, 2)} or more, nine times out of ten"


@dataclass(frozen=True)
class Pair:
    """Two features, by their columns counted from 0, with what was released about them.

    A `correlation` may be beyond 1, which is noise; None says that a variance is not positive.
    """

    features: tuple[int, int]
    covariance: float
    correlation: float | None
    interval: tuple[float, float] | None  # for the covariance; None without a single noise level
    outside: bool = False  # whether the estimate lies outside its own interval
    correlation_interval: tuple[float, float] | None = None

    @property
    def noise(self) -> bool:
        """Whether noise drowns the correlation."""
        return self.correlation is None or bool(is_noise(np.array(self.correlation)))

    @property
    def correlation_outside(self) -> bool:
        """Whether the correlation lies outside its own interval."""
        if self.correlation is None or self.correlation_interval is None:
            return False
        low, high = self.correlation_interval
        return not low <= self.correlation <= high

    def to_dict(self) -> dict[str, object]:
        """Return the pair as plain, JSON-ready data."""
        return {
            "features": list(self.features),
            "covariance": self.covariance,
            "correlation": self.correlation,
            "noise": self.noise,
            "interval": None if self.interval is None else list(self.interval),
            "correlation_interval": (
                None if self.correlation_interval is None else list(self.correlation_interval)
            ),
            "outside_interval": self.outside,
        }


@dataclass(frozen=True)
class Found:
    """What a release shows as related: how many pairs, by which rule, and the strongest.

    `negative` counts the variances that noise made negative, and `unsure` the pairs of which the
    interval of the correlation includes zero.
    """

    number: int
    rule: str
    strongest: tuple[Pair, ...]
    n_features: int
    negative: int = 0
    unsure: int = 0
    candidates: int | None = None  # in a public set, beyond which no pair was looked at

    def lines(self, note: str = "") -> list[tuple[str, str]]:
        """How many pairs were found and what that means, and how many variances are noise."""
        one, d = self.number == 1, self.n_features
        were = "was" if one else "were"
        meaning = {
            KEPT: f"{were} released and pass{'es' * one} the threshold",
            SELECTED: f"{were} selected and released",
            BEYOND: f"stand{'s' * one} out from the noise; all were released",
            STRONGEST: "counts as found: all were released, and which are noise cannot be said",
        }[self.rule]
        if self.unsure:
            them = "it" if self.unsure == 1 else "them"
            note += f"; of {self.unsure:,} the interval includes zero: noise may explain {them}"
        shown = f"{self.number:,}" if self.rule != STRONGEST else "none"
        of = counted(math.comb(d, 2), "pair")
        if self.candidates is not None:
            of = counted(self.candidates, "candidate pair")
        found = ("pairs", f"{shown} of {of} {meaning}{note}")
        if not self.negative:
            return [found]
        words = f"{self.negative:,} of {counted(d, 'variance')} came out negative: noise"
        return [found, ("variances", words)]


def found_pairs(release: Release, at_most: int) -> Found:
    """The pairs that a release shows, the largest correlations first."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        findings = find(release)
        first = findings.found.at(slice(0, at_most))
        correlations, outside = findings.correlations(first), findings.outside
        pairs = tuple(
            Pair(
                features=features,
                covariance=float(findings.matrix[features]),
                correlation=float(value) if np.isfinite(value) else None,
                interval=_interval(findings, place, features),
                correlation_interval=_ends(findings.correlation_intervals, place),
                outside=bool(outside[place : place + 1].any()),
            )
            for place, (features, value) in enumerate(zip(first.places, correlations, strict=True))
        )
        negative = int(np.count_nonzero(findings.matrix.diagonal() < 0))
        n_found = 0 if findings.rule == STRONGEST else findings.n_found
        unsure = _unsure(findings) if n_found else 0
    return Found(
        n_found, findings.rule, pairs, release.n_features, negative, unsure, release.n_candidates
    )


def _interval(
    findings: Findings, place: int, features: tuple[int, int]
) -> tuple[float, float] | None:
    """The interval of a pair in the unit of the data, if it has one."""
    return _ends(findings.intervals, place, float(np.prod(findings.scale[list(features)])))


def _unsure(findings: Findings) -> int:
    """How many pairs have an interval that includes zero; 0 where not all have an interval."""
    ends = findings.correlation_intervals
    if ends is None or ends.shape[1] < findings.n_found:
        return 0
    return int(np.count_nonzero((ends[0] <= 0) & (ends[1] >= 0)))


def _ends(
    intervals: FloatArray | None, place: int, scale: float = 1.0
) -> tuple[float, float] | None:
    if intervals is None or place >= intervals.shape[1]:
        return None
    low, high = intervals[:, place] * scale
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def pair_table(pairs: Sequence[Pair], *, names: Sequence[str] | None = None) -> Table:
    """Return a table with one line for each pair, and the interval of its correlation."""
    interval = [f"{LEVEL_WORDS} interval"] if any(pair.interval for pair in pairs) else []
    titles = ["features", "correlation", *interval, "covariance"]
    rows = []
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        cells, covariance = [", ".join(features), _correlation(pair)], number(pair.covariance, 3)
        between = _range(pair.correlation_interval, pair.correlation_outside)
        rows.append([*cells, between, covariance] if interval else [*cells, covariance])
    return text_table(titles, rows, folded="features")


def _range(ends: tuple[float, float] | None, outside: bool) -> str:
    """An interval, marked where the estimate lies outside."""
    if ends is None:
        return "none"
    return f"{number(ends[0], 3)} to {number(ends[1], 3)}" + _OUTSIDE * outside


def _correlation(pair: Pair) -> str:
    """A correlation, said to be noise where it is."""
    if pair.correlation is None:
        return "none: noise"
    if not pair.noise:
        return f"{pair.correlation:.3f}"
    return f"{number(pair.correlation, 3)}: noise"


def pair_remarks(pairs: Sequence[Pair], *, projected: bool = False) -> str:
    """What the marks in a table of these pairs mean."""
    words = []
    if any(pair.correlation is not None and pair.noise for pair in pairs):
        words.append(
            "Only noise puts a correlation beyond 1: it is as large as what it was added to."
        )
    if any(pair.correlation is None for pair in pairs):
        words.append("There is none where noise made a variance zero or negative.")
    if any(pair.outside or pair.correlation_outside for pair in pairs):
        reason = (
            "the estimate was moved when the matrix was made positive semidefinite, or barely "
            if projected
            else "the estimate barely "
        )
        words.append(
            f"{_OUTSIDE} outside its interval: {reason}passed the threshold, which favours those "
            "that noise made larger. Believe the interval."
        )
    return " ".join([*words, _TOO_STRONG])


def show_pairs(out: Console, release: Release, found: Found) -> None:
    """Print the largest correlations of a release, if there are any."""
    pairs, names = found.strongest, release.column_names
    if pairs:
        heading(out, "Largest correlations" + ", features counted from 0" * (names is None))
        show(out, pair_table(pairs, names=names))
        paragraph(out, pair_remarks(pairs, projected=release.making.projected))


def structure_facts(release: Release) -> list[tuple[str, str]]:
    """How far the estimate can be relied on, and what the covariance was found to be."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        found = verdict(release)
        structure = release.making.structure
        less = "" if structure is None else multiplied_words(structure)
        lines = [(VERDICT, ". ".join(filter(None, [f"{found.word}: {found.sentence}", less])))]
        lines += [each for each in structure_words(release) if each[0] != ERROR]  # said above
        return [(label, clean(sentence)) for label, sentence in lines]


def complete_facts(release: Release) -> list[tuple[str, str]]:
    """How many records are complete, and what was found of means and norms, where released."""
    making = release.making
    words = complete_words(making.complete)
    counts = (("counted", making.counted_words), ("complete", words))
    lines = [(label, clean(sentence)) for label, sentence in counts if sentence is not None]
    return lines + [(label, clean(sentence)) for label, sentence in preparation_words(release)]
