"""Rows that come unit by unit, so that what a unit adds to a sum can be bounded as one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.sums.protocol import Records, default_block_rows
from hushcov.sums.views import DeviceRecords, View, WrappedRecords, layers_of

# Most bytes of rows that are put in order at once; more are read again.
_BUFFER_BYTES = 2**29


class GroupedRecords(WrappedRecords):
    """The rows that are chosen, unit by unit; `n_records` is not public.

    A source in any order is read once for as many rows as have room in a buffer. Views around
    these records keep the order of rows, so that sums find units by counting rows.

    Parameters
    ----------
    records : Records
        What is grouped; its rows come to this process, in arrays.
    codes : ndarray of int
        The unit of every row, as a number.
    chosen : ndarray of bool
        Which rows are summed.
    most_rows : int
        Rows of a unit that are chosen, at most.

    Privacy
    -------
    Nothing here is private by itself; see `Units.bounded`. `unit_starts` are for exact sums alone.
    """

    def __init__(
        self, records: Records, codes: IntArray, chosen: BoolArray, most_rows: int
    ) -> None:
        super().__init__(records)
        self.most_rows = most_rows
        own = codes[chosen]
        self.n_records = len(own)
        self._chosen = chosen
        self._place = None
        if (np.diff(own) < 0).any():
            order = np.argsort(own, kind="stable")
            place = np.empty(len(own), dtype=np.int64)
            place[order] = np.arange(len(own))
            self._place, own = place, own[order]
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        #: Where units begin in this order, and where the last one ends.
        self.unit_starts = np.append(starts, len(own)).astype(np.int64)
        if np.diff(self.unit_starts).max(initial=0) > most_rows:
            raise PrivacyConditionError(
                f"a unit must have at most max_rows_per_unit = {most_rows} rows that are summed, "
                "got more: choose them by Units.bounded."
            )

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self.n_records

    def _blocks(self) -> Iterator[Any]:
        if self._place is None:
            yield from self._chosen_blocks()
            return
        fitting = max(1, _BUFFER_BYTES // (8 * self.n_features))
        step = default_block_rows(self.n_features)
        for low in range(0, self.n_records, fitting):
            rows = self._ordered(low, min(self.n_records, low + fitting), self._place)
            for start in range(0, len(rows), step):
                yield rows[start : start + step]

    def _ordered(self, low: int, high: int, place: IntArray) -> FloatArray:
        """The rows from place `low` to `high` of the order."""
        rows = np.empty((high - low, self.n_features))
        start = 0
        for block in self._chosen_blocks():
            places = place[start : start + len(block)]
            start += len(block)
            inside = (low <= places) & (places < high)
            if inside.all():
                rows[places - low] = block
            else:
                rows[places[inside] - low] = block[inside]
        return rows

    def _chosen_blocks(self) -> Iterator[FloatArray]:
        start = 0
        for block in self._records._blocks():
            own = self._chosen[start : start + len(block)]
            start += len(block)
            if own.all():
                yield block
            elif own.any():
                yield block[own]

    def _view(self) -> View:
        raise NotImplementedError("rows of partitions are grouped where they are")


def grouped(
    records: Records, codes: IntArray, chosen: BoolArray, most_rows: int
) -> GroupedRecords | DeviceRecords:
    """The records unit by unit: put in order on the processor, then on the device that they had."""
    found = GroupedRecords(on_processor(records), codes, chosen, most_rows)
    devices = [each for each in layers_of(records) if isinstance(each, DeviceRecords)]
    return DeviceRecords(found, devices[0].device) if devices else found


def grouped_layer(records: Records, most_rows: int) -> GroupedRecords:
    """The grouped records below views, whose units have at most so many rows.

    Privacy
    -------
    Sums that bound a unit as one refuse other records: rows of one unit might lie apart.
    """
    found = [layer for layer in layers_of(records) if isinstance(layer, GroupedRecords)]
    if len(found) != 1 or found[0].most_rows > most_rows:
        raise PrivacyConditionError(
            f"records must come unit by unit, at most {most_rows} of each, to be bounded together: "
            "pass those of Units.bounded."
        )
    return found[0]


def on_processor(records: Records) -> Records:
    """The same records without the device that is somewhere in their views."""
    if not records.on_device or not isinstance(records, WrappedRecords):
        return records
    inner = on_processor(records._records)
    if isinstance(records, DeviceRecords):
        return inner
    other = copy.copy(records)
    other._records, other.on_device = inner, inner.on_device
    return other
