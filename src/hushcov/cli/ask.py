"""`hushcov ask`: questions to a release on disk, each answered with intervals; nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from hushcov._words import counted, number
from hushcov.answers.tables import Table, check_parquet, feature_names, write_table
from hushcov.answers.uncertain import answered, spelt_out
from hushcov.cli.answers import (
    columns_of,
    features_option,
    reads_release,
    records,
    split_names,
)
from hushcov.cli.files import check_paths
from hushcov.cli.options import INTEGER, JSON, NUMBER, Command, Function, output_option
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
    warning,
)
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.files import StoredRelease

Read = Callable[[], StoredRelease]
_MOST_LINES = 30  # of a table on the screen
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_WHOLE = 1e4, 1e9  # numbers between these are written without an exponent

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
      hushcov ask association patients-release region weight
      hushcov ask predict patients-release weight --given age=40,height=180
      hushcov ask components patients-release
      hushcov ask partial patients-release -o partial.csv
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(cls=Command)
@reads_release
@click.argument("target")
@click.option(
    "--on",
    metavar="A,B,C",
    help="Columns to regress on, or categories of a codebook; all takes every column that was "
    "found.  [default: found partners]",
)
@click.option(
    "--limit",
    type=NUMBER,
    default=2.0,
    show_default=True,
    help="Largest root of the sum of squared standardized coefficients, where a ridge is needed.",
)
@_asked
def regression(
    _: Path, read: Read, target: str, on: str | None, level: float, limit: float, **out: Any
) -> None:
    """Regress one column on others: coefficients, R^2 and residual deviation.

    \b
    Example:
      hushcov ask regression patients-release weight --on age,height
    """
    from hushcov.answers.regression import regress

    release = _read(read, out)
    names = on if on is None or on.strip() == "all" else split_names(on)
    found = regress(release, target, names, level=level, limit=limit)
    ends = _figure(found.r_squared_lower), _figure(found.r_squared_upper)
    residual = math.sqrt(max(found.residual_variance, 0.0))
    lines = [
        ("target", clean(found.target)),
        ("R^2", f"{_figure(found.r_squared)}, between {ends[0]} and {ends[1]}"),
        ("residuals", f"standard deviation {_figure(residual)}"),
    ]
    if found.intercept is not None:
        lines.insert(1, ("intercept", _figure(found.intercept, 4)))
    summary = {
        "target": found.target,
        "intercept": found.intercept,
        "r_squared": found.r_squared,
        "r_squared_interval": [found.r_squared_lower, found.r_squared_upper],
        "residual_variance": found.residual_variance,
    }
    legend = (
        f"coefficient: how much more {found.target} to expect for one more of the feature, the "
        f"others being equal; {_between(level)}. standardized: the same in standard deviations."
    )
    if found.ridge.any():
        legend += " ridge: noise does not let this column apart from others."
    if found.noise.any():
        legend += " noise: nothing is known of this coefficient."
    said: dict[str, Any] = {"legend": legend, "notes": found.notes}
    _tell("Regression", lines, found.table(), found.warning, summary, **said, **out)


@command.command(cls=Command)
@reads_release
@click.argument("category")
@click.argument("other")
@_asked
def association(_: Path, read: Read, category: str, other: str, level: float, **out: Any) -> None:
    """Hold the levels of a CATEGORY against a column or another category: means and differences.

    \b
    Example:
      hushcov ask association patients-release region weight
    """
    from hushcov.answers.association import associate

    found = associate(_read(read, out), category, other, level=level)
    lines = [("category", clean(found.category)), ("other", clean(found.other))]
    if found.explained is not None:
        value, low, high = (f"{number(100 * each, 3)} %" for each in found.explained)
        lines.append(("explains", f"{value} of its variance, between {low} and {high}"))
    legend = (
        "share: of the records that have the level. mean: of the column among them; of one of 0 "
        "and 1 it is the share of 1. difference: how much larger that is than among all other "
        f"records; {_between(level)}."
    )
    summary = {"category": found.category, "other": found.other, "explained": found.explained}
    said: dict[str, Any] = {"legend": legend, "notes": found.notes}
    _tell("Association", lines, found.table(), found.warning, summary, **said, **out)


@command.command(cls=Command)
@reads_release
@click.argument("features")
@click.option(
    "--given",
    metavar="A=1,B=2",
    required=True,
    help="Values of other columns, as age=40,department=sales.",
)
@_asked
def predict(_: Path, read: Read, features: str, given: str, level: float, **out: Any) -> None:
    """Say what to expect of FEATURES (one column, or several with commas) given others.

    \b
    Example:
      hushcov ask predict patients-release weight --given age=40,height=180
    """
    from hushcov.answers.regression import conditional

    release = _read(read, out)
    values = {k: v for each in given.split(",") for k, v in _value(release, each).items()}
    names = spelt_out(release, split_names(features))[0]
    found = conditional(release, values, names, level=level)
    lines = [("given", ", ".join(f"{clean(k)} = {v:,.10g}" for k, v in found.given.items()))]
    legend = (
        f"mean: of all records with these values; {_between(level)}. Single records differ more: "
        "sd is their standard deviation, and most lie within two of it. used: how many of the "
        "given values count."
    )
    summary = {"given": found.given}
    _tell("Prediction", lines, found.table(), found.warning, summary, legend=legend, **out)


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

    release = _read(read, out)
    names, notes = columns_of(release, features)
    options: dict[str, Any] = {"correlation": not covariance, "features": names}
    found = of(release, n_components, level=level, **options)
    each = records(found.summary())
    lines = [("stand out", f"{counted(found.n_standing_out, 'component')}")]
    lines += [(f"component {k}", _component(line)) for k, line in enumerate(each, start=1)]
    summary = {"components": each, "standing_out": found.n_standing_out}
    legend = (
        f"loading: how much of the feature is in the direction, from -1 to 1; {_between(level)}."
    )
    said: dict[str, Any] = {"legend": legend, "notes": (*notes, *found.notes)}
    _tell("Principal components", lines, found.table(), None, summary, **said, **out)


def _component(line: Mapping[str, float]) -> str:
    """Say how much a component explains; what is nearly all or nothing is not rounded to it."""
    words = []
    for each in (line["share"], line["share_lower"], line["share_upper"]):
        text = "below 0.1 %" if 0 < each < 1e-3 else f"{number(100 * each, 3)} %"
        words.append("above 99.9 %" if 0 < 1 - each < 1e-3 else text)
    share, low, high = words
    angle = line["angle"]
    off = f"direction off by {'at most ' if angle >= 1 else 'less than '}{max(angle, 1):.0f} degree"
    off = "its direction is not known" if angle >= 90 else off + "s" * (angle >= 1.5)
    between = "" if low in (high, share) else f", between {low} and {high}"
    return f"{share} of the variance{between}; {off}"


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
    from hushcov.answers.components import partial_correlations

    release = _read(read, out)
    names, notes = columns_of(release, features)
    found = partial_correlations(release, names, level=level)
    table, edges = found.table(), int(np.count_nonzero(np.triu(found.edges, 1)))
    pairs = counted(len(table["edge"]), "pair")
    known = bool(np.isfinite(table["lower"]).any())
    lines = [("edges", f"{edges:,} of {pairs} stand out" if known else f"unknown, of {pairs}")]
    caution, summary = found.warning or None, {"edges": edges}
    legend = (
        f"partial: correlation of two features among records that are alike in the others; "
        f"{_between(level)}. edge: it is not zero, beyond doubt; all pairs together have a wrong "
        f"edge in at most {100 * (1 - level):.3g} % of releases."
    )
    said: dict[str, Any] = {"legend": legend, "notes": (*notes, *found.notes)}
    _tell("Partial correlations", lines, table, caution, summary, **said, **out)


def _between(level: float) -> str:
    return f"the true value is between lower and upper in {100 * level:.4g} % of releases"


# ---- reading what was asked, and telling what was found ----


def _read(read: Read, out: Mapping[str, Any]) -> Release:
    """The release; what cannot be written is refused before."""
    if out["output"] is not None:
        check_paths(None, out["output"])
        if out["output"].suffix not in (".csv", ".parquet"):
            raise ParameterError(
                f"--output must end in .csv or .parquet, got {out['output'].name!r}: rename it."
            )
        if out["output"].suffix == ".parquet":
            check_parquet()
    return read().release


def _value(release: Release, text: str) -> dict[str, float]:
    """Values of columns: NAME=NUMBER, or CATEGORY=ANSWER."""
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
    raise ParameterError(f"{got}: write NAME=NUMBER.")


def _tell(
    title: str,
    lines: Sequence[tuple[str, str]],
    table: Table,
    caution: str | None,
    summary: Mapping[str, Any],
    *,
    legend: str,
    notes: Sequence[str] = (),
    output: Path | None,
    as_json: bool,
) -> None:
    """Print an answer, and write its table."""
    if output is not None:
        write_table(table, output)
    if as_json:
        echo_json({**summary, "table": records(table), "warning": caution, "notes": notes})
        return
    out = console()
    heading(out, title)
    facts(out, lines)
    value = table.get("partial_correlation")
    kept = slice(None) if value is None else ~np.isnan(value)  # lines that have a value
    table = {name: column[kept] for name, column in table.items()}
    n = len(next(iter(table.values())))
    if n:
        show(out, "")
        show(out, _text({name: column[:_MOST_LINES] for name, column in table.items()}))
        rest = [("left out", f"{n - _MOST_LINES:,} more lines: -o FILE.csv writes all")]
        facts(out, rest if n > _MOST_LINES else [])
        show(out, "")
        paragraph(out, clean(legend))
    for note in notes:
        paragraph(out, clean(note))
    if caution:
        show(out, "")
        warning(out, clean(caution))
    facts(out, [] if output is None else [("written", clean(str(output)))])


def _text(table: Table) -> Any:
    """Return the table in words. Names are broken where a line is too short, numbers never."""
    found, columns = plain_table(), []
    for name, column in table.items():
        if name in ("noise", "ridge") and not column.any():
            continue
        title, names = _SHORT.get(name, name.replace("_", " ")), column.dtype == object
        found.add_column(
            title, justify="left" if names else "right", no_wrap=not names, overflow="fold"
        )
        if column.dtype == bool:
            columns.append(["yes" if value else "no" for value in column])
        else:
            columns.append([clean(str(x)) if names else _figure(float(x)) for x in column])
    for row in zip(*columns, strict=True):
        found.add_row(*row)
    return found


def _figure(value: float, digits: int = 3) -> str:
    """A number to some digits, as people write it: 49,800."""
    if not _WHOLE[0] <= abs(value) < _WHOLE[1]:
        return number(value, digits)
    return f"{float(f'{value:.{digits}g}'):,.0f}"
