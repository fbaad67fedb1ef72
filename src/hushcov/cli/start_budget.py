"""Prompts about the promise: epsilon in odds, delta, the ledger, and where the release goes."""

from __future__ import annotations

import math
from pathlib import Path

from hushcov._validation import check_real
from hushcov._words import number
from hushcov.accounting import RECORD, RELATIONS, REPLACE
from hushcov.accounting.guarantee import (
    PRIORS,
    guess_words,
    highest_posterior,
    in_percent,
    odds_of,
)
from hushcov.accounting.ledger import Ledger
from hushcov.cli.files import check_parent, refuse_taken
from hushcov.cli.output import facts, heading, paragraph, show, text_table
from hushcov.cli.prompts import NONE, a_number
from hushcov.cli.settings import plain_number
from hushcov.cli.start_columns import Draft
from hushcov.exceptions import ParameterError
from hushcov.inputs import LARGEST_EPSILON

_EPSILONS = (0.5, 1.0, 2.0)  # of which the table tells the odds
_USUAL_EPSILON, _USUAL_DELTA = 1.0, 1e-6
_LEDGER = "budget.db"
Whom = tuple[str, str]


def whom(draft: Draft) -> Whom:
    """The relation and the unit of the promise, as the ledger calls them."""
    unit = draft.known("unit")
    named = draft.header.names is not None
    return draft.known(
        "neighbours"
    ) or REPLACE, RECORD if unit is None else unit if named else "unit"


def ask_missing(draft: Draft) -> None:
    """Ask whether values may be missing."""
    missing = draft.ask.yes(
        "May values be missing?",
        default=draft.known("drop-nulls") is not None or not draft.answered,
        help="yes: rows with a gap are left out, and about how many are complete is released, for "
        "a small part of the budget. Do not remove such rows yourself: that breaks the promise.",
        note="In doubt say yes. If you say no and there is a gap, the release stops there, and its "
        "budget is spent all the same.",
    )
    draft.put("drop-nulls", missing)


def ask_promise(draft: Draft, rows: int) -> None:
    """Ask for epsilon, with what it means in odds, and for delta."""
    heading(draft.out, "3. The promise")
    relation, unit = whom(draft)
    adjacency = RELATIONS[relation]
    guess = guess_words(adjacency, unit)
    paragraph(
        draft.out, f"How sure somebody can become, at most, {guess}, by how sure they were before:"
    )
    show(draft.out, "")
    titles = ["epsilon", *(f"was {in_percent(prior)}" for prior in PRIORS)]
    show(draft.out, text_table(titles, map(_odds_row, _EPSILONS)))
    epsilon = draft.ask.ask(
        "Epsilon? (smaller: more privacy, more noise)",
        _epsilon,
        default=plain_number(draft.known("epsilon") or _USUAL_EPSILON),
        help="How much a release may give away of anybody. 1 is a common choice; above 2 the "
        "promise is weak, below 0.5 many rows are needed. Choose without looking at the records.",
    )
    draft.put("epsilon", epsilon)
    usual = min(_USUAL_DELTA, 10.0 ** math.floor(math.log10(0.1 / rows)))
    delta = draft.ask.ask(
        "Delta? (the chance that the promise goes further)",
        lambda text: _delta(text, rows),
        default=plain_number(draft.known("delta") or usual),
        help="Far below 1 / rows: with a delta of 1 / rows a release might publish somebody as "
        "they are. 1e-6 is usual.",
    )
    draft.put("delta", delta)
    if epsilon not in _EPSILONS:
        paragraph(draft.out, f"So {odds_of(epsilon, delta, adjacency, unit)}")


def _odds_row(epsilon: float) -> list[str]:
    return [number(epsilon), *(in_percent(highest_posterior(p, epsilon)) for p in PRIORS)]


def _epsilon(text: str) -> float:
    cure = "1 is a common choice."
    return check_real("epsilon", a_number(text), above=0, at_most=LARGEST_EPSILON, cure=cure)


def _delta(text: str, rows: int) -> float:
    delta = check_real("delta", a_number(text), above=0, cure="try 1e-6.")
    if delta * rows >= 1:
        raise ParameterError(
            f"delta must be below 1 / rows, {number(1 / rows)}: try a tenth of it."
        )
    return delta


def ask_ledger(draft: Draft, *, again: bool) -> None:
    """Ask which ledger keeps count, and what total it is to promise if the dataset is new.

    `again` says that an earlier answer may have been that there is none.
    """
    heading(draft.out, "4. The ledger")
    usual = NONE if again else _LEDGER
    paragraph(
        draft.out,
        "Releases of the same rows add up. A ledger is a file that holds the total you promise, "
        "and refuses what goes beyond.",
    )
    path = draft.ask.ask(
        f"Which file is the ledger? (new or existing, or {NONE})",
        _ledger,
        default=str(draft.known("ledger") or usual),
        help="One file can hold many datasets. Keep it where it is backed up, and use the same one "
        f"for all releases. {NONE}: nobody keeps count.",
    )
    draft.settings.budget.clear()
    draft.put("ledger", None if path is None else str(path))
    draft.put("dataset", draft.known("dataset") if path is not None else None)
    if path is None:
        return
    known = _known_datasets(draft, path)
    dataset = draft.ask.ask(
        "Under which name are these rows in it?",
        lambda text: _dataset(draft, path, text, known),
        default=str(draft.known("dataset") or draft.stem),
        help="A name for the people in this table. Another file about the same people belongs "
        "under the same name: one name, one budget.",
    )
    draft.put("dataset", dataset)
    if dataset not in known:
        _ask_total(draft)


def _ledger(text: str) -> Path | None:
    if text.casefold() == NONE:
        return None
    path = Path(text)
    check_parent(path)
    if path.exists():
        Ledger(path).datasets()  # refuses what is no ledger
    return path


def _known_datasets(draft: Draft, path: Path) -> tuple[str, ...]:
    if not path.exists():
        return ()
    ledger = Ledger(path)
    known = ledger.datasets()
    lines = []
    for name in known:
        budget, left = ledger.statement(name).budget, ledger.remaining(name)
        words = f"epsilon {number(left.epsilon)} left of {number(budget.epsilon)}"
        lines.append((name, f"{words}, for {budget.change}"))
    show(draft.out, "")
    facts(draft.out, lines)
    return known


def _dataset(draft: Draft, path: Path, name: str, known: tuple[str, ...]) -> str:
    if name in known:
        budget = Ledger(path).statement(name).budget
        if (budget.neighbours, budget.unit) != whom(draft):
            raise ParameterError(
                f"the budget of {name!r} is for {budget.change}, and this release is for another "
                "promise: choose another name, or change the answers about whom it protects."
            )
    return name


def _ask_total(draft: Draft) -> None:
    epsilon, delta = draft.known("epsilon"), draft.known("delta")
    total = draft.ask.ask(
        "Total epsilon for all releases of these rows?",
        lambda text: _total(text, epsilon),
        default=plain_number(epsilon),
        help="What all releases together may give away. The default leaves no room for a second "
        "release, and is the strongest promise; twice as much leaves room for one or two. It can "
        "be raised later, as a new promise, by 'hushcov ledger change'.",
    )
    draft.settings.budget.update(epsilon=total, delta=delta)


def _total(text: str, epsilon: float) -> float:
    total = a_number(text)
    if not math.isfinite(total) or total < epsilon:
        raise ParameterError(f"it must be at least the {number(epsilon)} of this release.")
    return total


def ask_output(draft: Draft) -> None:
    """Ask where the release goes: into a folder that is free."""
    usual = Path(str(draft.known("output") or f"{draft.stem}-release"))
    tried, i = usual, 1
    while tried.exists():
        i += 1
        tried = usual.with_name(f"{usual.name}-{i}")
    folder = draft.ask.ask(
        "Into which folder does the release go?",
        _folder,
        default=str(tried),
        help="A new folder: the estimate, tables, a report to open in a browser, and what was "
        "promised. All of it may be handed on.",
    )
    draft.put("output", str(folder))


def _folder(text: str) -> Path:
    folder = Path(text)
    refuse_taken(folder)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file: name a folder.")
    return folder
