"""`hushcov plan`: what error to expect at which number of records, without any data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_real
from hushcov.cli.cells import (
    MOST_RECORDS,
    Cell,
    default_records,
    plan_cells,
    smallest_records,
)
from hushcov.cli.design import design_facts
from hushcov.cli.folders import check_figure
from hushcov.cli.levels import level_table
from hushcov.cli.options import INTEGER, NUMBER, Command, sparsity_and_budget
from hushcov.cli.output import console, count, facts, heading, number, paragraph, show
from hushcov.cli.progress import busy, steps
from hushcov.mechanisms.multiscale import CalibratedInputs
from hushcov.planning import REFERENCE_MODELS
from hushcov.report.plan import write_plan_figure

MECHANISMS = ("multiscale",)
RECONSTRUCTIONS = {"value": ("value",), "gate": ("gate",), "both": ("value", "gate")}

# Smallest n by reconstruction and reference model; None where there is none.
Smallest = dict[str, dict[str, int | None]]


@click.command(cls=Command, name="plan")
@click.option(
    "--features", "n_features", type=INTEGER, required=True, metavar="D", help="Number of features."
)
@sparsity_and_budget
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    multiple=True,
    metavar="N",
    help="Number of records; may be repeated. One alone also shows the chosen design.  "
    "[default: three decades, from hopeless to accurate]",
)
@click.option(
    "--scale",
    type=NUMBER,
    default=1.0,
    show_default=True,
    metavar="SIGMA",
    help="Public bound on the standard deviation in every direction; errors are relative to its "
    "square.",
)
@click.option(
    "--mechanism",
    type=click.Choice(MECHANISMS),
    default="multiscale",
    show_default=True,
    help="What would be run.",
)
@click.option(
    "--reconstruction",
    type=click.Choice(tuple(RECONSTRUCTIONS)),
    default="both",
    show_default=True,
    help="What would be read from the protected tests.",
)
@click.option(
    "--target-error",
    type=NUMBER,
    metavar="ALPHA",
    help="Also find the smallest number of records with at most this error, in units of scale^2. "
    "May take some minutes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PNG",
    help="Also draw the error against the number of records.",
)
def command(
    n_records: tuple[int, ...],
    mechanism: str,
    reconstruction: str,
    target_error: float | None,
    as_json: bool,
    figure: Path | None,
    **public: Any,
) -> None:
    """Predict the error at any number of records. No data is needed, and no budget is spent.

    The numbers of the mechanism are chosen for each size, and the error is predicted for
    covariances like those of four reference models: blocks, bands, random pairs and diagonal.

    \b
    Example:
      hushcov plan --features 1000 --row-sparsity 5 --epsilon 1 --delta 1e-6 --records 1e6
    """
    settings = _settings(n_records, public)
    _check_target(target_error)
    if figure is not None:
        check_figure(figure)
    reconstructions = RECONSTRUCTIONS[reconstruction]
    cells = _plan(settings, reconstructions)
    smallest = _search(settings[0], reconstructions, target_error)
    if figure is not None:
        plans = [cell.plan for cell in cells if cell.plan is not None]
        write_plan_figure(figure, plans, target_error=target_error)
    if as_json:
        result = {
            "mechanism": mechanism,
            "cells": [cell.to_dict() for cell in cells],
            "target_error": target_error,
            "smallest_records": smallest,
        }
        click.echo(json.dumps(result, indent=1, allow_nan=False))
        return
    _print(console(), cells, target_error, smallest, figure)


def _settings(n_records: Sequence[int], public: dict[str, Any]) -> list[CalibratedInputs]:
    """The public inputs of each row of the table, all of them checked before any is planned."""
    if not n_records:
        n_records = default_records(CalibratedInputs(n_records=1, **public))
    return [CalibratedInputs(n_records=n, **public) for n in sorted(set(n_records))]


def _check_target(target_error: float | None) -> None:
    if target_error is not None:
        cure = "it is in units of scale^2, and the zero matrix has an error of at most 1."
        check_real("target_error", target_error, above=0, at_most=1, cure=cure)


def _plan(settings: Sequence[CalibratedInputs], reconstructions: Sequence[str]) -> list[Cell]:
    """Plan every cell; if none can be certified, say why."""
    with steps(len(settings) * len(reconstructions)) as step:
        cells = plan_cells(settings, reconstructions, step)
    refusals = [cell.refusal for cell in cells if cell.refusal is not None]
    if len(refusals) == len(cells):
        raise refusals[0]
    return cells


def _search(
    inputs: CalibratedInputs, reconstructions: Sequence[str], target_error: float | None
) -> Smallest | None:
    if target_error is None:
        return None
    with busy("searching the smallest number of records") as say:
        return {
            name: {
                model: smallest_records(inputs, name, model, target_error, say)
                for model in REFERENCE_MODELS
            }
            for name in reconstructions
        }


def _print(
    out: Console,
    cells: Sequence[Cell],
    target_error: float | None,
    smallest: Smallest | None,
    figure: Path | None,
) -> None:
    _print_errors(out, cells)
    if len({cell.inputs.n_records for cell in cells}) == 1:
        for cell in cells:
            _print_design(out, cell)
    if smallest is not None:
        heading(out, f"Smallest number of records with a predicted error of {target_error} or less")
        show(out, _smallest_table(smallest))
    if figure is not None:
        paragraph(out, f"\nwritten: {figure}")


def _print_errors(out: Console, cells: Sequence[Cell]) -> None:
    inputs = cells[0].inputs
    heading(
        out,
        f"Predicted error of the multiscale mechanism: {inputs.n_features:,} features, row "
        f"sparsity {inputs.row_sparsity}, epsilon {number(inputs.epsilon)}, delta "
        f"{number(inputs.delta)}",
    )
    paragraph(
        out,
        f"Operator norm, in units of scale^2{_unit(inputs)}, if the covariance is like one of "
        "four reference models. The zero matrix, which needs no data, has at most 1: from there on "
        "a release is hopeless.",
    )
    show(out, "")
    show(out, _error_table(cells))


def _unit(inputs: CalibratedInputs) -> str:
    return "" if inputs.scale == 1 else f" = {number(inputs.scale**2)}"


def _error_table(cells: Sequence[Cell]) -> Table:
    table = _table()
    table.add_column("records", justify="right", no_wrap=True)
    table.add_column("read-out", no_wrap=True)
    for model in REFERENCE_MODELS:
        table.add_column(model, justify="right", no_wrap=True)
    table.add_column("")
    for cell in cells:
        errors = [cell.error(model) for model in REFERENCE_MODELS]
        table.add_row(
            count(cell.inputs.n_records),
            cell.reconstruction,
            *("-" if cell.plan is None else number(error, 2) for error in errors),
            _remark(cell),
        )
    return table


def _remark(cell: Cell) -> Text:
    if cell.plan is None:
        return Text(f"refused: {cell.refusal}", style="red")
    # Judged as printed: 0.999 reads as 1.
    hopeless = [model for model in REFERENCE_MODELS if float(number(cell.error(model), 2)) >= 1]
    if len(hopeless) == len(REFERENCE_MODELS):
        return Text("no better than the zero matrix", style="red")
    return Text(f"hopeless on {', '.join(hopeless)}" if hopeless else "", style="yellow")


def _print_design(out: Console, cell: Cell) -> None:
    if cell.plan is None:
        return
    parameters = cell.plan.parameters
    heading(out, f"The chosen design, read out by {cell.reconstruction}")
    facts(out, design_facts(parameters))
    show(out, "")
    show(out, level_table(parameters.schedule))
    paragraph(out, "\n" + cell.plan.advice, style="bold red" if cell.plan.hopeless else "")


def _smallest_table(smallest: Smallest) -> Table:
    table = _table()
    table.add_column("read-out", no_wrap=True)
    for model in REFERENCE_MODELS:
        table.add_column(model, justify="right", no_wrap=True)
    for name, found in smallest.items():
        values = (found[model] for model in REFERENCE_MODELS)
        table.add_row(name, *(_most() if n is None else count(n) for n in values))
    return table


def _most() -> str:
    return f"not by {number(MOST_RECORDS)}"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
