"""Parquet, Arrow and CSV files through pyarrow: their columns and rows, and rows in batches.

Columns must be in every file, be numbers and have no nulls.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushcov._validation import listed, shown
from hushcov.exceptions import DataError, HushcovError, MissingPackageError, RecordsFileError
from hushcov.records.sources.memory import is_arrow_number, refuse_nulls
from hushcov.records.sources.text import TextOptions, csv_format

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
# Without a buffer size pyarrow holds a whole group of rows, and many writers make groups of a
# million. With it, pyarrow holds one page of each column, its dictionary if any, and this buffer.
_STREAM_BYTES = 2**14
_DAMAGED = "it is damaged, of another format than its name says, or two columns share a name."
# Errors of pyarrow for text without rows, or of a single line without an end.
_NO_ROWS = ("Empty CSV file", "Could not skip initial")
NO_RECORDS = "must hold at least one record, got none: it has no rows. Check how it was written."
_WRONG_TEXT = (
    "a line has too many or too few fields, a value in a column of numbers is none, "
    "two columns share a name, or it is not in UTF-8."
)


@dataclass(frozen=True)
class FileSpan:
    """Rows `start` to `stop` - 1 of a file. Picklable: it is sent to the worker that reads them.

    In an Arrow file, reading begins at record batch `batch`, whose first row is `batch_start`.
    """

    path: str
    format: str
    start: int
    stop: int
    batch: int = 0
    batch_start: int = 0
    text: TextOptions = field(default_factory=TextOptions)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


def format_of(path: str) -> str | None:
    """The format by the ending of a file's name, or None."""
    return next((kind for ending, kind in FORMATS.items() if path.endswith(ending)), None)


def schema_of(path: str, file_format: str, text: TextOptions) -> Any:
    """Names and types of the columns; those of text files are guessed from the first lines."""
    with _readable(path):
        schema = _opened(path, file_format, text).schema
        _ = schema.names  # decoding them may fail: do it here, where errors are translated
        return schema


def count_rows(path: str, file_format: str, text: TextOptions) -> int:
    """Number of rows; files that do not store it are read."""
    with _readable(path):
        return int(_opened(path, file_format, text).count_rows())


def _opened(path: str, file_format: str, text: TextOptions, types: Any = None) -> Any:
    kind = csv_format(path, text, types) if file_format == "csv" else file_format
    return _dataset().dataset(path, format=kind)


def read_batches(span: FileSpan, names: Sequence[str], rows: int) -> Iterator[tuple[int, Any]]:
    """Yield record batches that cover a span, in order, each with its first row's number.

    Reading may begin before the span: at a group of rows of a Parquet file, a record batch of an
    Arrow file, the start of a text file. A batch has about `rows` rows; the batches of an Arrow
    file are those in the file, and are not copied.
    """
    readers = {"parquet": _parquet_batches, "ipc": _arrow_batches, "csv": _csv_batches}
    with _readable(span.path):
        yield from readers[span.format](span, list(names), rows)


def cut(span: FileSpan, name: str, rows: int) -> list[FileSpan]:
    """Cut a span into parts of about this many rows, so that nothing is read twice.

    Groups of rows of a Parquet file, record batches of an Arrow file and text files stay whole.
    `name` is any column.
    """
    with _readable(span.path):
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


def chosen_columns(
    paths: Sequence[str], schemas: Sequence[Any], columns: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the features, after checking that they are columns of numbers in every file."""
    names = tuple(schemas[0].names if columns is None else columns)
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"columns must be names that all differ, at least one, got {len(names)} with "
            f"{len(set(names))} different ones: choose columns, or rename them in {paths[0]}."
        )
    for path, schema in zip(paths, schemas, strict=True):
        _check_there(path, schema.names, names)
        _check_types(path, schema, names)
    return names


def check_files_complete(paths: Sequence[str], file_format: str, names: Sequence[str]) -> None:
    """Refuse columns with nulls if the files say so, without reading their rows."""
    found = {name for path in paths for name in _columns_with_nulls(path, file_format, names)}
    refuse_nulls([name for name in names if name in found])


def _columns_with_nulls(path: str, file_format: str, names: Sequence[str]) -> set[str]:
    """The columns with nulls by the statistics of a Parquet file; empty for other formats."""
    if file_format != "parquet":
        return set()
    with _readable(path), _open_parquet(path) as file:
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


def _check_there(path: str, found: Sequence[str], names: Sequence[str]) -> None:
    bad = [name for name in names if found.count(name) != 1]
    if not bad:
        return
    twice = [name for name in bad if name in found]
    if twice:
        raise DataError(f"{path} must have {listed(twice)} once, got more: rename columns of it.")
    close = [match for name in bad for match in difflib.get_close_matches(name, found, 1)]
    hint = f"did you mean {', '.join(map(shown, dict.fromkeys(close)))}? " if close else ""
    raise DataError(
        f"{path} must have {listed(bad)}, got none of that name: {hint}choose columns that all "
        "files have (names of folders are no columns)."
    )


def _check_types(path: str, schema: Any, names: Sequence[str]) -> None:
    pa, text = arrow(), path.endswith((".csv", ".tsv", ".gz"))
    kinds = {name: schema.field(name).type for name in names}
    # A column of a text file whose first rows are all null has no type yet.
    bad = [
        name
        for name, kind in kinds.items()
        if not is_arrow_number(pa, kind) and not (text and pa.types.is_null(kind))
    ]
    if not bad:
        return
    types = ", ".join(dict.fromkeys(str(kinds[name]) for name in bad))
    apart = ", or check the delimiter" if text else ""
    raise DataError(
        f"{path} must hold numbers, but {listed(bad)} {'has' if len(bad) == 1 else 'have'} type "
        f"{types}: encode as numbers, choose columns without it{apart}."
    )


class _readable:
    """Replace pyarrow's errors by ours, which quote no value of the file."""

    def __init__(self, path: str) -> None:
        self._path = path

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
            if any(words in str(error) for words in _NO_ROWS):
                raise DataError(f"{self._path} {NO_RECORDS}") from None
            reason = _WRONG_TEXT if file_format == "csv" else _DAMAGED
            raise DataError(f"{self._path} cannot be read as {file_format}: {reason}") from None


def arrow() -> Any:
    """Return the package pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError("files other than .npy", "pyarrow", "files") from None
    return pyarrow


def _dataset() -> Any:
    import pyarrow.dataset

    return pyarrow.dataset
