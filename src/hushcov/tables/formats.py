"""Parquet, Arrow and CSV files through pyarrow: their columns and rows, and rows in batches.

Columns must be in every file and be numbers. A field of a text file that is none is handed on as
text: `cells` says what it counts as.

In a text file the first line may name the columns. What follows is records, and a blank line is one
of nulls: if it were skipped, the number of records would depend on their values. The names in the
first line are published with a release. So if one of them could be a value, the line may be a
record, and it is refused. Where records are is found once (`find_layout`); pyarrow gets whole ones,
so that nothing depends on where its blocks end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from hushcov._compiled import threads
from hushcov.exceptions import (
    DataError,
    HushcovError,
    MissingPackageError,
    RecordsFileError,
    raise_alone,
)
from hushcov.tables.cells import MISSING_CODES
from hushcov.tables.sources import format_of
from hushcov.tables.text import TextLayout, TextOptions, find_layout, first_fields, read_blocks

# Without a buffer size pyarrow holds a whole group of rows, and many writers make groups of a
# million. With it, pyarrow holds one page of each column, its dictionary if any, and this buffer.
_STREAM_BYTES = 2**14
_DAMAGED = "it is damaged, of another format than its name says, or two columns share a name."
WRONG_TEXT = (
    "a line has too many or too few fields, or it is not in UTF-8. Open it in an editor, or write "
    "it again."
)
_NO_NUMBER = re.compile(r"In CSV column #(\d+): .*CSV conversion error")
_MOST_PARSED = 4  # blocks of text that are parsed at the same time


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

    @property
    def is_text(self) -> bool:
        """Whether it is a text file, whose types and rows are not stated."""
        return self.format == "csv"


def whole_file(path: str, file_format: str, text: TextOptions) -> FileSpan:
    """Return the span of all rows of a file; those of a text file are counted."""
    if file_format != "csv":
        with readable(path):
            return FileSpan(path, file_format, 0, int(_dataset(path, file_format).count_rows()))
    delimiter = text.delimiter_of(path)
    n_columns = len(first_fields(path, delimiter))
    with readable(path):
        layout = find_layout(path, delimiter, n_columns, header=text.header)
    return FileSpan(path, file_format, 0, layout.n_records, text=text, layout=layout)


def schema_of(span: FileSpan) -> Any:
    """Return names and types of the columns; of text files guessed from their first block.

    What a column of a text file holds that is not of numbers throughout is up to `is_text`.
    """
    with readable(span.path):
        if span.format == "csv":
            assert span.layout is not None
            pa, names = arrow(), names_in(span)
            for block in read_blocks(span.path, span.layout):
                return _parser(span, names, {})(block).schema
            return pa.schema([(name, pa.null()) for name in names])
        schema = _dataset(span.path, span.format).schema
        _ = schema.names  # decoding them may fail: do it here, where errors are translated
        return schema


def first_texts(span: FileSpan, names: Sequence[str]) -> dict[str, Any]:
    """Return columns of the first block of a text file, as text; it is read for no column, too."""
    assert span.layout is not None
    with readable(span.path):
        found = names_in(span)
        for block in read_blocks(span.path, span.layout):
            if not names:
                break
            kinds = dict.fromkeys(names, arrow().string())
            table = _parser(span, found, kinds, include_columns=list(names))(block)
            return {name: decoded(table.column(name).combine_chunks()) for name in names}
    return {}


def decoded(column: Any) -> Any:
    """Return bytes as text; signs that are not UTF-8 are replaced, in their own field alone."""
    pa = arrow()
    if not pa.types.is_binary(column.type):
        return column
    given = (None if each is None else each.decode(errors="replace") for each in column.to_pylist())
    return pa.array(given, pa.string())


def _dataset(path: str, file_format: str) -> Any:
    from pyarrow.dataset import dataset

    return dataset(path, format=file_format)


def changed(path: str) -> DataError:
    """Return the refusal of a file that has other rows than when it was opened."""
    return DataError(
        f"{path} must have the rows that it had when it was opened, got others: leave files "
        "unchanged while they are in use."
    )


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
    sizes = [span.stop]
    with readable(span.path):
        if span.format == "parquet":
            sizes = group_sizes(span.path)
        elif span.format == "ipc":
            # pyarrow tells the size of a record batch only when it reads a column of it.
            sizes = [batch.num_rows for _, batch in _arrow_batches(span, [name], 0)]
    parts: list[FileSpan] = []
    unit_start = span.batch_start
    for unit, size in enumerate(sizes, start=span.batch):
        start, stop = max(unit_start, span.start), min(unit_start + size, span.stop)
        if start < stop:
            if parts and stop - parts[-1].start <= rows:
                parts[-1] = replace(parts[-1], stop=stop)
            else:
                batch, batch_start = (unit, unit_start) if span.format == "ipc" else (0, 0)
                part = replace(span, start=start, stop=stop, batch=batch, batch_start=batch_start)
                parts.append(part)
        unit_start += size
    return parts


def _parquet_batches(span: FileSpan, names: list[str], rows: int) -> Iterator[tuple[int, Any]]:
    with _open_parquet(span.path) as file:
        stops = np.cumsum([group.num_rows for group in _groups(file.metadata)])
        first, last = np.searchsorted(stops, [span.start, span.stop - 1], side="right").tolist()
        groups = list(range(first, last + 1))
        position = int(stops[first - 1]) if first else 0
        yield from _placed(file.iter_batches(rows, row_groups=groups, columns=names), position)


class GroupReader:
    """Columns of whole groups of rows of a Parquet file, some at a time; several threads may read.

    pyarrow decodes a few columns of a group in a third of the time that batches of all columns
    take, since pages of the others need not be held.
    """

    def __init__(self, path: str) -> None:
        self._path, self._free = path, list[Any]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._free:
            file.close()

    def read(self, group: int, names: Sequence[str]) -> list[Any]:
        """Return columns of a group, by name."""
        with readable(self._path):
            try:
                file = self._free.pop()
            except IndexError:
                file = _open_parquet(self._path)
            try:
                table = file.read_row_group(group, columns=list(names), use_threads=False)
            finally:
                self._free.append(file)  # one for each thread at most
            found = [table.column(name) for name in names]
            return [
                each.combine_chunks() if each.num_chunks > 1 else each.chunk(0) for each in found
            ]


def group_sizes(path: str) -> list[int]:
    """Return how many rows the groups of a Parquet file have."""
    with readable(path), _open_parquet(path) as file:
        return [group.num_rows for group in _groups(file.metadata)]


def _open_parquet(path: str) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, buffer_size=_STREAM_BYTES, pre_buffer=False)


def _groups(metadata: Any) -> list[Any]:
    return [metadata.row_group(i) for i in range(metadata.num_row_groups)]


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

    Columns are read as floats. In a block where one has other fields, it is handed on as text.
    """
    pa, layout, found = arrow(), span.layout, names_in(span)
    assert layout is not None
    kinds = {name: pa.string() if name in span.texts else pa.float64() for name in names}
    parse = _parser(span, found, kinds, include_columns=names)

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
    """Return the names of all columns of a text file."""
    return span.text.names or first_fields(span.path, span.text.delimiter_of(span.path))


def _parser(
    span: FileSpan, names: Sequence[str], kinds: dict[str, Any], **options: Any
) -> Callable[[bytes], Any]:
    """Return a function that makes a table of a block of whole records.

    Where a column does not have the type that `kinds` says, it is text in that block, or bytes
    where that is not UTF-8.
    """
    from pyarrow import BufferReader, csv

    pa, sign, odd = arrow(), span.text.delimiter_of(span.path), dict[str, Any]()
    how = csv.ParseOptions(delimiter=sign, ignore_empty_lines=False, newlines_in_values=True)

    def parse(block: bytes) -> Any:
        # One byte more than there are: all is one block for pyarrow, too.
        read = csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False)
        types = kinds | odd  # what had other fields before is likely to have some again
        while True:
            conversion = csv.ConvertOptions(
                column_types=types, null_values=MISSING_CODES, **options
            )
            try:
                return csv.read_csv(BufferReader(block), read, how, conversion)
            except pa.ArrowInvalid as error:
                column = _NO_NUMBER.match(str(error))
                name = None if column is None else names[int(column[1])]
                if name is None or types.get(name) in (None, pa.binary()):
                    raise
                other = pa.binary() if types[name] == pa.string() else pa.string()
                types = types | {name: other}
                odd[name] = pa.string()

    return parse


def _placed(batches: Iterable[Any], position: int) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        n_rows = batch.num_rows
        yield position, batch
        position += n_rows
        del batch  # before the next one is made


def stated_nulls(spans: Sequence[FileSpan]) -> set[str]:
    """Return columns with nulls by the statistics of Parquet files, without reading their rows."""
    found = set()
    for path in dict.fromkeys(span.path for span in spans if span.format == "parquet"):
        with readable(path), _open_parquet(path) as file:
            for group in _groups(file.metadata):
                for chunk in (group.column(i) for i in range(group.num_columns)):
                    counts = chunk.statistics
                    if counts is not None and counts.has_null_count and counts.null_count:
                        found.add(chunk.path_in_schema)
    return found


@dataclass
class readable:
    """Replace pyarrow's errors by ours, which quote no value of the file."""

    path: str

    def __enter__(self) -> None:
        arrow()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        found: DataError | None = None
        if isinstance(error, HushcovError):
            pass
        elif isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
            words = "cannot be opened: check the path and its permissions."
            found = RecordsFileError(f"{self.path} {words}")
        elif isinstance(error, arrow().ArrowException | OSError | UnicodeError):
            file_format = format_of(self.path) or ""
            reason = WRONG_TEXT if file_format == "csv" else _DAMAGED
            found = DataError(f"{self.path} cannot be read as {file_format}: {reason}")
        del kind, error, trace  # nothing here may refer to them when it raises
        if found is not None:
            raise_alone(found)


def arrow(what: str = "files other than .npy") -> Any:
    """Return the package pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError(what, "pyarrow", "files") from None
    return pyarrow
