"""Units: whose rows are whose, and which rows of a unit are summed.

Which rows those are is a rule of the unit's rows alone: all of them, or if they are too many, those
with the smallest fingerprints of what is in them. Identifiers are compared and never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer
from hushcov.exceptions import DataError
from hushcov.sums.records import (
    Records,
    View,
    WrappedRecords,
    default_block_rows,
    hands_out_arrays,
    is_tensor,
    like,
)
from hushcov.tables.identifiers import check_identifiers, number_identifiers, numbers

#: Weights are whole multiples of this part of the largest.
WEIGHT_LEVELS = 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_SMALL = 2.0**-64  # no sum of as many rows as there can be is infinite


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of every row, as a number from 0 on.

    Parameters
    ----------
    codes : ndarray of int
        One for each row, in the order of the rows.
    """

    codes: IntArray

    @classmethod
    def of(cls, identifiers: object, n_rows: int) -> Units:
        """The units of rows with these identifiers; checked."""
        return cls(number_identifiers(check_identifiers(identifiers, n_rows)))

    @cached_property
    def _sizes(self) -> IntArray:
        return np.bincount(self.codes)

    @property
    def n_units(self) -> int:
        """How many there are."""
        return len(self._sizes)

    def sizes(self) -> IntArray:
        """How many rows each has."""
        return self._sizes

    def bounded(self, records: Records, most_rows: int) -> Records:
        """The records without those of a unit beyond so many; unit by unit, if those are several.

        Privacy
        -------
        Each unit is mapped on its own, so that neighbours which differ in one unit differ in at
        most `most_rows` of these records: `docs/proofs/neighbours.md`, step 3.
        """
        if self._sizes.max(initial=0) <= most_rows:
            chosen = np.ones(len(self.codes), dtype=bool)
        else:
            chosen = self.chosen(fingerprints(records), most_rows)  # proof: step 3
        if most_rows > 1:
            from hushcov.sums.records import grouped

            return grouped(records, self.codes, chosen, most_rows)
        return records if chosen.all() else ChosenRecords(records, chosen)

    def chosen(self, prints: NDArray[np.uint64], most_rows: int) -> BoolArray:
        """Which rows are summed: those of a unit with the smallest fingerprints."""
        check_integer("max_rows_per_unit", most_rows, at_least=1, cure="1 is the least.")
        chosen = np.ones(len(self.codes), dtype=bool)
        many = np.flatnonzero(self._sizes[self.codes] > most_rows)
        order = many[np.lexsort((prints[many], self.codes[many]))]
        units = self.codes[order]
        first = np.flatnonzero(np.diff(units, prepend=-1))
        rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        chosen[order] = rank < most_rows
        return chosen

    def means(self, records: Records) -> Records:
        """One record for each unit, the mean of its rows, whatever their order.

        Privacy
        -------
        Each unit is mapped on its own to one record.
        """
        if not hands_out_arrays(records):
            raise DataError(
                "estimand='unit-means' must have records in memory or files, got a cluster or a "
                "device: average the rows of each unit there, and fit the table of means."
            )
        return MeanRecords(records, self)


class MeanRecords(WrappedRecords):
    """The means of units. They are computed in memory, where all rows are held for once."""

    def __init__(self, records: Records, units: Units) -> None:
        super().__init__(records)
        self._units = units
        self.n_records = units.n_units

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self.n_records

    @cached_property
    def _means(self) -> FloatArray:
        blocks = (np.array(block) for block in self._records._blocks())
        rows = np.concatenate([np.empty((0, self.n_features)), *blocks])
        sizes, codes = self._units.sizes(), self._units.codes
        found = np.empty((self.n_records, rows.shape[1]))
        starts = np.cumsum(sizes) - sizes
        for column in range(rows.shape[1]):
            order = np.lexsort((rows[:, column], codes))  # sums do not depend on the order
            found[:, column] = _means_of(rows[order, column], starts, sizes)
        return found

    def _blocks(self) -> Iterator[Any]:
        step = default_block_rows(self.n_features)
        for start in range(0, self.n_records, step):
            yield np.ascontiguousarray(self._means[start : start + step])

    def _view(self) -> View:
        raise NotImplementedError("rows of partitions are averaged where they are")


def _means_of(values: FloatArray, starts: IntArray, sizes: IntArray) -> FloatArray:
    """Means of successive values; finite where these are, however large."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.add.reduceat(values, starts) / sizes
        beyond = ~np.isfinite(found)
        if beyond.any():
            small = np.add.reduceat(values * _SMALL, starts)[beyond] / sizes[beyond]
            most = np.finfo(np.float64).max * _SMALL  # which rounding may pass
            finite = np.isfinite(small)
            found[beyond] = np.where(finite, np.clip(small, -most, most), small) / _SMALL
    return found


class ChosenRecords(WrappedRecords):
    """The rows that are chosen, in their order; `n_records` is not public.

    Privacy
    -------
    Nothing here is private by itself; see `Units.bounded`.
    """

    def __init__(self, records: Records, chosen: BoolArray) -> None:
        super().__init__(records)
        self._chosen = chosen
        self.n_records = int(np.count_nonzero(chosen))

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self.n_records

    def _blocks(self) -> Iterator[Any]:
        start = 0
        for block in self._records._blocks():
            own = self._chosen[start : start + len(block)]
            start += len(block)
            if own.any():
                yield block[like(own, block)]

    def _view(self) -> View:
        raise NotImplementedError("rows of partitions are chosen where they are")


class RepeatedRecords(WrappedRecords):
    """Every row so many times as its weight says; `n_records` is not public.

    Privacy
    -------
    Nothing here is private by itself. A row is there at most so many times as the largest weight
    says.
    """

    def __init__(self, records: Records, times: IntArray) -> None:
        super().__init__(records)
        self._times = times
        self.n_records = int(times.sum())

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self.n_records

    def _blocks(self) -> Iterator[Any]:
        start, most = 0, max(1, int(self._times.max(initial=0)))
        for block in self._records._blocks():
            step = max(1, len(block) // most)  # repeated, they are no more than a block
            for first in range(0, len(block), step):
                rows: Any = block[first : first + step]
                times = self._times[start : start + len(rows)]
                start += len(rows)
                if times.any():
                    repeat = rows.repeat_interleave if is_tensor(rows) else rows.repeat
                    yield repeat(like(times, rows), 0)

    def _view(self) -> View:
        raise NotImplementedError("rows of partitions are repeated where they are")


def weighted(records: Records, weights: object, most: float) -> Records:
    """The records with public weights up to `most`, in sixteenths of it.

    Privacy
    -------
    A record is there at most `WEIGHT_LEVELS` times, whatever its weight is said to be.
    """
    found = numbers(weights)
    if found.shape != (records.n_records,) or not np.isfinite(found).all() or (found < 0).any():
        raise DataError(
            "sample_weight must have one number for each row, finite and not negative: replace "
            "others by a rule that uses their own row alone; 0 leaves a row out. Do not remove "
            "rows yourself."
        )
    times = np.rint(np.minimum(found, most) / most * WEIGHT_LEVELS).astype(np.int64)
    return RepeatedRecords(records, times)


def fingerprints(records: Records) -> NDArray[np.uint64]:
    """A number for each row that depends on nothing but its values."""
    found: list[NDArray[np.uint64]] = []
    block: Any
    for block in records._blocks():
        rows = np.ascontiguousarray(block.cpu().numpy() if is_tensor(block) else block)
        found.append(_fingerprint(rows))
    return np.concatenate([np.zeros(0, dtype=np.uint64), *found])


def _fingerprint(rows: FloatArray) -> NDArray[np.uint64]:
    total = np.zeros(len(rows), dtype=np.uint64)
    rows = np.where(np.isnan(rows), np.nan, rows) + 0.0  # one NaN, one zero
    for column in rows.T:
        total = (total ^ np.ascontiguousarray(column).view(np.uint64)) * _MULTIPLIER
        total ^= total >> _SHIFT
    return total
