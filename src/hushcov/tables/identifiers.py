"""Whose the rows are: a column of identifiers, wherever the rows are.

Identifiers are compared and never kept: they become numbers from 0 on, and no message quotes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import DataError, ParameterError, raise_alone
from hushcov.sums.records import PartitionedRecords, Records, is_tensor, source_of
from hushcov.tables.sources import TableRecords, is_file_source, numeric_table, open_records

_NULLS = {"NoneType", "NAType", "NaTType"}
_ONE_OF = "pass the name or the position of a column, or one for each row."


def check_identifiers(identifiers: object, n_rows: int) -> NDArray[Any]:
    """Identifiers as an array of integers or of text, one for each row; never quoted.

    Those that differ stay different, and equal numbers of several types become equal.
    """
    try:
        given = plain(identifiers)
        # As they are: NumPy would make text of numbers beside text, and doubles of some integers.
        found = np.asarray(given, dtype=object if isinstance(given, list | tuple) else None)
    except Exception:  # what an object's own conversion raises may quote its values
        raise_alone(DataError("unit must be a column of whole numbers or of text: " + _ONE_OF))
    if found.ndim != 1 or len(found) != n_rows:
        raise DataError("unit must have one identifier for each of the rows: " + _ONE_OF)
    if np.ma.is_masked(given):
        raise missing_identifiers()
    if found.dtype.kind in "OT":
        return _of_objects(found.astype(object))
    if found.dtype.kind == "f":
        return _whole(found, exact_below(found.dtype))
    if found.dtype.kind not in "iuSU":
        raise DataError(
            f"unit must have whole numbers or text, got {found.dtype}: convert it to text."
        )
    if found.dtype.kind in "SU" and not np.char.str_len(found).all():
        raise missing_identifiers()
    return found


def number_identifiers(found: NDArray[Any]) -> IntArray:
    """A number from 0 on for each of `check_identifiers`, the same for those that are equal."""
    if found.dtype.kind != "O":
        return np.unique(found, return_inverse=True)[1].astype(np.int64).reshape(-1)
    places = {each: place for place, each in enumerate(sorted(set(found)))}
    return np.fromiter(map(places.__getitem__, found), np.int64, len(found))


def are_numbers(found: NDArray[Any]) -> bool:
    """Whether what `check_identifiers` returned are integers."""
    return found.dtype.kind in "iu" or isinstance(found[0], int | np.integer)


def exact_below(kind: Any) -> float:
    """From here on a type of floats has one number for several integers."""
    return min(2.0 / float(np.finfo(kind).eps), 2.0**53)


def _of_objects(found: NDArray[Any]) -> NDArray[Any]:
    kinds = {type(each) for each in found}
    if {kind.__name__ for kind in kinds} & _NULLS or any(
        isinstance(each, float) and math.isnan(each) for each in found
    ):
        raise missing_identifiers()
    # As objects: NumPy's own types of text do not tell how many NULs are at the end.
    if kinds <= {str, np.str_} or kinds <= {bytes, np.bytes_}:
        if not all(map(len, found)):
            raise missing_identifiers()
        return found
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return found
    if all(issubclass(kind, float | np.floating) for kind in kinds):
        types = [kind if issubclass(kind, np.floating) else float for kind in kinds]
        return _whole(found.astype(np.float64), min(map(exact_below, types)))
    raise mixed_identifiers()


def _whole(found: NDArray[Any], below: float) -> IntArray:
    if np.isnan(found).any():
        raise missing_identifiers()
    if not ((np.abs(found) < below).all() and (found == np.rint(found)).all()):
        raise fractions_found()
    return found.astype(np.int64)


def missing_identifiers() -> DataError:
    """What to say of rows that belong to nobody."""
    return DataError(
        "unit must have an identifier in every row, but some are missing: give all of these rows "
        "one identifier, so that they are protected together, or each one of its own if they are "
        "of different units. To leave them out as well, set all their values to NaN and use "
        "drop_nulls=True (--drop-nulls). Do not remove rows yourself."
    )


def fractions_found() -> DataError:
    """What to say of numbers that are not exact."""
    return DataError(
        "unit must have whole numbers or text, got fractions, infinities, or numbers so large that "
        "their type has one for several of them (floats from 2**53 on, of four bytes from 2**24, "
        "of two from 2**11): use integers or text from the start."
    )


def mixed_identifiers() -> DataError:
    """What to say of identifiers that cannot be compared."""
    return DataError(
        "unit must have identifiers of one type, whole numbers or text, got another or several: "
        "convert all of them to text in the same way."
    )


def plain(values: object) -> Any:
    """Columns of pandas, polars, Arrow and PyTorch as arrays."""
    if is_tensor(values):
        return values.detach().cpu().numpy()  # type: ignore[attr-defined]
    make: Callable[..., Any] | None = getattr(values, "to_numpy", None)
    if make is None:
        return values
    try:
        return make(zero_copy_only=False)
    except TypeError:
        return make()


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column of a table that may be mapped from a file; called after the charge."""

    records: TableRecords
    place: int

    def __call__(self) -> NDArray[Any]:
        """The values."""
        return np.array(self.records.column(self.place))


def split_columns(
    X: Any, column: object, *, what: str = "unit", drop_nulls: bool = False
) -> tuple[Any, Any, str]:
    """The records without a column that is no feature, that column, and its name or `what`.

    `column` is a name, a position, or the values themselves. The column of files is read when it
    is called.

    Parameters
    ----------
    X
        Whatever `fit` takes.
    column : str, int or array-like
        Positions are those in the file or table.
    what : {"unit", "sample_weight"}
        What it is for.
    drop_nulls : bool
        How files are opened; see `open_records`.
    """
    place = column if isinstance(column, int | np.integer) else None
    if isinstance(column, bool) or not (isinstance(column, str) or place is not None):
        _refuse_apart(X, what)
        return X, column, what
    named = column if isinstance(column, str) else int(place or 0)
    if is_file_source(X):
        from hushcov.tables.file_columns import open_files

        return open_files(X, named, what, drop_nulls=drop_nulls)
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        X = open_records(X, drop_nulls=drop_nulls)
    if isinstance(X, Records):
        return _of_records(X, named, what)
    if type(X).__module__.startswith("dask"):
        return _of_dask(X, named, what, drop_nulls)
    return _of_table(X, named, what)


def _refuse_apart(X: Any, what: str) -> None:
    """Refuse values beside rows that are in partitions, which may be cut in another way."""
    if type(X).__module__.startswith("dask") or (
        isinstance(X, Records) and isinstance(source_of(X), PartitionedRecords)
    ):
        raise ParameterError(
            f"{what} must be the name of a column of a dask dataframe where the records are in "
            "partitions, got values apart from them: make a dataframe that has them as a column."
        )


def _of_records(X: Records, named: str | int, what: str) -> tuple[Any, Any, str]:
    source = source_of(X)
    if isinstance(source, TableRecords):
        if source is not X:
            raise _opened_before(what)
        place = _place_of(X.feature_names or (), named, source.shape, what)
        return source.without(place), TableColumn(source, place), _word(named, what)
    if not source.in_arrays:
        raise ParameterError(
            f"{what} must name a column of a file, a table or a dask dataframe, got one of "
            f"{type(source).__name__}: pass what it was made of, or one value for each row."
        )
    from hushcov.tables.file_columns import of_opened

    return of_opened(X, named, what)


def _of_dask(X: Any, named: str | int, what: str, drop_nulls: bool) -> tuple[Any, Any, str]:
    if not hasattr(X, "to_dask_array") or what != "unit":
        raise ParameterError(
            f"{what} must be left out for this dask collection: units are columns of dask "
            "dataframes. Make one, as dask.dataframe.from_dask_array(X), with a column of "
            "identifiers."
        )
    from hushcov.tables.partitions import UnitPartitions

    names = [str(name) for name in X.columns]
    place = _place_of(names, named, (0, len(names)), what)
    records = UnitPartitions(X, list(X.columns)[place])
    return records.with_gaps() if drop_nulls else records, records.units, _word(named, what)


def _of_table(X: Any, named: str | int, what: str) -> tuple[Any, Any, str]:
    X = X if hasattr(X, "shape") else numeric_table(X)
    names: Any = getattr(X, "column_names", None) or getattr(X, "columns", ())
    place = _place_of([str(name) for name in names], named, X.shape, what)
    return *_without(X, place), _word(named, what)


def _place_of(names: Any, named: str | int, shape: tuple[int, ...], what: str) -> int:
    if isinstance(named, str):
        found = list(names)
        if found.count(named) != 1:
            raise ParameterError(
                f"{what} must name one column of X, got {named!r}, which {found.count(named)} of "
                f"{len(found)} have: " + _ONE_OF
            )
        return found.index(named)
    if len(shape) != 2 or not 0 <= named < shape[1]:
        size = f"{shape[1]} columns" if len(shape) == 2 else f"{len(shape)} dimensions"
        raise ParameterError(
            f"{what} must be the position of a column of X, got {named} for {size}: " + _ONE_OF
        )
    return named


def _word(named: str | int, what: str) -> str:
    return named if isinstance(named, str) else what


def _opened_before(what: str) -> ParameterError:
    return ParameterError(
        f"{what} must be a column that is no feature, got one of records that were changed since "
        "they were opened: pass the file or table itself."
    )


def refuse_feature(what: str, name: str) -> None:
    """Refuse a column that was asked for as a feature and is none."""
    raise ParameterError(
        f"{what} must be a column that is no feature, got {name!r}, which is one of the columns: a "
        f"{what} column that is also a feature. Leave it out of the columns, or give a copy of it "
        "another name."
    )


def _without(X: Any, place: int) -> tuple[Any, Any]:
    if is_tensor(X):
        kept = [i for i in range(X.shape[1]) if i != place]
        return X[:, kept], X[:, place]
    if hasattr(X, "column_names"):  # an Arrow table
        return X.remove_column(place), X.column(place)
    if hasattr(X, "drop") and hasattr(X, "columns"):
        label = list(X.columns)[place]
        rest = X.drop(columns=[label]) if hasattr(X, "iloc") else X.drop(label)
        return rest, X[label]
    table = np.asarray(X)
    return np.delete(table, place, axis=1), table[:, place]


def numbers(values: object) -> FloatArray:
    """Weights as numbers, from an array or from what reads them."""
    made = values() if callable(values) else values
    try:
        return np.asarray(plain(made), dtype=np.float64)
    except (TypeError, ValueError):
        raise_alone(
            DataError(
                "sample_weight must have numbers, got something else: convert each by a rule that "
                "uses its own row alone; 0 leaves a row out."
            )
        )
