"""Records in Parquet, Arrow or CSV files, streamed in blocks through pyarrow."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._validation import check_integer
from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.records.source import Records, default_block_rows

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
}
_WILDCARDS = set("*?[")


@dataclass(frozen=True)
class FileSpan:
    """Rows `start` to `stop` of a file; it travels to whoever reads them."""

    path: str
    format: str
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


class FileRecords(Records):
    """Records in files of one format, read in blocks, so that they need not fit in memory.

    Parameters
    ----------
    source : str, path-like or sequence of them
        A file, a folder, a pattern such as `data/*.parquet`, or several files. Parquet
        (.parquet), Arrow (.arrow, .feather, .ipc) and CSV (.csv). Files of a folder or pattern are
        taken in the order of their names.
    columns : sequence of str, optional
        The features, by name and in this order; all columns of the first file if left out. They
        must be numbers or booleans.
    drop_nulls : bool, default=False
        Leave out records with a null or NaN, which otherwise are an error. They count as records
        still: `n_records` is public and does not depend on values.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.

    Privacy
    -------
    Nothing here is private by itself. Names of files and columns, types and numbers of rows are
    public. That a column has nulls is told by an error unless they are dropped.
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        drop_nulls: bool = False,
        block_rows: int | None = None,
    ) -> None:
        if not isinstance(drop_nulls, bool):
            raise ParameterError("drop_nulls must be True or False: choose one.")
        if isinstance(columns, str):
            raise ParameterError(
                "columns must be a sequence of names, got one string: pass a list, even of one."
            )
        paths = _find(source)
        self._format = FORMATS[Path(paths[0]).suffix]
        self.feature_names = _feature_names(paths, self._format, columns)
        self.n_features = len(self.feature_names)
        counts = [_count_rows(path, self._format) for path in paths]
        self._set_spans(
            [
                FileSpan(path, self._format, 0, count)
                for path, count in zip(paths, counts, strict=True)
            ]
        )
        if self.n_records == 0:
            raise DataError(
                f"{paths[0]} and its like must hold at least one record, got none: check how they "
                "were written."
            )
        self.gaps = drop_nulls
        if block_rows is None:
            block_rows = default_block_rows(self.n_features)
        self.block_rows = check_integer(
            "block_rows", block_rows, at_least=1, cure="leave it out for the default."
        )

    def _set_spans(self, spans: Sequence[FileSpan]) -> None:
        self.spans = tuple(span for span in spans if span.n_rows)
        self.n_records = sum(span.n_rows for span in self.spans)

    def only(self, spans: Sequence[FileSpan]) -> FileRecords:
        """The records of these spans alone."""
        part = FileRecords.__new__(FileRecords)
        part.__dict__ |= self.__dict__
        part._set_spans(spans)
        return part

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        block = np.empty((min(self.block_rows, self.n_records), self.n_features))
        filled = 0
        for span in self.spans:
            for columns, n_rows in self._batches(span):
                taken = 0
                while taken < n_rows:
                    count = min(n_rows - taken, len(block) - filled)
                    _fill(block[filled : filled + count], columns, taken)
                    taken, filled = taken + count, filled + count
                    if filled == len(block):
                        yield _read_only(block)
                        block, filled = np.empty_like(block), 0
        if filled:
            yield _read_only(block[:filled])

    def _batches(self, span: FileSpan) -> Iterator[tuple[list[NDArray[Any]], int]]:
        """Columns of successive rows of a span, as NumPy arrays without copying where possible."""
        for position, batch in _read(span, self.feature_names or (), self.block_rows):
            first = max(span.start - position, 0)
            last = min(span.stop - position, batch.num_rows)
            if first < last:
                part = batch.slice(first, last - first)
                names = zip(self.feature_names or (), part.columns, strict=True)
                yield [_to_numpy(name, column, self.gaps) for name, column in names], last - first
            if position + batch.num_rows >= span.stop:
                return


def is_file_source(source: object) -> bool:
    """Whether `source` names files that `FileRecords` reads, or might."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(item, str | os.PathLike) for item in source)
    if not isinstance(source, str | os.PathLike):
        return False
    path = Path(source)
    # Unlike Path.is_dir this has an answer for names that are too long.
    is_folder = os.path.isdir(path)
    return path.suffix in FORMATS or is_folder or bool(_WILDCARDS & set(str(source)))


def _fill(block: NDArray[np.float64], columns: list[NDArray[Any]], start: int) -> None:
    for j, column in enumerate(columns):
        block[:, j] = column[start : start + len(block)]


def _read_only(block: NDArray[np.float64]) -> NDArray[np.float64]:
    block.setflags(write=False)
    return block


def _find(source: Any) -> list[str]:
    """The files that are meant, in order, all of one format."""
    if isinstance(source, list | tuple):
        paths = [str(item) for item in source]
    elif os.path.isdir(source):
        inside = sorted(path for path in Path(source).iterdir() if path.suffix in FORMATS)
        paths = [str(path) for path in inside]
    elif _WILDCARDS & set(str(source)) and not os.path.exists(source):
        paths = sorted(glob.glob(str(source)))
    else:
        paths = [str(source)]
    if not paths:
        raise DataError(
            f"{source} must lead to files whose names end in {', '.join(FORMATS)}, got none: check "
            "the path."
        )
    found = {FORMATS.get(Path(path).suffix) for path in paths}
    if None in found or len(found) > 1:
        raise DataError(
            f"{source} must lead to files of one format, {', '.join(FORMATS)}, got several or "
            "another: name the files that are meant."
        )
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise DataError(f"{missing[0]} does not exist: check the path.")
    return paths


def _feature_names(
    paths: Sequence[str], file_format: str, columns: Sequence[str] | None
) -> tuple[str, ...]:
    """The chosen columns, after checking that every file has them, and as numbers."""
    schemas = [_schema(path, file_format) for path in paths]
    names = tuple(schemas[0].names if columns is None else columns)
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"columns must be names that all differ, at least one, got {len(names)} with "
            f"{len(set(names))} different ones: choose columns, or rename them in {paths[0]}."
        )
    for path, schema in zip(paths, schemas, strict=True):
        for name in names:
            if schema.names.count(name) != 1:
                raise DataError(
                    f"{path} must have one column {name!r}, got {schema.names.count(name)}: "
                    "choose columns that all files have."
                )
            _check_type(path, name, schema.field(name).type)
    return names


def _check_type(path: str, name: str, kind: Any) -> None:
    types = _pyarrow().types
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_kind(kind) for is_kind in numeric):
        raise DataError(
            f"{path} must hold numbers, but column {name!r} has type {kind}: encode it as numbers, "
            "or choose columns without it."
        )


def _to_numpy(name: str, column: Any, gaps: bool) -> NDArray[Any]:
    if column.null_count and not gaps:
        raise DataError(
            f"records must be complete, but column {name!r} has nulls: impute them beforehand, by "
            "a rule that treats each record on its own, or leave such records out with drop_nulls."
        )
    pa = _pyarrow()
    if column.null_count or not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _read(span: FileSpan, names: Sequence[str], batch_rows: int) -> Iterator[tuple[int, Any]]:
    """Record batches with all rows of a span, in order and few at a time in memory.

    Each comes with its position in the file. Parquet files are read from the first group of rows
    that has one of the span, others from their start.
    """
    with _readable(span.path):
        if span.format == "parquet":
            with _parquet().ParquetFile(span.path) as file:
                position, groups = _row_groups(file.metadata, span)
                batches = file.iter_batches(batch_rows, row_groups=groups, columns=list(names))
                yield from _placed(batches, position)
        else:
            form = _csv_of_numbers(span.path, names) if span.format == "csv" else span.format
            dataset = _dataset().dataset(span.path, format=form)
            batches = dataset.to_batches(
                columns=list(names), batch_size=batch_rows, batch_readahead=2, fragment_readahead=1
            )
            yield from _placed(batches, 0)


def _row_groups(metadata: Any, span: FileSpan) -> tuple[int, list[int]]:
    """Where the first group with rows of the span starts, and which groups have any."""
    stops = np.cumsum([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])
    first, last = np.searchsorted(stops, [span.start, span.stop - 1], side="right").tolist()
    return int(stops[first - 1]) if first else 0, list(range(first, last + 1))


def _placed(batches: Iterable[Any], position: int) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        yield position, batch
        position += batch.num_rows


def _csv_of_numbers(path: str, names: Sequence[str]) -> Any:
    """Columns as numbers whatever the first rows look like: integers may be followed by 0.5."""
    import pyarrow.csv

    pa, schema = _pyarrow(), _schema(path, "csv")
    found = {name: schema.field(name).type for name in names}
    kinds = {
        name: kind if pa.types.is_boolean(kind) else pa.float64() for name, kind in found.items()
    }
    options = pyarrow.csv.ConvertOptions(column_types=kinds)
    return _dataset().CsvFileFormat(convert_options=options)


def _schema(path: str, file_format: str) -> Any:
    with _readable(path):
        schema = _dataset().dataset(path, format=file_format).schema
        _ = schema.names  # decoding them may fail, so not later
        return schema


def _count_rows(path: str, file_format: str) -> int:
    with _readable(path):
        return int(_dataset().dataset(path, format=file_format).count_rows())


class _readable:
    """Turn what pyarrow raises on a damaged file into an error that quotes no value."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        _pyarrow()

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        pa = _pyarrow()
        if isinstance(error, pa.ArrowException | OSError | UnicodeError):
            raise DataError(
                f"{self._path} cannot be read as {FORMATS[Path(self._path).suffix]}: it is "
                "damaged, of another format than its name says, or two columns share a name."
            ) from None


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError("files other than .npy", "pyarrow", "files") from None
    return pyarrow


def _dataset() -> Any:
    import pyarrow.dataset

    return pyarrow.dataset


def _parquet() -> Any:
    import pyarrow.parquet

    return pyarrow.parquet
