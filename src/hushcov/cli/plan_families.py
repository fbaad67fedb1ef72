"""`hushcov plan` where no sparsity is known: by family of structure, or like an earlier release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from hushcov._words import count, counted, number
from hushcov.accounting.promise import odds_of
from hushcov.cli.forecasts import (
    Planner,
    command_memory,
    error_cell,
    knowledge,
    memory_words,
    rounded,
    warned,
)
from hushcov.cli.output import clean, facts, heading, paragraph, show, steps, text_table, warning
from hushcov.cli.words import PROMISED, promised
from hushcov.planning import Caution, Families, LikeForecast, default_mechanism
from hushcov.planning.families import families, forecast_families, guesses, smallest_for
from hushcov.planning.like import MULTIPLES, Earlier, earlier_release
from hushcov.release import Release

Guesses = dict[int, dict[int, float]]


@dataclass(frozen=True)
class FamilyRow:
    """What to expect at one number of records, and what to heed."""

    n_records: int
    found: Families
    cautions: tuple[Caution, ...]
    prepared: bool = True  # whether means are found privately

    @property
    def memory(self) -> int:
        """Bytes that 'hushcov fit' needs, beside what reading files takes."""
        name = default_mechanism().name
        return command_memory(name, self.found.inputs, prepared=self.prepared)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "n_records": self.n_records,
            "n_averaged": self.found.inputs.n_records,
            "families": self.found.to_dict(),
            "detection_limit": self.found.usual.detection_limit,
            "memory_bytes": self.memory,
            "warnings": [caution.sentence for caution in self.cautions],
        }


@dataclass(frozen=True)
class FamilyPlan:
    """The plan: rows, what guesses of the sparsity would change at one number, and targets."""

    planner: Planner
    rows: tuple[FamilyRow, ...]
    guessed: Guesses
    target_error: float | None
    smallest: dict[str, int | None] | None

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "mechanism": default_mechanism().name,
            "plans": [row.to_dict() for row in self.rows],
            "guesses": [
                {"row_sparsity": true, "told": told, "predicted_error": error}
                for true, by_told in self.guessed.items()
                for told, error in by_told.items()
            ],
            "target_error": self.target_error,
            "smallest_records": self.smallest,
        }


def plan_families(
    planner: Planner, records: Sequence[int], target_error: float | None
) -> FamilyPlan:
    """Predict every family at every number of records, under a progress bar."""
    request, d, rows = planner.request, planner.n_features, []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            averaged = planner.inputs(n).n_records
            found = forecast_families(request, averaged, d)
            cautions = request.cautions(*request.divide(averaged, d), found.usual)
            rows.append(FamilyRow(n, found, cautions, request.private_centre))
    one = len(rows) == 1 and d > 1
    guessed = guesses(request, rows[0].found.inputs.n_records, d) if one else {}
    tried = {row.found.inputs.n_records for row in rows}
    smallest = None if target_error is None else _smallest(planner, target_error, tried)
    return FamilyPlan(planner, tuple(rows), guessed, target_error, smallest)


def _smallest(planner: Planner, target_error: float, tried: set[int]) -> dict[str, int | None]:
    request, d = planner.request, planner.n_features
    listed, found = families(d), {}
    with steps(len(listed)) as step:
        for each in listed:
            step(f"smallest number of records: {each.name}")
            found[each.name] = smallest_for(request, d, each, target_error, set(tried))
    return found


def print_families(out: Console, plan: FamilyPlan) -> None:
    """Tables of the errors, and what they mean."""
    planner, rows = plan.planner, plan.rows
    request, one = planner.request, len(rows) == 1
    size = f"{counted(planner.n_features, 'feature')}, epsilon {number(request.epsilon)}, delta "
    size += number(request.delta)
    records = f"{counted(rows[0].n_records, 'record')} of " if one else ""
    heading(out, f"Predicted error, whatever the structure: {records}{size}")
    paragraph(
        out,
        "Operator norm of the error over that of the covariance, where features have equal scales: "
        "the zero matrix, which needs no data, has 1. 'hushcov fit' finds out by itself what the "
        "covariance is like. " + knowledge(planner),
    )
    show(out, "")
    show(out, _one_table(rows[0]) if one else _table(rows))
    for remark in _remarks(rows):
        paragraph(out, remark)
    for sentence in warned([(row.n_records, row.cautions) for row in rows]):
        warning(out, sentence)
    if plan.guessed:
        _print_guesses(out, plan)
    if one:
        heading(out, "The design, from public inputs alone")
        facts(out, default_mechanism().plan(rows[0].found.inputs).facts(request.found_before))
    heading(out, PROMISED)
    facts(out, promised(request.epsilon, request.delta, request.neighbours))
    if plan.smallest is not None:
        heading(out, f"Smallest number of records with a predicted error of {plan.target_error}")
        cells = [
            (name, "not by 1e12" if n is None else rounded(n)) for name, n in plan.smallest.items()
        ]
        show(out, text_table(("if", "records"), cells))


def _one_table(row: FamilyRow) -> Any:
    cells = [(each.name, each.words, error_cell(e)) for each, e in row.found.errors.items()]
    return text_table(("if", "that is", "error"), cells)


def _table(rows: Sequence[FamilyRow]) -> Any:
    names = [each.name for each in rows[0].found.errors]
    cells = [
        (count(row.n_records), *(error_cell(e) for e in row.found.errors.values())) for row in rows
    ]
    return text_table(("records", *names), cells)


def _remarks(rows: Sequence[FamilyRow]) -> list[str]:
    inputs = rows[-1].found.inputs
    words = [
        "k counts the nonzeros of a row of the covariance, the diagonal included. factor: one that "
        "explains a third of the variance. dense: all pairs are related, a little."
    ]
    limit = rows[0].found.usual.detection_limit
    if len(rows) == 1 and limit is not None and limit < 1:
        k = inputs.row_sparsity
        words.append(
            f"Correlations of {number(limit, 2)} or more are found nine times out of ten (k = {k})."
        )
    return [*words, f"A fit {memory_words(rows[-1].memory)}"]


def _print_guesses(out: Console, plan: FamilyPlan) -> None:
    """What a guess of k would change: the screened release is told one, the default needs none."""
    heading(out, "What a guess of k would change")
    errors = {each.row_sparsity: e for each, e in plan.rows[0].found.errors.items()}
    told = list(plan.guessed)
    cells = [
        (str(true), *(error_cell(by_told[guess]) for guess in told), error_cell(errors[true]))
        for true, by_told in plan.guessed.items()
    ]
    titles = ("true k", *(f"told {guess}" for guess in told), "not told")
    show(out, text_table(titles, cells))
    paragraph(
        out,
        "Told: 'hushcov fit --mechanism screened --row-sparsity K', which looks for as many pairs "
        "as it is told. Not told: the default. To the default --row-sparsity is advice, with which "
        "it starts: it changes little.",
    )


@dataclass(frozen=True)
class LikePlan:
    """Predictions from an earlier release, one for each number of records."""

    folder: Path
    earlier: Earlier
    rows: tuple[tuple[int, LikeForecast], ...]

    @property
    def release(self) -> Release:
        """The earlier release."""
        return self.earlier.release

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        first, found = self.rows[0][1], self.release.making.structure
        return {
            "like": str(self.folder),
            "n_features": self.release.n_features,
            "epsilon": first.epsilon,
            "delta": first.delta,
            "structure": None if found is None else found.kind,
            "how": first.how,
            "plans": [each.to_dict() for _, each in self.rows],
        }


def plan_like(
    folder: Path, records: Sequence[int], epsilon: float | None, delta: float | None
) -> LikePlan:
    """Predict from the release in a folder, for these records or multiples of its own."""
    earlier = earlier_release(Release.read(folder))
    own, each = earlier.n_records, earlier.rows_averaged
    asked = sorted(set(records)) or [max(each, round(own * times)) for times in MULTIPLES]
    found = []
    with steps(len(asked)) as step:
        for n in asked:
            step(f"predicting {n:,} records")
            found.append((n, earlier.forecast(n, epsilon, delta)))
    return LikePlan(folder, earlier, tuple(found))


def print_like(out: Console, plan: LikePlan) -> None:
    """A table of the errors, and how they were predicted."""
    first, release = plan.rows[0][1], plan.release
    heading(out, f"Predicted error of a table like that of {clean(str(plan.folder))}/")
    found = release.making.structure
    lines = [
        ("features", f"{release.n_features:,}"),
        ("budget", f"epsilon {number(first.epsilon)}, delta {number(first.delta)}"),
    ]
    if found is not None:
        lines.append(("structure", f"{found.kind}: {clean(found.why)}"))
    whom = release.guarantee.adjacency, release.guarantee.unit
    lines.append(("odds", clean(str(odds_of(first.epsilon, first.delta, *whom)))))
    facts(out, lines)
    show(out, "")
    cells = [
        (
            count(n),
            error_cell(each.error),
            f"{error_cell(each.least)} to {error_cell(each.most)}",
            number(each.noise_sd, 2),
        )
        for n, each in plan.rows
    ]
    show(out, text_table(("records", "error", "between", "noise on a correlation"), cells))
    paragraph(
        out,
        f"How: {first.how}. What it may have missed counts as in its own error estimate. Errors "
        "are over the norm of the covariance; the zero matrix has 1. Nothing but the release was "
        "read, and nothing is spent.",
    )
