"""Text files: lines of fields, of which the first line may name the columns.

Every other line is a record. A blank line is a record of nulls: if it were skipped, the number of
records would depend on their values.

The names in the first line are published with a release. So if one of them could be a value, the
line may be a record, and it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hushcov._validation import shown
from hushcov.exceptions import DataError, ParameterError

_SEPARATORS = (";", "\t", "|", ",")
_READ_BYTES = 2**20
_NO_NAMES = frozenset(
    [
        *("", "na", "n/a", "#n/a", "#na", "<na>", "null", "none", "nil", "nan", "nat", "\\n"),
        *("-", "--", "?", ".", "true", "false"),
    ]
)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_APART = r"[\s,/.-]*"
# 31 Jan 2024, Jan 31 2024, 2024-Jan-31; what follows may be a time.
_WRITTEN_DATE = re.compile(
    rf"([a-z]+{_APART})?(\d+(st|nd|rd|th)?{_APART}{_MONTH}{_APART}\d+"
    rf"|{_MONTH}{_APART}\d+(st|nd|rd|th)?{_APART}\d{{4}})\b.*"
)
# The letters that times may have: 2024-01-31T12:00:00Z, 12:30 pm.
_OF_TIME = re.compile(r"(?<=\d)(t(?=\d)|\s*(z|utc|gmt|am|pm|[ap]\.m\.)$)")


@dataclass(frozen=True)
class TextOptions:
    """How lines are read.

    `delimiter` separates fields; by default it is a tab in .tsv files and a comma in others.
    `header` says whether the first line has the names of the columns. `names` replace them.
    """

    delimiter: str | None = None
    header: bool = True
    names: tuple[str, ...] | None = None

    @classmethod
    def checked(cls, delimiter: object, header: object, names: Sequence[str] | None) -> TextOptions:
        """Return the options after checking all that can be checked without a file."""
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
        """What separates the fields of this file."""
        tabs = path.endswith((".tsv", ".tsv.gz"))
        return self.delimiter or ("\t" if tabs else ",")


def csv_format(
    path: str, options: TextOptions, column_types: Mapping[str, Any] | None = None
) -> Any:
    """Return pyarrow's options for a text file; without `column_types` it guesses the types."""
    from pyarrow import csv, dataset

    named = options.names is not None
    return dataset.CsvFileFormat(
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter_of(path), ignore_empty_lines=False
        ),
        # Not skip_rows_after_names: with it pyarrow 26 also counts the line that it skips.
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
    """Refuse a first line that may be a record, or that another delimiter would split."""
    delimiter = options.delimiter_of(path)
    if len(names) == 1:
        other = [sign for sign in _SEPARATORS if sign != delimiter and sign in names[0]]
        if other:
            raise DataError(
                f"{path} must have fields separated by {delimiter!r}, but its one column has "
                f"{other[0]!r} in its name: use delimiter={other[0]!r} (--delimiter)."
            )
    if any(map(reads_as_value, names)):
        raise DataError(
            f"{path} must begin with the names of its columns, but some in its first line read as "
            "numbers, dates or nulls, so that it may be a record, which would be published. If it "
            "is one, use header=False (--no-header). If not, give other names by names=[...] "
            "(--names a,b,c), or write the file without an index (pandas: index=False)."
        )


def check_count(path: str, found: int, names: Sequence[str]) -> None:
    """Refuse another number of columns than of names."""
    if found != len(names):
        raise DataError(
            f"{path} must have a column for each of the {len(names)} names, got {found}: give one "
            "name for each column, or check the delimiter."
        )


def check_last_line(path: str) -> None:
    """Refuse a file of one column that does not end with a line end.

    Without it, nobody could tell whether a last record is null or missing.
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


def reads_as_value(name: str) -> bool:
    """Whether a name could be a value: a number, a date, a time, true, false or a null."""
    text = name.strip().casefold()
    if text in _NO_NAMES or _WRITTEN_DATE.fullmatch(text):
        return True
    for read in (float, lambda number: int(number, 0)):
        try:
            read(text)
            return True
        except ValueError:
            continue
    text = _OF_TIME.sub(" ", text)
    # Digits and signs alone: 1,234.5, 12 %, 2024-01-31, 12:30, 1/2.
    return any(sign.isnumeric() for sign in text) and not any(sign.isalpha() for sign in text)
