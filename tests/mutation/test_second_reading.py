"""Faults that were thought to change nothing, until somebody read their lines a second time."""

import decimal
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fit.test_location import find
from hushcov.engines.records import DeviceRecords
from hushcov.fit import location
from hushcov.fit.preparation import squares_of
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import entropy
from hushcov.kernel.records.units import RepeatedRecords
from hushcov.kernel.sums import gram, products
from hushcov.kernel.sums.counts import signed_octaves
from hushcov.kernel.sums.products import N_NORM_BINS, ProductMap
from hushcov.kernel.sums.rows import norm_bins
from hushcov.kernel.sums.signs import PackedSigns, sign_scores
from hushcov.tables import files
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords
from sessions import session_of

PAIR = np.array([0]), np.array([1])


def product_map(half_width, rows_per_unit=1, pairs=PAIR, d=2):
    grid = FeatureGrid(np.ones(d), half_width, half_width)
    return ProductMap(grid, *pairs, 1, 1, 0, 2**30, 1, 1, 1, rows_per_unit=rows_per_unit)


# Sums


@pytest.mark.parametrize("n", [127, 128, 129, 256, 384, 4096, 4224])
def test_the_last_records_are_added_up(n):
    X = np.random.default_rng(n).integers(-9, 10, (n, 2))
    records, wanted = ArrayRecords(X.astype(np.float64), block_rows=8192), product_map(9)
    found = records.map_sum(wanted.sums_of(records))
    assert found[:3].tolist() == [(X[:, 0] * X[:, 1]).sum(), *(X**2).sum(axis=0)]


def test_squares_are_weighed_once():
    X = np.random.default_rng(0).standard_normal((50, 3)) / 9
    squares = squares_of(session_of(X), np.ones(3), 0.5).products
    y = np.rint(X / squares.grid.step)
    assert (squares.diagonal_weight, squares.size_range) == (1, 1)
    found = replace(squares, norm_bound=2**40).sum(ArrayRecords(X))[:3]
    assert found.tolist() == (y**2 - squares.centre).sum(axis=0).tolist()


@pytest.mark.parametrize("d", [33, 40, 65])
@pytest.mark.parametrize("start", [0, 1, 2, 5])
def test_signs_without_zeros_are_multiplied_from_any_feature_on(d, start):
    S = np.where(np.random.default_rng(d).random((512, d)) < 0.5, -1.0, 1.0)
    found = PackedSigns(ArrayRecords(S)).gram(start)
    assert np.array_equal(np.triu(found), np.triu((S.T @ S)[start:, start:]))


def score(found, sums, start, stop):
    return abs(found)


@pytest.mark.parametrize("panels", [1, 2, 3, 8])
def test_scores_of_all_panels_of_a_device_are_joined(panels, monkeypatch):
    d, X = 9, np.random.default_rng(0).standard_normal((60, 9))
    expected = sign_scores(ArrayRecords(X), score, 60)
    monkeypatch.setattr(gram, "PANEL_BYTES", 8 * d * -(-d // panels))
    assert np.array_equal(sign_scores(DeviceRecords(ArrayRecords(X), "cpu"), score, 60), expected)
    nothing = RepeatedRecords(ArrayRecords(X), np.zeros(60, dtype=np.int64))
    found = sign_scores(DeviceRecords(nothing, "cpu"), score, 60)
    assert found.tolist() == [0] * (d * (d - 1) // 2)


def test_pairs_in_descending_order_have_the_same_norms():
    d, X = 14, np.random.default_rng(0).integers(-9, 10, (40, 14)).astype(np.float64)
    up = np.zeros(12, dtype=np.int64), np.arange(1, 13)
    maps = (product_map(9, pairs=p, d=d) for p in (up, (up[0], up[1][::-1].copy())))
    first, second = (each.norm_histogram(ArrayRecords(X)).tolist() for each in maps)
    assert first == second


@pytest.mark.parametrize("before", range(4))
def test_columns_that_jump_once_are_no_run(before):
    """Nor are they one after as many other pairs as they jump."""
    lanes = np.random.default_rng(0).integers(-9, 10, (40, 16)).astype(np.int16)
    others = [(0, 1 + k) for k in range(before)]
    for jump in range(1, 12):
        pairs = [*others, (1, 2), *((1, 2 + jump + k) for k in range(12))]
        left, right = (np.array([each[side] for each in pairs]) for side in (0, 1))
        squares, y = np.zeros(16), lanes.astype(np.int64)
        products._fill_squares(lanes, left, right, squares)
        assert squares.tolist() == ((y[left] * y[right]) ** 2).sum(axis=0).tolist()


def test_bins_of_norms_are_as_many_and_as_wide_as_they_are_read():
    for most in (2, 3, 4, 9):
        units = SimpleNamespace(n_records=1, n_rows=1, n_features=2, in_arrays=False)
        found = []
        units.map_sum = lambda sums, found=found: found.append(sums.shape)
        units.map_sum_complete = units.map_sum
        product_map(9, most).norm_histogram(units)
        assert found == [(N_NORM_BINS + 4 * (most.bit_length() + 1),)]
    wide = product_map(6000)
    assert wide.norm_of_bin(0, 1e-9) == 1
    assert wide.norm_of_bin(N_NORM_BINS - 1, 9.0) == math.isqrt(wide.largest_square_norm)
    for index in range(30, 80):
        square = np.array([float(wide.norm_of_bin(index, 1.0)) ** 2])
        assert norm_bins(square, N_NORM_BINS).tolist() == [index]


def test_room_for_random_words_is_looked_at():
    out, key = np.zeros(4 * entropy.GROUP, dtype=np.uint32), np.zeros(8, dtype=np.uint32)
    entropy.fill_groups(0, 2, 0, key, out)
    with pytest.raises(AssertionError):
        entropy.fill_groups(0, 2, 0, key, out[: 4 * entropy.GROUP - 1])


def test_the_counter_of_a_long_stream_goes_on_in_its_upper_half():
    key, size = np.arange(8, dtype=np.uint32), 2 * entropy.GROUP
    found, expected = np.zeros(size, dtype=np.uint32), np.zeros(size, dtype=np.uint32)
    first = 2**32 // entropy._LANES
    entropy.fill_groups(first, first + 1, 5, key, found)
    entropy.fill_groups(0, 1, 6, key, expected)
    assert found.tolist() == expected.tolist()


# Looks and files


@pytest.mark.parametrize(("n", "mu", "low"), [(100_000, 1.0, 16.0), (300, 1.0, 6.0)])
def test_a_reach_is_wide_where_records_stand_out_of_the_noise(n, mu, low, monkeypatch):
    seen, look = [], location.Look

    def spied(*given):
        seen.append(look(*given))
        return seen[-1]

    monkeypatch.setattr(location, "Look", spied)
    find(np.random.default_rng(0).standard_normal((n, 2)), mu=mu)
    assert {each.low_reach for each in seen} == {low}
    assert (n > 60 * seen[0].sigma) == (low == 16.0)


@pytest.mark.parametrize("n_columns", [1, 2, 600])
def test_files_of_one_and_of_many_columns_are_read_ahead(n_columns, tmp_path, monkeypatch):
    X = np.random.default_rng(0).integers(0, 9, (40, n_columns))
    names = ",".join(f"x{i}" for i in range(n_columns))
    path = tmp_path / "a.csv"
    np.savetxt(path, X, fmt="%d", delimiter=",", header=names, comments="")
    monkeypatch.setattr(files, "threads", lambda: 2)
    records = FileRecords(path, block_rows=7)
    assert np.concatenate(list(records._blocks())).tolist() == X.tolist()
    for room in (1, *(8 * 7 * count // n_columns for count in (1, 2, 3, 4)), 8 * 7 * n_columns):
        monkeypatch.setattr(files, "_AHEAD_BYTES", room)
        assert np.concatenate(list(records._blocks())).tolist() == X.tolist()
    assert not any(block.flags.writeable for block in records._blocks())


def write_parquet(path, **columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_a_parquet_file_without_rows_has_none(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", a=np.empty(0), b=np.empty(0))
    records = FileRecords(path)
    assert records._parts() is None
    assert [len(block) for block in records._blocks() if len(block)] == []


def test_columns_are_counted_whatever_there_is_room_for(tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((3000, 2))
    path = write_parquet(tmp_path / "a.parquet", a=X[:, 0], b=X[:, 1])
    given = np.zeros(2), np.zeros(2), np.arange(2)
    expected = signed_octaves(ArrayRecords(X), *given)
    whole = FileRecords._parts
    for parts in (whole, lambda self: None):
        monkeypatch.setattr(FileRecords, "_parts", parts)
        records = FileRecords(path, block_rows=500)
        assert np.array_equal(signed_octaves(records, *given), expected)


def test_decimals_are_the_doubles_that_arrow_makes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    random = np.random.default_rng(0).integers(1, 10**9, 500).tolist()
    column = pa.array([decimal.Decimal(each).scaleb(-5) for each in random], pa.decimal128(18, 5))
    path = write_parquet(tmp_path / "a.parquet", a=column)
    (block,) = FileRecords(path)._blocks()
    assert block[:, 0].tolist() == column.cast(pa.float64()).to_pylist()
    assert math.isclose(block[0, 0], random[0] / 1e5)
