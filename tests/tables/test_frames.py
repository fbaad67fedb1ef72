"""DataFrames: wrong columns are named, all at once, before anything is read."""

from __future__ import annotations

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from hushcov import GaussianCovariance
from hushcov.exceptions import DataError, DataTypeError
from hushcov.tables.sources import open_records

SECRET = "s3cret"
PANDAS = pd.DataFrame(
    {
        "age": [1.0, 2.0],
        "name": [SECRET, "x"],
        "born": pd.to_datetime(["2024-01-31", "2024-02-01"]),
        "kind": pd.Categorical([SECRET, "x"]),
        "count": pd.array([1, 2], dtype="Int64"),
        "yes": [True, False],
        "grade": pd.Categorical([1, 2]),
    }
)
POLARS = pl.DataFrame(
    {
        "age": [1.0, 2.0],
        "name": [SECRET, "x"],
        "born": [pd.Timestamp("2024-01-31").date()] * 2,
        "kind": pl.Series([SECRET, "x"], dtype=pl.Enum([SECRET, "x"])),
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


def refusal(action, kind=DataError):
    with pytest.raises(kind) as info:
        action()
    assert SECRET not in str(info.value)
    return str(info.value)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_all_columns_that_are_no_numbers_are_named_with_the_cure(frame):
    message = refusal(lambda: open_records(frame), DataTypeError)
    assert "columns 'name', 'born', 'kind' have type " in message
    assert "encode answers by a public rule" in message


def test_nothing_is_charged_for_them(tmp_path):
    from hushcov import Ledger

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
    assert np.concatenate(list(records._blocks())).tolist() == [[1, 1, 1, 1], [2, 2, 0, 2]]


def test_a_long_list_is_cut_short():
    frame = pd.DataFrame({f"c{i}": ["x"] for i in range(47)})
    message = refusal(lambda: open_records(frame), DataTypeError)
    assert (
        "columns 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9' and 37 more" in message
    )


def test_columns_without_names_are_named_by_position():
    frame = pd.DataFrame([[1.0, "x"], [2.0, SECRET]])
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
