"""Prompts about rows and columns: whose they are, which to use, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.columns import Columns as SideBySide
from rich.console import Console

from hushcov._validation import listed
from hushcov._words import counted
from hushcov.accounting import ADD_REMOVE
from hushcov.cli.output import heading, paragraph, show
from hushcov.cli.prompts import (
    NONE,
    Prompts,
    an_integer,
    columns_in,
    numbered,
    one_column,
)
from hushcov.cli.settings import MOST_ROWS, Settings
from hushcov.exceptions import ParameterError
from hushcov.tables.files import OTHER, Header

FIND, COUNT = "find", "count"
_USUAL_ROWS = 4  # of one unit, where nobody says
_MOST_LISTED = 60
# Names by which identifiers go. Names are public; values are not looked at.
_IDENTIFIER = re.compile(
    r"(.*[_ .-])?(id|uuid|guid|key|name|surname|email|e-mail|phone|address|ssn|mrn)|.*[a-z]I[Dd]"
)
_IDENTIFIER_START = re.compile(r"(id|uuid|guid)[_ .-].*", re.IGNORECASE)


@dataclass
class Draft:
    """What is asked with, of which files, and the answers so far."""

    ask: Prompts
    out: Console
    file: Path
    stem: str
    header: Header
    settings: Settings
    #: Rows that the command line says there are about.
    rows: int | None = None
    #: Whether the columns have been listed.
    listed: bool = False
    #: The text of the codebook that was written from the answers, if one was.
    codebook: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns; positions from 0 on where there are none."""
        if self.header.names is not None:
            return self.header.names
        return tuple(str(i) for i in range(self.header.n_columns))

    def known(self, key: str) -> Any:
        """What was answered before."""
        return self.settings.options.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep an answer, or that there is none."""
        if value is None or value is False:
            self.settings.options.pop(key, None)
        else:
            self.settings.options[key] = value

    @property
    def answered(self) -> bool:
        """Whether the answers are those of an earlier time."""
        return self.known("epsilon") is not None

    @property
    def public_rows(self) -> bool:
        """Whether the number of rows is public."""
        return self.known("unit") is None and self.known("neighbours") != ADD_REMOVE


def looks_like_identifier(name: str) -> bool:
    """Whether a column goes by the name of an identifier."""
    plain = name.strip()
    return bool(
        _IDENTIFIER.fullmatch(plain)
        or _IDENTIFIER.fullmatch(plain.casefold())
        or _IDENTIFIER_START.fullmatch(plain)
    )


def ask_whose(draft: Draft) -> None:
    """Ask whom a row is about, and whether the number of rows is public."""
    heading(draft.out, "1. Whom it protects")
    several = draft.ask.yes(
        "Can one person (or whoever a row is about) have more than one row?",
        default=draft.known("unit") is not None,
        help="The promise is for one row, unless you say which rows belong together. Where "
        "somebody can have several, all of them have to be protected together: ten rows protected "
        "one by one are protected by ten times the epsilon. In doubt say yes.",
    )
    if not several:
        for key in ("unit", MOST_ROWS, "estimand"):
            draft.put(key, None)
        draft.settings.plan.pop(MOST_ROWS, None)
        _ask_public(draft)
        return
    before = draft.known("unit")
    likely = [name for name in draft.names if looks_like_identifier(name)]
    _list_columns(draft)
    unit = draft.ask.ask(
        "Which column says whose row it is? (a name or a number)",
        lambda text: _unit(text, draft),
        default=before if before in draft.names else likely[0] if likely else None,
        help="A column that has the same value in all rows of a person, and another for everybody "
        "else, as patient_id. It is no feature. Its name is published, its values never are.",
    )
    draft.put("unit", unit)
    most = draft.ask.ask(
        f"At most how many rows of one {unit} count? (a number, or find)",
        lambda text: None if text.casefold() == FIND else an_integer(text),
        default=str(draft.known(MOST_ROWS) or FIND),
        help="More noise is needed where one person may count more. A number that few exceed is "
        "best; give one that is publicly known, as visits a year. 'find' spends 1 % of epsilon to "
        "find one.",
    )
    draft.put(MOST_ROWS, most)
    before = draft.settings.plan.pop(MOST_ROWS, _USUAL_ROWS)
    if most is None:
        draft.settings.plan[MOST_ROWS] = draft.ask.ask(
            f"About how many rows has one {unit}, mostly? (a guess, for the plan)",
            an_integer,
            default=str(before),
            help="What is found is near this number, and the error to expect depends on it. It is "
            "not looked up, and decides nothing but the plan.",
        )


def _unit(text: str, draft: Draft) -> str:
    if draft.header.names is None and text.isdecimal() and int(text) < draft.header.n_columns:
        return text  # positions count from 0, as for 'fit --unit'
    return one_column(text, draft.names)


def _ask_public(draft: Draft) -> None:
    public = draft.ask.yes(
        "May everybody know how many rows there are?",
        default=draft.known("neighbours") != ADD_REMOVE,
        help="If yes, the promise is: nobody can tell what any one row says. If no, it is: nobody "
        "can tell whether any one row is there at all. Then 2 % of epsilon release about how many "
        "there are, with noise. Mostly the number is in a report already: yes.",
    )
    draft.put("neighbours", None if public else ADD_REMOVE)


def ask_rows(draft: Draft) -> int:
    """About how many rows there are, for the plan; only a public number is looked up."""
    header, before = draft.header, draft.rows or draft.settings.plan.get("records")
    if draft.public_rows and header.states_rows:
        rows = header.count_rows()
        show(draft.out, "")
        paragraph(draft.out, f"The files state that they have {counted(rows, 'row')}.")
    elif draft.public_rows:
        rows = draft.ask.ask(
            f"About how many rows are there? (a number, or {COUNT})",
            lambda text: header.count_rows() if text.casefold() == COUNT else an_integer(text),
            default=None if before is None else str(before),
            help="For the plan, a rough number will do. 'count' counts the lines of the file, "
            "which you said is public; that is the one thing here that reads beyond its first "
            "line, and nothing but the number is kept.",
        )
    else:
        rows = draft.ask.ask(
            "About how many rows are there? (a rough public guess)",
            an_integer,
            default=None if before is None else str(before),
            help="How many there are is not public here, so it is not looked up. The guess is for "
            "the plan alone: the release finds the number itself, with noise.",
        )
    draft.settings.plan["records"] = rows
    return rows


def _list_columns(draft: Draft) -> None:
    """List them once."""
    if draft.listed:
        return
    draft.listed = True
    show(draft.out, "")
    cells = [f"{i:>3} {name}" for i, name in numbered(draft.names, _MOST_LISTED)]
    show(draft.out, SideBySide(cells, padding=(0, 2), column_first=True))
    if draft.header.format == "csv" and draft.header.text.header and not draft.known("names"):
        show(draft.out, "")
        paragraph(
            draft.out,
            "This is the first line of the file. Names are public, and go into the release: if it "
            "is somebody's record, leave now.",
        )


def ask_columns(draft: Draft) -> list[str]:
    """Which columns to use."""
    heading(draft.out, "2. Columns")
    unit = draft.known("unit")
    names = [name for name in draft.names if name != unit]
    if draft.header.names is None:
        paragraph(draft.out, f"All {counted(len(names), 'column')} are used, as numbers.")
        return names
    _list_columns(draft)
    return _ask_used(draft, names)


def _ask_used(draft: Draft, names: Sequence[str]) -> list[str]:
    before, kinds = _columns_before(draft), draft.header.kinds
    if not before or not set(before) <= set(names):  # or the answers were of another file
        out = [n for n in names if looks_like_identifier(n) or kinds.get(n) == OTHER]
    else:
        out = [name for name in names if name not in before]
    left = draft.ask.ask(
        "Which columns are to be left out? (names, numbers such as 1,4-6, or none)",
        lambda text: _left_out(columns_in(text, draft.names, names), names),
        default=", ".join(out) or NONE,
        help="Identifiers, names, dates and free text: what is no measurement has no covariance, "
        "and numbers such as postcodes are none either. lab_* stands for all that begin so. The "
        "default goes by the names of the columns alone.",
    )
    used = [name for name in names if name not in left]
    draft.put("columns", used if left else None)
    return used


def _columns_before(draft: Draft) -> list[str]:
    before = draft.known("columns") or []
    return before.split(",") if isinstance(before, str) else list(before)


def _left_out(left: list[str], names: Sequence[str]) -> list[str]:
    if len(names) - len(left) < 2:
        raise ParameterError("leave at least two columns: a covariance needs them.")
    awkward = [n for n in names if n not in left and ("," in n or n != n.strip())]
    if left and awkward:
        raise ParameterError(
            f"{listed(awkward)} cannot be chosen, having commas, or blanks at the ends, in the "
            "name: rename in the file, leave these out, or leave none out."
        )
    return left
