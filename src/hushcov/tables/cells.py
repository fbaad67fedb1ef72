"""Rules and public lists that make a number of each field by itself.

A field is a number, missing (NaN), or not a number (infinite). Which of them it is depends on the
field and on public lists alone, so that one record never changes how another one is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray, FloatArray
from hushcov.exceptions import INTERRUPTS

#: Fields that are missing values in every column, unless a codebook lists them as values. Case and
#: blanks around a field do not matter, here and in all lists.
MISSING_CODES = ("", "NA", "N/A", "n/a", "NaN", "null", "None", ".")
#: Yes and no in binary columns.
YES, NO = ("yes", "y", "true", "t", "1"), ("no", "n", "false", "f", "0")
#: Truth values, which any numeric column may have.
TRUTHS = {"true": 1.0, "false": 0.0}
#: Rows of a table of objects that say whether a column is text.
FIRST_ROWS = 1000
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
# Types whose values are read alike if they are equal.
_EQUAL_MEANS_SAME_TEXT = frozenset([str, int, bool, type(None)])
_IN_NO_LIST = object()
_NUMERAL = re.compile(_NUMBER, re.ASCII)
# What pyarrow reads as NaN: where it reads a whole block of a text file, nobody else sees it.
_NAN = re.compile(r"[+-]?nan(\(\w*\))?", re.ASCII)


def folded(text: str) -> str:
    """Return a text as it is compared: without blanks around it, in one case."""
    return text.strip().casefold()


def is_missing(value: object) -> bool:
    """Return whether this is None, NaN, or a missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def number_in(text: str, thousands: str = "") -> float | None:
    """Return the number that a folded text writes; None where it writes none."""
    if thousands and thousands in text:
        groups = rf"[+-]?\d{{1,3}}({re.escape(thousands)}\d{{3}})+(\.\d*)?"
        if not re.fullmatch(groups, text, re.ASCII):
            return None
        text = text.replace(thousands, "")
    return float(text) if _NUMERAL.fullmatch(text) else None


@dataclass(frozen=True)
class FieldReader:
    """Rules by which the fields of one column become numbers.

    Parameters
    ----------
    words : mapping
        Numbers that folded texts stand for; NaN for codes of missing values.
    means : mapping
        The same for fields that are numbers, as NaN for -99.
    only : tuple of float, optional
        The only numbers there are; others are not read as numbers.
    thousands : str
        What separates thousands, if anything.
    """

    words: Mapping[str, float] = field(default_factory=lambda: _words(TRUTHS))
    means: Mapping[float, float] = field(default_factory=dict)
    only: tuple[float, ...] | None = None
    thousands: str = ""

    @classmethod
    def of(
        cls, words: Mapping[str, float] = TRUTHS, codes: Iterable[str] = (), **known: Any
    ) -> FieldReader:
        """Return the reading with these words, and codes of missing values beside the usual."""
        found = _words(words) | dict.fromkeys(map(folded, codes), math.nan)
        numerals = {text: number for text in found if (number := number_in(text)) is not None}
        means = {number: found.pop(text) for text, number in numerals.items()}
        return cls(found, means, **known)

    def value(self, value: object) -> float:
        """Return the number of a value of any type: NaN if missing, infinite if it is none."""
        if isinstance(value, str):
            text = folded(value)
            if text in self.words:
                return self.words[text]
            number = number_in(text, self.thousands)
            if number is None:
                return math.nan if _NAN.fullmatch(text) else math.inf
            return self._scalar(number)
        with suppress(Exception):  # what an object does when it is asked is not known
            if is_missing(value):
                return math.nan
            if isinstance(value, Real | Decimal | np.bool_):
                return self._scalar(float(value))
        return math.inf

    def _scalar(self, number: float) -> float:
        known = self.only is None or number in self.only or math.isnan(number)
        return self.means.get(number, number if known else math.inf)

    def numbers(self, values: FloatArray) -> FloatArray:
        """Return numbers as they are read: codes of missing values are NaN."""
        found = values
        if self.only is not None:
            found = np.where(np.isin(values, self.only) | np.isnan(values), values, np.inf)
        for number, meant in self.means.items():
            found = np.where(values == number, meant, found)
        return found

    def text(self, column: Any) -> FloatArray:
        """Return the numbers of an Arrow array of text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        plain = pc.ascii_trim_whitespace(column.cast(pa.string()))
        bare = pc.replace_substring_regex(plain, "^[+]", "")
        number = pc.match_substring_regex(plain, f"^{_NUMBER}$", ignore_case=True)
        found = pc.cast(pc.if_else(number, bare, None), pa.float64())
        values = self.numbers(np.array(found.to_numpy(zero_copy_only=False), dtype=np.float64))
        rest = np.flatnonzero(~np.asarray(pc.fill_null(number, True)))
        if len(rest):  # few in most columns, or few different ones
            values[rest] = remembered(self.value, values_of(column.take(pa.array(rest))))
        return values


def _words(known: Mapping[str, float]) -> dict[str, float]:
    return dict.fromkeys(map(folded, MISSING_CODES), math.nan) | dict(known)


#: Of columns that no codebook describes.
PLAIN = FieldReader()


def remembered(rule: Callable[[object], float], values: Iterable[object]) -> FloatArray:
    """Return what a rule gives for each of many values; it is asked once for equal ones."""
    known: dict[object, float] = {}
    found = []
    for value in values:
        # Others may be equal and have another text, as Decimal("1") and Decimal("1.0"), or another
        # sign, as 0.0 and -0.0: the number of one record would decide on that of another.
        if type(value) not in _EQUAL_MEANS_SAME_TEXT:
            found.append(rule(value))
            continue
        key = type(value), value
        if key not in known:
            known[key] = rule(value)
        found.append(known[key])
    return np.array(found, dtype=np.float64)


def values_of(column: Any) -> list[Any]:
    """Return values as objects of Python; one that cannot be made, as a far date, is in no list.

    Halves are taken by position until such a value is alone, so that it changes no other.
    """
    try:
        return list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
    except INTERRUPTS:
        raise
    except BaseException:
        if len(column) < 2:
            return [_IN_NO_LIST] * len(column)
    half, rows = len(column) // 2, getattr(column, "iloc", column)  # not by pandas' labels
    return values_of(rows[:half]) + values_of(rows[half:])


def not_numbers(found: FloatArray, values: Any) -> BoolArray:
    """Return which values were read as no numbers and are none, as infinite ones are."""
    known = np.frompyfunc(lambda value: isinstance(value, Real | Decimal | np.bool_), 1, 1)
    wrong: BoolArray = np.isinf(found) & ~known(values).astype(bool)
    return wrong


def is_text(found: FloatArray, values: Any = None) -> bool:
    """Return whether most of the values that are not missing are not numbers.

    It is asked of the first rows alone, before a charge, to refuse a column that is text. A few
    values decide nothing.
    """
    wrong = np.isinf(found) if values is None else not_numbers(found, values)
    return 2 * int(np.count_nonzero(wrong)) > int(np.count_nonzero(~np.isnan(found)))


def vocabulary(yes: Sequence[str] = YES, no: Sequence[str] = NO) -> dict[str, float]:
    """Return words of yes and no with their numbers."""
    return dict.fromkeys(map(folded, no), 0.0) | dict.fromkeys(map(folded, yes), 1.0)
