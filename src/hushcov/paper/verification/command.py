"""`hushcov paper verify`: Theorem 1 and every lemma at the paper's own constants."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import exact, number
from hushcov.cli import CHECK_FAILED
from hushcov.cli.options import INTEGER, JSON, SEED, Command
from hushcov.cli.output import console, facts, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import ParameterError
from hushcov.paper.params_command import theorem_options
from hushcov.paper.verification.claims import (
    DEFAULT_RUNS,
    N_CLAIMS,
    Verification,
    to_dict,
    verify_setting,
)
from hushcov.paper.verification.simulation import Claim, Setting, make_setting
from hushcov.simulate import MODELS

DEFAULT_FEATURES = (20, 100, 400)
_MANY_FEATURES = 50  # from here on the default row sparsity is 5 instead of 2


def _integers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """Read whole numbers separated by commas, each as every other integer option is read."""
    return tuple(INTEGER.convert(part, param, ctx) for text in values for part in text.split(","))


@click.command(cls=Command, name="verify")
@click.option(
    "--features",
    "n_features",
    callback=_integers,
    multiple=True,
    metavar="D,...",
    help="Numbers of features, with commas or repeated.  [default: 20,100,400]",
)
@click.option(
    "--row-sparsity",
    callback=_integers,
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
    help="Number of records.  [default: for each setting the fewest that are accurate]",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    default="block",
    show_default=True,
    help="Pattern of the true covariance.",
)
@theorem_options(required=False)
@click.option(
    "--runs",
    type=INTEGER,
    default=DEFAULT_RUNS,
    show_default=True,
    metavar="N",
    help="Runs of the mechanism in each setting.",
)
@SEED
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    n_features: tuple[int, ...],
    row_sparsity: tuple[int, ...],
    runs: int,
    seed: int,
    as_json: bool,
    **inputs: Any,
) -> None:
    """Check Theorem 1 and its lemmas, claim by claim, at the paper's own constants.

    Second moments are drawn from their exact law (Gaussian records), so that the mechanism
    really runs at 1e10 to 1e17 records. Every number is computed in two ways, and a claim holds
    if both keep its bound. The exit code is 0 if every claim holds and 1 otherwise.

    \b
    Example:
      hushcov paper verify --features 20,100 --runs 20
    """
    check_integer("runs", runs, at_least=1, cure="30 runs show a frequency of 0.9.")
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    sizes = _sizes(n_features, row_sparsity)
    settings = [make_setting(n_features=d, row_sparsity=k, **inputs) for d, k in sizes]
    started = time.perf_counter()
    verifications = [_verify(setting, runs, seed) for setting in settings]
    seconds = time.perf_counter() - started
    if as_json:
        summary = {"runs": runs, "seed": seed, "seconds": round(seconds, 2)}
        click.echo(json.dumps(summary | to_dict(verifications), indent=1, allow_nan=False))
    else:
        _print(verifications, seconds)
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
    name = f"d = {setting.inputs.n_features}: runs and claims"
    with steps(runs + N_CLAIMS) as step:
        step(name)
        return verify_setting(setting, runs, lambda done: step(name), seed=seed)


def _print(verifications: list[Verification], seconds: float) -> None:
    out = console()
    for item in verifications:
        inputs = item.setting.inputs
        heading(
            out,
            f"d = {inputs.n_features}, k = {inputs.row_sparsity}, n = {exact(inputs.n_records)}, "
            f"model {item.setting.model}, runs: {len(item.runs)}",
        )
        show(out, _table(item.claims))
        for claim in item.claims:
            if not claim.holds:
                paragraph(out, f"{claim.name}: {claim.detail}.", style="red")
    heading(out, "What the claims say")
    paragraph(
        out,
        "The margin is the bound over the measured value. 'empty': nothing to check, because no "
        "level selects, or no test can fire at one that does.",
    )
    show(out, "")
    facts(out, ((claim.name, claim.statement) for claim in verifications[0].claims))
    claims = [claim for item in verifications for claim in item.claims]
    held, empty = sum(claim.holds for claim in claims), sum(claim.vacuous for claim in claims)
    note = f", {empty} of them empty" if empty else ""
    heading(out, f"{held} of {len(claims)} claims hold{note}. {seconds:.1f} s.")


def _table(claims: tuple[Claim, ...]) -> Table:
    table = plain_table()
    table.add_column("claim", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for title in ("bound", "measured", "2nd way", "margin"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for claim in claims:
        values = (claim.bound, claim.measured, claim.second)
        margin = "any" if claim.margin == float("inf") else _value(claim.margin, claim.logarithmic)
        verdict = Text("empty", "yellow") if claim.vacuous else Text("yes", "green")
        table.add_row(
            claim.name,
            claim.source.replace("Lemma", "Lem").replace("Theorem", "Thm"),
            *(_value(value, claim.logarithmic) for value in values),
            margin,
            verdict if claim.holds else Text("NO", "bold red"),
        )
    return table


def _value(value: float, logarithmic: bool) -> str:
    """Return a number, or a power of ten given by its logarithm, in at most ten characters."""
    if not logarithmic:
        return number(value, 3)
    if value == float("-inf"):
        return "0"
    if abs(value) < 4:
        return number(10**value, 3)
    return f"10^{number(value, 3 if abs(value) < 1e3 else 2)}"
