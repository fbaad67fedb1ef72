"""Units: whose rows are whose, and which rows of a unit are summed.

Which rows those are is a rule of the unit's rows alone: all of them, or if they are too many, those
with the smallest fingerprints of what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, IntArray, is_tensor, like
from hushcov._validation import check_integer
from hushcov.exceptions import DataError
from hushcov.kernel.records.base import (
    GroupedRecords,
    Records,
    WrappedRecords,
    default_block_rows,
    hands_out_arrays,
    layers_of,
)

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_SMALL = 2.0**-64  # no sum of as many rows as there can be is infinite


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of every row, as a number from 0 on."""

    codes: IntArray  # in the order of the rows

    @cached_property
    def sizes(self) -> IntArray:
        """Numbers of rows of the units."""
        return np.bincount(self.codes)

    def bounded(self, records: Records, most_rows: int) -> Records:
        """Return the records without those of a unit beyond so many; unit by unit, if several.

        Privacy
        -------
        Each unit is mapped on its own, so that neighbours which differ in one unit differ in at
        most `most_rows` of these records: `docs/proofs/neighbours.md`, step 3.
        """
        from hushcov.engines.records import DeviceRecords, on_processor

        # Also where no unit has more: how often records are read does not depend on them.
        chosen = self.chosen(records, most_rows)  # proof: step 3
        if most_rows == 1:
            return records if chosen.all() else RepeatedRecords(records, chosen.view(np.uint8))
        # Rows are put in order on the processor, then sent to the device that they were on.
        found = GroupedRecords(on_processor(records), self.codes, chosen, most_rows)
        devices = [each for each in layers_of(records) if isinstance(each, DeviceRecords)]
        return DeviceRecords(found, devices[0].device) if devices else found

    def chosen(self, records: Records, most_rows: int) -> BoolArray:
        """Choose the rows that are summed: those of a unit with the smallest fingerprints."""
        check_integer("max_rows_per_unit", most_rows, at_least=1, cure="1 is the least.")
        prints = fingerprints(records)
        chosen = np.ones(len(self.codes), dtype=bool)
        many = np.flatnonzero(self.sizes[self.codes] > most_rows)
        order = many[np.lexsort((prints[many], self.codes[many]))]
        units = self.codes[order]
        first = np.flatnonzero(np.diff(units, prepend=-1))
        rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        chosen[order] = rank < most_rows
        return chosen

    def means(self, records: Records) -> Records:
        """Return one record for each unit, the mean of its rows, whatever their order."""
        check_means(records, in_parts=False)
        return MeanRecords(records, self)


def check_means(records: Records, *, in_parts: bool) -> None:
    """Refuse records whose units cannot be averaged; partitions of whole units can be."""
    if not in_parts and not hands_out_arrays(records):
        raise DataError(
            "estimand='unit-means' must have records in memory or files, or a dask dataframe, got "
            "others or a device: average the rows of each unit there, and fit the table of means."
        )


class MeanRecords(WrappedRecords):
    """The means of units, computed in memory. `n_records` is not public."""

    def __init__(self, records: Records, units: Units) -> None:
        super().__init__(records, len(units.sizes))
        self._units = units

    @cached_property
    def _means(self) -> FloatArray:
        blocks = (np.array(block) for block in self._records._blocks())
        rows = np.concatenate([np.empty((0, self.n_features)), *blocks])
        sizes, codes = self._units.sizes, self._units.codes
        found = np.empty((self.n_records, rows.shape[1]))
        starts = np.cumsum(sizes) - sizes
        most = np.finfo(np.float64).max * _SMALL  # which rounding may pass
        for column in range(rows.shape[1]):
            order = np.lexsort((rows[:, column], codes))  # sums do not depend on the order
            values, own = rows[order, column], found[:, column]
            with np.errstate(over="ignore", invalid="ignore"):
                own[:] = np.add.reduceat(values, starts) / sizes
                beyond = ~np.isfinite(own)
                if beyond.any():  # means are finite where values are, however large
                    small = np.add.reduceat(values * _SMALL, starts)[beyond] / sizes[beyond]
                    near = np.where(np.isfinite(small), np.clip(small, -most, most), small)
                    own[beyond] = near / _SMALL
        return found

    def _blocks(self) -> Iterator[Any]:
        step = default_block_rows(self.n_features)
        for start in range(0, self.n_records, step):
            yield np.ascontiguousarray(self._means[start : start + step])


class RepeatedRecords(WrappedRecords):
    """Every row as often as its weight says, or once if it is chosen and never if not.

    `n_records` is not public.
    """

    def __init__(self, records: Records, times: NDArray[Any]) -> None:
        super().__init__(records, int(times.sum()))
        self._times = times

    def _blocks(self) -> Iterator[Any]:
        start, most = 0, max(1, int(self._times.max(initial=0)))
        for block in self._records._blocks():
            step = max(1, len(block) // most)  # repeated, they are no more than a block
            for first in range(0, len(block), step):
                rows: Any = block[first : first + step]
                times = self._times[start : start + len(rows)].astype(np.int64)
                start += len(rows)
                if times.any():
                    repeat = rows.repeat_interleave if is_tensor(rows) else rows.repeat
                    yield repeat(like(times, rows), 0)


def fingerprints(records: Records) -> NDArray[np.uint64]:
    """Return a number for each row that depends on nothing but its values."""
    found = [np.zeros(0, dtype=np.uint64)]
    block: Any
    for block in records._blocks():
        rows = np.ascontiguousarray(block.cpu().numpy() if is_tensor(block) else block)
        rows = np.where(np.isnan(rows), np.nan, rows) + 0.0  # one NaN, one zero
        total = np.zeros(len(rows), dtype=np.uint64)
        for column in rows.T:
            total = (total ^ np.ascontiguousarray(column).view(np.uint64)) * _MULTIPLIER
            total ^= total >> _SHIFT
        found.append(total)
    return np.concatenate(found)
