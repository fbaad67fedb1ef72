"""`hushcov ask`: questions to a release on disk, each answered with intervals; nothing is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hushcov.answers.columns import answered
from hushcov.answers.files import check_parquet, write_table
from hushcov.answers.names import feature_names
from hushcov.answers.tables import Answer
from hushcov.cli.answers import columns_of, features_option, reads_release, records
from hushcov.cli.files import check_paths, split_names
from hushcov.cli.options import INTEGER, JSON, NUMBER, Command, Function, output_option
from hushcov.cli.output import clean, console, echo_json, facts
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.files import StoredRelease

Read = Callable[[], StoredRelease]

_LEVEL = click.option(
    "--level",
    type=NUMBER,
    default=0.95,
    show_default=True,
    help="How often an interval covers the true value.",
)
_OUTPUT = output_option("Also write the whole table, as .csv or .parquet.")
_FEATURES = features_option("Columns to look at")


def _asked(function: Function) -> Function:
    """Add the options that every question has."""
    for option in (JSON, _OUTPUT, _LEVEL):
        function = option(function)
    return function


@click.group(name="ask", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Ask a release on disk. No record is needed, and nothing is spent, however often you ask.

    Every answer has intervals from the privacy noise, whose size is known, and the sampling error.

    \b
    Examples:
      hushcov ask regression patients-release weight --on age,height
      hushcov ask logistic patients-release diabetes --on age,bmi
      hushcov ask association patients-release region weight
      hushcov ask predict patients-release weight --given age=40,height=180
      hushcov ask components patients-release
      hushcov ask partial patients-release -o partial.csv
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _regressed(function: Function) -> Function:
    """Add what a question about a target on other columns has."""
    on = click.option(
        "--on",
        metavar="A,B,C",
        help="Columns to regress on, or categories of a codebook; all takes every column that was "
        "found.  [default: found partners]",
    )
    limit = click.option(
        "--limit",
        type=NUMBER,
        default=2.0,
        show_default=True,
        help="Largest root of the sum of squared standardized coefficients, where a ridge is "
        "needed.",
    )
    ridge = click.option(
        "--ridge",
        metavar="NUMBER",
        default="auto",
        show_default=True,
        help="Added to the standardized variances for the coefficients: 0 is least squares, 'auto' "
        "what is expected to predict best. The answer says which was used.",
    )
    return click.argument("target")(on(limit(ridge(_asked(function)))))


def _options(on: str | None, limit: float, ridge: str, level: float) -> dict[str, Any]:
    """Return options of `regress` as it takes them."""
    names = on if on is None or on.strip() == "all" else split_names(on)
    penalty = ridge if ridge == "auto" else NUMBER.convert(ridge, None, None)
    return {"on": names, "limit": limit, "ridge": penalty, "level": level}


@command.command(cls=Command)
@reads_release
@_regressed
def regression(
    _: Path, read: Read, target: str, output: Path | None, as_json: bool, **asked: Any
) -> None:
    """Regress one column on others: coefficients, R^2 and residual deviation.

    \b
    Example:
      hushcov ask regression patients-release weight --on age,height
    """
    from hushcov.answers.regression import regress

    found = regress(_read(read, output), target, **_options(**asked))
    summary = {
        "target": found.target,
        "intercept": found.intercept,
        "intercept_interval": [found.intercept_lower, found.intercept_upper],
        "ridge": found.ridge,
        "multiplier": found.multiplier,
        "ridge_reason": found.ridge_reason,
        "predicted_r_squared": found.predicted_r_squared,
        "r_squared": found.r_squared,
        "r_squared_interval": [found.r_squared_lower, found.r_squared_upper],
        "residual_variance": found.residual_variance,
    }
    _tell(found, summary, output=output, as_json=as_json)


@command.command(cls=Command)
@reads_release
@_regressed
def logistic(
    _: Path, read: Read, target: str, output: Path | None, as_json: bool, **asked: Any
) -> None:
    """Odds ratios of a column of 0 and 1 by others, as of a logistic regression.

    \b
    Example:
      hushcov ask logistic patients-release diabetes --on age,bmi
    """
    from hushcov.answers.odds import logistic as of

    found = of(_read(read, output), target, **_options(**asked))
    summary = {
        "target": found.target,
        "share": found.share,
        "intercept": found.intercept,
        "intercept_interval": [found.intercept_lower, found.intercept_upper],
        "r_squared": found.linear.r_squared,
        "ridge": found.linear.ridge,
        "multiplier": found.linear.multiplier,
        "ridge_reason": found.linear.ridge_reason,
    }
    _tell(found, summary, output=output, as_json=as_json)


@command.command(cls=Command)
@reads_release
@click.argument("category")
@click.argument("other")
@_asked
def association(_: Path, read: Read, category: str, other: str, level: float, **out: Any) -> None:
    """Compare the levels of a CATEGORY by a column or another category: means and differences.

    \b
    Example:
      hushcov ask association patients-release region weight
    """
    from hushcov.answers.association import associate

    found = associate(_read(read, out["output"]), category, other, level=level)
    summary = {"category": found.category, "other": found.other, "explained": found.explained}
    _tell(found, summary, **out)


@command.command(cls=Command)
@reads_release
@click.argument("features")
@click.option(
    "--given",
    metavar="A=1,B=2",
    required=True,
    help="Values of other columns, as age=40,department=sales,smoker=yes.",
)
@_asked
def predict(_: Path, read: Read, features: str, given: str, level: float, **out: Any) -> None:
    """Predict FEATURES (one column, or several with commas) from values of others.

    \b
    Example:
      hushcov ask predict patients-release weight --given age=40,height=180
    """
    from hushcov.answers.conditional import conditional

    release = _read(read, out["output"])
    values = {k: v for each in given.split(",") for k, v in _value(release, each).items()}
    names = columns_of(release, features)[0]
    found = conditional(release, values, names, level=level)
    _tell(found, {"given": found.given}, **out)


@command.command(cls=Command)
@reads_release
@click.option(
    "--number",
    "n_components",
    type=INTEGER,
    metavar="K",
    help="How many.  [default: those that stand out of the noise]",
)
@click.option(
    "--covariance", is_flag=True, help="Of the covariance; otherwise of the correlations."
)
@_FEATURES
@_asked
def components(
    _: Path,
    read: Read,
    n_components: int | None,
    covariance: bool,
    features: str | None,
    level: float,
    **out: Any,
) -> None:
    """Principal components: shares of the variance, directions, and how far these may be off.

    \b
    Example:
      hushcov ask components patients-release --number 2
    """
    from hushcov.answers.components import components as of

    release = _read(read, out["output"])
    names, notes = columns_of(release, features)
    options: dict[str, Any] = {"correlation": not covariance, "features": names}
    found = of(release, n_components, level=level, **options)
    summary = {"components": records(found.summary()), "standing_out": found.n_standing_out}
    _tell(found, summary, notes, **out)


@command.command(cls=Command)
@reads_release
@_FEATURES
@_asked
def partial(_: Path, read: Read, features: str | None, level: float, **out: Any) -> None:
    """Partial correlations: which columns go together given all the others.

    \b
    Example:
      hushcov ask partial patients-release --features age,weight,pulse
    """
    from hushcov.answers.partial import partial_correlations

    release = _read(read, out["output"])
    names, notes = columns_of(release, features)
    found = partial_correlations(release, names, level=level)
    edges = int(np.count_nonzero(np.triu(found.edges, 1)))
    _tell(found, {"edges": edges}, notes, **out)


# ---- reading what was asked, and telling what was found ----


def _read(read: Read, output: Path | None) -> Release:
    """Read the release, after checking that an answer can be written."""
    if output is not None:
        check_paths(None, output)
        if output.suffix not in (".csv", ".parquet"):
            raise ParameterError(
                f"--output must end in .csv or .parquet, got {output.name!r}: rename it."
            )
        if output.suffix == ".parquet":
            check_parquet()
    return read().release


def _value(release: Release, text: str) -> dict[str, float]:
    """Return values of columns from NAME=NUMBER, or CATEGORY=ANSWER."""
    name, _, value = map(str.strip, text.rpartition("="))
    try:
        if name:
            return {name: float(value)}
    except ValueError:
        pass
    found = answered(release, name, value)
    if found is not None:
        return found
    got = f"--given must be like age=40,height=180, got {text!r}"
    columns = [str(each) for each in feature_names(release) if each.startswith(f"{name}=")]
    if name and columns:
        raise ParameterError(f"{got}: write {' or '.join(columns[:5])}, or {columns[0]}=0 for no.")
    raise ParameterError(f"{got}: write NAME=NUMBER, or NAME=yes and NAME=no for a yes or no.")


def _tell(
    found: Answer,
    summary: Mapping[str, Any],
    notes: Sequence[str] = (),
    *,
    output: Path | None,
    as_json: bool,
) -> None:
    """Print an answer, and write its table."""
    page, table = found.page(), found.table()
    page = replace(page, notes=(*notes, *page.notes))
    if output is not None:
        write_table(table, output)
    if as_json:
        said = {"warning": page.warning, "notes": page.notes}
        echo_json({**summary, "table": records(table), **said})
        return
    out = console()
    page.write(out, "-o FILE.csv writes all")
    facts(out, [] if output is None else [("written", clean(str(output)))])
