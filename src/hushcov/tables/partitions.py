"""Rows of a dask dataframe whose units are whole: its own shuffle brings them together.

Each partition then has all rows of its units, so that they are bounded where they are. Numbers of
units are local to a partition. Rows that a shuffle brings come in any order, which changes nothing:
what is summed of a unit is a rule of its rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from hushcov._arrays import IntArray
from hushcov.exceptions import DataError
from hushcov.sums.protocol import BlockFunction, Held, PartitionedRecords, Progress, Records
from hushcov.sums.views import View, WrappedRecords, source_of
from hushcov.tables.cluster import Work, computed, dask_module, sum_parts
from hushcov.tables.identifiers import (
    are_numbers,
    check_identifiers,
    mixed_identifiers,
    number_identifiers,
)
from hushcov.tables.sources import ArrayRecords, check_frame
from hushcov.tables.units import Units

_KEY = "hushcov unit key"  # a column that says in which partition a row is to be
_LARGEST_KEY = 2**64 - 1


class UnitPartitions(PartitionedRecords):
    """Rows of a dask dataframe without its column of identifiers, and whole units together.

    Parameters
    ----------
    frame : dask dataframe
        It is shuffled anew in every pass over the rows. Its number of rows is counted first.
    label
        The column of identifiers.

    Privacy
    -------
    Nothing here is private by itself. Rows and identifiers are sent from worker to worker, so that
    all workers must be trusted alike.
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
        self.n_records = computed(lambda: len(frame))

    @cached_property
    def _parts(self) -> list[Any]:
        """Delayed partitions of whole units."""
        frame, label = self._frame, self._label
        meta = frame._meta.assign(**{_KEY: np.zeros(0, dtype=np.uint64)})
        keyed = frame.map_partitions(_keyed, label, meta=meta)
        delayed = dask_module().delayed
        parts = computed(lambda: keyed.shuffle(on=_KEY).to_delayed())
        return [delayed(_local)(part, label) for part in parts]

    def units(self) -> PartitionUnits:
        """Whose the rows are."""
        return PartitionUnits(np.zeros(0, dtype=np.int64), self)

    def sizes(self) -> IntArray:
        """How many rows each unit has; identifiers of several types are refused."""
        delayed = dask_module().delayed
        looked = delayed([delayed(_sizes)(part) for part in self._parts])
        found = [each for each in computed(looked.compute) if each is not None]
        if len({kind for kind, _ in found}) > 1:
            raise mixed_identifiers()
        return np.concatenate([np.zeros(0, dtype=np.int64), *(sizes for _, sizes in found)])

    def map_sum_through(
        self,
        view: View,
        block_function: BlockFunction,
        *,
        progress: Progress | None = None,
        held: Held | None = None,
    ) -> IntArray:
        """See `PartitionedRecords.map_sum_through`; no copies are kept of shuffled rows."""
        work = Work(view, block_function, self.gaps)
        none = PartRecords(np.empty((0, self.n_features)), Units(np.zeros(0, dtype=np.int64)), int)
        return sum_parts(work, self._parts, progress, none)


@dataclass(frozen=True, eq=False)
class PartitionUnits(Units):
    """Units of which each is in one partition, as numbers that are local to it."""

    records: UnitPartitions

    @cached_property
    def _sizes(self) -> IntArray:
        return self.records.sizes()

    def bounded(self, records: Records, most_rows: int) -> Records:
        """See `Units.bounded`; done in the partitions.

        Privacy
        -------
        A unit is in one partition, and is mapped there on its own.
        """
        n_rows = int(np.minimum(self._sizes, most_rows).sum())
        return WithinPartitions(records, n_rows, partial(_bounded, most_rows=most_rows))

    def means(self, records: Records) -> Records:
        """See `Units.means`; done in the partitions.

        Privacy
        -------
        A unit is in one partition, and is mapped there on its own.
        """
        return WithinPartitions(records, self.n_units, _averaged)


class WithinPartitions(WrappedRecords):
    """Records that are made of whole units in every partition."""

    def __init__(self, records: Records, n_rows: int, make: View) -> None:
        super().__init__(records)
        self.n_records, self._make = n_rows, make

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self.n_records

    def _blocks(self) -> Iterator[Any]:
        raise NotImplementedError("rows of partitions are not handed out: use map_sum")

    def _view(self) -> View:
        return self._make


class PartRecords(ArrayRecords):
    """Rows of one partition, with the numbers of their units there."""

    def __init__(self, features: Any, units: Units, kind: type) -> None:
        super().__init__(features)
        self.units, self.kind = units, kind


def _units_in(records: Records) -> Units:
    part = source_of(records)
    assert isinstance(part, PartRecords)
    return part.units


def _bounded(records: Records, most_rows: int) -> Records:
    return _units_in(records).bounded(records, most_rows)


def _averaged(records: Records) -> Records:
    return _units_in(records).means(records)


def _keyed(frame: Any, label: Any) -> Any:
    """A partition with a key for each row, equal for equal identifiers; others may share it."""
    from pandas.util import hash_array

    found = check_identifiers(frame[label], len(frame))
    if not len(found) or found.dtype.kind in "iu":
        keys = found.astype(np.uint64)
    elif are_numbers(found):
        keys = np.array([int(each) & _LARGEST_KEY for each in found], dtype=np.uint64)
    else:
        keys = hash_array(found.astype(object), categorize=False)
    return frame.assign(**{_KEY: keys})


def _local(frame: Any, label: Any) -> PartRecords | None:
    if not len(frame):
        return None
    found = check_identifiers(frame[label], len(frame))
    kind = int if are_numbers(found) else str if isinstance(found[0], str) else bytes
    return PartRecords(frame.drop(columns=[label, _KEY]), Units(number_identifiers(found)), kind)


def _sizes(part: PartRecords | None) -> tuple[type, IntArray] | None:
    return None if part is None else (part.kind, part.units.sizes())
