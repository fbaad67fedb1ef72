"""Tables as frames of pandas or polars, and as CSV and Parquet files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._validation import LIBRARIES, check_choice
from hushcov.exceptions import MissingPackageError

#: A column is an array; all are of one length.
Column = npt.NDArray[Any]
Table = Mapping[str, Column]

_CHUNK = 100_000  # rows written at a time

# Signs that begin a formula in a spreadsheet, also in their full width, after blanks, and blanks
# that may end a cell.
_FORMULA, _NEXT_CELL = frozenset("=+-@\uff1d\uff0b\uff0d\uff20"), frozenset("\t\r\n")


def frame(table: Table, library: str | None) -> Any:
    """Return the table as a DataFrame of `library`; of pandas where none is named."""
    usual = LIBRARIES[0] if library is None else library
    chosen = check_choice("library", usual, LIBRARIES)
    try:
        if chosen == "polars":
            import polars

            return polars.DataFrame(_plain(table))
        import pandas
    except ModuleNotFoundError:
        raise MissingPackageError("frames", chosen, chosen) from None
    return pandas.DataFrame(dict(table))


def _plain(table: Table) -> dict[str, Any]:
    return {name: x.tolist() if x.dtype == object else x for name, x in table.items()}


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

        pyarrow.parquet.write_table(pyarrow.table(_plain(table)), path)
        return path
    length = len(next(iter(table.values()), ()))
    with path.open("w", encoding="utf-8", newline="") as file:
        write = csv_writer(file)
        for start in range(0, max(1, length), _CHUNK):
            write({name: column[start : start + _CHUNK] for name, column in table.items()})
    return path


def csv_table(table: Table) -> Table:
    """Return a table with titles and names as CSV files have them.

    Spreadsheets run a cell that begins with one of `_FORMULA` as a formula, some of them after
    blanks and signs that are not shown, too. An apostrophe before it makes it text, and one more is
    put before names that look as if that had been done already: taking one apostrophe away where
    such a sign follows it, blanks or further apostrophes gives the names back.
    """
    return {
        csv_text(title): np.array([csv_text(each) for each in column], dtype=object)
        if column.dtype == object
        else column
        for title, column in table.items()
    }


def csv_writer(file: Any) -> Callable[[Table], None]:
    """Return what writes one table after the other below one row of titles.

    Rows end in a line feed, and names that have any line end are in quotes. Those of the `csv`
    module have quotes where a sign of its own line end is in them, and no others.
    """

    class Lines:
        @staticmethod
        def write(row: str) -> int:
            return int(file.write(row.removesuffix("\r\n") + "\n"))

    writer = csv.writer(Lines, lineterminator="\r\n")

    def write(table: Table) -> None:
        table = csv_table(table)
        if file.tell() == 0:
            writer.writerow(table)
        writer.writerows(zip(*map(_texts, table.values()), strict=True))

    return write


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[Table], None]]:
    """Open a CSV or Parquet file, by its ending, to which one table after the other is written."""
    if find_spec("pyarrow") is None:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield csv_writer(file)
        return
    import pyarrow
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    writer: Any = None

    def write(table: Table) -> None:
        nonlocal writer
        table = table if path.suffix == ".parquet" else csv_table(table)
        columns = {name: pyarrow.array(each, from_pandas=True) for name, each in table.items()}
        made = pyarrow.table(columns)
        if writer is None and path.suffix == ".parquet":
            writer = parquet.ParquetWriter(path, made.schema)
        elif writer is None:
            options = arrow_csv.WriteOptions(quoting_style="needed")
            writer = arrow_csv.CSVWriter(path, made.schema, write_options=options)
        writer.write_table(made)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def csv_text(text: Any) -> Any:
    """Return a name as CSV files have it; see `csv_table`."""
    if not isinstance(text, str) or text[:1].isalnum():
        return text
    blank = (each for each in text if each not in "' " and each.isprintable())
    runs = next(blank, "") in _FORMULA or text.lstrip("'")[:1] in _NEXT_CELL
    return f"'{text}" if runs else text


def _texts(column: npt.NDArray[Any]) -> list[Any]:
    """Write numbers with every digit, and nothing where there is none."""
    if column.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in column.tolist()]  # noqa: PLR0124
    return [str(value).lower() for value in column] if column.dtype == bool else column.tolist()
