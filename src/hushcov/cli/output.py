"""How commands write: plain text in a pipe, the same with a little colour in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hushcov.cli.errors import BROKEN_PIPE

_WIDEST = 100  # longer lines are hard to read
_INDENT = (0, 0, 0, 2)
_LONGEST_NAME = 40


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """End quietly, with an exit code that does not look like a failed check."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(BROKEN_PIPE) from None


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output (or error), at most 100 columns wide.

    Markup is off: file names may contain brackets.
    """
    result = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    result.width = min(result.width, _WIDEST)
    return result


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
    show(out, Text(text, style="bold"))


def paragraph(out: Console, text: str, *, style: str = "") -> None:
    """Print indented text, wrapped at words."""
    show(out, Padding(Text(text, style=style), _INDENT))


def facts(out: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print labels and values in two aligned columns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(label, value)
    show(out, Padding(grid, _INDENT))


def plain_table(*, gap: int = 1) -> Table:
    """A table in the style of all commands."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def text_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table of numbers."""
    table = plain_table()
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def clean(text: str) -> str:
    """Text from a file, in one line, without characters that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)


def short_name(name: str) -> str:
    """The name of a feature for a table: of one line and of moderate length."""
    name = clean(name)
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def peak_memory() -> int | None:
    """The most bytes that this process has had in memory; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)
