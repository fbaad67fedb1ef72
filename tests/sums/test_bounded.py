"""Norm-bounded rows, their sums and Gram matrices: exact, and really bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exact_sums import bounded_sums
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums import gram
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.tables.sources import ArrayRecords, open_records

HOSTILE = [0.0, -0.0, 5e-324, 2.0**-1022, 1.7e308, -1.7e308, 0.004, -0.004, 4.0]
coordinates = st.sampled_from(HOSTILE) | st.floats(-10, 10) | st.floats(-1.7e308, 1.7e308)
tables = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def row_in_python(record, grid, norm_bound):
    """The integers of one record, by Python numbers one at a time."""
    scaled = [float(x) * float(m) for x, m in zip(record, grid.multipliers, strict=True)]
    row = [round(min(max(x, -grid.half_width), grid.half_width)) for x in scaled]
    square = sum(y * y for y in row)
    if norm_bound is None or square <= norm_bound**2:
        return row
    factor = norm_bound / math.sqrt(square) * (1 - 2**-40)
    return [math.trunc(y * factor) for y in row]


def gram_in_python(X, grid, norm_bound):
    rows = [row_in_python(record, grid, norm_bound) for record in X.tolist()]
    d = X.shape[1]
    return [[sum(y[i] * y[j] for y in rows) for j in range(d)] for i in range(d)]


def grid_for(d, radius=4.0, half_width=1000):
    return FeatureGrid(np.linspace(0.5, 2.0, d), radius, half_width)


def sums_of(X, grid, norm_bound, **options):
    return bounded_sums(open_records(X, **options), grid, norm_bound)


def gram_of(X, grid, norm_bound, **options):
    return row_bounded_gram(open_records(X, **options), grid, norm_bound)


@settings(deadline=None)  # the first call compiles
@given(
    X=tables,
    half_width=st.integers(1, 2**20),
    norm_bound=st.integers(1, 2**21),
    radius=st.floats(0.1, 100),
)
def test_sums_and_matrices_equal_python_integers(X, half_width, norm_bound, radius):
    grid = grid_for(X.shape[1], radius, half_width)
    rows = [row_in_python(record, grid, norm_bound) for record in X.tolist()]
    expected = [sum(column) for column in zip(*rows, strict=True)]
    for source in (X, torch.from_numpy(X)):
        found = sums_of(source, grid, norm_bound, block_rows=4)
        assert found.dtype == np.int64
        assert found.tolist() == expected
    for bound in (None, norm_bound):
        assert gram_of(X, grid, bound).tolist() == gram_in_python(X, grid, bound)


def test_sums_beyond_exact_doubles():
    """Each sum is taken in integers: doubles would lose the ones."""
    grid = FeatureGrid(np.ones(1), 1.0, 2**20)
    records = ArrayRecords(np.full((2**13 + 1, 1), 1 - 2.0**-20), block_rows=2**14)
    assert bounded_sums(records, grid, 2**20).tolist() == [(2**13 + 1) * (2**20 - 1)]


@pytest.mark.parametrize("n_rows", range(1, 14))
@pytest.mark.parametrize("exact_rows", [1, 3, 4])
def test_every_row_of_a_block_is_in_the_matrix(n_rows, exact_rows, monkeypatch):
    """Also the last one, however many rows fit into one exact product."""
    grid = grid_for(3, half_width=9)
    monkeypatch.setattr(gram, "LARGEST_EXACT_FLOAT", exact_rows * 9**2)
    X = np.random.default_rng(n_rows).uniform(-8, 8, (n_rows, 3))
    assert gram_of(X, grid, None, block_rows=100).tolist() == gram_in_python(X, grid, None)


def test_blocks_beyond_exact_float_products_are_split():
    """At the widest grid a float64 sum of 2^13 products may be full."""
    half_width = 2**20
    n_rows = 2**53 // half_width**2 + 1
    one = FeatureGrid(np.ones(1), 1.0, half_width)
    found = gram_of(np.ones((n_rows, 1)), one, None, block_rows=2 * n_rows)
    assert found.tolist() == [[n_rows * half_width**2]]
    grid = FeatureGrid(np.ones(2), 1.0, half_width)
    X = np.random.default_rng(4).uniform(0.9, 1.0, (20_000, 2))
    total = sum(round(a * half_width) * round(b * half_width) for a, b in X.tolist())
    assert total > 2**53
    assert gram_of(X, grid, None, block_rows=20_000)[0, 1] == total


def test_constant_features_give_zeros():
    grid = FeatureGrid(np.array([1.0, 0.0]), 4.0, 100)
    found = gram_of(np.array([[1.0, 1e300], [2.0, -3.0]]), grid, 50)
    assert found.tolist() == [[25**2 + 50**2, 0], [0, 0]]
