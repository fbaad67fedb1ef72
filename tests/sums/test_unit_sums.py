"""Units whose rows are bounded as one: against Python's dictionaries and integers."""

import math
from collections import Counter

import numpy as np
import pytest

from hushcov.exceptions import DataError, ParameterError, PrivacyConditionError
from hushcov.kernel.grids import INSIDE, FeatureGrid
from hushcov.kernel.records import base as grouped_module
from hushcov.kernel.records.base import CentredRecords, CompleteRecords, CountedRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.records.units import fingerprints
from hushcov.kernel.sums.bounded import unit_means
from hushcov.kernel.sums.gram import unit_bounded_gram, unit_norm_histogram
from hushcov.kernel.sums.products import ProductMap
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of as units_by
from statistics_helpers import short_and_long


def product_map(rng, d, most, **changes):
    pairs = [(i, j) for i in range(d) for j in range(i + 1, d) if rng.random() < 0.6]
    rows, columns = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    means = rng.integers(-300, 300, len(pairs) + d) if rng.random() < 0.5 else None
    numbers = {
        "grid": FeatureGrid(np.ones(d), 8.0, int(rng.integers(2, 60))),
        "rows": rows,
        "columns": columns,
        "pair_weight": 4,
        "diagonal_weight": 3,
        "centre": int(rng.integers(0, 50)),
        "norm_bound": int(2 ** rng.uniform(0, 16)),
        "factor_range": 1 + int(2 ** rng.uniform(0, 14)),
        "size_range": 1 + int(2 ** rng.uniform(0, 14)),
        "size_cap": int(rng.integers(1, 5000)),
        "rows_per_unit": most,
        "means": means,
    }
    return ProductMap(**numbers | changes)


def units_of(X, identifiers, most):
    """Rows of each unit, by a dictionary; those with the smallest fingerprints."""
    units = {}
    prints = fingerprints(ArrayRecords(X)).tolist()
    for row, identifier, mark in zip(X, identifiers, prints, strict=True):
        units.setdefault(identifier, []).append((mark, row))
    return [
        [row for _, row in sorted(rows, key=lambda each: each[0])[:most]] for rows in units.values()
    ]


def contribution(rows, m):
    """What one unit adds, in Python's integers, and the squared norm of its products."""
    pairs = list(zip(m.rows.tolist(), m.columns.tolist(), strict=True))
    means = [0] * m.n_products if m.means is None else m.means.tolist()
    v, size = [-len(rows) * mean for mean in means], 0
    for row in rows:
        y = [int(each) for each in np.rint(np.clip(row * m.grid.multipliers, *_ends(m)))]
        products = [m.pair_weight * y[i] * y[j] for i, j in pairs]
        products += [m.diagonal_weight * (own * own - m.centre) for own in y]
        v = [old + new for old, new in zip(v, products, strict=True)]
        size += sum(own * own for own in y)
    square = sum(each * each for each in v)
    whole = m.factor_range * len(rows) // m.rows_per_unit
    if square <= m.norm_bound**2 * INSIDE:
        u, factor = v, whole
    else:
        f = m.norm_bound / math.sqrt(square) * INSIDE
        u, factor = [int(each * f) for each in v], int(f * whole)
    cap = m.size_cap * m.rows_per_unit
    return [*u, factor, int(min(size, cap) / cap * m.size_range)], square


def _ends(m):
    return -m.grid.half_width, m.grid.half_width


def table(rng):
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) * 2 ** rng.uniform(-2, 3)
    return X, rng.integers(0, rng.integers(1, n + 1), n)


def test_sums_of_1000_tables_are_those_of_a_dictionary():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        X, identifiers = table(rng)
        most = int(rng.integers(2, 8))
        m = product_map(rng, X.shape[1], most)
        found = [contribution(rows, m) for rows in units_of(X, identifiers, most)]
        expected = np.sum([u for u, _ in found], axis=0)
        records = units_by(identifiers, len(X)).bounded(
            ArrayRecords(X, block_rows=int(rng.integers(1, 9))), most
        )
        assert m.sum(records).tolist() == expected.tolist()
        mantissa, exponent = np.frexp([float(square) for _, square in found])
        counts = m.norm_histogram(records)
        bins = 2 * exponent + (mantissa >= math.sqrt(0.5))
        assert counts.tolist() == np.bincount(bins, minlength=len(counts)).tolist()


def test_neither_order_nor_blocks_nor_views_matter(monkeypatch):
    rng = np.random.default_rng(4)
    X = np.round(rng.standard_normal((3000, 6)) * 64) / 64
    identifiers = rng.integers(0, 300, 3000)
    m = product_map(rng, 6, 7, norm_bound=9000)
    expected = m.sum(units_by(identifiers, 3000).bounded(ArrayRecords(X), 7)).tolist()
    counts = m.norm_histogram(units_by(identifiers, 3000).bounded(ArrayRecords(X), 7)).tolist()
    for seed, rows, room in [(0, 1, 2**29), (1, 17, 8 * 6 * 100), (2, 5000, 8 * 6 * 999)]:
        order = np.random.default_rng(seed).permutation(3000)
        monkeypatch.setattr(grouped_module, "_BUFFER_BYTES", room)
        source = ArrayRecords(X[order], block_rows=rows)
        grouped = units_by(identifiers[order].astype(str), 3000).bounded(source, 7)
        compact = CompactRecords(grouped, np.zeros(6), np.full(6, 1e3), np.ones(6))
        centred = CentredRecords(CountedRecords(compact, 123), np.zeros(6))
        for records in (grouped, CompleteRecords(grouped), compact, centred, centred):
            assert m.sum(records).tolist() == expected
            assert m.norm_histogram(records).tolist() == counts


def test_means_are_those_of_a_dictionary():
    rng = np.random.default_rng(11)
    for _ in range(200):
        X, identifiers = table(rng)
        most, bound, top = (int(each) for each in 2 ** rng.uniform(1, [3, 14, 12]))
        grid = FeatureGrid(np.ones(X.shape[1]), 8.0, int(rng.integers(2, 600)))
        expected = np.zeros(X.shape[1] + 1, dtype=np.int64)
        for rows in units_of(X, identifiers, most):
            width = grid.half_width
            v = np.rint(np.clip(np.array(rows) * grid.multipliers, -width, width)).sum(axis=0)
            square = int((v * v).sum())
            short = square <= bound**2 * INSIDE
            f = 1.0 if short else bound / math.sqrt(square) * INSIDE
            u = [int(each * f) for each in v]
            assert sum(each * each for each in u) <= bound**2
            expected += [*u, int(f * (top * len(rows) // most))]
        source = ArrayRecords(X, block_rows=int(rng.integers(1, 9)))
        records = units_by(identifiers, len(X)).bounded(source, most)
        assert unit_means(records, grid, bound, top, most).tolist() == expected.tolist()


def test_on_a_device_units_are_the_same():
    pytest.importorskip("torch")
    from hushcov.engines.records import DeviceRecords

    rng = np.random.default_rng(6)
    X, identifiers = rng.standard_normal((400, 4)), rng.integers(0, 60, 400)
    m = product_map(rng, 4, 5)
    units = units_by(identifiers, 400)
    expected = m.sum(units.bounded(ArrayRecords(X), 5)).tolist()
    records = units.bounded(DeviceRecords(ArrayRecords(X), "cpu"), 5)
    assert records.on_device
    compact = CompactRecords(records, np.zeros(4), np.full(4, 1e3), np.full(4, 2.0**-20))
    assert m.sum(records).tolist() == expected
    assert m.sum(CentredRecords(records, np.zeros(4))).tolist() == expected
    assert compact.on_device


def test_rows_that_do_not_come_unit_by_unit_are_refused():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((20, 3))
    m = product_map(rng, 3, 4)
    with pytest.raises(PrivacyConditionError, match="unit by unit"):
        m.sum(ArrayRecords(X))
    more = units_by(np.zeros(20), 20).bounded(ArrayRecords(X), 5)
    for read in (m.sum, m.norm_histogram):
        with pytest.raises(PrivacyConditionError, match="at most 4"):
            read(more)
    with pytest.raises(PrivacyConditionError, match="max_rows_per_unit = 4"):
        grouped_module.GroupedRecords(ArrayRecords(X), np.zeros(20), np.ones(20, dtype=bool), 4)


@pytest.mark.parametrize("place", [0, 5, 19])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(place, value):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((20, 3))
    X[place, 1] = value
    m = product_map(rng, 3, 4)
    for rows in (1, 3, 20):
        source = ArrayRecords(X, block_rows=rows)
        with pytest.raises(DataError, match="finite"):
            m.sum(units_by(np.arange(20) // 4, 20).bounded(source, 4))


# Matrices of units, whose rows are scaled down together.


def square_of(Y):
    """The squared Frobenius norm of Y'Y, in Python's integers."""
    gram = Y.T.astype(object) @ Y.astype(object)
    return int((gram * gram).sum())


def literal(X, identifiers, grid, bound):
    """The matrix of what is left of units, by a dictionary, and counts of their norms."""
    units = {}
    for row, identifier in zip(X, identifiers, strict=True):
        units.setdefault(identifier, []).append(row)
    width = grid.half_width
    total, counts = np.zeros((X.shape[1],) * 2, dtype=object), Counter()
    for rows in units.values():
        Y = np.rint(np.clip(np.array(rows) * grid.multipliers, -width, width))
        whole, square = Y, square_of(Y)
        mantissa, exponent = math.frexp(square)
        counts[2 * exponent + (mantissa >= math.sqrt(0.5))] += 1
        factor = math.sqrt(bound / math.sqrt(square)) if square else 1.0
        while square_of(Y) > bound**2 * (1 - 2.0**-30):
            Y, factor = np.trunc(whole * factor), factor * 0.99
        assert square_of(Y) <= bound**2
        total += Y.T.astype(object) @ Y.astype(object)
    return total, counts


@short_and_long("tables", 40, 300)
def test_matrices_are_those_of_a_dictionary(tables):
    rng = np.random.default_rng(1)
    for _ in range(tables):
        X, identifiers = table(rng)
        grid = FeatureGrid(np.ones(X.shape[1]), 6.0, int(rng.integers(1, 2000)))
        bound = int(2 ** rng.uniform(0, 24))
        most = int(np.bincount(identifiers).max()) + 1
        source = ArrayRecords(X, block_rows=int(rng.integers(1, 9)))
        records = units_by(identifiers, len(X)).bounded(source, most)
        expected, bins = literal(X, identifiers, grid, bound)
        for each in (records, CentredRecords(records, np.zeros(X.shape[1]))):
            found = unit_bounded_gram(each, grid, bound, most)
            assert found.tolist() == expected.tolist()
        counts = unit_norm_histogram(records, grid, most)
        assert {place: counts[place] for place in np.flatnonzero(counts)} == bins


def test_what_is_not_in_order_or_not_finite_is_refused():
    X = np.ones((6, 2))
    grid = FeatureGrid(np.ones(2), 6.0, 100)
    with pytest.raises(PrivacyConditionError, match="unit by unit"):
        unit_bounded_gram(ArrayRecords(X), grid, 100, 3)
    records = units_by([0, 0, 0, 1, 1, 1], 6).bounded(ArrayRecords(X), 3)
    with pytest.raises(ParameterError, match="bound"):
        unit_bounded_gram(records, grid, 0, 3)
    X[4, 1] = np.nan
    with pytest.raises(DataError, match="finite"):
        unit_bounded_gram(units_by([0, 0, 0, 1, 1, 1], 6).bounded(ArrayRecords(X), 3), grid, 9, 3)
