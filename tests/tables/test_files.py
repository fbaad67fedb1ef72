"""Parquet, Arrow and CSV files: the same rows as in memory, or a refusal that names no person."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from hushcov import GaussianCovariance
from hushcov.exceptions import (
    CapacityError,
    DataError,
    MissingPackageError,
    ParameterError,
    RecordsFileError,
)
from hushcov.fit import fit_memory, registry
from hushcov.kernel.records import compact
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums.counts import signed_octaves
from hushcov.kernel.sums.rows import MISSING
from hushcov.tables import files
from hushcov.tables.files import FileRecords, read_header
from hushcov.tables.formats import GroupReader
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, open_records, refuse_stated_nulls
from hushcov.tables.units import split_columns
from table_helpers import refused, rows_of

SECRET = 987_654.125
X = np.random.default_rng(0).standard_normal((257, 3))
NAMES = ["a", "b", "c"]
refusal = partial(refused, secrets=("987",))


def write(path, columns):
    """A table of named columns, in the format that the name of the file asks for."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=100)
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path))
    else:
        with ipc.new_file(str(path), table.schema) as sink:
            sink.write_table(table, max_chunksize=100)
    return path


def columns_of(table, names=NAMES):
    return dict(zip(names, np.ascontiguousarray(table.T), strict=True))


every_format = pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "ipc", "csv"])


@every_format
def test_a_file_has_the_rows_names_and_size_of_the_table(tmp_path, suffix):
    records = open_records(write(tmp_path / f"x.{suffix}", columns_of(X)))
    assert isinstance(records, FileRecords)
    assert (records.n_records, records.n_features) == X.shape
    assert records.feature_names == tuple(NAMES)
    assert records.gaps is False
    np.testing.assert_array_equal(rows_of(records), X)


@every_format
def test_a_folder_a_pattern_and_a_list_of_files(tmp_path, suffix):
    """By name, whatever the order in which they were written; a list as it is given."""
    parts = {"p2": X[10:110], "p10": X[:10], "p3": X[110:]}
    paths = {n: write(tmp_path / f"{n}.{suffix}", columns_of(part)) for n, part in parts.items()}
    (tmp_path / "notes.txt").write_text("not records")
    sources = (tmp_path, str(tmp_path), tmp_path / f"p*.{suffix}", str(tmp_path / f"p?*.{suffix}"))
    for source in sources:
        records = open_records(source, block_rows=64)
        assert [len(block) for block in records._blocks()] == [64, 64, 64, 64, 1]
        np.testing.assert_array_equal(rows_of(records), X)
    swapped = [str(paths["p3"]), paths["p10"]]
    np.testing.assert_array_equal(rows_of(open_records(swapped)), np.vstack([X[110:], X[:10]]))


def test_folders_in_folders(tmp_path):
    """By path; what writers keep for themselves is left out, and names of folders say nothing."""
    parts = {"year=2023/b": X[:10], "year=2023/deep/c": X[10:11], "year=2024/a": X[11:100]}
    for name, part in (parts | {"z": X[100:]}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / f"{name}.parquet", columns_of(part))
    np.testing.assert_array_equal(rows_of(open_records(tmp_path / "**" / "?.parquet")), X)
    for name in ("_temporary", ".old"):
        (tmp_path / "year=2023" / name).mkdir()
        write(tmp_path / "year=2023" / name / "a.parquet", columns_of(X))
        write(tmp_path / f"{name}.parquet", columns_of(X))
    for source in (tmp_path, f"{tmp_path}/"):
        records = open_records(source)
        assert records.feature_names == tuple(NAMES)
        np.testing.assert_array_equal(rows_of(records), X)
    for source in (tmp_path / "year=*", [tmp_path / "year=2023", tmp_path / "year=2024"]):
        np.testing.assert_array_equal(rows_of(open_records(source)), X[:100])
    message = refusal(lambda: open_records(tmp_path, columns=["a", "year"]))
    assert "column 'year'" in message
    assert "names of folders" in message
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    assert "got none" in refusal(lambda: open_records(tmp_path / "empty"))


@every_format
def test_columns_by_name_and_in_the_order_asked_for(tmp_path, suffix):
    path = write(tmp_path / f"x.{suffix}", columns_of(X) | {"text": ["x"] * len(X)})
    records = open_records(path, columns=["c", "a"])
    assert records.feature_names == ("c", "a")
    np.testing.assert_array_equal(rows_of(records), X[:, [2, 0]])
    np.testing.assert_array_equal(rows_of(open_records(path, columns=("b",))), X[:, [1]])
    assert "'text' has type text" in refusal(lambda: open_records(path))


@every_format
def test_files_may_have_their_columns_in_another_order(tmp_path, suffix):
    write(tmp_path / f"1.{suffix}", columns_of(X[:9]))
    write(tmp_path / f"2.{suffix}", columns_of(X[9:, ::-1], NAMES[::-1]))
    np.testing.assert_array_equal(rows_of(open_records(tmp_path)), X)


@every_format
def test_integers_booleans_decimals_and_short_floats(tmp_path, suffix):
    table = {
        "int8": pa.array([1, -2, 3], pa.int8()),
        "int64": pa.array([2**60 + 1, 0, -(2**53) - 1], pa.int64()),
        "bool": [True, False, True],
        "decimal": [Decimal("0.25"), Decimal("-12.50"), Decimal("3.00")],
        "float32": pa.array([0.1, 2.5, -1e30], pa.float32()),
    }
    if suffix == "csv":
        del table["float32"]  # text has no single precision
    else:
        table["uint64"] = pa.array([2**64 - 1, 1, 2], pa.uint64())
    expected = np.array(
        [
            [float(np.float32(x)) if name == "float32" else float(x) for x in column]
            for name, column in pa.table(table).to_pydict().items()
        ]
    ).T
    found = rows_of(open_records(write(tmp_path / f"x.{suffix}", table)))
    np.testing.assert_array_equal(found, expected)


@every_format
def test_nulls_are_refused_by_column_or_become_gaps(tmp_path, suffix):
    table = {
        "whole": pa.array([1, 2, 3, 4], pa.int64()),
        "holes": pa.array([1, None, 3, 4], pa.int64()),
        "halves": [0.5, 1.5, None, SECRET],
    }
    path = write(tmp_path / f"x.{suffix}", table)
    message = refusal(lambda: rows_of(open_records(path)))
    assert "'holes', 'halves' have nulls" in message
    assert "drop_nulls" in message
    records = open_records(path).with_gaps()
    assert records.gaps is True
    assert records.n_records == 4
    nan = np.nan
    np.testing.assert_array_equal(
        rows_of(records), [[1, 1, 0.5], [2, nan, 1.5], [3, 3, nan], [4, 4, SECRET]]
    )
    assert rows_of(open_records(path, columns=["whole"])).tolist() == [[1], [2], [3], [4]]


@every_format
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"a": ["x987"]}, "text"),
        ({"a": pa.array([987], pa.timestamp("s"))}, "date or time"),
        ({"a": pa.array([[987.0]])}, "list"),
    ],
)
def test_columns_that_are_no_numbers_are_named(tmp_path, suffix, content, kind):
    if suffix == "csv" and kind == "list":
        return  # text has no lists
    path = write(tmp_path / f"x.{suffix}", content)
    kind = "text" if suffix == "csv" else kind
    assert f"'a' has type {kind}" in refusal(lambda: open_records(path))


@every_format
def test_damaged_empty_and_missing_files(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    assert f"{path} does" in refusal(lambda: open_records(path))
    path.write_bytes(b"")
    words = "must hold at least one record" if suffix == "csv" else "cannot be read"
    assert f"{path} {words}" in refusal(lambda: open_records(path))
    if suffix != "csv":
        path.write_bytes(b"987" * 100)
        assert "is damaged" in refusal(lambda: open_records(path))
        write(path, columns_of(X))
        path.write_bytes(path.read_bytes()[:-20])
        assert "is damaged" in refusal(lambda: open_records(path))
        empty = write(tmp_path / f"e.{suffix}", columns_of(X[:0]))
        assert open_records(empty).n_records == 0


def test_sources_that_lead_to_no_files_or_to_several_formats(tmp_path):
    assert "got none" in refusal(lambda: open_records(tmp_path))
    assert "got none" in refusal(lambda: open_records(tmp_path / "*.csv"))
    write(tmp_path / "x.parquet", columns_of(X))
    write(tmp_path / "x.csv", columns_of(X))
    assert "of one format" in refusal(lambda: open_records(tmp_path))
    assert "of one format" in refusal(lambda: open_records([tmp_path / "x.csv", "x.npy"]))
    missing = [tmp_path / "x.csv", tmp_path / "y.csv"]
    assert "y.csv does" in refusal(lambda: open_records(missing))


def test_columns_that_are_not_there_or_not_in_every_file(tmp_path):
    path = write(tmp_path / "1.parquet", columns_of(X))
    assert "column 'z'" in refusal(lambda: open_records(path, columns=["a", "z"]))
    assert "that all differ" in refusal(lambda: open_records(path, columns=["a", "a"]))
    assert "got 0" in refusal(lambda: open_records(path, columns=[]))
    message = refusal(lambda: open_records(path, columns="abc"), ParameterError)
    assert "columns must" in message
    write(tmp_path / "2.parquet", columns_of(X, ["a", "b", "d"]))
    message = refusal(lambda: open_records(tmp_path))
    assert f"one of the files of {tmp_path} must have" in message
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    path = write(tmp_path / "twice.parquet", twice)
    assert "share a name" in refusal(lambda: open_records(path))


@every_format
def test_odd_names_of_columns(tmp_path, suffix):
    for name in ("a.b", "a b", "ä", "a,b", '"', "x1"):
        path = write(tmp_path / f"x.{suffix}", columns_of(X, ["a", name, "c"]))
        records = open_records(path, columns=["c", name, "a"])
        np.testing.assert_array_equal(rows_of(records), X[:, ::-1])


def test_bad_options(tmp_path):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for block_rows in (0, -1, 1.5, "1"):
        message = refusal(lambda rows=block_rows: open_records(path, block_rows=rows), ValueError)
        assert "block_rows must" in message
    for options in ({"columns": ["a"]}, {"header": False}, {"names": ["a"]}, {"delimiter": ";"}):
        message = refusal(lambda given=options: open_records(X, **given), ParameterError)
        assert "must be left out" in message


@every_format
def test_rows_of_some_spans_alone(tmp_path, suffix):
    """Records of a part travel to a worker, which opens the files itself."""
    write(tmp_path / f"1.{suffix}", columns_of(X[:150]))
    write(tmp_path / f"2.{suffix}", columns_of(X[150:]))
    records = FileRecords(tmp_path, columns=["b"], block_rows=40)
    first, second = records.spans
    for spans, expected in (
        ([replace(first, start=40, stop=130)], X[40:130]),
        ([replace(first, start=149, stop=150)], X[149:150]),
        (
            [replace(second, start=7, stop=107), replace(first, start=0, stop=3)],
            np.vstack([X[157:], X[:3]]),
        ),
    ):
        part = pickle.loads(pickle.dumps(records.only(spans)))
        assert part.n_records == len(expected)
        assert part.feature_names == ("b",)
        np.testing.assert_array_equal(rows_of(part), expected[:, [1]])
    assert records.n_records == len(X)


def test_nothing_but_names_types_and_numbers_of_rows_is_read_on_opening(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", {"a": [1.0, np.nan], "b": [1.0, None]})
    monkeypatch.setattr(files, "read_batches", lambda *_: pytest.fail("read"))
    assert open_records(path, columns=["a"]).n_records == 2
    assert open_records(path).with_gaps().n_records == 2
    found = open_records(path)
    assert "'b' has nulls" in refusal(lambda: refuse_stated_nulls(path, found))


def test_without_pyarrow_the_cure_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for name in ["pyarrow", *(name for name in sys.modules if name.startswith("pyarrow."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[files\]'"):
        open_records(path)
    assert isinstance(open_records(X), ArrayRecords)


# Of several files no message says which: there may be one for each person.


FOUND_NAMES, PERSON = ["age", "pulse", "height"], "jane-doe"
ROWS = np.random.default_rng(1).standard_normal((40, 3))
refused_alone = partial(refused, secrets=(PERSON,))
SUFFIXES = ("csv", "tsv", "csv.gz", "parquet", "feather")
every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)


def write_frame(path, table):
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".feather":
        table.to_feather(path)
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


@pytest.fixture
def folder(tmp_path, suffix):
    """Two files, of which the second is of a person."""
    for name in ("a", PERSON):
        write_frame(tmp_path / f"{name}.{suffix}", pd.DataFrame(ROWS, columns=FOUND_NAMES))
    return tmp_path


def changed(change):
    """The table with another name, or another value, of the pulse."""
    table = pd.DataFrame(ROWS.copy(), columns=FOUND_NAMES)
    if change == "name":
        return table.rename(columns={"pulse": "puls"})
    if change == "72bpm":
        table["pulse"] = table["pulse"].astype(str)
    table.loc[3, "pulse"] = change
    return table


@every_suffix
@pytest.mark.parametrize("change", ["72bpm", "name", np.inf, np.nan])
def test_what_is_in_a_file_is_refused_without_its_name(folder, suffix, change):
    write_frame(folder / f"{PERSON}.{suffix}", changed(change))
    several = [str(path) for path in sorted(folder.iterdir())]
    for source in (folder, f"{folder}/*", several):
        words = refused_alone(lambda given=source: open_records(given).map_sum(_moments))
        if change == "name":
            assert words.startswith("one of the files")


@every_suffix
@pytest.mark.parametrize("content", [b"", b"nothing", b"\xff\xfe,\n1,2,3,4\n5\n"])
def test_damaged_files_are_refused_without_their_names(folder, suffix, content):
    (folder / f"{PERSON}.{suffix}").write_bytes(content)
    assert refused_alone(lambda: open_records(folder)).startswith(f"one of the files of {folder} ")
    (folder / f"a.{suffix}").unlink()  # the folder was named, and not the file
    if content == b"nothing" and suffix in ("csv", "tsv"):  # the name of a column, and no record
        assert open_records(folder).n_records == 0
        return
    assert refused_alone(lambda: open_records(folder)).startswith(f"one of the files of {folder} ")
    if content != b"nothing":  # which may be a name
        refused_alone(lambda: read_header(folder))


@every_suffix
def test_files_that_are_named_are_named(folder, suffix):
    path = folder / f"{PERSON}.{suffix}"
    for source in (path, [path]):
        with pytest.raises(DataError, match=PERSON):
            open_records(source, columns=["weight"])
    with pytest.raises(RecordsFileError, match="nobody"):
        open_records([path, folder / f"nobody.{suffix}"])


def _moments(block):
    return np.array([len(block)])


@every_suffix
def test_a_typo_is_missing_and_a_column_of_text_has_a_cure(folder, suffix):
    path = folder / f"{PERSON}.{suffix}"
    write_frame(path, changed("72bpm"))
    if suffix in ("csv", "tsv", "csv.gz"):  # elsewhere the type says that it is text
        found = rows_of(open_records(folder).with_gaps())
        assert np.isnan(found).sum() == 1
    write_frame(path, changed("72bpm").assign(pulse="fast"))
    words = refused_alone(lambda: open_records(folder))
    assert words.index("--codebook FILE.csv") < words.index("columns=[")
    assert "such as typos, count as missing" in words


# Groups of rows of Parquet files, column by column


def odd_table(n_records, n_features=19):
    """Numbers of several types, with nulls, NaN, extremes and zeros of both signs."""
    rng = np.random.default_rng(n_features)
    columns = [*(rng.standard_normal((n_features, n_records)) * 10.0 ** rng.integers(-9, 9))]
    columns[0][::7], columns[1][3::11], columns[2][5] = -0.0, 1e308, -np.finfo(float).max
    columns[3][::50], columns[4][1] = np.nan, 5e-324
    typed = [pa.array(column) for column in columns]
    typed[5] = pa.array(rng.integers(-(2**60), 2**60, n_records))
    typed[6] = pa.array(rng.random(n_records) < 0.5)
    typed[7] = pa.array(columns[7].astype(np.float32))
    typed[8] = pa.array(columns[8], mask=rng.random(n_records) < 0.01)
    return pa.table(typed, names=[f"x{i}" for i in range(n_features)])


def read_in(monkeypatch, way):
    """Read batches, whole groups, or halves of groups for doubles or for integers."""
    columns = 8 * 257 * 8  # bytes of eight columns
    monkeypatch.setattr(files, "_COLUMNS_BYTES", columns)
    if way == "batches":
        monkeypatch.setattr(files, "_BLOCKS_IN_PART", 10**9)
    elif way != "groups":
        rows = 200
        others = 16 * files.default_block_rows(19) * 19 - 3 * files.threads() * columns
        monkeypatch.setattr(files, "reader_bytes", lambda d: 8 * rows * d - others)


@pytest.mark.parametrize("n_threads", ["1", "2"])
@pytest.mark.parametrize("n_records", [1003, 257])
def test_groups_column_by_column_are_the_same_rows_and_integers(
    tmp_path, monkeypatch, n_records, n_threads
):
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    table, groups = odd_table(n_records), -(-n_records // 257)
    options = {"use_dictionary": n_records == 257, "write_batch_size": 100, "data_page_size": 1}
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=257, **options)
    d = table.num_columns
    public = np.linspace(-1, 1, d), np.geomspace(1e-8, 1e9, d), np.geomspace(1e-9, 1e8, d)
    parts = {"batches": 0, "groups": groups, "halves": 2 * groups}
    found = {}
    for way, expected in parts.items():
        with monkeypatch.context() as patched:
            read_in(patched, way)
            records = open_records(tmp_path / "x.parquet", block_rows=16).with_gaps()
            assert len(records._parts() or ()) == expected
            rows = np.concatenate([block.copy() for block in records._blocks()])
            held = CompactRecords(records, *public, keep=False)._integers()
            found[way] = rows.view(np.uint64), np.concatenate([block.copy() for block in held])
    for way, (rows, integers) in found.items():
        np.testing.assert_array_equal(rows, found["batches"][0], err_msg=way)
        np.testing.assert_array_equal(integers, found["batches"][1], err_msg=way)
    missing = found["groups"][1][:, 0] == MISSING
    np.testing.assert_array_equal(missing, np.isnan(rows.view(np.float64)).any(axis=1))
    assert missing.sum() >= n_records // 50


def test_blocks_of_groups_may_be_kept(tmp_path):
    """Rows are used again only where nobody refers to them."""
    columns = np.random.default_rng(0).standard_normal((3, 1000))
    parquet.write_table(
        pa.table([*columns], names=NAMES), tmp_path / "x.parquet", row_group_size=250
    )
    records = open_records(tmp_path / "x.parquet", block_rows=16)
    for blocks in (records._blocks(), CompactRecords(records, *np.ones((3, 3)))._integers()):
        kept = [(block, block.copy()) for block in blocks]
        assert len(kept) == 4 * 16
        for block, copy in kept:
            np.testing.assert_array_equal(block, copy)


@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_what_groups_refuse(tmp_path, monkeypatch, n_threads):
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    monkeypatch.setattr(files, "_COLUMNS_BYTES", 1)
    columns = np.random.default_rng(0).standard_normal((3, 1000))
    columns[1, 700], columns[0, 3] = np.inf, np.nan
    made = [pa.array(columns[0]), pa.array(columns[1]), pa.array(columns[2], mask=columns[2] > 2)]
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table(made, names=NAMES), path, row_group_size=1000)
    for gaps, words in ((True, "no numbers in column 'b'"), (False, "'c' has nulls")):
        records = open_records(path, block_rows=16).with_gaps(gaps, strict=True)
        integers = CompactRecords(records, *np.ones((3, 3)))._integers
        assert words in refusal(lambda read=integers: list(read()))
    records = open_records(path, block_rows=16, columns=["a", "b"])
    integers = CompactRecords(records, *np.ones((3, 2)))._integers
    assert "NaN or infinite in column 'a'" in refusal(lambda: list(integers()))
    reading = records._blocks()
    next(reading)
    reading.close()
    parquet.write_table(pa.table(made, names=NAMES)[:900], path)
    assert "leave files unchanged" in refusal(lambda: list(records._blocks()))


@pytest.mark.parametrize("n_threads", ["1", "2"])
@pytest.mark.parametrize("at", ["zero", "centres"])
def test_octaves_of_columns_are_those_of_rows(tmp_path, monkeypatch, n_threads, at):
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    table = odd_table(1003)
    d = table.num_columns
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=257, use_dictionary=False)
    centre, nothing = np.zeros(d), np.zeros(d)
    if at == "centres":
        centre, nothing = np.linspace(-3, 3, d), np.arange(d) / 4
        centre[0] = 1.7e308
    records = open_records(tmp_path / "x.parquet", block_rows=16).with_gaps()
    rows = np.concatenate([block.copy() for block in records._blocks()])
    plain = CompleteRecords(ArrayRecords(rows).with_gaps())
    for columns in (np.arange(d), np.arange(d - 1), np.arange(d)[::-1]):
        about = centre[columns], nothing[columns], columns
        found = signed_octaves(CompleteRecords(records), *about)
        np.testing.assert_array_equal(found, signed_octaves(plain, *about))


@pytest.mark.parametrize(("memory", "kept"), [(0, 0), (3200e-9, 500), (1, 1000)])
def test_rows_that_fit_into_the_memory_given_are_not_read_again(
    tmp_path, monkeypatch, memory, kept
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    columns = np.random.default_rng(0).standard_normal((3, 1000))
    parquet.write_table(
        pa.table([*columns], names=NAMES), tmp_path / "x.parquet", row_group_size=250
    )
    rows, groups = [], []
    read = GroupReader.read

    def seen(reader, group, names):
        groups.extend([group] if "a" in names else [])
        return read(reader, group, names)

    monkeypatch.setattr(GroupReader, "read", seen)
    for source in (tmp_path / "x.parquet", write(tmp_path / "x.csv", columns_of(columns.T))):
        opened = open_records(source, memory=memory, block_rows=16)
        watched = WatchedRecords(opened, lambda: rows.append(0), rows.append)
        records = CompactRecords(watched, *np.ones((3, 3)))
        plain = CompactRecords(ArrayRecords(columns.T.copy()), *np.ones((3, 3)))
        expected = np.concatenate([*plain._integers()])
        for turn in range(3):
            rows.clear(), groups.clear()
            found = np.concatenate([block.copy() for block in records._integers()])
            np.testing.assert_array_equal(found, expected)
            if source.suffix == ".parquet":
                assert groups == [*range(4)][kept // 250 if turn else 0 :]
            assert sum(rows) == (0 if turn and kept == 1000 else 1000)
        assert records.keeps_copy == (kept == 1000)


def test_the_memory_given_is_checked_and_refused_where_it_is_not_there(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for bad in (-1, "1", np.nan):
        with pytest.raises(ParameterError, match="memory must be"):
            open_records(path, memory=bad)
    with pytest.raises(ParameterError, match="memory must be left out"):
        open_records(X, memory=1)
    kept = [fit_memory("adaptive", 10**6, 500, memory=each) for each in (None, 0, 10**8, 2 * 10**9)]
    assert kept[0] == kept[1] == kept[2] - 10**8 == kept[3] - 10**9
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    there = fit_memory("gaussian", *X.shape)
    monkeypatch.setattr(registry, "total_memory", lambda: there)
    estimator = GaussianCovariance(epsilon=1.0, delta=1e-6, on_hopeless="warn")
    with pytest.raises(CapacityError, match="less memory than 1 GB"):
        estimator.fit(open_records(path, memory=1.0))


def test_names_of_columns_match_regardless_of_case_where_that_is_unambiguous(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("Age,weight,Weight,Person\n1,2,3,4\n5,6,7,8\n")
    assert open_records(path, columns=["AGE", "Weight"]).feature_names == ("Age", "Weight")
    with pytest.raises(DataError, match="column 'WEIGHT'"):
        open_records(path, columns=["WEIGHT"])
    with pytest.raises(DataError, match="did you mean 'Person'"):
        open_records(path, columns=["PERSONN"])
    records, _, name = split_columns(path, "person")
    assert (name, records.feature_names) == ("Person", ("Age", "weight", "Weight"))
    rest, ids, _ = split_columns(pd.read_csv(path), "PERSON")
    assert list(rest.columns) == ["Age", "weight", "Weight"]
    assert list(ids) == [4, 8]
