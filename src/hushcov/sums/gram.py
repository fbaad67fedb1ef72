"""Exact Gram matrices in integers of rounded coordinates, and scores of pairs from panels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import (
    LARGEST_EXACT_FLOAT,
    FloatArray,
    IntArray,
)
from hushcov._compiled import run_parts, threads
from hushcov.exceptions import CapacityError
from hushcov.sums.bounded import BoundedRows
from hushcov.sums.grids import FeatureGrid, IntegerGrid
from hushcov.sums.protocol import Progress, Records, is_tensor
from hushcov.sums.rows import CentringSums, row_parts
from hushcov.sums.statistics import RecordMap, Statistics

#: Sums of products of features start..stop-1 (rows) with features from start on (columns).
Panel = Callable[[int, int], IntArray]

PANEL_BYTES = 2**30  # bytes of sums held in one pass over the records
STRIP = 2048  # rows of a matrix product converted to integers at a time


def second_moments(
    records: Records, grid: IntegerGrid, *, progress: Progress | None = None
) -> Statistics:
    """Return the exact second moments of `records` on `grid`, in one pass.

    The result is the same bit for bit whatever the block size, the order of the records and
    the number of threads, because no rounding takes place after the grid's.

    Parameters
    ----------
    records : Records
        Where the rows are; see `open_records`.
    grid : IntegerGrid
        Public grid; `IntegerGrid.for_records` makes one that always has room.
    progress : callable, optional
        Called after each block with the number of rows in it.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map = RecordMap(records.n_features, grid, feature_names=records.feature_names)
    return record_statistics(records, record_map, progress=progress)


def record_statistics(
    records: Records, record_map: RecordMap, *, progress: Progress | None = None
) -> Statistics:
    """Return the exact second moments of records mapped to integers; see `second_moments`.

    Privacy
    -------
    Nothing here is private by itself; see `Statistics`.
    """
    record_map.check_records(records)
    grid = record_map.grid
    if isinstance(grid, IntegerGrid):
        gram = records.map_sum(_GridGram(grid), progress=progress)
    else:
        gram = row_bounded_gram(records, grid, record_map.norm_bound, progress=progress)
    gram.setflags(write=False)  # then `Statistics` need not copy it
    return Statistics(gram, records.n_records, record_map)


def row_bounded_gram(
    records: Records,
    grid: FeatureGrid,
    norm_bound: int | None,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over records of z_i z_j, an exact integer matrix.

    With y the record's integers on `grid`, z is y where ||y|| <= `norm_bound`. A longer y is
    multiplied by norm_bound / ||y||, less 2^-40 of it, and rounded towards zero. Without a norm
    bound z is y. The result is the same bit for bit whatever the block size and the order of the
    records, because no rounding takes place after that of the record's own coordinates.

    Privacy
    -------
    Nothing here is private by itself. Each record is mapped on its own to integers with
    |z_i| <= half_width and ||z|| <= norm_bound. From these two bounds `docs/proofs/gaussian.md`
    derives how far the matrix moves when one record is replaced.
    """
    grid.check_features(records.n_features)
    if records.n_rows * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )
    block_gram = _BoundedGram(BoundedRows.on(grid, norm_bound))
    return records.map_sum(block_gram, progress=progress)


class GramSums:
    """An exact Gram matrix so far: recent rows in doubles above the diagonal, the others settled.

    Every partial sum in doubles, in whatever order BLAS takes them, is an integer of at most 2**53.
    """

    def __init__(self, n_features: int, half_width: int) -> None:
        self._exact_rows = LARGEST_EXACT_FLOAT // half_width**2
        self._recent: FloatArray = np.zeros((n_features, n_features), order="F")
        self._rows = 0
        self._settled: IntArray | None = None
        self._room: FloatArray = np.empty((0, n_features))

    def room(self, n_rows: int) -> FloatArray:
        """Room for the integers of a block: new room for each block would take time."""
        if len(self._room) < n_rows:
            self._room = np.empty((n_rows, self._room.shape[1]))
        return self._room[:n_rows]

    def add(self, integers: FloatArray) -> None:
        """Add products of these."""
        from scipy.linalg.blas import dsyrk

        for start in range(0, len(integers), self._exact_rows):
            part = integers[start : start + self._exact_rows]
            if self._rows + len(part) > self._exact_rows:
                self._settle()
            self._recent = dsyrk(1.0, part.T, beta=1.0, c=self._recent, overwrite_c=1)
            self._rows += len(part)

    def _settle(self) -> None:
        exact = self._recent.astype(np.int64, order="F")
        self._settled = exact if self._settled is None else np.add(exact, self._settled, out=exact)
        self._recent[:] = 0.0
        self._rows = 0

    def total(self) -> IntArray:
        """The whole matrix."""
        self._settle()
        assert self._settled is not None
        gram = self._settled.T  # the sums are below the diagonal of this, row by row
        del self._recent
        for start in range(0, len(gram), STRIP):
            stop = start + STRIP
            own = gram[start:stop, start:stop]
            own += np.tril(own, -1).T
            gram[start:stop, stop:] = gram[stop:, start:stop].T
        return gram


@dataclass(frozen=True)
class _GridGram:
    """The Gram matrix of a block on an `IntegerGrid`. Picklable, as all block functions."""

    grid: IntegerGrid

    def __call__(self, block: Any) -> Any:
        grid = self.grid
        if is_tensor(block):
            from hushcov.sums.tensor_kernels import exact_gram

            integers = block.clamp(-grid.radius, grid.radius).mul_(grid.half_width / grid.radius)
            return exact_gram(integers.round_(), grid.half_width**2)
        return _exact_gram(grid.quantise(block), grid.half_width)


@dataclass(frozen=True, eq=False)
class _BoundedGram(CentringSums):
    """The Gram matrix of a block on a `FeatureGrid`, its rows scaled down to a norm bound."""

    rows: BoundedRows

    def begin(self, n_features: int) -> GramSums:
        return GramSums(n_features, self.rows.half_width)

    def add(self, block: FloatArray, sums: GramSums) -> bool:
        integers = sums.room(len(block))
        parts = row_parts(block, threads())
        jobs = [*zip(parts, np.array_split(integers, len(parts)), strict=True)]
        if not all(run_parts(self.add_rows, jobs)):
            return False
        sums.add(integers)
        return True

    def total(self, sums: GramSums) -> IntArray:
        return sums.total()

    def shape(self, n_features: int) -> tuple[int, ...]:
        return n_features, n_features

    def add_rows(self, rows: FloatArray, total: Any) -> bool:
        return self.rows.fill(rows, self.taken_off(rows.shape[1]), total)

    def of_tensor(self, block: Any) -> Any:
        from hushcov.sums.tensor_kernels import exact_gram

        return exact_gram(self.rows.of_tensor(block), self.rows.half_width**2)


def _exact_gram(integers: FloatArray, half_width: int) -> IntArray:
    """The Gram matrix of integers of at most `half_width`."""
    sums = GramSums(integers.shape[1], half_width)
    sums.add(integers)
    return sums.total()


def pair_sums(
    panel: Panel, n_features: int, largest: int, *, panel_bytes: int | None = None
) -> NDArray[Any]:
    """Sums of all pairs i < j, row by row, from panels that fit in memory.

    `largest` bounds their sizes; if it is below 2^31 they take four bytes each. Where each panel
    takes a pass over the records, there is one up to 11,585 features, beyond about
    (n_features / 11,585)^2 / 2. `panel_bytes` asks for other panels than of 1 GiB.
    """
    d, panel_bytes = n_features, PANEL_BYTES if panel_bytes is None else panel_bytes
    found = np.empty(d * (d - 1) // 2, dtype=np.int32 if largest < 2**31 else np.int64)
    start = filled = 0
    while start < d - 1:
        stop = min(d, start + max(1, panel_bytes // (8 * (d - start))))
        sums = panel(start, stop)
        for i in range(stop - start):
            row = sums[i, i + 1 :]
            found[filled : filled + len(row)] = row
            filled += len(row)
        start = stop
    return found
