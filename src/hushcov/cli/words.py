"""Guarantees, predictions and pairs in words, for people who have not read the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from hushcov._arrays import FloatArray
from hushcov._words import counted, exact, number
from hushcov.accounting import ONE_REPLACED, RELATIONS, Neighbours
from hushcov.accounting.promise import odds_of, promise_words
from hushcov.cli.output import clean, heading, paragraph, short_name, show, text_table
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.planning import COMPARED_MODELS, Families, Forecast, mechanisms
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
    preparation_words,
)
from hushcov.release.structure import VERDICT, structure_words, verdict
from hushcov.stages.complete import complete_words

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


def privacy_verdict(parameters: TheoremParameters, each: int = 1) -> str:
    """Say whether the privacy proof covers this number of records, and from where on it does.

    `each` rows make one that is averaged.
    """
    n = each * parameters.inputs.n_records
    needed = exact(each * parameters.smallest_private_n)
    if parameters.private:
        return f"yes. The proof covers every dataset of {needed} records or more."
    return (
        f"no. The proof needs at least {needed} records, and there are {exact(n)}: the mechanism "
        "refuses to release anything."
    )


def accuracy_verdict(parameters: TheoremParameters, each: int = 1) -> str:
    """Say whether the accuracy conditions hold, and from which number of records on they do."""
    inputs = parameters.inputs
    promise = (
        f"error at most {accuracy_target(parameters)} in operator norm with probability at least "
        f"{number(1 - inputs.failure_probability)}"
    )
    needed = exact(each * parameters.smallest_accurate_n)
    answer, only = ("yes", "") if parameters.accurate else ("no", "only ")
    return (
        f"{answer}. The theorem's conditions on r and b, for {promise}, hold {only}from {needed} "
        "records on."
    )


def accuracy_target(parameters: TheoremParameters) -> str:
    """Return the target error in the unit of the covariance, with how it comes about."""
    inputs = parameters.inputs
    target = number(inputs.target_error * inputs.scale**2)
    if inputs.scale == 1:
        return target
    return f"{target} (target_error {number(inputs.target_error)} times scale^2)"


def families_error(found: Families) -> str:
    """Return the predicted errors by what the covariance may be like."""
    few = {each.row_sparsity - 1: e for each, e in found.errors.items() if each.row_sparsity}
    ends = dict.fromkeys(number(error, 2) for error in (min(few.values()), max(few.values())))
    partners = " to ".join(str(each) for each in sorted({min(few), max(few)}))
    words = [" to ".join(ends)]
    if max(few):
        words = [f"{words[0]} where features have {partners} partners each"]
    others = {FACTOR: "with one strong factor", DENSE: "where all pairs are related a little"}
    words += [
        f"{number(error, 2)} {others[each.name]}"
        for each, error in found.errors.items()
        if each.name in others
    ]
    return f"about {', '.join(words)}; the zero matrix has 1"


def typical_error(forecast: Forecast) -> str:
    """Return the predicted error, with what it is measured against."""
    models = ", ".join(
        f"{_RELATED[model]} {number(forecast.predicted_error[model], 2)}"
        for model in COMPARED_MODELS
    )
    return (
        f"about {number(forecast.typical_error, 2)} of the covariance's norm, where features have "
        f"equal scales (if they go together {models}); the zero matrix has 1"
    )


def detection(forecast: Forecast) -> str:
    """Say which correlations will be found."""
    limit = forecast.detection_limit
    if limit is None:
        return f"no prediction: {mechanisms()[forecast.mechanism].no_limit}"
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

    @property
    def noise(self) -> bool:
        """Whether noise drowns the correlation."""
        return self.correlation is None or bool(is_noise(np.array(self.correlation)))

    def to_dict(self) -> dict[str, object]:
        """Return the pair as plain, JSON-ready data."""
        return {
            "features": list(self.features),
            "covariance": self.covariance,
            "correlation": self.correlation,
            "noise": self.noise,
            "interval": None if self.interval is None else list(self.interval),
            "outside_interval": self.outside,
        }


@dataclass(frozen=True)
class Found:
    """What a release shows as related: how many pairs, by which rule, and the strongest.

    `negative` counts the variances that noise made negative.
    """

    number: int
    rule: str
    strongest: tuple[Pair, ...]
    n_features: int
    negative: int = 0

    def lines(self, note: str = "") -> list[tuple[str, str]]:
        """How many pairs were found and what that means, and how many variances are noise."""
        meaning = {
            KEPT: "were released and pass the threshold",
            SELECTED: "were selected and released",
            BEYOND: "stand out from the noise; all were released",
            STRONGEST: "counts as found: all were released, and which are noise cannot be said",
        }[self.rule]
        d = self.n_features
        shown = f"{self.number:,}" if self.rule != STRONGEST else "none"
        found = ("pairs", f"{shown} of {counted(math.comb(d, 2), 'pair')} {meaning}{note}")
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
                outside=bool(outside[place : place + 1].any()),
            )
            for place, (features, value) in enumerate(zip(first.places, correlations, strict=True))
        )
        negative = int(np.count_nonzero(findings.matrix.diagonal() < 0))
    n_found = 0 if findings.rule == STRONGEST else findings.n_found
    return Found(n_found, findings.rule, pairs, release.n_features, negative)


def _interval(
    findings: Findings, place: int, features: tuple[int, int]
) -> tuple[float, float] | None:
    """The interval of a pair in the unit of the data, if it has one."""
    if findings.intervals is None or place >= findings.intervals.shape[1]:
        return None
    low, high = findings.intervals[:, place] * np.prod(findings.scale[list(features)])
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def pair_table(
    pairs: Sequence[Pair], truth: FloatArray | None = None, *, names: Sequence[str] | None = None
) -> Table:
    """One line for each pair; with names and its true covariance where these are known."""
    titles = ["features", "correlation", "covariance"]
    titles += [f"{LEVEL_WORDS} interval"] if any(pair.interval for pair in pairs) else []
    titles += [] if truth is None else ["truth", "inside?"]
    rows = []
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        cells = [", ".join(features), _correlation(pair), number(pair.covariance, 3)]
        if pair.interval is not None:
            low, high = pair.interval
            cells.append(f"{number(low, 3)} to {number(high, 3)}" + _OUTSIDE * pair.outside)
            if truth is not None:
                true = truth[pair.features]
                cells += [number(true, 3), "yes" if low <= true <= high else "no"]
        rows.append(cells)
    return text_table(titles, rows)


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
    if any(pair.outside for pair in pairs):
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
        lines = [(VERDICT, f"{found.word}: {found.sentence}"), *structure_words(release)]
        return [(label, clean(sentence)) for label, sentence in lines]


def complete_facts(release: Release) -> list[tuple[str, str]]:
    """How many records are complete, and what was found of means and norms, where released."""
    making = release.making
    words = complete_words(making.complete, "pairs of records" if making.paired else "records")
    counts = (("counted", making.counted_words), ("complete", words))
    lines = [(label, clean(sentence)) for label, sentence in counts if sentence is not None]
    return lines + [(label, clean(sentence)) for label, sentence in preparation_words(release)]
