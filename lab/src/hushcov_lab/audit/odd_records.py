"""Tables of recognisable values, and every kind of odd record that may replace one of theirs."""

import datetime
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

#: Every number made here begins with these digits; texts and dates hold these words.
DIGITS = "7314159"
WORDS = ("secret", "7f3a", "2073-11")
TEXT = "SECRET-7f3a"
#: What pyarrow and polars, R and spreadsheets write where a value is missing.
NULL_WORDS = ("", '""', "NA", "N/A", "null", "NULL", "NaN", "nan", "#N/A")

NUMBERS = ("ordinary", "integer", "bool", "denormal", "huge", "NaN", "infinity")
OBJECTS = (
    *("null", "all null", "text", "empty text", "number as text", "date", "complex", "decimal"),
    *("bytes", "beyond int64", "beyond float64"),
)
SHAPES = ("short", "long")
LINES = (
    *("blank line", "null word", "spaces", "quote", "line break", "not UTF-8", "NUL"),
    *("long field", "UTF-8 mark"),
)
NOTES = ("long note", "open note", "note not UTF-8")  # beside the features
#: What only columns of text or objects can hold, as categories of a codebook.
CELLS = ("undecodable", "list", "no text")
KINDS = (*NUMBERS, *OBJECTS, *SHAPES, *LINES, *NOTES)


class NoText:
    """An object whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError(TEXT)

    __repr__ = __str__


@dataclass(frozen=True)
class Line:
    """A record that only text can hold, as it stands in a file; `note` is what is beside it."""

    text: bytes
    note: bytes = b"x"


@dataclass(frozen=True)
class Table:
    """Rows of cells, which mean rows of numbers: NaN where one is missing.

    `values` is None if the rows mean no numbers at all, and must be refused.
    """

    rows: list[Any]
    values: np.ndarray | None
    names: list[str] = field(default_factory=list)

    def column(self, i: int) -> list[Any]:
        """Return the cells of a column."""
        return [row[i] for row in self.rows]


def quoted(text: str) -> bool:
    """Whether a text holds a value of a record, in whatever way it is written."""
    digits = re.sub(r"(?<=\d)[.,_' ](?=\d)", "", text)
    return DIGITS in digits or any(word in text.lower() for word in WORDS)


def number(rng: random.Random) -> float:
    """Return a number that begins with the digits by which it is recognised."""
    return float(f"{rng.choice('+-')}{DIGITS}{rng.randrange(1000):03}e{rng.randrange(-9, -3)}")


def table(rng: random.Random, n_rows: int, n_columns: int, *, how: int, gaps: bool) -> Table:
    """Usual records, some of which miss a value if they may; `how` decides on all but values."""
    chosen = random.Random(how)
    make = (lambda r: int(number(r) * 1e9)) if chosen.random() < 0.2 else number
    rows: list[list[Any]] = [[make(rng) for _ in range(n_columns)] for _ in range(n_rows)]
    if gaps:
        for row in chosen.sample(rows, 2 + n_rows // 8):
            row[chosen.randrange(n_columns)] = None
    values = [[np.nan if cell is None else float(cell) for cell in row] for row in rows]
    return Table(rows, np.array(values), list("abcdef")[:n_columns])


def replaced(
    before: Table, position: int, kind: str, how: int, rng: random.Random, *, in_text: bool
) -> Table:
    """The table with one record replaced by an odd one; `how` decides on all but its values."""
    assert before.values is not None
    row = [number(rng) for _ in before.names]
    new, meant = odd_record(kind, random.Random(how), rng, row)
    if in_text and meant is None:
        meant = meant_by_text(new)
    rows, values = [*before.rows], before.values.copy()
    rows[position] = new
    if meant is not None:
        values[position] = meant
    return Table(rows, None if meant is None else values, before.names)


def odd_record(
    kind: str, how: random.Random, rng: random.Random, row: list[Any]
) -> tuple[Any, Any]:
    """An odd record, and the numbers it means; None if it means none."""
    if kind in LINES:
        text, meant = _line(kind, how, row)
        return Line(text), meant
    if kind in NOTES:
        numbers = ",".join(map(str, row)).encode()
        return Line(numbers, _note(kind, how, numbers)), None if kind == "open note" else row
    if kind == "short":
        return row[:-1], None
    if kind == "long":
        return [*row, number(rng)], None
    if kind == "all null":
        return [None] * len(row), [np.nan] * len(row)
    cell, meant = _CELLS[kind](rng, how)
    column = how.randrange(len(row))
    means = [*row[:column], meant, *row[column + 1 :]]
    return [*row[:column], cell, *row[column + 1 :]], means


def meant_by_text(row: Any) -> Any:
    """A line without fields is a record of missing values, in a file of one column."""
    return [np.nan] if row == [] else None


def _line(kind: str, how: random.Random, row: list[float]) -> tuple[bytes, Any]:
    """A line of text in place of a record; fields are separated by commas."""
    first, *others = [str(value).encode() for value in row]
    rest = b"".join(b"," + value for value in others)
    lines = {
        "blank line": b"",
        "null word": how.choice(NULL_WORDS[1:]).encode() + rest,
        "spaces": b" " + first + b"\t" + rest,
        "quote": how.choice((b'"' + first + rest, *([first + b',"' + rest[1:]] if rest else []))),
        "line break": f'"{TEXT}\n'.encode() + first + b'"' + rest,
        "not UTF-8": b"\xff\xfe" + TEXT.encode() + rest,
        "NUL": b"\0" + first + rest,
        "long field": b'"' + b" " * how.randrange(2_000) + first + b'"' + rest,
        "UTF-8 mark": b"\xef\xbb\xbf" + first + rest,
    }
    missing = [np.nan] * len(row)
    first_missing = [*missing[:1], *row[1:]]  # as of fields that are no numbers
    meant: dict[str, list[float]] = {"blank line": missing, "spaces": row, "long field": row}
    for each in ("null word", "line break", "not UTF-8", "NUL", "UTF-8 mark"):
        meant[each] = first_missing
    return lines[kind], meant.get(kind)


def _note(kind: str, how: random.Random, row: bytes) -> bytes:
    """A field with lines that look like records, of the length of many blocks."""
    if kind == "note not UTF-8":
        return b"\xff\0" + TEXT.encode()
    pieces = (b"\n", b"\r\n", b"\r", b'""', b",", TEXT.encode() + b"," + row, b"true")
    text = b'"' + b"".join(how.choices(pieces, k=how.randrange(100)))
    return text + b'"' if kind == "long note" else text


_Cell = Callable[[random.Random, random.Random], tuple[Any, float]]


def _same(value: Any) -> tuple[Any, float]:
    return value, float(value)


_CELLS: dict[str, _Cell] = {
    "ordinary": lambda rng, _: _same(number(rng)),
    "integer": lambda rng, _: _same(int(number(rng) * 1e3)),
    "bool": lambda _, how: _same(how.random() < 0.5),
    "denormal": lambda rng, _: _same(float(f"{DIGITS}{rng.randrange(10)}e-325")),
    "huge": lambda rng, how: _same(float(f"{how.choice('+-')}{DIGITS}{rng.randrange(100)}e299")),
    "NaN": lambda *_: (np.nan, np.nan),
    "infinity": lambda _, how: (how.choice((np.inf, -np.inf)), np.nan),
    "null": lambda *_: (None, np.nan),
    "text": lambda *_: (TEXT, np.nan),
    "empty text": lambda *_: ("", np.nan),
    "number as text": lambda rng, _: (text := str(number(rng)), float(text)),
    "date": lambda rng, _: (datetime.date(2073, 11, rng.randrange(1, 31)), np.nan),
    "complex": lambda rng, _: (complex(number(rng), number(rng)), np.nan),
    "decimal": lambda rng, _: _same(Decimal(str(number(rng)))),
    "bytes": lambda *_: (TEXT.encode(), np.nan),
    "undecodable": lambda *_: (b"\xff" + TEXT.encode(), np.nan),
    "list": lambda *_: ([TEXT], np.nan),
    "no text": lambda *_: (NoText(), np.nan),
    "beyond int64": lambda rng, _: _same(int(f"{DIGITS}{rng.randrange(10)}" + "0" * 14)),
    "beyond float64": lambda rng, _: (int(f"{DIGITS}{rng.randrange(10)}" + "0" * 400), np.nan),
}
