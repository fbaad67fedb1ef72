"""`hushcov paper`: every number of the paper's theorem, and a check of its claims."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import exact, number
from hushcov.cli import CHECK_FAILED
from hushcov.cli.options import INTEGER, JSON, NUMBER, SEED, Command, Function
from hushcov.cli.output import (
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
    steps,
    text_table,
)
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.inputs import PublicInputs
from hushcov.paper.parameters import QUANTITIES, TheoremParameters, level_table, theorem_parameters
from hushcov.simulate import MODELS

if TYPE_CHECKING:
    from hushcov.paper.verification.claims import Verification
    from hushcov.paper.verification.simulation import Claim

# Field of PublicInputs, the paper's symbol, meaning.
INPUTS = (
    ("n_records", "n", "number of records"),
    ("n_features", "d", "number of features"),
    ("row_sparsity", "k", "most nonzeros in a row"),
    ("target_error", "alpha", "error sought, over scale^2"),
    ("epsilon", "epsilon", "privacy budget"),
    ("delta", "delta", "privacy budget"),
    ("failure_probability", "beta", "chance to miss the target"),
    ("scale", "sigma", "sub-Gaussian scale"),
)
_SCALE = (
    "Public bound on the standard deviation in every direction (the sub-Gaussian scale). Never "
    "inferred from the data."
)
# Option, metavar, default, help.
_OPTIONS = (
    ("--target-error", "ALPHA", 0.25, "Operator-norm error sought, in units of scale^2."),
    ("--epsilon", "EPSILON", 1.0, "Privacy budget; above 0 and at most 1."),
    ("--delta", "DELTA", 1e-6, "Privacy budget; at most 0.1, well below 1 / records."),
    ("--failure-probability", "BETA", 0.1, "How often the target may be missed; at most 0.1."),
    ("--scale", "SIGMA", 1.0, _SCALE),
)
DEFAULT_FEATURES = (20, 100, 400)
_MANY_FEATURES = 50  # from here on the default row sparsity is 5 instead of 2
DEFAULT_RUNS = 30  # 30 successes put the 95 % lower confidence bound above 0.9


@click.group(name="paper", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Compute the parameters of the paper's theorem, or check its claims.

    The paper is Zihan Zhang, Improved Private Sparse Covariance Estimation with Multiscale
    Threshold Tests (2026). 'hushcov fit --mechanism theorem' releases with its Algorithm 1.

    \b
    Example:
      hushcov paper params --records 1e16 --features 100 --row-sparsity 5 \\
          --epsilon 1 --delta 1e-6 --scale 1
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _theorem_options(*, required: bool) -> Callable[[Function], Function]:
    """Return the decorator that adds the theorem's inputs; budget and scale may be required."""

    def decorate(function: Function) -> Function:
        for flag, metavar, default, words in reversed(_OPTIONS):
            shown: dict[str, Any] = {"default": default, "show_default": True}
            if required and flag in ("--epsilon", "--delta", "--scale"):
                shown = {"required": True}
            option = click.option(flag, type=NUMBER, metavar=metavar, help=words, **shown)
            function = option(function)
        return function

    return decorate


@command.command(cls=Command, name="params")
@click.option(
    "--records", "n_records", type=INTEGER, required=True, metavar="N", help="Number of records."
)
@click.option(
    "--features", "n_features", type=INTEGER, required=True, metavar="D", help="Number of features."
)
@click.option(
    "--row-sparsity",
    type=INTEGER,
    required=True,
    metavar="K",
    help="Most nonzero entries in a row of the covariance, the diagonal included.",
)
@_theorem_options(required=True)
@JSON
def params(as_json: bool, **inputs: Any) -> None:
    """Print every public quantity of the paper's theorem, and how many records it needs.

    These are the numbers of 'hushcov fit --mechanism theorem'. No data is needed. Whole numbers
    may be written as 53338474066, 53_000 or 1e16.

    \b
    Example:
      hushcov paper params --records 1e16 --features 100 --row-sparsity 5 \\
          --epsilon 1 --delta 1e-6 --scale 1
    """
    parameters = _evaluate(PublicInputs(**inputs))
    if as_json:
        echo_json(parameters.to_dict())
        return
    out, table = console(), plain_table()
    for title in ("name", "symbol", "value"):
        table.add_column(title, no_wrap=True)
    table.add_column("meaning")
    quantities = [row for row in QUANTITIES if row[-1]]
    for source, rows in ((parameters.inputs, INPUTS), (parameters, quantities)):
        for word, symbol, meaning in rows:
            value = getattr(source, word)
            shown = f"{value:,}" if isinstance(value, int) else number(value, 10)
            table.add_row(word, symbol, shown, meaning)
        table.add_section()
    heading(out, "Public parameters of the multiscale mechanism, at the paper's constants")
    show(out, table)
    heading(out, "Levels")
    show(out, text_table(*level_table(parameters.schedule)))
    heading(out, "In words")
    verdicts = privacy_verdict(parameters), accuracy_verdict(parameters)
    facts(out, zip(("private", "accurate"), verdicts, strict=True))


def _evaluate(inputs: PublicInputs) -> TheoremParameters:
    """Evaluate the parameters, refusing inputs so extreme that a double cannot hold them."""
    try:
        with np.errstate(all="ignore"):
            parameters = theorem_parameters(inputs)
        values = [getattr(parameters, word) for word, _, meaning in QUANTITIES if meaning]
        values += [parameters.smallest_private_n, parameters.smallest_accurate_n]
        representable = all(math.isfinite(value) for value in (*values, *parameters.thresholds))
    except ArithmeticError:
        representable = False
    if not representable:
        raise CapacityError(
            "the parameters leave the range of double precision (1e-308 to 1e308) for these "
            "inputs: use a larger target_error or epsilon, or a scale closer to 1."
        )
    return parameters


def privacy_verdict(parameters: TheoremParameters) -> str:
    """Say whether the privacy proof covers this number of records, and from where on it does."""
    n, needed = parameters.inputs.n_records, exact(parameters.smallest_private_n)
    if parameters.private:
        return f"yes. The proof covers every dataset of {needed} records or more."
    return (
        f"no. The proof needs at least {needed} records, and there are {exact(n)}: the mechanism "
        "refuses to release anything."
    )


def accuracy_verdict(parameters: TheoremParameters) -> str:
    """Say whether the accuracy conditions hold, and from which number of records on they do."""
    inputs = parameters.inputs
    target = number(inputs.target_error * inputs.scale**2)
    if inputs.scale != 1:
        target += f" (target_error {number(inputs.target_error)} times scale^2)"
    promise = (
        f"error at most {target} in operator norm with probability at least "
        f"{number(1 - inputs.failure_probability)}"
    )
    needed = exact(parameters.smallest_accurate_n)
    answer, only = ("yes", "") if parameters.accurate else ("no", "only ")
    return (
        f"{answer}. The theorem's conditions on r, b and the rounding of records, for {promise}, "
        f"hold {only}from {needed} records on."
    )


def _integers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """Read whole numbers separated by commas, each as every other integer option is read."""
    return tuple(INTEGER.convert(part, param, ctx) for text in values for part in text.split(","))


@command.command(cls=Command, name="verify")
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
@_theorem_options(required=False)
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
def verify(
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
    from hushcov.paper.verification.claims import N_CLAIMS, verify_setting
    from hushcov.paper.verification.simulation import make_setting

    check_integer("runs", runs, at_least=1, cure="30 runs show a frequency of 0.9.")
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    sizes = _sizes(n_features, row_sparsity)
    settings = [make_setting(n_features=d, row_sparsity=k, **inputs) for d, k in sizes]
    started, found = time.perf_counter(), []
    for setting in settings:
        with steps(runs + N_CLAIMS) as step:
            begin = partial(step, f"d = {setting.inputs.n_features}: runs and claims")
            begin()
            found.append(verify_setting(setting, runs, begin, seed=seed))
    seconds = time.perf_counter() - started
    holds = all(each.holds for each in found)
    if as_json:
        known = {"runs": runs, "seed": seed, "seconds": round(seconds, 2), "holds": holds}
        echo_json(known | {"settings": [each.to_dict() for each in found]})
    else:
        _print(found, seconds)
    ctx.exit(0 if holds else CHECK_FAILED)


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
        margin = "any" if claim.margin == math.inf else _value(claim.margin, claim.logarithmic)
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
