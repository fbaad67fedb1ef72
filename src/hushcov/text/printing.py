"""Print headings, facts, tables, warnings and answers, in a terminal and in a notebook.

A command writes to the screen, and `print` of an answer to a string; both look the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import repeat
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hushcov._words import figure
from hushcov.exceptions import printable

clean = printable

#: Columns of a line: longer ones are hard to read.
WIDEST = 100
_INDENT = (0, 0, 0, 2)
_LONGEST_NAME = 40


# ---- in a terminal ----


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
    """Print a warning."""
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
    """Return an empty table in the style of all commands."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def text_table(
    titles: Iterable[str], rows: Iterable[Iterable[str]], *, folded: str | None = None
) -> Table:
    """Return a table of numbers; the column `folded` takes more lines where there is no room."""
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


# ---- answers ----

_MOST_LINES = 30  # of a table that is shown
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_RARE = ("noise", "hidden")  # columns that are left out where all of them are "no"


@dataclass(frozen=True, eq=False)
class AnswerPage:
    """An answer as it is shown: facts in labelled sentences, a table, and what its columns mean."""

    title: str
    facts: Sequence[tuple[str, str]]
    table: Mapping[str, npt.NDArray[Any]]
    legend: str
    notes: Sequence[str] = ()
    warning: str | None = None

    @property
    def n_lines(self) -> int:
        """Number of lines of the table."""
        return len(next(iter(self.table.values()), ()))

    def columns(self) -> list[tuple[str, bool, list[str]]]:
        """Return titles, whether a column holds words, and its first entries in words."""
        found, before = [], ""
        for name, follows in zip(self.table, [*list(self.table)[1:], ""], strict=True):
            column = self.table[name][:_MOST_LINES]
            if name in _RARE and not self.table[name].any():
                continue
            if column.dtype == object:
                texts = list(map(str, column))
            elif column.dtype == bool:
                texts = ["yes" if value else "no" for value in column]
            else:
                bounded = "lower" in (name, follows, before)
                digits = self._digits() if bounded else [3] * len(column)
                none = "not found" if "correlation" in name else "none"
                each = zip(column.tolist(), digits, strict=True)
                texts = [figure(value, exact, none=none) for value, exact in each]
            found.append((_SHORT.get(name, name.replace("_", " ")), column.dtype == object, texts))
            before = name
        return found

    def _digits(self) -> list[int]:
        """Return how many digits tell the ends of intervals apart, at least three."""
        low, high = (self.table[name][:_MOST_LINES] for name in ("lower", "upper"))
        with np.errstate(all="ignore"):
            places = np.ceil(np.log10(np.maximum(np.abs(low), np.abs(high)) / (high - low))) + 1
        known = np.nan_to_num(places, nan=3, posinf=3, neginf=3)
        return [int(each) for each in known.clip(3, 6)]

    def left_out(self, where: str) -> list[tuple[str, str]]:
        """Say how many lines are not shown, and where they are."""
        more = self.n_lines - _MOST_LINES
        return [("left out", f"{more:,} more lines: {where}")] if more > 0 else []

    def write(self, out: Console, where: str) -> None:
        """Print to a console; `where` all lines of a long table are."""
        heading(out, self.title)
        facts(out, self.facts)
        if self.n_lines:
            table, columns = plain_table(), self.columns()
            for title, words, _ in columns:  # names may be broken, numbers never
                side: Any = "left" if words else "right"
                table.add_column(clean(title), justify=side, no_wrap=not words, overflow="fold")
            for row in zip(*(texts for *_, texts in columns), strict=True):
                table.add_row(*map(clean, row))
            show(out, "")
            show(out, table)
            facts(out, self.left_out(where))
            if self.legend:
                show(out, "")
                paragraph(out, clean(self.legend))
        for note in self.notes:
            paragraph(out, clean(note))
        if self.warning:
            show(out, "")
            warning(out, clean(self.warning))

    def __str__(self) -> str:

        stream = io.StringIO()
        out = Console(
            file=stream,
            width=WIDEST,
            force_terminal=False,
            force_jupyter=False,  # in a notebook rich would write to the page, not to the string
            markup=False,
            highlight=False,
            emoji=False,
        )
        self.write(out, "frame() has all")
        return stream.getvalue().strip("\n")

    def html(self) -> str:
        """Return HTML, for notebooks."""
        columns = self.columns()
        side = ["left" if words else "right" for _, words, _ in columns]

        def row(texts: Sequence[str], tag: str) -> str:
            style = "padding: 1px 8px; text-align:"
            cells = zip(side, texts, strict=True)
            each = (f'<{tag} style="{style} {a}">{_html(x)}</{tag}>' for a, x in cells)
            return f"<tr>{''.join(each)}</tr>"

        def lines(facts: Sequence[tuple[str, str]]) -> list[str]:
            return [f"<div><i>{_html(a)}</i> {_html(b)}</div>" for a, b in facts]

        parts = [f"<p><b>{_html(self.title)}</b></p>", *lines(self.facts)]
        if self.n_lines:
            body = map(row, zip(*(texts for *_, texts in columns), strict=True), repeat("td"))
            head = row([title for title, *_ in columns], "th")
            parts.append(f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>")
            parts += [*lines(self.left_out("frame() has all")), f"<p>{_html(self.legend)}</p>"]
        parts += [f"<p>{_html(note)}</p>" for note in self.notes]
        parts += [f"<p><b>Warning: {_html(self.warning)}</b></p>"] if self.warning else []
        return f"<div>{''.join(parts)}</div>"


def _html(text: str) -> str:
    """Return text as a page shows it: without tags and characters that steer how it is shown."""
    return escape(printable(text))


def between(level: float) -> str:
    """Say what an interval is."""
    return f"the true value is between lower and upper in {100 * level:.4g} % of releases"
