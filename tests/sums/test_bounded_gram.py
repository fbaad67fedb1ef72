"""Gram matrices of norm-bounded rows: exact, the same for any storage, and really bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.sums import gram
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import open_records

coordinates = st.floats(-10, 10) | st.floats(allow_nan=False, allow_infinity=False)
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


def gram_of(X, grid, norm_bound, **options):
    return row_bounded_gram(open_records(X, **options), grid, norm_bound)


def grid_for(d, radius=4.0, half_width=1000):
    return FeatureGrid(np.linspace(0.5, 2.0, d), radius, half_width)


@settings(deadline=None)  # the first call compiles
@given(
    X=tables,
    half_width=st.integers(1, 32767),
    norm_bound=st.none() | st.integers(1, 10**5),
    radius=st.floats(0.1, 100),
)
def test_equals_python_integers(X, half_width, norm_bound, radius):
    grid = grid_for(X.shape[1], radius, half_width)
    assert gram_of(X, grid, norm_bound).tolist() == gram_in_python(X, grid, norm_bound)


@settings(deadline=None)  # the first call compiles
@given(X=tables, half_width=st.integers(1, 2**20), norm_bound=st.integers(1, 2**21))
def test_no_norm_exceeds_the_bound(X, half_width, norm_bound):
    """One record at a time: the trace is its squared norm, the diagonal its squared coordinates."""
    grid = grid_for(X.shape[1], half_width=half_width)
    for record in X:
        free = np.diag(gram_of(record[None], grid, None)).tolist()
        bounded = np.diag(gram_of(record[None], grid, norm_bound)).tolist()
        assert sum(bounded) <= norm_bound**2
        assert max(free) <= half_width**2
        if sum(free) <= norm_bound**2:
            assert bounded == free
        else:  # and no shorter than rounding each coordinate towards zero makes it
            assert math.sqrt(sum(bounded)) >= norm_bound * (1 - 2**-39) - math.sqrt(len(record))


@pytest.mark.parametrize("n_rows", range(1, 14))
@pytest.mark.parametrize("exact_rows", [1, 3, 4])
def test_every_row_of_a_block_is_summed(n_rows, exact_rows, monkeypatch):
    """Also the last one, however many rows fit into one exact product."""
    grid = grid_for(3, half_width=9)
    monkeypatch.setattr(gram, "LARGEST_EXACT_FLOAT", exact_rows * 9**2)
    X = np.random.default_rng(n_rows).uniform(-8, 8, (n_rows, 3))
    assert gram_of(X, grid, None, block_rows=100).tolist() == gram_in_python(X, grid, None)


def test_a_block_one_row_longer_than_an_exact_product():
    half_width = 2**20
    n_rows = 2**53 // half_width**2 + 1
    grid = FeatureGrid(np.ones(1), float(1), half_width)
    X = np.ones((n_rows, 1))
    assert gram_of(X, grid, None, block_rows=2 * n_rows).tolist() == [[n_rows * half_width**2]]


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3001, 7)) @ rng.standard_normal((7, 7))
    X[17] = 1e300
    X[18] = 0
    return X


@pytest.fixture(scope="module")
def expected(sample):
    return np.array(gram_in_python(sample, grid_for(7), 1500))


@pytest.mark.parametrize("block_rows", [1, 64, 1000, 3001, None])
def test_same_bits_for_any_block_size(sample, expected, block_rows):
    gram = gram_of(sample, grid_for(7), 1500, block_rows=block_rows)
    assert gram.dtype == np.int64
    np.testing.assert_array_equal(gram, expected)


def test_the_bound_matters_in_this_sample(sample, expected):
    assert not np.array_equal(gram_of(sample, grid_for(7), None), expected)


def test_blocks_beyond_exact_float_sums_are_split():
    """At the widest grid a float64 sum of 2^13 products may be full: longer blocks are split."""
    grid = FeatureGrid(np.ones(2), 1.0, 2**20)
    X = np.random.default_rng(4).uniform(0.9, 1.0, (20_000, 2))
    y = [[round(x * 2**20) for x in record] for record in X.tolist()]
    total = sum(a * b for a, b in y)
    assert total > 2**53
    assert gram_of(X, grid, None, block_rows=20_000)[0, 1] == total


def test_constant_features_give_zeros():
    grid = FeatureGrid(np.array([1.0, 0.0]), 4.0, 100)
    gram = gram_of(np.array([[1.0, 1e300], [2.0, -3.0]]), grid, 50)
    assert gram.tolist() == [[25**2 + 50**2, 0], [0, 0]]


class Sizes:
    """Records too large to hold, never read."""

    def __init__(self, n_records, n_features):
        self.n_records, self.n_features = n_records, n_features
        self.n_rows = n_records


@pytest.mark.parametrize(
    ("n_records", "n_features", "half_width", "norm_bound", "error", "words"),
    [
        (2**23, 3, 2**20, None, CapacityError, "n_records"),
        (10, 2**13, 2**20, 5, CapacityError, "n_features"),
        (10, 3, 100, 0, ParameterError, "norm_bound"),
        (10, 3, 100, 1.5, ParameterError, "norm_bound"),
    ],
)
def test_refusals(n_records, n_features, half_width, norm_bound, error, words):
    grid = FeatureGrid(np.ones(n_features), 4.0, half_width)
    with pytest.raises(error, match=words):
        row_bounded_gram(Sizes(n_records, n_features), grid, norm_bound)
