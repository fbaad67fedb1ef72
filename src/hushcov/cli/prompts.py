"""Questions of `hushcov start`: how they are asked, and those about rows, columns and a codebook.

Each has a default, help on `?`, and an end that charges nothing.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.columns import Columns as SideBySide
from rich.console import Console

from hushcov._validation import listed, meant, nearest, shown
from hushcov._words import counted, shell_word
from hushcov.cli.files import free_path, split_names
from hushcov.cli.options import INTEGER, MOST_ROWS, NUMBER, Settings, plain_number
from hushcov.cli.output import clean, heading, paragraph, short_name, show
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.kernel.accounting import ONE_REMOVED, is_counted
from hushcov.tables import codebook as books
from hushcov.tables.cells import NO, YES, folded
from hushcov.tables.codebook import (
    SEPARATOR,
    SEPARATORS,
    CodebookColumn,
    read_codebook,
    read_values,
    written_values,
)
from hushcov.tables.files import IDENTIFIER, Header
from hushcov.tables.sources import TEXT, TRUTH
from hushcov.transforms import read_transform

Answer = TypeVar("Answer")
NOTHING_HAPPENED = "No record was looked at, and nothing was charged."
NONE = "none"
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+|\d{1,3}( \d{3})+", re.ASCII)  # 20,000 or 20 000
_HELP, _YES, _NO = "?", ("yes", "y"), ("no", "n")


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
            if not text and default is None:
                paragraph(self.out, "There is no default for this: please answer, or ? for help.")
                continue
            try:
                if not text.isprintable():
                    raise ParameterError("it has characters that cannot be shown.")
                return check(text or str(default))
            except (HushcovError, OSError, click.ClickException) as error:
                if self.defaults:
                    raise
                words = error.format_message() if isinstance(error, click.ClickException) else error
                paragraph(self.out, f"Not that: {' '.join(str(words).split())}", style="red")

    def _line(self, question: str, default: str | None) -> str:
        """Read one line of input, without blanks around it."""
        prompt = "  > " if default is None else f"  [{clean(default)}] > "
        if self.defaults:
            if default is None:
                raise click.UsageError(
                    f"there is no default for the question {question!r}. {NOTHING_HAPPENED} Answer "
                    "it in a terminal, or by --settings or --records.",
                    click.get_current_context(silent=True),
                )
            click.echo(prompt.rstrip(" >"))
            return ""
        try:
            text = input(prompt).replace("\t", " ").strip()
        except EOFError:
            click.echo()
            raise click.UsageError(
                f"the answers ended at the question {question!r}. {NOTHING_HAPPENED} Answer all "
                "questions, or use --yes, which takes the defaults.",
                click.get_current_context(silent=True),
            ) from None
        if not sys.stdin.isatty():
            click.echo(clean(text))  # a terminal has shown it already
        return text

    def yes(self, question: str, *, default: bool, help: str, note: str = "") -> bool:
        """Ask for yes or no."""

        def check(text: str) -> bool:
            if text.casefold() not in (*_YES, *_NO):
                raise ParameterError("write yes or no, or ? for help.")
            return text.casefold() in _YES

        usual = _YES[0] if default else _NO[0]
        return self.ask(f"{question} (yes, no, ?)", check, default=usual, help=help, note=note)


def a_number(text: str) -> float:
    """Return a real number, as options take it."""
    return float(NUMBER.convert(text, None, None))


def an_integer(text: str) -> int:
    """Return a whole number of 1 or more, as people write them: 20000, 20,000, 20 000 or 20k."""
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
    """Return columns by name, number from 1 on, range (3-7) or pattern (lab_*); or none.

    They come in the order of the text. Numbers are those in the list of all names; `among` are
    those that are left to choose from.
    """
    if text.casefold() == NONE:
        return []
    left = set(names if among is None else among)
    found: list[str] = []
    unknown: list[str] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        first, dash, last = map(str.strip, part.partition("-"))
        same = meant(part, names)
        if same is not None:
            here = [same]
        elif first.isdecimal() and (not dash or last.isdecimal()):
            low, high = int(first), int(last or first)
            here = list(names[low - 1 : high]) if 1 <= low <= high <= len(names) else []
        else:
            here = [name for name in names if fnmatch.fnmatchcase(name, part)]
        found += here
        unknown += [] if here else [part]
        if here and not left & set(here):
            raise ParameterError(f"{shown(part)} is left out, or described before.")
    if unknown:
        close = nearest(unknown, names)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise ParameterError(f"there is no column {', '.join(map(shown, unknown))}.{hint}")
    return [name for name in dict.fromkeys(found) if name in left]


FIND, COUNT = "find", "count"
_USUAL_ROWS = 4  # of one unit, where nobody says
_MOST_LISTED = 60


@dataclass
class Draft:
    """The answers so far, the files that they are about, and the prompts."""

    ask: Prompts
    out: Console
    file: Path
    stem: str
    header: Header
    settings: Settings
    #: Where answers are kept.
    kept: Path
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
        """Return the earlier answer, if there is one."""
        return self.settings.options.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep an answer, or that there is none."""
        if value is None or value is False:
            self.settings.options.pop(key, None)
        else:
            self.settings.options[key] = value

    @property
    def again(self) -> str:
        """The command that goes on with the answers."""
        return f"hushcov start --settings {shell_word(self.kept)}"

    @property
    def answered(self) -> bool:
        """Whether the answers are those of an earlier time."""
        return self.known("epsilon") is not None

    @property
    def public_rows(self) -> bool:
        """Whether the number of rows is public."""
        return self.known("unit") is None and not is_counted(self.known("neighbours"))


def ask_unit(draft: Draft) -> None:
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
        public = draft.ask.yes(
            "May everybody know how many rows there are?",
            default=not is_counted(draft.known("neighbours")),
            help="If yes, the promise is: nobody can tell what any one row says. If no, it is: "
            "nobody can tell whether any one row is there at all. Then 2 % of epsilon release "
            "about how many there are, with noise. Mostly the number is in a report already: yes.",
        )
        draft.put("neighbours", None if public else ONE_REMOVED.relation)
        return
    before = draft.known("unit")
    likely = [n for n, why in draft.header.no_measurements.items() if why == IDENTIFIER]
    _list_columns(draft)

    def check(text: str) -> str:
        if draft.header.names is None and text.isdecimal() and int(text) < draft.header.n_columns:
            return text  # positions count from 0, as for 'fit --unit'
        found = columns_in(text, draft.names)
        if len(found) != 1:
            raise ParameterError(f"choose one column, got {len(found)}.")
        return found[0]

    unit = draft.ask.ask(
        "Which column says whose row it is? (a name or a number)",
        check,
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


def ask_rows(draft: Draft) -> int:
    """Ask about how many rows there are, for the plan; only a public number is looked up."""
    header, before = draft.header, draft.rows or draft.settings.plan.get("records")
    if draft.public_rows and header.states_rows:
        rows = header.count_rows()
        show(draft.out, "")
        paragraph(draft.out, f"The files state that they have {counted(rows, 'row')}.")
    else:
        public, how = draft.public_rows, "a rough public guess"
        words = (
            "How many there are is not public here, so it is not looked up. The guess is for the "
            "plan alone: the release finds the number itself, with noise."
        )
        if public:
            how = f"a number, or {COUNT}"
            words = (
                "For the plan, a rough number will do. 'count' counts the lines of the file, which "
                "you said is public; nothing else here reads beyond its first line, and only the "
                "number is kept."
            )
        rows = draft.ask.ask(
            f"About how many rows are there? ({how})",
            lambda text: (
                header.count_rows() if public and text.casefold() == COUNT else an_integer(text)
            ),
            default=None if before is None else str(before),
            help=words,
        )
    draft.settings.plan["records"] = rows
    return rows


def _list_columns(draft: Draft) -> None:
    """List the columns once."""
    if draft.listed:
        return
    draft.listed = True
    show(draft.out, "")
    names, more = draft.names[:_MOST_LISTED], len(draft.names) - _MOST_LISTED
    cells = [f"{i:>3} {short_name(name)}" for i, name in enumerate(names, start=1)]
    cells += [f"... {more:,} more"] * (more > 0)
    show(draft.out, SideBySide(cells, padding=(0, 2), column_first=True))
    if draft.header.format == "csv" and draft.header.text.header and not draft.known("names"):
        show(draft.out, "")
        paragraph(
            draft.out,
            "This is the first line of the file. Names are public, and go into the release: if it "
            "is somebody's record, leave now.",
        )


def ask_columns(draft: Draft) -> list[str]:
    """Ask which columns to use, and return them."""
    heading(draft.out, "2. Columns")
    unit = draft.known("unit")
    names = [name for name in draft.names if name != unit]
    if draft.header.names is None:
        paragraph(draft.out, f"All {counted(len(names), 'column')} are used, as numbers.")
        return names
    _list_columns(draft)
    before, noticed = split_names(draft.known("columns")) or [], draft.header.no_measurements
    if not before or not set(before) <= set(names):  # or the answers were of another file
        out = [name for name in names if name in noticed]
    else:
        out = [name for name in names if name not in before]
    left = draft.ask.ask(
        "Which columns are to be left out? (names, numbers such as 1,4-6, or none)",
        lambda text: _left_out(columns_in(text, draft.names, names), names, noticed),
        default=", ".join(out) or NONE,
        help="Identifiers, names, dates and free text: what is no measurement has no covariance, "
        "and numbers such as postcodes are none either. lab_* stands for all that begin so. The "
        "default goes by the names of the columns, and by types that the file states.",
    )
    used = [name for name in names if name not in left]
    draft.put("columns", used if left or set(noticed) & set(names) else None)
    return used


def _left_out(left: list[str], names: Sequence[str], noticed: Container[str]) -> list[str]:
    if len(names) - len(left) < 2:
        raise ParameterError("leave at least two columns: a covariance needs them.")
    awkward = [n for n in names if n not in left and ("," in n or n != n.strip())]
    if awkward and (left or any(name in noticed for name in names)):
        raise ParameterError(
            f"{listed(awkward)} cannot be chosen, having commas, or blanks at the ends, in the "
            "name: rename in the file, leave these out, or leave none out."
        )
    return left


ASK, TEMPLATE, LATER = "ask", "template", "later"
_MOST_ASKED = 20  # columns whose bounds are asked for one by one
USUAL = "usual"
_UNKNOWN, _WHOLE = "-", "whole"
# A line of a codebook: name, low, high, kind, values.
Line = tuple[str, str, str, str, str]
# By columns, what else a codebook says of their fields: missing codes, and the word for thousands.
Fields = dict[str, tuple[str, str]]
Described = Mapping[str, CodebookColumn]  # what a codebook said before, by the name of a column
_USUAL_LAST = "List all answers, the usual one last: regressions compare the others with it."


class ToFillIn(Exception):
    """A codebook was written that somebody has to fill in first."""


def ask_codebook(draft: Draft, used: Sequence[str]) -> int:
    """Ask what is known of the columns that are used; how many features they make."""
    if draft.header.names is None:
        return len(used)
    path = Path(draft.known("codebook") or f"{draft.stem}-codebook.csv")
    answer = draft.ask.ask(
        f"Is there a codebook? (a file, {ASK}, {TEMPLATE}, {NONE})",
        lambda text: _read(text, used, draft),
        default=str(path) if path.is_file() else NONE if draft.answered else ASK,
        help="A codebook is a small table of what is publicly known of columns: which are yes or "
        "no, which answers a category has, between which values numbers lie. "
        f"{ASK}: answer a few questions now. {TEMPLATE}: write a table to fill in by hand. {NONE}: "
        "all columns are numbers, and no bounds are known. Nothing of it may be looked up in the "
        "records, and hushcov does not look either.",
    )
    if answer == TEMPLATE:
        _write(draft, [(name, "", "", books.NUMBER, "") for name in used], {})
        raise ToFillIn("what is known of the columns")
    if answer == ASK:
        before = _described(draft)
        lines = _ask_kinds(draft, used, before)
        _write(draft, lines, _ask_fields(draft, used, lines, before))
    else:
        draft.put("codebook", None if answer == NONE else answer)
    sizes = {name: len(each.features) for name, each in _described(draft).items()}
    return sum(sizes.get(name, 1) for name in used)


def _read(text: str, used: Sequence[str], draft: Draft) -> str:
    """Return what is to be done, or the path of a codebook of these columns."""
    if text.casefold() == NONE:
        _check_text(draft, used, ())
    if text.casefold() in (ASK, TEMPLATE, NONE):
        return text.casefold()
    book = read_codebook(text).of_columns(draft.names)
    _check_text(draft, used, book.names)
    if not set(book.names) & set(used):
        raise ParameterError("it has none of the columns that are used.")
    return text


def _check_text(draft: Draft, used: Sequence[str], coded: Sequence[str]) -> None:
    """Refuse text that nothing is known of, where the files state that it is text."""
    text = [n for n in used if draft.header.kinds.get(n) == TEXT and n not in coded]
    if text:
        raise ParameterError(
            f"{listed(text)} must be described: they are text by what the file states. Describe "
            "them as categories, or start again and leave them out."
        )


def _described(draft: Draft) -> Described:
    """Return the columns of the codebook so far; none if it is not filled in yet."""
    path = draft.known("codebook")
    try:
        return {} if path is None else read_codebook(path).of_columns(draft.names).described
    except (HushcovError, OSError):
        return {}


def _ask_kinds(draft: Draft, used: Sequence[str], before: Described) -> list[Line]:
    """Ask for yes or no, categories and bounds, one kind after the other."""
    kinds = draft.header.kinds
    said = [each.name for each in before.values() if each.kind == books.BINARY]
    truths = draft.ask.ask(
        "Which columns are yes or no? (names, numbers, or none)",
        lambda text: columns_in(text, draft.names, used),
        default=_usual(used, said, [n for n in used if kinds.get(n) == TRUTH]),
        help="Columns with two answers, as smoker. It is worth telling: rare answers are found.",
    )
    lines: list[Line] = []
    for name in truths:
        stated = kinds.get(name) not in (None, TEXT)
        words = "" if stated else _ask_words(draft, name, before.get(name))
        lines.append((name, "", "", books.BINARY, words))
    rest = [name for name in used if name not in truths]
    said = [n for n, each in before.items() if each.kind == books.CATEGORY and n not in said]

    def categories(text: str) -> list[str]:
        found = columns_in(text, draft.names, rest)
        _check_text(draft, rest, found)
        return found

    groups = draft.ask.ask(
        "Which columns are categories? (names, numbers, or none)",
        categories,
        default=_usual(rest, said, [n for n in rest if kinds.get(n) == TEXT]),
        help="Columns with a list of answers, as region, in words or in codes. Each answer becomes "
        "a column of its own, which is 1 where it was given.",
    )
    for name in groups:
        lines.append(_ask_category(draft, name, before.get(name), first=name == groups[0]))
    return lines + _ask_bounds(draft, [name for name in rest if name not in groups], before)


def _usual(among: Sequence[str], *found: Sequence[str]) -> str:
    """A default for a question after columns: the first of these that has any."""
    here = ([name for name in names if name in among] for names in found)
    return ", ".join(next(filter(None, here), [])) or NONE


def _ask_words(draft: Draft, name: str, before: CodebookColumn | None) -> str:
    """Ask how yes and no are written in a column; return the field `values` of the codebook."""
    column = CodebookColumn(name, books.BINARY) if before is None else before

    def ask(answer: str, known: Sequence[str], spelt: dict[str, str]) -> list[str]:
        def check(text: str) -> list[str]:
            words = [] if text.casefold() == USUAL else _listed(text)
            own = {word: answer for word in words if folded(word) not in (*YES, *NO)}
            CodebookColumn(name, books.BINARY, synonyms=spelt | own)
            return words

        return draft.ask.ask(
            f"How is {answer} written in {short_name(name)}? (a word, several as ja{SEPARATOR}j, "
            f"or {USUAL})",
            check,
            default=SEPARATOR.join(known) or (USUAL if spelt else YES[0]),
            help=f"{USUAL}: {', '.join(YES)} are yes and {', '.join(NO)} are no, in any case. "
            "hushcov reads these whatever you answer, and other words that you name beside them. A "
            "value that is neither yes nor no is missing, and its record is left out. Synthetic "
            f"rows have the word that you name, and 1 and 0 for {USUAL}.",
        )

    said = {v: [k for k, own in column.synonyms.items() if own == v] for v in (YES[0], NO[0])}
    words = ask(YES[0], said[YES[0]] or column.values[:1], {})
    if words and all(folded(word) in YES for word in words):  # no is the word that goes with it
        other = NO[YES.index(folded(words[0]))]
        first = words[0].strip()
        other = other.upper() if first.isupper() else other.title() if first.istitle() else other
        return f"{first}{SEPARATOR}{other}"
    spelt = {word: YES[0] for word in words if folded(word) not in YES}
    if spelt:
        others = ask(NO[0], said[NO[0]], spelt)
        spelt |= {word: NO[0] for word in others if folded(word) not in NO}
    return written_values(CodebookColumn(name, books.BINARY, synonyms=spelt))


def _listed(text: str) -> list[str]:
    """Return the answers that a text lists, with bars between them, or commas."""
    if SEPARATOR in text and "," in text:
        raise ParameterError(
            f"it has both {SEPARATOR} and commas. Write one of them between answers, and other "
            f"spellings as F{SEPARATOR}Female {books.MEANS} F{books.NEXT} M{SEPARATOR}Male "
            f"{books.MEANS} M. An answer with a comma in it belongs into the codebook's file."
        )
    sign = SEPARATOR if SEPARATOR in text else ","
    return [each.strip() for each in text.split(sign) if each.strip()]


def _ask_category(draft: Draft, name: str, before: CodebookColumn | None, *, first: bool) -> Line:

    def check(text: str) -> str:
        if text.casefold() == LATER:
            return ""
        values, synonyms = read_values(
            text if books.MEANS in text else SEPARATOR.join(_listed(text))
        )
        return written_values(
            CodebookColumn(name, books.CATEGORY, values=values, synonyms=synonyms)
        )

    values = draft.ask.ask(
        f"Which answers has {short_name(name)}? (as north{SEPARATOR}south{SEPARATOR}west, or "
        f"{LATER})",
        check,
        default=LATER if before is None else written_values(before) or LATER,
        help=f"Answers with {SEPARATOR} or a comma between them, from a questionnaire or a manual. "
        f"Other spellings stand before their answer: N{SEPARATOR}nth {books.MEANS} "
        f"north{books.NEXT} south. Case does not matter. Do not "
        "look answers up in the records: rare ones give people away. An answer that is not in the "
        f"list counts as none of them. {LATER}: leave it to be filled in by hand.",
        note=_USUAL_LAST if first else "",
    )
    return name, "", "", books.CATEGORY, values


def _ask_bounds(draft: Draft, names: Sequence[str], before: Described) -> list[Line]:
    if not names:
        return []
    known = draft.ask.ask(
        "Which numeric columns have known limits? (names, numbers, or none)",
        lambda text: columns_in(text, draft.names, names),
        default=_usual(names, [n for n in before if any(_ends_of(before[n]))]),
        help="As age from 0 to 120, or a score from 1 to 5. It need not be known: means and scales "
        "are found from a part of the budget. Bounds help with rare events and absurd values, "
        "which are moved to them. They must be public, and not looked up in the records.",
    )
    if len(known) > _MOST_ASKED:
        paragraph(draft.out, "These are too many to ask for: they are left to be filled in.")
        return [(name, "", "", LATER, "") for name in known]
    return [_ask_ends(draft, name, before.get(name)) for name in known]


def _ends_of(column: CodebookColumn) -> tuple[str, str]:
    low, high = column.low, column.high
    return "" if low is None else plain_number(low), "" if high is None else plain_number(high)


def _ask_ends(draft: Draft, name: str, before: CodebookColumn | None) -> Line:
    ends = ("", "") if before is None else _ends_of(before)
    usual = [end or _UNKNOWN for end in ends] if any(ends) else []
    usual += [_WHOLE] if before is not None and before.kind == books.INTEGER else []

    def check(text: str) -> Line:
        # A comma alone may be that of 0,5: it is not taken for a blank.
        given = text.replace(", ", " ").replace(" to ", " ").split()
        kind = books.INTEGER if given[-1].casefold() == _WHOLE else books.NUMBER
        given = given[: -1 if kind == books.INTEGER else None]
        if len(given) != 2:
            raise ParameterError(
                "write two numbers with a blank between them, as 0 120, or - for one that is not "
                "known."
            )
        low, high = (None if end == _UNKNOWN else a_number(end) for end in given)
        return name, *_ends_of(CodebookColumn(name, kind, low, high)), kind, ""

    return draft.ask.ask(
        f"{short_name(name)} lies between (as 0 120, or 0 {_UNKNOWN} {_WHOLE}; {_UNKNOWN} where "
        "unknown)",
        check,
        default=" ".join(usual) or None,
        help=f"Two numbers with a blank between them. '0 {_UNKNOWN}' says: not negative. {_WHOLE} "
        "at the end: all values are whole numbers, as counts, and so are those of synthetic rows.",
    )


def _ask_fields(
    draft: Draft, used: Sequence[str], lines: Sequence[Line], before: Described
) -> Fields:
    """Ask which other fields are missing values, and where numbers have commas in them."""
    said = {name: SEPARATOR.join(each.missing_codes) for name, each in before.items()}
    usual = SEPARATOR.join(dict.fromkeys(c for each in before.values() for c in each.missing_codes))

    def check(text: str) -> str:
        codes = () if text.casefold() == NONE else tuple(_listed(text))
        for name, _, _, kind, values in lines:
            own, synonyms = read_values(values)
            if own or synonyms:
                CodebookColumn(name, kind, values=own, synonyms=synonyms, missing_codes=codes)
        return SEPARATOR.join(codes)

    codes = draft.ask.ask(
        f"Which other codes stand for missing values? (as -99{SEPARATOR}999, or {NONE})",
        check,
        default=usual or NONE,
        help="Codes from a questionnaire or a manual. They count in all columns; for some alone, "
        f"write them into {books.CODES} of the codebook's file. Records with a missing value are "
        "left out, each by itself.",
        note="NA, N/A, NaN, null, None, . and empty fields always do.",
    )
    kinds = {line[0]: line[3] for line in lines}
    numbers = [n for n in used if kinds.get(n) not in (books.BINARY, books.CATEGORY)]
    signs = {name: each.thousands for name, each in before.items() if each.thousands}
    with_commas: list[str] = []
    if numbers and draft.header.format == "csv":  # other files state what is a number
        with_commas = draft.ask.ask(
            "In which columns are numbers written as 1,234.56? (names, numbers, or none)",
            lambda text: columns_in(text, draft.names, numbers),
            default=_usual(numbers, list(signs)),
            help="With a comma between thousands a number is a missing value, unless its column is "
            f"named here. Other signs are said in {books.THOUSANDS} of the codebook's file: space "
            "or apostrophe.",
        )
    word = {sign: word for word, sign in SEPARATORS.items()}
    found = {
        name: (
            said[name] if name in said and codes == usual else codes,
            word[signs.get(name, ",")] if name in with_commas else "",
        )
        for name in used
    }
    return {name: each for name, each in found.items() if any(each)}


def ask_transforms(draft: Draft, used: Sequence[str]) -> None:
    """Ask which columns are to be mapped first."""
    before = draft.known("transform") or []
    before = [before] if isinstance(before, str) else before

    def check(text: str) -> list[str]:
        found = []
        for part in (part.strip() for part in text.split(",") if text.casefold() != NONE):
            column, equals, name = map(str.strip, part.rpartition("="))
            for each in columns_in(column, draft.names, used) if equals else [""]:
                if name != NONE:
                    read_transform(name, each or "all", 1.0, 2.0)  # 'fit' knows the bounds
                found.append(f"{each}={name}" if equals else name)
        return found

    made = draft.ask.ask(
        "Which columns are to be transformed? (as fee=log1p, age=rank; or none)",
        check,
        default=", ".join(before) or NONE,
        help="Skewed columns, as incomes, counts or concentrations, have correlations that few "
        "records decide. log1p and sqrt keep the sign; log:0.01 is the logarithm of at least 0.01. "
        "square:20 adds the square of the column less 20. "
        "winsorise caps a column at quantiles that are released, and rank takes its normal scores, "
        "with which skew and outliers do no harm: rank alone is for all columns. Results are of "
        "the transformed columns. Choose by what columns are, without looking at the records.",
    )
    draft.put("transform", made or None)


def _write(draft: Draft, lines: Sequence[Line], fields: Fields) -> None:
    """Write the codebook under a name that is free; what has to be filled in stops here."""
    draft.put("codebook", None)
    known = [line[0] for line in lines]
    lines = [*lines, *((n, "", "", books.NUMBER, "") for n in fields if n not in known)]
    if not lines:
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*books.HEADER, books.VALUES, books.CODES, books.THOUSANDS))
    for name, low, high, kind, values in lines:
        own = books.NUMBER if kind == LATER else kind
        table.writerow((name, low, high, own, values, *fields.get(name, ("", ""))))
    first, ours = Path(f"{draft.stem}-codebook.csv"), (text.getvalue(), draft.codebook)

    def filled_in(path: Path) -> bool:  # by somebody, whose work stays
        return path.exists() and path.read_bytes() not in [str(each).encode() for each in ours]

    path = free_path(first, ".csv", filled_in)
    draft.codebook = text.getvalue()
    path.write_text(draft.codebook, encoding="utf-8", newline="")
    show(draft.out, "")
    other = "" if path == first else f"; {first} was there before, and stays as it is"
    paragraph(
        draft.out,
        f"written: {path}, with what you said of the columns{other}. You may add to it by hand.",
    )
    draft.put("codebook", str(path))
    answers = [line[0] for line in lines if line[3] == books.CATEGORY and not line[4]]
    if answers:
        raise ToFillIn(f"the values of {listed(answers)}, separated by {SEPARATOR}")
    if any(line[3] == LATER for line in lines):
        raise ToFillIn("low and high where they are public")
