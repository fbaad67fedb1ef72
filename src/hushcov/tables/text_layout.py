"""Where the records of a text file are, by the rules of CSV and whatever the size of blocks.

A quotation mark at the start of a field opens it, and line ends and delimiters after it are part of
the field until another mark closes it; two of them are one mark of the field. Other marks are plain
characters. LF, CR or CRLF ends a record, and a blank line is one. Records are those of Python's
`csv` with `strict=True`, and what that refuses is refused: otherwise one mark that somebody forgot
would make many records one.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import IntArray
from hushcov._compiled import compiled
from hushcov.exceptions import DataError, RecordsFileError, raise_alone

#: Bytes that are read and parsed at a time.
BLOCK_BYTES = 2**20
#: As many for each column, where these are many: a block takes some microseconds for each.
BLOCK_BYTES_OF_COLUMN = 2**8
#: A longer record is refused: it is held in memory, and such a length is most often a mistake.
MOST_RECORD_BYTES = 2**24
_MARK = b"\xef\xbb\xbf"  # may begin a file in UTF-8
# What a byte means; and where a scan is: at the start of a record, after a CR that ended one, at
# the start of another field, in it, in quotes, after a mark in quotes, or where marks are wrong.
_PLAIN_BYTE, _DELIMITER, _QUOTE, _CR, _LF, _TRUTH = range(6)
_RECORD, _RETURN, _FIELD, _PLAIN, _QUOTED, _CLOSED, _WRONG = range(7)
_ALL = 2**62
_OPEN = (
    "must close each quotation mark that begins a field, before a delimiter or a line end, and "
    "double those inside of it, but does not: lines after such a mark would be taken for one "
    "field. Write the file with a program that knows the format (Python: csv, pandas)."
)


@dataclass(frozen=True)
class TextLayout:
    """Where records are: `start` bytes before the first, then blocks of (bytes, records).

    Columns at the positions `truths` have words such as true, if they are readable at all.
    """

    start: int
    blocks: tuple[tuple[int, int], ...]
    truths: tuple[int, ...]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(records for _, records in self.blocks)


def find_layout(path: str, delimiter: str, n_columns: int, *, header: bool) -> TextLayout:
    """Scan a file once; if it has a `header`, its first record is none."""
    import pyarrow

    size = max(BLOCK_BYTES, BLOCK_BYTES_OF_COLUMN * n_columns)
    longest = max(MOST_RECORD_BYTES, BLOCK_BYTES_OF_COLUMN * n_columns)
    classes, truths = _classes(delimiter), np.zeros(n_columns, dtype=np.bool_)
    place, counted, waiting = np.zeros(6, dtype=np.int64), 0, 0
    blocks: list[tuple[int, int]] = []
    with pyarrow.input_stream(path) as file:
        data = file.read(len(_MARK))
        start, most = 0, 1 if header else _ALL
        if data == _MARK:
            start, data = len(_MARK), file.read(size)
        while data:
            end = _scan(np.frombuffer(data, np.uint8), classes, most, place, truths)
            if end >= 0:
                blocks.append((waiting + end, int(place[1]) - counted))
                counted, waiting = int(place[1]), 0
            if end >= 0 and most == 1:  # the names; what is after them was not looked at
                most, data = _ALL, data[end:]
                place[3:], truths[:] = 0, False
            else:
                waiting, data = waiting + len(data) - max(end, 0), b""
            if place[0] == _WRONG or max(place[4:]) > longest:
                break
            data = data or file.read(size)
    if max(place[4:]) > longest:
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
    return TextLayout(start, tuple(blocks), tuple(np.flatnonzero(truths).tolist()))


def _classes(delimiter: str) -> NDArray[np.uint8]:
    """What each byte means."""
    found = np.full(256, _PLAIN_BYTE, dtype=np.uint8)
    found[list(b"tTfF")] = _TRUTH
    found[ord(delimiter)] = _DELIMITER
    found[ord('"')], found[ord("\r")], found[ord("\n")] = _QUOTE, _CR, _LF
    return found


@compiled
def _scan(  # noqa: PLR0912
    text: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    most: int,
    place: IntArray,
    truths: NDArray[np.bool_],
) -> int:
    """Follow at most so many records; return where the last one ends that has ended, or -1.

    `place` is the state, the number of records that ended, the column, the last byte, and the bytes
    of the longest record and of the one that has not ended. After a CR a record ends when it is
    known whether an LF follows.
    """
    state, records, column, longest = place[0], place[1], place[2], place[4]
    begin, end = -place[5], -1
    for i in range(len(text)):
        kind = classes[text[i]]
        if kind == _PLAIN_BYTE and state in (_PLAIN, _QUOTED):
            continue  # most bytes are such
        if state == _RETURN:
            records, column, state = records + 1, 0, _RECORD
            end = i + 1 if kind == _LF else i
            longest, begin = max(longest, end - begin), end
            if records == most:
                break
            if kind == _LF:
                continue
        if kind == _TRUTH and column < len(truths):
            last = text[i - 1] if i else place[3]
            truths[column] |= not (65 <= last <= 90 or 97 <= last <= 122)  # begins a word: not inf
        if state == _QUOTED:
            if kind == _QUOTE:
                state = _CLOSED
        elif kind == _QUOTE:
            state = _PLAIN if state == _PLAIN else _QUOTED
        elif kind == _DELIMITER:
            state, column = _FIELD, column + 1
        elif kind == _CR:
            state = _RETURN
        elif kind == _LF:
            records, column, state, end = records + 1, 0, _RECORD, i + 1
            longest, begin = max(longest, end - begin), end
            if records == most:
                break
        elif state == _CLOSED:
            state = _WRONG
            break
        else:
            state = _PLAIN
    place[0], place[1], place[2], place[3] = state, records, column, text[-1]
    place[4], place[5] = longest, len(text) - begin
    return end


def first_fields(path: str, delimiter: str, *, ahead: bool = True) -> tuple[str, ...]:
    """The fields of the first record; none if the file is empty.

    Unless it may read `ahead`, nothing after the record is read.
    """
    try:
        with _raw(path, ahead=ahead) as file:
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


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines with their ends. The LF of a CRLF is a line by itself: only quotes make use of it."""
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


def _raw(path: str, *, ahead: bool) -> IO[bytes]:
    """One that is compressed is unpacked as far as asked."""
    if path.endswith(".gz"):
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb", buffering=-1 if ahead else 0)


def read_blocks(path: str, layout: TextLayout) -> Iterator[Any]:
    """Yield the bytes of each block in turn; fewer where the file became shorter.

    Each begins with a mark that says that it is in UTF-8, as a parser takes the first one away.
    """
    import pyarrow

    with pyarrow.input_stream(path) as file:
        file.read(layout.start)
        for size, _ in layout.blocks:
            yield _MARK + file.read(size)
