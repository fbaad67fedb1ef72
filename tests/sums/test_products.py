"""Norm-bounded products: exact in Python's integers, and inside their bounds for every record."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.fit.screened.mechanism import finest_half_width
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums import products
from hushcov.kernel.sums.products import ProductMap
from hushcov.tables.sources import ArrayRecords

ADVERSARIAL = [0.0, -0.0, 5e-324, 8.0, -8.0, 1.0, -1.0, 1e308, -1e308, 7.99]
coordinates = st.sampled_from(ADVERSARIAL) | st.floats(-9, 9) | st.floats(-1e308, 1e308)


def product_map(d=3, pairs=((0, 1), (1, 2)), **changes):
    half_width = changes.pop("half_width", 64)
    scale = changes.pop("scale", np.ones(d))
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    numbers = {
        "pair_weight": 4,
        "diagonal_weight": 3,
        "centre": (half_width // 8) ** 2,
        "norm_bound": 1000,
        "factor_range": 250,
        "size_range": 200,
        "size_cap": 4 * d * (half_width // 8) ** 2,
    }
    return ProductMap(
        grid=FeatureGrid(scale, 8.0, half_width), rows=rows, columns=columns, **(numbers | changes)
    )


def integers(x, m):
    h = m.grid.half_width
    return [
        round(min(max(a * b, -h), h)) for a, b in zip(x, m.grid.multipliers.tolist(), strict=True)
    ]


def weighted(y, m):
    z = [m.pair_weight * y[i] * y[j] for i, j in zip(m.rows, m.columns, strict=True)]
    return [int(entry) for entry in z + [m.diagonal_weight * (a * a - m.centre) for a in y]]


def literal(x, m):
    """What one record contributes, with integers for all but the factor itself."""
    y = integers(x, m)
    z = weighted(y, m)
    square = sum(entry**2 for entry in z)
    size = min(sum(a * a for a in y), m.size_cap) * m.size_range // m.size_cap
    if square <= m.norm_bound**2:
        return [*z, m.factor_range, size]
    factor = m.norm_bound / math.sqrt(square) * (1 - 2.0**-40)
    return [*(math.trunc(e * factor) for e in z), math.trunc(factor * m.factor_range), size]


def contribution(x, m):
    return [int(number) for number in m.sum(ArrayRecords(np.array([x], dtype=np.float64)))]


maps = st.builds(
    product_map,
    pairs=st.lists(st.sampled_from([(0, 1), (0, 2), (1, 2)]), max_size=3, unique=True),
    half_width=st.sampled_from([1, 7, 64, 500, 2047]),
    norm_bound=st.sampled_from([1, 2, 50, 1000, 12_345, 10**6, 2**30]),
    factor_range=st.sampled_from([1, 3, 250, 10**6]),
    size_range=st.sampled_from([1, 3, 250, 10**6]),
    size_cap=st.sampled_from([1, 7, 10**5, 10**9]),
    scale=st.sampled_from([np.ones(3), np.array([0.0, 1e-100, 1e100]), np.array([2.0, 1.0, 0.0])]),
)


# Exactness


@settings(deadline=None)
@given(m=maps, X=hnp.arrays(np.float64, (5, 3), elements=coordinates))
def test_sums_equal_python_integers(m, X):
    each = [literal(x, m) for x in X.tolist()]
    assert m.sum(ArrayRecords(X)).tolist() == [sum(numbers) for numbers in zip(*each, strict=True)]


def neighbours(d, seed):
    """Pairs of which long rows are windows, some with a gap, and some alone."""
    near = np.subtract.outer(np.arange(d), np.arange(d))
    there = (near < 0) & (near >= -np.random.default_rng(seed).integers(0, 16, (d, 1)))
    there[:: 1 + seed, d // 2] = False
    return np.argwhere(there)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("n_partners", [1, 2, 7, 8, 9, 17, 25])
def test_squares_of_partners_at_their_largest_are_summed_exactly(n_partners, step):
    """In four bytes, of neighbours and of others; the last one has many partners, too."""
    d, largest = 60, products._LARGEST_LANE - 1
    lanes = np.full((d, 24), largest, dtype=np.int16)
    lanes[:, ::2] *= -1
    lanes[:2] = 3
    columns = np.concatenate([2 + step * np.arange(n_partners)] * 2)
    found = np.empty(24)
    products._fill_squares(lanes, np.repeat([0, 1], n_partners), columns, found)
    assert found.tolist() == [2 * n_partners * (3 * largest) ** 2] * 24


@pytest.mark.parametrize("norm_bound", [10**6, 10**9])
def test_many_records_at_the_clip_are_summed_exactly(norm_bound):
    """More of them than are added up in doubles at a time, each as large as can be."""
    m = product_map(2, [(0, 1)], half_width=2047, norm_bound=norm_bound)
    x = [1e308, -1e308]
    expected = [20_001 * number for number in literal(x, m)]
    assert m.sum(ArrayRecords(np.tile(x, (20_001, 1)))).tolist() == expected
    assert m.sum(ArrayRecords(np.tile(x, (20_001, 1)), block_rows=10_000)).tolist() == expected


# Bounds, in integers: nothing here depends on a tolerance.


def check_inside(numbers, m):
    *values, factor, size = numbers
    assert sum(value**2 for value in values) <= m.norm_bound**2
    assert 0 <= factor <= m.factor_range
    assert 0 <= size <= m.size_range


@settings(deadline=None, max_examples=150)
@given(y=hnp.arrays(np.int64, 3, elements=st.integers(-64, 64)))
def test_a_norm_just_above_a_bound_ends_below_it(y):
    """Bounds around the norm itself: at it nothing is shrunk, one less and everything is."""
    z = weighted(y.tolist(), product_map())
    root = math.isqrt(sum(entry**2 for entry in z))
    for norm_bound in range(max(1, root - 1), root + 3):
        m = product_map(norm_bound=norm_bound)
        numbers = contribution(y / 8.0, m)
        check_inside(numbers, m)
        if norm_bound**2 >= sum(entry**2 for entry in z):
            assert numbers[:-2] == z
            assert numbers[-2] == m.factor_range


# The histogram of norms


@pytest.mark.parametrize(("x", "centre"), [(1e308, 156), (0.0, 10_000), (8.0, 5_000)])
def test_the_largest_norm_is_attained(x, centre):
    pairs = [(0, 1)] if x else []
    m = product_map(2, pairs, half_width=100, centre=centre, norm_bound=2**40)
    values = contribution([x, x], m)[:-2]
    assert sum(value**2 for value in values) == m.largest_square_norm


# Capacity


@settings(deadline=None)
@given(n_pairs=st.integers(0, 10**12), d=st.integers(1, 10**6), weight=st.integers(1, 10))
def test_the_finest_half_width_is_exact_and_the_next_is_not(n_pairs, d, weight):
    h = finest_half_width(n_pairs, d, weight, at_most=2**20)
    assert weight**2 * h**4 * (n_pairs + d) < 2**53
    assert weight**2 * (h + 1) ** 4 * (n_pairs + d + 1) > 2**53 or h == 2**20
    assert finest_half_width(n_pairs, d, weight, at_most=1) == 1
