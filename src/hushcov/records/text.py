"""Text files: lines of fields, the first of which may be the names of the columns.

Every line is a record, also one that is blank: all its values are null. If it were skipped, the
number of records would depend on what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hushcov._validation import shown
from hushcov.exceptions import DataError, ParameterError
from hushcov.records.header import may_be_record

_SEPARATORS = (";", "\t", "|", ",")
_READ_BYTES = 2**20


@dataclass(frozen=True)
class TextOptions:
    """How lines are read.

    Without `delimiter` fields are apart by a tab in .tsv files and by a comma in others. `header`
    says whether the first line has the names of the columns, which `names` then replace.
    """

    delimiter: str | None = None
    header: bool = True
    names: tuple[str, ...] | None = None

    @classmethod
    def checked(cls, delimiter: object, header: object, names: Sequence[str] | None) -> TextOptions:
        """The options after checking them, without a file."""
        if delimiter is not None and (
            not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'
        ):
            raise ParameterError(
                f"delimiter must be one character, got {shown(delimiter)}: leave it out for "
                "commas, or for tabs in .tsv files."
            )
        if not isinstance(header, bool):
            raise ParameterError(
                f"header must be True or False, got {shown(header)}: say whether the first line "
                "has the names of the columns."
            )
        if names is None:
            return cls(delimiter, header)
        given = () if isinstance(names, str) else tuple(names)
        if not given or not all(isinstance(name, str) for name in given):
            raise ParameterError(
                "names must be a sequence of names, one for each column: pass a list of text."
            )
        if len(set(given)) < len(given) or not all(name.strip() for name in given):
            raise ParameterError(
                f"names must all differ and none may be blank, got {len(given)} with "
                f"{len(set(given))} different ones: choose others."
            )
        return cls(delimiter, header, given)

    def delimiter_of(self, path: str) -> str:
        """What is between two fields of this file."""
        tabs = path.endswith((".tsv", ".tsv.gz"))
        return self.delimiter or ("\t" if tabs else ",")


def csv_format(
    path: str, options: TextOptions, column_types: Mapping[str, Any] | None = None
) -> Any:
    """How pyarrow is to read a text file: names, lines, delimiter, and types if they are known."""
    from pyarrow import csv, dataset

    named = options.names is not None
    return dataset.CsvFileFormat(
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter_of(path), ignore_empty_lines=False
        ),
        # Not skip_rows_after_names, with which pyarrow 26 counts the line that it skips.
        read_options=csv.ReadOptions(
            column_names=options.names,
            skip_rows=int(options.header and named),
            autogenerate_column_names=not options.header and not named,
        ),
        convert_options=csv.ConvertOptions(column_types=column_types),
    )


def generated_names(count: int) -> tuple[str, ...]:
    """Names for the columns of a file that has none."""
    return tuple(f"column_{i}" for i in range(1, count + 1))


def check_header(path: str, names: Sequence[str], options: TextOptions) -> None:
    """Refuse a first line that may be a record, without quoting it, or that was not taken apart."""
    delimiter = options.delimiter_of(path)
    if len(names) == 1:
        other = [sign for sign in _SEPARATORS if sign != delimiter and sign in names[0]]
        if other:
            raise DataError(
                f"{path} must have fields separated by {delimiter!r}, but its one column has "
                f"{other[0]!r} in its name: use delimiter={other[0]!r} (--delimiter)."
            )
    if may_be_record(names):
        raise DataError(
            f"{path} must begin with the names of its columns, but some in its first line read as "
            "numbers, dates or nulls, so that it may be a record, which would be published. If it "
            "is one, use header=False (--no-header). If not, give other names by names=[...] "
            "(--names a,b,c), or write the file without an index (pandas: index=False)."
        )


def check_count(path: str, found: int, names: Sequence[str]) -> None:
    """Refuse names that are more or fewer than the columns."""
    if found != len(names):
        raise DataError(
            f"{path} must have a column for each of the {len(names)} names, got {found}: give one "
            "name for each column, or check the delimiter."
        )


def check_last_line(path: str) -> None:
    """Refuse a file of one column that does not end with the end of a line.

    If it did not, a last record that is null could not be told from no record.
    """
    import pyarrow

    last = b""
    with pyarrow.input_stream(path) as file:
        while part := file.read(_READ_BYTES):
            last = part[-1:]
    if last not in (b"\n", b"\r"):
        raise DataError(
            f"{path} must end with a line end, as a last record that is null could not be told "
            "from none in a file of one column: add an empty line at its end."
        )
