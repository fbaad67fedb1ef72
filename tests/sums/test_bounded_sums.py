"""Sums of norm-bounded records: exact, the same for any storage, and really bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.sums import bounded
from hushcov.sums.bounded import bounded_sums
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.rows import RowSums
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
    if square <= norm_bound**2:
        return row
    factor = norm_bound / math.sqrt(square) * (1 - 2**-40)
    return [math.trunc(y * factor) for y in row]


def sums_in_python(X, grid, norm_bound):
    rows = [row_in_python(record, grid, norm_bound) for record in X.tolist()]
    return [sum(column) for column in zip(*rows, strict=True)]


def grid_for(d, radius=4.0, half_width=1000):
    return FeatureGrid(np.linspace(0.5, 2.0, d), radius, half_width)


def sums_of(X, grid, norm_bound, **options):
    return bounded_sums(open_records(X, **options), grid, norm_bound)


@settings(deadline=None)  # the first call compiles
@given(
    X=tables,
    half_width=st.integers(1, 2**20),
    norm_bound=st.integers(1, 2**21),
    radius=st.floats(0.1, 100),
)
def test_equals_python_integers(X, half_width, norm_bound, radius):
    grid = grid_for(X.shape[1], radius, half_width)
    expected = sums_in_python(X, grid, norm_bound)
    for source in (X, torch.from_numpy(X)):
        found = sums_of(source, grid, norm_bound, block_rows=4)
        assert found.dtype == np.int64
        assert found.tolist() == expected


@settings(deadline=None)
@given(X=tables, half_width=st.integers(1, 2**20), norm_bound=st.integers(1, 2**21))
def test_no_record_is_longer_than_the_bound(X, half_width, norm_bound):
    """One record at a time, and the rows are those whose Gram matrix is released elsewhere."""
    grid = grid_for(X.shape[1], half_width=half_width)
    for record in X:
        row = sums_of(record[None], grid, norm_bound)
        assert sum(y * y for y in row.tolist()) <= norm_bound**2
        gram = row_bounded_gram(ArrayRecords(record[None]), grid, norm_bound)
        np.testing.assert_array_equal(np.outer(row, row), gram)


@settings(deadline=None)
@given(data=st.data(), X=tables, norm_bound=st.integers(1, 5000))
def test_replacing_a_record_moves_the_sums_by_twice_the_bound_at_most(data, X, norm_bound):
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    grid = grid_for(X.shape[1])
    change = sums_of(neighbour, grid, norm_bound) - sums_of(X, grid, norm_bound)
    assert sum(y * y for y in change.tolist()) <= 4 * norm_bound**2


@pytest.mark.parametrize("d", [1, 2, 7, 100])
def test_the_sensitivity_is_nearly_attained(d):
    """Opposite records, the largest there are: rounding takes less than 1 from each coordinate."""
    X = np.zeros((3, d))
    X[0], neighbour = 1e300, X.copy()
    neighbour[0] = -1e300
    grid, bound = FeatureGrid(np.ones(d), 4.0, 2**19), 2**18
    change = sums_of(neighbour, grid, bound) - sums_of(X, grid, bound)
    length = math.sqrt(sum(y * y for y in change.tolist()))
    assert 2 * (bound - math.sqrt(d) - 1) < length <= 2 * bound


def test_sums_beyond_exact_doubles():
    """Each sum is taken in integers: doubles would lose the ones."""
    grid = FeatureGrid(np.ones(1), 1.0, 2**20)
    records = ArrayRecords(np.full((2**13 + 1, 1), 1 - 2.0**-20), block_rows=2**14)
    assert bounded_sums(records, grid, 2**20).tolist() == [(2**13 + 1) * (2**20 - 1)]
    sums = RowSums(bounded.sum_rows, ((np.ones(1), 2.0**53), np.inf), (1,))
    X = np.array([[2.0**53], [1.0], [1.0], [1.0]])
    assert sums(X).tolist() == sums(torch.from_numpy(X)).tolist() == [2**53 + 3]


class Sizes:
    """Records too many to hold, never read."""

    def __init__(self, n_records, n_features):
        self.n_records, self.n_features = n_records, n_features
        self.n_rows = n_records


@pytest.mark.parametrize(
    ("n_records", "n_features", "half_width", "norm_bound", "error", "words"),
    [
        (2**42 + 1, 3, 2**20, 5, CapacityError, "n_records"),
        (10, 2**13, 2**20, 5, CapacityError, "n_features"),
        (10, 3, 100, 0, ParameterError, "norm_bound"),
        (10, 3, 100, 1.5, ParameterError, "norm_bound"),
        (10, 3, 100, None, ParameterError, "norm_bound"),
    ],
)
def test_refusals(n_records, n_features, half_width, norm_bound, error, words):
    grid = FeatureGrid(np.ones(n_features), 4.0, half_width)
    with pytest.raises(error, match=words):
        bounded_sums(Sizes(n_records, n_features), grid, norm_bound)
