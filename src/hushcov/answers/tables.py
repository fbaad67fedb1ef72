"""Tables with named columns, as frames of pandas or polars and as files."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hushcov._validation import LIBRARIES, check_choice
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.release import Release

#: Features up to which a question may be asked of all of them.
MOST_ASKED = 20_000
_MOST_IN_REFUSAL = 20  # features in a refusal
_CHUNK = 100_000  # rows written at a time

_FORMULA = frozenset("=+-@\t\r\n")
_SUSPECT = _FORMULA | {"'"}

#: A column is an array; all are of one length.
Column = npt.NDArray[Any]
Table = Mapping[str, Column]


class Answer(ABC):
    """An answer to a question, which has a table."""

    _frames: str | None = None  # whose frames the asker uses

    @abstractmethod
    def table(self) -> Table:
        """The answer as named columns."""

    def frame(self, library: str | None = None) -> Any:
        """The table as a DataFrame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            Whose; by default that of the rows that were fitted, else pandas.
        """
        return frame(self.table(), self._frames if library is None else library)

    def of(self, library: str | None) -> Self:
        """The same, for somebody who uses this library."""
        object.__setattr__(self, "_frames", library)
        return self


def feature_names(release: Release) -> npt.NDArray[Any]:
    """Names of the features; x0, x1, ... where they have none."""
    names = release.column_names or [f"x{i}" for i in range(release.n_features)]
    return np.array(names, dtype=object)


def positions(release: Release, features: Any) -> npt.NDArray[np.int64]:
    """Where features are, given one or many names or positions; each at most once."""
    given = [features] if isinstance(features, str | int | np.integer) else list(features)
    names = feature_names(release).tolist()
    place = {name: i for i, name in enumerate(names)}
    found = []
    for each in given:
        if isinstance(each, str) and each in place:
            found.append(place[each])
        elif isinstance(each, int | np.integer) and 0 <= each < len(names):
            found.append(int(each))
        else:
            raise ParameterError(
                f"features must be names or positions of the release's {len(names):,} features, "
                f"got {each!r}{_cure(release, each, names)}"
            )
    if len(set(found)) < len(found):
        raise ParameterError("features must all differ, got one twice: name each once.")
    return np.array(found, dtype=np.int64)


def categories(release: Release) -> dict[str, npt.NDArray[np.int64]]:
    """Places of columns that are named like department=sales, by what is before the sign."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(release.column_names or ()):
        category, sign, _ = name.partition("=")
        if sign:
            found.setdefault(category, []).append(place)
    return {name: np.array(places, dtype=np.int64) for name, places in found.items()}


def _cure(release: Release, given: object, names: list[str]) -> str:
    from difflib import get_close_matches

    if given in (known := categories(release)):
        columns = [names[place] for place in known[str(given)]]
        but = ", all but one where they are all of its answers" * (len(columns) > 1)
        return f", which became {_some(columns)}: name {'those' if but else 'that'}{but}."
    near = get_close_matches(str(given), names[:MOST_ASKED], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}: they are {_some(names)}."


def _some(names: list[str]) -> str:
    """Names in a sentence; of many the first."""
    if len(names) <= _MOST_IN_REFUSAL:
        return ", ".join(names)
    more = len(names) - _MOST_IN_REFUSAL
    return (
        f"{', '.join(names[:_MOST_IN_REFUSAL])} and {more:,} more, as variances.csv beside it lists"
    )


def frame(table: Table, library: str | None) -> Any:
    """The table as a DataFrame of `library`; of pandas where none is named."""
    usual = LIBRARIES[0] if library is None else library
    chosen = check_choice("library", usual, LIBRARIES)
    try:
        if chosen == "polars":
            import polars

            return polars.DataFrame({name: _plain(column) for name, column in table.items()})
        import pandas
    except ModuleNotFoundError:
        raise MissingPackageError("frames", chosen, chosen) from None
    return pandas.DataFrame(dict(table))


def _plain(column: npt.NDArray[Any]) -> Any:
    return column.tolist() if column.dtype == object else column


def check_parquet() -> None:
    """Refuse where the package that writes Parquet is missing."""
    if find_spec("pyarrow") is None:
        raise MissingPackageError("Parquet files", "pyarrow", "files")


def write_table(table: Table, path: str | Path) -> Path:
    """Write a table as CSV, or as Parquet where the name ends in .parquet."""
    path = Path(path)
    if path.suffix == ".parquet":
        check_parquet()
        import pyarrow
        import pyarrow.parquet

        columns = {name: pyarrow.array(_plain(column)) for name, column in table.items()}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path
    table = csv_table(table)
    length = len(next(iter(table.values()), ()))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv_writer(file)
        writer.writerow(table)
        for start in range(0, length, _CHUNK):
            part = {name: column[start : start + _CHUNK] for name, column in table.items()}
            writer.writerows(zip(*text_columns(part), strict=True))
    return path


def csv_table(table: Table) -> Table:
    """Return a table with titles and names as CSV files have them.

    Spreadsheets run a cell that begins with one of `_FORMULA` as a formula. An apostrophe before it
    makes it text, and one more is put before names that look as if that had been done already: who
    takes one apostrophe away, where such a sign follows it or further ones, has the names back.
    """
    return {
        csv_text(title): np.array([csv_text(each) for each in column], dtype=object)
        if column.dtype == object
        else column
        for title, column in table.items()
    }


def csv_writer(file: Any) -> Any:
    """Return a writer of rows that end in a line feed, with names in quotes that have any line end.

    Those of the `csv` module have quotes where a sign of the line end is in them, and no others.
    """

    class Lines:
        @staticmethod
        def write(row: str) -> int:
            return int(file.write(row.removesuffix("\r\n") + "\n"))

    return csv.writer(Lines, lineterminator="\r\n")


def csv_text(text: Any) -> Any:
    """Return a name as CSV files have it; see `csv_table`."""
    if not isinstance(text, str) or text[:1] not in _SUSPECT:
        return text
    sign = text.lstrip("'")[:1]
    return f"'{text}" if sign and sign in _FORMULA else text


def text_columns(table: Table) -> list[list[Any]]:
    """The columns of a table as a text file has them."""
    return [_texts(column) for column in table.values()]


def _texts(column: npt.NDArray[Any]) -> list[Any]:
    """Numbers with every digit; nothing where there is none."""
    if column.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in column.tolist()]  # noqa: PLR0124
    return [str(value).lower() for value in column] if column.dtype == bool else column.tolist()
