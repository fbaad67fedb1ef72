"""Asking one question at a time: a default, help on `?`, and an end that charges nothing."""

from __future__ import annotations

import difflib
import fnmatch
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import click
from rich.console import Console

from hushcov._validation import shown
from hushcov.cli.options import INTEGER, NUMBER
from hushcov.cli.output import clean, paragraph, short_name, show
from hushcov.exceptions import HushcovError, ParameterError

Answer = TypeVar("Answer")
NOTHING_HAPPENED = "No record was looked at, and nothing was charged."
NONE = "none"
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+|\d{1,3}( \d{3})+", re.ASCII)  # 20,000 or 20 000
_HELP, _YES, _NO = "?", ("yes", "y"), ("no", "n")
_ENDED = (
    "the answers ended at the question {!r}. " + NOTHING_HAPPENED + " Answer all questions, or use "
    "--yes, which takes the defaults."
)


@dataclass(frozen=True)
class Prompts:
    """Prompts to somebody at a terminal, or to a pipe; with `defaults`, to nobody."""

    out: Console
    defaults: bool = False

    def ask(
        self,
        question: str,
        check: Callable[[str], Answer],
        *,
        default: str | None,
        help: str,
        note: str = "",
    ) -> Answer:
        """Ask until `check` takes the answer; what it raises says what is wrong.

        `note` stands below the question: what nobody should miss.
        """
        show(self.out, "")
        click.secho(question, bold=True)
        if note:
            paragraph(self.out, note)
        while True:
            text = self._line(question, default)
            if text == _HELP:
                paragraph(self.out, help)
                continue
            if not text.isprintable():
                paragraph(
                    self.out, "Not that: it has characters that cannot be shown.", style="red"
                )
                continue
            if not text and default is None:
                paragraph(self.out, "There is no default for this: please answer, or ? for help.")
                continue
            try:
                return check(text or str(default))
            except (HushcovError, OSError, click.ClickException) as error:
                if self.defaults:
                    raise
                words = error.format_message() if isinstance(error, click.ClickException) else error
                paragraph(self.out, f"Not that: {' '.join(str(words).split())}", style="red")

    def _line(self, question: str, default: str | None) -> str:
        """One line of input, without blanks around it."""
        prompt = "  > " if default is None else f"  [{clean(default)}] > "
        if self.defaults:
            if default is None:
                _refuse(
                    f"there is no default for the question {question!r}. {NOTHING_HAPPENED} Answer "
                    "it in a terminal, or by --settings or --records."
                )
            click.echo(prompt.rstrip(" >"))
            return ""
        try:
            text = input(prompt).replace("\t", " ").strip()
        except EOFError:
            click.echo()
            _refuse(_ENDED.format(question))
        if not sys.stdin.isatty():
            click.echo(clean(text))  # a terminal has shown it already
        return text

    def yes(self, question: str, *, default: bool, help: str, note: str = "") -> bool:
        """Ask for yes or no."""
        usual = _YES[0] if default else _NO[0]
        return self.ask(f"{question} (yes, no, ?)", _truth, default=usual, help=help, note=note)


def _refuse(words: str) -> NoReturn:
    raise click.UsageError(words, click.get_current_context(silent=True))


def _truth(text: str) -> bool:
    if text.casefold() not in (*_YES, *_NO):
        raise ParameterError("write yes or no, or ? for help.")
    return text.casefold() in _YES


def a_number(text: str) -> float:
    """A real number, as options take it."""
    return float(NUMBER.convert(text, None, None))


def an_integer(text: str) -> int:
    """A whole number of 1 or more, as people write them: 20000, 20,000, 20 000 or 20k."""
    plain = re.sub(r"[, ]", "", text) if _GROUPED.fullmatch(text) else text
    thousands = plain[:-1] if plain[-1:] in "kK" else None
    try:
        value = int(INTEGER.convert(f"{thousands}e3" if thousands else plain, None, None))
    except click.ClickException:
        raise ParameterError(
            f"{shown(text)} is not a whole number: write it like 15000 or 15_000."
        ) from None
    if value < 1:
        raise ParameterError("write a whole number of 1 or more.")
    return value


def columns_in(text: str, names: Sequence[str], among: Sequence[str] | None = None) -> list[str]:
    """Columns by name, by number from 1 on, by range (3-7) or by pattern (lab_*); or none.

    They come in the order of the text.
    Numbers are those in the list of all names; `among` are those that are left to choose from.
    """
    if text.casefold() == NONE:
        return []
    left = set(names if among is None else among)
    found: list[str] = []
    unknown: list[str] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        here = _columns_of(part, names)
        found += here
        unknown += [] if here else [part]
        if here and not left & set(here):
            raise ParameterError(f"{shown(part)} is left out, or described before.")
    if unknown:
        close = [each for part in unknown for each in difflib.get_close_matches(part, names, 1)]
        hint = f" Did you mean {', '.join(dict.fromkeys(close))}?" if close else ""
        raise ParameterError(f"there is no column {', '.join(map(shown, unknown))}.{hint}")
    return [name for name in dict.fromkeys(found) if name in left]


def _columns_of(part: str, names: Sequence[str]) -> list[str]:
    if part in names:
        return [part]
    first, dash, last = part.partition("-")
    if first.strip().isdecimal() and (not dash or last.strip().isdecimal()):
        low, high = int(first), int(last or first)
        return list(names[low - 1 : high]) if 1 <= low <= high <= len(names) else []
    return [name for name in names if fnmatch.fnmatchcase(name, part)]


def one_column(text: str, names: Sequence[str]) -> str:
    """One column, in any of these ways."""
    found = columns_in(text, names)
    if len(found) != 1:
        raise ParameterError(f"choose one column, got {len(found)}.")
    return found[0]


def numbered(names: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Numbers and names for a list, the first ones of many."""
    rows = [(str(i), short_name(name)) for i, name in enumerate(names[:most], start=1)]
    return rows + ([("...", f"{len(names) - most:,} more")] if len(names) > most else [])
