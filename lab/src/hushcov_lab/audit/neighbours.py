"""Neighbours that break things: pairs of tables that differ in one odd record, on many ways in.

A `Case` says all of a pair, so that whoever has it can make the pair again; `replay_case` fits both
tables with the same noisy numbers (`hushcov_lab.audit.replay`) and says what was found.
"""

from __future__ import annotations

import gzip
import itertools
import math
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from hushcov.estimators import PrivateSparseCovariance
from hushcov.exceptions import DataError, TooFewCompleteError
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE
from hushcov.kernel.records import compact
from hushcov.paper.estimator import MultiscaleCovariance
from hushcov.tables import text as text_files
from hushcov.tables.codebook import Codebook, CodebookColumn
from hushcov.tables.sources import open_records
from hushcov_genotypes.estimator import GenotypeCovariance
from hushcov_genotypes.reading import write_bed
from hushcov_lab.audit.odd_records import (
    CELLS,
    LINES,
    NOTES,
    NUMBERS,
    OBJECTS,
    SHAPES,
    Line,
    meant_by_text,
    odd_record,
    quoted,
)
from hushcov_lab.audit.replay import Compared, Recorder, Trace, compare, files_of, observe

_BLOCK = 5  # rows of a block, and of a row group
_BLOCK_BYTES = 64  # of text: fewer than a record with a note has; more in larger tables
_SIZES = (3, 5, 6, 10, 20, 40, 120)
_PAGES = 8  # one command of so many draws its pictures, which takes most of its time
_MOST_BYTES = 1_000  # of a record of text, in some cases
_FEATURES, _MOST_ROWS, _MOST_WEIGHT = 3, 2, 3.0
_ID, _WEIGHT, _NOTE = "who", "weight", "note"
PLACES = ("first", "last", "end of a block", "start of a block", "anywhere")
_USUAL = {"delta": 1e-3, "on_hopeless": "warn", "on_large_delta": "warn"}
_RANKS = "ranks"
#: What is replayed: a name, and options of the estimator.
MECHANISMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("adaptive", {}),
    ("screened", {"mechanism": "screened", "row_sparsity": 2}),
    ("gaussian", {"mechanism": "gaussian"}),
    ("candidates", {"bandwidth": 1}),
    (_RANKS, {"transforms": "rank"}),
    ("row-top-k", {"mechanism": "row-top-k", "row_sparsity": 2}),
    ("pace", {"mechanism": "pace", "row_sparsity": 2}),
    ("coinpress", {"mechanism": "coinpress"}),
    ("separate", {"mechanism": "separate"}),
    ("eigen-sampling", {"mechanism": "eigen-sampling"}),
    ("multiscale", {"mechanism": "multiscale", "row_sparsity": 2}),
    ("multiscale, gates", {"row_sparsity": 2, "scale": 1.0, "constants": "calibrated"}),
    ("gaussian-threshold", {"mechanism": "gaussian-threshold"}),
    ("marginals", {"mechanism": "gaussian", "marginals": 0.1}),
)
_OPTIONS = dict(MECHANISMS)
GENOTYPES = "genotypes"
_PAPER, _GATES = "multiscale", "multiscale, gates"
_SINGLE = (_PAPER, _GATES)  # where neighbours are one replaced record
_SINGLE_SIZES = (6, 40)  # planned in seconds each
# Where means and scales must be public, or must not.
_KNOWN, _FOUND = ("eigen-sampling", _GATES), (_RANKS, "marginals")
#: Whose privacy: a record, or a unit; replaced, or there or not; or a record with a weight.
WHOSE = (REPLACE, ADD_REMOVE, "units", "units-removed", "weights")
#: Records of numbers that are odd as a whole.
_Whole = Callable[[random.Random, list[list[float]]], list[float]]
WHOLE: dict[str, _Whole] = {
    "minus zero": lambda *_: [-0.0] * _FEATURES,
    "ones": lambda *_: [1.0] * _FEATURES,
    "all huge": lambda *_: [1e300] * _FEATURES,
    "huge, signs differ": lambda *_: [1e300 * (-1) ** i for i in range(_FEATURES)],
    "huge on an axis": lambda rng, _: list(np.roll([1e9, 0.0, 0.0], rng.randrange(_FEATURES))),
    "large": lambda rng, _: [rng.choice((-1, 1)) * 10 ** rng.uniform(0, 6)] * _FEATURES,
    "tiny": lambda rng, _: [rng.choice((-1, 1)) * 5e-324] * _FEATURES,
    "duplicate": lambda rng, rows: list(rng.choice(rows)),
}
_NO_NUMBERS_IN_TEXT = ("bool",)  # and decimals are numbers in files alone
# What a table may have that a neighbour is compared with: in text, and elsewhere.
_FINE = [
    tuple(k for k in NUMBERS if k not in each) for each in (("infinity", "bool"), ("infinity",))
]
#: Identifiers that a unit may have: of text, and of numbers.
IDENTIFIERS = (
    *("", " ", "007", "7", "7.0", "NA", "é", "e\u0301", 'quo"te', "a,b", "two\nlines", "x" * 5_000),
    *("p1 ", "P1", "-0", "1e3", "true", "\ufeffp1", "nul"),
)
_NULLS = {"", "NA"}  # may be refused as missing
NUMBER_IDENTIFIERS = (0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 10**6)


@dataclass(frozen=True)
class OddTable:
    """Rows of cells or lines, with identifiers or weights beside them."""

    rows: list[Any]
    beside: list[Any] | None = None
    name: str | None = None

    def column(self, place: int) -> list[Any]:
        """Return the cells of a column."""
        return [row[place] for row in self.rows]


@dataclass(frozen=True)
class Case:
    """One pair of neighbours: everything that it is made from."""

    mechanism: str
    way: str
    whose: str = REPLACE
    before: str = "ordinary"
    after: str = "ordinary"
    place: str = PLACES[0]
    n_rows: int = 12
    seed: int = 0

    @property
    def known(self) -> bool:
        """Whether means and scales are public, and not found first."""
        found = self.seed // 6 % 2 == 0 and self.mechanism not in _FOUND
        return found or self.mechanism in _KNOWN

    @property
    def options(self) -> dict[str, Any]:
        """Options that a mechanism has here."""
        known = {"assume_centered": True, "feature_scale": 1.0} if self.known else {}
        return {**_OPTIONS[self.mechanism], **known, **WAYS[self.way].options}

    @property
    def removed(self) -> bool:
        """Whether the record, or the unit, is in one of the tables alone."""
        return self.whose in (ADD_REMOVE, "units-removed")


def _names(n: int = _FEATURES) -> list[str]:
    return [f"x{i}" for i in range(n)]


def _cells(table: OddTable) -> Any:
    if all(isinstance(cell, float) for row in table.rows for cell in row):
        return np.array(table.rows)
    found = np.empty((len(table.rows), _FEATURES), dtype=object)
    found[:] = table.rows
    return found


def _array(table: OddTable, _: Path) -> Any:
    return open_records(_cells(table), block_rows=_BLOCK)


def _npy(table: OddTable, folder: Path) -> Any:
    np.save(folder / "x.npy", np.array(table.rows, dtype=float))
    return open_records(folder / "x.npy", block_rows=_BLOCK)


def _frame(table: OddTable, _: Path) -> Any:
    import pandas as pd

    found = pd.DataFrame({name: table.column(i) for i, name in enumerate(_names())})
    return found if table.name is None else found.assign(**{table.name: table.beside})


def _arrow(table: OddTable) -> Any:
    import pyarrow as pa

    columns = []
    for i in range(_FEATURES):
        cells = table.column(i)
        text = any(not isinstance(cell, float | int | None) for cell in cells)
        kind = pa.string() if text else pa.float64()
        make = str if text else float
        columns.append(pa.array([None if cell is None else make(cell) for cell in cells], kind))
    beside = [] if table.name is None else [pa.array(table.beside)]
    return pa.table(columns + beside, names=[*_names(), *([table.name] if table.name else [])])


def _parquet(table: OddTable, folder: Path, group: int = _BLOCK) -> Any:
    from pyarrow import parquet

    parquet.write_table(_arrow(table), folder / "x.parquet", row_group_size=group)
    return folder / "x.parquet"


def _small_groups(table: OddTable, folder: Path) -> Any:
    leave_out = [table.name] if table.name else []
    path = _parquet(table, folder, group=2)
    return open_records(path, block_rows=_BLOCK, leave_out=leave_out)


def _partly_kept(table: OddTable, folder: Path) -> Any:
    """Keep a compact copy of a few rows in memory, and read the others again."""
    leave_out = [table.name] if table.name else []
    few = 2 * _FEATURES * _BLOCK / 1e9
    return open_records(_parquet(table, folder), memory=few, leave_out=leave_out)


def _parquet_with_scratch(table: OddTable, folder: Path) -> Any:
    (folder / "scratch").mkdir()
    leave_out = [table.name] if table.name else []
    path = _parquet(table, folder)
    return open_records(path, scratch=folder / "scratch", leave_out=leave_out)


def _folder_of_parquet(table: OddTable, folder: Path) -> Any:
    """Three files, of which the first two have always as many records."""
    beside = table.beside or [None] * len(table.rows)
    for name, part in (("1", slice(None, 2)), ("2/a", slice(2, 3)), ("2/b", slice(3, None))):
        some = replace(table, rows=table.rows[part], beside=beside[part] if table.name else None)
        (folder / "x" / name).mkdir(parents=True)
        _parquet(some, folder / "x" / name, group=2)
    return folder / "x"


def _polars(table: OddTable, _: Path) -> Any:
    import polars

    return polars.from_arrow(_arrow(table))


def _arrow_table(table: OddTable, _: Path) -> Any:
    return _arrow(table)


def _tensor(table: OddTable, _: Path) -> Any:
    import torch

    return open_records(torch.tensor(np.array(table.rows, float)), block_rows=_BLOCK)


def _dask_array(table: OddTable, _: Path) -> Any:
    import dask.array

    make: Any = dask.array.from_array
    return make(_cells(table), chunks=(_BLOCK, _FEATURES), name=False)


def _dask_frame(table: OddTable, _: Path) -> Any:
    import dask.dataframe

    make: Any = dask.dataframe.from_pandas
    return make(_arrow(table).to_pandas(), chunksize=_BLOCK, sort=False)


def _dask_files(table: OddTable, folder: Path) -> Any:
    from hushcov.tables.cluster import DaskRecords

    return DaskRecords(open_records(_parquet(table, folder)))


#: Public numbers of columns, of which the last is a category.
_BOOK = Codebook(
    (
        CodebookColumn("x0", low=-5.0, high=5.0, missing="0"),
        CodebookColumn("x1", low=-40.0),
        CodebookColumn("x2", kind="category", values=("a", "b", "c"), missing="b"),
    )
)


def _category(cell: Any) -> Any:
    usual = isinstance(cell, float) and abs(cell) < 100
    return "abcd"[int(abs(cell) * 100) % 4] if usual else cell


def _coded(table: OddTable) -> OddTable:
    """Return the table with categories in the last column, where that has usual numbers."""
    rows = [
        row if isinstance(row, Line) or len(row) != _FEATURES else [*row[:-1], _category(row[-1])]
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _coded_frame(table: OddTable, folder: Path) -> Any:
    frame = _frame(_coded(replace(table, name=None)), folder)
    return open_records(frame, codebook=_BOOK, block_rows=_BLOCK)


def _coded_arrow(table: OddTable) -> Any:
    """Return an Arrow table with text in its last column, which need not be UTF-8."""
    import pyarrow as pa

    coded = _coded(replace(table, name=None))
    cells = [
        cell if isinstance(cell, bytes | None) else str(cell).encode() for cell in coded.column(2)
    ]
    return _arrow(coded).set_column(2, "x2", pa.array(cells, pa.binary()).view(pa.string()))


def _coded_table(table: OddTable, _: Path) -> Any:
    return open_records(_coded_arrow(table), codebook=_BOOK, block_rows=_BLOCK)


def _coded_polars(table: OddTable, _: Path) -> Any:
    import polars

    return open_records(polars.from_arrow(_coded_arrow(table)), codebook=_BOOK, block_rows=_BLOCK)


#: Labels that rows of a frame may have, by their number.
INDEXES: dict[str, Callable[[int], Any]] = {
    "shifted": lambda n: np.arange(4, n + 4),
    "duplicate": lambda n: np.arange(n) // 2,
    "of times": lambda n: np.datetime64("2020-01-01") + np.arange(n),
    "of two levels": lambda n: [np.arange(n) % 2, np.arange(n)],
}


def _labelled(index: str, table: OddTable, _: Path) -> Any:
    import pandas as pd

    frame = _coded_arrow(table).to_pandas(types_mapper=pd.ArrowDtype)
    labels = INDEXES[index](len(frame))
    frame.index = (
        pd.MultiIndex.from_arrays(labels) if isinstance(labels, list) else pd.Index(labels)
    )
    return open_records(frame, codebook=_BOOK, block_rows=_BLOCK)


def _coded_dask(table: OddTable, _: Path) -> Any:
    import dask.dataframe
    import pandas as pd

    frame = _coded_arrow(table).to_pandas(types_mapper=pd.ArrowDtype)
    frame.index = pd.Index(INDEXES["shifted"](len(frame)))
    make: Any = dask.dataframe.from_pandas
    return open_records(make(frame, chunksize=_BLOCK, sort=False), codebook=_BOOK)


def _coded_csv(table: OddTable, folder: Path) -> Any:
    leave_out = [table.name] if table.name else []
    return open_records(_csv(_coded(table), folder), codebook=_BOOK, leave_out=leave_out)


def _settings(table: OddTable, folder: Path) -> Any:
    """Write the records, a codebook, and settings that name both."""
    _csv(_coded(table), folder)
    lines = ["name,low,high,kind,values,missing", "x0,-5,5,number,,0", "x1,-40,,number,,"]
    lines += ["x2,,,category,a|b|c,b"]
    (folder / "book.csv").write_text("\n".join(lines) + "\n")
    columns = ", ".join(f'"{name}"' for name in _names())
    words = ['data = "x.csv"', 'output = "out"', 'codebook = "book.csv"', f"columns = [{columns}]"]
    (folder / "settings.toml").write_text("\n".join(words) + "\n")
    return folder / "settings.toml"


def _feather(table: OddTable, folder: Path) -> Any:
    from pyarrow import feather

    feather.write_feather(
        _arrow(table), folder / "x.arrow", compression="uncompressed", chunksize=_BLOCK
    )
    return folder / "x.arrow"


def _field(cell: Any) -> bytes:
    text = "" if cell is None else str(cell)
    return ('"' + text.replace('"', '""') + '"' if set('",\r\n') & set(text) else text).encode()


def _text(table: OddTable, *, notes: bool = False) -> bytes:
    heads = [*([_NOTE] if notes else []), *_names(), *([table.name] if table.name else [])]
    lines = [",".join(heads).encode()]
    for i, row in enumerate(table.rows):
        line = row.text if isinstance(row, Line) else b",".join(map(_field, row))
        if notes:
            line = (row.note if isinstance(row, Line) else b'"x\ny"') + b"," + line
        if table.beside is not None and line:
            line += b"," + _field(table.beside[i])
        lines.append(line)
    return b"".join(line + b"\n" for line in lines)


def _csv(table: OddTable, folder: Path) -> Any:
    (folder / "x.csv").write_bytes(_text(table))
    return folder / "x.csv"


def _gzipped(table: OddTable, folder: Path) -> Any:
    (folder / "x.csv.gz").write_bytes(gzip.compress(_text(table), 1))
    return folder / "x.csv.gz"


def _csv_with_notes(table: OddTable, folder: Path) -> Any:
    (folder / "x.csv").write_bytes(_text(table, notes=True))
    return open_records(folder / "x.csv", columns=_names())


def _folder(table: OddTable, folder: Path) -> Any:
    """Two files, of which the first has always as many records."""
    (folder / "x").mkdir()
    beside = table.beside or [None] * len(table.rows)
    for name, part in (("1", slice(None, 3)), ("2", slice(3, None))):
        some = replace(table, rows=table.rows[part], beside=beside[part] if table.name else None)
        (folder / "x" / f"{name}.csv").write_bytes(_text(some))
    return folder / "x"


def _bed(table: OddTable, folder: Path) -> Any:
    write_bed(folder / "x.bed", np.array(table.rows, dtype=np.int8))
    return folder / "x.bed"


def _calls(table: OddTable, _: Path) -> Any:
    return np.array(table.rows, dtype=np.int8)


@dataclass(frozen=True)
class WayIn:
    """A way in: what makes a source of a table, and which records and neighbours it can have."""

    make: Callable[[OddTable, Path], Any]
    kinds: tuple[str, ...] = (*NUMBERS, *OBJECTS)
    whose: tuple[str, ...] = WHOSE
    mechanisms: tuple[str, ...] = tuple(_OPTIONS)
    text: bool = False
    columns: bool = False  # identifiers and weights are a column
    command: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of the estimator
    share: int = 2  # of all pairs
    coded: bool = False  # by a codebook


_TYPED = (*NUMBERS, "null", "all null", "text")
_NO_COLUMNS = tuple(name for name in _OPTIONS if name != _GATES)
_FOR_CATEGORIES = ("adaptive", "screened", "gaussian", "coinpress", "separate", "marginals")
_IN_TEXT = ("null", "all null", "text", "empty text", "number as text", "date", "beyond float64")


def _of_text(make: Callable[[OddTable, Path], Any]) -> WayIn:
    """Return a way in for frames with a column of text."""
    return WayIn(
        make,
        (*_TYPED, "undecodable"),
        mechanisms=_FOR_CATEGORIES,
        options={"bounds": _BOOK.bounds},
        share=1,
        coded=True,
    )


WAYS = {
    "array": WayIn(_array),
    "array, device": WayIn(_array, options={"device": "cpu"}, share=1),
    "frame": WayIn(_frame, columns=True),
    "polars frame": WayIn(_polars, _TYPED, columns=True, share=1),
    "Arrow table": WayIn(_arrow_table, _TYPED, columns=True, share=1),
    "tensor": WayIn(_tensor, NUMBERS, share=1),
    "npy": WayIn(_npy, NUMBERS),
    "parquet": WayIn(_parquet, _TYPED, columns=True),
    "parquet, small groups": WayIn(_small_groups, _TYPED, columns=True, share=1),
    "parquet, scratch file": WayIn(_parquet_with_scratch, _TYPED, columns=True, share=1),
    "parquet, little memory": WayIn(_partly_kept, _TYPED, columns=True, share=1),
    "folder of parquet": WayIn(_folder_of_parquet, _TYPED, columns=True, share=1),
    "feather": WayIn(_feather, _TYPED, columns=True),
    "csv": WayIn(_csv, (*NUMBERS, *_IN_TEXT, *SHAPES, *LINES), text=True, columns=True),
    "csv.gz": WayIn(_gzipped, (*NUMBERS, *_IN_TEXT, *LINES), text=True, columns=True, share=1),
    "csv with notes": WayIn(_csv_with_notes, (*NUMBERS, *LINES, *NOTES), WHOSE[:2], text=True),
    "folder of csv": WayIn(_folder, (*NUMBERS, *_IN_TEXT, *LINES), text=True, columns=True),
    "codebook, frame": WayIn(
        _coded_frame,
        (*NUMBERS, *OBJECTS, *CELLS),
        mechanisms=_FOR_CATEGORIES,
        options={"bounds": _BOOK.bounds},
        coded=True,
    ),
    "codebook, Arrow table": _of_text(_coded_table),
    "codebook, polars frame": _of_text(_coded_polars),
    **{f"codebook, frame, labels {each}": _of_text(partial(_labelled, each)) for each in INDEXES},
    "codebook, dask frame": replace(_of_text(_coded_dask), whose=WHOSE[:2]),
    "codebook, csv": WayIn(
        _coded_csv,
        (*NUMBERS, *_IN_TEXT, *SHAPES, *LINES),
        mechanisms=_FOR_CATEGORIES,
        text=True,
        columns=True,
        options={"bounds": _BOOK.bounds},
        coded=True,
    ),
    "dask array": WayIn(_dask_array, whose=WHOSE[:2]),
    "dask frame": WayIn(_dask_frame, _TYPED, WHOSE[:4], columns=True, share=1),
    "dask on parquet": WayIn(_dask_files, _TYPED, WHOSE[:2]),
    "command, csv": WayIn(
        _csv,
        (*NUMBERS, *_IN_TEXT, *LINES),
        mechanisms=_NO_COLUMNS,
        text=True,
        columns=True,
        command=True,
        share=1,
    ),
    "command, parquet": WayIn(
        *(_parquet, (*NUMBERS, "null"), WHOSE, _NO_COLUMNS), columns=True, command=True, share=1
    ),
    "command, feather": WayIn(
        *(_feather, (*NUMBERS, "null"), WHOSE[:2], _NO_COLUMNS), columns=True, command=True, share=1
    ),
    "command, settings and codebook": WayIn(
        *(_settings, (*NUMBERS, *_IN_TEXT, *LINES), WHOSE, _FOR_CATEGORIES),
        text=True,
        columns=True,
        command=True,
        share=1,
        coded=True,
    ),
    "bed": WayIn(_bed, ("calls",), WHOSE[:2], (GENOTYPES,), share=20),
    "calls in an array": WayIn(_calls, ("calls",), WHOSE[:2], (GENOTYPES,), share=20),
}


def tables_of(case: Case, values: int = 0) -> tuple[OddTable, OddTable, bool]:
    """Return a table, its neighbour, and whether the odd record means finite numbers.

    `values` other than 0 is for other values everywhere, with all else the same.
    """
    how, rng = random.Random(f"{case.seed} how"), random.Random(f"{case.seed} {values}")
    if case.mechanism == GENOTYPES:
        return _genotype_tables(case, rng)
    numbers = np.random.default_rng([case.seed, values]).normal(size=(case.n_rows, _FEATURES))
    numbers[:, 1] += numbers[:, 0]
    rows = [
        [round(x, 3) for x in row] for row in (numbers * [1.0, 20.0, 0.1] + [0, 50, 0]).tolist()
    ]
    if case.known:
        rows = [[round(x, 3) for x in row] for row in numbers.tolist()]

    def odd(kind: str) -> tuple[Any, bool]:
        if kind in WHOLE:
            return WHOLE[kind](rng, rows), True
        own = [float(x) for x in rng.choice(rows)]
        row, meant = odd_record(kind, random.Random(f"{case.seed} {kind}"), rng, own)
        if WAYS[case.way].text and meant is None:
            meant = meant_by_text(row)
        fine = meant is not None and np.isfinite(np.array(meant, float)).all()
        fine = fine and kind not in ("decimal", *_NO_NUMBERS_IN_TEXT * WAYS[case.way].text)
        fine = fine and (kind != "long field" or not _short_records(case))
        return row, bool(fine)

    complete = case.mechanism in _KNOWN and case.before == "NaN"  # all records must be
    (before, _), (after, fine) = odd("ordinary" if complete else case.before), odd(case.after)
    n = case.n_rows
    ends = {"first": 0, "last": n - 1, "end of a block": _BLOCK - 1, "start of a block": _BLOCK}
    place = min(n - 1, ends.get(case.place, how.randrange(n)))
    if case.whose.startswith("units"):
        first, second = _unit_tables(case, rows, place, before, after, how)
        assert second.beside is not None
        return first, second, fine and not _NULLS & set(second.beside)
    beside: list[Any] | None = None
    name = None
    if case.whose == "weights":
        beside, name = [how.choice((1.0, 2.0, 2.5, 9.0)) for _ in rows], _WEIGHT
    with_after = OddTable([*rows[:place], after, *rows[place + 1 :]], beside, name)
    if case.removed:
        without = OddTable([*rows[:place], *rows[place + 1 :]], beside, name)
        swapped = fine and case.seed % 2 == 1
        return (with_after, without, True) if swapped else (without, with_after, fine)
    return OddTable([*rows[:place], before, *rows[place + 1 :]], beside, name), with_after, fine


def _short_records(case: Case) -> bool:
    """Whether records of text may be short only, so that longer ones are refused.

    Identifiers may be long.
    """
    return case.seed % 3 == 0 and not case.whose.startswith("units")


def _unit_tables(
    case: Case, rows: list[Any], place: int, before: Any, after: Any, how: random.Random
) -> tuple[OddTable, OddTable]:
    """Two tables that differ in the rows and the identifier of one unit."""
    numbered = how.random() < 0.3
    whole = NUMBER_IDENTIFIERS if numbered else IDENTIFIERS
    odd = [how.choice([each for each in whole if each not in _NULLS])]
    odd.append(how.choice([each for each in whole if each != odd[0]]))
    others: list[Any] = [how.randrange(100, 100 + len(rows) // 2 + 1) for _ in rows]
    others = others if numbered else [f"p{i}" for i in others]

    def with_unit(cells: Any, who: Any, times: int) -> OddTable:
        found, ids = rows[:place], others[:place]
        found, ids = found + [cells] * times, ids + [who] * times
        return OddTable(found + rows[place:], ids + others[place:], _ID)

    if case.removed:
        return with_unit(before, odd[0], 0), with_unit(after, odd[1], how.randrange(1, 4))
    return with_unit(before, odd[0], how.randrange(1, 4)), with_unit(
        after, odd[1], how.randrange(1, 4)
    )


def _genotype_tables(case: Case, rng: random.Random) -> tuple[OddTable, OddTable, bool]:
    n_variants = 6
    rows = [[rng.choice((-1, 0, 1, 2)) for _ in range(n_variants)] for _ in range(case.n_rows)]
    place = rng.randrange(case.n_rows)
    odd = [
        *([call] * n_variants for call in (-1, 0, 1, 2)),
        [2 * (i % 2) for i in range(n_variants)],
        [rng.choice((-1, 0, 1, 2)) for _ in range(n_variants)],
    ]
    first, second = ([*rows[:place], each, *rows[place + 1 :]] for each in rng.sample(odd, 2))
    if case.removed:
        second = rows[:place] + rows[place + 1 :]
    return OddTable(first), OddTable(second), True


def estimator_of(case: Case) -> Any:
    """Return the estimator of a case, with seeded noise."""
    epsilon = (1.0, 3.0, 10.0)[case.seed % 3]
    rng = np.random.default_rng(case.seed)
    neighbours = ADD_REMOVE if case.removed else REPLACE
    if case.mechanism == GENOTYPES:
        usual: dict[str, Any] = {"on_hopeless": "warn", "delta": 1e-3, "random_state": rng}
        return GenotypeCovariance(epsilon=epsilon, bandwidth=2, neighbours=neighbours, **usual)
    if case.mechanism == _GATES:
        gates: dict[str, Any] = {**_USUAL, **case.options, "reconstruction": "gate"}
        del gates["feature_scale"]
        return MultiscaleCovariance(epsilon=epsilon, random_state=rng, **gates)
    options: dict[str, Any] = {**_USUAL, **case.options, "neighbours": neighbours}
    if case.whose == "weights":
        options["max_sample_weight"] = _MOST_WEIGHT
    if case.whose.startswith("units") and case.seed % 2:
        options["max_rows_per_unit"] = _MOST_ROWS
    return PrivateSparseCovariance(epsilon=epsilon, random_state=rng, **options)


def _fit(case: Case, table: OddTable, folder: Path) -> dict[str, Any]:
    """Fit a table, and return what can be observed."""
    way = WAYS[case.way]
    source = way.make(table, folder)
    if way.command:
        return _fit_by_command(case, source, folder)
    apart: dict[str, Any] = {}
    if table.name is not None:
        option = "unit" if table.name == _ID else "sample_weight"
        apart[option] = table.name if way.columns else np.array(table.beside)
    return observe(estimator_of(case).fit(source, **apart), folder / "out")


def _fit_by_command(case: Case, source: Path, folder: Path) -> dict[str, Any]:
    """Run `hushcov fit`, which takes no seed, and return what it said and wrote."""
    from click.testing import CliRunner

    from hushcov.cli.main import cli

    given = {**case.options, "epsilon": (1.0, 3.0, 10.0)[case.seed % 3], "delta": 1e-3}
    given |= {"neighbours": ADD_REMOVE if case.removed else REPLACE, "output": folder / "out"}
    if case.whose.startswith("units"):
        given |= {"unit": _ID} | ({"max-rows-per-unit": _MOST_ROWS} if case.seed % 2 else {})
    if case.whose == "weights":
        given["weight"] = f"{_WEIGHT}={_MOST_WEIGHT:g}"
    known = given.pop("assume_centered", False)
    if source.suffix == ".toml":
        del given["output"]
    start = ["--settings", str(source)] if source.suffix == ".toml" else [str(source)]
    if "marginals" in given:  # which settings files alone have
        settings = source if source.suffix == ".toml" else folder / "marginals.toml"
        lines = settings.read_text() if settings.exists() else ""
        settings.write_text(f"marginals = {given.pop('marginals')}\n{lines}")
        start = ["--settings", str(settings), *start] if settings != source else start
    arguments = ["fit", *start, "--allow", "hopeless", "--allow", "large-delta"]
    arguments += ["--known-mean"] if known else []
    for name, value in given.items():
        option = "transform" if name == "transforms" else name.replace("_", "-")
        arguments += [f"--{option}", str(value)]
    result = CliRunner().invoke(cli, arguments, prog_name="hushcov")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        kind = TooFewCompleteError if "are complete, released with" in result.output else DataError
        raise kind(result.output[result.output.find("hushcov: error") :])
    said = re.sub(r"(?m)^  time .*$", "", result.output)
    return {"files": files_of(folder / "out"), "output": said}


def _smaller(case: Case) -> Iterator[AbstractContextManager[Any]]:
    """Yield what makes blocks small and fits quick while a case is replayed."""
    sizes = {"BLOCK_BYTES": _BLOCK_BYTES * max(1, case.n_rows // 20), "BLOCK_BYTES_OF_COLUMN": 0}
    if _short_records(case):
        sizes["MOST_RECORD_BYTES"] = _MOST_BYTES
    for name, size in sizes.items():
        yield mock.patch.object(text_files, name, size)
    yield mock.patch.object(os, "fsync")
    if "scratch" in case.way:
        yield mock.patch.object(compact, "copy_bytes", return_value=0)  # too large for memory
    if WAYS[case.way].command:
        from hushcov.cli import fit, output, report

        yield mock.patch.object(output, "_EVERY", math.inf)  # lines of progress come by the clock
    if WAYS[case.way].command and case.seed % _PAGES:
        yield mock.patch.object(fit, "write_release_heatmap", _draw_nothing)
        yield mock.patch.object(report, "write_report", _draw_nothing)
    if "dask" in case.way:
        import dask

        how = {"scheduler": "synchronous", "dataframe.shuffle.method": "tasks"}
        yield dask.config.set(how)


def _draw_nothing(path: Path, *given: Any, **named: Any) -> None:
    """Write what a picture would be made from, but for the release, which is a file beside it."""
    numbers = [each.tobytes() for each in given if isinstance(each, np.ndarray)]
    path.write_bytes(b"".join(numbers) + repr(named).encode())


def replay_case(case: Case, folder: Path) -> Compared:
    """Fit a table, replay the fit on its neighbour, and say what was found."""
    with ExitStack() as stack:
        for each in _smaller(case):
            stack.enter_context(each)
        first, second, fine = tables_of(case)

        def run(recorder: Recorder, table: OddTable) -> Trace:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            return recorder.run(lambda: _fit(case, table, folder), folder)

        recorder = Recorder()
        one, other = run(recorder, first), run(recorder, second)
        found = compare(one, other)
        if found.refused:
            assert other.error is not None
            if fine:
                found.faults.append(f"a record of numbers is refused: {other.error}")
            said = " ".join(other.observed["error"])
            if not isinstance(other.error, DataError) or quoted(said.replace(str(folder), "")):
                found.faults.append(f"a refusal quotes a record, or is of another kind: {said}")
            elsewhere = tables_of(case, values=1)[1]
            again = run(Recorder(), elsewhere)
            # Text is refused before the charge in the first block, and after it elsewhere; how long
            # values are decides on what is in that block.
            alike = bool(again.events) == bool(other.events)
            same = again.observed.get("error") == other.observed["error"]
            if again.error is None or (alike and not same):
                found.faults.append(
                    f"a refusal depends on values: {said} / {again.observed.get('error')}"
                )
    return found


def some_cases(number: int, seed: int = 0, ways: Sequence[str] = tuple(WAYS)) -> Iterator[Case]:
    """Yield cases of all ways in, mechanisms and kinds of neighbours in turn, else at random."""
    rng = random.Random(seed)
    combined = [each for each in possible(ways) for _ in range(WAYS[each[1]].share)]
    rng.shuffle(combined)
    kinds = itertools.cycle(combined)
    for each in range(number):
        mechanism, way, whose = next(kinds)
        found = WAYS[way].kinds
        fine = [kind for kind in found if kind in _FINE[not WAYS[way].text]] or list(found)
        whole = [] if mechanism == GENOTYPES else list(WHOLE)
        yield Case(
            mechanism,
            way,
            whose,
            rng.choice(rng.choice((fine, whole or fine))),
            rng.choice(rng.choice((found, whole or found))),
            rng.choice(PLACES),
            rng.choice(_SINGLE_SIZES if mechanism in _SINGLE else _SIZES),
            seed + each,
        )


def possible(ways: Sequence[str] = tuple(WAYS)) -> list[tuple[str, str, str]]:
    """Return mechanisms, ways in and kinds of neighbours that go together."""
    return [
        (mechanism, way, whose)
        for way in ways
        for mechanism in WAYS[way].mechanisms
        for whose in (WHOSE[:1] if mechanism in _SINGLE else WAYS[way].whose)
    ]


@dataclass
class Tally:
    """Outcomes of many pairs."""

    #: By mechanism, way in and kind of neighbours.
    pairs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    refused: int = 0
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    findings: list[tuple[Case, str]] = field(default_factory=list)

    def add(self, case: Case, found: Compared) -> None:
        """Count one pair."""
        self.pairs[case.mechanism, case.way, case.whose] += 1
        self.refused += found.refused
        own = self.shares.setdefault(case.mechanism, {})
        for kind, share in found.shares.items():
            own[kind] = max(own.get(kind, 0.0), share)
        self.findings += [(case, fault) for fault in found.faults]


def replay_pairs(
    number: int,
    seed: int = 0,
    ways: Sequence[str] = tuple(WAYS),
    progress: Callable[[str], Any] | None = None,
) -> Tally:
    """Replay so many pairs, and tally what was found."""
    tally = Tally()
    in_memory = Path("/dev/shm")
    place = in_memory if os.access(in_memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for case in some_cases(number, seed, ways):
            if progress is not None:
                progress(f"{case.mechanism}, {case.way}")
            tally.add(case, replay_case(case, Path(folder) / "case"))
    return tally
