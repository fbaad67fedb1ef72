"""`hushcov paper params`: every public quantity of the mechanism, without any data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from rich.table import Table

from hushcov._words import exact, number
from hushcov.cli.options import INTEGER, JSON, NUMBER, Command, Function
from hushcov.cli.output import console, echo_json, facts, heading, plain_table, show, text_table
from hushcov.exceptions import CapacityError
from hushcov.inputs import PublicInputs
from hushcov.paper.parameters import QUANTITIES, TheoremParameters, level_table, theorem_parameters

# Public word (field of PublicInputs), the paper's symbol, meaning.
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


def theorem_options(*, required: bool) -> Callable[[Function], Function]:
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


@click.command(cls=Command, name="params")
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
@theorem_options(required=True)
@JSON
def command(as_json: bool, **inputs: Any) -> None:
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
    out = console()
    heading(out, "Public parameters of the multiscale mechanism, at the paper's constants")
    show(out, _scalar_table(parameters))
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


def _scalar_table(parameters: TheoremParameters) -> Table:
    table = plain_table()
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
    return table


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
