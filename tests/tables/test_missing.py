"""Missing values at every door: left out under the same number of records, or refused.

Removing records instead is no step that treats each record on its own: later ones move up.
"""

from __future__ import annotations

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet

from hushcov.exceptions import DataError, DataTypeError
from hushcov.sums.counts import count_complete, log2_histogram
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.sums.records import CompleteRecords, ScaledRecords
from hushcov.tables.sources import ArrayRecords, open_records

NAN, SECRET = np.nan, 987_654.125
ROWS = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [NAN, NAN], [5.0, SECRET]])
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
    records = open_records(door(ROWS, tmp_path), drop_nulls=True)
    assert records.gaps
    assert (records.n_records, records.n_features) == (5, 2)
    assert count_complete(records) == 2
    assert sums(CompleteRecords(records)) == [3 + 5 + int(SECRET), 5]


@every_door
def test_without_drop_nulls_they_are_refused_with_a_cure_that_removes_no_record(door, tmp_path):
    with pytest.raises(DataError) as info:
        sums(open_records(door(ROWS, tmp_path)))
    message = str(info.value)
    assert "open_records(X, drop_nulls=True) (--drop-nulls)" in message
    assert "its own record" in message
    assert "Do not remove" in message
    assert "987" not in message


@every_door
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values_stay_an_error(door, tmp_path, bad):
    rows = np.where(ROWS == 5.0, bad, ROWS)
    records = open_records(door(rows, tmp_path), drop_nulls=True)
    with pytest.raises(DataError, match=r"infinite.* drop_nulls does not"):
        sums(CompleteRecords(records))


@every_door
def test_neighbours_have_one_size_and_differ_in_one_pair(door, tmp_path):
    """A record that loses a value adds nothing, and is counted as before."""
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    rng = np.random.default_rng(1)
    rows = rng.integers(-9, 9, (12, 2)).astype(np.float64)
    other = rows.copy()
    other[4, 0] = NAN
    whole, missing = (
        open_records(door(X, tmp_path / name), drop_nulls=True)
        for name, X in (("0", rows), ("1", other))
    )
    assert whole.n_records == missing.n_records == 12
    grid = IntegerGrid.for_records(20.0, 12)
    first, second = (second_moments(CompleteRecords(records), grid) for records in (whole, missing))
    lost = second_moments(ArrayRecords(rows[4:5]), grid).gram
    np.testing.assert_array_equal(first.gram - second.gram, lost)
    assert lost.any()
    assert first.n_records == second.n_records == 12


def test_names_of_columns_are_kept_and_named_in_errors():
    frame = pd.DataFrame(ROWS, columns=NAMES)
    assert open_records(frame, drop_nulls=True).feature_names == ("a", "b")
    frame["c"] = 1.0
    with pytest.raises(DataError, match="infinite in columns 'a', 'b'"):
        sums(open_records(frame))
    with pytest.raises(DataError, match="'a', 'b' have nulls"):
        open_records(pl.DataFrame(_objects(ROWS, None).tolist(), NAMES, orient="row"))
    with pytest.raises(DataError, match="missing in columns 'a', 'b'"):
        sums(open_records(frame.astype("Float64")))


def test_what_is_neither_a_number_nor_missing_stays_an_error_of_its_type():
    rows = _objects(ROWS, None)
    rows[2, 0] = "s3cret"
    frame = pd.DataFrame(rows, columns=NAMES)
    with pytest.raises(DataTypeError, match="in column 'a' ") as info:
        sums(CompleteRecords(open_records(frame, drop_nulls=True)))
    assert "s3cret" not in str(info.value)


def test_a_masked_array_is_refused_with_a_cure_that_works():
    masked = np.ma.masked_invalid(ROWS)
    with pytest.raises(DataError, match=r"filled\(numpy.nan\), drop_nulls=True"):
        open_records(masked, drop_nulls=True)
    cured = open_records(masked.astype(float).filled(np.nan), drop_nulls=True)
    assert count_complete(cured) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda records: second_moments(records, IntegerGrid.for_records(5.0, 5)),
        log2_histogram,
        lambda records: records.map_sum(lambda block: np.zeros(1, dtype=np.int64)),
    ],
)
def test_sums_over_gaps_are_refused_unless_they_count_them(function):
    records = open_records(ROWS, drop_nulls=True)
    with pytest.raises(DataError, match="must be complete"):
        function(records)
    function(CompleteRecords(records))
