"""Parquet, Arrow and CSV files through pyarrow: their columns and rows, and rows in batches.

Columns must be in every file, be numbers and have no nulls.

In a text file the first line may name the columns. Every other line is a record, and a blank one is
a record of nulls: if it were skipped, the number of records would depend on their values. The names
in the first line are published with a release. So if one of them could be a value, the line may be
a record, and it is refused.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushcov._validation import listed, shown
from hushcov.exceptions import (
    DataError,
    HushcovError,
    MissingPackageError,
    ParameterError,
    RecordsFileError,
)
from hushcov.records.sources import format_of, refuse_nulls

# Without a buffer size pyarrow holds a whole group of rows, and many writers make groups of a
# million. With it, pyarrow holds one page of each column, its dictionary if any, and this buffer.
_STREAM_BYTES = 2**14
_DAMAGED = "it is damaged, of another format than its name says, or two columns share a name."
# Errors of pyarrow for text without rows, or of a single line without an end.
_NO_ROWS = ("Empty CSV file", "Could not skip initial")
_EMPTY = "must hold at least one record, got none: the file is empty. Check how it was written."
_WRONG_TEXT = (
    "a line has too many or too few fields, a value in a column of numbers is none, two columns "
    "share a name, or it is not in UTF-8. Write it again; make a value that is no number empty by "
    "a rule that uses its own record alone, and use drop_nulls=True (--drop-nulls)."
)


_SEPARATORS = (";", "\t", "|", ",")
_READ_BYTES = 2**20
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
            not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'
        ):
            raise ParameterError(
                f"delimiter must be one character, got {shown(delimiter)}: leave it out for "
                "commas, or for tabs in .tsv files."
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
    Columns in `texts` are read as they are, others as numbers.
    """

    path: str
    format: str
    start: int
    stop: int
    batch: int = 0
    batch_start: int = 0
    text: TextOptions = field(default_factory=TextOptions)
    texts: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


def schema_of(path: str, file_format: str, text: TextOptions) -> Any:
    """Names and types of the columns; those of text files are guessed from the first lines."""
    with readable(path, header=text.header):
        try:
            schema = _opened(path, file_format, text).schema
        except arrow().ArrowInvalid as error:
            names = _names_alone(path, text) if _has_no_rows(error) else ()
            if not names:
                raise
            schema = arrow().schema([(name, arrow().null()) for name in names])
        _ = schema.names  # decoding them may fail: do it here, where errors are translated
        return schema


def count_rows(path: str, file_format: str, text: TextOptions) -> int:
    """Number of rows; files that do not store it are read."""
    with readable(path):
        try:
            return int(_opened(path, file_format, text).count_rows())
        except arrow().ArrowInvalid as error:
            if _has_no_rows(error) and _names_alone(path, text):
                return 0
            raise


def _has_no_rows(error: Exception) -> bool:
    """Whether pyarrow found no row in a text file; a line of names without an end is none to it."""
    return any(words in str(error) for words in _NO_ROWS)


def _names_alone(path: str, text: TextOptions) -> tuple[str, ...]:
    """Names of the columns of a text file with no line end; empty where nobody knows them."""
    with arrow().input_stream(path) as file:
        line = file.read(_READ_BYTES).decode("utf-8-sig")
    if not line:
        return () if text.header else text.names or ()
    fields = tuple(next(csv.reader([line], delimiter=text.delimiter_of(path))))
    return text.names or (fields if text.header else generated_names(len(fields)))


def is_empty(path: str) -> bool:
    """Whether there is no line at all in a text file."""
    with readable(path), arrow().input_stream(path) as file:
        return not file.read(1)


def _opened(path: str, file_format: str, text: TextOptions, types: Any = None) -> Any:
    kind = _csv_format(path, text, types) if file_format == "csv" else file_format
    from pyarrow.dataset import dataset

    return dataset(path, format=kind)


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


def _csv_batches(span: FileSpan, names: list[str], rows: int) -> Iterator[tuple[int, Any]]:
    """Read columns as floats: pyarrow would guess integers from the first rows, and fail at 0.5."""
    pa, schema = arrow(), schema_of(span.path, "csv", span.text)
    found = {name: schema.field(name).type for name in names}
    kinds = {
        name: kind if pa.types.is_boolean(kind) else pa.float64() for name, kind in found.items()
    }
    kinds |= {name: pa.string() for name in names if name in span.texts}
    batches = _opened(span.path, "csv", span.text, kinds).to_batches(
        columns=names, batch_size=rows, batch_readahead=2, fragment_readahead=1
    )
    yield from _placed(batches, 0)


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

    def __init__(self, path: str, *, header: bool = False) -> None:
        self._path, self._header = path, header

    def __enter__(self) -> None:
        arrow()

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        pa = arrow()
        if isinstance(error, HushcovError):
            return
        if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
            raise RecordsFileError(
                f"{self._path} cannot be opened: check the path and its permissions."
            ) from None
        if isinstance(error, pa.ArrowException | OSError | UnicodeError):
            file_format = format_of(self._path) or ""
            if _has_no_rows(error):
                raise DataError(f"{self._path} {_EMPTY}") from None
            reason = _WRONG_TEXT if file_format == "csv" else _DAMAGED
            if file_format == "csv" and self._header:
                reason = _wrong_header(self._path)
            raise DataError(f"{self._path} cannot be read as {file_format}: {reason}") from None


def _wrong_header(path: str) -> str:
    """What is wrong with a text file, by a first line that has names and is no record."""
    import pyarrow

    with suppress(OSError, pyarrow.ArrowException), pyarrow.input_stream(path) as file:
        first = file.read(_READ_BYTES).partition(b"\n")[0].decode("latin-1")
        other = [sign for sign in _SEPARATORS if sign in first and "," not in first]
        if other:
            return f"its first line has {other[0]!r} and no comma: use {_delimiter(other[0])}."
        fields = [field.strip(' "\r') for field in first.split(",")]
        if len(set(fields)) < len(fields) and not any(map(reads_as_value, fields)):
            twice = [name for name in dict.fromkeys(fields) if fields.count(name) > 1]
            return f"its first line has {listed(twice)} more than once: rename columns of it."
    return _WRONG_TEXT


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


def _csv_format(
    path: str, options: TextOptions, column_types: Mapping[str, Any] | None = None
) -> Any:
    """Return pyarrow's options for a text file; without `column_types` it guesses the types."""
    from pyarrow import csv as arrow_csv
    from pyarrow import dataset

    named = options.names is not None
    return dataset.CsvFileFormat(
        parse_options=arrow_csv.ParseOptions(
            delimiter=options.delimiter_of(path), ignore_empty_lines=False
        ),
        # Not skip_rows_after_names: with it pyarrow 26 also counts the line that it skips.
        read_options=arrow_csv.ReadOptions(
            column_names=options.names,
            skip_rows=int(options.header and named),
            autogenerate_column_names=not options.header and not named,
        ),
        convert_options=arrow_csv.ConvertOptions(column_types=column_types),
    )


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


def check_count(path: str, found: int, names: Sequence[str]) -> None:
    """Refuse another number of columns than of names."""
    if found != len(names):
        raise DataError(
            f"{path} must have a column for each of the {len(names)} names, got {found}: give one "
            "name for each column, or check the delimiter."
        )


def check_last_line(path: str) -> None:
    """Refuse a file of one column that does not end with a line end.

    Without it, nobody could tell whether a last record is null or missing.
    """
    import pyarrow

    last = b""
    with pyarrow.input_stream(path) as file:
        while part := file.read(_READ_BYTES):
            last = part[-1:]
    if last not in (b"\n", b"\r"):
        raise DataError(
            f"{path} must end with a line end, as a last record that is null could not be told "
            "from none in a file of one column: add an empty line at its end."
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
