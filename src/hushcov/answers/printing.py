"""How an answer is shown: as text, the same for `print` and on the command line, and as HTML."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hushcov._words import number
from hushcov.exceptions import printable

if TYPE_CHECKING:
    from rich.console import Console

_MOST_LINES = 30  # of a table that is shown
_SHORT = {  # titles of columns on a screen of usual width
    "deviation": "sd",
    "unconditional_mean": "mean of all",
    "unconditional_deviation": "sd of all",
    "partial_correlation": "partial",
}
_RARE = ("noise", "hidden")  # columns that are left out where all of them are "no"
_WHOLE = 1e4, 1e9  # numbers between these are written without an exponent


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
        """How many lines the table has."""
        return len(next(iter(self.table.values()), ()))

    def columns(self) -> list[tuple[str, bool, list[str]]]:
        """Titles, whether a column holds words, and its first entries as people read them."""
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
                told = "lower" in (name, follows, before)
                digits = self._digits() if told else [3] * len(column)
                none = "not found" if "correlation" in name else "none"
                each = zip(column.tolist(), digits, strict=True)
                texts = [figure(value, exact, none=none) for value, exact in each]
            found.append((_SHORT.get(name, name.replace("_", " ")), column.dtype == object, texts))
            before = name
        return found

    def _digits(self) -> list[int]:
        """Digits of values with intervals: as many as tell the ends apart, three at least."""
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
        from hushcov._printing import clean, facts, heading, paragraph, plain_table, show, warning

        heading(out, clean(self.title))
        facts(out, [(clean(label), clean(sentence)) for label, sentence in self.facts])
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
        from rich.console import Console

        from hushcov._printing import WIDEST

        # In a notebook rich would write to the page, and not to the string.
        plain: dict[str, Any] = {"force_terminal": False, "force_jupyter": False}
        plain |= {"markup": False, "highlight": False, "emoji": False}
        stream = io.StringIO()
        self.write(Console(file=stream, width=WIDEST, **plain), "frame() has all")
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
    """Text as a page shows it: without tags, and without signs that steer how it is shown."""
    return escape(printable(text))


def between(level: float) -> str:
    """Say what an interval is."""
    return f"the true value is between lower and upper in {100 * level:.4g} % of releases"


def figure(value: float, digits: int = 3, *, none: str = "none") -> str:
    """A number to some digits, as people write it: 49,800; `none` where there is none."""
    if np.isnan(value):
        return none
    if not _WHOLE[0] <= abs(value) < _WHOLE[1]:
        return number(value + 0.0, digits)  # no -0
    return f"{float(f'{value:.{digits}g}'):,.0f}"
