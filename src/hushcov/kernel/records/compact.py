"""Records as small integers: two bytes a value, so that later sums read a quarter of the bytes.

Whether a copy is kept changes speed and memory, never a sum.
"""

from __future__ import annotations

import io
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray, like
from hushcov._compiled import compiled, run_parts, threads
from hushcov._validation import check_feature_scale
from hushcov.exceptions import RecordsFileError
from hushcov.kernel.records.base import (
    BlockFunction,
    Held,
    PartitionedRecords,
    Records,
    WrappedRecords,
    check_about,
    check_finite,
    default_block_rows,
    source_of,
)
from hushcov.kernel.sums.rows import MISSING, Centring, RowSums, row_parts, rows_near, within

Int16Array = NDArray[np.int16]

#: Units in a scale.
UNITS = 512
_LARGEST = -MISSING - 1  # integer: nearly 64 scales
# Most bytes of a copy that is kept: of any records, and of those that are in memory themselves,
# which take four times as much if they are doubles.
_MOST_KEPT, _MOST_IN_MEMORY = 2**26, 2**30
_TOGETHER = 16  # blocks of a copy in memory that threads share out at once: they seldom wait
#: Bytes of a copy of all rows, however many there are.
ALL_ROWS = sys.maxsize


def copy_bytes(
    n_records: int, n_features: int, *, in_memory: bool = False, memory: int | None = None
) -> int:
    """Return bytes of the copy that is kept of so many records; 0 where none is.

    Where `memory` was given for it, as many rows as fit are kept; all or none otherwise.
    """
    size = 2 * n_records * n_features
    if memory is not None:
        return min(size, memory)
    return size if size <= (_MOST_IN_MEMORY if in_memory else _MOST_KEPT) else 0


class CompactRecords(WrappedRecords):
    """The records less a centre, within reach of it, as whole multiples of 1/512 of their scale.

    With y = x - centre, clipped to [-reach, reach] and to 32767 units of scale / 512, a value
    becomes y in such units, rounded to an integer (halves to the even one). A feature of scale 0
    becomes zero. A record that misses a value is zeros, and stays zeros where `CentredRecords`
    takes another centre off these. Centre, reach and scale are public or released.

    The integers of the first sum are kept (if `keep`) in memory where they are few enough
    (`copy_bytes`), or in a file where `FileRecords` was given a folder, and read in place of the
    records from then on. The copy goes with these records. Workers of a cluster that read files
    keep copies (`DaskRecords`), and a device keeps one where it has room. Other records on a
    cluster or a device are mapped anew for every sum.
    """

    def __init__(
        self,
        records: Records,
        centre: FloatArray,
        reach: FloatArray,
        scale: FloatArray,
        *,
        keep: bool = True,
    ) -> None:
        super().__init__(records)
        d = records.n_features
        middle, limits = check_about(centre, reach, d)
        self._scale = check_feature_scale(scale, d)
        self._unit = self._scale / UNITS
        self._public = {"centre": centre, "reach": reach, "scale": scale, "keep": False}
        self._about = Centring(middle, np.minimum(limits, _LARGEST * self._unit))
        self._per_unit = np.zeros(d)
        np.divide(UNITS, self._scale, out=self._per_unit, where=self._scale > 0)
        source = source_of(records)
        # By the number of records that is public or released: how often they are read tells it.
        size, in_memory = 2 * records.n_records * d, source.in_memory
        most = copy_bytes(records.n_records, d, in_memory=in_memory, memory=source.memory)
        allowed, elsewhere = keep and not self.on_device, isinstance(source, PartitionedRecords)
        folder = source.scratch if allowed and most < size else None
        if self.on_device:
            from hushcov.engines import device

            most = size if keep and not elsewhere and device.keeps(records, _MOST_KEPT) else 0
        elif folder or elsewhere or not allowed:
            most = 0
        #: Integers that are kept, or put there by the first sum; a worker puts its own here.
        self.copy = KeptCopy(ALL_ROWS if most == size else most, folder)
        self.held = Held(records.n_records) if allowed and elsewhere else None

    zeros_stay = True

    @property
    def keeps_copy(self) -> bool:
        """See `Records`."""
        return self.copy.most_bytes == ALL_ROWS or self.copy.folder is not None

    def map_sum(self, block_function: BlockFunction) -> IntArray:
        """See `Records.map_sum`; sums that centre rows take the integers as they are."""
        if isinstance(block_function, RowSums) and block_function.centring:
            about = block_function.about or Centring.zero(self.n_features)
            if about.unit is None:
                block_function = block_function.centred(replace(about, unit=self._unit))
        return super().map_sum(block_function)

    def _blocks_for(self, row_sums: RowSums) -> Iterator[Any]:
        about = row_sums.about
        return self._blocks() if about is None or about.unit is None else self._integers(_TOGETHER)

    def _blocks(self) -> Iterator[Any]:
        from hushcov.engines.records import device_block_rows

        for block in self._integers():
            step = device_block_rows(self.n_features) if self.on_device else len(block)
            for start in range(0, len(block), max(1, step)):
                integers = block[start : start + step]
                rows = integers * like(self._unit, integers)
                rows[integers[:, 0] == MISSING] = np.nan if self.gaps else 0.0
                yield rows

    def _integers(self, together: int = 1) -> Iterator[Int16Array]:
        if self.on_device:
            from hushcov.engines import device

            yield from device.compact_blocks(
                self._records.unfilled(), self.copy, self._about, self._per_unit
            )
            return
        if self.copy.file is not None:
            yield from _read_back(self.copy.file, self.n_rows, self.n_features)
            return
        kept, step = self.copy.rows, together * default_block_rows(self.n_features)
        known = 0 if kept is None else len(kept)
        for start in range(0, known, step):
            yield kept[start : start + step]
        if kept is None or self.copy.most_bytes < ALL_ROWS:
            yield from self._read_integers(known)

    def _read_integers(self, start: int) -> Iterator[Int16Array]:
        """Yield integers of the records from a row on; the first time, keep or write them."""
        room = min(self.copy.most_bytes // (2 * self.n_features), self.n_rows)
        kept = file = None
        filled, keeps = 0, self.copy.rows is None and self.copy.most_bytes > 0
        if keeps:
            kept = np.empty((room, self.n_features), np.int16)
        elif self.copy.rows is None and self.copy.folder is not None:
            # Without a name: it goes with this process, or with the copy.
            file = tempfile.TemporaryFile(dir=self.copy.folder, buffering=0)  # noqa: SIM115
            weakref.finalize(self.copy, file.close)
        records = self._records.unfilled()
        for block in records._blocks_from(start):
            check_finite(block, gaps=records.gaps, names=self.feature_names)
            keeps = keeps and filled + len(block) <= room
            if kept is not None and keeps:
                integers, filled = kept[filled : filled + len(block)], filled + len(block)
            else:
                integers = np.empty(block.shape, np.int16)
            parts = row_parts(block, threads())
            own = np.array_split(integers, len(parts))
            jobs = zip(parts, own, strict=True)
            run_parts(to_integers, [(a, self._about, self._per_unit, b) for a, b in jobs])
            if file is not None:
                _check_whole(file.write(integers.data), integers)
            yield integers
        if kept is not None:
            self.copy.rows = kept[:filled]
        self.copy.file = file

    def off_device(self, records: Records) -> Self:
        """See `WrappedRecords`; the copy stays on the device."""
        other = super().off_device(records)
        other.copy = KeptCopy(0, None)
        return other


@dataclass(eq=False)
class KeptCopy:
    """Integers that are kept, or written to a file; several views of the same records share one."""

    most_bytes: int
    folder: str | None
    rows: Any = None  # the first ones, or all
    file: io.FileIO | None = None


def _read_back(file: io.FileIO, n_rows: int, n_features: int) -> Iterator[Int16Array]:
    """Return the integers of a file in blocks; several readings may take turns."""
    step, size = default_block_rows(n_features), 2 * n_features
    for start in range(0, n_rows, step):
        integers = np.empty((min(step, n_rows - start), n_features), dtype=np.int16)
        file.seek(start * size)
        _check_whole(file.readinto(integers.data.cast("B")), integers)
        yield integers


def _check_whole(n_bytes: int | None, integers: Int16Array) -> None:
    if n_bytes != integers.nbytes:
        raise RecordsFileError(
            "the scratch file must have room for two bytes a value: use another folder."
        )


def to_integers(
    rows: FloatArray, about: Centring, per_unit: FloatArray, integers: Int16Array
) -> None:
    """Fill in the integers of rows; `MISSING` is first where a record misses a value."""
    _fill_integers(rows, about.centre, about.reach, per_unit, integers)
    for near, own in zip(rows_near(rows), rows_near(integers), strict=True):
        missing = np.isnan(near)
        if missing.any():
            own[missing.any(axis=1)] = MISSING


@compiled
def _fill_integers(rows: Any, centre: Any, reach: Any, per_unit: Any, integers: Any) -> None:
    """Fill in integers of rows, anything where a value is missing."""
    for a in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            y = within(np.float64(rows[a, i]) - centre[i], reach[i])
            integers[a, i] = np.int16(np.rint(y * per_unit[i]))
