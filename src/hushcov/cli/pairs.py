"""The pairs of features that a release shows as related, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from hushcov._arrays import FloatArray
from hushcov._words import counted, number
from hushcov.cli.output import plain_table, short_name
from hushcov.postprocess import is_noise
from hushcov.release import Release
from hushcov.release.findings import BEYOND, KEPT, LEVEL, SELECTED, STRONGEST, Findings, find

_TOO_STRONG = "The strongest of many estimates tend to be too strong."
_OUTSIDE = "*"  # marks an estimate that lies outside its interval


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
            STRONGEST: "are shown; all were released, and which are noise cannot be said",
        }[self.rule]
        d = self.n_features
        found = ("pairs", f"{self.number:,} of {d * (d - 1) // 2:,} pairs {meaning}{note}")
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
    return Found(findings.n_found, findings.rule, pairs, release.n_features, negative)


def _interval(
    findings: Findings, place: int, features: tuple[int, int]
) -> tuple[float, float] | None:
    """The interval of a pair in the unit of the data, if it has one."""
    if findings.intervals is None or place >= findings.intervals.shape[1]:
        return None
    low, high = findings.intervals[:, place] * np.prod(findings.scale[list(features)])
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def pair_table(
    pairs: Sequence[Pair],
    truth: FloatArray | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Table:
    """One line for each pair; with names and its true covariance where these are known."""
    table = plain_table()
    titles = ["features", "correlation", "covariance"]
    titles += [f"{100 * LEVEL:g} % interval"] if any(pair.interval for pair in pairs) else []
    titles += [] if truth is None else ["truth", "inside?"]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        cells = [", ".join(features), correlation_text(pair), number(pair.covariance, 3)]
        if pair.interval is not None:
            low, high = pair.interval
            cells.append(f"{number(low, 3)} to {number(high, 3)}" + _OUTSIDE * pair.outside)
            if truth is not None:
                true = truth[pair.features]
                cells += [number(true, 3), "yes" if low <= true <= high else "no"]
        table.add_row(*cells)
    return table


def correlation_text(pair: Pair) -> str:
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
