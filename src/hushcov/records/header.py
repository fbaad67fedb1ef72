"""Whether the first line of a text file may be a record: names that read as values.

A name is published with the release. So the rules err on the side of taking it for a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOTHING = frozenset(
    [
        *("", "na", "n/a", "#n/a", "#na", "<na>", "null", "none", "nil", "nan", "nat", "\\n"),
        *("-", "--", "?", ".", "true", "false"),
    ]
)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_APART = r"[\s,/.-]*"
# 31 Jan 2024, Jan 31 2024, 2024-Jan-31; what follows may be a time.
_WRITTEN_DATE = re.compile(
    rf"([a-z]+{_APART})?(\d+(st|nd|rd|th)?{_APART}{_MONTH}{_APART}\d+"
    rf"|{_MONTH}{_APART}\d+(st|nd|rd|th)?{_APART}\d{{4}})\b.*"
)
# The letters that times may have: 2024-01-31T12:00:00Z, 12:30 pm.
_OF_TIME = re.compile(r"(?<=\d)(t(?=\d)|\s*(z|utc|gmt|am|pm|[ap]\.m\.)$)")


def reads_as_value(name: str) -> bool:
    """Whether a name could be a number, a date, a time, a truth value, or stand for nothing."""
    text = name.strip().casefold()
    if text in _NOTHING or _WRITTEN_DATE.fullmatch(text):
        return True
    for read in (float, lambda number: int(number, 0)):
        try:
            read(text)
            return True
        except ValueError:
            continue
    text = _OF_TIME.sub(" ", text)
    # Digits and signs alone: 1,234.5, 12 %, 2024-01-31, 12:30, 1/2.
    return any(sign.isnumeric() for sign in text) and not any(sign.isalpha() for sign in text)


def may_be_record(names: Sequence[str]) -> bool:
    """Whether a line of names may be a record instead: one that reads as a value is enough."""
    return any(map(reads_as_value, names))
