"""Read releases, and print their pairs and answers about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from numpy.linalg import LinAlgError
from rich.console import Console

from hushcov.cli.files import split_names
from hushcov.cli.options import Function
from hushcov.cli.output import clean, console, heading, paragraph, show, warning
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.release import Release
from hushcov.release.files import read_release
from hushcov.text.description import NOT_PRIVATE, Description, pair_remarks
from hushcov.text.rows import pair_table

if TYPE_CHECKING:
    from hushcov.answers.files import Table

# ---- releases ----


def reads_release(function: Function) -> Function:
    """Add RELEASE and --verify to a command, and call it with the folder and a function to read it.

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


def features_option(words: str) -> Callable[[Function], Function]:
    """Return --features, which names columns."""
    words += ", or categories of a codebook.  [default: all that were found]"
    return click.option("--features", metavar="A,B,C", help=words)


def columns_of(release: Release, names: str | None) -> tuple[list[str] | None, list[str]]:
    """Return the columns that were named, also by a category, and notes to print about them."""
    from hushcov.answers.columns import spelt_out

    columns = split_names(names)
    return (None, []) if columns is None else spelt_out(release, columns)


def open_page(title: str, release: Release) -> Console:
    """Print a title, and first of all what is wrong with a release."""
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


# ---- pairs ----


def show_pairs(out: Console, found: Description) -> None:
    """Print the largest correlations of a release, if there are any."""
    pairs, names = found.strongest, found.release.column_names
    if pairs:
        heading(out, "Largest correlations" + ", features counted from 0" * (names is None))
        show(out, pair_table(pairs, names=names))
        paragraph(out, pair_remarks(pairs, projected=found.release.making.projected))


def records(table: Table) -> list[dict[str, Any]]:
    """Return a table as a list of rows for JSON."""
    columns = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]
