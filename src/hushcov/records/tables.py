"""Tables of numbers: what is one by its shape and type, and what its values are."""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushcov._validation import listed
from hushcov.exceptions import DataError, DataTypeError, RecordsFileError
from hushcov.records.frames import check_frame, column_names

#: What to do about values that are missing. Records must not be removed: later ones would move up.
MISSING_CURE = (
    "pass open_records(X, drop_nulls=True) (--drop-nulls), or impute each value by a rule that "
    "uses its own record alone. Do not remove records: that changes their number and their pairs."
)
_NUMERIC_KINDS = "biuf"
_NPY_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def numeric_table(source: object) -> NDArray[Any]:
    """An array of two dimensions, of numbers or of objects that are yet to be looked at."""
    if hasattr(source, "nnz"):
        raise DataError(
            f"X must be dense, got a sparse matrix of shape {getattr(source, 'shape', None)}: "
            "pass X.toarray(), or a .npy file if that does not fit in memory."
        )
    if isinstance(source, np.ma.MaskedArray):
        raise DataError(
            f"X must not be masked, got a masked array of shape {source.shape}: pass "
            "open_records(X.astype(float).filled(numpy.nan), drop_nulls=True), or impute each "
            "masked value by a rule that uses its own record alone."
        )
    check_frame(source)
    try:
        table = np.asarray(source)
    except Exception:  # what an object's own conversion raises may quote its values
        raise DataError(
            f"X must be a 2-D array of real numbers, got a {type(source).__name__} that does "
            "not convert to one: give every record the same number of features."
        ) from None
    check_table("X", table.shape, table.dtype, kinds=_NUMERIC_KINDS + "O")
    return table


def names_of(source: object) -> tuple[str, ...] | None:
    """Names of the columns, where all of them are text, as scikit-learn has it."""
    names = column_names(source)
    return names if names and all(isinstance(name, str) for name in names) else None


def numbers_of(
    table: NDArray[Any], gaps: bool, names: tuple[str, ...] | None
) -> NDArray[np.float64]:
    """Objects as numbers; with `gaps`, those that stand for missing values become NaN."""
    missing = np.frompyfunc(_is_missing, 1, 1)(table).astype(bool)
    # float() would also read numbers out of strings, so the types are checked first.
    wrong = ~(missing | np.frompyfunc(_is_number, 1, 1)(table).astype(bool))
    if missing.any() and not wrong.any() and not gaps:
        raise DataError(
            f"records must be complete, but values are missing{_where(missing, names)}: "
            + MISSING_CURE
        )
    if not wrong.any():
        try:
            return np.where(missing, np.nan, table).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    raise DataTypeError(
        "X must hold real numbers within float64, got dtype object with something else in "
        f"it{_where(wrong, names)} (an argument must be neither string nor other than a number): "
        "convert it with X.astype(float), or leave out columns that are no numbers."
    )


def _is_missing(value: object) -> bool:
    """None, and what pandas has for it; NaN is a number that is checked later."""
    kind = type(value)
    return value is None or (kind.__name__ == "NAType" and kind.__module__.startswith("pandas."))


def _is_number(value: object) -> bool:
    return isinstance(value, Real | np.bool_)


def _where(bad: NDArray[np.bool_], names: tuple[str, ...] | None) -> str:
    columns = [] if names is None else [names[i] for i in np.flatnonzero(bad.any(axis=0))]
    return f" in {listed(columns)}" if columns else ""


def map_npy(path: Path) -> NDArray[Any]:
    """The array in a file, mapped, after checking what its header says of it."""
    try:
        with path.open("rb") as file:
            shape, _, dtype = _NPY_HEADER_READERS[npy.read_magic(file)](file)
    except FileNotFoundError:
        raise RecordsFileError(f"{path} does not exist: check the path.") from None
    except OSError as error:
        raise RecordsFileError(f"{path} cannot be read: {error.strerror}.") from None
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
