"""Records that the workers of a Dask cluster sum over: in files they read, or in a collection.

With files, a task is told which rows to read and sends back sums of integers: no row is sent. With
a collection, dask may move rows between workers, so all workers must be trusted alike. Integer sums
are the same in any order, so a lost worker costs time but changes no result.

Where rows of a dask dataframe belong to units, its own shuffle brings them together. Each partition
then has all rows of its units, so that they are bounded where they are, and numbers of units are
local to a partition. Rows that a shuffle brings come in any order, which changes nothing: what is
summed of a unit is a rule of its rows alone.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hushcov._arrays import BoolArray, IntArray
from hushcov.exceptions import (
    INTERRUPTS,
    CapacityError,
    DataError,
    ForeignError,
    HushcovError,
    MissingPackageError,
    ParameterError,
    raise_alone,
)
from hushcov.kernel.records.base import (
    BlockFunction,
    CountedRecords,
    Held,
    Listeners,
    PartitionedRecords,
    Progress,
    Records,
    View,
    WrappedRecords,
    layers_of,
    source_of,
)
from hushcov.kernel.records.compact import ALL_ROWS, CompactRecords, KeptCopy
from hushcov.kernel.records.units import Units
from hushcov.tables.codebook import CodedRecords, FrameRecords
from hushcov.tables.files import FileRecords
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, check_frame, check_table
from hushcov.tables.units import check_identifiers, mixed_identifiers, number_identifiers

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
_LISTENERS: dict[tuple[int, str], Listeners] = {}
_TELLING = threading.Lock()
_KEY = "hushcov unit key"  # a column that says in which partition a row is to be
_LARGEST_KEY = 2**64 - 1
_Computed = TypeVar("_Computed")
_NOWHERE = object()  # in no copy


class KeptOfPiece:
    """Rows of a piece of a file, and on the worker that reads them their compact copy.

    Where this is pickled, the copy stays behind: whoever gets it reads the file. So dask may move
    it, or write it to a disk, and no row goes along.
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes, self._copy = n_bytes, KeptCopy(ALL_ROWS, None)

    def __reduce__(self) -> Any:
        return KeptOfPiece, (self._n_bytes,)

    def __sizeof__(self) -> int:
        return self._n_bytes  # from the start: dask asks once

    def serve(self, records: Records) -> Records:
        """Return the same records, which use the copy."""
        for layer in layers_of(records):
            if isinstance(layer, CompactRecords):
                layer.copy = self._copy
        return records


class DaskRecords(PartitionedRecords):
    """Rows of a dask array or dataframe, or of files that all workers can read.

    Parameters
    ----------
    data : dask array, dask dataframe, FrameRecords of one, or FileRecords
        Lengths of partitions are public. Where dask does not know them they are counted first.
        One task reads whole groups of rows of a Parquet file, whole record batches of an Arrow
        file, or a whole CSV file. So there must be many of these to keep many workers busy.

    The sums run on the scheduler that dask would use: that of the current
    `dask.distributed.Client`, or threads of this process.

    Privacy
    -------
    Workers that read files send sums of integers and numbers of rows, nothing else. They keep
    compact copies (`CompactRecords`) in their memory until the fit ends, at most a quarter of what
    dask lets them use, and send none. Rows of a collection may be sent from worker to worker. An
    error in the collection's own tasks becomes one of ours without their message, which workers
    log.
    """

    def __init__(self, data: Any) -> None:
        dask_module()
        self._in_files = isinstance(data, FileRecords)
        if isinstance(data, FileRecords):
            fewest = max(_FEWEST_ROWS, _ROWS_A_FEATURE * data.n_features)
            rows = min(_ROWS_OF_PIECE, max(fewest, -(-data.n_records // _FEW_PIECES)))
            self.n_features = data.n_features
            self.gaps, self.strict = data.gaps, data.strict
            self.feature_names = data.feature_names
            pieces = [(span.n_rows, data.only([span])) for span in data.pieces(rows)]
        elif isinstance(data, FrameRecords):
            pieces = self._coded(data)
        else:
            pieces = self._collection(data)
        # Numbers of successive rows, and the delayed table or the Records that a task sums over.
        self._pieces = [(n_rows, rows) for n_rows, rows in pieces if n_rows]
        self.n_records = sum(n_rows for n_rows, _ in self._pieces)

    def _coded(self, data: FrameRecords) -> list[tuple[int, Any]]:
        """Return the partitions of a dask dataframe as a codebook has them."""
        self.n_features, self.feature_names = data.n_features, data.feature_names
        frame, data.frame = data.frame, None  # tasks have their own parts of it
        sizes = computed(lambda: frame.map_partitions(len).compute())
        part = dask_module().delayed(data.of)
        return [(int(n), part(rows)) for n, rows in zip(sizes, frame.to_delayed(), strict=True)]

    def _collection(self, data: Any) -> list[tuple[int, Any]]:
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
        self.n_features = data.shape[1]
        return list(zip(data.chunks[0], data.to_delayed()[:, 0], strict=True))

    def map_sum_through(
        self, view: View, block_function: BlockFunction, listeners: Listeners, held: Held | None
    ) -> IntArray:
        """See `PartitionedRecords.map_sum_through`."""
        keepers = self._keepers(held)
        work = Work(view, block_function, self.gaps, self.strict)
        parts = [rows for _, rows in self._pieces]
        total = sum_parts(work, parts, listeners, np.empty((0, self.n_features)), keepers)
        if held is not None:
            held.complete = None not in keepers
        return total

    def _keepers(self, held: Held | None) -> list[Any]:
        """For each piece what keeps a compact copy of its rows where they are read, or None.

        Pieces are given to workers here, each to the one that has least to do for its threads.
        """
        if held is None or not self._in_files:
            return [None] * len(self._pieces)
        client = _client()
        place = None if client is None else client.id
        if place not in held.keepers:
            # By the number of records that is public or released: what is read again tells it.
            each = -(-2 * held.n_records * self.n_features // max(1, len(self._pieces)))
            places = _spread([each] * len(self._pieces), _capacities(client))
            keepers: list[Any] = [None] * len(places)
            for i, ((n_rows, _), where) in enumerate(zip(self._pieces, places, strict=True)):
                size = 2 * n_rows * self.n_features
                if where is not _NOWHERE and client is None:
                    keepers[i] = KeptOfPiece(size)
                elif where is not _NOWHERE:
                    how = {"workers": [where], "allow_other_workers": True, "pure": False}
                    keepers[i] = client.submit(KeptOfPiece, size, **how)
            held.keepers[place] = keepers
        return list(held.keepers[place])


def _client() -> Any:
    """Return the client of the scheduler that dask would use now; None where that is no cluster."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
    return client if hasattr(client, "scheduler_info") else None


def _capacities(client: Any) -> dict[Any, tuple[int, int]]:
    """Return the bytes that each worker may keep of the rows, and its threads."""
    if client is None:
        return {None: (_MOST_KEPT, 1)}
    return {
        name: (int(_SHARE_KEPT * (w["memory_limit"] or 4 * _MOST_KEPT)), w["nthreads"])
        for name, w in client.scheduler_info(n_workers=-1)["workers"].items()
    }


def _spread(sizes: Sequence[int], capacities: dict[Any, tuple[int, int]]) -> list[Any]:
    """Choose a place for each copy, by its size, and the bytes and threads of each place."""
    taken = dict.fromkeys(capacities, 0)
    found: list[Any] = [_NOWHERE] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        able = [place for place, (most, _) in capacities.items() if taken[place] + sizes[i] <= most]
        if able:
            place = min(able, key=lambda place: (taken[place] + sizes[i]) / capacities[place][1])
            taken[place] += sizes[i]
            found[i] = place
    return found


def sum_parts(
    work: Work,
    parts: Sequence[Any],
    listeners: Listeners,
    no_rows: Any,
    keepers: Sequence[Any] | None = None,
) -> IntArray:
    """Return the sum of what tasks make of their parts: delayed tables, or Records.

    `no_rows` is such a table without rows, for where there are none in all of them.
    """
    delayed = dask_module().delayed
    sent, add = delayed(work, pure=False), delayed(_added)
    pairs = zip(keepers or [None] * len(parts), parts, strict=True)
    with _listening(tuple(listeners)) as topic:
        sums = [delayed(_sum_rows)(sent, topic, *pair) for pair in pairs]
        while len(sums) > 1:
            sums = [add(*sums[start : start + _FAN_IN]) for start in range(0, len(sums), _FAN_IN)]
        total = computed(sums[0].compute) if sums else None
        return np.asarray(work(no_rows, lambda _: None) if total is None else total)


def computed(compute: Callable[[], _Computed]) -> _Computed:
    """Return what dask computes. Replace an error of the user's own tasks: it may quote rows.

    The new error is raised outside the `except` block, so that it does not refer to the old one.
    """
    try:
        return compute()
    except INTERRUPTS:
        raise
    except HushcovError as error:
        error.__cause__ = error.__context__ = None
        raise
    except BaseException as error:
        kind, full = type(error).__name__, isinstance(error, MemoryError)
    if full:
        raise CapacityError(
            "memory must suffice for tasks on the records, but it ran out: use smaller partitions."
        )
    raise ForeignError(
        f"tasks on the records must end without an error, but dask met a {kind}, whose message may "
        "quote records and is left out: look into the logs of the workers, or compute the "
        "collection by itself, where only those who may see the records look on."
    )


@dataclass(frozen=True)
class Work:
    """The sum that a task makes of its rows. Picklable: it is sent to the workers."""

    view: View
    block_function: BlockFunction
    gaps: bool
    strict: bool

    def __call__(self, rows: Any, report: Progress, keeper: KeptOfPiece | None = None) -> IntArray:
        """Return the sum over these rows."""
        records = rows if isinstance(rows, Records) else ArrayRecords(np.asarray(rows))
        records.gaps, records.strict = self.gaps, self.strict
        seen = self.view(WatchedRecords(records, lambda: None, report))
        if keeper is not None:
            seen = keeper.serve(seen)
        return seen.map_sum(self.block_function)


def _sum_rows(
    work: Work, topic: str | None, keeper: KeptOfPiece | None, rows: Any
) -> IntArray | None:
    """Sum over a part, and report its rows, many at a time, to the listeners of a topic."""
    if rows is None:
        return None  # a partition without rows
    counted = 0

    def report(n_rows: int, *, at_least: int = _ROWS_OF_REPORT) -> None:
        nonlocal counted
        counted += n_rows
        if topic is None or counted < at_least:
            return
        done, counted = counted, 0
        if (os.getpid(), topic) in _LISTENERS:
            _tell(topic, done)
            return
        from distributed import get_worker

        # With dask's own processes there is no worker, and progress cannot be reported.
        with suppress(ValueError):
            get_worker().log_event(topic, done)

    total = work(rows, report, keeper)
    report(0, at_least=1)
    return total


def _tell(topic: str, rows: int) -> None:
    """Call the listeners, from one thread at a time; do nothing after the sum has ended."""
    with _TELLING:
        for listener in _LISTENERS.get((os.getpid(), topic), ()):
            listener(rows)


def _added(*parts: IntArray | None) -> IntArray | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    total = found[0].copy()
    for part in found[1:]:
        total += part
    return total


@contextmanager
def _listening(listeners: tuple[Progress, ...]) -> Iterator[str | None]:
    """Yield the topic under which tasks report rows, here or on workers of a cluster."""
    if not listeners:
        yield None
        return
    client: Any = None
    place = os.getpid()
    with suppress(ImportError, ValueError):  # there is no current client of a cluster
        from distributed import get_client

        client = get_client()
    # Two tuples at the same time differ in their id, later ones in the time.
    topic = f"hushcov-{'' if client is None else client.id}-{id(listeners)}-{time.monotonic_ns()}"
    _LISTENERS[place, topic] = listeners
    if client is not None:
        client.subscribe_topic(topic, lambda event: _tell(topic, event[1]))
    try:
        yield topic
    finally:
        if client is not None:
            client.unsubscribe_topic(topic)
        del _LISTENERS[place, topic]


def dask_module() -> Any:
    """Return the package dask, or raise an error that says how to install it."""
    try:
        import dask
    except ImportError:
        raise MissingPackageError("clusters", "dask", "dask") from None
    return dask


class UnitPartitions(PartitionedRecords):
    """Rows of a dask dataframe without its column of identifiers, and whole units together.

    The first pass shuffles it. Workers of a cluster keep what they get until the fit ends, in
    memory or on disk as dask has it. Without a cluster rows are shuffled once more after their
    count and kept then, if as many as were released fit into memory; else every pass shuffles anew.

    Privacy
    -------
    Rows and identifiers are sent from worker to worker, so that all workers must be trusted alike.
    How often rows are shuffled depends on released numbers.
    """

    def __init__(self, frame: Any, label: Any) -> None:
        dask_module()
        features = frame.drop(columns=[label])
        check_frame(features)
        self.feature_names = tuple(str(name) for name in features.columns)
        self.n_features = len(self.feature_names)
        if not self.n_features:
            raise DataError("X must have a feature beside the unit, got none: add columns.")
        self._frame, self._label = frame, label
        self._shared: list[Any] = []  # the partitions, for copies of these records, too
        self.n_records = computed(lambda: len(frame))

    @property
    def parts(self) -> list[Any]:
        """Delayed partitions of whole units; those that are kept go when the records go."""
        if not self._shared:
            meta = self._frame._meta.assign(**{_KEY: np.zeros(0, dtype=np.uint64)})
            keyed = self._frame.map_partitions(_keyed, self._label, meta=meta)
            local = dask_module().delayed(_local)
            shuffled = computed(lambda: keyed.shuffle(on=_KEY).to_delayed())
            self._shared.extend(local(part, self._label) for part in shuffled)
            if _client() is not None:
                self._keep()
        return self._shared

    def _keep(self) -> None:
        """Keep the shuffled rows, where they are not kept already."""
        self._shared[:] = computed(partial(dask_module().persist, *self.parts))

    def sum_partitions(self, views: Sequence[Any], block_function: BlockFunction) -> IntArray:
        """See `PartitionedRecords.sum_partitions`."""
        # By the released number of rows, as the number of shuffles tells it; not if it is of units.
        counted = [view.n_records for view in views if isinstance(view, CountedRecords)]
        of_units = any(isinstance(each, WithinPartitions) and not each.most_rows for each in views)
        fits = counted and part_bytes(counted[0], self.n_features) <= _MOST_KEPT
        if fits and not of_units and _client() is None:
            self._keep()
        return super().sum_partitions(views, block_function)

    def units(self) -> PartitionUnits:
        """Return the units of the rows."""
        return PartitionUnits(np.zeros(0, dtype=np.int64), self)

    def map_sum_through(
        self, view: View, block_function: BlockFunction, listeners: Listeners, held: Held | None
    ) -> IntArray:
        """See `PartitionedRecords.map_sum_through`; no compact copies are kept."""
        work = Work(view, block_function, self.gaps, self.strict)
        none = PartRecords(np.empty((0, self.n_features)), Units(np.zeros(0, dtype=np.int64)), int)
        return sum_parts(work, self.parts, listeners, none)


@dataclass(frozen=True, eq=False)
class PartitionUnits(Units):
    """Units of which each is in one partition, as numbers that are local to it."""

    records: UnitPartitions

    @cached_property
    def sizes(self) -> IntArray:
        """Numbers of rows of the units; identifiers of several types are refused."""
        delayed = dask_module().delayed
        looked = delayed([delayed(_sizes)(part) for part in self.records.parts])
        found = [each for each in computed(looked.compute) if each is not None]
        if len({kind for kind, _ in found}) > 1:
            raise mixed_identifiers()
        return np.concatenate([np.zeros(0, dtype=np.int64), *(sizes for _, sizes in found)])

    def bounded(self, records: Records, most_rows: int) -> Records:
        """See `Units.bounded`; done in the partitions."""
        n_rows = int(np.minimum(self.sizes, most_rows).sum())
        return WithinPartitions(records, n_rows, most_rows)

    def means(self, records: Records) -> Records:
        """See `Units.means`; done in the partitions."""
        return WithinPartitions(records, len(self.sizes), None)


class WithinPartitions(WrappedRecords):
    """Records that are made of whole units in every partition: so many rows, or else means."""

    def __init__(self, records: Records, n_rows: int, most_rows: int | None) -> None:
        super().__init__(records, n_rows)
        self.most_rows = most_rows

    def _blocks(self) -> Iterator[Any]:
        raise NotImplementedError("rows of partitions are not handed out: use map_sum")

    def _view(self) -> View:
        return partial(_bounded, most_rows=self.most_rows)


class PartRecords(ArrayRecords):
    """Rows of one partition, with the numbers of their units there."""

    def __init__(self, features: Any, units: Units, kind: type) -> None:
        super().__init__(features)
        self.units, self.kind = units, kind

    def __sizeof__(self) -> int:
        return part_bytes(self.n_records, self.n_features)  # dask sends tasks to where most is


@dataclass(frozen=True, eq=False)
class PartUnits(Units):
    """Units of a partition, which remember the choice of their rows for the next pass."""

    known: dict[str, BoolArray] = field(default_factory=dict)

    def chosen(self, records: Records, most_rows: int) -> BoolArray:
        """See `Units.chosen`."""
        from dask.base import tokenize

        views: list[Any] = layers_of(records)[:-1]
        key = tokenize([(view._view(), view.gaps) for view in views], most_rows)
        if key not in self.known:
            self.known.clear()
            self.known[key] = super().chosen(records, most_rows)
        return self.known[key]


def part_bytes(n_rows: int, n_features: int) -> int:
    """Return the bytes of rows with their units."""
    return 8 * n_rows * (n_features + 1)


def _bounded(records: Records, most_rows: int | None) -> Records:
    """Bound the units of a partition, or average them if no bound is given."""
    part = source_of(records)
    assert isinstance(part, PartRecords)
    if most_rows is None:
        return part.units.means(records)
    return part.units.bounded(records, most_rows)


def _keyed(frame: Any, label: Any) -> Any:
    """Add a key to each row, equal for equal identifiers; others may share it."""
    from pandas.util import hash_array

    found = check_identifiers(frame[label], len(frame))
    if not len(found) or found.dtype.kind in "iu":
        keys = found.astype(np.uint64)
    elif _type_of(found) is int:
        keys = np.array([int(each) & _LARGEST_KEY for each in found], dtype=np.uint64)
    else:
        keys = hash_array(found.astype(object), categorize=False)
    return frame.assign(**{_KEY: keys})


def _type_of(identifiers: Any) -> type:
    """Return the type of what `check_identifiers` returned: integers, text or bytes."""
    first = identifiers[0]
    return int if isinstance(first, int | np.integer) else str if isinstance(first, str) else bytes


def _local(frame: Any, label: Any) -> PartRecords | None:
    if not len(frame):
        return None
    found = check_identifiers(frame[label], len(frame))
    units = PartUnits(number_identifiers(found))
    return PartRecords(frame.drop(columns=[label, _KEY]), units, _type_of(found))


def _sizes(part: PartRecords | None) -> tuple[str, IntArray] | None:
    # The name of the type: dask 2024.8 calls what is first in a tuple, if it can be called.
    return None if part is None else (part.kind.__name__, part.units.sizes)


@contextmanager
def on_cluster(path: Path, records: Records, scheduler: str) -> Iterator[Records]:
    """Yield the records of a path as the workers of a cluster read them, while it is connected."""
    files = source_of(records)
    for name in ("scratch", "memory"):
        if getattr(files, name) is not None:
            raise ParameterError(
                f"{name} must be left out with a scheduler: workers keep copies in a share of "
                "their own memory, and write nothing."
            )
    if not isinstance(files, FileRecords):
        raise ParameterError(
            f"scheduler must be left out for {path}: workers read Parquet, Arrow or CSV files."
        )
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError("clusters", "dask", "dask") from None

    try:
        # The current client until it is closed, which the records find by themselves.
        client = Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        raise_alone(
            DataError(
                f"scheduler must be the address of a running Dask scheduler, got {scheduler!r}: "
                "start one with 'dask scheduler', or leave it out of the settings."
            )
        )
    with client:
        elsewhere = DaskRecords(files)
        yield records.on(elsewhere) if isinstance(records, CodedRecords) else elsewhere
