"""`hushcov verify`: Theorem 1 and every lemma, checked at the paper's own constants."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import exact, number
from hushcov.cli.errors import CHECK_FAILED
from hushcov.cli.options import INTEGER, NUMBER, Command
from hushcov.cli.output import console, facts, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import ParameterError
from hushcov.lab.drawing import check_paths, write_png
from hushcov.lab.verification.claim import Claim
from hushcov.lab.verification.figure import verification_figure
from hushcov.lab.verification.simulation import (
    SWEEP_RUNS,
    Setting,
    Sweep,
    error_against_records,
    make_setting,
    records_sweep,
)
from hushcov.lab.verification.theorem import (
    DEFAULT_RUNS,
    N_CLAIMS,
    Verification,
    to_dict,
    verify_setting,
)
from hushcov.simulate import MODELS

DEFAULT_FEATURES = (20, 100, 400)
_MANY_FEATURES = 50  # from here on the default row sparsity is 5 instead of 2


class IntegerListType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """Whole numbers separated by commas."""

    name = "integers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers, each read as every other integer option is."""
        if isinstance(value, tuple):
            return value
        return tuple(INTEGER.convert(part, param, ctx) for part in str(value).split(","))


@click.command(cls=Command, name="verify")
@click.option(
    "--features",
    "n_features",
    type=IntegerListType(),
    multiple=True,
    metavar="D,...",
    help="Numbers of features, with commas or repeated.  [default: 20,100,400]",
)
@click.option(
    "--row-sparsity",
    type=IntegerListType(),
    multiple=True,
    metavar="K,...",
    help="Most nonzeros in a row: one for all, or one for each number of features.  "
    f"[default: 2 below {_MANY_FEATURES} features, else 5]",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    metavar="N",
    help="Number of records.  [default: for each setting the fewest with the theorem's r and b]",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    default="block",
    show_default=True,
    help="Pattern of the true covariance.",
)
@click.option("--target-error", type=NUMBER, default=0.25, show_default=True, metavar="ALPHA")
@click.option("--epsilon", type=NUMBER, default=1.0, show_default=True, metavar="EPSILON")
@click.option("--delta", type=NUMBER, default=1e-6, show_default=True, metavar="DELTA")
@click.option("--failure-probability", type=NUMBER, default=0.1, show_default=True, metavar="BETA")
@click.option("--scale", type=NUMBER, default=1.0, show_default=True, metavar="SIGMA")
@click.option(
    "--runs",
    type=INTEGER,
    default=DEFAULT_RUNS,
    show_default=True,
    metavar="N",
    help="Runs of the mechanism in each setting.",
)
@click.option("--seed", type=INTEGER, default=0, show_default=True, metavar="S")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PNG",
    help="Also draw the errors, run by run and against the number of records.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the JSON to a file.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    n_features: tuple[tuple[int, ...], ...],
    row_sparsity: tuple[tuple[int, ...], ...],
    runs: int,
    seed: int,
    as_json: bool,
    figure: Path | None,
    output: Path | None,
    **inputs: Any,
) -> None:
    """Check Theorem 1 and its lemmas, claim by claim, at the paper's own constants.

    Second moments are drawn from their exact law (Gaussian records), so that the mechanism
    really runs at 1e10 to 1e17 records. Every number is computed in two ways, and a claim holds
    if both keep its bound. The exit code is 0 if every claim holds and 1 otherwise.

    \b
    Example:
      hushcov verify --features 20,100 --runs 20 --figure verify.png
    """
    check_integer("runs", runs, at_least=1, cure="30 runs show a frequency of 0.9.")
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    check_paths(figure, output)
    pairs = _sizes(sum(n_features, ()), sum(row_sparsity, ()))
    settings = [make_setting(n_features=d, row_sparsity=k, **inputs) for d, k in pairs]
    started = time.perf_counter()
    verifications = [_verify(setting, runs, seed) for setting in settings]
    sweeps = [_sweep(setting, seed) for setting in settings] if figure is not None else []
    seconds = time.perf_counter() - started
    summary = {"runs": runs, "seed": seed, "seconds": round(seconds, 2)}
    result = json.dumps(summary | to_dict(verifications, sweeps), indent=1, allow_nan=False)
    if output is not None:
        output.write_text(result + "\n")
    if figure is not None:
        write_png(figure, verification_figure(verifications, sweeps))
    if as_json:
        click.echo(result)
    else:
        _print(verifications, seconds, [path for path in (figure, output) if path is not None])
    ctx.exit(0 if all(item.holds for item in verifications) else CHECK_FAILED)


def _sizes(features: tuple[int, ...], sparsities: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pair each number of features with its row sparsity."""
    features = features or DEFAULT_FEATURES
    if not sparsities:
        sparsities = tuple(min(d, 2 if d < _MANY_FEATURES else 5) for d in features)
    if len(sparsities) == 1:
        sparsities *= len(features)
    if len(sparsities) != len(features):
        raise ParameterError(
            f"row_sparsity must be one number, or one for each of the {len(features)} numbers of "
            f"features, got {len(sparsities)}: write --features 20,100 --row-sparsity 2,5."
        )
    return list(zip(features, sparsities, strict=True))


def _verify(setting: Setting, runs: int, seed: int) -> Verification:
    name = f"d = {setting.parameters.inputs.n_features}: runs and claims"
    with steps(runs + N_CLAIMS) as step:
        step(name)
        return verify_setting(setting, runs, lambda done: step(name), seed=seed)


def _sweep(setting: Setting, seed: int) -> Sweep:
    records = records_sweep(setting)
    name = f"d = {setting.parameters.inputs.n_features}: figure"
    with steps(SWEEP_RUNS * len(records)) as step:
        step(name)
        return error_against_records(setting, records, seed=seed, progress=lambda done: step(name))


def _print(verifications: list[Verification], seconds: float, written: list[Path]) -> None:
    out = console()
    for item in verifications:
        inputs = item.setting.parameters.inputs
        heading(
            out,
            f"d = {inputs.n_features}, k = {inputs.row_sparsity}, n = {exact(inputs.n_records)}, "
            f"model {item.setting.model}, runs: {len(item.runs)}",
        )
        show(out, _table(item.claims))
        for claim in item.claims:
            if not claim.holds:
                paragraph(out, f"{claim.name}: {claim.detail}.", style="red")
    _print_legend(out, verifications[0].claims)
    claims = [claim for item in verifications for claim in item.claims]
    held, empty = sum(claim.holds for claim in claims), sum(claim.vacuous for claim in claims)
    note = f", {empty} of them empty" if empty else ""
    heading(out, f"{held} of {len(claims)} claims hold{note}. {seconds:.1f} s.")
    for path in written:
        paragraph(out, f"written: {path}")


def _table(claims: tuple[Claim, ...]) -> Table:
    table = plain_table()
    table.add_column("claim", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for title in ("bound", "measured", "2nd way", "margin"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for claim in claims:
        values = (claim.bound, claim.measured, claim.second)
        table.add_row(
            claim.name,
            claim.source.replace("Lemma", "Lem").replace("Theorem", "Thm"),
            *(_value(value, claim.logarithmic) for value in values),
            _margin(claim),
            _verdict(claim),
        )
    return table


def _verdict(claim: Claim) -> Text:
    if not claim.holds:
        return Text("NO", style="bold red")
    return Text("empty", style="yellow") if claim.vacuous else Text("yes", style="green")


def _value(value: float, logarithmic: bool) -> str:
    """A number, or a power of ten given by its logarithm, in at most ten characters."""
    if not logarithmic:
        return number(value, 3)
    if value == float("-inf"):
        return "0"
    if abs(value) < 4:
        return number(10**value, 3)
    return f"10^{number(value, 3 if abs(value) < 1e3 else 2)}"


def _margin(claim: Claim) -> str:
    margin = claim.margin
    return "any" if margin == float("inf") else _value(margin, claim.logarithmic)


def _print_legend(out: Console, claims: tuple[Claim, ...]) -> None:
    heading(out, "What the claims say")
    paragraph(
        out,
        "The margin is the bound over the measured value. 'empty': nothing to check, because no "
        "level selects, or no test can fire at one that does.",
    )
    show(out, "")
    facts(out, ((claim.name, claim.statement) for claim in claims))
