"""Units: whose rows are whose, and which rows of a unit are summed.

Which rows those are is a rule of the unit's rows alone: all of them, or if they are too many, those
with the smallest fingerprints of what is in them.

Identifiers are compared and never kept: they become numbers from 0 on, exactly, and no message
quotes one. Those in files are read once, however many rows there are: no number is released before
units are known, so that more readings of more rows would tell how many there are.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer, meant
from hushcov.exceptions import DataError, ParameterError, raise_alone
from hushcov.sums.records import (
    PartitionedRecords,
    Records,
    WrappedRecords,
    default_block_rows,
    grouped,
    hands_out_arrays,
    is_tensor,
    like,
    source_of,
    without_invalid,
)
from hushcov.tables.cells import PLAIN
from hushcov.tables.sources import TableRecords, is_file_source, numeric_table, open_records

if TYPE_CHECKING:
    from hushcov.tables.files import FileRecords

#: Weights are whole multiples of this part of the largest.
WEIGHT_LEVELS = 16
_BATCH = 2**18  # rows of a column of files that are read at a time
_WAITING = 2**20  # rows that are compared with the dictionary at a time, at least
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT, _DOWN = np.uint64(29), np.uint64(32)
_LARGEST_SIGNED = np.uint64(2**63 - 1)
_SMALL = 2.0**-64  # no sum of as many rows as there can be is infinite
_NULLS = {"NoneType", "NAType", "NaTType"}
_ONE_OF = "pass the name or the position of a column, or one for each row."


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
        """Return the units of rows with these identifiers, after checking them."""
        return cls(number_identifiers(check_identifiers(identifiers, n_rows)))

    @cached_property
    def sizes(self) -> IntArray:
        """Numbers of rows of the units."""
        return np.bincount(self.codes)

    def bounded(self, records: Records, most_rows: int) -> Records:
        """Return the records without those of a unit beyond so many; unit by unit, if several.

        Privacy
        -------
        Each unit is mapped on its own, so that neighbours which differ in one unit differ in at
        most `most_rows` of these records: `docs/proofs/neighbours.md`, step 3.
        """
        # Also where no unit has more: how often records are read does not depend on them.
        chosen = self.chosen(records, most_rows)  # proof: step 3
        if most_rows > 1:
            return grouped(records, self.codes, chosen, most_rows)
        return records if chosen.all() else RepeatedRecords(records, chosen.view(np.uint8))

    def chosen(self, records: Records, most_rows: int) -> BoolArray:
        """Choose the rows that are summed: those of a unit with the smallest fingerprints."""
        check_integer("max_rows_per_unit", most_rows, at_least=1, cure="1 is the least.")
        prints = fingerprints(records)
        chosen = np.ones(len(self.codes), dtype=bool)
        many = np.flatnonzero(self.sizes[self.codes] > most_rows)
        order = many[np.lexsort((prints[many], self.codes[many]))]
        units = self.codes[order]
        first = np.flatnonzero(np.diff(units, prepend=-1))
        rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        chosen[order] = rank < most_rows
        return chosen

    def means(self, records: Records) -> Records:
        """Return one record for each unit, the mean of its rows, whatever their order.

        Privacy
        -------
        Each unit is mapped on its own to one record.
        """
        check_means(records, in_parts=False)
        return MeanRecords(records, self)


def check_means(records: Records, *, in_parts: bool) -> None:
    """Refuse records whose units cannot be averaged; partitions of whole units can be."""
    if not in_parts and not hands_out_arrays(records):
        raise DataError(
            "estimand='unit-means' must have records in memory or files, or a dask dataframe, got "
            "others or a device: average the rows of each unit there, and fit the table of means."
        )


class MeanRecords(WrappedRecords):
    """The means of units. They are computed in memory, where all rows are held for once.

    `n_records` is not public.
    """

    def __init__(self, records: Records, units: Units) -> None:
        super().__init__(records, len(units.sizes))
        self._units = units

    @cached_property
    def _means(self) -> FloatArray:
        blocks = (np.array(block) for block in self._records._blocks())
        rows = np.concatenate([np.empty((0, self.n_features)), *blocks])
        sizes, codes = self._units.sizes, self._units.codes
        found = np.empty((self.n_records, rows.shape[1]))
        starts = np.cumsum(sizes) - sizes
        most = np.finfo(np.float64).max * _SMALL  # which rounding may pass
        for column in range(rows.shape[1]):
            order = np.lexsort((rows[:, column], codes))  # sums do not depend on the order
            values, own = rows[order, column], found[:, column]
            with np.errstate(over="ignore", invalid="ignore"):
                own[:] = np.add.reduceat(values, starts) / sizes
                beyond = ~np.isfinite(own)
                if beyond.any():  # means are finite where values are, however large
                    small = np.add.reduceat(values * _SMALL, starts)[beyond] / sizes[beyond]
                    near = np.where(np.isfinite(small), np.clip(small, -most, most), small)
                    own[beyond] = near / _SMALL
        return found

    def _blocks(self) -> Iterator[Any]:
        step = default_block_rows(self.n_features)
        for start in range(0, self.n_records, step):
            yield np.ascontiguousarray(self._means[start : start + step])


class RepeatedRecords(WrappedRecords):
    """Every row a number of times: by its weight, or once if it is chosen and never if not.

    `n_records` is not public.

    Privacy
    -------
    Nothing here is private by itself; see `Units.bounded` and `weighted`. A row is there at most as
    often as the largest weight says.
    """

    def __init__(self, records: Records, times: NDArray[Any]) -> None:
        super().__init__(records, int(times.sum()))
        self._times = times

    def _blocks(self) -> Iterator[Any]:
        start, most = 0, max(1, int(self._times.max(initial=0)))
        for block in self._records._blocks():
            step = max(1, len(block) // most)  # repeated, they are no more than a block
            for first in range(0, len(block), step):
                rows: Any = block[first : first + step]
                times = self._times[start : start + len(rows)].astype(np.int64)
                start += len(rows)
                if times.any():
                    repeat = rows.repeat_interleave if is_tensor(rows) else rows.repeat
                    yield repeat(like(times, rows), 0)


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


def fingerprints(records: Records) -> NDArray[np.uint64]:
    """Return a number for each row that depends on nothing but its values."""
    found = [np.zeros(0, dtype=np.uint64)]
    block: Any
    for block in records._blocks():
        rows = np.ascontiguousarray(block.cpu().numpy() if is_tensor(block) else block)
        rows = np.where(np.isnan(rows), np.nan, rows) + 0.0  # one NaN, one zero
        total = np.zeros(len(rows), dtype=np.uint64)
        for column in rows.T:
            total = (total ^ np.ascontiguousarray(column).view(np.uint64)) * _MULTIPLIER
            total ^= total >> _SHIFT
        found.append(total)
    return np.concatenate(found)


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
