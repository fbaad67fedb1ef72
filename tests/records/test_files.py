"""Parquet, Arrow and CSV files: the same rows as in memory, in bounded blocks, or a refusal."""

from __future__ import annotations

import builtins
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.exceptions import DataError, MissingPackageError, ParameterError, SeededNoiseWarning
from hushcov.records import ArrayRecords, FileRecords, open_records
from hushcov.records.files import FileSpan

SECRET = 987_654.125
X = np.random.default_rng(0).standard_normal((257, 3))
NAMES = ["a", "b", "c"]


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


def rows_of(records):
    return np.concatenate(list(records._blocks()))


def refusal(action, kind=DataError):
    with pytest.raises(kind) as info:
        action()
    assert "987" not in str(info.value)
    return str(info.value)


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


@every_format
def test_columns_by_name_and_in_the_order_asked_for(tmp_path, suffix):
    path = write(tmp_path / f"x.{suffix}", columns_of(X) | {"text": ["x"] * len(X)})
    records = open_records(path, columns=["c", "a"])
    assert records.feature_names == ("c", "a")
    np.testing.assert_array_equal(rows_of(records), X[:, [2, 0]])
    np.testing.assert_array_equal(rows_of(open_records(path, columns=("b",))), X[:, [1]])
    assert "column 'text' has type string" in refusal(lambda: open_records(path))


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


def test_text_after_numbers_is_refused_without_being_shown(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,22\n" * 250_000 + f"1,x{SECRET}\n")
    records = open_records(path)
    assert "cannot be read as csv" in refusal(lambda: rows_of(records))


@every_format
def test_nulls_are_refused_by_column_or_become_gaps(tmp_path, suffix):
    table = {
        "whole": pa.array([1, 2, 3, 4], pa.int64()),
        "holes": pa.array([1, None, 3, 4], pa.int64()),
        "halves": [0.5, 1.5, None, SECRET],
    }
    path = write(tmp_path / f"x.{suffix}", table)
    message = refusal(lambda: rows_of(open_records(path)))
    assert "column 'holes' has nulls" in message
    assert "drop_nulls" in message
    records = open_records(path, drop_nulls=True)
    assert records.gaps is True
    assert records.n_records == 4
    nan = np.nan
    np.testing.assert_array_equal(
        rows_of(records), [[1, 1, 0.5], [2, nan, 1.5], [3, 3, nan], [4, 4, SECRET]]
    )
    assert rows_of(open_records(path, columns=["whole"])).tolist() == [[1], [2], [3], [4]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(tmp_path, bad):
    path = write(tmp_path / "x.parquet", {"a": [1.0, bad]})
    count = lambda block: np.array([len(block)])  # noqa: E731
    assert "finite" in refusal(lambda: open_records(path).map_sum(count))
    gaps = open_records(path, drop_nulls=True)
    if np.isnan(bad):
        assert gaps.map_sum(count).tolist() == [2]
    else:
        assert "finite" in refusal(lambda: gaps.map_sum(count))


@every_format
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"a": ["x987"]}, "string"),
        ({"a": pa.array([987], pa.timestamp("s"))}, "timestamp"),
        ({"a": pa.array([[987.0]])}, "list"),
    ],
)
def test_columns_that_are_no_numbers_are_named(tmp_path, suffix, content, kind):
    if suffix == "csv" and kind == "list":
        return  # text has no lists
    path = write(tmp_path / f"x.{suffix}", content)
    assert f"column 'a' has type {kind}" in refusal(lambda: open_records(path))


@every_format
def test_damaged_empty_and_missing_files(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    assert f"{path} does not exist" in refusal(lambda: open_records(path))
    path.write_bytes(b"")
    assert f"{path} cannot be read" in refusal(lambda: open_records(path))
    if suffix != "csv":
        path.write_bytes(b"987" * 100)
        assert "is damaged, of another format" in refusal(lambda: open_records(path))
        write(path, columns_of(X))
        path.write_bytes(path.read_bytes()[:-20])
        assert "is damaged, of another format" in refusal(lambda: open_records(path))
        empty = write(tmp_path / f"e.{suffix}", columns_of(X[:0]))
        assert "at least one record, got none" in refusal(lambda: open_records(empty))


def test_text_in_another_encoding_and_text_with_ragged_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a\xff,b\n1,987\n")
    assert "cannot be read as csv" in refusal(lambda: open_records(path))
    path.write_bytes(b"a,b\n1,2\n987,987,987\n")
    assert "cannot be read as csv" in refusal(lambda: rows_of(open_records(path)))


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
    assert "y.csv does not exist" in refusal(lambda: open_records(missing))


def test_columns_that_are_not_there_or_not_in_every_file(tmp_path):
    path = write(tmp_path / "1.parquet", columns_of(X))
    assert "one column 'z', got 0" in refusal(lambda: open_records(path, columns=["a", "z"]))
    assert "that all differ" in refusal(lambda: open_records(path, columns=["a", "a"]))
    assert "at least one, got 0" in refusal(lambda: open_records(path, columns=[]))
    message = refusal(lambda: open_records(path, columns="abc"), ParameterError)
    assert "columns must be a sequence of names" in message
    other = write(tmp_path / "2.parquet", columns_of(X, ["a", "b", "d"]))
    assert f"{other} must have one column 'c'" in refusal(lambda: open_records(tmp_path))
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    path = write(tmp_path / "twice.parquet", twice)
    assert "two columns share a name" in refusal(lambda: open_records(path))


@pytest.mark.parametrize("name", ["a.b", "a b", "ä", "a,b", '"', "1"])
@every_format
def test_odd_names_of_columns(tmp_path, suffix, name):
    path = write(tmp_path / f"x.{suffix}", columns_of(X, ["a", name, "c"]))
    records = open_records(path, columns=["c", name, "a"])
    np.testing.assert_array_equal(rows_of(records), X[:, ::-1])


def test_bad_options(tmp_path):
    path = write(tmp_path / "x.parquet", columns_of(X))
    for block_rows in (0, -1, 1.5, "1"):
        message = refusal(lambda rows=block_rows: open_records(path, block_rows=rows), ValueError)
        assert "block_rows must be an integer at least 1" in message
    assert "drop_nulls" in refusal(lambda: FileRecords(path, drop_nulls=1), ParameterError)
    for options in ({"columns": ["a"]}, {"drop_nulls": True}):
        message = refusal(lambda given=options: open_records(X, **given), ParameterError)
        assert "must be left out unless the records are in files of columns" in message


@every_format
def test_rows_of_some_spans_alone(tmp_path, suffix):
    """Records of a part travel to a worker, which opens the files itself."""
    first = write(tmp_path / f"1.{suffix}", columns_of(X[:150]))
    second = write(tmp_path / f"2.{suffix}", columns_of(X[150:]))
    records = FileRecords(tmp_path, columns=["b"], block_rows=40)
    kind = records.spans[0].format
    for spans, expected in (
        ([FileSpan(str(first), kind, 40, 130)], X[40:130]),
        ([FileSpan(str(first), kind, 149, 150)], X[149:150]),
        (
            [FileSpan(str(second), kind, 7, 107), FileSpan(str(first), kind, 0, 3)],
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
        part = records.only([FileSpan(str(path), "parquet", start, stop)])
        np.testing.assert_array_equal(rows_of(part), X[start:stop])
    assert asked == [[0], [0, 1], [1], [1], [2], [2], [0, 1, 2]]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("centred", [False, True])
def test_a_fit_from_files_is_the_fit_from_memory(tmp_path, suffix, centred):
    for start in range(0, len(X), 60):
        write(tmp_path / f"{start:04}.{suffix}", columns_of(X[start : start + 60]))

    def fitted(data):
        estimator = GaussianCovariance(
            epsilon=5.0, delta=1e-3, assume_centered=centred, random_state=7
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


def test_a_fit_of_the_screened_mechanism_from_a_file(tmp_path):
    rows = np.random.default_rng(1).standard_normal((4_000, 12))
    names = [f"x{i}" for i in range(12)]
    path = write(tmp_path / "x.parquet", columns_of(rows, names))

    def fitted(data):
        known = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 3, "mechanism": "screened"}
        with pytest.warns(SeededNoiseWarning):
            return PrivateSparseCovariance(**known, random_state=3).fit(data)

    files, memory = fitted(FileRecords(path, block_rows=999)), fitted(ArrayRecords(rows))
    np.testing.assert_array_equal(files.release_.integers, memory.release_.integers)
    np.testing.assert_array_equal(files.feature_scale_, memory.feature_scale_)


def test_nothing_but_names_types_and_numbers_of_rows_is_read_on_opening(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", {"a": [1.0, None]})
    records = open_records(path)
    monkeypatch.setattr("hushcov.records.files._read", lambda *_: pytest.fail("read"))
    assert records.n_records == open_records(path).n_records == 2


def test_without_pyarrow_the_cure_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(X))
    found = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=r"need pyarrow.*pip install 'hushcov\[files\]'"):
        open_records(path)
    assert isinstance(open_records(X), ArrayRecords)


def test_a_missing_package_on_a_worker_is_reported_here():
    error = MissingPackageError("files", "pyarrow", "files")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
