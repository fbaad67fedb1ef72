"""Counts of norms: exact at every edge, and one count for each record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.sums.counts import norm_histogram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import open_records

coordinates = st.floats(-10, 10) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)
edge_lists = st.lists(st.integers(0, 10**9), max_size=6, unique=True).map(
    lambda edges: tuple(sorted(edges))
)


def grid_for(d, radius=4.0, half_width=1000):
    return FeatureGrid(np.linspace(0.5, 2.0, d), radius, half_width)


def counts_of(X, grid, edges, **options):
    return norm_histogram(open_records(X, **options), grid, edges)


def square_in_python(record, grid):
    scaled = [float(x) * float(m) for x, m in zip(record, grid.multipliers, strict=True)]
    return sum(round(min(max(x, -grid.half_width), grid.half_width)) ** 2 for x in scaled)


@settings(deadline=None, max_examples=60)  # the first call compiles
@given(X=tables, edges=edge_lists, half_width=st.integers(1, 2**20))
def test_equals_python_integers(X, edges, half_width):
    grid = grid_for(X.shape[1], half_width=half_width)
    expected = [0] * (len(edges) + 1)
    for record in X.tolist():
        square = square_in_python(record, grid)
        expected[sum(edge < square for edge in edges)] += 1
    assert counts_of(X, grid, edges).tolist() == expected


def test_an_edge_belongs_to_the_bin_below():
    grid = FeatureGrid(np.ones(2), 10.0, 10)
    X = np.array([[3.0, 4.0], [5.0, 0.0], [5.0, 1.0], [0.0, 0.0], [1e300, -1e300]])
    assert counts_of(X, grid, (0, 25, 199)).tolist() == [1, 2, 1, 1]
    assert counts_of(X, grid, (24, 200)).tolist() == [1, 4, 0]
    assert counts_of(X, grid, ()).tolist() == [5]


def test_exact_up_to_the_largest_squares():
    """Neighbouring integers near 2^53 are told apart."""
    half_width = 2**20
    grid = FeatureGrid(np.ones(8191), 1.0, half_width)
    X = np.ones((2, 8191))
    X[1, 0] = 1 / half_width  # a coordinate of 1
    full = 8191 * half_width**2
    assert full < 2**53
    less = full - half_width**2 + 1
    assert counts_of(X, grid, (less - 1, less, full - 1)).tolist() == [0, 1, 0, 1]
    assert counts_of(X, grid, (full,)).tolist() == [2, 0]


@settings(max_examples=50, deadline=None)
@given(data=st.data(), X=tables, edges=edge_lists)
def test_replacing_a_record_moves_one_count(data, X, edges):
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    grid = grid_for(X.shape[1])
    change = counts_of(neighbour, grid, edges) - counts_of(X, grid, edges)
    assert np.sum(change**2) in (0, 2)
    assert change.sum() == 0


def test_the_sensitivity_is_attained():
    grid = grid_for(3)
    change = counts_of(np.ones((1, 3)), grid, (100,)) - counts_of(np.zeros((1, 3)), grid, (100,))
    assert change.tolist() == [-1, 1]


@pytest.mark.parametrize("edges", [(3, 3), (4, 1), (-1, 5), (2**53,)])
def test_bad_edges_are_refused(edges):
    with pytest.raises(ParameterError, match="squared_edges"):
        counts_of(np.ones((2, 2)), grid_for(2), edges)


def test_what_is_not_exact_is_refused():
    grid = FeatureGrid(np.ones(2**13), 1.0, 2**20)
    with pytest.raises(CapacityError, match="half_width"):
        counts_of(np.ones((1, 2**13)), grid, (1,))
