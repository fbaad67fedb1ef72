"""Parquet, Arrow and CSV files: the same rows as in memory, in bounded blocks, or a refusal."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from hushcov import GaussianCovariance
from hushcov.exceptions import DataError, MissingPackageError, ParameterError, SeededNoiseWarning
from hushcov.sums.records import WatchedRecords
from hushcov.tables import files, formats
from hushcov.tables.files import Columns, FileRecords
from hushcov.tables.sources import ArrayRecords, open_records
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
@pytest.mark.parametrize("block_rows", [1, 7, 100, 256, 257, 10_000])
def test_blocks_are_bounded_read_only_and_change_nothing(tmp_path, suffix, block_rows):
    path = write(tmp_path / f"x.{suffix}", columns_of(X))
    blocks = list(FileRecords(path, block_rows=block_rows)._blocks())
    assert max(map(len, blocks)) <= block_rows
    assert len(blocks) == -(-len(X) // block_rows)
    for block in blocks:
        assert block.dtype == np.float64
        assert block.flags.c_contiguous
        assert not block.flags.writeable
    np.testing.assert_array_equal(np.concatenate(blocks), X)


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


def test_a_folder_that_is_called_like_a_file(tmp_path):
    (tmp_path / "x.parquet").mkdir()
    write(tmp_path / "x.parquet" / "part-0.parquet", columns_of(X))
    np.testing.assert_array_equal(rows_of(open_records(tmp_path / "x.parquet")), X)
    np.testing.assert_array_equal(rows_of(open_records(tmp_path / "*.parquet")), X)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (255, 8), (257, 9), (600, 16), (513, 23)])
def test_rows_are_made_of_columns(shape):
    table = np.random.default_rng(0).standard_normal(shape)
    columns = [np.concatenate([[np.nan] * 7, column, [np.nan]]) for column in table.T]
    rows = np.full(shape, np.inf)
    Columns(columns).fill(rows, 7)
    np.testing.assert_array_equal(rows, table)


def test_addresses_beyond_the_columns_are_refused():
    columns = Columns([np.zeros(5), np.zeros(5)])
    columns.fill(np.empty((3, 2)), 2)
    for start, shape in ((3, (3, 2)), (-1, (3, 2)), (0, (3, 3))):
        with pytest.raises(AssertionError):
            columns.fill(np.empty(shape), start)
    for bad in (np.zeros(2), np.zeros(5, dtype=np.float32), np.zeros(10)[::2], np.zeros((5, 1))):
        with pytest.raises(AssertionError):
            Columns([np.zeros(5), bad])


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


def test_integers_may_be_followed_by_fractions_in_text(tmp_path):
    """The first megabyte, from which types are guessed, has integers alone."""
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,22\n" * 250_000 + "0.5,0.25\n")
    records = open_records(path)
    assert records.n_records == 250_001
    *_, last = records._blocks()
    assert last[-1].tolist() == [0.5, 0.25]


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
    records = open_records(path, drop_nulls=True)
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


def test_an_empty_file_among_others_adds_nothing(tmp_path):
    for name, part in (("1", X[:5]), ("2", X[:0]), ("3", X[5:])):
        write(tmp_path / f"{name}.parquet", columns_of(part))
    records = open_records(tmp_path)
    assert len(records.spans) == 2
    np.testing.assert_array_equal(rows_of(records), X)


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


@pytest.mark.parametrize("name", ["a.b", "a b", "ä", "a,b", '"', "x1"])
@every_format
def test_odd_names_of_columns(tmp_path, suffix, name):
    path = write(tmp_path / f"x.{suffix}", columns_of(X, ["a", name, "c"]))
    records = open_records(path, columns=["c", name, "a"])
    np.testing.assert_array_equal(rows_of(records), X[:, ::-1])


def test_bad_options(tmp_path):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for block_rows in (0, -1, 1.5, "1"):
        message = refusal(lambda rows=block_rows: open_records(path, block_rows=rows), ValueError)
        assert "block_rows must" in message
    assert "drop_nulls" in refusal(lambda: FileRecords(path, drop_nulls=1), ParameterError)
    assert "drop_nulls" in refusal(lambda: open_records(X, drop_nulls=1), ParameterError)
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


def test_groups_of_rows_before_a_span_are_not_read(tmp_path, monkeypatch):
    """Groups of 100 rows: a worker that wants the last ones does not read the first."""
    path = write(tmp_path / "x.parquet", columns_of(X))
    records = FileRecords(path, block_rows=30)
    asked = []
    iter_batches = parquet.ParquetFile.iter_batches

    def watched(self, *args, row_groups, **kwargs):
        asked.append(row_groups)
        return iter_batches(self, *args, row_groups=row_groups, **kwargs)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    spans = [(0, 1), (99, 101), (100, 200), (199, 200), (200, 257), (256, 257), (0, 257)]
    for start, stop in spans:
        part = records.only([replace(records.spans[0], start=start, stop=stop)])
        np.testing.assert_array_equal(rows_of(part), X[start:stop])
    assert asked == [[0], [0, 1], [1], [1], [2], [2], [0, 1, 2]]


def test_record_batches_before_a_span_are_not_read(tmp_path, monkeypatch):
    """Batches of 100 rows: whoever gets the last ones is told where they begin."""
    path = write(tmp_path / "x.arrow", columns_of(X))
    records = FileRecords(path, columns=["c", "a"], block_rows=30)
    pieces = records.pieces(100)
    assert [(p.start, p.stop, p.batch) for p in pieces] == [
        (0, 100, 0),
        (100, 200, 1),
        (200, 257, 2),
    ]
    asked = []
    open_file = ipc.open_file

    class Watched:
        def __init__(self, *args, **kwargs):
            self._file = open_file(*args, **kwargs)

        def __getattr__(self, name):
            return getattr(self._file, name)

        def get_batch(self, i):
            asked.append((i, self._file.get_batch(i).num_columns))
            return self._file.get_batch(i)

    monkeypatch.setattr(ipc, "open_file", Watched)
    for piece, number in zip(pieces, range(3), strict=True):
        part = pickle.loads(pickle.dumps(records.only([piece])))
        np.testing.assert_array_equal(rows_of(part), X[piece.start : piece.stop, [2, 0]])
        assert asked == [(number, 2)]
        asked.clear()


@pytest.mark.parametrize(
    ("suffix", "rows", "starts"),
    [
        ("parquet", 1, [0, 100, 200]),
        ("parquet", 199, [0, 100]),
        ("parquet", 200, [0, 200]),
        ("parquet", 1000, [0]),
        ("arrow", 199, [0, 100]),
        ("arrow", 200, [0, 200]),
        ("csv", 1, [0]),
    ],
)
def test_pieces_are_cut_where_they_can_be_read_on_their_own(tmp_path, suffix, rows, starts):
    """Text is read from its start, and a group of rows whole: nobody should do so for a part."""
    for name in "12":
        write(tmp_path / f"{name}.{suffix}", columns_of(X))
    records = FileRecords(tmp_path)
    pieces = records.pieces(rows)
    assert [piece.start for piece in pieces] == starts * 2
    np.testing.assert_array_equal(rows_of(records.only(pieces)), np.vstack([X, X]))
    middle = replace(records.spans[0], start=50, stop=150)
    cut = records.only([middle]).pieces(rows)
    assert (cut[0].start, cut[-1].stop) == (50, 150)
    np.testing.assert_array_equal(rows_of(records.only(cut)), X[50:150])


def test_a_group_of_rows_is_not_held_whole(tmp_path, monkeypatch):
    """One group, as most writers make it: of its 16 MB a few are in memory at a time."""
    monkeypatch.setattr(files, "_BATCH_BYTES", 2**18)
    rows = np.random.default_rng(0).standard_normal((250_000, 8))
    path = tmp_path / "x.parquet"
    table = pa.table(columns_of(rows, [f"x{i}" for i in range(8)]))
    parquet.write_table(table, path, use_dictionary=False, data_page_size=2**16)
    assert parquet.ParquetFile(path).num_row_groups == 1
    del table
    before, held = pa.total_allocated_bytes(), []
    blocks = FileRecords(path, block_rows=1000)._blocks()
    for start, block in zip(range(0, len(rows), 1000), blocks, strict=True):
        np.testing.assert_array_equal(block, rows[start : start + 1000])
        held.append(pa.total_allocated_bytes() - before)
    assert 0 < max(held) < 4 * 2**20


def test_batches_are_given_back_before_the_next_one_is_made(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    before, held = pa.total_allocated_bytes(), []

    def batches():
        for rows in (100, 100, 57):
            held.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch([pa.array(range(rows), pa.float64()) for _ in NAMES], NAMES)

    monkeypatch.setattr(formats, "_parquet_batches", lambda *_: formats._placed(batches(), 0))
    rows = rows_of(FileRecords(path, block_rows=10))
    assert rows.sum() == 3 * (2 * sum(range(100)) + sum(range(57)))
    assert held == [held[0]] * 3


def reading_threads():
    """What waits to be read by the one reading thread, and other such threads."""
    waiting = files._reader(os.getpid())._work_queue.qsize()
    threads = [t for t in threading.enumerate() if t.name.startswith("hushcov-reader")]
    return [waiting] * (waiting > 0) + threads[1:]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(files, "threads", lambda: 2)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_next_blocks_are_read_while_one_is_in_use(count):
    begun = [threading.Event() for _ in range(4)]

    def blocks():
        for i, event in enumerate(begun):
            event.set()
            yield np.array([i])

    ahead = files._read_ahead(blocks(), count)
    assert not begun[0].is_set()
    for i in range(4):
        assert next(ahead).tolist() == [i]
        assert all(event.wait(60) for event in begun[: i + count + 1])
        if i + count + 1 < 4:
            assert not begun[i + count + 1].is_set()
    assert next(ahead, None) is None
    assert reading_threads() == []


@pytest.mark.usefixtures("two_cores")
def test_no_thread_and_no_open_file_is_left(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    closed = []
    close = parquet.ParquetFile.close
    monkeypatch.setattr(
        parquet.ParquetFile, "close", lambda self, *args: (closed.append(1), close(self, *args))
    )
    records = FileRecords(path, block_rows=10)
    closed.clear()
    blocks = records._blocks()
    next(blocks)
    assert len(reading_threads()) == 1
    blocks.close()
    assert (reading_threads(), closed) == ([], [1])
    rows_of(records)
    assert (reading_threads(), closed) == ([], [1, 1])

    def broken(block):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        records.map_sum(broken)
    assert (reading_threads(), closed) == ([], [1, 1, 1])


@pytest.mark.usefixtures("two_cores")
def test_errors_of_the_reading_thread_arrive_after_the_blocks_before_them(tmp_path, monkeypatch):
    """Batches of 40 rows, or what is left of a group of 100: the last one has the null."""
    path, table = tmp_path / "x.parquet", pa.table({"a": pa.array([1.0] * 190 + [None])})
    # Statistics would tell of the null before anything is read.
    parquet.write_table(table, path, row_group_size=100, write_statistics=False)
    seen = []
    monkeypatch.setattr(files, "_BATCH_BYTES", 8)
    records = WatchedRecords(FileRecords(path, block_rows=40), lambda: None, seen.append)
    with pytest.raises(DataError, match="'a' has nulls"):
        records.map_sum(lambda block: np.array([len(block)]))
    assert seen == [40] * 4
    assert reading_threads() == []


@pytest.mark.parametrize("reason", ["one core", "one block", "one of many readers"])
def test_one_thread_where_a_second_is_of_no_use(tmp_path, monkeypatch, reason):
    path = write(tmp_path / "x.parquet", columns_of(X))
    monkeypatch.setattr(files, "threads", lambda: 1 if reason == "one core" else 2)
    records = FileRecords(path, block_rows=257 if reason == "one block" else 10)
    if reason == "one of many readers":
        records = records.only(records.spans)
    others = []

    def rows(block):
        others.extend(reading_threads())
        return np.array([len(block)])

    assert records.map_sum(rows)[0] == len(X)
    assert others == []


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("centred", [False, True])
def test_a_fit_from_files_is_the_fit_from_memory(tmp_path, suffix, centred):
    for start in range(0, len(X), 60):
        write(tmp_path / f"{start:04}.{suffix}", columns_of(X[start : start + 60]))

    def fitted(data):
        estimator = GaussianCovariance(
            epsilon=5.0, delta=1e-4, assume_centered=centred, random_state=7
        )
        with pytest.warns(SeededNoiseWarning):
            return estimator.fit(data)

    files, memory = fitted(FileRecords(tmp_path, block_rows=13)), fitted(X)
    np.testing.assert_array_equal(files.release_.integers, memory.release_.integers)
    np.testing.assert_array_equal(files.covariance_, memory.covariance_)
    assert files.release_.unit == memory.release_.unit
    by_path = fitted(str(tmp_path))
    np.testing.assert_array_equal(by_path.covariance_, memory.covariance_)
    for estimator in (files, by_path):
        assert estimator.feature_names_in_.tolist() == NAMES
        assert estimator.n_features_in_ == 3
        assert list(estimator.labelled_covariance().columns) == NAMES
    assert not hasattr(memory, "feature_names_in_")


def test_nothing_but_names_types_and_numbers_of_rows_is_read_on_opening(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", {"a": [1.0, np.nan], "b": [1.0, None]})
    monkeypatch.setattr(files, "read_batches", lambda *_: pytest.fail("read"))
    assert open_records(path, columns=["a"]).n_records == 2
    assert open_records(path, drop_nulls=True).n_records == 2
    assert "'b' has nulls" in refusal(lambda: open_records(path))


def test_without_pyarrow_the_cure_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for name in ["pyarrow", *(name for name in sys.modules if name.startswith("pyarrow."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[files\]'"):
        open_records(path)
    assert isinstance(open_records(X), ArrayRecords)
