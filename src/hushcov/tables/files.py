"""Records in Parquet, Arrow or CSV files, streamed in blocks through pyarrow.

`find_files` says which files are meant, `choose_columns` which of their columns are features, and
`read_header` what files say of themselves before any record is read.
"""

from __future__ import annotations

import copy
import ctypes
import glob
import os
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._compiled import run_parts, threads
from hushcov._validation import check_real, listed, meant, nearest, repeated, shown
from hushcov.exceptions import DataError, ParameterError, RecordsFileError
from hushcov.kernel.records.base import Records, default_block_rows, rows_from
from hushcov.kernel.sums.rows import row_parts
from hushcov.tables.cells import PLAIN, FieldReader, is_text
from hushcov.tables.formats import (
    WRONG_TEXT,
    FileSpan,
    GroupReader,
    arrow,
    changed,
    cut,
    decoded,
    first_texts,
    group_sizes,
    read_batches,
    schema_of,
    whole_file,
)
from hushcov.tables.sources import (
    EMPTY,
    FORMATS,
    NUMERIC,
    OTHER,
    TEXT,
    TRUTH,
    WILDCARDS,
    check_block_rows,
    column_kind,
    filled,
    format_of,
    is_file_source,
    map_npy,
    refuse_nulls,
    without_invalid,
)
from hushcov.tables.text import (
    TextOptions,
    first_fields,
    given_names,
    known_names,
    reads_as_value,
)

if TYPE_CHECKING:
    from hushcov.tables.codebook import Codebook

Blocks = Generator[FloatArray, None, None]

_NUMBERS = NUMERIC, TRUTH

#: Why a column is no measurement.
IDENTIFIER = "an identifier by its name"
# Names by which identifiers and dates go.
_IDENTIFIER = (
    re.compile(r"(.*[_ .-])?(id|uuid|guid|key|name|surname|email|e-mail|phone|address|ssn|mrn)"),
    re.compile(r"(id|uuid|guid)[_ .-].*|.*[a-z]I[Dd]"),
)
_DATE = (
    re.compile(
        r"(.*[_ .-])?(date|datetime|timestamp|dob|birthdate|birthday)([_ .-](of|time)([_ .-].*)?)?",
        re.IGNORECASE,
    ),
    re.compile(r".*[a-z](Date|DateTime|Timestamp)"),
)
_NOT_RECORDS = ("_", ".")  # names of files and folders that begin so hold no records
# Bytes decoded at a time: pyarrow spends some microseconds on each column of each batch.
_BATCH_BYTES = 16 * 2**20
# Bytes, and number, of blocks read ahead while others are worked on.
_AHEAD_BYTES = 8 * 2**20
_MOST_AHEAD = 8
# Bytes of columns of a group of rows that a thread decodes at a time: they stay near it. And
# the fewest blocks in groups that are read so: smaller ones are read faster in batches of several.
_COLUMNS_BYTES, _BLOCKS_IN_PART = 2**21, 4
_APART = 32  # values between columns: those of powers of two would share places of a cache
# Measured: batches of files that pyarrow has at a time, and what it takes over its use; and what
# it holds of a column between batches: a buffer, and a page of as many rows as it writes.
_BATCHES, _UNUSED, _HELD_BYTES = 2.5, 1.2, 2**14 + 8 * 20_000
_LEAST_READER_BYTES = 80 * 10**6  # measured with text files, the most that they take


class FoundFile(str):
    """The path of one of several files, for which messages say `shown`.

    There may be a file for each person, named after them.
    """

    shown: str

    def __new__(cls, path: str, shown: str) -> Self:
        """Make the path, and what messages say for it."""
        found = super().__new__(cls, path)
        found.shown = shown
        return found

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self[:], self.shown

    def __str__(self, _: str = "") -> str:
        return self.shown

    __repr__ = __format__ = __str__


class FileRecords(Records):
    """Records in files of one format, read in blocks, so that they need not fit in memory.

    Parameters
    ----------
    source : str, path-like or sequence of them
        A file, a folder, a pattern such as `data/*.parquet` or `data/**/*.parquet`, or several of
        them: Parquet (.parquet), Arrow (.arrow, .feather, .ipc) and CSV (.csv, .tsv, and .csv.gz,
        .tsv.gz). Files of a folder are read in the order of their paths, in folders inside it too,
        except those whose names (or folders) begin with `_` or `.`.
    columns : sequence of str, optional
        The features, by name and in this order; all columns of the first file if left out. They
        must be numbers or booleans. What names of folders say, such as `year=2024`, is no column
        and so never a feature.
    leave_out : sequence of str or int, optional
        Columns that are no features, by name or by their position in the file: identifiers of
        units, or weights. They may be of any type.
    block_rows
        As for `open_records`.
    header : bool, default=True
        Whether the first line of CSV files has the names of the columns. Names that read as
        numbers, dates or nulls are refused, since they may be a record. Blanks around names are no
        part of them. Without a header, columns are called column_1, column_2 and so on.
    names : sequence of str, optional
        Names for the columns of CSV files, one for each, in place of those in the header if there
        is one.
    delimiter : str, optional
        What is between two fields of CSV files; a comma if left out, or a tab in .tsv files.
    codebook : Codebook, optional
        Its categories are read as places of their values in its lists. `open_records` makes one-hot
        columns of them.
    scratch : str or path-like, optional
        A folder for a copy of two bytes a value. Where a compact copy of the records is too large
        for memory (`CompactRecords`), hushcov writes it there once and reads it in their place.
    memory : float, optional
        Gigabytes of the compact copy that may be kept in memory: of a larger copy as many rows as
        fit, and the others are read again. If left out, copies of up to 0.067 GB are kept. With as
        much as a group of rows takes, eight bytes a value, Parquet files are read faster, too.

    Notes
    -----
    Memory does not depend on the number of records, beyond `memory`. A Parquet file takes one page
    and twice the dictionary of every column (write continuous values with `use_dictionary=False`),
    or columns of a group of rows where groups are small enough. Arrow files are mapped into memory;
    a compressed record batch is held whole.

    Privacy
    -------
    Names of files and columns, types and numbers of rows are public. Unless nulls are dropped, an
    error tells which columns have some. A blank line of a CSV file is a record of nulls, and a line
    break inside quotation marks ends no record: values do not change the number of records.
    A scratch file has no name: only this process can open it, and it goes when the process ends.
    But it is not encrypted, and what was on a disk may be found there: choose a folder that may
    hold the records.
    """

    feature_names: tuple[str, ...]
    _ahead = True  # whether blocks are read while others are worked on

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        leave_out: Sequence[str | int] = (),
        header: bool = True,
        names: Sequence[str] | None = None,
        delimiter: str | None = None,
        block_rows: int | None = None,
        codebook: Codebook | None = None,
        scratch: str | os.PathLike[str] | None = None,
        memory: float | None = None,
    ) -> None:
        for argument, value in (("columns", columns), ("leave_out", leave_out)):
            if isinstance(value, str):
                words = "must be a sequence of names, got one string: pass a list, even of one."
                raise ParameterError(f"{argument} {words}")
        if scratch is not None and not os.path.isdir(scratch):
            raise ParameterError(
                f"scratch must be a folder that is there, got {scratch}: make it, or leave it out."
            )
        self.scratch = None if scratch is None else os.fspath(scratch)
        if memory is not None:
            cure = "say how many GB the compact copy may take, or leave it out."
            self.memory = int(1e9 * check_real("memory", memory, above=0, or_zero=True, cure=cure))
        text = TextOptions.checked(delimiter, header, names)
        paths = find_files(source)
        file_format = format_of(paths[0]) or ""
        if file_format == "csv":
            described = () if codebook is None else codebook.names
            text = known_names(paths, text, (*(columns or ()), *leave_out, *described))
        elif text != TextOptions():
            raise ParameterError(
                f"header, names and delimiter must be left out for {paths[0]}, which is no CSV "
                "file: leave them out."
            )
        self._groups: dict[str, list[int]] = {}  # sizes of groups of rows, by the path of a file
        files = [whole_file(path, file_format, text) for path in paths]
        schemas = [schema_of(file) for file in files]
        self.codebook = codebook = codebook and codebook.of_columns(schemas[0].names)
        self._described = {} if codebook is None else codebook.described
        categories = () if codebook is None else tuple(codebook.categories)
        self.fills = {} if codebook is None else codebook.fills
        # Fields that the codebook spells out are not left to pyarrow, which may know them as nulls.
        texts = (*categories, *(name for name, own in self._described.items() if own.has_own_words))
        files = [replace(file, texts=texts) for file in files]
        self._set_spans(files)
        self.columns_given = columns is not None
        self.left_out = names_left_out(paths, schemas, leave_out)
        if file_format == "csv":
            pairs = zip(files, schemas, strict=True)
            schemas = [
                self._guessed(*pair, columns, (*categories, *self.left_out)) for pair in pairs
            ]
        stated = () if file_format == "csv" else self._stated_texts(schemas[0])
        self._texts = frozenset((*categories, *stated))
        self.feature_names = choose_columns(
            paths, schemas, columns, texts=tuple(self._texts), left_out=self.left_out, options=text
        )
        self.n_features = len(self.feature_names)
        self.block_rows = check_block_rows(block_rows, default_block_rows(self.n_features))

    def _guessed(
        self, file: FileSpan, schema: Any, columns: Sequence[str] | None, known: Sequence[str]
    ) -> Any:
        """Return the types of a text file: columns are of numbers unless most fields are none."""
        kinds = {name: schema.field(i).type for i, name in enumerate(schema.names)}
        chosen = kinds if columns is None else {meant(name, kinds) for name in columns}
        asked = [name for name in kinds if name in chosen and name not in known]
        asked = [name for name in asked if column_kind(kinds[name]) not in (*_NUMBERS, EMPTY)]
        # It is read even if nothing is asked: how often a file is read must not depend on records.
        for name, column in first_texts(file, asked).items():
            any_number = replace(self._reading(name), only=None)  # as where pyarrow reads numbers
            if not is_text(any_number.text(column)):
                kinds[name] = arrow().float64()
        return arrow().schema(list(kinds.items()))

    def _stated_texts(self, schema: Any) -> list[str]:
        """Return columns of text by the types that files state, which a codebook describes."""
        kinds = {name: schema.field(i).type for i, name in enumerate(schema.names)}
        return [n for n in self._described if n in kinds and column_kind(kinds[n]) == TEXT]

    def _reading(self, name: str) -> FieldReader:
        return self._described[name].reading if name in self._described else PLAIN

    def schemas(self) -> dict[str, Any]:
        """Return names and types of the columns of every file by its path, as they are there."""
        return {span.path: schema_of(span) for span in self.spans}

    def without(self, name: str) -> FileRecords:
        """Return a copy where one feature is none."""
        other = copy.copy(self)
        other.feature_names = tuple(each for each in self.feature_names if each != name)
        if not other.feature_names:
            raise DataError(f"the files must have features, got none beside {name!r}: add columns.")
        other.n_features = len(other.feature_names)
        return other

    def _set_spans(self, spans: Sequence[FileSpan]) -> None:
        self.spans = tuple(span for span in spans if span.n_rows) or tuple(spans[:1])
        self.n_records = sum(span.n_rows for span in self.spans)

    def only(self, spans: Sequence[FileSpan]) -> FileRecords:
        """Return the records of these spans alone, for one of many readers at the same time."""
        part = copy.copy(self)
        part._ahead = False
        part._set_spans(spans)
        return part

    def pieces(self, rows: int) -> list[FileSpan]:
        """Return spans of about this many rows, or of more where a file is read in larger units."""
        return [piece for span in self.spans for piece in cut(span, self.feature_names[0], rows)]

    def column(self, name: str, rows: int, *, text: bool) -> Iterator[Any]:
        """Yield a column of successive rows; that of text files as `text`, or as numbers if it is.

        Where some fields of a block are no numbers, it is text, too."""
        for span in self.spans:
            texts = tuple(each for each in span.texts if each != name)
            whole = replace(span, texts=(*texts, name) if text else texts)
            for batch in _within(whole, [name], rows):
                if span.is_text and text and arrow().types.is_binary(batch.column(0).type):
                    raise DataError(f"{span.path} cannot be read as csv: {WRONG_TEXT}")
                yield decoded(batch.column(0)) if span.is_text else batch.column(0)

    def _blocks(self) -> Iterator[FloatArray]:
        return self._blocks_from(0)

    def _blocks_from(self, start: int) -> Iterator[FloatArray]:
        """See `Records`; of whole groups of rows, those before the first one are not read."""
        parts = self._parts()
        if parts is not None:
            return self._group_blocks(parts, start)
        blocks = self._read_blocks()
        if self._ahead and self.n_records > self.block_rows and threads() > 1:
            count = _AHEAD_BYTES // (8 * self.block_rows * self.n_features)
            blocks = _read_ahead(blocks, min(max(1, count), _MOST_AHEAD))
        return rows_from(blocks, start)

    def _read_blocks(self) -> Blocks:
        block = np.empty((min(self.block_rows, self.n_records), self.n_features))
        near, filled = np.empty((self.n_features, len(block) + _APART)), 0
        for span in self.spans:
            for columns in self._columns(span):
                taken, n_rows = 0, len(columns[0])
                while taken < n_rows:
                    count = min(n_rows - taken, len(block) - filled)
                    own = near[:, :count]
                    np.stack([each[taken : taken + count] for each in columns], out=own)
                    block[filled : filled + count] = own.T
                    taken, filled = taken + count, filled + count
                    if filled == len(block):
                        block.setflags(write=False)
                        yield block
                        block, filled = np.empty_like(block), 0
                del columns  # before the next ones are read
        if filled:
            block.setflags(write=False)
            yield block[:filled]

    def _group_blocks(self, parts: Sequence[_Part], start: int) -> Blocks:
        most = max(part.n_rows for part in parts)
        columns = np.empty((self.n_features, most + _APART))
        for reader, part in _opened(part for part in parts if part.stop > start):
            whole = part.after(start)
            self._decode(reader, whole, columns)
            for first in range(0, whole.n_rows, self.block_rows):
                stop = min(first + self.block_rows, whole.n_rows)
                yield _turned(columns[:, first:stop])

    def _parts(self) -> list[_Part] | None:
        """Return all rows in groups, or halves of groups, to be held.

        None where files have no groups, or too large or too small ones: they are read in batches.
        """
        if self.spans[0].format != "parquet" or self._texts:
            return None
        d, parts, position = self.n_features, list[_Part](), 0
        allowed = reader_bytes(d) + 16 * d * default_block_rows(d)  # what batches and blocks take
        allowed += self.memory or 0  # before there is a compact copy
        for span in self.spans:
            if span.path not in self._groups:
                self._groups[span.path] = group_sizes(span.path)
            end = 0
            for group, size in enumerate(self._groups[span.path]):
                first, last = max(span.start - end, 0), min(span.stop - end, size)
                end += size
                if first >= last:
                    continue
                rows = allowed - 3 * threads() * max(
                    _COLUMNS_BYTES, 8 * size
                )  # columns that are read
                rows = max(1, rows // (8 * d))
                if last - first > 2 * rows:
                    return None
                half = last - first if last - first <= rows else (last - first + 1) // 2
                for a in range(first, last, half):
                    parts.append(_Part(span.path, group, size, a, min(half, last - a), position))
                    position = parts[-1].stop
            if end < span.stop:
                raise changed(span.path)
        return parts if position >= _BLOCKS_IN_PART * self.block_rows * len(parts) > 0 else None

    def _decode(self, reader: GroupReader, part: _Part, to: FloatArray) -> None:
        """Fill in columns of a part; several threads do it, each for its own."""
        names, nulls = self.feature_names, set[str]()
        step = max(1, _COLUMNS_BYTES // (8 * part.group_rows))

        def work(left: int) -> None:
            own = names[left : left + step]
            for k, column in enumerate(reader.read(part.group, own), start=left):
                if len(column) != part.group_rows:
                    raise changed(part.path)
                inside = column.slice(part.first, part.n_rows)
                if inside.null_count and names[k] not in self.fills:
                    nulls.add(names[k])
                to[k, : part.n_rows] = self._numbers(names[k], inside)

        starts = range(0, self.n_features, step)
        if threads() == 1 or not self._ahead:
            for left in starts:
                work(left)
        else:
            jobs = [_readers(os.getpid(), threads()).submit(work, left) for left in starts]
            try:
                for job in jobs:
                    job.result()
            finally:
                wait([job for job in jobs if not job.cancel()])
        if not self.gaps:
            refuse_nulls([name for name in names if name in nulls])

    def _columns(self, span: FileSpan) -> Iterator[list[FloatArray]]:
        """Yield the columns of successive rows of a span; columns of float64 are not copied."""
        most = min(batch_rows(self.n_features, self.block_rows), max(1, self.n_records))
        for batch in _within(span, self.feature_names, most):
            for start in range(0, batch.num_rows, most):
                yield self._converted(batch.slice(start, most))
            del batch  # before the next one is made

    def _converted(self, batch: Any) -> list[FloatArray]:
        named = list(zip(self.feature_names, batch.columns, strict=True))
        if not self.gaps:
            refuse_nulls([n for n, column in named if column.null_count and n not in self.fills])
        return [self._numbers(name, column) for name, column in named]

    def _numbers(self, name: str, column: Any) -> FloatArray:
        types = arrow().types
        column = decoded(column) if self.spans[0].is_text else column
        if name in self._texts:
            found = self._described[name].codes_of_arrow(column)
        elif types.is_string(column.type):  # a block of a text file with other fields than numbers
            found = self._reading(name).text(column)
        else:
            if column.null_count or not (
                types.is_integer(column.type) or types.is_floating(column.type)
            ):
                column = column.cast(arrow().float64(), safe=False)
            found = np.require(column.to_numpy(zero_copy_only=False), np.float64, ["C", "A"])
            found = self._reading(name).numbers(found)
        strict = self.strict or not (self.gaps or name in self.fills)
        return filled(without_invalid(found, strict=strict), self.fills.get(name))


def _turned(columns: FloatArray) -> FloatArray:
    """Return columns as rows, turned on all cores."""
    rows = np.empty(columns.shape[::-1])
    parts = row_parts(rows, threads())
    own = np.array_split(columns, len(parts), axis=1)
    run_parts(np.copyto, [(part, each.T) for part, each in zip(parts, own, strict=True)])
    rows.setflags(write=False)
    return rows


class _Part(NamedTuple):
    """Rows of a group of rows of a Parquet file; `position` is the first one's among all."""

    path: str
    group: int
    group_rows: int
    first: int
    n_rows: int
    position: int

    @property
    def stop(self) -> int:
        """Position after the last row."""
        return self.position + self.n_rows

    def after(self, start: int) -> _Part:
        """Return the rows from a position on."""
        cut = max(0, start - self.position)
        return self._replace(first=self.first + cut, n_rows=self.n_rows - cut)


def _opened(parts: Iterable[_Part]) -> Iterator[tuple[GroupReader, _Part]]:
    for path, own in groupby(parts, key=lambda part: part.path):
        with GroupReader(path) as reader:
            for part in own:
                yield reader, part


def _within(span: FileSpan, names: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield the rows of a span, in the batches that they are read in."""
    if not span.n_rows:
        return
    for position, batch in read_batches(span, names, rows):
        first, last = max(span.start - position, 0), min(span.stop - position, batch.num_rows)
        end = position + batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)
        del batch  # before the next one is made
        if end >= span.stop:
            return
    raise changed(span.path)


def _read_ahead(blocks: Blocks, count: int) -> Blocks:
    """Yield the same blocks, and read `count` more in another thread while one is in use.

    However this ends, nothing is read after it and the file is closed.
    """
    reader, following = _readers(os.getpid(), 1), deque[Any]()
    try:
        following.extend(reader.submit(next, blocks, None) for _ in range(count))
        while (block := following.popleft().result()) is not None:
            following.append(reader.submit(next, blocks, None))
            yield block
            del block  # free it before waiting for the next one
    finally:
        wait([each for each in following if not each.cancel()])
        blocks.close()
        reader.submit(_give_back).result()


def _give_back() -> None:
    """Return memory that is free to the system, where it can be told: the next sums use other."""
    arrow().default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@cache
def _readers(process: int, count: int) -> ThreadPoolExecutor:
    """Threads for all readings: pyarrow and NumPy use again what they freed in the same one.

    A process that was forked starts its own.
    """
    return ThreadPoolExecutor(count, thread_name_prefix="hushcov-reader")


def batch_rows(n_features: int, block_rows: int) -> int:
    """Return the rows that are decoded at a time."""
    most = max(1, _BATCH_BYTES // (8 * n_features))
    return max(block_rows, 1 << (most.bit_length() - 1))  # pyarrow allocates powers of two


def reader_bytes(n_features: int) -> int:
    """Return about how many bytes pyarrow takes while files of so many columns are read.

    It is known from their number alone: sizes of files, of their groups of rows and of their
    dictionaries depend on the records.
    """
    batch = 8 * n_features * batch_rows(n_features, default_block_rows(n_features))
    return max(_LEAST_READER_BYTES, round(_UNUSED * (_HELD_BYTES * n_features + _BATCHES * batch)))


def find_files(source: Any) -> list[str]:
    """Return the paths of all files in order, after checking that they have one format.

    Messages name a file that was named by itself, and of several none.
    """
    several = isinstance(source, list | tuple)
    named = [str(item) for item in source] if several else [str(source)]
    paths = [path for name in named for path in _expanded(name)]
    if not paths:
        raise RecordsFileError(
            f"{source} must lead to files whose names end in {', '.join(FORMATS)}, got none: check "
            "the path."
        )
    found = {format_of(path) for path in paths}
    if None in found or len(found) > 1:
        raise DataError(
            f"{source} must lead to files of one format, {', '.join(FORMATS)}, got several or "
            "another: name the files that are meant."
        )
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise RecordsFileError(f"{missing[0]} does not exist: check the path.")
    if paths == named[:1]:
        return paths
    shown = "one of the files" + ("" if several else f" of {source}")
    return [FoundFile(path, shown) for path in paths]


def _expanded(path: str) -> list[str]:
    """Return the files in a folder or matched by a pattern; a file's own path stays as it is."""
    if os.path.isdir(path):
        inside = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        return [
            str(file)
            for file in sorted(inside)
            if format_of(file.name)
            and not any(part.startswith(_NOT_RECORDS) for part in file.relative_to(path).parts)
        ]
    if WILDCARDS & set(path) and not os.path.exists(path):
        matches = sorted(glob.glob(path, recursive=True))
        return [file for match in matches for file in _expanded(match)]
    return [path]


def names_left_out(
    paths: Sequence[str], schemas: Sequence[Any], columns: Sequence[str | int]
) -> tuple[str, ...]:
    """Return the names of columns that are no features and are in every file."""
    first = schemas[0].names
    for place in columns:
        if isinstance(place, bool) or (isinstance(place, int) and not 0 <= place < len(first)):
            raise ParameterError(
                f"leave_out must have names or positions of columns, got {place} for "
                f"{len(first)} columns of {paths[0]}: count them from 0 on."
            )
    names = tuple(
        meant(name, first) or name if isinstance(name, str) else first[name] for name in columns
    )
    for path, schema in zip(paths, schemas, strict=True):
        wrong = _not_there(path, schema.names, names)
        if wrong:
            use = " It is to say whose a record is, or its weight: if no column does, leave it out."
            raise DataError(_all_of(wrong) + use)
    return names


def choose_columns(
    paths: Sequence[str],
    schemas: Sequence[Any],
    columns: Sequence[str] | None,
    *,
    texts: Sequence[str] = (),
    left_out: Sequence[str] = (),
    options: TextOptions | None = None,
) -> tuple[str, ...]:
    """Return the features, after checking that they are columns of numbers in every file.

    Columns in `texts` may be of any type. `options` are those of text files.
    """
    there = schemas[0].names
    names = tuple(there if columns is None else (meant(name, there) or name for name in columns))
    if columns is None:
        names = tuple(name for name in names if name not in left_out)
    elif set(names) & set(left_out):
        both = [name for name in left_out if name in names]
        raise ParameterError(
            f"columns must have features alone, got {listed(both)}, a unit column that is also a "
            "feature, or a weight: leave it out of the columns."
        )
    if not names:
        raise DataError(
            f"columns must be names that all differ, at least one, got 0: {paths[0]} must have "
            "a column of numbers."
        )
    twice, wrong = repeated(names), []
    if twice:
        wrong.append(
            f"columns must be names that all differ, got {listed(twice)} more than once: name each "
            f"once, or rename columns of {paths[0]}."
        )
    for path, schema in zip(paths, schemas, strict=True):
        wrong += _not_there(path, schema.names, [name for name in names if name not in twice])
        there = [name for name in dict.fromkeys(names) if schema.names.count(name) == 1]
        kinds = {name: schema.field(name).type for name in there if name not in texts}
        wrong += _no_numbers(path, kinds, options or TextOptions())
        if wrong:
            raise DataError(_all_of(wrong))
    return names


def _all_of(wrong: Sequence[str]) -> str:
    """List all mistakes, numbered where there are several."""
    if len(wrong) == 1:
        return wrong[0]
    return " ".join(f"({place}) {words}" for place, words in enumerate(wrong, start=1))


def _not_there(path: str, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Say what is wrong with a file that has none, or several, of one of these columns."""
    bad, wrong = [name for name in names if found.count(name) != 1], []
    twice = [name for name in bad if name in found]
    if twice:
        wrong.append(f"{path} must have {listed(twice)} once, got more: rename columns of it.")
    missing = [name for name in bad if name not in found]
    if missing:
        close = nearest(missing, found)
        hint = f"did you mean {', '.join(map(shown, close))}? It" if close else "it"
        wrong.append(
            f"{path} must have {listed(missing)}, got none of that name: {hint} has "
            f"{listed(found)}{' (names of folders are no columns)' * ('=' in path)}."
        )
    return wrong


def _no_numbers(path: str, kinds: dict[str, Any], options: TextOptions) -> list[str]:
    """Say what is wrong with columns that do not hold numbers, by their types.

    A column of a text file whose first rows are all null has no type yet; others there are text.
    """
    text, found = format_of(path) == "csv", dict[str, str]()
    for name, kind in kinds.items():
        holds = column_kind(kind)
        if holds not in _NUMBERS and not (text and holds == EMPTY):
            temporal = "date or time" if arrow().types.is_temporal(kind) else str(kind)
            found[name] = TEXT if text or holds == TEXT else temporal
    if not found:
        return []
    words = (
        f"{path} must hold numbers, but {listed([*found])} {'has' if len(found) == 1 else 'have'} "
        f"type {', '.join(dict.fromkeys(found.values()))}: describe their answers in a codebook "
        "(codebook=..., --codebook FILE.csv), which says where numbers are written as 1,234.56, "
        "too, or choose the other columns by columns=[...] (--columns a,b,c). Single values that "
        "are not numbers, such as typos, count as missing in columns of numbers."
    )
    if text and options.delimiter_of(path) != ",":
        words += (
            " Numbers must have a decimal point: where they have a comma (2,5), write the file "
            "again (pandas.read_csv(..., decimal=',') reads it)."
        )
    return [words]


@dataclass(frozen=True)
class Header:
    """Columns of files, without their rows."""

    paths: tuple[str, ...]
    format: str
    n_columns: int
    names: tuple[str, ...] | None = None  # None where columns have none
    kinds: dict[str, str] = field(default_factory=dict)  # where files state what columns hold
    text: TextOptions = field(default_factory=TextOptions)

    @property
    def no_measurements(self) -> dict[str, str]:
        """Columns that are identifiers or dates by their names, or neither numbers nor text.

        With why, from names and the types that files state: both are public, and nothing is read.
        """
        found = {}
        for name in self.names or ():
            plain, other = name.strip(), self.kinds.get(name) == OTHER
            cases = plain, plain.casefold()
            if any(each.fullmatch(text) for each in _IDENTIFIER for text in cases):
                found[name] = IDENTIFIER
            elif other or any(each.fullmatch(plain) for each in _DATE):
                found[name] = "neither numbers nor text" if other else "a date by its name"
        return found

    @property
    def states_rows(self) -> bool:
        """Whether the files state how many rows they have, so that no row is read for it."""
        return self.format != "csv"

    def count_rows(self) -> int:
        """Return the number of rows, if that is public: text files are read for it."""
        if self.format == "npy":
            return int(map_npy(Path(self.paths[0])).shape[0])
        return sum(whole_file(path, self.format, self.text).n_rows for path in self.paths)


def read_header(
    source: str | Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    names: Sequence[str] | None = None,
) -> Header:
    """Return the columns of what `open_records` would open with these options; read no record.

    Names and types are public. Of a text file the first line alone is read, byte by byte; without a
    header, nothing but its number of fields is kept.
    """
    if not is_file_source(source):
        if Path(source).suffix != ".npy":
            raise RecordsFileError(
                f"{source} must be a folder, a pattern, or a file whose name ends in .npy, "
                ".parquet, .arrow, .feather, .csv or .tsv: check the path."
            )
        return Header((str(source),), "npy", int(map_npy(Path(source)).shape[1]))
    paths = tuple(find_files(source))
    kind = format_of(paths[0]) or ""
    if kind == "csv":
        return _text_header(paths, TextOptions.checked(delimiter, header, names))
    schema = schema_of(FileSpan(paths[0], kind, 0, 0))
    names = tuple(schema.names)
    held = [column_kind(schema.field(i).type) for i in range(len(names))]
    stated = (*_NUMBERS, TEXT)
    kinds = {n: h if h in stated else OTHER for n, h in zip(names, held, strict=True)}
    return Header(paths, kind, len(names), names, kinds)


def may_be_record(source: str | Path, *, delimiter: str | None = None) -> bool:
    """Whether something in the first line of text files reads as a value, so that it is no name."""
    text, path = TextOptions.checked(delimiter, True, None), find_files(source)[0]
    return any(map(reads_as_value, first_fields(path, text.delimiter_of(path), ahead=False)))


def _text_header(paths: tuple[str, ...], text: TextOptions) -> Header:
    path = paths[0]
    fields = first_fields(path, text.delimiter_of(path), ahead=False)
    if not "".join(fields):
        raise DataError(
            f"{path} must begin with the names of its columns, got an empty line: check that this "
            "is the right file, and how it was written."
        )
    if text.header and text.names is None:
        blank = any(name != name.strip() for name in fields)  # then other files are looked at
        text = known_names(paths if blank else paths[:1], text, (), ahead=False)
    else:
        text = given_names({path: fields}, text)
    names = text.names or fields
    return Header(paths, "csv", len(names), names, text=text)
