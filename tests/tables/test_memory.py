"""Records in memory, arrays and frames: every row exactly once, and errors that quote no data."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet

from hushcov import GaussianCovariance, Ledger
from hushcov.exceptions import DataTypeError, ParameterError
from hushcov.sums.counts import count_complete
from hushcov.sums.records import Records, WatchedRecords
from hushcov.tables.sources import ArrayRecords, NpyRecords, open_records
from table_helpers import refused, rows_of

# Written nowhere else, so that finding one of these in a message means that data leaked.
SECRET = 8675309
SECRET_TEXT = "mrs-dalloway"
refusal = partial(refused, secrets=(str(SECRET), SECRET_TEXT))


def row_moments(block):
    """Integer sums that depend on every value, on its column and on the number of rows."""
    return (
        np.vstack([block, block**2, np.ones_like(block)])
        .astype(np.int64)
        .reshape(3, *block.shape)
        .sum(axis=1)
    )


@pytest.fixture
def integers():
    return np.random.default_rng(1).integers(-50, 50, size=(37, 4))


@pytest.mark.parametrize("block_rows", [1, 2, 5, 36, 37, 38, 10_000, None])
def test_every_row_is_summed_once_for_any_block_size(integers, block_rows):
    records = ArrayRecords(integers, block_rows=block_rows)
    expected = np.stack([integers.sum(0), (integers**2).sum(0), np.full(4, 37)])
    np.testing.assert_array_equal(records.map_sum(row_moments), expected)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda X: X.astype(np.int8), id="int8"),
        pytest.param(lambda X: X.astype(np.int64), id="int64"),
        pytest.param(lambda X: X.astype(np.float16), id="float16"),
        pytest.param(lambda X: X.astype(np.float32), id="float32"),
        pytest.param(lambda X: X.astype(np.longdouble), id="longdouble"),
        pytest.param(lambda X: X.astype(">f8"), id="big-endian"),
        pytest.param(np.asfortranarray, id="fortran"),
        pytest.param(lambda X: np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3], id="strided"),
        pytest.param(lambda X: X[::-1].copy()[::-1], id="negative stride"),
        pytest.param(lambda X: X.astype(object), id="object integers"),
        pytest.param(np.vectorize(Fraction, otypes="O"), id="object fractions"),
        pytest.param(lambda X: X.tolist(), id="list"),
        pytest.param(pd.DataFrame, id="data frame"),
        pytest.param(lambda X: pd.DataFrame(X).astype({0: float}), id="mixed data frame"),
    ],
)
def test_dtype_and_layout_do_not_matter(integers, convert):
    expected = ArrayRecords(integers).map_sum(row_moments)
    records = open_records(convert(integers), block_rows=5)
    assert (records.n_records, records.n_features) == integers.shape
    np.testing.assert_array_equal(records.map_sum(row_moments), expected)


@pytest.mark.parametrize("dtype", [bool, object])
def test_booleans_become_zero_and_one(dtype):
    X = np.array([[True, False], [True, True]]).astype(dtype)
    np.testing.assert_array_equal(ArrayRecords(X).map_sum(row_moments), [[2, 1], [2, 1], [2, 2]])


def test_blocks_are_what_block_functions_are_promised(integers):
    blocks = []

    def look(block):
        blocks.append(block)
        return np.zeros((), np.int64)

    for source in (integers, np.asfortranarray(integers, dtype=float), integers.astype(float)):
        ArrayRecords(source, block_rows=10).map_sum(look)
    assert [len(block) for block in blocks] == [10, 10, 10, 7] * 3
    for block in blocks:
        assert type(block) is np.ndarray
        assert block.dtype == np.float64
        assert block.flags.c_contiguous
        assert not block.flags.writeable
    X = integers.astype(float)  # which is neither copied nor frozen
    assert all(np.shares_memory(block, X) for block in ArrayRecords(X, block_rows=10)._blocks())
    assert X.flags.writeable


def test_a_second_pass_gives_the_same(integers, tmp_path):
    np.save(tmp_path / "X.npy", integers)
    for records in (ArrayRecords(integers, block_rows=6), NpyRecords(tmp_path / "X.npy")):
        first, second = records.map_sum(row_moments), records.map_sum(row_moments)
        np.testing.assert_array_equal(first, second)
        assert first is not second


def test_a_block_function_may_reuse_its_array(integers):
    buffer = np.zeros(4, np.int64)

    def column_sums(block):
        buffer[:] = block.sum(0)
        return buffer

    total = ArrayRecords(integers, block_rows=5).map_sum(column_sums)
    np.testing.assert_array_equal(total, integers.sum(0))


def test_progress_sums_to_the_number_of_records(integers):
    seen = []
    records = WatchedRecords(ArrayRecords(integers, block_rows=8), lambda: None, seen.append)
    records.map_sum(row_moments)
    assert seen == [8, 8, 8, 8, 5]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool, ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_equals_memory(integers, tmp_path, dtype, order):
    X = np.array(integers, dtype=dtype, order=order)
    path = tmp_path / "X.npy"
    np.save(path, X)
    expected = ArrayRecords(X).map_sum(row_moments)
    for source in (path, str(path)):
        records = open_records(source, block_rows=7)
        assert isinstance(records, NpyRecords)
        assert (records.n_records, records.n_features) == integers.shape
        np.testing.assert_array_equal(records.map_sum(row_moments), expected)


def test_records_pass_through_with_their_own_block_size(integers):
    records = ArrayRecords(integers)
    assert open_records(records) is records
    message = refusal(lambda: open_records(records, block_rows=5), ParameterError)
    assert "Records is made" in message


@pytest.mark.parametrize("block_rows", [0, -1, 2.0, True, "10"])
def test_block_rows_must_be_a_positive_integer(integers, block_rows):
    message = refusal(lambda: ArrayRecords(integers, block_rows=block_rows), ParameterError)
    assert "block_rows must" in message


def test_default_blocks_hold_at_least_2048_rows_and_about_4_megabytes():
    assert ArrayRecords(np.zeros((1, 20))).block_rows == 2**22 // 160
    assert ArrayRecords(np.zeros((1, 10_000))).block_rows == 2048


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (np.zeros((3, 0)), "(, 0)"),
        (np.full(3, SECRET), "got 1"),
        (np.full((2, 3, 4), SECRET), "got 3"),
        (SECRET, "got 0"),
        (None, "got 0"),
        ([[SECRET, 1], [2]], "same number of features"),
        (np.full((2, 2), SECRET + 1j), "Complex data not supported"),
        (np.full((2, 2), SECRET_TEXT), "dtype str_:"),
        ([[SECRET, SECRET_TEXT]], "dtype str_:"),
        (np.full((2, 2), SECRET_TEXT.encode()), "dtype bytes_:"),
        (np.full((2, 2), SECRET, dtype="m8[s]"), "timedelta64"),
        (np.full((2, 2), SECRET, dtype=[("a", int)]), "void"),
        (np.full((2, 2), SECRET_TEXT, dtype=object), "dtype object"),
        (np.full((2, 2), str(SECRET), dtype=object), "dtype object"),
        (np.full((2, 2), SECRET + 1j, dtype=object), "dtype object"),
        (
            np.full((2, 2), None, dtype=object),
            "values are missing: use open_records(X, drop_nulls",
        ),
        (np.full((2, 2), SECRET**100, dtype=object), "NaN or infinite"),
        (np.full((2, 2), np.longdouble(SECRET) ** 500), "NaN or infinite"),
        (pd.DataFrame({"a": [1.0, SECRET], "b": [SECRET_TEXT, "x"]}), "column 'b' has type"),
        (np.ma.masked_equal(np.full((2, 2), SECRET), SECRET), "masked array:"),
        (scipy.sparse.csr_matrix([[SECRET, 0]]), "sparse matrix:"),
        (scipy.sparse.coo_array([[SECRET, 0]]), "X.toarray()"),
    ],
)
def test_unusable_arrays_are_refused_by_shape_or_dtype(source, words):
    message = refusal(lambda: open_records(source).map_sum(row_moments))
    assert words in message
    assert ": " in message, "no cure"


@pytest.mark.parametrize(
    "large", [SECRET**100, -(SECRET**100), Fraction(SECRET**100, 3), np.longdouble("1e4000")]
)
@pytest.mark.parametrize("gaps", [False, True])
def test_numbers_beyond_all_doubles_are_refused_as_infinite_ones(large, gaps):
    """In the same words: which of them it is would tell of the record."""

    def words(value):
        rows = np.array([[1.0, 2.0], [value, 3.0]], dtype=object)
        forms = rows, rows.tolist(), pd.DataFrame(rows, columns=["a", "b"])
        opened = [open_records(each, drop_nulls=gaps) for each in forms]
        return [refusal(partial(count_complete, each)) for each in opened]

    assert words(large) == words(np.inf)
    if not gaps:
        rows = np.array([[1.0], [large]], dtype=object)
        assert "infinite" in refusal(lambda: open_records(rows).map_sum(row_moments))


def test_objects_whose_conversion_fails_are_refused_alone():
    class Odd(Fraction):
        def __float__(self):
            raise RuntimeError(SECRET_TEXT)

    rows = np.array([[1.0], [Odd(1)]], dtype=object)
    refusal(lambda: open_records(rows).map_sum(row_moments))


def test_objects_are_not_looked_at_before_the_sum():
    """The guarantee is certified in between, from the shape alone."""
    records = ArrayRecords(np.array([["not", "numbers"]] * 3, dtype=object))
    assert (records.n_records, records.n_features) == (3, 2)
    assert "real numbers" in refusal(lambda: records.map_sum(row_moments))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, object])
@pytest.mark.parametrize("row", [0, 13, 36])
def test_records_that_are_not_finite_are_refused(bad, dtype, row):
    X = np.full((37, 4), SECRET, dtype=dtype)
    X[row, 2] = bad
    records = ArrayRecords(X, block_rows=10)
    message = refusal(lambda: records.map_sum(row_moments))
    assert "must be finite" in message
    assert "impute" in message
    assert "drop" in message
    assert not any(character.isdigit() for character in message), "a position or a value"


def test_the_finite_check_is_not_fooled_by_large_finite_numbers():
    """Sums and squares overflow here, and infinities of both signs would cancel to NaN."""
    X = np.full((2, 3), np.finfo(float).max)
    X[1] *= -1
    assert ArrayRecords(X).map_sum(lambda block: np.array(len(block))) == 2


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda block: block.sum(0), "got float64"),
        (len, "got int"),
        (lambda block: np.zeros(len(block), np.int64), "(7,) after (10,)"),
    ],
)
def test_block_functions_must_return_int64_of_one_shape(integers, function, words):
    records = ArrayRecords(integers, block_rows=10)
    message = refusal(lambda: records.map_sum(function), ParameterError)
    assert "block_function must return" in message
    assert words in message


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def saved(path: Path, X: np.ndarray) -> Path:
    np.save(path, X, allow_pickle=True)
    return path


def truncated(path: Path, keep: int) -> Path:
    return written(path, saved(path, np.full((100, 3), SECRET)).read_bytes()[:keep])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path, "does not exist"),
        (lambda path: path.mkdir() or path, "must lead to files whose names end in"),
        (lambda path: written(path, b""), "is not a .npy file"),
        (lambda path: written(path, SECRET_TEXT.encode() * 50), "numpy.save(path, X)"),
        (lambda path: written(path, b"PK\x03\x04" + SECRET_TEXT.encode()), "is not a .npy file"),
        (lambda path: written(path, b"\x93NUMPY\x01\x00\x10\x00{'shape': ((((  "), "damaged"),
        (lambda path: truncated(path, 20), "damaged"),
        (lambda path: truncated(path, 1000), "truncated"),
        (lambda path: truncated(path, 128), "truncated"),
        (lambda path: saved(path, np.full(5, SECRET)), "got 1"),
        (lambda path: saved(path, np.zeros((5, 0))), "0 feature(s) (shape=(, 0))"),
        (lambda path: saved(path, np.full((2, 2), SECRET + 0j)), "Complex data not supported"),
        (lambda path: saved(path, np.full((2, 2), SECRET_TEXT)), "dtype str_:"),
        (lambda path: saved(path, np.full((2, 2), SECRET, object)), "dtype object_:"),
    ],
)
def test_unusable_npy_files_are_refused(tmp_path, make, words):
    path = make(tmp_path / "X.npy")
    message = refusal(lambda: open_records(path))
    assert str(path) in message
    assert words in message


@pytest.mark.parametrize("name", ["X.txt", "X", "X.npz", "X" * 5_000])
def test_other_files_are_refused_by_name(tmp_path, name):
    path = tmp_path / name
    assert "does not exist" in refusal(lambda: open_records(path))
    if len(name) < 100:
        path.touch()
        assert "ends in .npy" in refusal(lambda: open_records(path))


def test_a_backend_only_has_to_yield_its_rows():
    class Constant(Records):
        n_records, n_features = 6, 2

        def _blocks(self):
            yield np.ones((4, 2))
            yield np.ones((2, 2))

    np.testing.assert_array_equal(Constant().map_sum(row_moments), np.full((3, 2), 6))


def test_printing_records_shows_no_data():
    assert str(SECRET) not in repr(ArrayRecords(np.full((2, 2), SECRET)))


PANDAS = pd.DataFrame(
    {
        "age": [1.0, 2.0],
        "name": [SECRET_TEXT, "x"],
        "born": pd.to_datetime(["2024-01-31", "2024-02-01"]),
        "kind": pd.Categorical([SECRET_TEXT, "x"]),
        "count": pd.array([1, 2], dtype="Int64"),
        "yes": [True, False],
        "grade": pd.Categorical([1, 2]),
    }
)
POLARS = pl.DataFrame(
    {
        "age": [1.0, 2.0],
        "name": [SECRET_TEXT, "x"],
        "born": [pd.Timestamp("2024-01-31").date()] * 2,
        "kind": pl.Series([SECRET_TEXT, "x"], dtype=pl.Enum([SECRET_TEXT, "x"])),
        "count": [1, 2],
        "yes": [True, False],
        "grade": [1, 2],
    }
)
FRAMES = {
    "pandas": PANDAS,
    "polars": POLARS,
    "arrow": pa.Table.from_pandas(PANDAS.drop(columns="grade")),
    "dask": dask.dataframe.from_pandas(PANDAS, npartitions=1),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_all_columns_that_are_no_numbers_are_named_with_the_cure(frame):
    message = refusal(lambda: open_records(frame), DataTypeError)
    assert "columns 'name', 'born', 'kind' have type " in message
    assert "encode answers by a public rule" in message


def test_nothing_is_charged_for_them(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_dataset("people", 2.0, 1e-5)
    estimator = GaussianCovariance(
        epsilon=1.0, delta=1e-6, row_sparsity=1, ledger=ledger, dataset="people"
    )
    for frame in (PANDAS, POLARS, POLARS.select(pl.lit(None, pl.Float64).alias("a"), "age")):
        refusal(lambda table=frame: estimator.fit(table))
    assert ledger.history("people") == ()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_numbers_of_every_kind_are_taken(name):
    frame = FRAMES[name]
    kept = frame[["age", "count", "yes", "grade"]]
    records = open_records(kept)
    assert records.feature_names == ("age", "count", "yes", "grade")
    assert rows_of(records).tolist() == [[1, 1, 1, 1], [2, 2, 0, 2]]


def test_a_long_list_is_cut_short():
    frame = pd.DataFrame({f"c{i}": ["x"] for i in range(47)})
    message = refusal(lambda: open_records(frame), DataTypeError)
    assert (
        "columns 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9' and 37 more" in message
    )


def test_columns_without_names_are_named_by_position():
    frame = pd.DataFrame([[1.0, "x"], [2.0, SECRET_TEXT]])
    assert "column '1' has type" in refusal(lambda: open_records(frame), DataTypeError)


def test_files_name_all_columns_at_once_and_suggest_others(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(FRAMES["arrow"], path)
    message = refusal(lambda: open_records(path))
    assert "columns 'name', 'born', 'kind' have type " in message
    message = refusal(lambda: open_records(path, columns=["aeg", "cuont", "age", "zzz"]))
    assert "'aeg', 'cuont', 'zzz'" in message
    assert "'age', 'count'?" in message
    assert "did you mean" not in refusal(lambda: open_records(path, columns=["zzz"]))


def test_nulls_are_told_by_files_and_frames_that_count_them(tmp_path):
    path = tmp_path / "x.parquet"
    table = {"a": [1.0, None], "b": [1.0, 2.0], "c": [None, 2.0]}
    parquet.write_table(pa.table(table), path)
    for source in (path, pl.DataFrame(table)):
        assert "'a', 'c' have" in refusal(lambda x=source: open_records(x))
        assert open_records(source, drop_nulls=True).n_records == 2
    assert open_records(path, columns=["b"]).n_records == 2
