"""A codebook: what is publicly known of every column of a table, and the table coded by it.

Columns of categories become one-hot columns, by a public list of their values. A category is first
read as the number of its value in the list (-1 for any other, NaN for null), then spread out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice, check_real, listed, repeated, shown
from hushcov.exceptions import DataError, ParameterError, RecordsFileError, raise_alone
from hushcov.sums.grids import refuse_name
from hushcov.sums.records import (
    Records,
    View,
    WrappedRecords,
    check_block_rows,
    check_finite,
    default_block_rows,
)
from hushcov.sums.transforms import Transform
from hushcov.tables.sources import check_frame, filled, names_of, numbers_of

NUMBER, BINARY, CATEGORY = "number", "binary", "category"
#: What a column can be.
KINDS = (NUMBER, "integer", BINARY, CATEGORY)
HEADER = ("name", "low", "high", "kind")
VALUES, TRANSFORM, SEPARATOR, MISSING = "values", "transform", "|", "missing"
_TRUTHS = ("true", "false")
_IN_NO_LIST = object()


@dataclass(frozen=True)
class CodebookColumn:
    """One column: its name, its kind, and the bounds or the list of values that go with it.

    A binary column lies between 0 and 1 unless bounds say otherwise. A category has values and no
    bounds; if all of them are numbers, it is compared by number, else by text. `transform` is as in
    the estimators' option, empty for none. `missing` is what empty fields are filled with: a
    number, or for a category one of its values or any other text.
    """

    name: str
    kind: str = NUMBER
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    transform: str = ""
    missing: str | None = None

    def __post_init__(self) -> None:
        where = f"column {shown(self.name)} of the codebook"
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError("the codebook must have a name for each column: fill it in.")
        check_choice(f"kind of {where}", self.kind, KINDS)
        for end in ("low", "high"):
            if getattr(self, end) is not None:
                cure = "write a number, or leave it out where it is not known."
                check_real(f"{end} of {where}", getattr(self, end), cure=cure)
        if self.missing is not None and self.kind != CATEGORY and _number(self.missing) is None:
            raise ParameterError(
                f"missing must be a number for {where}, got {shown(self.missing)}: write the one "
                "that empty fields are to have, or leave it out, and their records are left out."
            )
        if self.kind == CATEGORY:
            if self.low is not None or self.high is not None or self.transform:
                raise ParameterError(
                    f"low and high must be left out for {where}, which is a category, and so must "
                    "transform: its one-hot columns lie between 0 and 1."
                )
            if not self.values or not all(isinstance(v, str) and v.strip() for v in self.values):
                raise ParameterError(
                    f"values are required for {where}, which is a category: list those that it can "
                    f"have, separated by {SEPARATOR!r}. The list is public and never taken from X."
                )
            if len(self._places) < len(self.values):
                raise ParameterError(
                    f"values must all differ for {where}, got {len(self.values)} with "
                    f"{len(self._places)} different ones: leave out what is there twice."
                )
            return
        if self.values:
            raise ParameterError(
                f"values must be left out for {where}, which is a {self.kind}: values are of "
                "categories."
            )
        if self.kind == BINARY:
            object.__setattr__(self, "low", 0.0 if self.low is None else self.low)
            object.__setattr__(self, "high", 1.0 if self.high is None else self.high)
        low, high = self.bounds
        ends = -math.inf if low is None else low, math.inf if high is None else high
        Transform.read(self.transform or None, self.name, *ends)
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"low must be at most high, got {low:g} and {high:g} for {where}: swap them."
            )
        if self.kind == "integer" and any(
            end not in (None, round(end or 0)) for end in (low, high)
        ):
            raise ParameterError(
                f"low and high must be whole numbers for {where}, which is an integer: round them, "
                "or call it a number."
            )

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high."""
        return self.low, self.high

    @property
    def fill(self) -> float:
        """The number that stands for an empty field; NaN where its record is left out."""
        if self.missing is None:
            return math.nan
        return self.code(self.missing) if self.kind == CATEGORY else float(self.missing)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of what becomes of it: one-hot columns of a category, or the column itself."""
        if self.kind != CATEGORY:
            return (self.name,)
        return tuple(f"{self.name}={value.strip()}" for value in self.values)

    @cached_property
    def _numeric(self) -> bool:
        return all(_number(value) is not None for value in self.values)

    @cached_property
    def _places(self) -> dict[object, int]:
        return {self._key(value): i for i, value in enumerate(self.values)}

    def _key(self, value: object) -> object:
        """Return the number or text by which a value is compared."""
        if self._numeric:
            return _number(value)
        if isinstance(value, bool | np.bool_):
            return _TRUTHS[not value]
        if isinstance(value, float | np.floating) and float(value).is_integer():
            value = int(value)
        text = str(value).strip()
        return text.casefold() if text.casefold() in _TRUTHS else text

    def code(self, value: object) -> float:
        """Return the place of a value in the list; -1 if it is not in it, NaN if it is missing."""
        missing = value is None or type(value).__name__ in ("NAType", "NaTType")
        empty = isinstance(value, str) and not value.strip()
        if missing or empty or (isinstance(value, float | np.floating) and np.isnan(value)):
            return math.nan
        try:
            return float(self._places.get(self._key(value), -1))
        except Exception:  # an object's own text may fail, and that of an integer be too long
            return -1.0

    def codes(self, values: Iterable[object]) -> FloatArray:
        """Return the places of many values."""
        known: dict[object, float] = {}
        found = []
        for value in values:
            try:
                code = known.get((type(value), value))
            except Exception:  # a list or the like
                code = -1.0
            if code is None:
                code = known[type(value), value] = self.code(value)
            found.append(code)
        return np.array(found, dtype=np.float64)

    def codes_of_arrow(self, column: Any) -> FloatArray:
        """Return the places of the values of an Arrow array."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        codes = np.append(self.codes(_values_of(encoded.dictionary)), math.nan)
        places = (
            encoded.indices.fill_null(len(codes) - 1) if encoded.null_count else encoded.indices
        )
        found: FloatArray = codes[places.to_numpy(zero_copy_only=False).astype(np.int64)]
        return found


def _number(value: object) -> float | None:
    """Return the finite number that a value is, or that its text says."""
    try:
        number = float(value.replace("_", "?") if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Codebook:
    """Public knowledge of the columns of a table; never taken from the table itself.

    Parameters
    ----------
    columns : tuple of CodebookColumn
        In any order. Columns of a table that are not among them are used as they are.
    """

    columns: tuple[CodebookColumn, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        twice = repeated(self.names)
        if not self.names or twice:
            what = f"{listed(twice)} twice" if twice else "none"
            raise ParameterError(
                f"the codebook must have columns, each once, got {what}: leave out all but one."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of what becomes of them: a category has a one-hot column for each value."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def bounds(self) -> dict[str, tuple[float | None, float | None]]:
        """Bounds of the features that have some, as the `bounds` of estimators."""
        found: dict[str, tuple[float | None, float | None]] = {}
        for column in self.columns:
            ends = (0.0, 1.0) if column.kind == CATEGORY else column.bounds
            if ends != (None, None):
                found |= dict.fromkeys(column.features, ends)
        return found

    @property
    def transforms(self) -> dict[str, str]:
        """Transforms of the columns that have one, as the `transforms` of estimators."""
        return {each.name: each.transform for each in self.columns if each.transform}

    def only(self, names: Sequence[str]) -> Codebook:
        """Return the codebook of some columns; others of these names are no part of it."""
        return Codebook(tuple(column for column in self.columns if column.name in set(names)))

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a table that does not have all columns."""
        for name in self.names:
            if name not in names:
                refuse_name("codebook", name, names)

    @property
    def fills(self) -> dict[str, float]:
        """Numbers that empty fields are filled with, by column."""
        return {each.name: each.fill for each in self.columns if each.missing is not None}

    @property
    def categories(self) -> dict[str, CodebookColumn]:
        """Columns of categories, by name."""
        return {column.name: column for column in self.columns if column.kind == CATEGORY}


def read_codebook(path: str | Path) -> Codebook:
    """Read a codebook: a CSV file with the header name, low, high, kind and, optionally, others.

    Kinds are number, integer, binary (0 and 1 unless low and high say otherwise) and category,
    whose `values` are separated by "|". `transform` says how a column is mapped, as log1p, and
    `missing` what its empty fields are filled with. Other columns of the file are not read.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            header = [str(name).strip() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            rows = list(reader)
    except FileNotFoundError:
        raise_alone(RecordsFileError(f"{path} does not exist: check the path."))
    except OSError as error:
        raise_alone(RecordsFileError(f"{path} cannot be read: {error.strerror}."))
    except (UnicodeError, csv.Error):
        raise_alone(ParameterError(f"{path} must be a CSV file in UTF-8: save it as one."))
    missing = [name for name in HEADER if name not in header]
    if missing:
        raise ParameterError(
            f"{path} must begin with a line {','.join(HEADER)} (and {VALUES}), got none of "
            f"{listed(missing)}: add it, and leave fields empty where nothing is known."
        )
    try:
        return Codebook(tuple(_column(row) for row in rows))
    except ParameterError as error:
        raise_alone(ParameterError(f"{path}: {error}"))


def _column(row: dict[str, Any]) -> CodebookColumn:
    fields = {name: (row.get(name) or "").strip() for name in (*HEADER, VALUES, TRANSFORM, MISSING)}
    ends = {}
    for end in ("low", "high"):
        ends[end] = _number(fields[end])
        if fields[end] and ends[end] is None:
            raise ParameterError(
                f"{end} must be a number for column {shown(fields['name'])} of the codebook, got "
                f"{shown(fields[end])}: write one, or leave the field empty."
            )
    values = tuple(fields[VALUES].split(SEPARATOR)) if fields[VALUES] else ()
    given: Any = ends | {"values": values, "transform": fields[TRANSFORM]}
    given["missing"] = fields[MISSING] or None
    return CodebookColumn(fields["name"], fields["kind"], **given)


class CodedRecords(WrappedRecords):
    """The records with one-hot columns in place of categories.

    In `records` a category is the place of its value, -1 for none, NaN where it is missing. `sizes`
    has for each column how many values it has, 0 for one that is used as it is, and `names` those
    of all columns after that.

    Privacy
    -------
    Each row is mapped on its own, by lists that are public, so neighbours stay neighbours.
    """

    def __init__(self, records: Records, sizes: tuple[int, ...], names: tuple[str, ...]) -> None:
        super().__init__(records)
        self.sizes, self.feature_names, self.n_features = sizes, names, len(names)

    @property
    def source(self) -> Records:
        """The records before it."""
        return self._records

    def on(self, records: Records) -> Records:
        """Return these columns of other records."""
        return self._view()(records)

    def _blocks(self) -> Iterator[FloatArray]:
        for block in self._records._blocks():
            check_finite(block, gaps=self.gaps, names=self._records.feature_names)
            rows, place = np.empty((len(block), self.n_features)), 0
            for column, size in zip(np.asarray(block).T, self.sizes, strict=True):
                if size == 0:
                    rows[:, place] = column
                else:
                    hot = column[:, None] == np.arange(size)
                    rows[:, place : place + size] = np.where(np.isnan(column)[:, None], np.nan, hot)
                place += size or 1
            rows.setflags(write=False)
            yield rows

    def _view(self) -> View:
        return partial(CodedRecords, sizes=self.sizes, names=self.feature_names or ())


def code_categories(records: Any, codebook: Codebook, block_rows: int | None) -> CodedRecords:
    """Return records that hold places of categories, with one-hot columns for these.

    Blocks are as large as suits the columns that there are in the end.
    """
    sizes: list[int] = []
    features: list[str] = []
    for name in records.feature_names:
        category = codebook.categories.get(name)
        sizes.append(0 if category is None else len(category.values))
        features += [name] if category is None else category.features
    if repeated(features):
        raise ParameterError(
            f"the codebook must give one-hot columns other names than columns of the table, got "
            f"{listed(repeated(features))} twice: rename a column."
        )
    records.block_rows = check_block_rows(block_rows, default_block_rows(len(features)))
    return CodedRecords(records, tuple(sizes), tuple(features))


def check_codebook(codebook: object) -> Codebook:
    """Refuse anything but a codebook."""
    if not isinstance(codebook, Codebook):
        raise ParameterError(
            f"codebook must be a Codebook, got {shown(codebook)}: read one with "
            "hushcov.read_codebook(path)."
        )
    return codebook


class FrameRecords(Records):
    """Rows of a DataFrame or an Arrow table, whose categories are places in their lists."""

    block_rows: int

    def __init__(self, frame: Any, codebook: Codebook) -> None:
        names = None if type(frame).__module__.startswith("dask") else names_of(frame)
        if names is None:
            raise ParameterError(
                "codebook must be left out for records whose columns have no names: pass a "
                "DataFrame, an Arrow table, or a file with names."
            )
        codebook.check_names(names)
        if repeated(names):
            raise DataError(
                "X must have column names that all differ, got some twice: rename columns."
            )
        self.frame, self._categories, self.fills = frame, codebook.categories, codebook.fills
        check_frame(frame, texts=tuple(self._categories))
        self.n_records, self.n_features = frame.shape
        self.feature_names = names

    def _blocks(self) -> Iterator[FloatArray]:
        frame, names = self.frame, self.feature_names or ()
        pandas = hasattr(frame, "iloc")
        for start in range(0, self.n_records, self.block_rows):
            stop = start + self.block_rows
            part = frame.iloc[start:stop] if pandas else frame.slice(start, stop - start)
            block = np.empty((len(part), self.n_features))
            for i, name in enumerate(names):
                if pandas:
                    column = part.iloc[:, i]
                else:
                    column = part.to_series(i) if hasattr(part, "to_series") else part.column(i)
                block[:, i] = self._numbers(column, name)
            block.setflags(write=False)
            yield block

    def _numbers(self, column: Any, name: str) -> FloatArray:
        category, gaps = self._categories.get(name), self.gaps or name in self.fills
        if category is not None and not hasattr(column, "combine_chunks"):
            found = category.codes(_values_of(column))
        elif category is not None:
            while hasattr(column, "combine_chunks"):  # an Arrow column, made one array
                column = column.combine_chunks()
            found = category.codes_of_arrow(column)
        elif (values := np.asarray(column)).dtype.kind == "O":
            found = numbers_of(values[:, None], gaps, (name,))[:, 0]
        else:
            with np.errstate(all="ignore"):
                found = values.astype(np.float64)
        return filled(found, self.fills.get(name))


def _values_of(column: Any) -> list[Any]:
    """Return values as objects of Python; one that cannot be made, as a far date, is in no list."""
    try:
        return list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
    except Exception:
        found = []
        for i in range(len(column)):
            try:
                found.append(column[i].as_py() if hasattr(column[i], "as_py") else column[i])
            except Exception:
                found.append(_IN_NO_LIST)
        return found
