"""Views: records centred, scaled, multiplied, without gaps, on a device, or watched."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._validation import shown
from hushcov.exceptions import CapacityError, DataError, ParameterError, raise_alone
from hushcov.sums.grids import FeatureGrid, check_feature_scale, check_numbers
from hushcov.sums.knowledge import Bounds, check_bounds
from hushcov.sums.protocol import (
    BlockFunction,
    PartitionedRecords,
    Progress,
    Records,
    check_finite,
    device_block_rows,
    import_torch,
    like,
    namespace,
)
from hushcov.sums.rows import About, CentringSums

# Views cut larger values to this so that they stay finite. Every grid clips far below it.
_LARGEST = 1e300

#: Makes the same view of other records. Picklable: a cluster sends it to its workers.
View = Callable[[Records], Records]


class WrappedRecords(Records):
    """Base of views: records made of other records, each of one row.

    If the innermost records are partitioned over a cluster, all views are sent to the partitions,
    so that the same code sees the rows wherever they are.
    """

    #: Whether records that were made zeros stay zeros where sums are centred.
    zeros_stay = False

    def __init__(self, records: Records) -> None:
        self.n_records, self.n_features = records.n_records, records.n_features
        self.gaps, self.feature_names = records.gaps, records.feature_names
        self.on_device = records.on_device
        self._records = records

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self._records.n_rows

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> IntArray:
        """See `Records.map_sum`."""
        self._check_gaps(block_function)
        *layers, source = layers_of(self)
        if not isinstance(source, PartitionedRecords):
            return super().map_sum(block_function, progress=progress)
        wrappers = [layer for layer in layers if isinstance(layer, WrappedRecords)]
        watchers = [layer for layer in wrappers if isinstance(layer, WatchedRecords)]
        held = next((layer.held for layer in wrappers if layer.held is not None), None)
        if held is not None and held.complete:
            watchers = []  # the records themselves are not read
        for watcher in watchers:
            watcher.start()
        listeners = [watcher.progress for watcher in watchers] + ([progress] if progress else [])
        return source.map_sum_through(
            Chain(tuple(layer._view() for layer in reversed(wrappers))),
            block_function,
            progress=_All(tuple(listeners)) if listeners else None,
            held=held,
        )

    def with_gaps(self) -> Self:
        """See `Records.with_gaps`."""
        other = copy.copy(self)
        other._records = self._records.with_gaps()
        other.gaps = other._records.gaps
        return other

    def unfilled(self) -> Records:
        """See `Records.unfilled`."""
        records = self._records.unfilled()
        if records is self._records:
            return self
        other = copy.copy(self)
        other._records, other.gaps = records, records.gaps
        return other

    @abstractmethod
    def _view(self) -> View:
        """Return a picklable function that makes this view of other records; it holds no rows."""


def layers_of(records: Records) -> list[Records]:
    """The records and what they are made of, down to the source."""
    layers = [records]
    while isinstance(records, WrappedRecords):
        records = records._records
        layers.append(records)
    return layers


def source_of(records: Records) -> Records:
    """What records are made of, whatever the views around it."""
    return layers_of(records)[-1]


def hands_out_arrays(records: Records) -> bool:
    """Whether rows come to this process, in arrays: neither to a cluster nor to a device."""
    return all(layer.in_arrays for layer in layers_of(records))


@dataclass(frozen=True)
class Chain:
    """Several views, the innermost first."""

    views: tuple[View, ...] = ()

    def __call__(self, records: Records) -> Records:
        """Return these records seen through the views."""
        for view in self.views:
            records = view(records)
        return records


@dataclass(frozen=True)
class _All:
    """Report rows to several listeners."""

    listeners: tuple[Progress, ...]

    def __call__(self, rows: int) -> None:
        for listener in self.listeners:
            listener(rows)


class WatchedRecords(WrappedRecords):
    """The same records; each pass calls `start` once, then `progress` with the rows of a block."""

    def __init__(
        self, records: Records, start: Callable[[], object], progress: Callable[[int], object]
    ) -> None:
        super().__init__(records)
        self.start = start
        self.progress = progress

    def _blocks(self) -> Iterator[FloatArray]:
        self.start()
        for block in self._records._blocks():
            yield block
            self.progress(len(block))

    def _view(self) -> View:
        return Chain()  # workers report rows to this process, which tells `progress`


class CentredRecords(WrappedRecords):
    """The records minus a centre, and no coordinate further from it than its reach.

    Differences are finite: one that overflows is the largest double. A record that misses a value
    is zeros, whether `CompleteRecords` lies around these records or inside them. So it adds nothing
    to sums: the two orders have the same rows.

    Parameters
    ----------
    records : Records
        What is centred.
    centre : ndarray of shape (n_features,)
        Public or released; finite.
    reach : ndarray of shape (n_features,), optional
        Differences are clipped to [-reach, reach]. Public or released; inf clips nothing.

    Privacy
    -------
    Nothing here is private by itself. Each row is mapped on its own, so neighbours stay
    neighbours.
    """

    def __init__(
        self, records: Records, centre: FloatArray, reach: FloatArray | None = None
    ) -> None:
        super().__init__(records)
        d = records.n_features
        cure = "give one for each feature, in the order of the columns."
        self._centre = check_numbers("centre", centre, d, cure=cure)
        limits = np.full(d, np.inf) if reach is None else reach
        self._reach = check_numbers("reach", limits, d, at_least=0, finite=False, cure=cure)

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> IntArray:
        """See `Records.map_sum`; rows are centred where they are summed, if that can be."""
        self._check_gaps(block_function)
        records = self._records
        zeros_stay = isinstance(records, WrappedRecords) and records.zeros_stay
        if not zeros_stay and (records.gaps or records.unfilled() is not records):
            return super().map_sum(block_function, progress=progress)
        if not isinstance(block_function, CentringSums) or block_function.about is not None:
            return super().map_sum(block_function, progress=progress)
        about = About(self._centre, np.minimum(self._reach, np.finfo(np.float64).max))
        return records.map_sum(block_function.centred(about), progress=progress)

    def _blocks(self) -> Iterator[FloatArray]:
        records = self._records.unfilled()
        reach = np.minimum(self._reach, np.finfo(np.float64).max)
        for block in records._blocks():
            check_finite(block, gaps=records.gaps, names=self.feature_names)
            xp = namespace(block)
            with np.errstate(over="ignore"):
                rows = block - like(self._centre, block)
            xp.clip(rows, like(-reach, block), like(reach, block), out=rows)
            yield rows if self.gaps == records.gaps else complete_rows(rows)

    def _view(self) -> View:
        return partial(CentredRecords, centre=self._centre, reach=self._reach)


class ClippedRecords(WrappedRecords):
    """The records with every value moved into the public bounds of its column.

    Values beyond what is possible become the nearest possible ones. Missing values stay missing,
    and records that are infinite are refused as everywhere.

    Privacy
    -------
    Each row is mapped on its own, by numbers that are public, so neighbours stay neighbours.
    """

    def __init__(self, records: Records, bounds: Bounds) -> None:
        super().__init__(records)
        check_bounds(bounds, records.n_features)
        self._bounds = bounds

    def _blocks(self) -> Iterator[FloatArray]:
        records = self._records.unfilled()
        low, high = self._bounds.lows, self._bounds.highs
        for block in records._blocks():
            check_finite(block, gaps=records.gaps, names=self.feature_names)
            rows = namespace(block).clip(block, like(low, block), like(high, block))
            yield rows if self.gaps == records.gaps else complete_rows(rows)

    def _view(self) -> View:
        return partial(ClippedRecords, bounds=self._bounds)


class ScaledRecords(WrappedRecords):
    """The records divided by public scales; a feature of scale 0 becomes zero.

    Privacy
    -------
    Each row is mapped on its own, so neighbours stay neighbours.
    """

    def __init__(self, records: Records, feature_scale: FloatArray) -> None:
        super().__init__(records)
        self._scale = check_feature_scale(feature_scale, records.n_features)

    def _blocks(self) -> Iterator[FloatArray]:
        divisor = np.where(self._scale > 0, self._scale, np.inf)
        for block in self._records._blocks():
            check_finite(block, gaps=self.gaps, names=self.feature_names)
            xp = namespace(block)
            with np.errstate(over="ignore"):
                yield xp.clip(block / like(divisor, block), -_LARGEST, _LARGEST)

    def _view(self) -> View:
        return partial(ScaledRecords, feature_scale=self._scale)


class TransformedRecords(WrappedRecords):
    """The rows y M, where y are a record's integers on a grid and M is a matrix of integers.

    Rows and matrix are small enough for every partial sum of a product to be an integer that
    float64 holds exactly. So the rows are the same whatever the block size, the order of the
    records and the library that multiplies.

    Parameters
    ----------
    records : Records
        What is transformed.
    grid : FeatureGrid
        How a record is clipped and rounded to integers.
    matrix : ndarray of shape (n_features, n_columns)
        Public integers, as float64 or int64, small enough to keep
        n_features * half_width * max |matrix| below 2**53.

    Privacy
    -------
    Nothing here is private by itself. Each row is mapped on its own, so neighbours stay
    neighbours; the matrix must be public, or released before.
    """

    def __init__(self, records: Records, grid: FeatureGrid, matrix: FloatArray | IntArray) -> None:
        grid.check_features(records.n_features)
        if matrix.ndim != 2 or matrix.shape[0] != grid.n_features or matrix.shape[1] == 0:
            raise DataError(
                f"matrix must have a row for each of the {grid.n_features} features and at least "
                f"one column, got shape {matrix.shape}: pass the matrix that multiplies a record "
                "from the right."
            )
        if not np.array_equal(matrix, np.rint(matrix)) or not np.isfinite(matrix).all():
            raise ParameterError(
                "matrix must hold integers, got other numbers: round it to a public step."
            )
        # In Python's integers: in int64, the absolute value of the smallest one overflows.
        largest = max(abs(int(matrix.max())), abs(int(matrix.min())))
        if grid.n_features * grid.half_width * largest >= LARGEST_EXACT_FLOAT:
            raise CapacityError(
                "matrix must keep n_features * half_width * its largest entry below 2**53, got "
                f"{grid.n_features} features and half_width {grid.half_width}: products are not "
                "exact beyond that; use a coarser step for the matrix or for the records."
            )
        super().__init__(records)
        self.n_features, self.feature_names = int(matrix.shape[1]), None
        self._grid = grid
        self._matrix = np.ascontiguousarray(matrix, dtype=np.float64)

    def _blocks(self) -> Iterator[FloatArray]:
        multipliers, half_width = self._grid.multipliers, float(self._grid.half_width)
        for block in self._records._blocks():
            check_finite(block, gaps=self.gaps, names=self._records.feature_names)
            xp = namespace(block)
            with np.errstate(over="ignore"):  # what overflows is clipped
                integers = xp.clip(block * like(multipliers, block), -half_width, half_width)
            yield xp.round(integers) @ like(self._matrix, block)

    def _view(self) -> View:
        return partial(TransformedRecords, grid=self._grid, matrix=self._matrix)


class CompleteRecords(WrappedRecords):
    """The records with zeros for every record that misses a value.

    The number of records stays as it was and is public. Sums over these records are sums over the
    complete ones. Averages are too small, by the share of complete records.

    Privacy
    -------
    Each record is mapped on its own, so neighbours stay neighbours. Dropping records instead
    would make the number of records depend on the data.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.gaps = False

    def _blocks(self) -> Iterator[FloatArray]:
        for block in self._records._blocks():
            check_finite(block, gaps=True, names=self.feature_names)
            yield complete_rows(block)

    def unfilled(self) -> Records:
        """See `Records.unfilled`."""
        return self._records.unfilled()

    def with_gaps(self) -> Self:
        """Return these records: no value of theirs is missing."""
        return self

    def _view(self) -> View:
        return CompleteRecords


def complete_rows(block: Any) -> Any:
    """A block with zeros for every row that misses a value."""
    xp = namespace(block)
    return xp.where(xp.isnan(block).any(1)[:, None], 0.0, block)


class CountedRecords(WrappedRecords):
    """The same records, where how many there are is not public: `n_records` was released.

    Privacy
    -------
    Sums are those of the rows themselves. Whatever divides them, or is planned for them, uses
    the released number.
    """

    def __init__(self, records: Records, n_records: int) -> None:
        super().__init__(records)
        self.n_records = n_records

    def _blocks(self) -> Iterator[FloatArray]:
        yield from self._records._blocks()

    def _view(self) -> View:
        return Chain()


class DeviceRecords(WrappedRecords):
    """The same records, in blocks on a device: "cuda", "cuda:1", "cpu" and so on."""

    in_arrays = False

    def __init__(self, records: Records, device: str) -> None:
        super().__init__(records)
        self.on_device = True
        torch = import_torch()
        try:
            self.device = str(torch.device(device))
            # Try it: a device may exist in name only, or have no doubles.
            torch.ones(1, dtype=torch.float64, device=self.device).cpu()
        except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError):
            raise_alone(
                ParameterError(
                    f"device must name one that PyTorch can use, got {shown(device)}: 'cuda' for "
                    "an NVIDIA card, or None for this computer's processor."
                )
            )

    def _blocks(self) -> Iterator[Any]:
        torch = import_torch()
        for rows in self._joined():
            yield torch.as_tensor(rows).to(self.device)

    def _joined(self) -> Iterator[Any]:
        """Blocks joined to larger ones: few large copies to a device are faster than many.

        They are new and writeable: PyTorch warns of read-only arrays.
        """
        largest = device_block_rows(self.n_features)
        waiting: list[Any] = []
        n_rows = 0
        for block in self._records._blocks():
            if waiting and n_rows + len(block) > largest:
                yield namespace(block).concatenate(waiting)
                waiting, n_rows = [], 0
            waiting.append(block)
            n_rows += len(block)
        if waiting:
            yield namespace(waiting[0]).concatenate(waiting)

    def _view(self) -> View:
        return partial(DeviceRecords, device=self.device)
