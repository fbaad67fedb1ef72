"""Records in memory: every row once, missing values left out or refused, no data quoted."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from pathlib import Path

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from pyarrow import feather, parquet

from hushcov.exceptions import DataError, DataTypeError, ParameterError
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.sums.counts import count_complete, sign_sums
from hushcov.kernel.sums.gram import second_moments
from hushcov.paper.plan import ScaledRecords
from hushcov.tables.sources import ArrayRecords, NpyRecords, open_records
from table_helpers import refused, rows_of

# Written nowhere else, so that finding one of these in a message means that data leaked.
SECRET = 8675309
SECRET_TEXT = "mrs-dalloway"
refusal = partial(refused, secrets=(str(SECRET), SECRET_TEXT))


def row_moments(block):
    """Integer sums that depend on every value, on its column and on the number of rows."""
    return np.stack([block, block**2, np.ones_like(block)]).astype(np.int64).sum(axis=1)


@pytest.fixture
def integers():
    return np.random.default_rng(1).integers(-50, 50, size=(37, 4))


@pytest.mark.parametrize(
    "convert",
    [
        *(partial(np.ndarray.astype, dtype=each) for each in (np.int8, np.int64, np.float16)),
        *(partial(np.ndarray.astype, dtype=each) for each in (np.float32, np.longdouble, ">f8")),
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
        (np.full((2, 2), SECRET + 1j, dtype=object), "dtype object"),
        (np.full((2, 2), None, dtype=object), "values are missing, let an estimator leave"),
        (np.full((2, 2), SECRET**100, dtype=object), "NaN or infinite"),
        (np.full((2, 2), np.longdouble(SECRET) ** 500), "NaN or infinite"),
        (pd.DataFrame({"a": [1.0, SECRET], "b": [SECRET_TEXT, "x"]}), "column 'b' has t"),
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
        opened = [
            open_records(
                each,
            ).with_gaps(gaps, strict=True)
            for each in forms
        ]
        return [refusal(partial(count_complete, each)) for each in opened]

    assert words(large) == words(np.inf)
    if not gaps:
        rows = np.array([[1.0], [large]], dtype=object)
        assert "infinite" in refusal(lambda: open_records(rows).map_sum(row_moments))


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
    assert "fill in a public value" in message
    assert "drop_nulls" in message
    assert not any(character.isdigit() for character in message), "a position or a value"


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
# As pandas 2 has text, by itself and in categories.
OBJECTS = pd.Categorical([SECRET_TEXT, "x"], pd.Index([SECRET_TEXT, "x"], dtype=object))
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
    "objects": PANDAS.astype({"name": object}).assign(kind=OBJECTS),
    "dask objects": dask.dataframe.from_pandas(PANDAS.assign(kind=OBJECTS), npartitions=1),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_all_columns_that_are_no_numbers_are_named_with_the_cure(frame):
    message = refusal(lambda: open_records(frame), DataTypeError)
    assert "columns 'name', 'born', 'kind' have type " in message
    assert "encode them by a public rule" in message
    many = pd.DataFrame({f"c{i}": ["x"] for i in range(47)})
    assert "'c8', 'c9' and 37 more" in refusal(lambda: open_records(many), DataTypeError)
    nameless = pd.DataFrame([[1.0, "x"], [2.0, SECRET_TEXT]])
    words = refusal(lambda: open_records(nameless), DataTypeError)
    assert re.search(
        r"column '1' has type|column 1 has text \(dtype object\)", words
    )  # pandas 3, 2


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_numbers_of_every_kind_are_taken(name):
    frame = FRAMES[name]
    kept = frame[["age", "count", "yes", "grade"]]
    records = open_records(kept)
    assert records.feature_names == ("age", "count", "yes", "grade")
    assert rows_of(records).tolist() == [[1, 1, 1, 1], [2, 2, 0, 2]]


def test_files_name_all_columns_at_once_and_suggest_others(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(FRAMES["arrow"], path)
    message = refusal(lambda: open_records(path))
    assert "columns 'name', 'born', 'kind' have type " in message
    message = refusal(lambda: open_records(path, columns=["aeg", "cuont", "age", "zzz"]))
    assert "'aeg', 'cuont', 'zzz'" in message
    assert "'age', 'count'?" in message
    assert "did you mean" not in refusal(lambda: open_records(path, columns=["zzz"]))


# Missing values at every door. Removing records instead would move later ones up.


NAN, MISSING_SECRET = np.nan, 987_654.125
ROWS = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [NAN, NAN], [5.0, MISSING_SECRET]])
NAMES = ["a", "b"]


def _file(save, name):
    def door(rows, folder):
        path = folder / name
        save(rows, path)
        return path

    return door


def _nulls(rows):
    return {n: pa.array(column, from_pandas=True) for n, column in zip(NAMES, rows.T, strict=True)}


def _text(rows):
    lines = [",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in rows]
    return "\n".join(["a,b", *lines, ""])


def _objects(rows, nothing):
    return np.array([[nothing if np.isnan(x) else x for x in row] for row in rows], dtype=object)


DOORS = {
    "array": lambda rows, _: rows,
    "float32": lambda rows, _: np.array(rows, dtype=np.float32),
    "list": lambda rows, _: rows.tolist(),
    "None in objects": lambda rows, _: _objects(rows, None),
    "NA in objects": lambda rows, _: _objects(rows, pd.NA),
    "npy": _file(lambda rows, path: np.save(path, rows), "x.npy"),
    "pandas": lambda rows, _: pd.DataFrame(rows, columns=NAMES),
    "pandas nullable": lambda rows, _: pd.DataFrame(rows, columns=NAMES).astype("Float64"),
    "pandas objects": lambda rows, _: pd.DataFrame(_objects(rows, None), columns=NAMES),
    "pandas without names": lambda rows, _: pd.DataFrame(rows),
    "polars": lambda rows, _: pl.DataFrame(_objects(rows, None).tolist(), NAMES, orient="row"),
    "polars NaN": lambda rows, _: pl.DataFrame(rows, NAMES),
    "arrow table": lambda rows, _: pa.table(_nulls(rows)),
    "parquet": _file(
        lambda rows, path: parquet.write_table(pa.table(_nulls(rows)), path), "x.parquet"
    ),
    "arrow": _file(
        lambda rows, path: feather.write_feather(pa.table(_nulls(rows)), path), "x.feather"
    ),
    "csv": _file(lambda rows, path: path.write_text(_text(rows)), "x.csv"),
    "dask array": lambda rows, _: dask.array.from_array(rows, chunks=(2, 2)),
    "dask dataframe": lambda rows, _: dask.dataframe.from_pandas(
        pd.DataFrame(rows, columns=NAMES), npartitions=2
    ),
    "tensor": lambda rows, _: torch.tensor(rows),
    "records": lambda rows, _: ArrayRecords(rows),
    "scaled records": lambda rows, _: ScaledRecords(ArrayRecords(rows), np.ones(2)),
}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def sums(records):
    """Sum of all values, which are integers but for the secret, and the number of rows."""
    return records.map_sum(
        lambda block: np.array([int(np.asarray(block).sum()), len(block)], dtype=np.int64)
    ).tolist()


@every_door
def test_records_that_miss_a_value_are_left_out_and_still_count(door, tmp_path):
    records = open_records(door(ROWS, tmp_path)).with_gaps()
    assert records.gaps
    assert (records.n_records, records.n_features) == (5, 2)
    assert count_complete(records) == 2
    assert sums(CompleteRecords(records)) == [3 + 5 + int(MISSING_SECRET), 5]


@every_door
def test_elsewhere_they_are_refused_with_a_cure_that_removes_no_record(door, tmp_path):
    with pytest.raises(DataError) as info:
        sums(open_records(door(ROWS, tmp_path)))
    message = str(info.value)
    assert "unless drop_nulls=False (--no-nulls)" in message
    assert "uses no other record, and without removing records" in message
    assert "987" not in message


@every_door
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values_are_missing_unless_they_are_an_error(door, tmp_path, bad):
    rows = np.where(ROWS == 5.0, bad, ROWS)
    records = open_records(door(rows, tmp_path))
    assert count_complete(records.with_gaps()) == 1
    assert sums(CompleteRecords(records.with_gaps())) == [3, 5]
    with pytest.raises(DataError, match=r"infinite.* make these values empty"):
        sums(CompleteRecords(records.with_gaps(strict=True)))


def test_a_masked_array_is_refused_with_a_cure_that_works():
    masked = np.ma.masked_invalid(ROWS)
    with pytest.raises(DataError, match=r"X.astype\(float\).filled\(numpy.nan\)"):
        open_records(masked)
    assert count_complete(open_records(masked.astype(float).filled(np.nan)).with_gaps()) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda records: second_moments(records, IntegerGrid.for_records(5.0, 5)),
        sign_sums,
        lambda records: records.map_sum(lambda block: np.zeros(1, dtype=np.int64)),
    ],
)
def test_sums_over_gaps_are_refused_unless_they_count_them(function):
    records = open_records(ROWS).with_gaps()
    with pytest.raises(DataError, match="must be complete"):
        function(records)
    function(CompleteRecords(records))
