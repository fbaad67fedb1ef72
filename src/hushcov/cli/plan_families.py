"""`hushcov plan` where no sparsity is known: by family of structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from hushcov._words import count, counted, number
from hushcov.cli.forecasts import (
    Planner,
    command_memory,
    error_cell,
    knowledge,
    memory_words,
    rounded,
    warned,
)
from hushcov.cli.output import facts, heading, paragraph, show, steps, text_table, warning
from hushcov.cli.words import PROMISED, promised
from hushcov.planning import Caution, Families, default_mechanism
from hushcov.planning.families import families, forecast_families, guesses, smallest_for

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
            planner.inputs(n)
            found = forecast_families(request, n, d)
            cautions = request.cautions(*request.divide(n, d), found.usual)
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
