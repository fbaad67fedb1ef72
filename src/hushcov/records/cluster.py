"""Records in the partitions of a Dask collection, summed over where they lie.

A partition never leaves its worker: what travels are the statistics, integers whose sums do not
depend on the order in which they are added. Workers that are lost cost time, not a bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov.exceptions import DataError, MissingPackageError
from hushcov.records.files import FileRecords, FileSpan
from hushcov.records.source import (
    ArrayRecords,
    BlockFunction,
    PartitionedRecords,
    Progress,
    Records,
)

_FAN_IN = 8  # statistics added up in one step of the tree
_ROWS_OF_PIECE = 2**18  # of a file, for one task


@dataclass(frozen=True)
class Piece:
    """Successive rows in one partition: `load(start, stop)` is a delayed table or Records."""

    n_rows: int
    load: Callable[[int, int], Any]


class DaskRecords(PartitionedRecords):
    """Rows of a dask array or dataframe, or of files that all workers can read.

    Parameters
    ----------
    data : dask array, dask dataframe or FileRecords
        Lengths of partitions are public. Where dask does not know them they are counted first.

    The sums run on the scheduler that dask would use: that of the current
    `dask.distributed.Client`, or threads of this process.

    Privacy
    -------
    Nothing here is private by itself; see `Records`.
    """

    def __init__(self, data: Any) -> None:
        _dask()
        if isinstance(data, FileRecords):
            pieces, n_features = _file_pieces(data), data.n_features
            self.gaps, self.feature_names = data.gaps, data.feature_names
        else:
            pieces, n_features = self._collection(data)
        self._pieces = tuple(piece for piece in pieces if piece.n_rows)
        self.n_records, self.n_features = sum(piece.n_rows for piece in self._pieces), n_features
        if not self.n_records or not n_features:
            raise DataError(
                "the dask collection must have at least one record and one feature: check how it "
                "was made."
            )

    def _collection(self, data: Any) -> tuple[list[Piece], int]:
        if hasattr(data, "to_dask_array"):
            self.feature_names = tuple(str(name) for name in data.columns)
            data = data.to_dask_array(lengths=True)
        if getattr(data, "ndim", None) != 2:
            raise DataError(
                "the dask collection must have two dimensions, records by features: pass an array "
                "or a dataframe of such a shape."
            )
        if any(math.isnan(length) for length in data.shape):
            data = data.compute_chunk_sizes()
        if data.numblocks[1] > 1:
            data = data.rechunk({1: -1})
        _check_kind(data.dtype)
        blocks = data.to_delayed()[:, 0]
        pieces = [
            Piece(length, _Sliced(block, length))
            for block, length in zip(blocks, data.chunks[0], strict=True)
        ]
        return pieces, data.shape[1]

    def map_sum_through(
        self,
        view: Callable[[Records], Records],
        rows_each: int,
        block_function: BlockFunction,
        *,
        progress: Progress | None = None,
    ) -> NDArray[np.int64]:
        """See `PartitionedRecords.map_sum_through`."""
        delayed = _dask().delayed
        work = delayed(_Work(view, block_function, self.gaps), pure=False)
        # Rows beyond the last whole group are dropped by the view, wherever they are.
        groups = [group for group in self._groups(rows_each) if _rows_of(group) >= rows_each]
        with _listening(progress) as topic:
            sums = [
                delayed(_sum_rows)(work, topic, *(piece.load(*rows) for piece, rows in group))
                for group in groups
            ]
            while len(sums) > 1:
                sums = [
                    delayed(_added)(*sums[start : start + _FAN_IN])
                    for start in range(0, len(sums), _FAN_IN)
                ]
            return np.asarray(sums[0].compute())

    def _groups(self, rows_each: int) -> Iterator[list[tuple[Piece, tuple[int, int]]]]:
        """Cut the rows so that no record is torn apart: a partition's own, and those at its edge.

        Of the rows at an edge, fewer than `rows_each` travel to their neighbours.
        """
        edge: list[tuple[Piece, tuple[int, int]]] = []
        for piece in self._pieces:
            missing = -_rows_of(edge) % rows_each
            first = min(missing, piece.n_rows)
            if first:
                edge.append((piece, (0, first)))
                if first < missing:
                    continue
                yield edge
                edge = []
            last = piece.n_rows - (piece.n_rows - first) % rows_each
            if first < last:
                yield [(piece, (first, last))]
            if last < piece.n_rows:
                edge = [(piece, (last, piece.n_rows))]
        if edge:
            yield edge


def _rows_of(group: Sequence[tuple[Piece, tuple[int, int]]]) -> int:
    return sum(stop - start for _, (start, stop) in group)


@dataclass(frozen=True)
class _Sliced:
    """Rows of a delayed array."""

    block: Any
    length: int

    def __call__(self, start: int, stop: int) -> Any:
        return self.block if (start, stop) == (0, self.length) else self.block[start:stop]


@dataclass(frozen=True)
class _Spanned:
    """Rows of a file."""

    records: FileRecords
    span: FileSpan

    def __call__(self, start: int, stop: int) -> Any:
        first = self.span.start
        part = FileSpan(self.span.path, self.span.format, first + start, first + stop)
        return self.records.only([part])


def _file_pieces(records: FileRecords) -> list[Piece]:
    """Spans of files; where one is long, pieces of it."""
    pieces = []
    for span in records.spans:
        for start in range(span.start, span.stop, _ROWS_OF_PIECE):
            stop = min(span.stop, start + _ROWS_OF_PIECE)
            part = FileSpan(span.path, span.format, start, stop)
            pieces.append(Piece(part.n_rows, _Spanned(records, part)))
    return pieces


@dataclass(frozen=True)
class _Work:
    """What to do with rows; it travels to them."""

    view: Callable[[Records], Records]
    block_function: BlockFunction
    gaps: bool

    def __call__(self, parts: Sequence[Any]) -> NDArray[np.int64]:
        if len(parts) == 1 and isinstance(parts[0], Records):
            records: Records = parts[0]
        else:
            records = ArrayRecords(np.concatenate([_table(part) for part in parts]))
            records.gaps = self.gaps
        return self.view(records).map_sum(self.block_function)


def _table(part: Any) -> NDArray[Any]:
    """Rows at the edge of a file are few; all others are arrays already."""
    return np.concatenate(list(part._blocks())) if isinstance(part, Records) else np.asarray(part)


def _sum_rows(work: _Work, topic: str | None, *parts: Any) -> NDArray[np.int64]:
    total = work(parts)
    if topic is not None:
        rows = sum(part.n_records if isinstance(part, Records) else len(part) for part in parts)
        _report(topic, rows)
    return total


def _report(topic: str, rows: int) -> None:
    from distributed import get_worker

    # There is a client, but dask may have been told to compute in this process all the same.
    with suppress(ValueError):
        get_worker().log_event(topic, rows)


def _added(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


@contextmanager
def _listening(progress: Progress | None) -> Iterator[str | None]:
    """Yield the topic on which workers report rows, if there are workers and a listener."""
    client = _client()
    if progress is None or client is None:
        yield None
        return
    # No two listeners of this client at the same time have one address and one time.
    topic = f"hushcov-{client.id}-{id(progress)}-{time.monotonic_ns()}"
    client.subscribe_topic(topic, lambda event: progress(event[1]))
    try:
        yield topic
    finally:
        client.unsubscribe_topic(topic)


def _client() -> Any:
    """The current client of a cluster, if there is one."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def _check_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biufO":
        raise DataError(
            f"the dask collection must hold real numbers, got dtype {dtype.type.__name__}: encode "
            "its columns as integers or floats."
        )


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise MissingPackageError("clusters", "dask", "dask") from None
    return dask
