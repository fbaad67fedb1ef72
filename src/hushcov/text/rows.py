"""Rows of tables in words: pairs, features, and what the budget was spent on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table as TextTable

from hushcov._words import digits_beside, finite, number, percent
from hushcov.exceptions import HushcovError
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
from hushcov.promise import (
    change_words,
    fails_words,
    guess_words,
    in_percent,
    largest_factor,
)
from hushcov.release.coverage import not_found
from hushcov.release.document import Release, named_parts
from hushcov.release.view import LEVEL, UNRELIABLE, ShownPair, View
from hushcov.text.description import OUTSIDE, UNRESOLVED
from hushcov.text.printing import short_name, text_table

#: Probability of every interval that is shown, in words.
LEVEL_WORDS = percent(LEVEL)


# ---- pairs and features ----


def pair_table(pairs: Sequence[ShownPair], *, names: Sequence[str] | None = None) -> TextTable:
    """Return a table with one line for each pair, and the interval of its correlation."""
    interval = [f"{LEVEL_WORDS} interval"] if any(pair.interval for pair in pairs) else []
    titles = ["features", "correlation", *interval, "covariance"]
    rows = []
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        ends, between = pair.correlation_interval, "none"
        if ends is not None:
            between = f"{number(ends[0], 3)} to {number(ends[1], 3)}"
            between += OUTSIDE * pair.correlation_outside
        value = UNRESOLVED if pair.correlation is None else f"{pair.correlation:.3f}"
        intervals = [between] if interval else []
        rows.append([", ".join(features), value, *intervals, number(pair.covariance, 3)])
    return text_table(titles, rows, folded="features")


def mean_words(mean: float, lower: float, upper: float, error: float) -> str:
    """Return a mean with its interval and its standard error, in words."""
    if not np.isfinite([lower, upper, error]).all():
        return number(mean)
    value, low, high = (number(each, digits_beside(mean, error)) for each in (mean, lower, upper))
    return f"{value} ({low} to {high}, standard error {number(error, 2)})"


@dataclass(frozen=True)
class FeatureRow:
    """A feature in words: mean and standard deviation with intervals, and variance.

    `mean_error` is the standard error of the mean; what is not known is `UNKNOWN_CELL`.
    """

    name: str
    mean: str
    mean_ends: str
    mean_error: str
    deviation: str
    deviation_ends: str
    variance: str


UNKNOWN_CELL, _UNCOVERED = "\N{EN DASH}", " \N{DAGGER}"


def feature_rows(view: View, names: Sequence[str], most: int) -> list[FeatureRow]:
    """Return the first features, in the order of the table."""
    release, found = view.release, []
    lost, unresolved = set(not_found(release)), set(release.making.unresolved)
    n_rows, table = min(release.n_features, most), view.features()
    columns = zip(*(column[:n_rows].tolist() for column in table.values()), strict=True)
    for i, row in enumerate(dict(zip(table, each, strict=True)) for each in columns):
        digits = digits_beside(row["mean"], row["mean_se"], 3)
        mean = mean_ends = mean_error = root_ends = UNKNOWN_CELL
        if release.location is not None:
            mean = UNRESOLVED if i in lost else finite(row["mean"], digits)
        if np.isfinite([row["mean_lower"], row["mean_upper"]]).all():
            mean_ends = (
                f"{number(row['mean_lower'], digits)} to {number(row['mean_upper'], digits)}"
            )
            mean_error = number(row["mean_se"], 2)
        root = variance = UNRESOLVED
        if i in unresolved:
            mean_ends = mean_error = UNKNOWN_CELL
        else:
            variance = finite(row["variance"]) + ": noise" * (row["variance"] < 0)
            root = finite(row["standard_deviation"]) if row["variance"] >= 0 else UNRESOLVED
            if np.isfinite([row["lower"], row["upper"]]).all():
                mark = _UNCOVERED if row["status"] == UNRELIABLE else ""
                root_ends = f"{finite(row['sd_lower'])} to {finite(row['sd_upper'])}{mark}"
        found.append(FeatureRow(names[i], mean, mean_ends, mean_error, root, root_ends, variance))
    return found


_QUANTILES = (
    *((0.0, "the smallest"), (0.01, "1 % are below"), (0.25, "25 % are below")),
    *((0.5, "half are below"), (0.75, "75 % are below"), (0.99, "99 % are below")),
    (1.0, "the largest"),
)


def quantile_rows(view: View) -> list[list[str]]:
    """Return quantiles of the standard deviations of very many features."""
    deviations = view.features()["standard_deviation"]
    found = deviations[deviations > 0]
    if not len(found):
        return []
    levels = np.quantile(found, [share for share, _ in _QUANTILES])
    return [
        [words, finite(float(level)), finite(float(level) ** 2)]
        for (_, words), level in zip(_QUANTILES, levels, strict=True)
    ]


# ---- the guarantee ----

_GROUP = 4  # units of one family or firm
#: What shares of the budget are shares of.
ZCDP, EPSILON = "zcdp", "epsilon"


def promise(release: Release) -> dict[str, Any]:
    """Return the guarantee as a factor and in odds, for whom it is, and what it rests on."""
    guarantee = release.guarantee
    epsilon, delta, unit = guarantee.epsilon, guarantee.delta, guarantee.unit
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
        "conditions": "; ".join(guarantee.preconditions) or "nothing needed checking",
    }


def budget(release: Release) -> dict[str, Any]:
    """Return what was charged for what; `unit` is that of the shares, None where none adds up."""
    guarantee = release.guarantee
    parts = release.making.parts or named_parts(guarantee.events, ())
    events = [event for part in parts for event in part.events]
    units = (ZCDP, EPSILON) if events else ()
    # Where the parts add up exactly, a part costs nothing for what costs delta alone.
    unit = next((x for x in units if all(_cost(each, x) is not None for each in events)), None)
    costs = [sum(_cost(each, unit) or 0.0 for each in part.events) for part in parts]
    total = sum(costs)
    rows = []
    for part, spent in zip(parts, costs, strict=True):
        share = percent(spent / total if total > 0 else 0.0)
        row = [part.name] if unit is None else [part.name, share, finite(spent)]
        charged = [each for each in part.events if not isinstance(each, TotalVariation)]
        try:  # the epsilon that a part would have at this delta if it were all there is
            epsilon = number(compose(charged, delta=guarantee.transcript_delta).epsilon, 3)
        except HushcovError:
            epsilon = UNKNOWN_CELL
        rows.append([*row, epsilon])
    spent_delta = guarantee.transcript_delta + guarantee.numerical_delta
    return {"unit": unit, "rows": rows, "spent_delta": spent_delta}


def _cost(event: Event, unit: str | None) -> float | None:
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
