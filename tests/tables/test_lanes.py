"""Records side by side: the sums are those of records one by one, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import DataError
from hushcov.sums import rows
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import N_NORM_BINS, ProductMap
from hushcov.tables.compact import CompactRecords
from hushcov.tables.sources import ArrayRecords


def product_map(d, n_pairs, *, half_width=500, norm_bound=None):
    random = np.random.default_rng(d + n_pairs)
    first, second = np.triu_indices(d, 1)
    chosen = random.choice(len(first), n_pairs, replace=False) if n_pairs else []
    centre = int((half_width / 8) ** 2)
    middling = int(5 * centre * np.sqrt(16 * n_pairs + 18 * d) / 4)  # above some norms
    return ProductMap(
        grid=FeatureGrid(np.ones(d), 8.0, half_width),
        rows=first[chosen].astype(np.int64),
        columns=second[chosen].astype(np.int64),
        pair_weight=5,
        diagonal_weight=3,
        centre=centre,
        norm_bound=middling if norm_bound is None else norm_bound,
        factor_range=1000,
        size_range=777,
        size_cap=2 * d * centre,
    )


def one_by_one(X, m):
    """z and the factor of each record, with NumPy, and what is released of its size."""
    h = m.grid.half_width
    y = np.rint(np.clip(X * m.grid.multipliers, -h, h))
    pairs = m.pair_weight * y[:, m.rows] * y[:, m.columns]
    z = np.hstack([pairs, m.diagonal_weight * (y * y - m.centre)])
    square = (z * z).sum(axis=1)
    factor = m.norm_bound / np.sqrt(np.maximum(square, 1)) * (1 - 2.0**-40)
    factor[square <= m.norm_bound**2] = 1.0
    size = np.minimum((y * y).sum(axis=1).astype(np.int64), m.size_cap)
    return z, factor, size * m.size_range // m.size_cap


def literal_sum(X, m):
    z, factor, size = one_by_one(X, m)
    values = np.trunc(z * factor[:, None]).astype(np.int64).sum(axis=0)
    return [*values, np.trunc(factor * m.factor_range).astype(np.int64).sum(), size.sum()]


def literal_counts(X, m):
    z, _, _ = one_by_one(X, m)
    mantissa, exponent = np.frexp((z * z).sum(axis=1))
    return np.bincount(2 * exponent + (mantissa >= np.sqrt(0.5)), minlength=N_NORM_BINS)


def table(n, d):
    X = np.random.default_rng(n + d).standard_normal((n, d)) * 1.3
    X[::3, 0] = 0.0
    X[::7] *= 5.0  # long
    X[::11] = 0.0
    X[5:6] = 1e300
    return X


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 203])
@pytest.mark.parametrize(
    ("d", "n_pairs"), [(1, 0), (2, 0), (2, 1), (9, 8), (17, 33), (515, 1), (1030, 600)]
)
def test_sums_and_counts_are_those_of_records_one_by_one(n, d, n_pairs):
    X, m = table(n, d), product_map(d, n_pairs, half_width=100)
    assert m.sum(ArrayRecords(X)).tolist() == literal_sum(X, m)
    assert m.norm_histogram(ArrayRecords(X)).tolist() == literal_counts(X, m).tolist()


@pytest.mark.parametrize("most", [16, 24, 64])
@pytest.mark.parametrize("block_rows", [1, 50, None])
def test_neither_lanes_nor_blocks_change_a_bit(most, block_rows, monkeypatch):
    X, m = table(203, 9), product_map(9, 7)
    values = most * 9
    assert len(rows.empty_lanes(rows._LANE_VALUES // most)[0]) == most
    monkeypatch.setattr(rows, "_SMALLEST_PART", values)  # parts of other lengths
    records = ArrayRecords(X, block_rows=block_rows)
    assert m.sum(records).tolist() == literal_sum(X, m)
    assert m.norm_histogram(records).tolist() == literal_counts(X, m).tolist()


def test_many_features_are_taken_in_fewer_records():
    d = rows._LANE_VALUES // 20
    assert rows.empty_lanes(d).shape == (d, 16)
    X, m = table(35, d), product_map(d, 0, half_width=50)
    assert m.sum(ArrayRecords(X)).tolist() == literal_sum(X, m)


def test_long_records_are_scaled_by_exact_norms():
    """Norms in single precision would round some products to another integer."""
    X, m = np.random.default_rng(3).standard_normal((20_000, 25)), product_map(25, 300)
    assert m.sum(ArrayRecords(X)).tolist() == literal_sum(X, m)
    z, factor, _ = one_by_one(X, m)
    assert 0.1 < np.mean(factor < 1) < 0.9
    square = (z.astype(np.float32) ** 2).astype(np.float64).sum(axis=1)
    near = np.where(factor < 1, m.norm_bound / np.sqrt(square) * (1 - 2.0**-40), 1.0)
    other = np.trunc(z * near[:, None]).sum(axis=0)
    assert np.any(other != literal_sum(X, m)[:-2])


@pytest.mark.parametrize("d", [1, 9, 600])
def test_compact_records_that_miss_a_value_are_zeros(d):
    X, m = table(150, d), product_map(d, min(4, d - 1), half_width=100)
    X[5], X[9, d - 1], X[70] = 1.0, np.nan, np.nan
    records = CompactRecords(ArrayRecords(X).with_gaps(), np.zeros(d), np.full(d, 9.0), np.ones(d))
    complete = np.rint(np.clip(X, -9, 9) * 512) / 512
    complete[np.isnan(X).any(axis=1)] = 0.0
    total = m.sums_of(records)
    assert rows.MISSING < -9 * 512
    integers = np.where(np.isnan(X).any(axis=1)[:, None], rows.MISSING, complete * 512)
    about = rows.About(np.zeros(d), np.full(d, 9.0), np.full(d, 1 / 512))
    sums = total.centred(about)(integers.astype(np.int16))
    assert sums.tolist() == literal_sum(complete, m)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [(0, 0), (69, 599), (64, 300)])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(bad, at):
    X, m = table(70, 600), product_map(600, 3, half_width=100)
    X[at] = bad
    for read in (m.sum, m.norm_histogram):
        with pytest.raises(DataError, match="finite"):
            read(ArrayRecords(X))
