"""What records hand out: every row once, and nothing that is missing or of another unit."""

import math

import numpy as np
import pytest

from exact_sums import bounded_sums, norm_histogram
from hushcov.bounds import Bounds
from hushcov.engines import records as devices
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError, ForeignError, ParameterError, PrivacyConditionError
from hushcov.kernel.grids import INSIDE, FeatureGrid, IntegerGrid
from hushcov.kernel.records import base as views
from hushcov.kernel.records.base import (
    CentredRecords,
    ClippedRecords,
    CompleteRecords,
    CountedRecords,
    GroupedRecords,
    PartitionedRecords,
    grouped_layer,
)
from hushcov.kernel.sums import counts
from hushcov.kernel.sums.counts import count_complete, edge_counts
from hushcov.kernel.sums.rows import shortening
from hushcov.paper.plan import ScaledRecords
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.transforms import check_transforms

X = np.random.default_rng(4).standard_normal((23, 3))


def sums(block):
    return np.rint(64 * block).astype(np.int64).sum(axis=0)


def of_rows(records):
    return np.concatenate([*records._blocks(), np.empty((0, records.n_features))])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0), (11, 1), (22, 2)])
def test_numbers_that_are_not_finite_are_refused_by_every_kind_of_sum(wrong, place):
    x = X.copy()
    x[place] = wrong
    records = ArrayRecords(x, block_rows=5)
    with pytest.raises(DataError, match="records must be finite"):
        records.map_sum(sums)
    about, grid = (np.zeros(3), np.zeros(3), np.arange(3)), FeatureGrid(np.ones(3), 1.0, 3)
    for counted in (
        counts.sign_sums,
        lambda own: counts.signed_octaves(own, *about),
        lambda own: counts.cell_counts(own, [0], np.zeros(1), np.ones(1), np.zeros(1), 3),
        lambda own: edge_counts(own, [0], np.zeros((1, 1))),
        lambda own: norm_histogram(own, grid, (1,)),
        lambda own: bounded_sums(own, grid, 2),
    ):
        with pytest.raises(DataError, match="records must be finite"):
            counted(records)
    with pytest.raises(DataError, match="records must be complete"):
        records.with_gaps().map_sum(sums)
    with pytest.raises(DataError, match="records must be complete"):
        counts.sign_sums(records.with_gaps())
    with pytest.raises(DataError, match="records must be complete"):
        edge_counts(records.with_gaps(), [0], np.zeros((1, 1)))
    assert count_complete(records.with_gaps()) == 22
    expected = np.where(np.isfinite(x).all(axis=1, keepdims=True), x, 0.0)
    complete = CompleteRecords(records.with_gaps())
    assert complete.map_sum(sums).tolist() == sums(expected).tolist()
    assert not complete.with_gaps().gaps
    strict = records.with_gaps(strict=True)
    if math.isnan(wrong):
        assert count_complete(strict) == 22
    else:
        with pytest.raises(DataError, match="records must hold numbers"):
            count_complete(strict)
        with pytest.raises(DataError, match="records must hold numbers"):
            CompleteRecords(strict).map_sum(sums)


def test_sums_over_no_rows_are_those_of_no_rows():
    class Nothing(ArrayRecords):
        def _blocks(self):
            return iter(())

    records = Nothing(X)
    assert not records.keeps_copy
    assert records.map_sum(lambda block: np.array([len(block)])).tolist() == [0]
    assert counts.sign_sums(records).sum() == 0


@pytest.mark.parametrize("order", ["sorted", "mixed", "one unit", "none chosen"])
@pytest.mark.parametrize("readings", [1, 3, 7])
def test_rows_come_unit_by_unit_however_often_they_are_read(order, readings, monkeypatch):
    random = np.random.default_rng(1)
    codes = np.sort(random.integers(0, 9, 23))
    chosen = random.random(23) < 0.8
    if order == "mixed":
        codes = random.permutation(codes)
    elif order == "one unit":
        codes[:] = 1
    elif order == "none chosen":
        chosen[:] = False
    chosen[5:10] = order == "mixed"
    most = max(np.bincount(codes[chosen], minlength=1))
    monkeypatch.setattr(views, "_BUFFER_BYTES", -(-int(chosen.sum()) * 24 // readings) or 1)
    monkeypatch.setattr(views, "default_block_rows", lambda d: 4)
    passes = []
    rows = ArrayRecords(X, block_rows={1: 5, 3: 1, 7: 2}[readings])
    source = WatchedRecords(rows, lambda: passes.append(1), lambda n: None)
    records = GroupedRecords(source, codes, chosen, most)
    places = sorted(np.flatnonzero(chosen), key=lambda i: (codes[i], i))
    assert np.array_equal(of_rows(records), X[places])
    assert len(passes) == (readings if order == "mixed" else 1)
    starts = [k for k, i in enumerate(places) if k == 0 or codes[i] != codes[places[k - 1]]]
    assert records.unit_starts.tolist() == [*starts, len(places)]
    assert grouped_layer(records, most) is records
    if most:
        with pytest.raises(PrivacyConditionError, match="a unit must have"):
            GroupedRecords(ArrayRecords(X), codes, chosen, most - 1)
        with pytest.raises(PrivacyConditionError, match="unit by unit"):
            grouped_layer(records, most - 1)
    for wrong in (ArrayRecords(X), GroupedRecords(records, codes[places], chosen[places], most)):
        with pytest.raises(PrivacyConditionError, match="unit by unit"):
            grouped_layer(wrong, 99)
    counted = CountedRecords(records, 1000)
    assert (counted.n_records, records.n_counted, counted.n_rows) == (1000, 1000, len(places))
    assert np.array_equal(of_rows(counted), X[places])
    records.n_counted = 0  # as may be released
    assert np.array_equal(of_rows(records), X[places])
    if order == "mixed":
        records.n_counted = len(places)
        monkeypatch.setattr(views, "_BUFFER_BYTES", len(places) * 24 // 2 - 1)  # less than half
        passes.clear()
        of_rows(records)
        assert len(passes) == 3


def test_views_map_every_row_and_say_when_they_read():
    seen = []
    records = WatchedRecords(
        ArrayRecords(X, block_rows=10), lambda: seen.append("start"), seen.append
    )
    centre, reach = np.array([0.5, 0.0, -1.0]), np.array([1.0, math.inf, 0.25])
    views_of = {
        CentredRecords(records, centre, reach): np.clip(X - centre, -reach, reach),
        CentredRecords(records, centre): X - centre,
        ScaledRecords(records, np.array([2.0, 0.0, 1e-100])): X / [2.0, math.inf, 1e-100],
        ClippedRecords(records, Bounds((-1.0, 0.0, 0.5), (1.0, 0.5, 0.5))): np.clip(
            X, [-1.0, 0.0, 0.5], [1.0, 0.5, 0.5]
        ),
        check_transforms({0: "sqrt", 1: "square:0.5"}, 3).view(records): np.column_stack(
            [np.sign(X[:, 0]) * np.sqrt(np.abs(X[:, 0])), X[:, 1:], (X[:, 1] - 0.5) ** 2]
        ),
    }
    for view, expected in views_of.items():
        assert np.array_equal(of_rows(view), expected)
        assert view.n_features == expected.shape[1]
        assert seen == ["start", 10, 10, 3]
        seen.clear()
    named = ArrayRecords(X)
    named.feature_names = ("a", "b", "c")
    for own, names in (({1: "square:0.5"}, ("a", "b", "c", "square(b)")), ({0: "sqrt"}, "abc")):
        assert check_transforms(own, 3).view(named).feature_names == tuple(names)
        assert check_transforms(own, 3).view(records).feature_names is None
    far = ArrayRecords(np.array([[1e308, -1e308]]))
    assert of_rows(ScaledRecords(far, np.full(2, 1e-5))).tolist() == [[1e300, -1e300]]
    centred = CentredRecords(far, np.array([-1e308, 1e308]))
    assert bounded_sums(centred, FeatureGrid(np.ones(2), 1.0, 3), 9).tolist() == [3, -3]
    with pytest.raises(ParameterError, match="bounds"):
        ClippedRecords(records, Bounds((0.0,), (1.0,)))


def test_blocks_on_a_device_are_joined_and_summed(monkeypatch):
    pytest.importorskip("torch")
    for largest, sizes in ((4, [4, 4, 4, 4, 4, 3]), (8, [8, 8, 7]), (9, [8, 8, 7]), (99, [23])):
        monkeypatch.setattr(devices, "device_block_rows", lambda d, largest=largest: largest)
        records = DeviceRecords(ArrayRecords(X, block_rows=4), "cpu")
        assert [len(block) for block in records._blocks()] == sizes
        assert np.concatenate([block.numpy() for block in records._blocks()]).tolist() == X.tolist()
        assert counts.sign_sums(records).tolist() == counts.sign_sums(ArrayRecords(X)).tolist()


def test_only_arrays_of_integers_are_summed():
    records = ArrayRecords(X, block_rows=9)
    for wrong in (lambda block: block.sum(axis=0), lambda block: 3):
        with pytest.raises(ParameterError, match="must return an int64 array"):
            records.map_sum(wrong)
    torch = pytest.importorskip("torch")
    device = DeviceRecords(records, "cpu")
    found = device.map_sum(lambda block: torch.round(64 * block).long().sum(0))
    assert found.tolist() == sums(X).tolist()
    with pytest.raises(ForeignError, match="AssertionError"):
        device.map_sum(lambda block: block.sum(0))


def test_what_was_read_before_is_told_first():
    seen = []
    records = WatchedRecords(
        ArrayRecords(X, block_rows=10), lambda: seen.append("start"), seen.append
    )
    for start, told in ((0, [10, 10, 3]), (12, [12, 8, 3]), (20, [20, 3])):
        seen.clear()
        assert sum(map(len, records._blocks_from(start))) == 23 - start
        assert seen == ["start", *told]
    with pytest.raises(NotImplementedError):
        PartitionedRecords._blocks(None)


def test_grids_are_what_was_checked_and_as_fine_as_sums_allow():
    assert INSIDE == 1.0 - 2.0**-40
    for n, half_width in ((1, 32767), (2**40, 32767 << 15), (2**62, 32767 << 15)):
        assert IntegerGrid.for_records(1.0, n).half_width == half_width
    digits = [IntegerGrid(1.0, h).n_digits for h in (1, 32767, 32768, 32767 << 15, 32767 << 30)]
    assert digits == [1, 1, 2, 2, 3]
    grid = IntegerGrid(3, np.int64(10))
    assert (type(grid.radius), type(grid.half_width)) == (float, int)
    assert (grid.step, grid.multiplier) == (3 / 10, 10 / 3)
    grid = FeatureGrid([2, 0, 1], 4, np.int64(16))
    assert (type(grid.radius), type(grid.half_width), grid.step) == (float, int, 0.25)
    assert not grid.feature_scale.flags.writeable
    assert grid.multipliers.tolist() == [2.0, 0.0, 4.0]


def test_integers_are_shortened_strictly_beyond_their_bound():
    torch = pytest.importorskip("torch")
    squares = np.array([1.0, 99.0, 100.0, 101.0, 400.0])
    expected = [1.0, 1.0, 1.0, 10 / math.sqrt(101.0) * INSIDE, 0.5 * INSIDE]
    for own in (squares, torch.tensor(squares)):
        assert shortening(own, 10.0).tolist() == expected
