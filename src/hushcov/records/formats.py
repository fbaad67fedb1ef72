"""What pyarrow is asked: names, types and numbers of rows of a file, and its rows in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushcov.exceptions import DataError, MissingPackageError

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
}
# Without it pyarrow holds a group of rows whole, and the default of many writers is one group of a
# million rows. Of each column it then holds a page, its dictionary if it has one, and this.
_STREAM_BYTES = 2**14


@dataclass(frozen=True)
class FileSpan:
    """Rows `start` to `stop` of a file; it travels to whoever reads them.

    Of an Arrow file `batch` is the record batch at which reading begins, and `batch_start` the
    first row of that.
    """

    path: str
    format: str
    start: int
    stop: int
    batch: int = 0
    batch_start: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


def schema_of(path: str, file_format: str) -> Any:
    """Names and types of the columns."""
    with _readable(path):
        schema = _dataset().dataset(path, format=file_format).schema
        _ = schema.names  # decoding them may fail, so not later
        return schema


def count_rows(path: str, file_format: str) -> int:
    """Number of rows, without reading them where the format counts them."""
    with _readable(path):
        return int(_dataset().dataset(path, format=file_format).count_rows())


def columns_with_nulls(path: str, file_format: str, names: Sequence[str]) -> list[str]:
    """Columns of which the file says that they have nulls; rows are not read. Parquet says so."""
    if file_format != "parquet":
        return []
    found: set[str] = set()
    with _readable(path), _open_parquet(path) as file:
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        for chunk in (group.column(i) for group in groups for i in range(group.num_columns)):
            about = chunk.statistics
            if about is not None and about.has_null_count and about.null_count:
                found.add(chunk.path_in_schema)
    return [name for name in names if name in found]


def read_batches(span: FileSpan, names: Sequence[str], rows: int) -> Iterator[tuple[int, Any]]:
    """Record batches with all rows of a span, in order and few at a time in memory.

    Each comes with its position in the file. Parquet files are read from the first group of rows
    that has one of the span, Arrow files from a record batch, text from the start. `rows` is about
    how many a batch should have; Arrow files have theirs, which are not copied.
    """
    readers = {"parquet": _parquet_batches, "ipc": _arrow_batches, "csv": _csv_batches}
    with _readable(span.path):
        yield from readers[span.format](span, list(names), rows)


def cut(span: FileSpan, name: str, rows: int) -> list[FileSpan]:
    """Parts of a span of about this many rows, none of which is read for the sake of another.

    A group of rows of a Parquet file and a record batch of an Arrow file stay whole, and so does
    text. `name` is a column.
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
                parts.append(FileSpan(span.path, span.format, start, stop, *place))
        unit_start += size
    return parts


def _unit_sizes(span: FileSpan, name: str) -> list[int]:
    """Numbers of rows that are read together, from where reading the span begins."""
    if span.format == "parquet":
        with _open_parquet(span.path) as file:
            return _group_sizes(file.metadata)
    if span.format == "ipc":
        # Rows of a batch are counted by reading one column of it.
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
    """Columns as numbers whatever the first rows look like: integers may be followed by 0.5."""
    import pyarrow.csv

    types, schema = pyarrow.types, schema_of(span.path, "csv")
    found = {name: schema.field(name).type for name in names}
    kinds = {
        name: kind if types.is_boolean(kind) else pyarrow.float64() for name, kind in found.items()
    }
    options = pyarrow.csv.ConvertOptions(column_types=kinds)
    dataset = _dataset().dataset(
        span.path, format=_dataset().CsvFileFormat(convert_options=options)
    )
    batches = dataset.to_batches(
        columns=names, batch_size=rows, batch_readahead=2, fragment_readahead=1
    )
    yield from _placed(batches, 0)


def _placed(batches: Iterable[Any], position: int) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        n_rows = batch.num_rows
        yield position, batch
        position += n_rows
        del batch  # before the next one is made


class _readable:
    """Turn what pyarrow raises on a damaged file into an error that quotes no value."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        arrow()

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        pa = arrow()
        if isinstance(error, pa.ArrowException | OSError | UnicodeError):
            raise DataError(
                f"{self._path} cannot be read as {FORMATS[Path(self._path).suffix]}: it is "
                "damaged, of another format than its name says, or two columns share a name."
            ) from None


def arrow() -> Any:
    """The package pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError("files other than .npy", "pyarrow", "files") from None
    return pyarrow


def _dataset() -> Any:
    import pyarrow.dataset

    return pyarrow.dataset
