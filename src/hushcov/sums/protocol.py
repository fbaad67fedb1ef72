"""Records: the only objects that touch data, and the one operation they offer.

Rows come in blocks: a NumPy array, or on a device a PyTorch tensor. A sum over records is the sum
over their blocks.
"""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import check_integer, listed
from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.sums.rows import RowSums

#: Turns a block of rows into integers to be summed. Picklable: a cluster sends it to its workers.
BlockFunction = Callable[[FloatArray], IntArray]
#: Called with the number of rows of each block that is done.
Progress = Callable[[int], object]

#: What to do about values that are missing. Records must not be removed: later ones would move up.
MISSING_CURE = (
    "use open_records(X, drop_nulls=True) (--drop-nulls), which leaves such records out privately, "
    "or impute each value by a rule that uses its own record alone. Do not remove records "
    "yourself: how many are left would not be protected."
)

# Measured on the Gram stage (2 cores, OpenBLAS, 32 MB L3). Blocks of 2 to 4 MB stay in cache
# (d = 20: 1.6 times faster than 64 MB), but fewer than about 2,000 rows no longer pay for
# converting and adding the d x d result (d = 1000: 2048 rows beat 1024 and 8192).
_BLOCK_BYTES = 4 * 2**20
_SMALLEST_DEFAULT_BLOCK_ROWS = 2048
# Blocks large enough to keep a device busy.
_DEVICE_BLOCK_BYTES = 2**30


def default_block_rows(n_features: int) -> int:
    """Rows in a block on a processor, unless `block_rows` says otherwise."""
    return max(_SMALLEST_DEFAULT_BLOCK_ROWS, _BLOCK_BYTES // (8 * n_features))


def device_block_rows(n_features: int) -> int:
    """The same on a device."""
    return max(1, _DEVICE_BLOCK_BYTES // (8 * n_features))


def check_block_rows(block_rows: int | None, default: int) -> int:
    """Return the rows in a block: a positive integer, or the default for None."""
    return check_integer(
        "block_rows",
        default if block_rows is None else block_rows,
        at_least=1,
        cure="leave it out for the default.",
    )


def is_tensor(block: object) -> bool:
    """Whether this is a PyTorch tensor; it is none where PyTorch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(block, torch.Tensor)


def import_torch() -> Any:
    """Return the package torch, or raise an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("accelerators", "PyTorch", "torch") from None
    return torch


def namespace(block: object) -> Any:
    """The module to call on a block: `torch` for tensors, else `numpy`. Their names agree."""
    return sys.modules["torch"] if is_tensor(block) else np


def like(values: Any, block: Any) -> Any:
    """Return NumPy values as a tensor on the block's device, or as they are for a NumPy block."""
    return namespace(block).as_tensor(values, device=block.device) if is_tensor(block) else values


@dataclass(eq=False)
class Held:
    """Keeps copies on the workers of a cluster, which go when this object goes.

    `keepers` are handles on the workers, by how rows were cut. `complete` says that all records
    have been copied.
    """

    keepers: dict[Any, Any] = field(default_factory=dict)
    complete: bool = False


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
    #: Whether blocks come to this process, as arrays of NumPy.
    in_arrays: ClassVar[bool] = True
    #: Names of the features, where they have any.
    feature_names: tuple[str, ...] | None = None
    #: Whether blocks are tensors on a device.
    on_device: bool = False
    #: Signs that were packed while something else was summed: `records.signs.KeptSigns`.
    kept_signs: Any = None

    @property
    def n_rows(self) -> int:
        """How many rows are summed. For memory and exact sums alone: it need not be public."""
        return self.n_records

    @property
    def keeps_copy(self) -> bool:
        """Whether a compact copy is kept, so that later sums do not read the records."""
        return False

    #: A folder where a compact copy of the records may be written.
    scratch: str | None = None
    #: Says that workers may keep compact copies for these records, and holds what keeps them.
    held: Held | None = None

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> IntArray:
        """Return the sum of `block_function(block)` over blocks that cover each row once.

        Parameters
        ----------
        block_function : callable
            Maps a block, a read-only C-contiguous float64 array of finite numbers with
            `n_features` columns, to an int64 array whose shape is the same for every block. On a
            device both are PyTorch tensors. The total must fit in int64: nothing checks it here.
        progress : callable, optional
            Called after each block with the number of rows in it.

        Records with gaps are refused, unless `block_function.takes_gaps` is true.
        """
        self._check_gaps(block_function)
        if isinstance(block_function, RowSums):
            return self._sum_rows(block_function, progress)
        total: Any = None
        for block in self._blocks():
            check_finite(block, gaps=self.gaps, names=self.feature_names)
            part = block_function(block)
            _check_part(part, total)
            if total is None:
                total = namespace(part).zeros_like(part)  # the function may reuse its array
            total += part
            del part  # before the next one is made: a part may be as large as all else
            if progress is not None:
                progress(len(block))
        if total is None:  # no rows: what such a function makes of none
            total = block_function(np.empty((0, self.n_features)))
        return np.asarray(total.cpu() if is_tensor(total) else total)

    def _sum_rows(self, row_sums: RowSums, progress: Progress | None) -> IntArray:
        """The same for a function that checks the rows itself and keeps its sums."""
        sums: Any = None
        row_sums = row_sums.over(self)
        for block in self._blocks_for(row_sums):
            if is_tensor(block):
                check_finite(block, names=self.feature_names)
                part = row_sums(block)
                sums = part if sums is None else sums + part
            else:
                sums = row_sums.begin(self.n_features) if sums is None else sums
                if not row_sums.add(block, sums):
                    check_finite(block, names=self.feature_names)
                    raise AssertionError("finite after all")
            if progress is not None:
                progress(len(block))
        sums = row_sums.begin(self.n_features) if sums is None else sums
        return np.asarray(sums.cpu() if is_tensor(sums) else row_sums.total(sums))

    def _blocks_for(self, row_sums: RowSums) -> Iterator[Any]:
        """The rows in the form in which these sums take them."""
        return self._blocks()

    def with_gaps(self) -> Self:
        """Return the same records, but allow missing values: NaN, None or null in their source."""
        other = copy.copy(self)
        other.gaps = True
        return other

    def map_sum_complete(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> IntArray:
        """As `map_sum`, but without the records that `CompleteRecords` made zeros.

        Where zeros do not add zero, as in counts, the sum is still one over the complete records.
        Then `block_function` may also get blocks without rows.
        """
        self._check_gaps(block_function)
        records = self.unfilled()
        if records.gaps:
            block_function = _OfComplete(block_function)
        return records.map_sum(block_function, progress=progress)

    def unfilled(self) -> Records:
        """Return these records with NaN again where `CompleteRecords` has zeros in its place."""
        return self

    def _check_gaps(self, block_function: BlockFunction) -> None:
        """Refuse to sum over missing values: NaN would become an arbitrary integer."""
        if self.gaps and not getattr(block_function, "takes_gaps", False):
            raise DataError(
                "records must be complete to be summed over, got records opened with drop_nulls: "
                "fit an estimator that counts the complete ones privately, or pass "
                "CompleteRecords(records), in which the others are zeros."
            )

    @abstractmethod
    def _blocks(self) -> Iterator[FloatArray]:
        """Yield the rows, each exactly once, as read-only C-contiguous float64 blocks."""


class _OfComplete:
    """A block function of the complete records of a block. Picklable, if that function is."""

    takes_gaps = True

    def __init__(self, block_function: BlockFunction) -> None:
        self._block_function = block_function

    def __call__(self, block: FloatArray) -> IntArray:
        return self._block_function(block[~namespace(block).isnan(block).any(1)])


class PartitionedRecords(Records):
    """Records in partitions on other machines, which sum over them and send back the sums."""

    in_arrays = False

    @abstractmethod
    def map_sum_through(
        self,
        view: Callable[[Records], Records],
        block_function: BlockFunction,
        *,
        progress: Progress | None = None,
        held: Held | None = None,
    ) -> IntArray:
        """Return `view(records).map_sum(block_function)`, computed partition by partition.

        `view` and `block_function` must be picklable. With `held`, workers may keep the copies
        that `CompactRecords` in `view` makes.
        """

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> IntArray:
        """See `Records.map_sum`."""
        self._check_gaps(block_function)
        return self.map_sum_through(_unchanged, block_function, progress=progress)

    def _blocks(self) -> Iterator[FloatArray]:
        raise NotImplementedError("rows of partitions are not handed out: use map_sum")


def _unchanged(records: Records) -> Records:
    return records


def check_finite(
    block: FloatArray, *, gaps: bool = False, names: tuple[str, ...] | None = None
) -> None:
    """Refuse a block with NaN or infinite values, without saying in which records they are.

    With `gaps`, NaN says that a value is missing, and only infinite ones are refused.
    """
    xp = namespace(block)
    if gaps:
        block = xp.where(xp.isnan(block), 0.0, block)
    # Sums and dot products find NaN too, but overflow on large finite numbers, and a BLAS dot
    # is many times slower when the cores are busy. This takes the same time for any data.
    finite = xp.isfinite(block)
    if finite.all():
        return
    where = ""
    if names is not None:
        bad = [name for name, fine in zip(names, finite.all(0), strict=True) if not fine]
        where = f" in {listed(bad)}"
    if gaps:
        raise DataError(
            f"records must be finite, but some are infinite{where}, which drop_nulls does not "
            "leave out: replace these values by a rule that uses their own record alone."
        )
    raise DataError(
        f"records must be finite, but some are NaN or infinite{where}. Where values are missing, "
        + MISSING_CURE
    )


def check_enough(name: object, records: Any) -> None:
    """Refuse a table without records where their number is public.

    Elsewhere nothing tells none from one. It is said in the words scikit-learn uses.
    """
    n, d = records.n_records, records.n_features
    if n < 1:
        raise DataError(
            f"{name} must have at least 1 record: found an array with {n} sample(s) "
            f"(shape={(n, d)}) while a minimum of 1 is required. Check how it was loaded."
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
