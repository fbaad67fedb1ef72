"""Contract of readers and views: whatever one record holds, no other row changes.

For every reader, every index of pandas and every class of records: one record is replaced by an odd
one, or removed, and all rows of the others are compared. A record may be refused; then it changes
nothing. Blocks are of three rows, so that all kinds of blocks are there.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, feather, parquet

from hushcov import Codebook
from hushcov.bounds import check_bounds
from hushcov.engines.records import DeviceRecords, on_processor
from hushcov.exceptions import HushcovError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records import base as views
from hushcov.kernel.records.base import Records, layers_of
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov.kernel.transforms import Transform, Transforms
from hushcov.paper.plan import ScaledRecords
from hushcov.tables import cluster, text
from hushcov.tables.codebook import CodebookColumn, CodedRecords
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import open_records
from hushcov.tables.units import split_columns, units_of, weighted

BLOCK = 3
N = 11
PLACES = (1, 4, 7, 10)  # one in every block


class Mute:
    """Fails, with a secret, wherever its text or its number is asked for."""

    def __init__(self, error):
        self.error = error

    def _fail(self, *_):
        raise self.error("secret")

    __str__ = __repr__ = __float__ = __hash__ = _fail


class Equal:
    """Says that it equals everything, with the text of a category."""

    __hash__ = staticmethod(lambda: 0)
    __eq__ = __ne__ = staticmethod(lambda other: True)
    __str__ = staticmethod(lambda: "no")


class Panic(BaseException):
    """As that of polars: no `Exception`."""


OBJECTS = {
    "bytes": b"\xff",
    "text that cannot be encoded": "\udcff",
    "no text": Mute(ValueError),
    "panic": Mute(Panic),
    "equal to all": Equal(),
    "list": ["yes"],
    "nested": [["no"], {"yes": 1}],
    "tuple": (1.0, 1),
    "huge integer": 10**5000,
    "NaN": np.nan,
    "infinite": np.inf,
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "number": 1,
    "decimal": Decimal("1.0"),
    "date": datetime.datetime.max,
    "far date": np.datetime64(2**62, "s"),
    "array": np.arange(3),
}
NUMBERS = {
    "NaN": np.nan,
    "None": None,
    "NA": pd.NA,
    "infinite": np.inf,
    "huge": -1e300,
    "minus zero": -0.0,
    "huge integer": 10**400,
    "fraction": Fraction(1, 3),
    "truth": True,
    "text": "1",
    "no number": Mute(ValueError),
    "panic": Mute(Panic),
    "list": [1.0],
}
INDEXES = {
    "default": lambda n: None,
    "shifted": lambda n: np.arange(n) + 4,
    "reversed": lambda n: np.arange(n)[::-1],
    "duplicate": lambda n: np.arange(n) // 2,
    "of times": lambda n: pd.date_range("2020", periods=n),
    "of two levels": lambda n: pd.MultiIndex.from_arrays([np.arange(n) % 2, np.arange(n)]),
    "of text": lambda n: [str(n - i) for i in range(n)],
    "of floats": lambda n: np.arange(n) / 2,
}
WORDS = ["yes", "no", "maybe", None, "yes", "no", "no", "yes", "maybe", "yes", "no"]
VALUES = np.random.default_rng(0).normal(size=N).round(3).tolist()
DAYS = [datetime.date(2020, 1, 1 + i % 3) for i in range(N)]
BOOK = Codebook(
    (
        CodebookColumn("c", kind="category", values=("yes", "no", "1", "2020-01-01"), missing="no"),
        CodebookColumn("x", low=-3, high=3, missing="0"),
    )
)


def binary(words):
    """Text of Arrow that need not be UTF-8."""
    return pa.array([w if w is None else w.encode("latin-1") for w in words]).view(pa.string())


def days(found):
    """Dates of Arrow, of which None becomes one that Python does not have."""
    codes = [2**30 if day is None else (day - datetime.date(1970, 1, 1)).days for day in found]
    return pa.array(np.array(codes, dtype=np.int32)).view(pa.date32())


def arrow(column, rows):
    words, values = zip(*rows, strict=True)
    made = binary(words) if column == "text" else days(words)
    return pa.table({"c": made, "x": pa.array(values)})


def backed(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def in_file(write, name):
    def made(table, folder):
        write(table, folder / name)
        return folder / name

    return made


ODD_ARROW = {"text": (WORDS, "\xff\xfeno"), "days": (DAYS, None)}
ARROW_READERS = {
    "Arrow": lambda table, _: table,
    "Arrow, many chunks": lambda table, _: pa.concat_tables([table[:2], table[2:4], table[4:]]),
    "Arrow-backed pandas": lambda table, _: backed(table),
    "polars": lambda table, _: pl.from_arrow(table),
    "parquet": in_file(lambda t, p: parquet.write_table(t, p, row_group_size=4), "t.parquet"),
    "feather": in_file(lambda t, p: feather.write_feather(t, p, chunksize=4), "t.arrow"),
    "csv": in_file(csv.write_csv, "t.csv"),
    "csv.gz": in_file(
        lambda t, p: csv.write_csv(t, pa.CompressedOutputStream(p, "gzip")), "t.csv.gz"
    ),
}


def without(rows, place):
    return rows[:place] + rows[place + 1 :]


def with_odd(rows, place, odd):
    return [*rows[:place], odd, *rows[place + 1 :]]


def rows_of(records):
    blocks = [np.asarray(block) for block in on_processor(records.with_gaps())._blocks()]
    return np.concatenate(blocks)


def check(read, cells, odd):
    """Read a table, then with an odd cell in one record, then without that record."""
    rows = list(zip(cells, VALUES, strict=True))
    usual, refusals = rows_of(read(rows)), []
    for place in PLACES:
        others = np.delete(usual, place, axis=0)
        np.testing.assert_array_equal(rows_of(read(without(rows, place))), others)
        try:
            found = rows_of(read(with_odd(rows, place, (odd, VALUES[place]))))
        except HushcovError as error:
            refusals.append(str(error))
        else:
            np.testing.assert_array_equal(np.delete(found, place, axis=0), others)
    # A refusal says neither where the record is nor what the others hold.
    assert len(refusals) in (0, len(PLACES))
    assert len(set(refusals)) <= 1
    assert not any("secret" in each for each in refusals)
    return not refusals


def frame(rows, index="default", kind=None):
    words, values = zip(*rows, strict=True)
    made = pd.DataFrame({"c": pd.Series(words, dtype=object), "x": pd.Series(values, dtype=kind)})
    labels = INDEXES[index](len(words))
    return made if labels is None else made.set_axis(labels)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("column", ODD_ARROW)
def test_arrow_backed_frames_of_any_index(index, column):
    """Undecodable text once had rows looked up by label."""
    words, odd = ODD_ARROW[column]

    def read(rows):
        made = backed(arrow(column, rows))
        labels = INDEXES[index](len(made))
        made = made if labels is None else made.set_axis(labels)
        return open_records(made, codebook=BOOK, block_rows=BLOCK)

    assert check(read, words, odd)


@pytest.mark.parametrize("reader", ARROW_READERS)
@pytest.mark.parametrize("column", ODD_ARROW)
def test_cells_of_arrow_in_every_reader(reader, column, tmp_path, capfd):
    words, odd = ODD_ARROW[column]

    def read(rows):
        source = ARROW_READERS[reader](arrow(column, rows), tmp_path)
        return open_records(source, codebook=BOOK, block_rows=BLOCK)

    assert check(read, words, odd) or reader.startswith("csv")
    assert not any(capfd.readouterr())  # as the panics of polars


@pytest.mark.parametrize("odd", OBJECTS)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_objects_in_a_category(kind, odd):
    def read(rows):
        source = frame(rows, "duplicate")
        if kind == "polars":
            words, values = zip(*rows, strict=True)
            source = pl.DataFrame({"c": pl.Series(words, dtype=pl.Object), "x": values})
        return open_records(source, codebook=BOOK, block_rows=BLOCK)

    mixed = [datetime.datetime(2020, 1, 1), 1, Decimal("1"), True, np.float32(1), *WORDS[5:]]
    assert check(read, mixed, OBJECTS[odd])


def numbers(rows):
    found = np.empty((len(rows), 2), dtype=object)
    found[:] = rows
    return found


NUMBER_READERS = {
    "array": numbers,
    "list": lambda rows: [list(row) for row in rows],
    "pandas": lambda rows: frame(rows, "shifted"),
    "codebook": lambda rows: frame([(x, c) for c, x in rows], "duplicate", object),
}
NUMBERED = [*VALUES[:4], 3, Fraction(1, 7), *VALUES[6:]]


@pytest.mark.parametrize("odd", NUMBERS)
@pytest.mark.parametrize("reader", NUMBER_READERS)
def test_objects_among_numbers(reader, odd):
    def read(rows):
        book = BOOK if reader == "codebook" else None
        return open_records(NUMBER_READERS[reader](rows), codebook=book, block_rows=BLOCK)

    check(read, NUMBERED, NUMBERS[odd])


ODD_IN_FRAMES = {
    "category": (WORDS, b"\xff", BOOK, object),
    "objects": (NUMBERED, "12 kg", None, object),
    "numbers": (VALUES, np.inf, None, float),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("column", ODD_IN_FRAMES)
def test_frames_of_any_index(index, column):
    cells, odd, book, kind = ODD_IN_FRAMES[column]

    def read(rows):
        source = frame(rows, index).astype({"c": kind})
        return open_records(source, codebook=book, block_rows=BLOCK)

    assert check(read, cells, odd)


TYPED = {
    "npy": lambda rows, path: np.save(path, rows),
    "parquet": lambda rows, path: parquet.write_table(pa.table(columns(rows)), path, 4),
    "one group.parquet": lambda rows, path: parquet.write_table(pa.table(columns(rows)), path),
    "csv": lambda rows, path: csv.write_csv(pa.table(columns(rows)), path),
    "tensor": lambda rows, _: torch.from_numpy(rows),
    "polars": lambda rows, _: pl.DataFrame(columns(rows)),
    "nullable pandas": lambda rows, _: nullable(pd.DataFrame(columns(rows))),
}


def nullable(frame):
    with np.errstate(invalid="ignore"):  # pandas 2 tries whether numbers are whole
        return frame.convert_dtypes()


def columns(rows):
    """A column of numbers, and one of whole numbers with a null where they have NaN."""
    whole = [None if np.isnan(x) or np.isinf(x) else int(min(abs(x), 2**60)) for x in rows[:, 1]]
    return {"a": rows[:, 0].tolist(), "b": whole}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1e300, 5e-324, 2.0**53 + 2])
@pytest.mark.parametrize("reader", TYPED)
def test_numbers_of_a_type(reader, odd, tmp_path):
    def read(rows):
        path = tmp_path / f"t.{reader}"
        source = TYPED[reader](np.array([(x, x + y) for x, y in rows]), path)
        # Two rows, so that a group is of at least four blocks: such are read by columns.
        return open_records(path if source is None else source, block_rows=2)

    accepted = check(read, VALUES, odd)
    if reader.endswith("parquet") and accepted:
        public = np.zeros(2), np.full(2, 5.0), np.ones(2)
        check(lambda rows: CompactRecords(read(rows), *public), VALUES, odd)


WRITTEN = [
    "typo",
    "\xff",
    "true",
    '"1,5"',
    '"1\n2"',
    "nan(-)",
    "1e999",
    "None",
    "-Infinity",
    "5e",
    "1_0",
]
WRITTEN_BOOKS = {
    "numbers": None,
    "yes and no": Codebook((CodebookColumn("c", "binary", synonyms={"None": "no", "nan": "no"}),)),
}


@pytest.mark.parametrize("block_bytes", [16, 2**20])
@pytest.mark.parametrize("book", WRITTEN_BOOKS)
@pytest.mark.parametrize("odd", WRITTEN)
def test_fields_of_text_files(odd, book, block_bytes, tmp_path, monkeypatch):
    """A block with a field that pyarrow does not read as a number is read in another way."""
    monkeypatch.setattr(text, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(text, "BLOCK_BYTES_OF_COLUMN", 0)

    def read(rows):
        lines = (f"{cell},{value},\xff" for cell, value in rows)
        path = tmp_path / "t.csv"
        path.write_bytes("\n".join(["c,x,note", *lines, ""]).encode("latin-1"))
        return open_records(path, columns=["c", "x"], codebook=WRITTEN_BOOKS[book])

    fields = ["1", "+0", "1.", " 0 ", "", "nan", "None", "TRUE", "0", "1", "1e0"]
    assert check(read, fields, odd)


# Views. The first column says whose a row is, from 1 on, and all views leave it as it is.

OWNER = np.repeat(np.arange(1, 7), [2, 1, 3, 1, 2, 3]).astype(float)
TABLE = np.column_stack([OWNER, np.random.default_rng(1).normal(size=(len(OWNER), 3)) * 3])
PUBLIC = np.array([0.0, 0.5, -1.0, 1e3]), np.array([np.inf, 2.0, np.inf, 0.5])
SCALE = np.array([512.0, 1.0, 0.0, 1e-3])
MAPS = Transforms(
    (
        *(None, Transform("log", 0.01), Transform("sqrt")),
        Transform("rank", edges=(-1.0, 0.0, 2.0), shares=(0.2, 0.3, 0.4, 0.1)),
        *(Transform("square", 0.5), Transform("winsorise", edges=(-1.0, 1.0))),
    ),
    (1, 2),
)
BOUNDS = check_bounds([(-np.inf, np.inf), (0, 1), (-np.inf, 0), (-1, np.inf)], 4)
UNIT_GRID = FeatureGrid(np.ones(4), 1024.0, 1024)


def of_units(bound):
    return lambda r, who: bound(units_of(who, len(who)), r)


VIEWS = {
    "clipped": lambda r, _: views.ClippedRecords(r, BOUNDS),
    "centred": lambda r, _: views.CentredRecords(r, *PUBLIC),
    "scaled": lambda r, _: ScaledRecords(r, SCALE / 512),
    "complete": lambda r, _: views.CompleteRecords(r),
    "complete, centred": lambda r, _: views.CentredRecords(views.CompleteRecords(r), *PUBLIC),
    "watched": lambda r, _: WatchedRecords(r, list, abs),
    "counted": lambda r, _: views.CountedRecords(r, 100),
    "on a device": lambda r, _: DeviceRecords(r, "cpu"),
    "transforms": lambda r, _: MAPS.view(r),
    "log1p": lambda r, _: Transforms((None, *[Transform("log1p")] * 3)).view(r),
    "transforms on a device": lambda r, _: MAPS.view(DeviceRecords(r, "cpu")),
    "compact": lambda r, _: CompactRecords(r, *PUBLIC, SCALE),
    "compact on a device": lambda r, _: CompactRecords(DeviceRecords(r, "cpu"), *PUBLIC, SCALE),
    "coded": lambda r, _: CodedRecords(r, (0, 0, 0, 2), ("a", "b", "c", "d=1", "d=2")),
    "multiplied": lambda r, _: MultipliedRecords(r, UNIT_GRID, np.eye(4) + np.eye(4, k=1)),
    "multiplied, and ones": lambda r, _: MultipliedRecords(r, UNIT_GRID, np.eye(4), np.arange(4)),
    "multiplied, by the last": lambda r, _: MultipliedRecords(
        r, UNIT_GRID, np.eye(4, 5), np.eye(5)[4], by_last=True
    ),
    "one row of a unit": of_units(lambda units, r: units.bounded(r, 1)),
    "two rows of a unit": of_units(lambda units, r: units.bounded(r, 2)),
    "units on a device": of_units(lambda units, r: units.bounded(DeviceRecords(r, "cpu"), 2)),
    "means of units": of_units(lambda units, r: units.means(r)),
    "weights": lambda r, who: weighted(r, who / 2, 2.0),
}
RECORDS = {
    "usual": [3.0, 0.1, 0.2, 0.3],
    "huge": [3.0, 1e300, -1e300, 1.7e308],
    "missing": [3.0, np.nan, 1.0, 0.0],
    "zeros": [3.0, -0.0, 0.0, 5e-324],
    "infinite": [3.0, 0.0, np.inf, 0.0],
}
SEEN = set()


def others_of(view, rows, owner):
    """Rows of all units but one, through a view."""
    who = rows[:, 0].copy()
    records = VIEWS[view](open_records(rows, block_rows=BLOCK).with_gaps(), who)
    SEEN.update(type(layer) for layer in layers_of(records))
    blocks = [np.asarray(block) for block in records._blocks()]
    found = np.concatenate(blocks)
    return found[(found[:, 0] != owner) & (np.abs(found[:, 0]) > 0)]


@pytest.mark.parametrize("view", VIEWS)
def test_views(view):
    usual = others_of(view, TABLE, 3.0)
    assert len(usual) >= 5
    assert (usual[:, 0] != 3).all()
    np.testing.assert_array_equal(others_of(view, TABLE[OWNER != 3], 3.0), usual)
    for row in RECORDS.values():
        for own in (slice(3, 4), slice(3, 6)):  # one of its rows, or all
            changed = TABLE.copy()
            changed[own] = row
            try:
                found = others_of(view, changed, 3.0)
            except HushcovError:
                assert np.isinf(row).any()
            else:
                np.testing.assert_array_equal(found, usual)


def of_row(block):
    """An integer of every row, of which the sum is made: other rows, another sum."""
    bits = (np.asarray(block) + 0.0).view(np.int64)
    mixed = (bits ^ (bits >> 29)) * np.arange(3, 2 * bits.shape[1] + 3, 2)
    return np.array([(mixed.sum(1) ** 3).sum()])


of_row.takes_gaps = True
CLUSTERS = {
    "array": lambda rows: dask.array.from_array(rows[:, 1:], chunks=(BLOCK, 3)),
    "frame": lambda rows: dask.dataframe.from_pandas(
        pd.DataFrame(rows[:, 1:], columns=list("abc")).set_axis(rows[:, 0]), chunksize=BLOCK
    ),
}


def sum_of(source, rows, folder, most_rows=None):
    """The sum of what dask makes of rows."""
    with dask.config.set({"scheduler": "sync", "dataframe.shuffle.method": "tasks"}):
        if source == "units":
            frame = pd.DataFrame(rows, columns=list("uabc")).astype({"u": int})
            made = dask.dataframe.from_pandas(frame, chunksize=BLOCK)
            records, units, _ = split_columns(made, "u")
            records = units().bounded(MAPPED(records.with_gaps()), most_rows or 2)
        elif source == "files":
            names = dict(zip("abc", rows[:, 1:].T, strict=True))
            parquet.write_table(pa.table(names), folder / "t.parquet", row_group_size=BLOCK)
            records = MAPPED(cluster.DaskRecords(open_records(folder / "t.parquet")).with_gaps())
        else:
            records = MAPPED(open_records(CLUSTERS[source](rows)).with_gaps())
        SEEN.update(type(layer) for layer in layers_of(records))
        return int(records.map_sum(of_row)[0])


def MAPPED(records):
    return ScaledRecords(records, np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("source", [*CLUSTERS, "files", "units"])
def test_what_a_record_adds_on_a_cluster(source, tmp_path):
    """It adds the same to a sum whatever the other records are."""
    for row in (RECORDS["usual"], RECORDS["huge"], RECORDS["missing"]):
        added = set()
        for seed in (2, 3):
            rows = np.column_stack(
                [OWNER, np.random.default_rng(seed).normal(size=(len(OWNER), 3))]
            )
            rows[3:6] = row
            sums = [sum_of(source, each, tmp_path) for each in (rows, rows[OWNER != 3])]
            added.add((sums[0] - sums[1]) % 2**64)
        assert len(added) == 1


@pytest.mark.parametrize("index", [each for each in INDEXES if each != "of two levels"])
@pytest.mark.parametrize("column", ODD_ARROW)
def test_what_an_odd_cell_adds_on_a_cluster(index, column):
    """The undecodable text in partitions; dask has no index of two levels."""
    words, odd = ODD_ARROW[column]

    def read(rows):
        made = backed(arrow(column, rows))
        labels = INDEXES[index](len(made))
        made = made if labels is None else made.set_axis(labels)
        parts = dask.dataframe.from_pandas(made, chunksize=4, sort=False)
        with dask.config.set({"scheduler": "sync"}):
            records = open_records(parts, codebook=BOOK).with_gaps()
            return int(records.map_sum(of_row)[0])

    for place in PLACES:
        added = set()
        for cells in (words, words[::-1]):
            rows = list(zip(cells, VALUES, strict=True))
            rows[place] = (odd, VALUES[place])
            added.add((read(rows) - read(without(rows, place))) % 2**64)
        assert len(added) == 1


def test_every_class_of_records_is_tried():
    """A new one belongs into the tests above."""

    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    for view in VIEWS:
        others_of(view, TABLE, 3.0)
    places = "hushcov.", "hushcov_genotypes.", "hushcov_lab.peers."  # audits have stand-ins
    own = {each for each in below(Records) if each.__module__.startswith(places)}
    read = {"ArrayRecords", "NpyRecords", "TensorRecords", "FileRecords", "FrameRecords"}
    dasks = {"DaskRecords", "UnitPartitions", "PartRecords", "WithinPartitions"}
    bases = {"Records", "WrappedRecords", "MappedRecords", "TableRecords", "PartitionedRecords"}
    named = read | dasks | bases | {"DeclaredRecords", "_FromDevice"}
    assert {each.__name__ for each in own - SEEN} <= named
