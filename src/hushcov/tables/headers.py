"""What files say of themselves before any record is read: names and types of columns.

Names and types are public. Of a text file the first line alone is read, byte by byte, and nothing
after it: types are not guessed from lines, and lines are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from hushcov._arrays import FloatArray
from hushcov.exceptions import DataError, RecordsFileError
from hushcov.sums.records import Records
from hushcov.tables.codebook import NUMBER
from hushcov.tables.files import find_files
from hushcov.tables.formats import (
    FileSpan,
    TextOptions,
    check_count,
    check_different,
    check_header,
    count_rows,
    generated_names,
    reads_as_value,
    schema_of,
)
from hushcov.tables.sources import format_of, is_arrow_number, is_file_source, map_npy
from hushcov.tables.text_layout import first_fields
from hushcov.tables.text_names import trimmed

#: What a column holds by the type that its file states.
TRUTH, TEXT, OTHER = "truth", "text", "other"  # or a number
_NPY = "npy"


@dataclass(frozen=True)
class Header:
    """Columns of files, without their rows.

    `names` are None where columns have none. `kinds` says what each holds where the files state
    that; text files do not.
    """

    paths: tuple[str, ...]
    format: str
    n_columns: int
    names: tuple[str, ...] | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    text: TextOptions = field(default_factory=TextOptions)

    @property
    def states_rows(self) -> bool:
        """Whether the files state how many rows they have, so that no row is read for it."""
        return self.format != "csv"

    def count_rows(self) -> int:
        """Number of rows; text files are read for it. Ask first whether that number is public."""
        if self.format == _NPY:
            return int(map_npy(Path(self.paths[0])).shape[0])
        return sum(count_rows(path, self.format, self.text) for path in self.paths)


def read_header(
    source: str | Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    names: Sequence[str] | None = None,
) -> Header:
    """The columns of what `open_records` would open with these options; no record is read.

    Of the first line of text files without a header nothing but the number of fields is kept.
    """
    if not is_file_source(source):
        if Path(source).suffix != ".npy":
            raise RecordsFileError(
                f"{source} must be a folder, a pattern, or a file whose name ends in .npy, "
                ".parquet, .arrow, .feather, .csv or .tsv: check the path."
            )
        return Header((str(source),), _NPY, int(map_npy(Path(source)).shape[1]))
    paths = tuple(find_files(source))
    kind = format_of(paths[0]) or ""
    if kind == "csv":
        return _of_text(paths, TextOptions.checked(delimiter, header, names))
    schema = schema_of(FileSpan(paths[0], kind, 0, 0))
    names = tuple(schema.names)
    kinds = {name: _kind(schema.field(i).type) for i, name in enumerate(names)}
    return Header(paths, kind, len(names), names, kinds)


def may_be_record(source: str | Path, *, delimiter: str | None = None) -> bool:
    """Whether something in the first line of text files reads as a value, so that it is no name."""
    text = TextOptions.checked(delimiter, True, None)
    return any(map(reads_as_value, _fields(next(iter(find_files(source))), text)))


def _kind(arrow_type: Any) -> str:
    import pyarrow as pa

    inner = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    if pa.types.is_boolean(inner):
        return TRUTH
    if pa.types.is_string(inner) or pa.types.is_large_string(inner):
        return TEXT
    return NUMBER if inner is arrow_type and is_arrow_number(pa, inner) else OTHER


def _of_text(paths: tuple[str, ...], text: TextOptions) -> Header:
    path = paths[0]
    fields = _fields(path, text)
    if not "".join(fields):
        raise DataError(
            f"{path} must begin with the names of its columns, got an empty line: check that this "
            "is the right file, and how it was written."
        )
    if text.header and text.names is None:
        check_header(path, fields, text)
        blank = any(name != name.strip() for name in fields)
        all_fields = [fields, *(_fields(each, text) for each in paths[1:] if blank)]
        text = replace(text, names=trimmed(all_fields))
    else:
        text = replace(text, names=text.names or generated_names(len(fields)))
        check_count(path, len(fields), text.names or ())
    names = text.names or fields
    check_different(path, names)
    return Header(paths, "csv", len(names), names, text=text)


def _fields(path: str, text: TextOptions) -> tuple[str, ...]:
    """What is in the first line; nothing after it is read."""
    return first_fields(path, text.delimiter_of(path), ahead=False)


class DeclaredRecords(Records):
    """So many records of these features, as somebody says: to plan with, and never read."""

    def __init__(
        self,
        n_records: int,
        n_features: int,
        names: tuple[str, ...] | None = None,
        *,
        gaps: bool = False,
    ) -> None:
        self.n_records, self.n_features = n_records, n_features
        self.feature_names, self.gaps = names, gaps

    def column(self) -> NoReturn:
        """Whose the rows would be."""
        raise AssertionError("records that are only declared have no values")

    def _blocks(self) -> Iterator[FloatArray]:
        self.column()
