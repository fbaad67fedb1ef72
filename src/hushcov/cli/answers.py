"""How releases, their pairs and answers about them are read and printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np
from numpy.linalg import LinAlgError
from rich.console import Console
from rich.table import Table as TextTable

from hushcov._words import number
from hushcov.cli.options import Function
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    short_name,
    show,
    text_table,
    warning,
)
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.release import Release
from hushcov.release.description import ERROR, Description, counted_facts
from hushcov.release.files import read_release
from hushcov.release.pairs import LEVEL, ShownPair

if TYPE_CHECKING:
    from hushcov.answers.tables import Table

LEVEL_WORDS = f"{number(100 * LEVEL)} %"
NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed or a simulation, and can be subtracted by anyone who "
    "knows it. With secret noise the same mechanism would promise what follows."
)
_TOO_STRONG = "The strongest of many estimates tend to be too strong."
_OUTSIDE = "*"  # marks an estimate that lies outside its interval
_MOST_LINES = 30  # of a table on the screen
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_WHOLE = 1e4, 1e9  # numbers between these are written without an exponent


# ---- releases ----


def reads_release(function: Function) -> Function:
    """Add RELEASE and --verify to a command, and call it with the folder and what reads it.

    Whatever the numbers of a folder that comes from others lead to is a refusal.
    """

    @wraps(function)
    def checked(folder: Path, verify: Path | None, **options: Any) -> Any:
        try:
            return function(folder, read=partial(read_release, folder, verify=verify), **options)
        except (ArithmeticError, LinAlgError) as error:
            raise CapacityError(
                f"{folder} holds numbers that are too large or too small to compute with "
                f"({type(error).__name__}): release features in other units, or do not use it."
            ) from None

    command = click.option(
        "--verify",
        type=click.Path(path_type=Path),
        metavar="KEY.pub",
        help="Public Ed25519 key (PEM): the release must be signed by its private half.",
    )(checked)
    argument = click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
    return cast("Function", argument(command))


def open_page(title: str, release: Release) -> Console:
    """Print a title and what must be known of a release before all else."""
    out = console()
    heading(out, title)
    if not release.guarantee.private:
        paragraph(out, NOT_PRIVATE, style="bold red")
    for sentence in release.warnings:
        warning(out, clean(sentence))
    return out


def check_outside(folder: Path, path: Path) -> None:
    """Refuse a place in a release: its files have checksums, and nothing may be added to them."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise ParameterError(
            f"output must lie outside the release, got {path}: its files are sealed. Choose "
            "another folder."
        )


def structure_facts(found: Description) -> list[tuple[str, str]]:
    """How far the estimate can be relied on, and what the covariance was found to be."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        lines = [found.verdict(), *(each for each in found.structure() if each[0] != ERROR)]
    return [(label, clean(sentence)) for label, sentence in lines]


def complete_facts(release: Release) -> list[tuple[str, str]]:
    """How many records are complete, and what was found of means and norms, where released."""
    return [(label, clean(sentence)) for label, sentence in counted_facts(release)]


# ---- pairs ----


def pair_table(pairs: Sequence[ShownPair], *, names: Sequence[str] | None = None) -> TextTable:
    """Return a table with one line for each pair, and the interval of its correlation."""
    interval = [f"{LEVEL_WORDS} interval"] if any(pair.interval for pair in pairs) else []
    titles = ["features", "correlation", *interval, "covariance"]
    rows = []
    for pair in pairs:
        features = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        cells, covariance = [", ".join(features), _correlation(pair)], number(pair.covariance, 3)
        between = _range(pair.correlation_interval, pair.correlation_outside)
        rows.append([*cells, between, covariance] if interval else [*cells, covariance])
    return text_table(titles, rows, folded="features")


def _range(ends: tuple[float, float] | None, outside: bool) -> str:
    """An interval, marked where the estimate lies outside."""
    if ends is None:
        return "none"
    return f"{number(ends[0], 3)} to {number(ends[1], 3)}" + _OUTSIDE * outside


def _correlation(pair: ShownPair) -> str:
    """A correlation, said to be noise where it is."""
    if pair.correlation is None:
        return "none: noise"
    if not pair.noise:
        return f"{pair.correlation:.3f}"
    return f"{number(pair.correlation, 3)}: noise"


def pair_remarks(pairs: Sequence[ShownPair], *, projected: bool = False) -> str:
    """What the marks in a table of these pairs mean."""
    words = []
    if any(pair.correlation is not None and pair.noise for pair in pairs):
        words.append(
            "Only noise puts a correlation beyond 1: it is as large as what it was added to."
        )
    if any(pair.correlation is None for pair in pairs):
        words.append("There is none where noise made a variance zero or negative.")
    if any(pair.outside or pair.correlation_outside for pair in pairs):
        reason = (
            "the estimate was moved when the matrix was made positive semidefinite, or barely "
            if projected
            else "the estimate barely "
        )
        words.append(
            f"{_OUTSIDE} outside its interval: {reason}passed the threshold, which favours those "
            "that noise made larger. Believe the interval."
        )
    return " ".join([*words, _TOO_STRONG])


def show_pairs(out: Console, found: Description) -> None:
    """Print the largest correlations of a release, if there are any."""
    pairs, names = found.strongest, found.release.column_names
    if pairs:
        heading(out, "Largest correlations" + ", features counted from 0" * (names is None))
        show(out, pair_table(pairs, names=names))
        paragraph(out, pair_remarks(pairs, projected=found.release.making.projected))


# ---- answers ----


def tell(
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
        from hushcov.answers.tables import write_table

        write_table(table, output)
    if as_json:
        echo_json(_plain({**summary, "table": records(table), "warning": caution, "notes": notes}))
        return
    out = console()
    heading(out, title)
    facts(out, lines)
    table = _on_screen(table)
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


def _on_screen(table: Table) -> Table:
    """Without lines that have no value, and without marks of noise that no line has."""
    value = table.get("partial_correlation")
    kept = slice(None) if value is None else ~np.isnan(value)
    seen = {name: column[kept] for name, column in table.items()}
    return {name: each for name, each in seen.items() if name != "noise" or each.any()}


def _text(table: Table) -> Any:
    """The table in words. Names are broken where a line is too short, numbers never."""
    found = plain_table()
    for name, column in table.items():
        title, names = _SHORT.get(name, name.replace("_", " ")), column.dtype == object
        found.add_column(
            title, justify="left" if names else "right", no_wrap=not names, overflow="fold"
        )
    for row in zip(*(_cells(column) for column in table.values()), strict=True):
        found.add_row(*row)
    return found


def _cells(column: Any) -> list[str]:
    """A column in words."""
    if column.dtype == bool:
        return ["yes" if value else "no" for value in column]
    if column.dtype == object:
        return [clean(str(value)) for value in column]
    return [figure(float(value)) for value in column]


def figure(value: float, digits: int = 3) -> str:
    """A number to some digits, as people write it: 49,800."""
    if not _WHOLE[0] <= abs(value) < _WHOLE[1]:
        return number(value, digits)
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def percent(share: float) -> str:
    """A share in percent; what is nearly all or nothing is not rounded to it."""
    for nearly, text in ((1 - share, "above 99.9"), (share, "below 0.1")):
        if 0 < nearly < 1e-3:
            return f"{text} %"
    return f"{number(100 * share, 3)} %"


def records(table: Table) -> list[dict[str, Any]]:
    """A table as JSON has it, line by line."""
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
