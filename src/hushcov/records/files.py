"""Records in Parquet, Arrow or CSV files, streamed in blocks through pyarrow."""

from __future__ import annotations

import glob
import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._compiled import threads
from hushcov._validation import check_integer
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.columns import Columns
from hushcov.records.formats import (
    FORMATS,
    FileSpan,
    arrow,
    columns_with_nulls,
    count_rows,
    cut,
    read_batches,
    schema_of,
)
from hushcov.records.source import Records, default_block_rows

Blocks = Generator[NDArray[np.float64], None, None]

_WILDCARDS = set("*?[")
_NOT_RECORDS = ("_", ".")  # how names of files begin that writers keep for themselves
# Decoded at a time: pyarrow spends some microseconds on each column of each batch.
_BATCH_BYTES = 32 * 2**20
# Blocks that wait for their turn while a batch is decoded.
_AHEAD_BYTES = 32 * 2**20
_MOST_AHEAD = 8


class FileRecords(Records):
    """Records in files of one format, read in blocks, so that they need not fit in memory.

    Parameters
    ----------
    source : str, path-like or sequence of them
        A file, a folder, a pattern such as `data/*.parquet` or `data/**/*.parquet`, or several of
        them. Parquet (.parquet), Arrow (.arrow, .feather, .ipc) and CSV (.csv). Of a folder all
        files are read, in folders inside it too, except those whose names (or folders) begin with
        `_` or `.`. Files of a folder or pattern are taken in the order of their paths.
    columns : sequence of str, optional
        The features, by name and in this order; all columns of the first file if left out. They
        must be numbers or booleans. What names of folders say, such as `year=2024`, is no column
        and so never a feature.
    drop_nulls : bool, default=False
        Leave out records with a null or NaN, which otherwise are an error. They count as records
        still: `n_records` is public and does not depend on values.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.

    Notes
    -----
    Memory does not depend on the number of records. Of a Parquet file it is one page and twice the
    dictionary of every column, so that of continuous values, which have no use for dictionaries,
    a file written without them (`use_dictionary=False`) takes less. Arrow files are mapped; a
    compressed record batch is held whole.

    Privacy
    -------
    Nothing here is private by itself. Names of files and columns, types and numbers of rows are
    public. That a column has nulls is told by an error unless they are dropped.
    """

    #: Whether blocks are read while others are worked on.
    _ahead = True

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
        file_format = FORMATS[Path(paths[0]).suffix]
        self._names = self.feature_names = _feature_names(paths, file_format, columns)
        self.n_features = len(self._names)
        self._set_spans(
            [FileSpan(path, file_format, 0, count_rows(path, file_format)) for path in paths]
        )
        if self.n_records == 0:
            raise DataError(
                f"{paths[0]} and its like must hold at least one record, got none: check how they "
                "were written."
            )
        if not drop_nulls:  # what the files themselves say of nulls is refused before any charge
            for path in paths:
                for name in columns_with_nulls(path, file_format, self._names):
                    raise _incomplete(name)
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
        """The records of these spans alone, for one of many who read at the same time."""
        part = FileRecords.__new__(FileRecords)
        part.__dict__ |= self.__dict__
        part._ahead = False
        part._set_spans(spans)
        return part

    def pieces(self, rows: int) -> list[FileSpan]:
        """Spans of about this many rows, or more where fewer could not be read on their own."""
        return [piece for span in self.spans for piece in cut(span, self._names[0], rows)]

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        blocks = self._read_blocks()
        if self._ahead and self.n_records > self.block_rows and threads() > 1:
            count = _AHEAD_BYTES // (8 * self.block_rows * self.n_features)
            return _read_ahead(blocks, min(max(1, count), _MOST_AHEAD))
        return blocks

    def _read_blocks(self) -> Blocks:
        block = np.empty((min(self.block_rows, self.n_records), self.n_features))
        filled = 0
        for span in self.spans:
            for columns in self._columns(span):
                taken = 0
                while taken < columns.n_rows:
                    count = min(columns.n_rows - taken, len(block) - filled)
                    columns.fill(block[filled : filled + count], taken)
                    taken, filled = taken + count, filled + count
                    if filled == len(block):
                        yield _read_only(block)
                        block, filled = np.empty_like(block), 0
                del columns  # before the next ones are read
        if filled:
            yield _read_only(block[:filled])

    def _columns(self, span: FileSpan) -> Iterator[Columns]:
        """Columns of successive rows of a span, without copying numbers that are float64."""
        most = max(self.block_rows, _power_of_two(_BATCH_BYTES // (8 * self.n_features)))
        for position, batch in read_batches(span, self._names, most):
            stop = min(span.stop - position, batch.num_rows)
            for start in range(max(span.start - position, 0), stop, most):
                yield self._converted(batch.slice(start, min(most, stop - start)))
            if position + batch.num_rows >= span.stop:
                return
            del batch  # before the next one is made

    def _converted(self, batch: Any) -> Columns:
        named = zip(self._names, batch.columns, strict=True)
        return Columns([_to_numpy(name, column, self.gaps) for name, column in named])


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


def _read_ahead(blocks: Blocks, count: int) -> Blocks:
    """The same blocks; `count` more are made in another thread while one is in use.

    However this ends, the thread has ended then, and what the blocks were read from is closed.
    """
    reader = ThreadPoolExecutor(1, thread_name_prefix="hushcov-reader")
    try:
        following = deque(reader.submit(next, blocks, None) for _ in range(count))
        while (block := following.popleft().result()) is not None:
            following.append(reader.submit(next, blocks, None))
            yield block
            del block  # it is of no use while waiting for the next one
    finally:
        reader.shutdown(cancel_futures=True)
        blocks.close()


def _power_of_two(most: int) -> int:
    """The largest one up to `most`: pyarrow allocates powers of two for what it decodes."""
    return 1 << (max(1, most).bit_length() - 1)


def _read_only(block: NDArray[np.float64]) -> NDArray[np.float64]:
    block.setflags(write=False)
    return block


def _find(source: Any) -> list[str]:
    """The files that are meant, in order, all of one format."""
    several = isinstance(source, list | tuple)
    paths = [path for item in (source if several else [source]) for path in _expanded(str(item))]
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


def _expanded(path: str) -> list[str]:
    """The files in a folder, or in what a pattern matches; a name of a file is itself."""
    if os.path.isdir(path):
        inside = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        return [str(file) for file in sorted(inside) if _holds_records(file.relative_to(path))]
    if _WILDCARDS & set(path) and not os.path.exists(path):
        matches = sorted(glob.glob(path, recursive=True))
        return [file for match in matches for file in _expanded(match)]
    return [path]


def _holds_records(path: Path) -> bool:
    return path.suffix in FORMATS and not any(part.startswith(_NOT_RECORDS) for part in path.parts)


def _feature_names(
    paths: Sequence[str], file_format: str, columns: Sequence[str] | None
) -> tuple[str, ...]:
    """The chosen columns, after checking that every file has them, and as numbers."""
    schemas = [schema_of(path, file_format) for path in paths]
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
                    "choose columns that all files have (names of folders are no columns)."
                )
            _check_type(path, name, schema.field(name).type)
    return names


def _check_type(path: str, name: str, kind: Any) -> None:
    types = arrow().types
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_kind(kind) for is_kind in numeric):
        raise DataError(
            f"{path} must hold numbers, but column {name!r} has type {kind}: encode it as numbers, "
            "or choose columns without it."
        )


def _incomplete(name: str) -> DataError:
    return DataError(
        f"records must be complete, but column {name!r} has nulls: impute them beforehand, by "
        "a rule that treats each record on its own, or leave such records out with drop_nulls."
    )


def _to_numpy(name: str, column: Any, gaps: bool) -> NDArray[np.float64]:
    if column.null_count and not gaps:
        raise _incomplete(name)
    pa = arrow()
    if column.null_count or not (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        column = column.cast(pa.float64(), safe=False)
    return np.require(column.to_numpy(zero_copy_only=False), np.float64, ["C", "A"])
