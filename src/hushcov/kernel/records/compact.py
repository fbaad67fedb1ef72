"""Records as small integers: two bytes a value, so that later sums read a quarter of the bytes.

Whether a copy is kept changes speed and memory, never a sum.
"""

from __future__ import annotations

import io
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads
from hushcov.exceptions import RecordsFileError
from hushcov.kernel.grids import check_feature_scale
from hushcov.kernel.records.base import (
    BlockFunction,
    Held,
    PartitionedRecords,
    Records,
    View,
    WrappedRecords,
    check_about,
    check_finite,
    complete_rows,
    default_block_rows,
    device_block_rows,
    layers_of,
    like,
    source_of,
)
from hushcov.kernel.sums.counts import fill_bins
from hushcov.kernel.sums.rows import MISSING, About, RowSums, finite_row, row_parts, turn_columns

Int16Array = NDArray[np.int16]

#: Units in a scale.
UNITS = 512
_LARGEST = -MISSING - 1  # integer: nearly 64 scales
# Most bytes of a copy that is kept: of any records, and of those that are in memory themselves,
# which take four times as much if they are doubles.
_MOST_KEPT, _MOST_IN_MEMORY = 2**26, 2**30
_TOGETHER = 16  # blocks of a copy in memory that threads share out at once: they seldom wait
_ALL = sys.maxsize  # bytes of a copy of all rows, however many there are


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

    The unit of a feature is its scale / 512, and its reach is made at most 32767 units. With
    y = x - centre, clipped to [-reach, reach], a value becomes q units, where q is y times
    512 / scale, rounded to an integer (halves to the even one). A feature of scale 0 becomes zero.
    A record that misses a value is zeros, and stays zeros where `CentredRecords` takes another
    centre off these.

    The integers of the first sum are kept in memory where they are few enough (`copy_bytes`), or in
    a file if the records name a folder for it, and read in place of the records from then on.
    Workers of a cluster that read files keep copies of what they read (`DaskRecords`), and a device
    keeps one where it has room. Other records on a cluster or a device are mapped anew for every
    sum.

    Centre, reach and scale are public or released; `keep` says whether a copy may be kept.

    Privacy
    -------
    Nothing here is private by itself. Each row is mapped on its own, so neighbours stay
    neighbours. The copy is in the memory of this process and goes with these records. A file is
    written only where `FileRecords` was given a folder, see there.
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
        self._centre, limits = check_about(centre, reach, d)
        self._scale = check_feature_scale(scale, d)
        self._unit = self._scale / UNITS
        self._reach = np.minimum(limits, _LARGEST * self._unit)
        self._per_unit = np.zeros(d)
        np.divide(UNITS, self._scale, out=self._per_unit, where=self._scale > 0)
        source = source_of(records)
        # By the number of records that is public or released: how often they are read tells it.
        size, in_memory = 2 * records.n_records * d, source.in_memory
        most = copy_bytes(records.n_records, d, in_memory=in_memory, memory=source.memory)
        allowed, elsewhere = keep and not self.on_device, isinstance(source, PartitionedRecords)
        folder = source.scratch if allowed and most < size else None
        if self.on_device:
            most = size if keep and not elsewhere and _device_keeps(records) else 0
        elif folder or elsewhere or not allowed:
            most = 0
        #: Integers that are kept, or put there by the first sum; a worker puts its own here.
        self.copy = _Copy(_ALL if most == size else most, folder)
        self.held = Held(records.n_records) if allowed and elsewhere else None

    @property
    def zeros_stay(self) -> bool:  # type: ignore[override]
        """See `WrappedRecords`."""
        return not self.on_device or self.copy.most_bytes > 0

    @property
    def keeps_copy(self) -> bool:
        """See `Records`."""
        return self.copy.most_bytes == _ALL or self.copy.folder is not None

    def map_sum(self, block_function: BlockFunction) -> IntArray:
        """See `Records.map_sum`; sums that centre rows take the integers as they are."""
        if isinstance(block_function, RowSums) and block_function.centring and self.zeros_stay:
            about = block_function.about or About.zero(self.n_features)
            if about.unit is None:
                block_function = block_function.centred(replace(about, unit=self._unit))
        return super().map_sum(block_function)

    def _blocks_for(self, row_sums: RowSums) -> Iterator[Any]:
        about = row_sums.about
        if not self.zeros_stay or about is None or about.unit is None:
            return self._blocks()
        return self._integers(_TOGETHER if row_sums.long_blocks else 1)

    def _blocks(self) -> Iterator[Any]:
        if not self.zeros_stay:
            yield from self._tensors()
            return
        for block in self._integers():
            step = device_block_rows(self.n_features) if self.on_device else len(block)
            for start in range(0, len(block), max(1, step)):
                integers = block[start : start + step]
                rows = integers * like(self._unit, integers)
                rows[integers[:, 0] == MISSING] = np.nan if self.gaps else 0.0
                yield rows

    def _integers(self, together: int = 1) -> Iterator[Int16Array]:
        if self.on_device:
            self.copy.rows = self._on_device() if self.copy.rows is None else self.copy.rows
            if self.copy.rows is not None:
                yield self.copy.rows.T
            return
        if self.copy.file is not None:
            yield from _read_back(self.copy.file, self.n_rows, self.n_features)
            return
        kept, step = self.copy.rows, together * default_block_rows(self.n_features)
        known = 0 if kept is None else len(kept)
        for start in range(0, known, step):
            yield kept[start : start + step]
        if kept is None or self.copy.most_bytes < _ALL:
            yield from self._read_integers(known)

    def _read_integers(self, start: int) -> Iterator[Int16Array]:
        """Yield integers of the records from a row on; the first time, keep or write them."""
        room = min(self.copy.most_bytes // (2 * self.n_features), self.n_rows)
        kept = file = None
        if self.copy.rows is None:
            kept = np.empty((room, self.n_features), np.int16) if self.copy.most_bytes else None
            file = self.copy.opened() if kept is None else None
        records = self._records.unfilled()
        mapping = ToIntegers(self._centre, self._reach, self._per_unit, records.gaps)
        mapping.names, mapping.kept = self.feature_names, kept
        for integers in records._mapped_blocks(mapping, start):
            if file is not None:
                _check_whole(file.write(integers.data), integers)
            yield integers
        if kept is not None:
            self.copy.rows = kept[: mapping.filled]
        self.copy.file = file

    def off_device(self, records: Records) -> Self:
        """See `WrappedRecords`; the copy stays on the device."""
        other = super().off_device(records)
        other.copy = _Copy(0, None)
        return other

    def _on_device(self) -> Any:
        """Return the integers on a device, features by records; None without rows."""
        from hushcov.engines import device

        records, kept, filled = self._records.unfilled(), None, 0
        for block in records._blocks():
            whole = check_finite(block, gaps=records.gaps, names=self.feature_names)
            public = self._centre, self._reach, self._per_unit
            part = device.compact(block, *public, whole=whole)
            if kept is None:
                kept = part.new_empty((self.n_features, self.n_rows))
            kept[:, filled : filled + len(block)] = part
            filled += len(block)
        return kept

    def _tensors(self) -> Iterator[Any]:
        """Yield these values on a device, by the same operations on doubles."""
        records = self._records.unfilled()
        about = About(self._centre, self._reach)
        block: Any
        for block in records._blocks():
            whole = check_finite(block, gaps=records.gaps, names=self.feature_names)
            rows = about.of_tensor(block).mul_(like(self._per_unit, block))
            rows = rows.round_().mul_(like(self._unit, block))
            if not whole:
                rows[rows.isnan().any(1)] = float("nan")
            yield rows if whole or self.gaps == records.gaps else complete_rows(rows)

    def _view(self) -> View:
        return partial(
            CompactRecords, centre=self._centre, reach=self._reach, scale=self._scale, keep=False
        )


class Mapping:
    """Numbers of columns before they are rows, as they are; subclasses map them to others.

    Rows go to `kept` until that has no room for a block; `filled` rows of it are filled. Others are
    in one of two places, where nobody refers to it any more: the system clears new memory.
    """

    def __init__(self, n_features: int, dtype: Any = np.int16) -> None:
        self.dtype, self.filled = dtype, 0
        self.kept: Int16Array | None = None
        self._rows = self._others = np.empty((0, n_features), dtype)

    def fill(self, k: int, column: FloatArray, to: Any) -> int:
        """Fill in part of feature k; return how many values are not finite, where it is checked."""
        to[:] = column
        return 0

    def place(self, n_rows: int) -> NDArray[Any]:
        """Return where the next rows go."""
        if self.kept is not None and self.filled + n_rows <= len(self.kept):
            self.filled += n_rows
            return self.kept[self.filled - n_rows : self.filled]
        self.kept = None  # rows that follow are not the first ones any more
        self._rows, self._others = self._others, self._rows
        in_use = sys.getrefcount(self._rows) > 2  # the attribute, and the argument of this call
        if in_use or len(self._rows) < n_rows:
            self._rows = np.empty((n_rows, self._rows.shape[1]), self.dtype)
        return self._rows[:n_rows]

    def turned(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return columns as rows, turned on all cores."""
        rows = self.place(columns.shape[1])
        parts: list[Any] = row_parts(rows, threads())
        own = np.array_split(columns, len(parts), axis=1)
        run_parts(turn_columns, list(zip(own, parts, strict=True)))
        rows.setflags(write=rows.dtype != np.float64)
        return rows


class ToIntegers(Mapping):
    """Maps to the integers of `CompactRecords`."""

    def __init__(
        self, centre: FloatArray, reach: FloatArray, per_unit: FloatArray, gaps: bool
    ) -> None:
        super().__init__(len(centre))
        self._public, self._gaps = (centre, reach, per_unit), gaps
        self.names: tuple[str, ...] | None = None

    def fill(self, k: int, column: FloatArray, integers: Int16Array) -> int:
        """Fill in the integers of feature k; return how many values are not finite."""
        centre, reach, per_unit = self._public
        return _fill_column(column, centre[k], reach[k], per_unit[k], integers)

    def of_rows(self, block: FloatArray) -> Int16Array:
        """Return the integers of a block, made on all cores."""
        integers, parts = self.place(len(block)), row_parts(block, threads())
        rows = zip(parts, np.array_split(integers, len(parts)), strict=True)
        if not all(run_parts(_fill_integers, [(part, *self._public, own) for part, own in rows])):
            check_finite(block, gaps=self._gaps, names=self.names)
            if not self._gaps:
                raise AssertionError("finite after all")
        return integers


class ToBins(Mapping):
    """Maps columns to the bins of `signed_octaves_of`."""

    def __init__(self, centre: FloatArray, nothing: FloatArray) -> None:
        super().__init__(len(centre))
        self._public = centre, nothing

    def fill(self, k: int, column: FloatArray, bins: Int16Array) -> int:
        """Fill in the bins of feature k; return how many values are not finite."""
        centre, nothing = self._public
        return fill_bins(column, centre[k], nothing[k], bins)


def _device_keeps(records: Records) -> bool:
    """Return whether the device of records has room for a copy: a public number."""
    from hushcov.engines import device

    size = 2 * records.n_records * records.n_features
    names = [str(layer.device) for layer in layers_of(records) if hasattr(layer, "device")]
    return size <= _MOST_KEPT or device.has_room(names[0], size)


class _Copy:
    """Integers that are kept, or written to a file; several views of the same records share one."""

    def __init__(self, most_bytes: int, folder: str | None) -> None:
        self.most_bytes, self.folder = most_bytes, folder
        self.rows: Any = None  # the first ones, or all
        self.file: io.FileIO | None = None

    def opened(self) -> io.FileIO | None:
        """A new file without a name, which goes with this process; None where none may be made."""
        if self.folder is None:
            return None
        file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115 (closed below)
        weakref.finalize(self, file.close)
        return file


class KeptOfPiece:
    """Rows of a piece of a file, and on the worker that reads them their compact copy.

    Where this is pickled, the copy stays behind: whoever gets it reads the file. So dask may move
    it, or write it to a disk, and no row goes along.
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes, self._copy = n_bytes, _Copy(_ALL, None)

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


@compiled
def _fill_integers(
    block: FloatArray, centre: FloatArray, reach: FloatArray, per_unit: FloatArray, integers: Any
) -> bool:
    finite = True
    for a in range(block.shape[0]):
        complete = finite_row(block[a])
        finite &= complete
        for i in range(block.shape[1]):
            own = to_integer(block[a, i], centre[i], reach[i], per_unit[i])
            integers[a, i] = own if complete else MISSING
    return finite


@compiled
def _fill_column(
    column: FloatArray, centre: float, reach: float, per_unit: float, integers: Any
) -> int:
    odd = 0
    for a in range(len(column)):
        integers[a] = to_integer(column[a], centre, reach, per_unit)
        odd += column[a] - column[a] != 0.0  # where it is NaN
    return odd


@compiled
def to_integer(x: float, centre: float, reach: float, per_unit: float) -> Any:
    """Return the integer of a finite value."""
    y = min(max(x - centre, -reach), reach)
    return np.int16(np.int32(np.rint(y * per_unit)))  # in steps that are vectorised
