"""The report of a release: one page that needs no other file and no network.

The words are in `templates/report`. Here is what they say it with: numbers from the release, from
public inputs, and from the sections that have modules of their own.
"""

from __future__ import annotations

import json
import math
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._version import __version__
from hushcov._words import counted
from hushcov.accounting import (
    ADD_REMOVE,
    RECORD,
    RELATIONS,
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    Pure,
    TotalVariation,
    compose,
)
from hushcov.accounting.guarantee import (
    change_words,
    fails_words,
    guess_words,
    in_percent,
    largest_factor,
)
from hushcov.exceptions import HushcovError
from hushcov.release import Part, Release, named_parts
from hushcov.release.findings import LEVEL, NOISE, find
from hushcov.release.preparation import preparation_words
from hushcov.release.structure import (
    error_words,
    kind_words,
    released_factors,
    short_kind,
    verdict,
)
from hushcov.report.along import Along, is_large
from hushcov.report.charts import budget_chart, estimate_chart
from hushcov.report.graph import graph
from hushcov.report.outlook import outlook
from hushcov.report.pages import count, number, page, percent, short
from hushcov.report.pairs import heat_data, largest_pairs, search_data
from hushcov.report.spectrum import spectrum_section
from hushcov.report.subject import Subject, printable, subject_of
from hushcov.report.variances import spread_rows, spreads
from hushcov.steps.complete import complete_words

if TYPE_CHECKING:
    from markupsafe import Markup

_STYLES = ("colours.css", "base.css", "report.css", "screens.css")
_PROGRAMS = ("heat_data.js", "heat_drawing.js", "heat_moving.js", "graph.js", "variances.js")
_LARGE_PROGRAMS = ("columns.js",)
_MOST_PARAMETERS = 20_000  # characters
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
    subject = subject_of(release)
    made = release.making.made
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        findings = find(release)
        large = is_large(subject)
        data = search_data(subject, findings) if large else heat_data(subject, findings)
        along = release.in_order and release.selected is not None and len(findings.shown.pairs) > 0
        return page(
            "report.html.j2",
            styles=_STYLES,
            programs=_LARGE_PROGRAMS if large else _PROGRAMS,
            data=data,
            large=large,
            along=Along(subject, findings) if along else None,
            searched=len(data.get("entries", ())),
            spread_rows=spread_rows(findings) if large else [],
            title=f"Private covariance of {_named(subject)}",
            verdict=verdict(release),
            subject=subject,
            release=release,
            findings=findings,
            mechanism=short(printable(release.name), 40),
            warnings=[printable(sentence) for sentence in release.warnings],
            promise=promise(subject),
            assumed=assumed(subject),
            budget=budget(subject),
            structure=structure(subject),
            ordered=data.get("order") is not None,
            opened=data.get("opened"),
            negative_variances=int(np.count_nonzero(findings.matrix.diagonal() < 0)),
            shown_noise=int(np.count_nonzero(findings.noise(findings.shown.pairs))),
            graph=None if large else graph(subject, findings),
            largest=largest_pairs(subject, findings),
            variances=[] if large else spreads(subject, findings),
            spectrum=None if large else spectrum_section(subject, findings),
            outlook=None if release.of_candidates or large else outlook(subject),
            parameters=parameters(release),
            made=None if made is None else printable(made[:19].replace("T", " ")),
            version=__version__,
            level=LEVEL,
            noise_words=NOISE,
        )


def _named(subject: Subject) -> str:
    """What the table is called; else how large it is."""
    name = subject.release.making.dataset
    if name is None:
        return counted(subject.n_features, "feature")
    return short(printable(name[:_LONGEST_PART]), _LONGEST_DATASET)


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
        "removed": guarantee.adjacency == RELATIONS[ADD_REMOVE],
        "unit": unit,
        "grouped": unit != RECORD,
        "beliefs": [list(map(in_percent, each)) for each in odds.beliefs],
        "tests": [[*[in_percent(alarm)] * 2, in_percent(power)] for alarm, power in odds.tests],
        "group": (_GROUP, _GROUP * epsilon, min(1.0, of_groups)),
        "conditions": conditions[:1].upper() + conditions[1:],
    }


# ---- what was assumed ----


def assumed(subject: Subject) -> dict[str, Any]:
    """Public inputs that are numbers, and how many records are complete."""
    making = subject.release.making
    listed = [
        (name, _shown(value))
        for name, value in subject.inputs.items()
        if isinstance(value, int | float)
    ]
    words = complete_words(making.complete)
    found = preparation_words(subject.release)
    counted = making.counted_words
    return {
        "inputs": listed,
        "complete": words,
        "found": found,
        "counted": None if counted is None else printable(counted),
    }


def _shown(value: int | float) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return count(value) if abs(value) < 10**300 else "out of range"
    return number(value, 4)


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
        "words": printable(kind_words(subject.release, found)),
        "short": printable(short_kind(subject.release, found)),
        "factors": factors,
        "error_words": error_words(subject.release),
        "chart": estimate_chart(found.error, found.least, found.most),
    }


# ---- where the budget went ----


def budget(subject: Subject) -> dict[str, Any]:
    """What was charged for what. `unit` is that of the shares, None where nothing adds up."""
    guarantee, parts = subject.release.guarantee, privacy_parts(subject.release)
    unit = currency(parts)
    shares = [0.0] * len(parts) if unit is None else _shares(parts, unit)
    letters = [*string.ascii_uppercase, *map(str, range(27, len(parts) + 1))][: len(parts)]
    rows = []
    for part, share, letter in zip(parts, shares, letters, strict=True):
        row = [letter, part.name]
        if unit is not None:
            row += [percent(share), number(cost(part, unit))]
        epsilon = alone(part, guarantee.transcript_delta)
        rows.append([*row, "\N{EN DASH}" if epsilon is None else number(epsilon)])
    largest = max(range(len(parts)), key=shares.__getitem__, default=None)
    return {
        "unit": unit,
        "rows": rows,
        "spent_delta": guarantee.transcript_delta + guarantee.numerical_delta,
        "largest": None if largest is None else (parts[largest].name, shares[largest]),
        "chart": None if unit is None else _bar(rows, shares, unit),
    }


def _bar(rows: list[list[str]], shares: list[float], unit: str) -> Markup:
    label = f"share of the {'cost in rho' if unit == ZCDP else 'epsilon'}"
    titles = [f"{letter}: {name}, {share}" for letter, name, share, *_ in rows]
    return budget_chart(shares, [row[0] for row in rows], label, titles)


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
    """What a part spent; nothing for what costs delta alone."""
    return sum(_event_cost(event, unit) or 0.0 for event in part.events)


def _shares(parts: tuple[Part, ...], unit: str) -> list[float]:
    costs = [cost(part, unit) for part in parts]
    total = sum(costs)
    return [each / total if total > 0 else 0.0 for each in costs]


def _event_cost(event: Event, unit: str) -> float | None:
    """What an event spends in a unit; None if it has no cost in it."""
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


# ---- every public parameter ----


def parameters(release: Release) -> str:
    """The numbers of a release as JSON, of bounded length."""
    content = {
        "mechanism": release.mechanism,
        "unit": release.unit,
        "noise_sd": release.noise_sd,
        "guarantee": release.guarantee.to_dict(),
        "parameters": dict(release.parameters),
    }
    text = json.dumps(content, indent=1, default=str, ensure_ascii=False)
    more = "\n... the rest is in release.json" if len(text) > _MOST_PARAMETERS else ""
    return "\n".join(map(printable, text[:_MOST_PARAMETERS].split("\n"))) + more
