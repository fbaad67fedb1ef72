"""Text as commands and answers print it: headings, facts, tables, warnings.

A command writes to the screen, `print` of an answer to a string; both look the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hushcov.exceptions import printable

clean = printable

#: Columns of a line: longer ones are hard to read.
WIDEST = 100
_INDENT = (0, 0, 0, 2)
_LONGEST_NAME = 40


def show(out: Console, what: RenderableType) -> None:
    """Print, without the blanks that rich leaves at line ends unless a terminal hides them."""
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as captured:
        out.print(what)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), file=out.file)


def heading(out: Console, text: str) -> None:
    """Print a heading after an empty line."""
    show(out, "")
    show(out, Text(clean(text), style="bold"))


def paragraph(out: Console, text: str, *, style: str = "") -> None:
    """Print indented text, wrapped at words; lines of the text stay lines."""
    show(out, Padding(Text(_lines(text), style=style), _INDENT))


def warning(out: Console, text: str) -> None:
    """Print what people should heed."""
    paragraph(out, f"WARNING: {text}", style="bold red")


def facts(out: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print labels and values in two aligned columns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(clean(label), clean(value))
    show(out, Padding(grid, _INDENT))


def plain_table(*, gap: int = 1) -> Table:
    """Return a table in the style of all commands."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def text_table(
    titles: Iterable[str], rows: Iterable[Iterable[str]], *, folded: str | None = None
) -> Table:
    """A table of numbers; the column that is `folded` takes more lines where there is no room."""
    table = plain_table()
    for title in titles:
        table.add_column(_lines(title), justify="right", no_wrap=title != folded, overflow="fold")
    for row in rows:
        table.add_row(*map(clean, row))
    return table


def _lines(text: str) -> str:
    """Return text of our own, which may have several lines, with harmless characters."""
    return "\n".join(map(clean, text.split("\n")))


def short_name(name: str) -> str:
    """Return the name of a feature for a table: of one line and of moderate length."""
    name = clean(name)
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
