"""Records that the workers of a Dask cluster sum over: in files they read, or in a collection.

With files, a task is told which rows to read and sends back sums of integers: no row is sent. With
a collection, dask may move rows between workers, so all workers must be trusted alike. Integer sums
are the same in any order, so a lost worker costs time but changes no result.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hushcov._arrays import IntArray
from hushcov.exceptions import DataError, HushcovError, MissingPackageError
from hushcov.sums.records import (
    BlockFunction,
    Held,
    PartitionedRecords,
    Progress,
    Records,
    View,
    WatchedRecords,
)
from hushcov.tables.compact import KeptOfPiece
from hushcov.tables.files import FileRecords
from hushcov.tables.formats import FileSpan
from hushcov.tables.sources import ArrayRecords, check_frame, check_table

_FAN_IN = 8  # sums added up in one task
# Rows of a file for one task, at most. Where that makes fewer tasks than this, a worker would often
# wait for another that has one more, so there are fewer rows, but not so few that sums of pairs of
# features take long beside them.
_ROWS_OF_PIECE, _FEW_PIECES, _FEWEST_ROWS, _ROWS_A_FEATURE = 2**18, 64, 2**14, 8
# What workers keep in copies: a share of the memory that dask gives them, or so many bytes where
# there is no worker or no limit.
_SHARE_KEPT, _MOST_KEPT = 0.25, 2**28
_ROWS_OF_REPORT = 2**16  # rows between two reports of progress
# Progress callbacks by process and topic. A fork of this process has its own number and none.
_LISTENERS: dict[tuple[int, str], Progress] = {}
_TELLING = threading.Lock()
_Computed = TypeVar("_Computed")


@dataclass(frozen=True)
class Piece:
    """Successive rows in one partition: `load(start, stop)` is a delayed table or Records."""

    n_rows: int
    load: Callable[[int, int], Any]


#: Rows start to stop - 1 of one or more pieces; one task sums over them.
Group = list[tuple[Piece, tuple[int, int]]]


class DaskRecords(PartitionedRecords):
    """Rows of a dask array or dataframe, or of files that all workers can read.

    Parameters
    ----------
    data : dask array, dask dataframe or FileRecords
        Lengths of partitions are public. Where dask does not know them they are counted first.
        One task reads whole groups of rows of a Parquet file, whole record batches of an Arrow
        file, or a whole CSV file. So there must be many of these to keep many workers busy.

    The sums run on the scheduler that dask would use: that of the current
    `dask.distributed.Client`, or threads of this process.

    Privacy
    -------
    Nothing here is private by itself; see `Records`. Workers that read files send sums of integers
    and numbers of rows, nothing else. They keep compact copies (`CompactRecords`) in their memory
    until the fit ends, at most a quarter of what dask lets them use, and send none. Rows of a
    collection may be sent from worker to worker: at the edges of partitions if rows are paired, and
    whole partitions if dask moves work. An error in the collection's own tasks becomes a
    `DataError` without their message; workers log the message.
    """

    def __init__(self, data: Any) -> None:
        dask_module()
        self._in_files = isinstance(data, FileRecords)
        if isinstance(data, FileRecords):
            spans = data.pieces(_rows_of_piece(data.n_records, data.n_features))
            pieces = [Piece(span.n_rows, _Spanned(data, span)) for span in spans]
            n_features = data.n_features
            self.gaps, self.feature_names = data.gaps, data.feature_names
        else:
            pieces, n_features = self._collection(data)
        self._pieces = tuple(piece for piece in pieces if piece.n_rows)
        self.n_records, self.n_features = sum(piece.n_rows for piece in self._pieces), n_features

    def _collection(self, data: Any) -> tuple[list[Piece], int]:
        check_frame(data)
        if hasattr(data, "to_dask_array"):
            self.feature_names = tuple(str(name) for name in data.columns)
            data = computed(partial(data.to_dask_array, lengths=True))
        if getattr(data, "ndim", None) != 2:
            raise DataError(
                "the dask collection must have two dimensions, records by features: pass an array "
                "or a dataframe of such a shape."
            )
        if any(math.isnan(length) for length in data.shape):
            data = computed(data.copy().compute_chunk_sizes)  # which changes the array in place
        if data.numblocks[1] > 1:
            data = data.rechunk({1: -1})
        check_table("the dask collection", data.shape, data.dtype, kinds="biufO")
        blocks = data.to_delayed()[:, 0]
        pieces = [
            Piece(length, _Sliced(block, length))
            for block, length in zip(blocks, data.chunks[0], strict=True)
        ]
        return pieces, data.shape[1]

    def map_sum_through(
        self,
        view: View,
        rows_each: int,
        block_function: BlockFunction,
        *,
        progress: Progress | None = None,
        held: Held | None = None,
    ) -> IntArray:
        """See `PartitionedRecords.map_sum_through`."""
        # Fewer than `rows_each` rows make no record: the view would leave them out.
        cut = self._file_groups if self._in_files else self._groups
        groups = [group for group in cut(rows_each) if _rows_of(group) >= rows_each]
        keepers = self._keepers(groups, rows_each, held)
        loaded = [[piece.load(*rows) for piece, rows in group] for group in groups]
        work = Work(view, block_function, self.gaps)
        total = sum_groups(work, loaded, progress, np.empty((0, self.n_features)), keepers)
        if held is not None:
            held.complete = None not in keepers
        return total

    def _keepers(self, groups: Sequence[Group], rows_each: int, held: Held | None) -> list[Any]:
        """For each group what keeps a compact copy of its rows where they are read, or None.

        Groups are given to workers here, each to the one that has least to do for its threads.
        """
        if held is None or not self._in_files:
            return [None] * len(groups)
        client = _used_client()
        place = (rows_each, None if client is None else client.id)
        if place not in held.keepers:
            sizes = [2 * _rows_of(group) * self.n_features for group in groups]
            rooms = {None: (_MOST_KEPT, 1)} if client is None else _rooms(client)
            held.keepers[place] = [
                None if where is _NOWHERE else _keeper(client, where, size)
                for where, size in zip(_spread(sizes, rooms), sizes, strict=True)
            ]
        return list(held.keepers[place])

    def _groups(self, rows_each: int) -> Iterator[Group]:
        """Group rows so that the `rows_each` rows of a record stay together.

        A partition's whole records are one group. The rows of a record that lies in several
        partitions are a group of their own, so that few rows are sent.
        """
        edge: Group = []
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

    def _file_groups(self, rows_each: int) -> Iterator[Group]:
        """The same for files: a piece whose last record is cut takes rows of the next piece.

        Those are the first rows there. Its last rows would be read only after all others.
        """
        group: Group = []
        for piece in self._pieces:
            first = min(-_rows_of(group) % rows_each, piece.n_rows)
            if first:
                group.append((piece, (0, first)))
            if _rows_of(group) % rows_each == 0:
                if group:
                    yield group
                group = [(piece, (first, piece.n_rows))] if first < piece.n_rows else []
        if group:
            yield group


def _rows_of_piece(n_records: int, n_features: int) -> int:
    fewest = max(_FEWEST_ROWS, _ROWS_A_FEATURE * n_features)
    return min(_ROWS_OF_PIECE, max(fewest, -(-n_records // _FEW_PIECES)))


_NOWHERE = object()  # in no copy


def _spread(sizes: Sequence[int], rooms: dict[Any, tuple[int, int]]) -> list[Any]:
    """Where copies of these sizes go, by the room and the threads of each place."""
    taken = dict.fromkeys(rooms, 0)
    found: list[Any] = [_NOWHERE] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        able = [place for place, (room, _) in rooms.items() if taken[place] + sizes[i] <= room]
        if able:
            place = min(able, key=lambda place: (taken[place] + sizes[i]) / rooms[place][1])
            taken[place] += sizes[i]
            found[i] = place
    return found


def _keeper(client: Any, worker: Any, n_bytes: int) -> Any:
    if client is None:
        return KeptOfPiece(n_bytes)
    return client.submit(
        KeptOfPiece, n_bytes, workers=[worker], allow_other_workers=True, pure=False
    )


def _rooms(client: Any) -> dict[str, tuple[int, int]]:
    """Bytes that each worker may keep in copies, and its threads."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {
        address: (int(_SHARE_KEPT * (each["memory_limit"] or 4 * _MOST_KEPT)), each["nthreads"])
        for address, each in workers.items()
    }


def _used_client() -> Any:
    """The client of the scheduler that dask would use now; None where that is no cluster."""
    from dask.base import get_scheduler

    found = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
    return found if hasattr(found, "scheduler_info") else None


def sum_groups(
    work: Work,
    groups: Sequence[Any],
    progress: Progress | None,
    no_rows: Any,
    keepers: Sequence[Any] | None = None,
) -> IntArray:
    """The sum of what tasks make of their groups of delayed tables or Records.

    `no_rows` is such a table without rows, for where there are none in all of them.
    """
    delayed = dask_module().delayed
    sent = delayed(work, pure=False)
    keepers = [None] * len(groups) if keepers is None else keepers
    with _listening(progress) as topic:
        sums = [
            delayed(_sum_rows)(sent, topic, keeper, *group)
            for group, keeper in zip(groups, keepers, strict=True)
        ]
        while len(sums) > 1:
            sums = [
                delayed(_added)(*sums[start : start + _FAN_IN])
                for start in range(0, len(sums), _FAN_IN)
            ]
        total = computed(sums[0].compute) if sums else None
        return np.asarray(work([no_rows], _ignore) if total is None else total)


def computed(compute: Callable[[], _Computed]) -> _Computed:
    """Return what dask computes. Replace an error of the user's own tasks: it may quote rows.

    The new error is raised outside the `except` block, so that it does not refer to the old one.
    """
    try:
        return compute()
    except (HushcovError, MemoryError) as error:
        error.__cause__ = error.__context__ = None
        raise
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"tasks on the records must end without an error, but dask met a {kind}, whose message may "
        "quote records and is left out: look into the logs of the workers, or compute the "
        "collection by itself, where only those who may see the records look on."
    )


def _rows_of(group: Group) -> int:
    return sum(stop - start for _, (start, stop) in group)


@dataclass(frozen=True)
class _Sliced:
    """Load rows of a delayed array."""

    block: Any
    length: int

    def __call__(self, start: int, stop: int) -> Any:
        return self.block if (start, stop) == (0, self.length) else self.block[start:stop]


@dataclass(frozen=True)
class _Spanned:
    """Load rows of a file."""

    records: FileRecords
    span: FileSpan

    def __call__(self, start: int, stop: int) -> Any:
        first = self.span.start
        return self.records.only([replace(self.span, start=first + start, stop=first + stop)])


@dataclass(frozen=True)
class Work:
    """What a task does with its rows. Picklable: it is sent to the workers."""

    view: View
    block_function: BlockFunction
    gaps: bool

    def __call__(
        self, parts: Sequence[Any], report: Progress, keeper: KeptOfPiece | None = None
    ) -> IntArray:
        """The sum over these rows."""
        records = _joined(parts)
        records.gaps = self.gaps
        seen = self.view(WatchedRecords(records, _nothing, report))
        if keeper is not None:
            seen = keeper.serve(seen)
        return seen.map_sum(self.block_function)


def _joined(parts: Sequence[Any]) -> Records:
    if isinstance(parts[0], ArrayRecords):
        return parts[0]  # whole units, which are not joined
    if isinstance(parts[0], FileRecords):
        return parts[0].only([span for part in parts for span in part.spans])
    tables = [np.asarray(part) for part in parts]
    return ArrayRecords(tables[0] if len(tables) == 1 else np.concatenate(tables))


def _nothing() -> None:
    pass


def _ignore(_: int) -> None:
    pass


def _sum_rows(
    work: Work, topic: str | None, keeper: KeptOfPiece | None, *parts: Any
) -> IntArray | None:
    if parts[0] is None:
        return None  # a partition without rows
    report = _Report(topic)
    total = work(parts, report, keeper)
    report.send()
    return total


class _Report:
    """Counts rows and reports them, many at a time, to the listener of a topic."""

    def __init__(self, topic: str | None) -> None:
        self._topic = topic
        self._rows = 0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        if self._rows >= _ROWS_OF_REPORT:
            self.send()

    def send(self) -> None:
        """Report the rows since the last report."""
        rows, self._rows = self._rows, 0
        if self._topic is None or not rows:
            return
        if (os.getpid(), self._topic) in _LISTENERS:
            _tell(self._topic, rows)
            return
        from distributed import get_worker

        # With dask's own processes there is no worker, and progress cannot be reported.
        with suppress(ValueError):
            get_worker().log_event(self._topic, rows)


def _tell(topic: str, rows: int) -> None:
    """Call the listener, from one thread at a time; do nothing after the sum has ended."""
    with _TELLING:
        progress = _LISTENERS.get((os.getpid(), topic))
        if progress is not None:
            progress(rows)


def _added(*parts: IntArray | None) -> IntArray | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    total = found[0].copy()
    for part in found[1:]:
        total += part
    return total


@contextmanager
def _listening(progress: Progress | None) -> Iterator[str | None]:
    """Yield the topic under which tasks report rows, here or on workers of a cluster."""
    if progress is None:
        yield None
        return
    client, place = _client(), os.getpid()
    # Two listeners at the same time differ in their id, later ones in the time.
    topic = f"hushcov-{'' if client is None else client.id}-{id(progress)}-{time.monotonic_ns()}"
    _LISTENERS[place, topic] = progress
    if client is not None:
        client.subscribe_topic(topic, lambda event: _tell(topic, event[1]))
    try:
        yield topic
    finally:
        if client is not None:
            client.unsubscribe_topic(topic)
        del _LISTENERS[place, topic]


def _client() -> Any:
    """Return the current client of a cluster, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def dask_module() -> Any:
    """Return the package dask, or raise an error that says how to install it."""
    try:
        import dask
    except ImportError:
        raise MissingPackageError("clusters", "dask", "dask") from None
    return dask
