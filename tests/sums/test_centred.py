"""`CentredRecords`: differences from a centre within a reach, and zeros for missing records."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import DataError, ParameterError
from hushcov.sums.bounded import bounded_sums
from hushcov.sums.counts import cell_counts, count_complete, signed_octaves
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import FeatureGrid, IntegerGrid
from hushcov.sums.records import (
    CentredRecords,
    CompleteRecords,
    DeviceRecords,
    ScaledRecords,
    WatchedRecords,
)
from hushcov.tables.sources import ArrayRecords, open_records

D = 3
LARGEST = np.finfo(np.float64).max
ROWS = np.random.default_rng(0).standard_normal((11, D)) * 3
CENTRE, REACH = np.array([0.5, -1.0, 1e6]), np.array([1.0, np.inf, 0.0])
HOSTILE = [0.0, -0.0, 5e-324, -5e-324, LARGEST, -LARGEST, 1e300, 0.5, -1.0, 1e6]
numbers = st.sampled_from(HOSTILE) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.integers(1, 6).flatmap(lambda n: hnp.arrays(np.float64, (n, D), elements=numbers))
centres = hnp.arrays(np.float64, D, elements=numbers)
reaches = hnp.arrays(
    np.float64, D, elements=st.sampled_from([0.0, 5e-324, 1.0, LARGEST, np.inf]) | st.floats(0, 1e9)
)


def rows_of(records):
    return np.concatenate([np.asarray(block) for block in records._blocks()])


def in_python(X, centre, reach=(np.inf,) * D):
    """One number at a time; a difference that overflows is infinite in Python too."""
    return [
        [
            min(max(x - c, -r, -LARGEST), r, LARGEST)
            for x, c, r in zip(row, centre, reach, strict=True)
        ]
        for row in X.tolist()
    ]


@given(X=tables, centre=centres, reach=st.none() | reaches)
def test_equals_python(X, centre, reach):
    centred = CentredRecords(ArrayRecords(X), centre, reach)
    expected = in_python(X, centre.tolist(), *([] if reach is None else [reach.tolist()]))
    found = rows_of(centred)
    assert np.isfinite(found).all()
    assert found.tolist() == expected
    for device in (
        CentredRecords(open_records(torch.from_numpy(X)), centre, reach),
        DeviceRecords(centred, "cpu"),
    ):
        assert rows_of(device).tolist() == expected


@pytest.mark.parametrize("block_rows", [1, 4, 100])
def test_blocks_and_sizes(block_rows):
    centred = CentredRecords(ArrayRecords(ROWS, block_rows=block_rows), CENTRE, REACH)
    assert (centred.n_records, centred.n_features) == ROWS.shape
    np.testing.assert_array_equal(
        rows_of(centred), np.clip(ROWS - CENTRE, -REACH, np.minimum(REACH, LARGEST))
    )
    for block in centred._blocks():
        assert block.flags.c_contiguous


def test_names_and_the_function_that_makes_it_travel():
    import pandas as pd

    records = open_records(pd.DataFrame(ROWS, columns=["a", "b", "c"]))
    centred = CentredRecords(records, CENTRE, REACH)
    assert centred.feature_names == ("a", "b", "c")
    made = pickle.loads(pickle.dumps(centred._view()))(ArrayRecords(ROWS))
    np.testing.assert_array_equal(rows_of(made), rows_of(centred))


def test_later_changes_of_the_arguments_change_nothing():
    centre, reach = CENTRE.copy(), REACH.copy()
    centred = CentredRecords(ArrayRecords(ROWS), centre, reach)
    before = rows_of(centred)
    centre += 1
    reach += 1
    np.testing.assert_array_equal(rows_of(centred), before)


def test_other_views_inside_and_outside():
    centred = CentredRecords(ScaledRecords(ArrayRecords(ROWS), np.full(D, 2.0)), CENTRE)
    np.testing.assert_array_equal(rows_of(centred), ROWS / 2 - CENTRE)
    scaled = ScaledRecords(CentredRecords(ArrayRecords(ROWS), CENTRE), np.full(D, 2.0))
    np.testing.assert_array_equal(rows_of(scaled), (ROWS - CENTRE) / 2)
    huge = CentredRecords(ArrayRecords(np.full((4, D), -LARGEST)), np.full(D, LARGEST))
    second_moments(ScaledRecords(huge, np.full(D, 1e-100)), IntegerGrid(1.0, 9))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_before_they_are_clipped(bad):
    X = ROWS.copy()
    X[5, 2] = bad
    for records in (ArrayRecords(X), open_records(torch.from_numpy(X))):
        with pytest.raises(DataError, match="finite"):
            rows_of(CentredRecords(records, CENTRE, REACH))


@pytest.mark.parametrize(
    ("centre", "reach", "name"),
    [
        (np.zeros(2), None, "centre"),
        (0.0, None, "centre"),
        (np.array([0, 0, np.nan]), None, "centre"),
        (np.array([0, 0, np.inf]), None, "centre"),
        (["a", "b", "c"], None, "centre"),
        (np.zeros(3), np.ones(4), "reach"),
        (np.zeros(3), np.array([1, 1, -1e-9]), "reach"),
        (np.zeros(3), np.array([1, 1, np.nan]), "reach"),
    ],
)
def test_bad_arguments_are_refused(centre, reach, name):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        CentredRecords(ArrayRecords(ROWS), centre, reach)


# Missing values. Zeros must not become minus the centre: far out, and one number for all.

GAPS = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.15, np.nan, ROWS)
WHOLE = ~np.isnan(GAPS).any(1)
SOURCES = {
    "array": lambda X: open_records(X, drop_nulls=True, block_rows=3),
    "tensor": lambda X: open_records(torch.from_numpy(X), drop_nulls=True),
    "dask": lambda X: open_records(dask.array.from_array(X, chunks=(4, D)), drop_nulls=True),
}
ORDERS = {
    "around": lambda r: CompleteRecords(CentredRecords(r, CENTRE)),
    "inside": lambda r: CentredRecords(CompleteRecords(r), CENTRE),
    "both": lambda r: CompleteRecords(CentredRecords(CompleteRecords(r), CENTRE)),
    "deep inside": lambda r: CentredRecords(
        ScaledRecords(WatchedRecords(CompleteRecords(r), list, abs), np.ones(D)), CENTRE
    ),
    "in two steps": lambda r: CentredRecords(
        CentredRecords(CompleteRecords(r), CENTRE - 2**20), np.full(D, 2.0**20)
    ),
    "on a device": lambda r: CentredRecords(DeviceRecords(CompleteRecords(r), "cpu"), CENTRE),
}


def test_there_are_complete_records_and_others():
    assert 0 < WHOLE.sum() < len(WHOLE)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", ["array", "tensor"])
def test_missing_records_are_zeros_in_either_order(source, order):
    centred = ORDERS[order](SOURCES[source](GAPS))
    assert not centred.gaps
    assert centred.n_records == len(GAPS)
    found = rows_of(centred)
    assert not found[~WHOLE].any()
    np.testing.assert_allclose(found[WHOLE], GAPS[WHOLE] - CENTRE, rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", SOURCES)
def test_sums_are_sums_over_the_complete_records(source, order):
    centred = ORDERS[order](SOURCES[source](GAPS))
    complete = CentredRecords(ArrayRecords(GAPS[WHOLE]), CENTRE)
    grid = FeatureGrid(np.array([1.0, 1.0, 1e6]), 4.0, 1000)
    columns = np.arange(D)
    for sums in (
        lambda r: bounded_sums(r, grid, 1500),
        lambda r: second_moments(r, IntegerGrid(4.0, 9)).gram,
        lambda r: signed_octaves(r, np.ones(D), np.zeros(D), columns),
        lambda r: cell_counts(r, columns, -np.ones(D), np.ones(D), np.zeros(D), 9),
    ):
        np.testing.assert_array_equal(sums(centred), sums(complete))


def test_centred_records_with_gaps_have_gaps_and_count_them():
    centred = CentredRecords(open_records(GAPS, drop_nulls=True), CENTRE, REACH)
    assert centred.gaps
    assert count_complete(centred) == WHOLE.sum()
    assert CentredRecords(ArrayRecords(GAPS), CENTRE).with_gaps().gaps
    with pytest.raises(DataError, match="must be complete"):
        bounded_sums(centred, FeatureGrid(np.ones(D), 4.0, 10), 5)


def test_infinite_values_are_refused_where_others_are_missing():
    X = GAPS.copy()
    X[0] = np.inf
    for order in ORDERS.values():
        with pytest.raises(DataError, match="infinite"):
            bounded_sums(order(SOURCES["array"](X)), FeatureGrid(np.ones(D), 4.0, 10), 5)


def test_progress_counts_all_records():
    seen = []
    records = ORDERS["inside"](SOURCES["array"](GAPS))
    watched = WatchedRecords(records, lambda: None, seen.append)
    signed_octaves(watched, np.zeros(D), np.zeros(D), np.arange(D))
    assert sum(seen) == len(GAPS)
