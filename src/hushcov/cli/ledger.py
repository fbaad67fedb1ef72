"""`hushcov ledger`: the privacy budget of datasets over all releases, in one file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from hushcov._validation import LARGEST_DELTA, check_real
from hushcov._words import counted, number
from hushcov.cli.options import JSON, NUMBER, Command, Function
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
)
from hushcov.kernel.accounting import ONE_REPLACED, RECORD, RELATIONS, Approximate, Pure
from hushcov.ledger import Ledger, Receipt, Statement, remaining_of

_FILE = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
_DATASET = click.option(
    "--dataset", required=True, metavar="NAME", help="Name of the dataset in the ledger."
)


def _amount(name: str, meaning: str, **more: Any) -> Callable[[Function], Function]:
    return click.option(f"--{name}", type=NUMBER, metavar=name.upper(), help=meaning, **more)


_EPSILON = _amount("epsilon", "Total budget of the dataset; above 0.", required=True)
_DELTA = _amount(
    "delta",
    "Total budget of the dataset; at most 0.1, well below 1 / records. 0: pure releases only.",
    required=True,
)


@click.group(name="ledger", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Keep the privacy budget of datasets, over all releases, in one file.

    Promise a total once; every release is charged to it before any record is read, and refused
    when all releases together would cost more than was promised.

    \b
    Example:
      hushcov ledger init budget.db --dataset patients --epsilon 1 --delta 1e-6
      hushcov fit patients.npy --epsilon 0.5 --delta 1e-7 --row-sparsity 5 \\
        --ledger budget.db --dataset patients
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(cls=Command)
@_FILE
@_DATASET
@_EPSILON
@_DELTA
@click.option(
    "--neighbours",
    type=click.Choice(tuple(RELATIONS)),
    default=ONE_REPLACED.relation,
    show_default=True,
    help="What may happen to one unit: it is replaced, or added or removed.",
)
@click.option(
    "--unit",
    default=RECORD,
    show_default=True,
    metavar="WORD",
    help="Whom the budget protects, in one word, as patient; all records of one of them together.",
)
@JSON
def init(
    file: Path,
    dataset: str,
    epsilon: float,
    delta: float,
    neighbours: str,
    unit: str,
    as_json: bool,
) -> None:
    """Promise a total budget for a dataset, in a new file or one that exists.

    \b
    Examples:
      hushcov ledger init budget.db --dataset patients --epsilon 1 --delta 1e-6
      hushcov ledger init budget.db --dataset visits --epsilon 1 --delta 1e-6 --unit patient
    """
    ledger = Ledger(file)
    ledger.open_dataset(dataset, epsilon, delta, neighbours, unit)
    _report([ledger.statement(dataset)], as_json)


@command.command(cls=Command)
@_FILE
@_DATASET
@_EPSILON
@_DELTA
@JSON
def change(file: Path, dataset: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Promise another total for a dataset; the ledger keeps both.

    A larger total weakens what was promised before. A total below what is spent is refused.

    \b
    Example:
      hushcov ledger change budget.db --dataset patients --epsilon 2 --delta 1e-6
    """
    ledger = Ledger(file)
    ledger.change_budget(dataset, epsilon, delta)
    _report([ledger.statement(dataset)], as_json)


@command.command(cls=Command)
@_FILE
@_DATASET
@_amount("epsilon", "What the release promises; above 0.", required=True)
@_amount("delta", "What the release promises; at most 0.1.", default=0.0, show_default=True)
@click.option("--label", required=True, metavar="TEXT", help="What the release is, in short.")
@JSON
def charge(
    file: Path, dataset: str, epsilon: float, delta: float, label: str, as_json: bool
) -> None:
    """Charge a release that is made elsewhere, with the epsilon and delta it promises.

    Charge first, release then. If this fails, do not release.

    \b
    Example:
      hushcov ledger charge budget.db --dataset patients --epsilon 0.1 --label "table of ages"
    """
    check_real("epsilon", epsilon, above=0, cure="it is what the release promises.")
    if delta:
        check_real("delta", delta, above=0, at_most=LARGEST_DELTA, cure="0 is allowed too.")
    cost = Approximate(epsilon, delta) if delta else Pure(epsilon)
    receipt = Ledger(file).charge(dataset, cost, label=label)
    if as_json:
        echo_json(receipt.to_dict())
        return
    paragraph(
        console(),
        f"Charged as release {receipt.number} of {dataset}. All of them together: "
        f"{_cost(receipt.total.epsilon, receipt.total.delta)}.",
    )


@command.command(name="show", cls=Command)
@_FILE
@click.option("--dataset", metavar="NAME", help="Show this dataset only.")
@JSON
def show_command(file: Path, dataset: str | None, as_json: bool) -> None:
    """Show what was promised, what is spent, what is left, and every charge.

    \b
    Example:
      hushcov ledger show budget.db --dataset patients
    """
    ledger = Ledger(file)
    names = ledger.datasets() if dataset is None else (dataset,)
    _report([ledger.statement(name) for name in names], as_json)


def _report(statements: Sequence[Statement], as_json: bool) -> None:
    if not as_json:
        out = console()
        for each in statements:
            _print_statement(out, each)
        return
    found = [
        {
            "dataset": each.budget.dataset,
            "epsilon": each.budget.epsilon,
            "delta": each.budget.delta,
            "neighbours": each.budget.neighbours,
            "unit": each.budget.unit,
            "promises": [asdict(promise) for promise in each.promises],
            "spent": asdict(each.spent()),
            "remaining": asdict(remaining_of(each)),
            "charges": [receipt.to_dict() for receipt in each.receipts],
        }
        for each in statements
    ]
    echo_json({"datasets": found})


def _print_statement(out: Console, statement: Statement) -> None:
    budget, spent, left = statement.budget, statement.spent(), remaining_of(statement)
    made = counted(len(statement.receipts), "release")
    by = f"{_cost(spent.epsilon, spent.delta)}, by {made} together"
    rest = "nothing"
    if left.epsilon > 0:
        rest = f"a release of epsilon {number(left.epsilon)} at delta {number(left.delta)}"
    elif left.pure_epsilon > 0:
        rest = f"a release of epsilon {number(left.pure_epsilon)} and delta 0; no delta is left"
    *before, promised = (
        f"{_cost(each.epsilon, each.delta)}, on {each.time.partition('T')[0]}"
        for each in (*statement.promises[:-1], budget)
    )
    heading(out, budget.dataset)
    facts(
        out,
        (
            *(("promised before", words) for words in before),
            ("promised", promised),
            ("for", clean(budget.change)),
            ("spent", by if statement.receipts else "nothing"),
            *_composition(statement, spent.epsilon),
            ("left", rest),
        ),
    )
    if statement.receipts:
        show(out, "")
        show(out, _table(statement.receipts))


def _composition(statement: Statement, spent: float) -> list[tuple[str, str]]:
    """Explain why a total differs from the sum of its parts."""
    promises = [receipt.charge.promise for receipt in statement.receipts]
    added = math.fsum(each.epsilon for each in promises if each is not None)
    if None in promises or math.isclose(added, spent, rel_tol=1e-6):
        return []
    than = f"than the sum of the parts, epsilon {number(added)}"
    if len(promises) == 1:
        than = f"than the epsilon {number(added)} it promises"
        why = "the release was made at another delta than the budget has now"
    elif spent < added:
        why = (
            "every release has noise of its own, so that what they tell adds up more slowly than "
            "their epsilons, and all of them are counted at the delta of the budget (composition)"
        )
    else:
        why = (
            "what a release costs may be decided after looking at the ones before, which the total "
            "has to allow for (composition)"
        )
    return [("", f"{'Less' if spent < added else 'More'} {than}: {why}.")]


def _table(receipts: tuple[Receipt, ...]) -> Table:
    table = plain_table()
    for title in ("no.", "time (UTC)", "label", "cost"):
        table.add_column(title, overflow="fold", no_wrap=title in ("no.", "time (UTC)"))
    table.add_column("total epsilon", justify="right", no_wrap=True)
    for receipt in receipts:
        charge, promise = receipt.charge, receipt.charge.promise
        cost = ", ".join(dict.fromkeys(repr(event) for event in charge.events))
        if promise is not None:
            cost = _cost(promise.epsilon, getattr(promise, "delta", 0.0))
        notes = ["counted twice: for one added or removed"] * charge.converted
        notes += [] if charge.private else ["seeded: not private"]
        table.add_row(
            str(receipt.number),
            receipt.time.removesuffix("+00:00").replace("T", " "),
            receipt.label,
            f"{cost} ({'; '.join(notes)})" if notes else cost,
            number(receipt.total.epsilon),
        )
    return table


def _cost(epsilon: float, delta: float) -> str:
    return f"epsilon {number(epsilon)}, delta {number(delta)}"
