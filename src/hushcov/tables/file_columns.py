"""One column of files by itself: whose the rows are, or how much each counts.

Identifiers become numbers from 0 on, exactly: those that are equal get the same number. Of their
values no more is held than a dictionary of bounded size; where units may be more, the column is
read several times, and each reading takes a part of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov.exceptions import DataError, ParameterError, raise_alone
from hushcov.sums.records import Records, source_of
from hushcov.tables.chosen import check_there
from hushcov.tables.files import FileRecords, names_left_out
from hushcov.tables.formats import arrow, changed, read_batches
from hushcov.tables.identifiers import (
    check_identifiers,
    missing_identifiers,
    mixed_identifiers,
    refuse_feature,
)
from hushcov.tables.units import Units

#: Most identifiers that are to be in a dictionary, on average; more rows are read in parts.
LARGEST_DICTIONARY = 2**25
_BATCH = 2**18  # rows read at a time
_WAITING = 2**20  # rows that are compared with the dictionary at a time, at least
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_DOWN = np.uint64(32)
_LARGEST_SIGNED = np.uint64(2**63 - 1)


@dataclass(frozen=True, eq=False)
class FileColumn:
    """A column of files that is no feature, read when it is called: after the charge."""

    records: FileRecords
    name: str

    def arrays(self, *, text: bool) -> Iterator[Any]:
        """The column of successive rows; that of text files as `text` or as numbers."""
        for span in self.records.spans:
            texts = tuple(name for name in span.texts if name != self.name)
            whole = replace(span, texts=(*texts, self.name) if text else texts)
            for position, batch in read_batches(whole, [self.name], _BATCH):
                first, last = max(span.start - position, 0), min(span.stop - position, len(batch))
                if first < last:
                    yield batch.column(0).slice(first, last - first)
                if position + len(batch) >= span.stop:
                    break
            else:
                raise changed(span.path)


@dataclass(frozen=True, eq=False)
class FileIdentifiers(FileColumn):
    """The units of the rows of files; `unsigned` says that all files have 64 bits without sign."""

    unsigned: bool = False

    def __call__(self) -> Units:
        """A number for each row, the same for those of one unit."""
        n_rows = self.records.n_records
        codes = np.full(n_rows, -1, dtype=np.int64)
        parts, first = -(-n_rows // LARGEST_DICTIONARY), 0
        for part in range(parts):
            found = _Dictionary(codes, first)
            for start, array in self._placed():
                found.add(start, array, part, parts)
            first += found.finish()
        assert codes.min(initial=0) >= 0
        return Units(codes)

    def _placed(self) -> Iterator[tuple[int, Any]]:
        start, kinds = 0, set()
        for array in self.arrays(text=True):
            text = self.records.spans[0].format == "csv"
            checked = _checked(array, text=text, unsigned=self.unsigned)
            kinds.add(checked.type)
            if len(kinds) > 1:
                raise mixed_identifiers()
            yield start, checked
            start += len(array)


class FileWeights(FileColumn):
    """The weights of the rows of files."""

    def __call__(self) -> FloatArray:
        """One for each row."""
        pa = arrow()
        found = []
        for array in self.arrays(text=False):
            try:
                found.append(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
            except pa.ArrowException:
                raise_alone(
                    DataError(
                        "sample_weight must be a column of numbers, got another type: convert it."
                    )
                )
        return np.concatenate([np.zeros(0), *found])


class _Dictionary:
    """Identifiers that were met, in the order in which they were; their places are the codes."""

    def __init__(self, codes: IntArray, first: int) -> None:
        self._codes, self._first = codes, first
        self._known: Any = None
        self._waiting: list[Any] = []
        self._places: list[NDArray[np.intp]] = []
        self._n_waiting = 0

    def add(self, start: int, array: Any, part: int, parts: int) -> None:
        """Take the identifiers of successive rows, if they are of this part."""
        places = np.arange(start, start + len(array))
        if parts > 1:
            own = _hashes(array) % np.uint64(parts) == part
            places, array = places[own], array.filter(arrow().array(own))
        self._waiting.append(array)
        self._places.append(places)
        self._n_waiting += len(array)
        # As many as there are known: the dictionary is not made anew too often.
        if self._n_waiting >= max(_WAITING, 0 if self._known is None else len(self._known)):
            self.finish()

    def finish(self) -> int:
        """Number what waits, and say how many are known."""
        known = [] if self._known is None else [self._known]
        if self._n_waiting:
            before = len(known[0]) if known else 0
            found = arrow().concat_arrays([*known, *self._waiting]).dictionary_encode()
            indices = found.indices.to_numpy()
            # Dictionaries keep the order of first appearance, on which codes rest.
            assert np.array_equal(indices[:before], np.arange(before))
            self._codes[np.concatenate(self._places)] = self._first + indices[before:]
            self._known = found.dictionary
        self._waiting, self._places, self._n_waiting = [], [], 0
        return 0 if self._known is None else len(self._known)


def _value_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def _kind_of(kind: Any) -> str | None:
    """What identifiers of a type are compared as; None where all are null."""
    types = arrow().types
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


def _checked(array: Any, *, text: bool, unsigned: bool) -> Any:
    """Identifiers as integers or as text, and complete."""
    kind = _kind_of(_value_type(array.type))
    if arrow().types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count or kind is None:
        raise missing_identifiers()
    if kind == "int64":
        return _whole(array, unsigned)
    found = array.cast(getattr(arrow(), kind)())
    if _has_missing(found, text=text):
        raise missing_identifiers()
    return found


def _whole(array: Any, unsigned: bool) -> Any:
    found = check_identifiers(array, len(array))
    if not unsigned and found.dtype.kind == "u" and (found > _LARGEST_SIGNED).any():
        raise mixed_identifiers()  # others have a sign
    return arrow().array(found.astype(np.uint64 if unsigned else np.int64))


def _has_missing(array: Any, *, text: bool) -> bool:
    """Whether some are empty, or what text files say for nulls."""
    import pyarrow.compute as pc
    from pyarrow import csv

    if pc.any(pc.equal(pc.binary_length(array), 0)).as_py():
        return True
    if not text:
        return False
    nulls = arrow().array(csv.ConvertOptions().null_values, arrow().large_string())
    return bool(pc.any(pc.is_in(array, value_set=nulls)).as_py())


def _hashes(array: Any) -> NDArray[np.uint64]:
    """A number of each identifier that says in which part it is; others may have the same."""
    if arrow().types.is_integer(array.type):
        numbers = array.to_numpy().view(np.uint64) * _SPREAD
        return np.asarray(numbers >> _DOWN)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    found = np.empty(len(array), dtype=np.uint64)
    _hash_text(ends, np.frombuffer(data, dtype=np.uint8), found)
    return found


@compiled
def _hash_text(ends: IntArray, data: NDArray[np.uint8], found: NDArray[np.uint64]) -> None:
    for i in range(len(found)):
        total = np.uint64(0)
        for place in range(ends[i], ends[i + 1]):
            total = (total ^ np.uint64(data[place])) * _SPREAD
            total ^= total >> _DOWN
        found[i] = total >> np.uint64(8)


def open_files(
    source: Any, named: str | int, what: str, *, drop_nulls: bool
) -> tuple[Records, FileColumn, str]:
    """Files without the column, and that column."""
    files = FileRecords(source, leave_out=[named], drop_nulls=drop_nulls)
    (name,) = files.left_out
    return files, column_of(files, name, what), name


def of_opened(records: Records, named: str | int, what: str) -> tuple[Records, FileColumn, str]:
    """The same of files that were opened before; a column that is a feature is one no more."""
    files = source_of(records)
    if not isinstance(files, FileRecords):
        raise ParameterError(
            f"{what} must name a column of files, got a {type(files).__name__}: pass what it was "
            "made of, or one value for each row."
        )
    (name,) = names_left_out([span.path for span in files.spans[:1]], files.schemas()[:1], [named])
    column = column_of(files, name, what)
    if name not in (files.feature_names or ()):
        return records, column, name
    if files.columns_given or records is not files:
        refuse_feature(what, name)
    return files.without(name), column, name


def column_of(files: FileRecords, name: str, what: str) -> FileColumn:
    """A column by itself; its type is checked as far as files tell it."""
    schemas = files.schemas()
    for span, schema in zip(files.spans, schemas, strict=False):
        check_there(span.path, schema.names, [name])
    if what == "sample_weight":
        return FileWeights(files, name)
    if files.spans[0].format == "csv":
        return FileIdentifiers(files, name)
    kinds = [_value_type(schema.field(name).type) for schema in schemas]
    if len({_kind_of(kind) for kind in kinds} - {None}) > 1:
        raise mixed_identifiers()
    return FileIdentifiers(files, name, unsigned=all(map(arrow().types.is_uint64, kinds)))
