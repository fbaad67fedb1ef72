"""`hushcov audit`: attack the mechanisms, and compare what leaks with what they claim."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from hushcov._words import number
from hushcov.cli.errors import CHECK_FAILED
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import ParameterError
from hushcov.lab.audit import MECHANISMS, AuditResult, attacks_on, audit
from hushcov.lab.audit.figure import audit_figure
from hushcov.lab.audit.run import ALARM_RATE, BATCHES, DEFAULT_RUNS, QUICK_RUNS
from hushcov.lab.drawing import check_paths, write_png


@click.command(cls=Command, name="audit")
@click.argument("mechanism", type=click.Choice(("all", *MECHANISMS)), metavar="MECHANISM|all")
@click.option(
    "--runs",
    type=INTEGER,
    metavar="N",
    help="Runs on each of two neighbouring datasets.  "
    f"[default: {DEFAULT_RUNS:,}, or {QUICK_RUNS:,} with --quick]",
)
@click.option("--quick", is_flag=True, help="Fewer runs: all mechanisms within two minutes.")
@click.option("--seed", type=INTEGER, default=0, show_default=True, metavar="S")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PNG",
    help="Also draw claimed against measured, mechanism by mechanism.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    mechanism: str,
    runs: int | None,
    quick: bool,
    seed: int,
    as_json: bool,
    figure: Path | None,
) -> None:
    """Attack a mechanism, or all of them, and bound epsilon from below.

    A mechanism runs many times on two datasets that differ in one record, chosen to be as hard
    on it as its proof allows. How well its outputs tell the two apart bounds its epsilon from
    below: a bound above the claim would prove the claim wrong, one below it proves nothing. The
    exit code is 0 if every claim survives and 1 if one is broken.

    \b
    Mechanisms: multiscale-theorem, multiscale-gate, multiscale-value, screened,
    screened-clipped, screened-quantile, row-top-k, gaussian-row, gaussian-coordinate,
    scales, coinpress, coinpress-paper, separate-gauss, separate-eigen, separate-paper,
    separate-adaptive, eigen-sampling.

    \b
    Examples:
      hushcov audit all --quick
      hushcov audit screened --figure audit.png
    """
    if quick and runs is not None:
        raise ParameterError("quick cannot be given together with --runs: leave one of them out.")
    check_paths(figure)
    runs = runs if runs is not None else QUICK_RUNS if quick else DEFAULT_RUNS
    started = time.perf_counter()
    results = _attack(MECHANISMS if mechanism == "all" else (mechanism,), runs, seed)
    seconds = time.perf_counter() - started
    survive = all(result.survives for result in results)
    if figure is not None:
        write_png(figure, audit_figure(results))
    if as_json:
        summary = {"survive": survive, "seed": seed, "alarm_rate": ALARM_RATE}
        found = {"seconds": round(seconds, 2), "attacks": [item.to_dict() for item in results]}
        click.echo(json.dumps(summary | found, indent=1, allow_nan=False))
    else:
        _print(results, seconds, figure)
    ctx.exit(0 if survive else CHECK_FAILED)


def _attack(mechanisms: tuple[str, ...], runs: int, seed: int) -> list[AuditResult]:
    n_attacks = sum(len(attacks_on(name)) for name in mechanisms)
    results: list[AuditResult] = []
    with steps(n_attacks * BATCHES) as step:
        for name in mechanisms:
            results += audit(name, runs=runs, seed=seed, progress=step)
    return results


def _print(results: list[AuditResult], seconds: float, figure: Path | None) -> None:
    out = console()
    show(out, _table(results))
    broken = sum(not result.survives for result in results)
    verb = "breaks" if broken == 1 else "break"
    verdict = f"{broken} {verb} a claim" if broken else "every claim survives"
    heading(out, f"{len(results)} attacks: {verdict}. {seconds:.0f} s.")
    paragraph(
        out,
        "Measured is a lower bound on epsilon at the claimed delta. Above the claim, it shows that "
        "the claim is false (at most one audit in a thousand is a false alarm). Below it, it does "
        "not show that the claim is true.",
    )
    if figure is not None:
        paragraph(out, f"written: {figure}")


def _table(results: list[AuditResult]) -> Table:
    table = plain_table()
    table.add_column("mechanism and pair", no_wrap=True)
    table.add_column("statistic", no_wrap=True)
    for title in ("claimed", "measured", "ratio", "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for position, result in enumerate(results):
        if position == 0 or results[position - 1].mechanism != result.mechanism:
            table.add_row(Text(result.mechanism, style="bold"))
        table.add_row(
            f"  {result.pair}",
            result.statistic,
            number(result.claimed_epsilon, 3),
            number(result.measured_epsilon, 3),
            f"{result.ratio:.2f}",
            f"{result.runs:,}",
            Text("stands", style="green") if result.survives else Text("BROKEN", style="bold red"),
        )
    return table
