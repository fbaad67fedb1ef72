"""Public bounds: how they are given, and records within them."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest
import torch

from hushcov.exceptions import DataError, ParameterError
from hushcov.sums.grids import check_bounds
from hushcov.sums.records import CentredRecords, ClippedRecords, CompleteRecords, DeviceRecords
from hushcov.tables.sources import ArrayRecords, open_records

NAMES = ("age", "income", "sex")


def rows_of(records):
    return np.concatenate([np.asarray(block) for block in records._blocks()])


def test_arrays_and_mappings_say_the_same():
    array = [[0, 120], [np.nan, 1e6], [-np.inf, np.inf]]
    mapping = {"age": (0, 120), "income": (None, 1e6), "sex": (np.nan, None)}
    by_index = {0: [0, 120], np.int64(1): np.array([-np.inf, 1e6])}
    found = check_bounds(array, 3)
    assert found == check_bounds(mapping, 3, NAMES) == check_bounds(by_index, 3)
    assert found == check_bounds(found, 3)
    assert found.plain() == ((0.0, 120.0), (None, 1e6), (None, None))
    assert found.finite.tolist() == [True, False, False]
    assert found.nearest.tolist() == [0.0, 0.0, 0.0]
    assert check_bounds([[2, 4], [-5, -3], [-1, 1]], 3).nearest.tolist() == [2.0, -3.0, 0.0]
    assert hash(found) == hash(check_bounds(array, 3))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0, 1]], "bounds must be 3 pairs, one for each feature, got 1"),
        ([0, 1, 2], "two columns, low and high"),
        ("0,1", "bounds must be numbers"),
        ([["a", "b"]] * 3, "bounds must be numbers"),
        ([[1, 0], [0, 1], [0, 1]], "low <= high, got 1 and 0 for column 'age'"),
        ([[np.inf, np.inf], [0, 1], [0, 1]], "low <= high"),
        ({"agee": (0, 1)}, "got 'agee', which is none: did you mean 'age'"),
        ({"zzz": (0, 1)}, "use the names of the columns"),
        ({7: (0, 1)}, "columns 0 to 2, got 7"),
        ({(1, 2): (0, 1)}, "by name or index"),
        ({"age": 3}, r"a pair \(low, high\) for column 'age'"),
        ({"age": "01"}, r"a pair \(low, high\)"),
        ({"age": (0, 1, 2)}, r"a pair \(low, high\)"),
        ({"age": ("0", 1)}, "numbers, got '0' for column 'age'"),
        ({"age": (True, 1)}, "numbers, got"),
        ({"age": (0, 1), 0: (0, 1)}, "each column once"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(given, words):
    with pytest.raises(ParameterError, match=words):
        check_bounds(given, 3, NAMES)


def test_names_need_columns_that_have_some():
    with pytest.raises(ParameterError, match="by index where columns have no names"):
        check_bounds({"age": (0, 1)}, 3)


BOUNDS = check_bounds([[-1, 1], [2, None], [None, None]], 3)
ROWS = np.random.default_rng(0).normal(size=(11, 3)) * 3


def test_values_are_moved_into_the_bounds():
    clipped = ClippedRecords(ArrayRecords(ROWS, block_rows=4), BOUNDS)
    expected = np.column_stack([ROWS[:, 0].clip(-1, 1), np.maximum(ROWS[:, 1], 2), ROWS[:, 2]])
    assert np.array_equal(rows_of(clipped), expected)
    on_device = ClippedRecords(DeviceRecords(ArrayRecords(ROWS), "cpu"), BOUNDS)
    assert isinstance(next(iter(on_device._blocks())), torch.Tensor)
    assert np.array_equal(rows_of(on_device), expected)
    view = pickle.loads(pickle.dumps(clipped._view()))
    assert np.array_equal(rows_of(view(ArrayRecords(ROWS))), expected)
    total = ClippedRecords(open_records(dask.array.from_array(ROWS, chunks=(4, 3))), BOUNDS)
    assert np.array_equal(total.map_sum(rounded), clipped.map_sum(rounded))


def rounded(block):
    return np.rint(1000 * block).astype(np.int64).sum(axis=0)


def test_missing_values_stay_missing_and_incomplete_records_zeros():
    rows = ROWS.copy()
    rows[3, 1] = np.nan
    gaps = ClippedRecords(open_records(rows, drop_nulls=True), BOUNDS)
    assert np.isnan(rows_of(gaps)[3, 1])
    inner = CompleteRecords(gaps)
    outer = ClippedRecords(CompleteRecords(open_records(rows, drop_nulls=True)), BOUNDS)
    assert np.array_equal(rows_of(inner), rows_of(outer))
    assert not rows_of(outer)[3].any()
    centre = np.full(3, 5.0)
    one, other = (CentredRecords(each, centre) for each in (inner, outer))
    assert np.array_equal(rows_of(one), rows_of(other))


def test_infinite_values_are_refused_and_not_clipped():
    rows = ROWS.copy()
    rows[2, 0] = np.inf
    with pytest.raises(DataError, match="must be finite"):
        rows_of(ClippedRecords(ArrayRecords(rows), BOUNDS))
