"""Records: the only objects that touch data, and the one operation they offer."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushcov._validation import check_integer, listed
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.arrays import is_tensor, namespace
from hushcov.records.tables import MISSING_CURE, map_npy, names_of, numbers_of, numeric_table

BlockFunction = Callable[[NDArray[np.float64]], NDArray[np.int64]]
Progress = Callable[[int], object]

# Measured on the Gram stage (2 cores, OpenBLAS, 32 MB L3). Blocks of 2 to 4 MB stay in cache
# (d = 20: 1.6 times faster than 64 MB), but fewer than about 2,000 rows no longer pay for
# converting and adding the d x d result (d = 1000: 2048 rows beat 1024 and 8192).
_BLOCK_BYTES = 4 * 2**20
_SMALLEST_DEFAULT_BLOCK_ROWS = 2048


def default_block_rows(n_features: int) -> int:
    """Rows in a block where nobody says otherwise."""
    return max(_SMALLEST_DEFAULT_BLOCK_ROWS, _BLOCK_BYTES // (8 * n_features))


class Records(ABC):
    """Sensitive rows that can be summed over, as often as needed, but not looked at.

    A backend sets `n_records` and `n_features`, which are public, and yields the rows.

    Privacy
    -------
    Nothing here is private by itself: a sum over records becomes private only in a mechanism.
    No error raised here contains a value or a position from the data.
    """

    n_records: int
    n_features: int
    #: Whether values may be missing: they are NaN, and `CompleteRecords` leaves out their records.
    gaps: bool = False
    #: Names of the features, where they have any.
    feature_names: tuple[str, ...] | None = None

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Return the sum of `block_function(block)` over blocks that cover each row once.

        Parameters
        ----------
        block_function : callable
            Maps a block, a read-only C-contiguous float64 array of finite numbers with
            `n_features` columns, to an int64 array whose shape is the same for every block. On an
            accelerator both are PyTorch tensors.
            It answers for the total staying within int64.
        progress : callable, optional
            Called after each block with the number of rows in it.

        Records with gaps are refused, unless `block_function.takes_gaps` is true.
        """
        self._check_gaps(block_function)
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
        assert total is not None, "a Records has at least one row"
        return np.asarray(total.cpu() if is_tensor(total) else total)

    def with_gaps(self) -> Self:
        """The same records, of which some may miss values: NaN, or what their source has for it."""
        other = copy.copy(self)
        other.gaps = True
        return other

    def _check_gaps(self, block_function: BlockFunction) -> None:
        """Refuse to sum over missing values: NaN would become some integer or other."""
        if self.gaps and not getattr(block_function, "takes_gaps", False):
            raise DataError(
                "records must be complete to be summed over, got records opened with drop_nulls: "
                "fit an estimator that counts the complete ones privately, or pass "
                "CompleteRecords(records), in which the others are zeros."
            )

    @abstractmethod
    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the rows, each exactly once, as read-only C-contiguous float64 blocks."""


class PartitionedRecords(Records):
    """Records that lie in partitions elsewhere and are summed over there, not here."""

    @abstractmethod
    def map_sum_through(
        self,
        view: Callable[[Records], Records],
        rows_each: int,
        block_function: BlockFunction,
        *,
        progress: Progress | None = None,
    ) -> NDArray[np.int64]:
        """Return `view(records).map_sum(block_function)`, computed partition by partition.

        `view` makes one record of `rows_each` successive rows, which must not be torn apart.
        """

    def map_sum(
        self, block_function: BlockFunction, *, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """See `Records.map_sum`."""
        self._check_gaps(block_function)
        return self.map_sum_through(_unchanged, 1, block_function, progress=progress)

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        raise NotImplementedError("rows of partitions are not handed out: use map_sum")


def _unchanged(records: Records) -> Records:
    return records


class _TableRecords(Records):
    """Rows of a numeric 2-D array, in memory or mapped, converted block by block."""

    def __init__(self, table: NDArray[Any], block_rows: int | None) -> None:
        self.n_records, self.n_features = table.shape
        if block_rows is None:
            block_rows = default_block_rows(self.n_features)
        self.block_rows = check_integer(
            "block_rows", block_rows, at_least=1, cure="leave it out for the default."
        )
        self._table = table

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        for start in range(0, self.n_records, self.block_rows):
            rows = self._table[start : start + self.block_rows]
            if rows.dtype.kind == "O":
                # Values are looked at here and not before.
                rows = numbers_of(rows, self.gaps, self.feature_names)
            # A wider float that does not fit becomes infinite here and is refused as such.
            with np.errstate(all="ignore"):
                block = np.ascontiguousarray(rows, dtype=np.float64)
            # The block may be a view of the user's own array.
            block.setflags(write=False)
            yield block


class ArrayRecords(_TableRecords):
    """Records held in memory; the array is not copied, so leave it unchanged while in use.

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
        Real numbers in any integer, boolean or floating dtype, or as objects, in any memory
        layout; or a DataFrame. They are converted block by block, and objects are checked to be
        numbers then.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.
    """

    def __init__(self, X: object, *, block_rows: int | None = None) -> None:
        super().__init__(numeric_table(X), block_rows)
        self.feature_names = names_of(X)


class NpyRecords(_TableRecords):
    """Records in a `.npy` file, memory-mapped, so that they need not fit in memory.

    Parameters
    ----------
    path : str or path-like
        A file written by `numpy.save`, holding real numbers in two dimensions. Files with
        pickled objects are refused.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.
    """

    def __init__(self, path: str | os.PathLike[str], *, block_rows: int | None = None) -> None:
        super().__init__(map_npy(Path(path)), block_rows)


def check_finite(
    block: NDArray[np.float64], *, gaps: bool = False, names: tuple[str, ...] | None = None
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
