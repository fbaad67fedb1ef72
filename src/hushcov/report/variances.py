"""Variances and standard deviations of the features, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushcov.release.findings import Findings
from hushcov.report.pages import number
from hushcov.report.subject import Subject

MOST_LISTED = 300  # features in the table; a search finds the others

_QUANTILES = (
    *((0.0, "the smallest"), (0.01, "1 % are below"), (0.25, "25 % are below")),
    *((0.5, "half are below"), (0.75, "75 % are below"), (0.99, "99 % are below")),
    (1.0, "the largest"),
)
_NONE, _UNCOVERED = "\N{EN DASH}", " \N{DAGGER}"


@dataclass(frozen=True)
class Spread:
    """A feature in words: its standard deviation and its variance, each with an interval."""

    feature: int
    name: str
    deviation: str
    deviation_ends: str
    variance: str
    variance_ends: str


def spreads(subject: Subject, findings: Findings) -> list[Spread]:
    """The first features, in the order of the table."""
    lost = set(subject.release.making.unresolved)
    variances, ends = findings.matrix.diagonal(), findings.variance_intervals
    size = findings.scale**2
    found = []
    for i in range(min(subject.n_features, MOST_LISTED)):
        if i in lost:
            found.append(Spread(i, subject.names[i], "not found", _NONE, "not found", _NONE))
            continue
        value = float(variances[i])
        words = number(value) + (": noise" if value < 0 else "")
        root = number(float(np.sqrt(value))) if value >= 0 else "none: noise"
        inside = None if ends is None else tuple(float(end[i] * size[i]) for end in ends)
        if inside is None or not np.isfinite(inside).all():
            found.append(Spread(i, subject.names[i], root, _NONE, words, _NONE))
            continue
        low, high = inside
        mark = "" if subject.holds[i] else _UNCOVERED
        roots = [float(np.sqrt(max(0.0, end))) for end in inside]
        found.append(
            Spread(
                feature=i,
                name=subject.names[i],
                deviation=root,
                deviation_ends=between(*roots) + mark,
                variance=words,
                variance_ends=between(max(0.0, low), max(0.0, high)) + mark,
            )
        )
    return found


def spread_rows(findings: Findings) -> list[list[str]]:
    """Standard deviations of very many features: quantiles, in words."""
    variances = findings.matrix.diagonal()
    found = np.sqrt(variances[variances > 0])
    if not len(found):
        return []
    levels = np.quantile(found, [share for share, _ in _QUANTILES])
    return [
        [words, number(float(level)), number(float(level) ** 2)]
        for (_, words), level in zip(_QUANTILES, levels, strict=True)
    ]


def between(low: float, high: float) -> str:
    """An interval in words."""
    return f"{number(low)} to {number(high)}"
