"""Parquet, Arrow and CSV files through pyarrow: their columns and rows, and rows in batches.

Columns must be in every file, be numbers and have no nulls.

In a text file the first line may name the columns. What follows is records, and a blank line is one
of nulls: if it were skipped, the number of records would depend on their values. The names in the
first line are published with a release. So if one of them could be a value, the line may be a
record, and it is refused. Where records are is found once (`text_layout`); pyarrow gets whole ones,
so that nothing depends on where its blocks end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushcov._compiled import threads
from hushcov._validation import listed, shown
from hushcov.exceptions import (
    DataError,
    HushcovError,
    MissingPackageError,
    ParameterError,
    RecordsFileError,
    raise_alone,
)
from hushcov.tables.sources import format_of, refuse_nulls
from hushcov.tables.text_layout import TextLayout, find_layout, first_fields, read_blocks

# Without a buffer size pyarrow holds a whole group of rows, and many writers make groups of a
# million. With it, pyarrow holds one page of each column, its dictionary if any, and this buffer.
_STREAM_BYTES = 2**14
_DAMAGED = "it is damaged, of another format than its name says, or two columns share a name."
#: Of a file without a single line.
EMPTY = "must hold at least one record, got none: the file is empty. Check how it was written."
_WRONG_TEXT = (
    "a line has too many or too few fields, or it is not in UTF-8. Open it in an editor, or write "
    "it again."
)
_NO_NUMBER = re.compile(r"In CSV column #(\d+): .*CSV conversion error")
_DECIMAL_COMMA = (
    " Numbers must have a decimal point: where they have a comma (2,5), write the file again "
    "(pandas.read_csv(..., decimal=',') reads it)."
)
_MOST_PARSED = 4  # blocks of text that are parsed at the same time


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
    """How lines are read.

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
        """What separates the fields of this file."""
        tabs = path.endswith((".tsv", ".tsv.gz"))
        return self.delimiter or ("\t" if tabs else ",")


@dataclass(frozen=True)
class FileSpan:
    """Rows `start` to `stop` - 1 of a file. Picklable: it is sent to the worker that reads them.

    In an Arrow file, reading begins at record batch `batch`, whose first row is `batch_start`.
    Columns in `texts` are read as they are, others as numbers. Of a text file, `layout` says where
    its records are.
    """

    path: str
    format: str
    start: int
    stop: int
    batch: int = 0
    batch_start: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    texts: tuple[str, ...] = ()
    layout: TextLayout | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


def whole_file(path: str, file_format: str, text: TextOptions) -> FileSpan:
    """All rows of a file; those of a text file are counted."""
    if file_format != "csv":
        return FileSpan(path, file_format, 0, count_rows(path, file_format, text))
    layout = _layout(path, text)
    return FileSpan(path, file_format, 0, layout.n_records, text=text, layout=layout)


def schema_of(span: FileSpan) -> Any:
    """Names and types of the columns; those of text files are guessed from their first block.

    A guess that a column holds no numbers is right, and only tells it before all is read.
    """
    with readable(span.path):
        schema = _text_schema(span) if span.format == "csv" else _opened(span).schema
        _ = schema.names  # decoding them may fail: do it here, where errors are translated
        return schema


def changed(path: str) -> DataError:
    """The refusal of a file that has other rows than when it was opened."""
    return DataError(
        f"{path} must have the rows that it had when it was opened, got others: leave files "
        "unchanged while they are in use."
    )


def count_rows(path: str, file_format: str, text: TextOptions) -> int:
    """Number of rows; files that do not store it are read."""
    if file_format == "csv":
        return _layout(path, text).n_records
    with readable(path):
        return int(_opened(FileSpan(path, file_format, 0, 0)).count_rows())


def _opened(span: FileSpan) -> Any:
    from pyarrow.dataset import dataset

    return dataset(span.path, format=span.format)


def _layout(path: str, text: TextOptions) -> TextLayout:
    delimiter = text.delimiter_of(path)
    n_columns = len(first_fields(path, delimiter))
    with readable(path):
        return find_layout(path, delimiter, n_columns, header=text.header)


def read_batches(span: FileSpan, names: Sequence[str], rows: int) -> Iterator[tuple[int, Any]]:
    """Yield record batches that cover a span, in order, each with its first row's number.

    Reading may begin before the span: at a group of rows of a Parquet file, a record batch of an
    Arrow file, the start of a text file. A batch has about `rows` rows; the batches of an Arrow
    file are those in the file, and are not copied.
    """
    readers = {"parquet": _parquet_batches, "ipc": _arrow_batches, "csv": _csv_batches}
    with readable(span.path):
        yield from readers[span.format](span, list(names), rows)


def cut(span: FileSpan, name: str, rows: int) -> list[FileSpan]:
    """Cut a span into parts of about this many rows, so that nothing is read twice.

    Groups of rows of a Parquet file, record batches of an Arrow file and text files stay whole.
    `name` is any column.
    """
    with readable(span.path):
        sizes = _unit_sizes(span, name)
    parts: list[FileSpan] = []
    unit_start = span.batch_start
    for unit, size in enumerate(sizes, start=span.batch):
        start, stop = max(unit_start, span.start), min(unit_start + size, span.stop)
        if start < stop:
            if parts and stop - parts[-1].start <= rows:
                parts[-1] = replace(parts[-1], stop=stop)
            else:
                place = (unit, unit_start) if span.format == "ipc" else (0, 0)
                batch, batch_start = place
                part = replace(span, start=start, stop=stop, batch=batch, batch_start=batch_start)
                parts.append(part)
        unit_start += size
    return parts


def _unit_sizes(span: FileSpan, name: str) -> list[int]:
    """Sizes of the units that are read whole, from where reading the span begins."""
    if span.format == "parquet":
        with _open_parquet(span.path) as file:
            return _group_sizes(file.metadata)
    if span.format == "ipc":
        # pyarrow tells the size of a record batch only when it reads a column of it.
        return [batch.num_rows for _, batch in _arrow_batches(span, [name], 0)]
    return [span.stop]


def _parquet_batches(span: FileSpan, names: list[str], rows: int) -> Iterator[tuple[int, Any]]:
    with _open_parquet(span.path) as file:
        stops = np.cumsum(_group_sizes(file.metadata))
        first, last = np.searchsorted(stops, [span.start, span.stop - 1], side="right").tolist()
        groups = list(range(first, last + 1))
        position = int(stops[first - 1]) if first else 0
        yield from _placed(file.iter_batches(rows, row_groups=groups, columns=names), position)


def _open_parquet(path: str) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, buffer_size=_STREAM_BYTES, pre_buffer=False)


def _group_sizes(metadata: Any) -> list[int]:
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def _arrow_batches(span: FileSpan, names: list[str], _: int) -> Iterator[tuple[int, Any]]:
    ipc = arrow().ipc
    with arrow().memory_map(span.path) as source:
        schema = ipc.open_file(source).schema
        fields = [schema.get_field_index(name) for name in names]
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=fields))
        batches = (
            file.get_batch(i).select(names) for i in range(span.batch, file.num_record_batches)
        )
        yield from _placed(batches, span.batch_start)


def _csv_batches(span: FileSpan, names: list[str], _: int) -> Iterator[tuple[int, Any]]:
    """Parse blocks of a text file, several at a time; those before the span are not parsed.

    Columns are read as floats, or as booleans where there are such words in the file.
    """
    pa, layout, found = arrow(), span.layout, names_in(span)
    assert layout is not None
    truths = {found[i] for i in layout.truths if i < len(found)}
    kinds = {name: pa.bool_() if name in truths else pa.float64() for name in names}
    kinds |= {name: pa.string() for name in names if name in span.texts}
    parse = _parser(span, found, column_types=kinds, include_columns=names)

    def blocks() -> Iterator[tuple[int, int, bytes]]:
        position = 0
        for (_, n_rows), block in zip(layout.blocks, read_blocks(span.path, layout), strict=True):
            if span.start < position + n_rows and position < span.stop:
                yield position, n_rows, block
            position += n_rows

    def batches(position: int, n_rows: int, block: bytes) -> list[tuple[int, Any]]:
        table = parse(block)
        if table.num_rows != n_rows:
            raise changed(span.path)
        return list(_placed(table.to_batches(), position))

    for parsed in _in_order(batches, blocks()):
        yield from parsed


def _in_order(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield what a function returns for each of its arguments; it is called in several threads."""
    count, waiting = min(threads(), _MOST_PARSED), deque[Future[Any]]()
    with ThreadPoolExecutor(count, thread_name_prefix="hushcov-parser") as pool:
        try:
            for each in arguments:
                waiting.append(pool.submit(function, *each))
                if len(waiting) > count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def names_in(span: FileSpan) -> tuple[str, ...]:
    """Names of all columns of a text file."""
    return span.text.names or first_fields(span.path, span.text.delimiter_of(span.path))


def _text_schema(span: FileSpan) -> Any:
    """Names and types of the first block; nothing is known of those that are null there."""
    pa, names = arrow(), names_in(span)
    assert span.layout is not None
    for block in read_blocks(span.path, span.layout):
        return _parser(span, names)(block).schema
    return pa.schema([(name, pa.null()) for name in names])


def _parser(span: FileSpan, names: Sequence[str], **options: Any) -> Callable[[bytes], Any]:
    """A function that makes a table of a block of whole records."""
    from pyarrow import BufferReader, csv

    pa, sign = arrow(), span.text.delimiter_of(span.path)
    how = csv.ParseOptions(delimiter=sign, ignore_empty_lines=False, newlines_in_values=True)
    conversion = csv.ConvertOptions(**options)

    def parse(block: bytes) -> Any:
        # One byte more than there are: all is one block for pyarrow, too.
        read = csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False)
        try:
            return csv.read_csv(BufferReader(block), read, how, conversion)
        except pa.ArrowInvalid as error:
            column = _NO_NUMBER.match(str(error))
            if column is None or names[int(column[1])] in span.texts:
                raise
            words = no_numbers_in_text(span.path, [names[int(column[1])]], span.text)
            raise_alone(DataError(words))

    return parse


def no_numbers(path: str, names: Sequence[str], types: Iterable[str]) -> str:
    """What is wrong with columns that do not hold numbers."""
    return (
        f"{path} must hold numbers, but {listed(names)} {'has' if len(names) == 1 else 'have'} "
        f"type {', '.join(dict.fromkeys(types))}: make single values that are none, such as "
        "typos, empty by a rule that uses their own record alone, and leave these records out "
        "privately by drop_nulls=True (--drop-nulls). If columns are no numbers by their "
        "description, choose the other columns by columns=[...] (--columns a,b,c), or turn answers "
        "into numbers by codebook=... (--codebook FILE.csv), which lists them."
    )


def no_numbers_in_text(path: str, names: Sequence[str], text: TextOptions) -> str:
    """The same of a text file; the words do not depend on where in it the values are."""
    comma = _DECIMAL_COMMA if text.delimiter_of(path) != "," else ""
    return no_numbers(path, names, ["text"]) + comma


def _placed(batches: Iterable[Any], position: int) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        n_rows = batch.num_rows
        yield position, batch
        position += n_rows
        del batch  # before the next one is made


def check_files_complete(paths: Sequence[str], file_format: str, names: Sequence[str]) -> None:
    """Refuse columns with nulls if the files say so, without reading their rows."""
    found = {name for path in paths for name in _columns_with_nulls(path, file_format, names)}
    refuse_nulls([name for name in names if name in found])


def _columns_with_nulls(path: str, file_format: str, names: Sequence[str]) -> set[str]:
    """The columns with nulls by the statistics of a Parquet file; empty for other formats."""
    if file_format != "parquet":
        return set()
    with readable(path), _open_parquet(path) as file:
        metadata = file.metadata
        chunks = (
            metadata.row_group(group).column(i)
            for group in range(metadata.num_row_groups)
            for i in range(metadata.num_columns)
        )
        return {
            chunk.path_in_schema
            for chunk in chunks
            if chunk.path_in_schema in names
            and chunk.statistics is not None
            and chunk.statistics.has_null_count
            and chunk.statistics.null_count
        }


class readable:
    """Replace pyarrow's errors by ours, which quote no value of the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        arrow()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        found = self._instead_of(error)
        del kind, error, trace  # nothing here may refer to them when it raises
        if found is not None:
            raise_alone(found)

    def _instead_of(self, error: Any) -> DataError | None:
        if isinstance(error, HushcovError):
            return None
        if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
            return RecordsFileError(
                f"{self._path} cannot be opened: check the path and its permissions."
            )
        if isinstance(error, arrow().ArrowException | OSError | UnicodeError):
            file_format = format_of(self._path) or ""
            reason = _WRONG_TEXT if file_format == "csv" else _DAMAGED
            return DataError(f"{self._path} cannot be read as {file_format}: {reason}")
        return None


def _delimiter(sign: str) -> str:
    written = "tab" if sign == "\t" else f"'{sign}'"
    return f"delimiter={sign!r} (--delimiter {written})"


def arrow() -> Any:
    """Return the package pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError("files other than .npy", "pyarrow", "files") from None
    return pyarrow


def generated_names(count: int) -> tuple[str, ...]:
    """Names for the columns of a file that has none."""
    return tuple(f"column_{i}" for i in range(1, count + 1))


def check_header(path: str, names: Sequence[str], options: TextOptions) -> None:
    """Refuse a first line that may be a record, or that another delimiter would split."""
    delimiter = options.delimiter_of(path)
    if len(names) == 1:
        other = [sign for sign in _SEPARATORS if sign != delimiter and sign in names[0]]
        if other:
            raise DataError(
                f"{path} must have fields separated by {delimiter!r}, but its one column has "
                f"{other[0]!r} in its name: use {_delimiter(other[0])}."
            )
    if any(map(reads_as_value, names)):
        raise DataError(
            f"{path} must begin with the names of its columns, but some in its first line read as "
            "numbers, dates or nulls, so that it may be a record, which would be published. If it "
            "is one, use header=False (--no-header). If not, give other names by names=[...] "
            "(--names a,b,c), or write the file without an index (pandas: index=False)."
        )


def check_different(path: str, names: Sequence[str]) -> None:
    """Refuse a first line with a name more than once."""
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise DataError(f"{path} must have {listed(twice)} once, got more: rename columns of it.")


def check_count(path: str, found: int, names: Sequence[str]) -> None:
    """Refuse another number of columns than of names."""
    if found != len(names):
        raise DataError(
            f"{path} must have a column for each of the {len(names)} names, got {found}: give one "
            "name for each column, or check the delimiter."
        )


def reads_as_value(name: str) -> bool:
    """Whether a name could be a value: a number, a date, a time, true, false or a null."""
    text = name.strip().casefold()
    if text in _NO_NAMES or _WRITTEN_DATE.fullmatch(text):
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
