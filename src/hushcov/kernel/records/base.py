"""Records: the only objects that touch data, the views of them, and the one operation they offer.

Rows come in blocks: a NumPy array, or on a device a PyTorch tensor. A sum over records is the sum
over their blocks.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray, is_tensor, like, namespace
from hushcov._validation import check_numbers, listed
from hushcov._words import NULL_CURES
from hushcov.bounds import Bounds, check_bounds
from hushcov.exceptions import (
    DataError,
    ParameterError,
    PrivacyConditionError,
    own_errors,
)
from hushcov.kernel.sums.rows import Centring, RowSums

#: Turns a block of rows into integers to be summed. Picklable: a cluster sends it to its workers.
BlockFunction = Callable[[FloatArray], IntArray]
#: Called with the number of rows of each block that was read.
Progress = Callable[[int], object]
Listeners = Sequence[Progress]
#: Makes the same view of other records. Picklable: a cluster sends it to its workers.
View = Callable[["Records"], "Records"]

#: What to do about values that are missing where nobody counts complete records.
MISSING_CURE = (
    "let an estimator leave such records out and count the others privately, which it does unless "
    f"drop_nulls=False (--no-nulls) says that there are none; or {NULL_CURES}."
)

# Measured on the Gram stage (2 cores, OpenBLAS, 32 MB L3). Blocks of 2 to 4 MB stay in cache
# (d = 20: 1.6 times faster than 64 MB), but fewer than about 2,000 rows no longer pay for
# converting and adding the d x d result (d = 1000: 2048 rows beat 1024 and 8192).
_BLOCK_BYTES = 4 * 2**20
_SMALLEST_DEFAULT_BLOCK_ROWS = 2048


def rows_from(blocks: Iterable[Any], start: int) -> Iterator[Any]:
    """Yield the rows of blocks from one on."""
    done = 0
    for block in blocks:
        done += len(block)
        if done > start:
            yield block[max(0, len(block) - (done - start)) :]


def default_block_rows(n_features: int) -> int:
    """Return the rows in a block on a processor, unless `block_rows` says otherwise."""
    return max(_SMALLEST_DEFAULT_BLOCK_ROWS, _BLOCK_BYTES // (8 * n_features))


@dataclass(eq=False)
class Held:
    """Copies on the workers of a cluster, which are freed with this object."""

    n_records: int  # public or released
    keepers: dict[Any, Any] = field(default_factory=dict)  # handles on workers, by client
    complete: bool = False  # whether all records have been copied


class Records(ABC):
    """Sensitive rows that can be summed over, as often as needed, but not looked at.

    A subclass sets `n_records` and `n_features`, which are public or released, and yields the rows.

    Privacy
    -------
    Nothing here is private by itself: a sum over records becomes private only in a mechanism.
    No error raised here contains a value or a position from the data.
    """

    n_records: int
    n_features: int
    #: Whether values may be missing: they are NaN, and `CompleteRecords` leaves out their records.
    gaps: bool = False
    #: Whether a value that is not a number, an infinite one among them, is an error where values
    #: may be missing; it is missing otherwise.
    strict: bool = False
    #: Whether blocks come to this process, as arrays of NumPy.
    in_arrays: ClassVar[bool] = True
    #: Whether the rows are in the memory of this process already.
    in_memory: ClassVar[bool] = False
    #: Names of the features, where they have any.
    feature_names: tuple[str, ...] | None = None
    #: What a codebook says of features, by name: a kind, and words for the values of a binary one.
    kinds: Mapping[str, tuple[str, tuple[str, ...]]] = {}
    #: Names of those that hold 0 and 1 alone, by public knowledge.
    indicators: frozenset[str] = frozenset()
    #: Whether blocks are tensors on a device.
    on_device: bool = False
    #: What is called with the number of rows of each block that is done; see `WatchedRecords`.
    progress: Progress | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows that are summed, for memory and exact sums: it need not be public."""
        return self.n_records

    @property
    def keeps_copy(self) -> bool:
        """Whether a compact copy is kept, so that later sums do not read the records."""
        return False

    #: A folder where a compact copy of the records may be written.
    scratch: str | None = None
    #: Bytes of a compact copy that may be kept in memory, where that was said.
    memory: int | None = None
    #: Says that workers may keep compact copies for these records, and holds what keeps them.
    held: Held | None = None

    @own_errors()
    def map_sum(self, block_function: BlockFunction) -> IntArray:
        """Return the sum of `block_function(block)` over blocks that cover each row once.

        The function maps a block (a float64 array or tensor of finite numbers with `n_features`
        columns) to int64 of one shape. The total must fit in int64: nothing checks it here. Records
        that may miss values are refused, unless `block_function.takes_gaps` is true.
        """
        self._check_gaps(block_function)
        *views, source = layers_of(self)
        if isinstance(source, PartitionedRecords):
            return source.sum_partitions(views, block_function)
        if isinstance(block_function, RowSums):
            return self._sum_rows(block_function)
        total: Any = None
        for block in self._blocks():
            check_finite(block, gaps=self.gaps, names=self.feature_names)
            part = block_function(block)
            _check_part(part, total)
            if total is None:
                total = namespace(part).zeros_like(part)  # the function may reuse its array
            total += part
            del part  # before the next one is made: a part may be as large as all else
        if total is None:  # no rows: what such a function makes of none
            total = block_function(np.empty((0, self.n_features)))
        return np.asarray(total.cpu() if is_tensor(total) else total)

    def _sum_rows(self, row_sums: RowSums) -> IntArray:
        """Return what `map_sum` does for a function that checks the rows and keeps its sums."""
        sums: Any = None
        if row_sums.most_rows > 1:
            if self.on_device:
                from hushcov.engines.records import on_processor

                return on_processor(self).map_sum(row_sums)
            starts = grouped_layer(self, row_sums.most_rows).unit_starts
            row_sums = replace(row_sums, starts=starts)
        for block in self._blocks_for(row_sums):
            if is_tensor(block):
                whole = check_finite(block, gaps=self.gaps, names=self.feature_names)
                part = row_sums(block if whole else block[~block.isnan().any(1)])
                sums = part if sums is None else sums + part
            else:
                sums = row_sums.begin() if sums is None else sums
                if not row_sums.add(block, sums):
                    check_finite(block, gaps=self.gaps, names=self.feature_names)
                    assert self.gaps, "finite after all"
        sums = row_sums.begin() if sums is None else sums
        return row_sums.on_host(sums) if is_tensor(sums) else np.asarray(row_sums.total(sums))

    def _blocks_for(self, row_sums: RowSums) -> Iterator[Any]:
        """Yield the rows in the form in which these sums take them."""
        return self._blocks()

    def _blocks_from(self, start: int) -> Iterator[Any]:
        """Yield the rows from one on. Files then leave out what they need not read."""
        return rows_from(self._blocks(), start)

    def with_gaps(self, gaps: bool = True, *, strict: bool = False) -> Self:
        """Return the same records, but allow missing values (NaN, None, null), or do not.

        With `strict`, values that are not numbers are an error even so.
        """
        other = copy.copy(self)
        other.gaps, other.strict = gaps, strict
        return other

    def map_sum_complete(self, counts: RowSums) -> IntArray:
        """Sum as `map_sum` does, but without the records that `CompleteRecords` made zeros.

        Where zeros do not add zero, as in counts, the sum is still one over the complete records.
        """
        self._check_gaps(counts)
        assert not counts.centring, "rows that miss a value would add something"
        records = self.unfilled()
        return records.map_sum(replace(counts, takes_gaps=records.gaps))

    def unfilled(self) -> Records:
        """Return these records with NaN again where `CompleteRecords` has zeros in its place."""
        return self

    def _check_gaps(self, block_function: BlockFunction) -> None:
        """Refuse to sum over missing values: NaN would become an arbitrary integer."""
        if self.gaps and not getattr(block_function, "takes_gaps", False):
            raise DataError(
                "records must be complete to be summed over, got records that may have nulls: "
                "fit an estimator that counts the complete ones privately, or pass "
                "CompleteRecords(records), in which the others are zeros."
            )

    @abstractmethod
    def _blocks(self) -> Iterator[FloatArray]:
        """Yield the rows, each exactly once, as read-only C-contiguous float64 blocks."""


class PartitionedRecords(Records):
    """Records in partitions on other machines, which sum over them and send back the sums."""

    in_arrays = False

    @abstractmethod
    def map_sum_through(
        self, view: View, block_function: BlockFunction, listeners: Listeners, held: Held | None
    ) -> IntArray:
        """Return `view(records).map_sum(block_function)`, computed partition by partition.

        `view` and `block_function` must be picklable. `listeners` hear of the rows that are done.
        With `held`, workers may keep the copies that `CompactRecords` in `view` makes.
        """

    def sum_partitions(self, views: Sequence[Any], block_function: BlockFunction) -> IntArray:
        """Sum over these records under views, the outermost first, which go to the partitions."""
        held = next((view.held for view in views if view.held is not None), None)
        listeners = []
        if held is None or not held.complete:  # else the records themselves are not read
            for view in views:
                if view.progress is not None:
                    view.start()
                    listeners.append(view.progress)
        chain = Chain(tuple(view._view() for view in reversed(views)))
        return self.map_sum_through(chain, block_function, listeners, held)

    def _blocks(self) -> Iterator[FloatArray]:
        raise NotImplementedError("rows of partitions are not handed out: use map_sum")


def check_finite(block: Any, *, gaps: bool = False, names: tuple[str, ...] | None = None) -> bool:
    """Refuse a block with NaN or infinite values, without saying in which records they are.

    With `gaps`, only infinite ones are refused. Returns whether surely no value is missing.
    """
    xp = namespace(block)
    if is_tensor(block):  # one reading: least and largest are NaN where a number is
        if not block.numel() or not block.is_floating_point():
            return True
        if bool(xp.isfinite(xp.stack(xp.aminmax(block))).all()):
            return True
    else:
        if np.isfinite(block).all():
            return True
        if gaps and not np.isinf(block).any():
            return False
    finite = ~xp.isinf(block) if gaps else xp.isfinite(block)
    if finite.all():
        return not gaps
    where = ""
    if names is not None:
        bad = [name for name, fine in zip(names, finite.all(0), strict=True) if not fine]
        where = f" in {listed(bad)}"
    if gaps:
        raise DataError(
            f"records must hold numbers, but some are infinite or no numbers{where}: leave out "
            "on_invalid='raise' (on-invalid in a settings file), and such values count as missing, "
            "or make these values empty (NaN) by a rule that uses their own record alone."
        )
    raise DataError(
        f"records must be finite, but some are NaN or infinite{where}, or no numbers. Where values "
        "are missing, " + MISSING_CURE
    )


def _check_part(part: Any, total: Any) -> None:
    if is_tensor(part):
        assert part.dtype == namespace(part).int64
    elif not isinstance(part, np.ndarray) or part.dtype != np.int64:
        kind = part.dtype if isinstance(part, np.ndarray) else type(part).__name__
        raise ParameterError(
            f"block_function must return an int64 array, got {kind}: only integer sums are exact."
        )
    # Adding would broadcast silently.
    if total is not None and part.shape != total.shape:
        raise ParameterError(
            "block_function must return the same shape for every block, got "
            f"{part.shape} after {total.shape}: the shape may not depend on the rows."
        )


class WrappedRecords(Records):
    """Base of views: records made of other records, each of one row.

    If the innermost records are partitioned over a cluster, all views are sent to the partitions,
    so that the same code sees the rows wherever they are. `n_rows` is for views whose rows are
    others than those of `records`; it need not be public.

    Privacy
    -------
    Every view maps each row, or each unit, on its own, by numbers that are public or were released.
    So neighbours stay neighbours. Nothing else here is private by itself.
    """

    #: Whether records that were made zeros stay zeros where sums are centred.
    zeros_stay = False
    #: Arguments that make this view of other records, where it maps them one by one.
    _public: dict[str, Any] | None = None

    def __init__(self, records: Records, n_rows: int | None = None) -> None:
        self._n_rows = records.n_rows if n_rows is None else n_rows
        self.n_records = records.n_records if n_rows is None else n_rows
        self.n_features, self.feature_names = records.n_features, records.feature_names
        self.kinds = records.kinds
        self.gaps, self.on_device = records.gaps, records.on_device
        self.indicators = records.indicators
        self._records = records

    @property
    def n_rows(self) -> int:
        """See `Records`."""
        return self._n_rows

    def _over(self, records: Records) -> Self:
        other = copy.copy(self)
        other._records, other.gaps = records, records.gaps
        return other

    def off_device(self, records: Records) -> Self:
        """Return this view of records that are on no device."""
        other = copy.copy(self)
        other._records, other.on_device = records, records.on_device
        return other

    def with_gaps(self, gaps: bool = True, *, strict: bool = False) -> Self:
        """See `Records.with_gaps`."""
        return self._over(self._records.with_gaps(gaps, strict=strict))

    def unfilled(self) -> Records:
        """See `Records.unfilled`."""
        records = self._records.unfilled()
        return self if records is self._records else self._over(records)

    def _view(self) -> View:
        """Return a picklable function that makes this view of other records; it holds no rows."""
        if self._public is None:
            raise NotImplementedError("rows of partitions are mapped where they are")
        return partial(type(self), **self._public)


def layers_of(records: Records) -> list[Records]:
    """Return the records and what they are made of, down to the source."""
    layers = [records]
    while isinstance(records, WrappedRecords):
        records = records._records
        layers.append(records)
    return layers


def source_of(records: Records) -> Records:
    """Return what records are made of, whatever the views around it."""
    return layers_of(records)[-1]


def hands_out_arrays(records: Records) -> bool:
    """Return whether rows come to this process, in arrays: neither to a cluster nor to a device."""
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


class MappedRecords(WrappedRecords):
    """Base of views that map each row on its own; one that misses a value still does."""

    def _blocks(self) -> Iterator[FloatArray]:
        records = self._records.unfilled()
        for block in records._blocks():
            whole = check_finite(block, gaps=records.gaps, names=records.feature_names)
            with np.errstate(over="ignore"):  # what overflows is clipped
                rows = self._mapped(block, namespace(block))
            yield rows if whole or self.gaps == records.gaps else complete_rows(rows)

    @abstractmethod
    def _mapped(self, block: Any, xp: Any) -> Any:
        """Return the rows of a block, made by NumPy or PyTorch; no finite one overflows."""


def check_about(centre: object, reach: object, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Return a centre and how far from it features may be, after checking them."""
    cure = "give one for each feature, in the order of the columns."
    middle = check_numbers("centre", centre, n_features, cure=cure)
    return middle, check_numbers("reach", reach, n_features, at_least=0, finite=False, cure=cure)


class CentredRecords(MappedRecords):
    """The records minus a centre, and no coordinate further from it than its reach.

    Both are public or released; a reach that is left out or infinite clips nothing. Differences are
    finite: one that overflows is the largest double. A record that misses a value is zeros, whether
    `CompleteRecords` lies around these records or inside them: it adds nothing to sums.
    """

    def __init__(
        self, records: Records, centre: FloatArray, reach: FloatArray | None = None
    ) -> None:
        super().__init__(records)
        limits = np.full(records.n_features, np.inf) if reach is None else reach
        middle, limits = check_about(centre, limits, records.n_features)
        self._about = Centring(middle, np.minimum(limits, np.finfo(np.float64).max))
        self._public = {"centre": middle, "reach": limits}

    def map_sum(self, block_function: BlockFunction) -> IntArray:
        """See `Records.map_sum`; rows are centred where they are summed, if that can be."""
        self._check_gaps(block_function)
        records = self._records
        zeros_stay = isinstance(records, WrappedRecords) and records.zeros_stay
        complete = zeros_stay or not (records.gaps or records.unfilled() is not records)
        sums = block_function if isinstance(block_function, RowSums) else None
        if complete and sums is not None and sums.centring and sums.about is None:
            return records.map_sum(sums.centred(self._about))
        return super().map_sum(block_function)

    def _mapped(self, block: Any, xp: Any) -> Any:
        return self._about.of(block)


class ClippedRecords(MappedRecords):
    """The records with every value moved into the public bounds of its column.

    Missing values stay missing, and infinite ones are refused as everywhere.
    """

    def __init__(self, records: Records, bounds: Bounds) -> None:
        super().__init__(records)
        self._bounds = check_bounds(bounds, records.n_features)
        self._public = {"bounds": bounds}

    def _mapped(self, block: Any, xp: Any) -> Any:
        low, high = like(self._bounds.lows, block), like(self._bounds.highs, block)
        return xp.clip(block, low, high)


class RemappedRecords(MappedRecords):
    """The records with transformed columns."""

    def __init__(self, records: Records, transforms: Any) -> None:
        super().__init__(records)
        self._transforms, self.n_features = transforms, len(transforms)
        self._public = {"transforms": transforms}
        if self.feature_names is not None and transforms.squares:
            self.feature_names = transforms.named(self.feature_names)

    def _mapped(self, block: Any, xp: Any) -> Any:
        rows = xp.concatenate([block, block[:, list(self._transforms.squares)]], 1)
        for i, own in enumerate(self._transforms.columns):
            if own is not None:
                column = rows[:, i] if xp is np else rows[:, i].contiguous()
                rows[:, i] = own.mapped(column, xp)
        return rows


class CompleteRecords(WrappedRecords):
    """The records with zeros for every record that misses a value.

    The number of records stays as it was and is public. Sums over these records are sums over the
    complete ones. Averages are too small, by the share of complete records.

    Privacy
    -------
    Dropping records instead would make the number of records depend on the data.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.gaps, self._public = False, {}

    def _blocks(self) -> Iterator[FloatArray]:
        for block in self._records._blocks():
            whole = check_finite(block, gaps=True, names=self.feature_names)
            yield block if whole else complete_rows(block)

    def unfilled(self) -> Records:
        """See `Records.unfilled`."""
        return self._records.unfilled()

    def with_gaps(self, gaps: bool = True, *, strict: bool = False) -> Self:
        """Return these records: no value of theirs is missing."""
        return self


def complete_rows(block: Any) -> Any:
    """Return a block with zeros for every row that misses a value; none of them is infinite."""
    complete = ~namespace(block).isnan(block).any(1)
    return block if complete.all() else namespace(block).where(complete[:, None], block, 0.0)


class CountedRecords(WrappedRecords):
    """Records of which it is not public how many there are: `n_records` was released.

    Sums are those of the rows themselves; whatever divides them, or is planned, uses `n_records`.
    """

    def __init__(self, records: Records, n_records: int) -> None:
        super().__init__(records)
        self.n_records = n_records
        for layer in layers_of(records):
            if isinstance(layer, GroupedRecords):
                layer.n_counted = n_records

    def _blocks(self) -> Iterator[FloatArray]:
        yield from self._records._blocks()

    def _blocks_from(self, start: int) -> Iterator[Any]:
        return self._records._blocks_from(start)

    def _view(self) -> View:
        return Chain()


# Most bytes of rows that are put in order at once; more are read again.
_BUFFER_BYTES = 2**29


class GroupedRecords(WrappedRecords):
    """The rows that are chosen, unit by unit; `n_records` is not public.

    `codes` are the units of all rows, as numbers, and `chosen` says which rows are summed: at most
    `most_rows` of a unit. A source in any order, whose rows come to this process in arrays, is read
    once for as many rows as have room in a buffer, of the `n_counted` that were released. Views
    around these records keep the order of rows, so that sums find units by counting rows;
    `unit_starts` are for exact sums alone.
    """

    def __init__(
        self, records: Records, codes: IntArray, chosen: BoolArray, most_rows: int
    ) -> None:
        own = codes[chosen]
        super().__init__(records, len(own))
        self.most_rows, self._chosen, self.n_counted = most_rows, chosen, len(own)
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

    def _blocks(self) -> Iterator[Any]:
        if self._place is None:
            yield from self._chosen_blocks()
            return
        n_readings = -(-max(1, self.n_counted) * 8 * self.n_features // _BUFFER_BYTES)
        step = default_block_rows(self.n_features)
        ends = [self.n_records * k // n_readings for k in range(n_readings + 1)]
        for low, high in itertools.pairwise(ends):
            start = 0
            rows = np.empty((high - low, self.n_features))
            for block in self._chosen_blocks():
                places = self._place[start : start + len(block)]
                start += len(block)
                inside = (low <= places) & (places < high)
                if inside.all():
                    rows[places - low] = block
                else:
                    rows[places[inside] - low] = block[inside]
            for start in range(0, len(rows), step):
                yield rows[start : start + step]

    def _chosen_blocks(self) -> Iterator[FloatArray]:
        start = 0
        for block in self._records._blocks():
            own = self._chosen[start : start + len(block)]
            start += len(block)
            if own.all():
                yield block
            elif own.any():
                yield block[own]


def grouped_layer(records: Records, most_rows: int) -> GroupedRecords:
    """Return the grouped records below views; in others, rows of a unit might lie apart."""
    found = [layer for layer in layers_of(records) if isinstance(layer, GroupedRecords)]
    if len(found) != 1 or found[0].most_rows > most_rows:
        raise PrivacyConditionError(
            f"records must come unit by unit, at most {most_rows} of each, to be bounded together: "
            "pass those of Units.bounded."
        )
    return found[0]
