"""Columns of identifiers and of weights: identifiers become `Units`.

Identifiers are compared and never kept: they become numbers from 0 on, exactly, and no message
quotes one. Those in files are read once, however many rows there are: no number is released before
units are known, so that more readings of more rows would tell how many there are.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray, is_tensor
from hushcov._validation import meant, nearest
from hushcov.exceptions import DataError, ParameterError, raise_alone
from hushcov.kernel.records.base import PartitionedRecords, Records, source_of
from hushcov.kernel.records.units import RepeatedRecords, Units
from hushcov.tables.cells import PLAIN
from hushcov.tables.sources import (
    TableRecords,
    is_file_source,
    numeric_table,
    open_records,
    without_invalid,
)

if TYPE_CHECKING:
    from hushcov.tables.files import FileRecords

#: Weights are whole multiples of this part of the largest.
WEIGHT_LEVELS = 16
_BATCH = 2**18  # rows of a column of files that are read at a time
_WAITING = 2**20  # rows that are compared with the dictionary at a time, at least
_LARGEST_SIGNED = np.uint64(2**63 - 1)
_NULLS = {"NoneType", "NAType", "NaTType"}
_ONE_OF = "pass the name or the position of a column, or one for each row."


def weighted(records: Records, weights: object, most: float) -> Records:
    """Return the records with public weights up to `most`, in sixteenths of it.

    Privacy
    -------
    A record is there at most `WEIGHT_LEVELS` times, whatever its weight is said to be.
    """
    try:
        found = np.asarray(plain(weights() if callable(weights) else weights), dtype=np.float64)
    except (TypeError, ValueError):
        rule = "convert each by a rule that uses its own row alone; 0 leaves a row out."
        raise_alone(DataError(f"sample_weight must have numbers, got something else: {rule}"))
    if records.gaps:  # a row without a weight is left out, as one without a value
        found = np.where(np.isnan(found), 0.0, found)
    if found.shape != (records.n_records,) or not np.isfinite(found).all() or (found < 0).any():
        raise DataError(
            "sample_weight must have one number for each row, finite and not negative: replace "
            "others by a rule that uses their own row alone; 0 leaves a row out. Do not remove "
            "rows yourself."
        )
    times = np.rint(np.minimum(found, most) / most * WEIGHT_LEVELS)
    return RepeatedRecords(records, times.astype(np.int64))


def units_of(identifiers: object, n_rows: int) -> Units:
    """Return the units of rows with these identifiers, after checking them."""
    return Units(number_identifiers(check_identifiers(identifiers, n_rows)))


def check_identifiers(identifiers: object, n_rows: int) -> NDArray[Any]:
    """Return identifiers as an array of integers or of text, one for each row; never quoted.

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
    """Number what `check_identifiers` returned from 0 on, the same for those that are equal."""
    if found.dtype.kind != "O":
        return np.unique(found, return_inverse=True)[1].astype(np.int64).reshape(-1)
    places = {each: place for place, each in enumerate(sorted(set(found)))}
    return np.fromiter(map(places.__getitem__, found), np.int64, len(found))


def exact_below(kind: Any) -> float:
    """Return where a type of floats begins to have one number for several integers."""
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
        raise DataError(
            "unit must have whole numbers or text, got fractions, infinities, or numbers so large "
            "that their type has one for several of them (floats from 2**53 on, of four bytes from "
            "2**24, of two from 2**11): use integers or text from the start."
        )
    return found.astype(np.int64)


def missing_identifiers() -> DataError:
    """Return the refusal of rows that belong to nobody."""
    return DataError(
        "unit must have an identifier in every row, but some are missing: give all of these rows "
        "one identifier, so that they are protected together, or each one of its own if they are "
        "of different units. To leave them out as well, set all their values to NaN. Do not remove "
        "rows yourself."
    )


def mixed_identifiers() -> DataError:
    """Return the refusal of identifiers that cannot be compared."""
    return DataError(
        "unit must have identifiers of one type, whole numbers or text, got another or several: "
        "convert all of them to text in the same way."
    )


def plain(values: object) -> Any:
    """Return columns of pandas, polars, Arrow and PyTorch as arrays."""
    if is_tensor(values):
        return values.detach().cpu().numpy()  # type: ignore[attr-defined]
    kind = str(getattr(values, "dtype", "")).partition("(")[0]
    if type(values).__module__.startswith("polars.") and kind in ("String", "Categorical", "Enum"):
        # As bytes: polars panics where text is not UTF-8, and prints it.
        polars = sys.modules["polars"]
        values = values.cast(polars.String).cast(polars.Binary)  # type: ignore[attr-defined]
    make: Callable[..., Any] | None = getattr(values, "to_numpy", None)
    if make is None:
        return values
    try:
        return make(zero_copy_only=False)
    except TypeError:
        return make()


def split_columns(X: Any, column: object, *, what: str = "unit") -> tuple[Any, Any, str]:
    """Return the records without a column that is no feature, that column, and its name or `what`.

    `X` is whatever `fit` takes, `column` a name, a position in the file or table, or the values
    themselves, and `what` it is for is "unit" or "sample_weight". The column of files is read when
    it is called: after the charge.
    """
    on_dask = type(X).__module__.startswith("dask")
    if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
        # Partitions may be cut in another way than values beside them.
        in_parts = isinstance(X, Records) and isinstance(source_of(X), PartitionedRecords)
        if on_dask or in_parts:
            raise ParameterError(
                f"{what} must be the name of a column of a dask dataframe where the records are in "
                "partitions, got values apart from them: make a dataframe that has them as a "
                "column."
            )
        return X, column, what
    named = column if isinstance(column, str) else int(column)
    word = named if isinstance(named, str) else what
    if is_file_source(X):
        X = open_records(X, leave_out=[named])
    elif isinstance(X, str | os.PathLike):
        X = open_records(X)
    if isinstance(X, Records):
        source = source_of(X)
        if not isinstance(source, TableRecords):
            return _split_files(X, source, named, what)
        if source is not X:
            raise ParameterError(
                f"{what} must be a column that is no feature, got one of records that were changed "
                "since they were opened: pass the file or table itself."
            )
        place = _place_of(X.feature_names or (), named, source.shape, what)
        return source.without(place), partial(np.array, source.column(place)), word
    if on_dask:
        if not hasattr(X, "to_dask_array") or what != "unit":
            raise ParameterError(
                f"{what} must be left out for this dask collection: units are columns of dask "
                "dataframes. Make one, as dask.dataframe.from_dask_array(X), with a column of "
                "identifiers."
            )
        from hushcov.tables.cluster import UnitPartitions

        place = _place_of([str(name) for name in X.columns], named, (0, len(X.columns)), what)
        records = UnitPartitions(X, list(X.columns)[place])
        return records, records.units, word
    X = X if hasattr(X, "shape") else numeric_table(X)
    names: Any = getattr(X, "column_names", None) or getattr(X, "columns", ())
    return *_without(X, _place_of([str(name) for name in names], named, X.shape, what)), word


def _place_of(names: Any, named: str | int, shape: tuple[int, ...], what: str) -> int:
    if isinstance(named, str):
        found = list(names)
        named = meant(named, found) or named
        if found.count(named) != 1:
            close = [] if named in found else nearest([named], found)
            raise ParameterError(
                f"{what} must name one column of X, got {named!r}, which {found.count(named)} of "
                f"{len(found)} have{f' (did you mean {close[0]!r}?)' if close else ''}: {_ONE_OF}"
            )
        return found.index(named)
    if len(shape) != 2 or not 0 <= named < shape[1]:
        size = f"{shape[1]} columns" if len(shape) == 2 else f"{len(shape)} dimensions"
        raise ParameterError(
            f"{what} must be the position of a column of X, got {named} for {size}: " + _ONE_OF
        )
    return named


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


def _split_files(
    records: Records, files: Records, named: str | int, what: str
) -> tuple[Records, Callable[[], Any], str]:
    """Split records of opened files; a column that is a feature is one no more.

    The type of the column is checked as far as files tell it.
    """
    from hushcov.tables.files import FileRecords, names_left_out

    if not isinstance(files, FileRecords):
        raise ParameterError(
            f"{what} must name a column of a file, a table or a dask dataframe, got one of "
            f"{type(files).__name__}: pass what it was made of, or one value for each row."
        )
    paths, schemas = zip(*files.schemas().items(), strict=True)
    (name,) = names_left_out(paths, schemas, [named])
    column: Callable[[], Any] = partial(_read_weights, files, name)
    if what == "unit":
        unsigned = False
        if not files.spans[0].is_text:
            kinds = [_value_type(schema.field(name).type) for schema in schemas]
            if len({_compared_as(kind) for kind in kinds} - {None}) > 1:
                raise mixed_identifiers()
            unsigned = all(map(_arrow().types.is_uint64, kinds))
        column = partial(number_file_units, files, name, unsigned=unsigned)
    if name not in files.feature_names:
        return records, column, name
    if files.columns_given or records is not files:
        raise ParameterError(
            f"{what} must be a column that is no feature, got {name!r}, which is one of the "
            f"columns: a {what} column that is also a feature. Leave it out of the columns, or "
            "give a copy of it another name."
        )
    return files.without(name), column, name


def _read_weights(files: FileRecords, name: str) -> FloatArray:
    pa, found = _arrow(), [np.zeros(0)]
    for array in files.column(name, _BATCH, text=False):
        try:
            if pa.types.is_string(array.type) and files.spans[0].is_text:
                found.append(without_invalid(PLAIN.text(array), strict=False))
                continue
            found.append(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            words = "sample_weight must be a column of numbers, got another type: convert it."
            raise_alone(DataError(words))
    return np.concatenate(found)


def number_file_units(files: FileRecords, name: str, *, unsigned: bool = False) -> Units:
    """Return the units of the rows of files; `unsigned` if all have 64 bits without sign."""
    text = files.spans[0].is_text
    codes = np.full(files.n_records, -1, dtype=np.int64)
    found, kinds = _Dictionary(codes), set()
    for array in files.column(name, _BATCH, text=True):
        checked = _check_array(array, text=text, unsigned=unsigned)
        kinds.add(checked.type)
        if len(kinds) > 1:
            raise mixed_identifiers()
        found.add(checked)
    found.finish()
    assert codes.min(initial=0) >= 0
    return Units(codes)


class _Dictionary:
    """Identifiers that were met, in the order in which they were; their places are the codes."""

    def __init__(self, codes: IntArray) -> None:
        self._codes, self._start = codes, 0
        self._known: Any = ()
        self._waiting: list[Any] = []

    def add(self, array: Any) -> None:
        """Take the identifiers of the rows that follow."""
        self._waiting.append(array)
        # As many as there are known: the dictionary is not made anew too often.
        if sum(map(len, self._waiting)) >= max(_WAITING, len(self._known)):
            self.finish()

    def finish(self) -> None:
        """Number what waits."""
        if not any(map(len, self._waiting)):
            return
        before = len(self._known)
        known = [self._known] if before else []
        found = _arrow().concat_arrays([*known, *self._waiting]).dictionary_encode()
        indices = found.indices.to_numpy()
        # Dictionaries keep the order of first appearance, on which codes rest.
        assert np.array_equal(indices[:before], np.arange(before))
        stop = self._start + len(indices) - before
        self._codes[self._start : stop] = indices[before:]
        self._known, self._waiting, self._start = found.dictionary, [], stop


def _arrow() -> Any:
    from hushcov.tables.formats import arrow

    return arrow()


def _value_type(kind: Any) -> Any:
    return kind.value_type if _arrow().types.is_dictionary(kind) else kind


def _compared_as(kind: Any) -> str | None:
    """Return the type that identifiers of a type are compared as; None where all are null."""
    types = _arrow().types
    if types.is_null(kind):
        return None
    if types.is_integer(kind) or types.is_floating(kind):
        return "int64"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "large_binary"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "large_string"
    raise DataError(
        "unit must be a column of whole numbers or of text, got another type: convert it to text."
    )


def _check_array(array: Any, *, text: bool, unsigned: bool) -> Any:
    """Return identifiers of an Arrow array as integers or as text, and complete."""
    pa = _arrow()
    kind = _compared_as(_value_type(array.type))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count or kind is None:
        raise missing_identifiers()
    if kind == "int64":
        whole = check_identifiers(array, len(array))
        if not unsigned and whole.dtype.kind == "u" and (whole > _LARGEST_SIGNED).any():
            raise mixed_identifiers()  # others have a sign
        return pa.array(whole.astype(np.uint64 if unsigned else np.int64))
    import pyarrow.compute as pc
    from pyarrow import csv

    found = array.cast(getattr(pa, kind)())
    missing = pc.equal(pc.binary_length(found), 0)
    if text:  # which says nulls in words
        nulls = pa.array(csv.ConvertOptions().null_values, pa.large_string())
        missing = pc.or_(missing, pc.is_in(found, value_set=nulls))
    if pc.any(missing).as_py():
        raise missing_identifiers()
    return found
