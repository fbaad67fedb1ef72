"""Text files: options for reading them, places of their records, and names of their columns.

Records are found by the rules of CSV, whatever the size of blocks. A quotation mark at the start of
a field opens it, and line ends and delimiters after it are part of the field until another mark
closes it; two of them are one mark of the field. Other marks are plain characters. LF, CR or CRLF
ends a record, and a blank line is one. Records are those of Python's `csv` with `strict=True`, and
what that refuses is refused: otherwise one mark that somebody forgot would make many records one.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import IntArray
from hushcov._compiled import compiled
from hushcov._validation import listed, repeated, shown
from hushcov.exceptions import DataError, ParameterError, RecordsFileError, raise_alone

#: Bytes that are read and parsed at a time.
BLOCK_BYTES = 2**20
#: As many for each column, where these are many: a block takes some microseconds for each.
BLOCK_BYTES_OF_COLUMN = 2**8
#: A longer record is refused: it is held in memory, and such a length is most often a mistake.
MOST_RECORD_BYTES = 2**24
_MARK = b"\xef\xbb\xbf"  # may begin a file in UTF-8
# What a byte means; and where a scan is: at the start of a record, after a CR that ended one, at
# the start of another field, in it, in quotes, after a mark in quotes, or where marks are wrong.
_PLAIN_BYTE, _DELIMITER, _QUOTE, _CR, _LF = range(5)
_RECORD, _RETURN, _FIELD, _PLAIN, _QUOTED, _CLOSED, _WRONG = range(7)
_ALL = 2**62
_OPEN = (
    "must close each quotation mark that begins a field, before a delimiter or a line end, and "
    "double those inside of it, but does not: lines after such a mark would be taken for one "
    "field. Write the file with a program that knows the format (Python: csv, pandas)."
)


_SEPARATORS = (";", "\t", "|", ",")
_NO_NAMES = frozenset(
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


@dataclass(frozen=True)
class TextOptions:
    """Options for reading lines.

    `delimiter` separates fields; by default it is a tab in .tsv files and a comma in others.
    `header` says whether the first line has the names of the columns. `names` replace them.
    """

    delimiter: str | None = None
    header: bool = True
    names: tuple[str, ...] | None = None

    @classmethod
    def checked(cls, delimiter: object, header: object, names: Sequence[str] | None) -> TextOptions:
        """Return the options after checking all that can be checked without a file."""
        if delimiter is not None and (
            not isinstance(delimiter, str)
            or len(delimiter) != 1
            or not delimiter.isascii()
            or delimiter in '"\r\n'
        ):
            raise ParameterError(
                f"delimiter must be one character of ASCII, got {shown(delimiter)}: leave it out "
                "for commas, or for tabs in .tsv files."
            )
        if not isinstance(header, bool):
            raise ParameterError(
                f"header must be True or False, got {shown(header)}: say whether the first line "
                "has the names of the columns."
            )
        if names is None:
            return cls(delimiter, header)
        given = () if isinstance(names, str) else tuple(names)
        if not given or not all(isinstance(name, str) for name in given):
            raise ParameterError(
                "names must be a sequence of names, one for each column: pass a list of text."
            )
        if len(set(given)) < len(given) or not all(name.strip() for name in given):
            raise ParameterError(
                f"names must all differ and none may be blank, got {len(given)} with "
                f"{len(set(given))} different ones: choose others."
            )
        return cls(delimiter, header, given)

    def delimiter_of(self, path: str) -> str:
        """Return the character between the fields of this file."""
        tabs = path.endswith((".tsv", ".tsv.gz"))
        return self.delimiter or ("\t" if tabs else ",")


@dataclass(frozen=True)
class TextLayout:
    """Places of records: `start` bytes before the first, then blocks of (bytes, records)."""

    start: int
    blocks: tuple[tuple[int, int], ...]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(records for _, records in self.blocks)


def find_layout(path: str, delimiter: str, n_columns: int, *, header: bool) -> TextLayout:
    """Scan a file once; if it has a `header`, its first record is none."""
    import pyarrow

    size = max(BLOCK_BYTES, BLOCK_BYTES_OF_COLUMN * n_columns)
    longest = max(MOST_RECORD_BYTES, BLOCK_BYTES_OF_COLUMN * n_columns)
    classes = np.full(256, _PLAIN_BYTE, dtype=np.uint8)
    classes[ord(delimiter)] = _DELIMITER
    classes[ord('"')], classes[ord("\r")], classes[ord("\n")] = _QUOTE, _CR, _LF
    place, counted, waiting = np.zeros(4, dtype=np.int64), 0, 0
    blocks: list[tuple[int, int]] = []
    with pyarrow.input_stream(path) as file:
        data = file.read(len(_MARK))
        start, most = 0, 1 if header else _ALL
        if data == _MARK:
            start, data = len(_MARK), file.read(size)
        while data:
            end = _scan(np.frombuffer(data, np.uint8), classes, most, place)
            if end >= 0:
                blocks.append((waiting + end, int(place[1]) - counted))
                counted, waiting = int(place[1]), 0
            if end >= 0 and most == 1:  # the names; what is after them was not looked at
                most, data = _ALL, data[end:]
                place[2:] = 0
            else:
                waiting, data = waiting + len(data) - max(end, 0), b""
            if place[0] == _WRONG or max(place[2:]) > longest:
                break
            data = data or file.read(size)
    if max(place[2:]) > longest:
        raise DataError(
            f"{path} must have records of at most {longest:,} bytes, got a longer one: "
            "close quotation marks that are open, or leave a column of long texts out of the file."
        )
    if place[0] in (_QUOTED, _WRONG):
        raise DataError(f"{path} {_OPEN}")
    if waiting:
        blocks.append((waiting, 1))
    if header and blocks:
        start += blocks.pop(0)[0]
    if n_columns == 1 and blocks and place[0] not in (_RECORD, _RETURN):
        raise DataError(
            f"{path} must end with a line end, as a last record that is null could not be told "
            "from none in a file of one column: add an empty line at its end."
        )
    return TextLayout(start, tuple(blocks))


@compiled
def _scan(  # noqa: PLR0912
    text: NDArray[np.uint8], classes: NDArray[np.uint8], most: int, place: IntArray
) -> int:
    """Follow at most so many records; return where the last one ends that has ended, or -1.

    `place` is the state, the number of records that ended, and the bytes of the longest record and
    of the one that has not ended. After a CR a record ends when it is known whether an LF follows.
    """
    state, records, longest = place[0], place[1], place[2]
    begin, end = -place[3], -1
    for i in range(len(text)):
        kind = classes[text[i]]
        if kind == _PLAIN_BYTE and state in (_PLAIN, _QUOTED):
            continue  # most bytes are such
        if state == _RETURN:
            records, state = records + 1, _RECORD
            end = i + 1 if kind == _LF else i
            longest, begin = max(longest, end - begin), end
            if records == most:
                break
            if kind == _LF:
                continue
        if state == _QUOTED:
            if kind == _QUOTE:
                state = _CLOSED
        elif kind == _QUOTE:
            state = _PLAIN if state == _PLAIN else _QUOTED
        elif kind == _DELIMITER:
            state = _FIELD
        elif kind == _CR:
            state = _RETURN
        elif kind == _LF:
            records, state, end = records + 1, _RECORD, i + 1
            longest, begin = max(longest, end - begin), end
            if records == most:
                break
        elif state == _CLOSED:
            state = _WRONG
            break
        else:
            state = _PLAIN
    place[0], place[1], place[2], place[3] = state, records, longest, len(text) - begin
    return end


def first_fields(path: str, delimiter: str, *, ahead: bool = True) -> tuple[str, ...]:
    """Return the fields of the first record; none if the file is empty.

    Unless it may read `ahead`, nothing after the record is read.
    """
    try:
        with (
            gzip.open(path)  # unpacked as far as asked
            if path.endswith(".gz")
            else open(path, "rb", buffering=-1 if ahead else 0)
        ) as file:
            found = next(csv.reader(_lines(file), delimiter=delimiter, strict=True), None)
    except UnicodeError:
        raise_alone(DataError(f"{path} must be in UTF-8, but its first line is not: save it so."))
    except csv.Error:
        raise_alone(
            DataError(
                f"{path} must have fields of at most {csv.field_size_limit():,} characters in its "
                "first line, with quotation marks that are closed: check how it was written."
            )
        )
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is damaged"
        raise_alone(RecordsFileError(f"{path} cannot be read: {why}. Check the path."))
    return () if found is None else tuple(found) or ("",)


def _lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[str]:
    """Yield lines with their ends; the LF of a CRLF is a line, of which only quotes make use."""
    encoding, found = "utf-8-sig", bytearray()
    while sign := file.read(1):
        found += sign
        if sign in b"\r\n":
            yield found.decode(encoding)
            encoding, found = "utf-8", bytearray()
        elif len(found) > MOST_RECORD_BYTES:
            raise csv.Error
    if found:
        yield found.decode(encoding)


def read_blocks(path: str, layout: TextLayout) -> Iterator[Any]:
    """Yield the bytes of each block in turn; fewer where the file became shorter.

    Each begins with a mark that says that it is in UTF-8, as a parser takes the first one away.
    """
    import pyarrow

    with pyarrow.input_stream(path) as file:
        file.read(layout.start)
        for size, _ in layout.blocks:
            yield _MARK + file.read(size)


def known_names(
    paths: Sequence[str], text: TextOptions, asked: Sequence[object], *, ahead: bool = True
) -> TextOptions:
    """Check the first lines of text files, and set the names where these lines do not have them.

    Blanks around names are left out, unless a name that is `asked` for has them.
    """
    found = {path: first_fields(path, text.delimiter_of(path), ahead=ahead) for path in paths}
    named = text.names is not None and not text.header  # then a file may be empty
    for path, fields in found.items():
        if not fields and not named:
            raise DataError(
                f"{path} must hold at least one record, got none: the file is empty. Check how it "
                "was written."
            )
    if text.header and text.names is None:
        for path, names in found.items():
            check_header(path, names, text)
            check_different(path, names)
        exact = any(isinstance(name, str) and name != name.strip() for name in asked)
        return text if exact else replace(text, names=trimmed(list(found.values())))
    return given_names({path: fields for path, fields in found.items() if fields}, text)


def given_names(found: dict[str, tuple[str, ...]], text: TextOptions) -> TextOptions:
    """Set the names that were given, or names by position; refuse files of other widths."""
    names = text.names
    for path, fields in found.items():
        names = names or tuple(f"column_{i}" for i in range(1, len(fields) + 1))
        if len(fields) != len(names):
            raise DataError(
                f"{path} must have a column for each of the {len(names)} names, got "
                f"{len(fields)}: give one name for each column, or check the delimiter."
            )
    return replace(text, names=names)


def trimmed(found: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return the names without blanks around them, if that can be said for all files at once.

    None if there are no blanks, files differ, or two names would be one.
    """
    first = tuple(found[0])
    plain = tuple(name.strip() for name in first)
    same = all(tuple(names) == first for names in found)
    return plain if plain != first and same and len({*plain}) == len(plain) else None


def check_header(path: str, names: Sequence[str], options: TextOptions) -> None:
    """Refuse a first line that may be a record, or that another delimiter would split."""
    delimiter = options.delimiter_of(path)
    other = [sign for sign in _SEPARATORS if sign != delimiter and sign in names[0]]
    if len(names) == 1 and other:
        written = '"tab"' if other[0] == "\t" else f'"{other[0]}"'
        raise DataError(
            f"{path} must have fields separated by {delimiter!r}, but its one column has "
            f"{other[0]!r} in its name: use delimiter={other[0]!r} (delimiter = "
            f"{written} in a settings file)."
        )
    if any(map(reads_as_value, names)):
        raise DataError(
            f"{path} must begin with the names of its columns, but some in its first line read as "
            "numbers, dates or nulls, so that it may be a record, which would be published. If it "
            "is one, use header=False (no-header = true in a settings file). If not, give other "
            "names by names=[...] (names = [...] in a settings file), or write the file without an "
            "index (pandas: index=False)."
        )


def check_different(path: str, names: Sequence[str]) -> None:
    """Refuse a name that several columns have."""
    if twice := repeated(names):
        raise DataError(f"{path} must have {listed(twice)} once, got more: rename columns of it.")


def reads_as_value(name: str) -> bool:
    """Return whether a name could be a value: a number, a date, a time, true, false or a null."""
    text = name.strip().casefold()
    if text in _NO_NAMES or _WRITTEN_DATE.fullmatch(text):
        return True
    for read in (float, partial(int, base=0)):
        with suppress(ValueError):
            read(text)
            return True
    text = _OF_TIME.sub(" ", text)
    # Digits and signs alone: 1,234.5, 12 %, 2024-01-31, 12:30, 1/2.
    return any(sign.isnumeric() for sign in text) and not any(sign.isalpha() for sign in text)
