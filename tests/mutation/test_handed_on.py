"""What is handed on between steps, and faults found by reading their lines a second time."""

from __future__ import annotations

import decimal
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hushcov.exceptions import ParameterError
from hushcov.fit import preparation, quantiles
from hushcov.fit.location import Location
from hushcov.fit.mechanism import Prepared
from hushcov.fit.preparation import Preparation, squares_of
from hushcov.fit.quantiles import Quantiles
from hushcov.kernel import session as kernel
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import entropy
from hushcov.kernel.session import unwrap
from hushcov.kernel.sums import products
from hushcov.kernel.sums.products import N_NORM_BINS, ProductMap
from hushcov.kernel.sums.rows import norm_bins
from hushcov.kernel.sums.signs import PackedSigns
from hushcov.kernel.transforms import Transform, Transforms
from hushcov.ledger import Ledger
from hushcov.tables import files
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords
from sessions import session_of

# Refusals, before anything is charged or read.


D = 4


def records_in(prepared):
    return unwrap(prepared.session)[0]


def test_a_cost_that_is_none_is_refused_before_a_ledger_is_looked_for(tmp_path):
    with pytest.raises(ParameterError, match="cost must be"):
        Ledger(tmp_path / "missing").charge("a", 0.5, label="b")


# What is handed on, in the units that it is said to have.


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scales_that_are_known_bound_how_far_values_count(size):
    """At 64 of them, where a search found values farther away."""
    scale = size * np.array([1.0, 2.0])
    X = np.random.default_rng(1).standard_normal((500, 2)) * scale
    place = Location(np.zeros(2), scale, scale * [500.0, 20.0], np.ones(2, dtype=bool))
    step = Preparation(500, 2, 3.0, known_scale=True)
    found = step.run(Prepared(session_of(X), scale, place=place))
    assert records_in(found)._about.reach == pytest.approx(scale * [64.0, 20.0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scales_that_grow_let_values_count_farther_away(size):
    """To 64 scales that the search found; one column that was not found changes nothing."""
    scale = size * np.array([1.0, 1.0, 0.0, 1.0])
    X = 3 * size * np.random.default_rng(1).standard_normal((3_000, 4))
    place = Location(np.zeros(4), scale, scale * [10.0, 50.0, 0.0, 900.0], scale > 0)
    found = Preparation(3_000, 4, 3.0).run(Prepared(session_of(X), np.ones(4), place=place))
    assert len(found.session.transcript) == 5
    grown = found.feature_scale[[0, 1, 3]] / size
    assert (grown > 2).all()
    assert records_in(found)._about.reach[0] == pytest.approx(10 * size * grown[0])
    assert records_in(found)._about.reach[1:].tolist() == [64 * size, 0.0, 900 * size]


def test_mean_squares_are_in_squared_scales(monkeypatch):
    monkeypatch.setattr(kernel, "rounded_normal", lambda _, s, k: np.zeros(k, dtype=np.int64))
    X = np.random.default_rng(1).choice([-1.0, 1.0], (400, 3)) * [1.0, 1.5, 0.5]
    session = session_of(X)
    query = preparation.squares_of(session, np.ones(3), 1.0)
    squares, _ = preparation.release_squares(session, query, 1.0)
    assert squares == pytest.approx([1.0, 2.25, 0.25], rel=0.01, abs=0.01)


def test_the_number_beside_squares_says_how_many_records_are_not_zero():
    rows = np.zeros((9, 3))
    products = preparation.squares_of(session_of(rows), np.ones(3), 1.0).products
    rows[:5, 0] = np.array([1, -1, 2, 50, 1000]) * products.grid.step
    assert products.sum(ArrayRecords(rows))[-1] == 5


def given_rows(X):
    return Prepared(session_of(X), np.ones(4), share=0.5, making={"complete": "known"})


def test_quantiles_are_read_for_complete_records_and_columns_that_vary(monkeypatch):
    """A column of scale 0 becomes constant; one of a small scale is read as any other."""
    scale = np.array([0.01, 0.0, 3.0, 0.2])
    X = np.random.default_rng(1).standard_normal((2_000, 4)) * scale
    place = Location(np.zeros(4), scale, 9 * scale, scale > 0)
    monkeypatch.setattr(quantiles, "find_location", lambda *_, **__: place)
    read, numbers = quantiles.read_shares, []
    monkeypatch.setattr(
        quantiles, "read_shares", lambda c, s, n, *rest: numbers.append(n) or read(c, s, n, *rest)
    )
    rank = Transform("rank")
    transforms = Transforms((rank, rank, None, None))
    for marginals in (None, 0.2):
        step = Quantiles(2_000, 4, 3.0, transforms, marginals=marginals)
        found = step.run(given_rows(X))
        assert found.place.found.tolist() == [True, False, True, True]
        assert found.place.scale == pytest.approx([1.0, 0.0, 3.0, 0.2], rel=0.2, abs=0.0)
        made = found.making["transforms"]
        assert [own and len(own.edges) > 5 for own in made] == [True, False, None, None]
        assert made[1].shares == (1.0,)
        assert found.making["complete"] == "known"
        written = found.making.get("marginals", (None,) * 4)
        assert [own is not None for own in written] == [bool(marginals) and s > 0 for s in scale]
    assert set(numbers) == {1_000.0}
    none = Quantiles(2_000, 4, 3.0, Transforms((None,) * 4), marginals=0.2)
    assert "transforms" not in none.run(given_rows(X)).making


# Faults that were thought to change nothing, until somebody read their lines a second time.


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


def test_decimals_are_the_doubles_that_arrow_makes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    random = np.random.default_rng(0).integers(1, 10**9, 500).tolist()
    column = pa.array([decimal.Decimal(each).scaleb(-5) for each in random], pa.decimal128(18, 5))
    path = write_parquet(tmp_path / "a.parquet", a=column)
    (block,) = FileRecords(path)._blocks()
    assert block[:, 0].tolist() == column.cast(pa.float64()).to_pylist()
    assert math.isclose(block[0, 0], random[0] / 1e5)
