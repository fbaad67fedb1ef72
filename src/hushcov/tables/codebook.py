"""A codebook: what is publicly known of every column of a table, and the table coded by it.

Columns of categories become one-hot columns, by a public list of their values. A category is first
read as the number of its value in the list (-1 for any other, NaN where it is missing), then spread
out. How fields of other columns are read is in `cells`.
"""

from __future__ import annotations

import copy
import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._files import os_errors
from hushcov._validation import check_choice, check_real, listed, meant, repeated, shown
from hushcov.bounds import refuse_name
from hushcov.exceptions import (
    INTERRUPTS,
    DataError,
    ParameterError,
    RecordsFileError,
    raise_alone,
)
from hushcov.kernel.records.base import MappedRecords, Records, default_block_rows
from hushcov.tables.cells import (
    FIRST_ROWS,
    MISSING_CODES,
    NO,
    PLAIN,
    TRUTHS,
    YES,
    FieldReader,
    folded,
    is_missing,
    is_text,
    number_in,
    remembered,
    values_of,
    vocabulary,
)
from hushcov.tables.formats import arrow
from hushcov.tables.sources import (
    OBJECT,
    TEXT,
    check_block_rows,
    check_frame,
    columns_of_kind,
    filled,
    names_of,
    refuse_text,
    without_invalid,
)
from hushcov.transforms import read_transform

NUMBER, INTEGER, BINARY, CATEGORY = "number", "integer", "binary", "category"
#: What a column can be.
KINDS = (NUMBER, INTEGER, BINARY, CATEGORY)
HEADER = ("name", "low", "high", "kind")
VALUES, TRANSFORM, SEPARATOR, MISSING = "values", "transform", "|", "missing"
CODES, THOUSANDS = "missing_codes", "thousands"
#: What stands between spellings and the value that they mean, and between such lists.
MEANS, NEXT = "->", ";"
#: Separators of thousands by the words for them.
SEPARATORS = {"comma": ",", "space": " ", "apostrophe": "'"}
# Lists of one value that make a category a question of yes or no: all else is no such answer.
_ASKED = ("yes", "y", "true")


_WORDS = vocabulary()


@dataclass(frozen=True)
class CodebookColumn:
    """One column: its name, its kind, and the bounds or the list of values that go with it.

    Parameters
    ----------
    name : str
    kind : {"number", "integer", "binary", "category"}
        A binary column has two values, `low` and `high`, 0 and 1 if they are left out. Then yes, y,
        true, t and 1 are read as 1, and no, n, false, f and 0 as 0. All else is missing.
    low, high : float, optional
        Bounds of numbers.
    values : sequence of str
        Values of a category. Case and blanks around a value do not matter; if all values are
        numbers, they are compared as numbers.
    transform : str
        As in the estimators' option, empty for none.
    missing : str, optional
        What missing fields are filled with: a number, or for a category one of its values or any
        other text.
    synonyms : mapping of str to str
        Other spellings, and the value of a category that each means; "yes" or "no" for a binary
        column.
    missing_codes : sequence of str
        Fields that are missing values, beside those that are so in every column
        (`MISSING_CODES`), such as -99.
    thousands : str
        The sign between thousands, as the comma in 1,234.56.
    """

    name: str
    kind: str = NUMBER
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    transform: str = ""
    missing: str | None = None
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)
    missing_codes: tuple[str, ...] = ()
    thousands: str = ""

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
        object.__setattr__(self, "missing_codes", tuple(self.missing_codes))
        if self.thousands not in ("", *SEPARATORS.values()) or (
            self.thousands and self.kind not in (NUMBER, INTEGER)
        ):
            raise ParameterError(
                f"{THOUSANDS} must be {', '.join(SEPARATORS)} or empty for {where}, and is for "
                f"numbers alone, got {shown(self.thousands)}: leave it out where there is none."
            )
        if self.kind == CATEGORY:
            self._check_category(where)
        else:
            self._check_numbers(where)

    def _check_category(self, where: str) -> None:
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
                f"{len(self._places)} different ones: leave out what is there twice. Case and "
                "blanks around a value do not matter."
            )
        self._check_synonyms(where, self._places)

    def _check_numbers(self, where: str) -> None:
        if self.kind == BINARY:
            self._check_synonyms(where, _WORDS)
            spelt = [each for each in self.values if folded(each) not in _WORDS]
            if spelt:
                raise ParameterError(
                    f"values of {where} must say which are yes and which are no, got "
                    f"{', '.join(map(shown, spelt))}: write them as male {MEANS} yes{NEXT} female "
                    f"{MEANS} no, or call the column a category."
                )
        elif self.values or self.synonyms:
            raise ParameterError(
                f"values must be left out for {where}, which is a {self.kind}: values are of "
                "categories and binary columns."
            )
        if self.kind == BINARY:
            object.__setattr__(self, "low", 0.0 if self.low is None else self.low)
            object.__setattr__(self, "high", 1.0 if self.high is None else self.high)
        low, high = self.bounds
        ends = -math.inf if low is None else low, math.inf if high is None else high
        read_transform(self.transform or None, self.name, *ends)
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"low must be at most high, got {low:g} and {high:g} for {where}: swap them."
            )
        if self.kind == INTEGER and any(end not in (None, round(end or 0)) for end in (low, high)):
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
        if self.kind == CATEGORY:
            return float(self._places.get(self._key(self.missing), -1))
        return float(self.missing)

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

    @cached_property
    def _spellings(self) -> dict[object, float]:
        """Places of values by all that stands for them; NaN for codes of missing values."""
        found = dict.fromkeys(map(self._key, MISSING_CODES), math.nan)
        if self._asks:
            sides = {_WORDS[folded(value)]: float(i) for i, value in enumerate(self.values)}
            found |= {word: sides.get(side, -1.0) for word, side in _WORDS.items()}
        found |= dict.fromkeys(map(self._key, self.missing_codes), math.nan)
        found |= {key: float(place) for key, place in self._places.items()}
        meant = {self._key(word): self._key(value) for word, value in self.synonyms.items()}
        found |= {word: float(self._places[value]) for word, value in meant.items()}
        return found

    @cached_property
    def _asks(self) -> bool:
        """True if the values of a category are yes and no, or yes alone."""
        if self._numeric:
            return False
        sides = [_WORDS.get(folded(value)) for value in self.values]
        return sides in ([1.0, 0.0], [0.0, 1.0]) or (
            len(sides) == 1 and folded(self.values[0]) in _ASKED
        )

    def _check_synonyms(self, where: str, known: Mapping[Any, Any]) -> None:
        """Refuse spellings of what is no value, and codes of missing values that are values."""
        category = self.kind == CATEGORY
        meant = {self._key(each) if category else folded(each) for each in self.synonyms.values()}
        if not meant <= set(known):
            raise ParameterError(
                f"spellings for {where} must mean one of its values, or yes or no in a binary "
                f"column, got others: write them as Y|1 {MEANS} yes."
            )
        spelt = [folded(each) for each in (*self.values, *self.synonyms, *self.missing_codes)]
        if twice := repeated(spelt):
            raise ParameterError(
                f"values, their spellings and {CODES} of {where} must all differ, got "
                f"{', '.join(map(shown, twice))} twice: leave it out of one of them."
            )

    @property
    def has_own_words(self) -> bool:
        """True if some fields that are not numbers have a meaning in this column alone."""
        return any(number_in(folded(x)) is None for x in (*self.synonyms, *self.missing_codes))

    @cached_property
    def reading(self) -> FieldReader:
        """Rules that make numbers of the fields, where this is no category."""
        known: dict[str, Any] = {"thousands": self.thousands}
        words: Mapping[str, float] = TRUTHS
        if self.kind == BINARY:
            ends = float(self.low or 0), float(1 if self.high is None else self.high)
            meant = {folded(word): _WORDS[folded(side)] for word, side in self.synonyms.items()}
            words = dict(_WORDS) if ends == (0.0, 1.0) else {}
            words |= {word: ends[int(side)] for word, side in meant.items()}
            known["only"] = ends
        return FieldReader.of(words, self.missing_codes, **known)

    def _key(self, value: object) -> object:
        """Return the number or text by which a value is compared."""
        number = _number(value) if self._numeric else None
        if number is not None or (self._numeric and not isinstance(value, str)):
            return number
        if isinstance(value, float | np.floating) and float(value).is_integer():
            value = int(value)
        text = folded(str(value))  # that of truth values is a word of yes or no
        whole = number_in(text) if self._asks else None  # as 1.0
        return text if whole is None or not whole.is_integer() else str(int(whole))

    def code(self, value: object) -> float:
        """Return the number of a value: of a category, its place in the list.

        A value that is in no list is -1, one that is missing NaN. What is no number in a column of
        numbers, and neither yes nor no in one of these, is infinite.
        """
        if self.kind != CATEGORY:
            return self.reading.value(value)
        other = math.inf if self._asks else -1.0
        try:
            return math.nan if is_missing(value) else self._spellings.get(self._key(value), other)
        except INTERRUPTS:
            raise
        except BaseException:  # an object's own text may fail, and that of an integer be too long
            return other

    def codes(self, values: Iterable[object]) -> FloatArray:
        """Return the numbers of many values."""
        return remembered(self.code, values)

    def codes_of_arrow(self, column: Any) -> FloatArray:
        """Return the numbers of the values of an Arrow array."""
        try:
            encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        except NotImplementedError:  # by its type, as that of lists
            return self.codes(values_of(column))
        codes = np.append(self.codes(values_of(encoded.dictionary)), math.nan)
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
    def kinds(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Kinds of the features, with the words for the values of a binary one if there are any."""
        return {
            feature: (column.kind, column.values if column.kind == BINARY else ())
            for column in self.columns
            for feature in column.features
        }

    @property
    def indicators(self) -> frozenset[str]:
        """Names of the features that hold 0 and 1 alone."""
        known = [each for each in self.columns if each.kind == CATEGORY]
        for each in self.columns:
            if each.kind == BINARY and each.bounds == (0.0, 1.0) and not 0 < each.fill < 1:
                known.append(each)
        return frozenset(name for each in known for name in each.features)

    @property
    def transforms(self) -> dict[str, str]:
        """Transforms of the columns that have one, as the `transforms` of estimators."""
        return {each.name: each.transform for each in self.columns if each.transform}

    def of_columns(self, names: Sequence[str]) -> Codebook:
        """Return it with a table's own names of its columns; one without all of them is refused."""
        found = [meant(name, names) or refuse_name("codebook", name, names) for name in self.names]
        pairs = zip(self.columns, found, strict=True)
        return Codebook(tuple(replace(column, name=name) for column, name in pairs))

    @property
    def fills(self) -> dict[str, float]:
        """Numbers that empty fields are filled with, by column."""
        return {each.name: each.fill for each in self.columns if each.missing is not None}

    @property
    def described(self) -> dict[str, CodebookColumn]:
        """Columns by name."""
        return {column.name: column for column in self.columns}

    @property
    def categories(self) -> dict[str, CodebookColumn]:
        """Columns of categories, by name."""
        return {column.name: column for column in self.columns if column.kind == CATEGORY}


def read_codebook(path: str | Path) -> Codebook:
    """Read a codebook: a CSV file with the header name, low, high, kind and, optionally, others.

    Kinds are number, integer, binary (0 and 1 unless low and high say otherwise) and category,
    whose `values` are separated by "|". Other spellings stand before the value that they mean:
    "yes|Y|1 -> yes; no|N|0 -> no". `transform` says how a column is mapped, as log1p, `missing`
    what missing fields are filled with, `missing_codes` which fields are missing beside those that
    always are, as "-99|999", and `thousands` what separates thousands, as comma. Other columns of
    the file are not read.
    """
    path = Path(path)
    try:
        with (
            os_errors(path, "read", RecordsFileError),
            path.open(encoding="utf-8-sig", newline="") as file,
        ):
            reader = csv.DictReader(file, skipinitialspace=True)
            header = [str(name).strip() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            rows = list(reader)
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
    known = (*HEADER, VALUES, TRANSFORM, MISSING, CODES, THOUSANDS)
    fields = {name: (row.get(name) or "").strip() for name in known}
    ends = {}
    for end in ("low", "high"):
        ends[end] = _number(fields[end])
        if fields[end] and ends[end] is None:
            raise ParameterError(
                f"{end} must be a number for column {shown(fields['name'])} of the codebook, got "
                f"{shown(fields[end])}: write one, or leave the field empty."
            )
    for name in (VALUES, CODES):
        if "," in fields[name] and SEPARATOR not in fields[name] and MEANS not in fields[name]:
            raise ParameterError(  # "F, M" would be one value that no record has
                f"{name} must be separated by {SEPARATOR!r} and not by commas for column "
                f"{shown(fields['name'])} of the codebook, got {shown(fields[name])}: write them "
                f"as a{SEPARATOR}b. A single value with a comma in it is 'a, b {MEANS} a, b'."
            )
    values, synonyms = read_values(fields[VALUES])
    return CodebookColumn(
        fields["name"],
        fields["kind"],
        ends["low"],
        ends["high"],
        values=values,
        transform=fields[TRANSFORM],
        missing=fields[MISSING] or None,
        synonyms=synonyms,
        missing_codes=_split(fields[CODES]),
        thousands=SEPARATORS.get(fields[THOUSANDS], fields[THOUSANDS]),
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(SEPARATOR)) if text.strip() else ()


def read_values(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the values that a text lists, and the value that each other spelling means.

    Values are separated by "|". Spellings stand before their value: "yes|Y -> yes; no|N -> no".
    """
    if MEANS not in text:
        return _split(text), {}
    values: list[str] = []
    synonyms: dict[str, str] = {}
    for part in filter(str.strip, text.split(NEXT)):
        before, means, value = part.partition(MEANS)
        if not means:
            values += _split(part)
            continue
        values.append(value.strip())
        spelt = [each for each in _split(before) if each != value.strip()]
        if twice := [each for each in spelt if each in synonyms]:
            raise ParameterError(
                f"values must have every spelling once, got {', '.join(map(shown, twice))} for "
                "several: leave it out of all but one."
            )
        synonyms |= dict.fromkeys(spelt, value.strip())
    return tuple(values), synonyms


def written_values(column: CodebookColumn) -> str:
    """Return the text that `read_values` reads as the values of a column."""
    plain = SEPARATOR.join(column.values)
    if not column.synonyms and ("," not in plain or SEPARATOR in plain):
        return plain
    named = [*column.values, *(each for each in YES[:1] + NO[:1] if each not in column.values)]
    parts = []
    for value in named if column.kind == BINARY else column.values:
        spelt = [each for each, meant in column.synonyms.items() if folded(meant) == folded(value)]
        if spelt or value in column.values:
            parts.append(f"{SEPARATOR.join([value, *spelt])} {MEANS} {value}")
    return f"{NEXT} ".join(parts)


class CodedRecords(MappedRecords):
    """The records with one-hot columns in place of categories.

    In `records` a category is the place of its value, -1 for none, NaN where it is missing. `sizes`
    has for each column how many values it has, 0 for one that is used as it is, and `names` those
    of all columns after that. `indicators` are the names of those that hold 0 and 1 alone.
    """

    def __init__(
        self,
        records: Records,
        sizes: tuple[int, ...],
        names: tuple[str, ...],
        indicators: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(records)
        self.sizes, self.feature_names, self.n_features = sizes, names, len(names)
        self.indicators = indicators
        self._public = {"sizes": sizes, "names": names, "indicators": indicators}

    @property
    def source(self) -> Records:
        """The records before it."""
        return self._records

    def on(self, records: Records) -> Records:
        """Return these columns of other records."""
        other = self._view()(records)
        other.kinds = self.kinds
        return other

    def _mapped(self, block: Any, xp: Any) -> FloatArray:
        rows, place = np.empty((len(block), self.n_features)), 0
        for column, size in zip(np.asarray(block).T, self.sizes, strict=True):
            if size == 0:
                rows[:, place] = column
            else:
                hot = column[:, None] == np.arange(size)
                rows[:, place : place + size] = np.where(np.isnan(column)[:, None], np.nan, hot)
            place += size or 1
        rows.setflags(write=False)
        return rows


def code_categories(records: Any, codebook: Codebook, block_rows: int | None) -> CodedRecords:
    """Return records that hold places of categories, with one-hot columns for these.

    The codebook has their names of columns. Blocks are as large as suits the columns that there are
    in the end.
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
    coded = CodedRecords(records, tuple(sizes), tuple(features), codebook.indicators)
    coded.kinds = codebook.kinds
    return coded


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
        names = names_of(frame)
        if names is None:
            raise ParameterError(
                "codebook must be left out for records whose columns have no names: pass a "
                "DataFrame, an Arrow table, or a file with names."
            )
        if repeated(names):
            raise DataError(
                "X must have column names that all differ, got some twice: rename columns."
            )
        self.codebook = codebook = codebook.of_columns(names)
        self.frame, self._columns, self.fills = frame, codebook.described, codebook.fills
        stated = columns_of_kind(frame, TEXT, OBJECT)
        texts = [name for name in stated if name in self._columns]
        check_frame(frame, texts=(*texts, *codebook.categories))
        self.n_features, self.feature_names = len(names), names
        self.block_rows = default_block_rows(self.n_features)
        self._texts = frozenset((*texts, *codebook.categories))
        self._in_polars = hasattr(frame, "to_series")
        if self._in_polars and self._texts:
            # Polars itself panics where a text is not UTF-8, and prints its bytes.
            arrow("text columns of polars frames")
        if hasattr(frame, "to_dask_array"):  # workers have its rows
            return
        self.n_records = len(frame)
        first = self._part(0, FIRST_ROWS)
        guessed = [
            name for name in columns_of_kind(frame, OBJECT) if name not in codebook.categories
        ]
        own = {name: self._column(first, name) for name in guessed}
        found = {name: self._read(column, name) for name, column in own.items()}
        refuse_text([n for n in guessed if is_text(found[n], np.asarray(own[n], dtype=object))])

    def of(self, part: Any) -> FrameRecords:
        """Return the rows of a partition of the frame."""
        records = copy.copy(self)
        records.frame, records.n_records = part, len(part)
        return records

    def _part(self, start: int, stop: int) -> Any:
        """Return successive rows of the frame."""
        frame = self.frame
        return (
            frame.iloc[start:stop] if hasattr(frame, "iloc") else frame.slice(start, stop - start)
        )

    def _column(self, part: Any, name: str) -> Any:
        place = (self.feature_names or ()).index(name)
        if hasattr(part, "iloc"):
            return part.iloc[:, place]
        return part.to_series(place) if hasattr(part, "to_series") else part.column(place)

    def _blocks(self) -> Iterator[FloatArray]:
        for start in range(0, self.n_records, self.block_rows):
            part = self._part(start, start + self.block_rows)
            block = np.empty((len(part), self.n_features))
            for i, name in enumerate(self.feature_names or ()):
                found = self._read(self._column(part, name), name)
                found = without_invalid(found, strict=self.strict)
                block[:, i] = filled(found, self.fills.get(name))
            block.setflags(write=False)
            yield block

    def _read(self, column: Any, name: str) -> FloatArray:
        """Return the numbers of a column: NaN if missing, infinite if it is none."""
        described = self._columns.get(name)
        if name in self._texts and described is not None:
            if self._in_polars and str(column.dtype) != "Object":
                column = column.to_arrow()
            while hasattr(column, "combine_chunks"):  # an Arrow column, made one array
                column = column.combine_chunks()
            if hasattr(column, "dictionary_encode") and not hasattr(column, "iloc"):
                return described.codes_of_arrow(column)
            return described.codes(values_of(column))
        values = np.asarray(column)
        if values.dtype.kind == "O":
            return remembered(PLAIN.value if described is None else described.code, values)
        with np.errstate(all="ignore"):
            found = values.astype(np.float64)
        return found if described is None else described.reading.numbers(found)
