"""Prompts about what is publicly known of columns; the answers become a codebook."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hushcov._validation import listed
from hushcov.cli.output import paragraph, short_name, show
from hushcov.cli.prompts import NONE, a_number, columns_in
from hushcov.cli.settings import plain_number
from hushcov.cli.start_columns import Draft
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.tables.codebook import (
    BINARY,
    CATEGORY,
    HEADER,
    NUMBER,
    SEPARATOR,
    VALUES,
    CodebookColumn,
    read_codebook,
)
from hushcov.tables.files import TEXT, TRUTH

ASK, TEMPLATE, LATER = "ask", "template", "later"
_MOST_ASKED = 20  # columns whose bounds are asked for one by one
_ONES = ("1", "true")  # how yes is written where it is a number, or a truth value
_UNKNOWN = "-"
# A line of a codebook: name, low, high, kind, values.
Line = tuple[str, str, str, str, str]
Described = Mapping[str, CodebookColumn]  # what a codebook said before, by the name of a column
_ALL_BUT_ONE = (
    "List all answers but one. The one you leave out is what the others are compared with; with "
    "all of them, partial correlations cannot be computed."
)


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
        _write(draft, [(name, "", "", NUMBER, "") for name in used])
        raise ToFillIn("what is known of the columns")
    if answer == ASK:
        _write(draft, _ask_kinds(draft, used))
    else:
        draft.put("codebook", None if answer == NONE else answer)
    book = None if draft.known("codebook") is None else read_codebook(draft.known("codebook"))
    sizes = {} if book is None else {each.name: len(each.features) for each in book.columns}
    return sum(sizes.get(name, 1) for name in used)


def _read(text: str, used: Sequence[str], draft: Draft) -> str:
    """What is to be done, or the path of a codebook of these columns."""
    if text.casefold() == NONE:
        _check_text(draft, used, ())
    if text.casefold() in (ASK, TEMPLATE, NONE):
        return text.casefold()
    book = read_codebook(text)
    _check_text(draft, used, tuple(book.categories))
    book.check_names(draft.names)
    if not set(book.names) & set(used):
        raise ParameterError("it has none of the columns that are used.")
    return text


def _check_text(draft: Draft, used: Sequence[str], coded: Sequence[str]) -> None:
    """Refuse text that nothing is known of, where the files state that it is text."""
    text = [n for n in used if draft.header.kinds.get(n) == TEXT and n not in coded]
    if text:
        raise ParameterError(
            f"{listed(text)} must be categories: they are text by what the file states. Describe "
            "them so, or start again and leave them out."
        )


def _ask_kinds(draft: Draft, used: Sequence[str]) -> list[Line]:
    """Yes or no, categories and bounds, one kind after the other."""
    kinds, before = draft.header.kinds, _described(draft)
    said = [each.name for each in before.values() if _is_truth(each)]
    truths = draft.ask.ask(
        "Which columns are yes or no? (names, numbers, or none)",
        lambda text: columns_in(text, draft.names, used),
        default=_usual(used, said, [n for n in used if kinds.get(n) == TRUTH]),
        help="Columns with two answers, as smoker. It is worth telling: rare answers are found.",
    )
    lines = _ask_truths(draft, truths, before)
    rest = [name for name in used if name not in truths]
    said = [n for n, each in before.items() if each.kind == CATEGORY and n not in said]
    groups = draft.ask.ask(
        "Which columns are categories? (names, numbers, or none)",
        lambda text: _categories(text, draft, rest),
        default=_usual(rest, said, [n for n in rest if kinds.get(n) == TEXT]),
        help="Columns with a list of answers, as region, in words or in codes. Each answer becomes "
        "a column of its own, which is 1 where it was given.",
    )
    for name in groups:
        lines.append(_ask_category(draft, name, before.get(name), first=name == groups[0]))
    return lines + _ask_bounds(draft, [name for name in rest if name not in groups], before)


def _described(draft: Draft) -> Described:
    """What the codebook says so far; nothing if it is not filled in yet."""
    path = draft.known("codebook")
    try:
        return {} if path is None else {each.name: each for each in read_codebook(path).columns}
    except (HushcovError, OSError):
        return {}


def _is_truth(column: CodebookColumn) -> bool:
    return column.kind == BINARY or (column.kind == CATEGORY and len(column.values) == 1)


def _usual(among: Sequence[str], *found: Sequence[str]) -> str:
    """A default for a question after columns: the first of these that has any."""
    here = ([name for name in names if name in among] for names in found)
    return ", ".join(next(filter(None, here), [])) or NONE


def _categories(text: str, draft: Draft, rest: Sequence[str]) -> list[str]:
    found = columns_in(text, draft.names, rest)
    _check_text(draft, rest, found)
    return found


def _ask_truths(draft: Draft, names: Sequence[str], before: Described) -> list[Line]:
    if not names:
        return []
    word, stated = "1", {draft.header.kinds.get(name) for name in names}
    if stated & {None, TEXT}:
        word = draft.ask.ask(
            f"How is yes written in {_in_short(names)}?",
            str.strip,
            default=next((value for n in names if n in before for value in before[n].values), word),
            help="1 for 1 and 0, true for true and false; or the word itself, as yes or Y. Any "
            "other value then counts as no.",
        )
    if word.casefold() in _ONES and TEXT not in stated:
        return [(name, "", "", BINARY, "") for name in names]
    return [(name, "", "", CATEGORY, word) for name in names]


def _ask_category(draft: Draft, name: str, before: CodebookColumn | None, *, first: bool) -> Line:
    values = draft.ask.ask(
        f"Which answers has {short_name(name)}? (as north{SEPARATOR}south{SEPARATOR}west, or "
        f"{LATER})",
        lambda text: "" if text.casefold() == LATER else _values(name, text),
        default=LATER if before is None else SEPARATOR.join(before.values) or LATER,
        help=f"Answers with {SEPARATOR} between them, from a questionnaire or a manual. Do not "
        "look them up in the records: rare answers give people away. An answer that is not in the "
        f"list counts as the one you leave out. {LATER}: leave it to be filled in by hand.",
        note=_ALL_BUT_ONE if first else "",
    )
    return name, "", "", CATEGORY, values


def _values(name: str, text: str) -> str:
    column = CodebookColumn(name, CATEGORY, values=tuple(text.split(SEPARATOR)))
    return SEPARATOR.join(value.strip() for value in column.values)


def _ask_bounds(draft: Draft, names: Sequence[str], before: Described) -> list[Line]:
    if not names:
        return []
    known = draft.ask.ask(
        "Of which numbers is it known between which values they lie? (or none)",
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
    low, high = draft.ask.ask(
        f"{short_name(name)} lies between (as 0 120; {_UNKNOWN} where unknown)",
        lambda text: _bounds(name, text),
        default=" ".join(end or _UNKNOWN for end in ends) if any(ends) else None,
        help=f"Two numbers with a blank between them. '0 {_UNKNOWN}' says: not negative.",
    )
    return name, low, high, NUMBER, ""


def _bounds(name: str, text: str) -> tuple[str, str]:
    # A comma alone may be that of 0,5: it is not taken for a blank.
    ends = text.replace(", ", " ").replace(" to ", " ").split()
    if len(ends) != 2:
        raise ParameterError(
            "write two numbers with a blank between them, as 0 120, or - for one that is not known."
        )
    low, high = (None if end == _UNKNOWN else a_number(end) for end in ends)
    return _ends_of(CodebookColumn(name, NUMBER, low, high))


def _write(draft: Draft, lines: Sequence[Line]) -> None:
    """Write the codebook under a name that is free; what has to be filled in stops here."""
    draft.put("codebook", None)
    if not lines:
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*HEADER, VALUES))
    table.writerows((*line[:3], NUMBER if line[3] == LATER else line[3], line[4]) for line in lines)
    first = Path(f"{draft.stem}-codebook.csv")
    path = _free(first, {text.getvalue(), draft.codebook})
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    draft.codebook = text.getvalue()
    show(draft.out, "")
    other = "" if path == first else f"; {first} was there before, and stays as it is"
    paragraph(draft.out, f"written: {path}, with what you said of the columns{other}")
    draft.put("codebook", str(path))
    answers = [line[0] for line in lines if line[3] == CATEGORY and not line[4]]
    if answers:
        raise ToFillIn(f"the values of {listed(answers)}, separated by {SEPARATOR}")
    if any(line[3] == LATER for line in lines):
        raise ToFillIn("low and high where they are public")


def _free(path: Path, ours: Collection[str | None]) -> Path:
    """A name that no file has, or one of `ours`: what somebody filled in is not written over."""
    tried, i = path, 1
    while tried.exists() and tried.read_bytes() not in [str(each).encode() for each in ours]:
        i += 1
        tried = path.with_name(f"{path.stem}-{i}{path.suffix}")
    return tried


def _in_short(names: Sequence[str]) -> str:
    first = ", ".join(map(short_name, names[:3]))
    return first + f" and {len(names) - 3} more" * (len(names) > 3)
