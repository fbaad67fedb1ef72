"""`hushcov ask`: questions to a release on disk, each answered with intervals; nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from hushcov._words import counted, number
from hushcov.answers.tables import Table, check_parquet, write_table
from hushcov.cli.files import check_parent
from hushcov.cli.options import INTEGER, JSON, NUMBER, Command, Function
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    show,
    text_table,
    warning,
)
from hushcov.exceptions import ParameterError
from hushcov.release import Release

_MOST_LINES = 30  # of a table on the screen
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_RELEASE = click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
_LEVEL = click.option(
    "--level",
    type=NUMBER,
    default=0.95,
    show_default=True,
    help="How often an interval covers the true value.",
)
_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the whole table, as .csv or .parquet.",
)
_FEATURES = click.option(
    "--features", metavar="A,B,C", help="Columns to look at.  [default: all that were found]"
)


def _asked(function: Function) -> Function:
    """Options that every question has."""
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
      hushcov ask predict patients-release weight --given age=40,height=180
      hushcov ask components patients-release
      hushcov ask partial patients-release -o partial.csv
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(cls=Command)
@_RELEASE
@click.argument("target")
@click.option("--on", metavar="A,B,C", help="Columns to regress on.  [default: found partners]")
@_asked
def regression(folder: Path, target: str, on: str | None, level: float, **out: Any) -> None:
    """Regress one column on others: coefficients, R^2 and residual deviation.

    \b
    Example:
      hushcov ask regression patients-release weight --on age,height
    """
    from hushcov.answers.regression import regress

    found = regress(_read(folder, out), target, _split(on), level=level)
    ends = number(found.r_squared_lower, 3), number(found.r_squared_upper, 3)
    residual = math.sqrt(max(found.residual_variance, 0.0))
    lines = [
        ("target", clean(found.target)),
        ("R^2", f"{number(found.r_squared, 3)}, between {ends[0]} and {ends[1]}"),
        ("residuals", f"standard deviation {number(residual, 3)}"),
    ]
    if found.intercept is not None:
        lines.insert(1, ("intercept", number(found.intercept, 4)))
    summary = {
        "target": found.target,
        "intercept": found.intercept,
        "r_squared": found.r_squared,
        "r_squared_interval": [found.r_squared_lower, found.r_squared_upper],
        "residual_variance": found.residual_variance,
    }
    _tell("Regression", lines, found.table(), found.warning, summary, **out)


@command.command(cls=Command)
@_RELEASE
@click.argument("features")
@click.option(
    "--given",
    metavar="A=1,B=2",
    required=True,
    help="Values of other columns, as age=40,height=180.",
)
@_asked
def predict(folder: Path, features: str, given: str, level: float, **out: Any) -> None:
    """Say what to expect of FEATURES (one column, or several with commas) given others.

    \b
    Example:
      hushcov ask predict patients-release weight --given age=40,height=180
    """
    from hushcov.answers.conditional import conditional

    values = dict(map(_value, given.split(",")))
    found = conditional(_read(folder, out), values, _split(features), level=level)
    lines = [("given", ", ".join(f"{clean(k)} = {number(v, 4)}" for k, v in found.given.items()))]
    _tell("Prediction", lines, found.table(), found.warning, {"given": found.given}, **out)


@command.command(cls=Command)
@_RELEASE
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
    folder: Path,
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

    options: dict[str, Any] = {"correlation": not covariance, "features": _split(features)}
    found = of(_read(folder, out), n_components, level=level, **options)
    lines = [
        ("stand out", f"{counted(found.n_standing_out, 'component')}"),
        *[
            (f"component {k}", _component(found.summary(), k - 1))
            for k in range(1, len(found.variance) + 1)
        ],
    ]
    summary = {"components": _records(found.summary()), "standing_out": found.n_standing_out}
    _tell("Principal components", lines, found.table(), None, summary, notes=found.notes, **out)


def _component(summary: Table, at: int) -> str:
    share, low, high = (
        number(100 * float(summary[name][at]), 3)
        for name in ("share", "share_lower", "share_upper")
    )
    angle = float(summary["angle"][at])
    off = "its direction may be any" if angle >= 90 else f"off by at most {angle:.0f} degrees"
    return f"{share} % of the variance, between {low} and {high}; {off}"


@command.command(cls=Command)
@_RELEASE
@_FEATURES
@_asked
def partial(folder: Path, features: str | None, level: float, **out: Any) -> None:
    """Partial correlations: which columns go together given all the others.

    \b
    Example:
      hushcov ask partial patients-release --features age,weight,pulse
    """
    from hushcov.answers.partial import partial_correlations

    found = partial_correlations(_read(folder, out), _split(features), level=level)
    table, edges = found.table(), int(np.count_nonzero(np.triu(found.edges, 1)))
    lines = [("edges", f"{edges:,} of {counted(len(table['edge']), 'pair')} stand out")]
    caution, summary = found.warning or None, {"edges": edges}
    _tell("Partial correlations", lines, table, caution, summary, notes=found.notes, **out)


# ---- reading what was asked, and telling what was found ----


def _read(folder: Path, out: Mapping[str, Any]) -> Release:
    """The release; what cannot be written is refused before."""
    if out["output"] is not None:
        check_parent(out["output"])
        if out["output"].suffix not in (".csv", ".parquet"):
            raise ParameterError(
                f"--output must end in .csv or .parquet, got {out['output'].name!r}: rename it."
            )
        if out["output"].suffix == ".parquet":
            check_parquet()
    return Release.read(folder)


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _value(text: str) -> tuple[str, float]:
    name, sign, value = text.rpartition("=")
    try:
        if sign:
            return name.strip(), float(value)
    except ValueError:
        pass
    raise ParameterError(
        f"--given must be like age=40,height=180, got {text!r}: write NAME=NUMBER."
    )


def _tell(
    title: str,
    lines: Sequence[tuple[str, str]],
    table: Table,
    caution: str | None,
    summary: Mapping[str, Any],
    *,
    notes: Sequence[str] = (),
    output: Path | None,
    as_json: bool,
) -> None:
    if output is not None:
        write_table(table, output)
    if as_json:
        echo_json(_plain({**summary, "table": _records(table), "warning": caution, "notes": notes}))
        return
    out = console()
    heading(out, title)
    facts(out, lines)
    n = len(next(iter(table.values())))
    if n:
        cells = zip(*(_cells(column[:_MOST_LINES]) for column in table.values()), strict=True)
        show(out, "")
        show(out, text_table([_SHORT.get(name, name.replace("_", " ")) for name in table], cells))
    rest = [("left out", f"{n - _MOST_LINES:,} more lines: -o FILE.csv writes all")]
    facts(out, rest if n > _MOST_LINES else [])
    for note in notes:
        paragraph(out, clean(note))
    if caution:
        show(out, "")
        warning(out, clean(caution))
    facts(out, [] if output is None else [("written", clean(str(output)))])


def _cells(column: Any) -> list[str]:
    """A column in words."""
    if column.dtype == bool:
        return ["yes" if value else "no" for value in column]
    if column.dtype == object:
        return [clean(str(value)) for value in column]
    return [number(float(value), 3) for value in column]


def _records(table: Table) -> list[dict[str, Any]]:
    columns = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """As JSON has it: null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
