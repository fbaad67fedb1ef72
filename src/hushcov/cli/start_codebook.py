"""Questions about what is publicly known of columns; the answers become a codebook."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from hushcov._validation import listed
from hushcov.cli.output import paragraph, short_name, show
from hushcov.cli.questions import NONE, a_number, columns_in
from hushcov.cli.settings import plain_number
from hushcov.cli.start_columns import Draft
from hushcov.exceptions import ParameterError
from hushcov.records import CodebookColumn, read_codebook
from hushcov.records.codebook import BINARY, CATEGORY, HEADER, NUMBER, SEPARATOR, VALUES
from hushcov.records.headers import TEXT, TRUTH

ASK, TEMPLATE, LATER = "ask", "template", "later"
_MOST_ASKED = 20  # columns whose bounds are asked for one by one
_ONES = ("1", "true")  # how yes is written where it is a number, or a truth value
_UNKNOWN = "-"
# A line of a codebook: name, low, high, kind, values.
Line = tuple[str, str, str, str, str]


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
    kinds = draft.header.kinds
    truths = draft.ask.ask(
        "Which columns are yes or no? (names, numbers, or none)",
        lambda text: columns_in(text, draft.names, used),
        default=", ".join(n for n in used if kinds.get(n) == TRUTH) or NONE,
        help="Columns with two answers, as smoker. It is worth telling: rare answers are found.",
    )
    lines = _ask_truths(draft, truths)
    rest = [name for name in used if name not in truths]
    groups = draft.ask.ask(
        "Which columns are categories? (names, numbers, or none)",
        lambda text: _categories(text, draft, rest),
        default=", ".join(n for n in rest if kinds.get(n) == TEXT) or NONE,
        help="Columns with a list of answers, as region, in words or in codes. Each answer becomes "
        "a column of its own, which is 1 where it was given.",
    )
    lines += [_ask_category(draft, name) for name in groups]
    return lines + _ask_bounds(draft, [name for name in rest if name not in groups])


def _categories(text: str, draft: Draft, rest: Sequence[str]) -> list[str]:
    found = columns_in(text, draft.names, rest)
    _check_text(draft, rest, found)
    return found


def _ask_truths(draft: Draft, names: Sequence[str]) -> list[Line]:
    if not names:
        return []
    word, stated = "1", {draft.header.kinds.get(name) for name in names}
    if stated & {None, TEXT}:
        word = draft.ask.ask(
            f"How is yes written in {_in_short(names)}?",
            str.strip,
            default=word,
            help="1 for 1 and 0, true for true and false; or the word itself, as yes or Y. Any "
            "other value then counts as no.",
        )
    if word.casefold() in _ONES and TEXT not in stated:
        return [(name, "", "", BINARY, "") for name in names]
    return [(name, "", "", CATEGORY, word) for name in names]


def _ask_category(draft: Draft, name: str) -> Line:
    values = draft.ask.ask(
        f"Which answers has {short_name(name)}? (as north{SEPARATOR}south{SEPARATOR}west, or "
        f"{LATER})",
        lambda text: "" if text.casefold() == LATER else _values(name, text),
        default=LATER,
        help=f"All answers that there can be, with {SEPARATOR} between them, from a questionnaire "
        "or a manual. Do not look them up in the records: rare answers give people away. An answer "
        f"that is not in the list is none of them; leave one out if the matrix is to be inverted. "
        f"{LATER}: leave it to be filled in by hand.",
    )
    return name, "", "", CATEGORY, values


def _values(name: str, text: str) -> str:
    column = CodebookColumn(name, CATEGORY, values=tuple(text.split(SEPARATOR)))
    return SEPARATOR.join(value.strip() for value in column.values)


def _ask_bounds(draft: Draft, names: Sequence[str]) -> list[Line]:
    if not names:
        return []
    known = draft.ask.ask(
        "Of which numbers is it known between which values they lie? (or none)",
        lambda text: columns_in(text, draft.names, names),
        default=NONE,
        help="As age from 0 to 120, or a score from 1 to 5. It need not be known: means and scales "
        "are found from a part of the budget. Bounds help with rare events and absurd values, "
        "which are moved to them. They must be public, and not looked up in the records.",
    )
    if len(known) > _MOST_ASKED:
        paragraph(draft.out, "These are too many to ask for: they are left to be filled in.")
        return [(name, "", "", LATER, "") for name in known]
    return [_ask_ends(draft, name) for name in known]


def _ask_ends(draft: Draft, name: str) -> Line:
    low, high = draft.ask.ask(
        f"{short_name(name)} lies between (as 0 120; {_UNKNOWN} where unknown)",
        lambda text: _bounds(name, text),
        default=None,
        help=f"Two numbers with a blank between them. '0 {_UNKNOWN}' says: not negative.",
    )
    return name, low, high, NUMBER, ""


def _bounds(name: str, text: str) -> tuple[str, str]:
    ends = text.replace(",", " ").replace(" to ", " ").split()
    if len(ends) != 2:
        raise ParameterError("write two numbers, as 0 120, or - for one that is not known.")
    low, high = (None if end == _UNKNOWN else a_number(end) for end in ends)
    CodebookColumn(name, NUMBER, low, high)
    return "" if low is None else plain_number(low), "" if high is None else plain_number(high)


def _write(draft: Draft, lines: Sequence[Line]) -> None:
    """Write the codebook under a name that is free; what has to be filled in stops here."""
    draft.put("codebook", None)
    if not lines:
        return
    path = _free(Path(f"{draft.stem}-codebook.csv"))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow((*HEADER, VALUES))
        table.writerows(
            (*line[:3], NUMBER if line[3] == LATER else line[3], line[4]) for line in lines
        )
    show(draft.out, "")
    paragraph(draft.out, f"written: {path}, with what you said of the columns")
    draft.put("codebook", str(path))
    answers = [line[0] for line in lines if line[3] == CATEGORY and not line[4]]
    if answers:
        raise ToFillIn(f"the values of {listed(answers)}, separated by {SEPARATOR}")
    if any(line[3] == LATER for line in lines):
        raise ToFillIn("low and high where they are public")


def _free(path: Path) -> Path:
    """A name that no file has: what somebody filled in is not written over."""
    tried, i = path, 1
    while tried.exists():
        i += 1
        tried = path.with_name(f"{path.stem}-{i}{path.suffix}")
    return tried


def _in_short(names: Sequence[str]) -> str:
    first = ", ".join(map(short_name, names[:3]))
    return first + f" and {len(names) - 3} more" * (len(names) > 3)
