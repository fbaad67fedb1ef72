"""Views: features over their scales, about a centre, within public bounds; zeros for gaps."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exact_sums import bounded_sums
from hushcov.bounds import check_bounds
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError, ParameterError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.records.base import CentredRecords, ClippedRecords, CompleteRecords
from hushcov.kernel.sums.counts import cell_counts, count_complete, signed_octaves
from hushcov.kernel.sums.gram import second_moments
from hushcov.paper.plan import ScaledRecords
from hushcov.tables.progress import WatchedRecords
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
        *((np.zeros(2), None, "centre"), (0.0, None, "centre")),
        *((np.array([0, 0, np.nan]), None, "centre"), (np.array([0, 0, np.inf]), None, "centre")),
        *((["a", "b", "c"], None, "centre"), (np.zeros(3), np.ones(4), "reach")),
        (np.zeros(3), np.array([1, 1, -1e-9]), "reach"),
        (np.zeros(3), np.array([1, 1, np.nan]), "reach"),
    ],
)
def test_bad_arguments_are_refused(centre, reach, name):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        CentredRecords(ArrayRecords(ROWS), centre, reach)


@pytest.mark.parametrize("size", [1e300, LARGEST, 5e-324])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_any_size_over_any_scale_is_finite(size, scale):
    """Without a warning, and with the sign it had; over a scale of zero it is zero."""
    X = np.array([[size, -size, size], [0.0, size, 1.0]])
    records = ScaledRecords(ArrayRecords(X), np.array([scale, scale, 0.0]))
    scaled = rows_of(records)
    assert np.isfinite(scaled).all()
    assert not scaled[:, 2].any()
    if size > 1:
        np.testing.assert_array_equal(np.sign(scaled)[:, :2], np.sign(X)[:, :2])
    second_moments(records, IntegerGrid(4.0, 100))


def test_scaled_values_and_scales_that_are_refused():
    for scales in (np.ones(2), np.array([1.0, -1.0, 1.0]), np.full(3, np.nan)):
        with pytest.raises(ParameterError, match="feature_scale"):
            ScaledRecords(ArrayRecords(ROWS), scales)
    for bad in (np.nan, np.inf):
        X = np.where(np.arange(D) == 0, bad, ROWS)
        with pytest.raises(DataError, match="finite"):
            rows_of(ScaledRecords(ArrayRecords(X), np.array([0.0, 1.0, 1.0])))


# Missing values. Zeros must not become minus the centre: far out, and one number for all.

GAPS = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.15, np.nan, ROWS)
WHOLE = ~np.isnan(GAPS).any(1)
SOURCES = {
    "array": lambda X: open_records(X, block_rows=3).with_gaps(),
    "tensor": lambda X: open_records(torch.from_numpy(X)).with_gaps(),
    "dask": lambda X: open_records(dask.array.from_array(X, chunks=(4, D))).with_gaps(),
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


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", ["array", "tensor"])
def test_missing_records_are_zeros_in_either_order(source, order):
    centred = ORDERS[order](SOURCES[source](GAPS))
    assert not centred.gaps
    assert centred.n_records == len(GAPS) > WHOLE.sum() > 0
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
    centred = CentredRecords(open_records(GAPS).with_gaps(), CENTRE, REACH)
    assert centred.gaps
    assert count_complete(centred) == WHOLE.sum()
    assert CentredRecords(ArrayRecords(GAPS), CENTRE).with_gaps().gaps
    with pytest.raises(DataError, match="must be complete"):
        bounded_sums(centred, FeatureGrid(np.ones(D), 4.0, 10), 5)


def test_infinite_values_are_refused_where_others_are_missing():
    X = GAPS.copy()
    X[0] = np.inf
    strict = SOURCES["array"](X).with_gaps(strict=True)
    for order in ORDERS.values():
        with pytest.raises(DataError, match="infinite"):
            bounded_sums(order(strict), FeatureGrid(np.ones(D), 4.0, 10), 5)


# Public bounds: how they are given, and records within them.


NAMES = ("age", "income", "sex")


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
        *(([0, 1, 2], "two columns, low and high"), ("0,1", "bounds must be numbers")),
        ([["a", "b"]] * 3, "bounds must be numbers"),
        ([[1, 0], [0, 1], [0, 1]], "low <= high, got 1 and 0 for column 'age'"),
        ([[np.inf, np.inf], [0, 1], [0, 1]], "low <= high"),
        ({"agee": (0, 1)}, "got 'agee', which is none: did you mean 'age'"),
        ({"zzz": (0, 1)}, "use the names of the columns"),
        *(({7: (0, 1)}, "columns 0 to 2, got 7"), ({(1, 2): (0, 1)}, "by name or index")),
        ({"age": 3}, r"a pair \(low, high\) for column 'age'"),
        *(({"age": "01"}, r"a pair \(low, high\)"), ({"age": (0, 1, 2)}, r"a pair \(low, high\)")),
        ({"age": ("0", 1)}, "numbers, got '0' for column 'age'"),
        *(({"age": (True, 1)}, "numbers, got"), ({"age": (0, 1), 0: (0, 1)}, "each column once")),
    ],
)
def test_bounds_that_mean_nothing_are_refused(given, words):
    with pytest.raises(ParameterError, match=words):
        check_bounds(given, 3, NAMES)


def test_names_need_columns_that_have_some():
    with pytest.raises(ParameterError, match="by index where columns have no names"):
        check_bounds({"age": (0, 1)}, 3)


BOUNDS = check_bounds([[-1, 1], [2, None], [None, None]], 3)
WIDE = np.random.default_rng(0).normal(size=(11, 3)) * 3


def test_values_are_moved_into_the_bounds():
    clipped = ClippedRecords(ArrayRecords(WIDE, block_rows=4), BOUNDS)
    expected = np.column_stack([WIDE[:, 0].clip(-1, 1), np.maximum(WIDE[:, 1], 2), WIDE[:, 2]])
    assert np.array_equal(rows_of(clipped), expected)
    on_device = ClippedRecords(DeviceRecords(ArrayRecords(WIDE), "cpu"), BOUNDS)
    assert isinstance(next(iter(on_device._blocks())), torch.Tensor)
    assert np.array_equal(rows_of(on_device), expected)
    view = pickle.loads(pickle.dumps(clipped._view()))
    assert np.array_equal(rows_of(view(ArrayRecords(WIDE))), expected)
    total = ClippedRecords(open_records(dask.array.from_array(WIDE, chunks=(4, 3))), BOUNDS)
    assert np.array_equal(total.map_sum(rounded), clipped.map_sum(rounded))


def rounded(block):
    return np.rint(1000 * block).astype(np.int64).sum(axis=0)


def test_missing_values_stay_missing_and_incomplete_records_zeros():
    rows = WIDE.copy()
    rows[3, 1] = np.nan
    gaps = ClippedRecords(open_records(rows).with_gaps(), BOUNDS)
    assert np.isnan(rows_of(gaps)[3, 1])
    inner = CompleteRecords(gaps)
    outer = ClippedRecords(CompleteRecords(open_records(rows).with_gaps()), BOUNDS)
    assert np.array_equal(rows_of(inner), rows_of(outer))
    assert not rows_of(outer)[3].any()
    centre = np.full(3, 5.0)
    one, other = (CentredRecords(each, centre) for each in (inner, outer))
    assert np.array_equal(rows_of(one), rows_of(other))


def test_infinite_values_are_refused_and_not_clipped():
    rows = WIDE.copy()
    rows[2, 0] = np.inf
    with pytest.raises(DataError, match="must be finite"):
        rows_of(ClippedRecords(ArrayRecords(rows), BOUNDS))


def test_blocks_are_copied_only_where_records_miss_values():
    X = np.arange(12.0).reshape(6, 2)
    (block,) = CompleteRecords(ArrayRecords(X).with_gaps())._blocks()
    assert np.shares_memory(block, X)
    X[3, 1] = np.nan
    (block,) = CompleteRecords(ArrayRecords(X).with_gaps())._blocks()
    np.testing.assert_array_equal(block, [*X[:3], [0, 0], *X[4:]])
