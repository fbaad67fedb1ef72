"""Records: the only objects that touch data, and the one operation they offer."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushcov._validation import check_integer
from hushcov.exceptions import DataError, DataTypeError, ParameterError
from hushcov.records.arrays import is_tensor, namespace

BlockFunction = Callable[[NDArray[np.float64]], NDArray[np.int64]]
Progress = Callable[[int], object]

_NUMERIC_KINDS = "biuf"
# Measured on the Gram stage (2 cores, OpenBLAS, 32 MB L3). Blocks of 2 to 4 MB stay in cache
# (d = 20: 1.6 times faster than 64 MB), but fewer than about 2,000 rows no longer pay for
# converting and adding the d x d result (d = 1000: 2048 rows beat 1024 and 8192).
_BLOCK_BYTES = 4 * 2**20
_SMALLEST_DEFAULT_BLOCK_ROWS = 2048
_NPY_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


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
    #: Whether records may be missing: their values are NaN, and `CompleteRecords` leaves them out.
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
        """
        total: Any = None
        for block in self._blocks():
            check_finite(block, gaps=self.gaps)
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
                rows = _from_objects(rows)  # values are looked at here and not before
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
        layout. They are converted block by block, and objects are checked to be numbers then.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.
    """

    def __init__(self, X: object, *, block_rows: int | None = None) -> None:
        super().__init__(_numeric_table(X), block_rows)


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
        super().__init__(_map_npy(Path(path)), block_rows)


def check_finite(block: NDArray[np.float64], *, gaps: bool = False) -> None:
    """Refuse a block with NaN or infinite values, without saying where they are.

    With `gaps`, NaN says that a record is missing, and only infinite values are refused.
    """
    xp = namespace(block)
    if gaps:
        block = xp.where(xp.isnan(block), 0.0, block)
    # Sums and dot products find NaN too, but overflow on large finite numbers, and a BLAS dot
    # is many times slower when the cores are busy. This takes the same time for any data.
    if not xp.isfinite(block).all():
        raise DataError(
            "records must be finite, but some are NaN or infinite: impute these values or drop "
            "their records beforehand, by a rule that treats each record on its own."
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


def _numeric_table(source: object) -> NDArray[Any]:
    if hasattr(source, "nnz"):
        raise DataError(
            f"X must be dense, got a sparse matrix of shape {getattr(source, 'shape', None)}: "
            "pass X.toarray(), or a .npy file if that does not fit in memory."
        )
    if isinstance(source, np.ma.MaskedArray):
        raise DataError(
            f"X must not be masked, got a masked array of shape {source.shape}: impute the "
            "masked values or drop their records beforehand."
        )
    try:
        table = np.asarray(source)
    except Exception:  # what an object's own conversion raises may quote its values
        raise DataError(
            f"X must be a 2-D array of real numbers, got a {type(source).__name__} that does "
            "not convert to one: give every record the same number of features."
        ) from None
    check_table("X", table.shape, table.dtype, kinds=_NUMERIC_KINDS + "O")
    return table


def _from_objects(table: NDArray[Any]) -> NDArray[np.float64]:
    # float() would also read numbers out of strings, so the types are checked first.
    if all(isinstance(value, Real | np.bool_) for value in table.flat):
        try:
            return table.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    raise DataTypeError(
        "X must hold real numbers within float64, got dtype object with "
        "something else in it (an argument must be neither string nor other than a number): "
        "convert it with X.astype(float) and impute or drop what is missing."
    )


def _map_npy(path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            shape, _, dtype = _NPY_HEADER_READERS[npy.read_magic(file)](file)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: check the path.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception:  # numpy's header parser lets errors of many types through
        raise DataError(
            f"{path} is not a .npy file of numbers, or its header is damaged: write it with "
            "numpy.save(path, X)."
        ) from None
    check_table(str(path), shape, dtype, kinds=_NUMERIC_KINDS)
    try:
        with np.errstate(all="ignore"):  # a size that overflows is a size that does not fit
            return np.asarray(npy.open_memmap(path, mode="r"))
    except (ValueError, OSError, OverflowError):
        raise DataError(
            f"{path} is shorter than its header says (shape {shape}): the file is truncated; "
            "copy or write it again."
        ) from None


def check_table(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, kinds: str) -> None:
    """Refuse what is not a table of real numbers, by its shape and type."""
    if len(shape) != 2:
        raise DataError(
            f"{name} must have two dimensions, records by features, got shape {shape}: a single "
            "feature is X.reshape(-1, 1)."
        )
    if 0 in shape:
        # In the words scikit-learn uses for the same refusal.
        found, what = (shape[1], "feature") if shape[0] else (shape[0], "sample")
        raise DataError(
            f"{name} must have at least one record and one feature: found an array with {found} "
            f"{what}(s) (shape={shape}) while a minimum of 1 is required. Check how it was loaded."
        )
    if dtype.kind == "c":
        raise DataError(
            f"{name} must hold real numbers. Complex data not supported: pass real and imaginary "
            "parts as columns of their own."
        )
    if dtype.kind not in kinds:
        # The type only: the dtype of strings tells the length of the longest one.
        raise DataError(
            f"{name} must hold real numbers, got dtype {dtype.type.__name__}: encode its columns "
            "as integers or floats."
        )
