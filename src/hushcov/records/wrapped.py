"""Records made of other records: the same rows changed one by one, paired, or watched."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushcov.records.source import BlockFunction, PartitionedRecords, Progress, Records

#: Turns rows that lie elsewhere into what was made of them here.
View = Callable[[Records], Records]


class WrappedRecords(Records):
    """Base of records that are made of others, a few neighbouring rows at a time.

    Where the innermost records lie in partitions elsewhere, the whole chain of wrappers is sent
    there, so that the same code runs on the rows wherever they are.
    """

    #: How many rows of the wrapped records make one record.
    rows_each = 1

    def __init__(self, records: Records) -> None:
        self.n_records, self.n_features = records.n_records, records.n_features
        self.gaps, self.feature_names = records.gaps, records.feature_names
        self._records = records

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """See `Records.map_sum`."""
        self._check_gaps(block_function)
        views: list[View] = []
        watchers: list[WatchedRecords] = []
        source: Records = self
        rows_each = 1
        while isinstance(source, WrappedRecords):
            if isinstance(source, WatchedRecords):
                watchers.append(source)
            else:
                views.append(source._view())
            rows_each *= source.rows_each
            source = source._records
        if not isinstance(source, PartitionedRecords):
            return super().map_sum(block_function, progress=progress)
        for watcher in watchers:
            watcher.start()
        listeners = [watcher.progress for watcher in watchers] + ([progress] if progress else [])
        return source.map_sum_through(
            Chain(tuple(reversed(views))),
            rows_each,
            block_function,
            progress=_All(tuple(listeners)),
        )

    def with_gaps(self) -> Self:
        """See `Records.with_gaps`."""
        other = copy.copy(self)
        other._records = self._records.with_gaps()
        other.gaps = other._records.gaps
        return other

    @abstractmethod
    def _view(self) -> View:
        """What makes the same of other rows; it travels, so it must not hold any."""


@dataclass(frozen=True)
class Chain:
    """One view after another."""

    views: tuple[View, ...] = ()

    def __call__(self, records: Records) -> Records:
        """Return what the views make of these records."""
        for view in self.views:
            records = view(records)
        return records


@dataclass(frozen=True)
class _All:
    listeners: tuple[Progress, ...]

    def __call__(self, rows: int) -> None:
        for listener in self.listeners:
            listener(rows)


class WatchedRecords(WrappedRecords):
    """The same records, telling `start` of each pass over them and `progress` of its rows."""

    def __init__(
        self, records: Records, start: Callable[[], object], progress: Callable[[int], object]
    ) -> None:
        super().__init__(records)
        self.start = start
        self.progress = progress

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        self.start()
        for block in self._records._blocks():
            yield block
            self.progress(len(block))

    def _view(self) -> View:
        return Chain()
