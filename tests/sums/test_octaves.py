"""Counts by octave: exact at every edge, and one count for each record and feature."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.sums.counts import LARGEST_EXPONENT, N_BINS, SMALLEST_EXPONENT, log2_histogram
from hushcov.tables.sources import ArrayRecords

EDGES = [Fraction(2) ** e for e in range(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1)]
# Values in range and any finite float64, 1e300 and subnormals included.
coordinates = st.floats(-10, 10) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.tuples(st.integers(1, 9), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def bin_in_fractions(x):
    """The number of edges that |x| reaches."""
    return sum(abs(Fraction(x)) >= edge for edge in EDGES)


def bins_of(values):
    """The bin of each value, given as features of one record."""
    counts = log2_histogram(ArrayRecords(np.array([values], dtype=np.float64)))
    assert (counts.sum(axis=1) == 1).all()
    return counts.argmax(axis=1).tolist()


@given(X=tables)
def test_equals_fractions(X):
    expected = np.zeros((X.shape[1], N_BINS), dtype=np.int64)
    for record in X.tolist():
        for i, x in enumerate(record):
            expected[i, bin_in_fractions(x)] += 1
    np.testing.assert_array_equal(log2_histogram(ArrayRecords(X)), expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_at_and_beside_every_edge(sign):
    edges = np.ldexp(1.0, np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1))
    below, above = np.nextafter(edges, 0), np.nextafter(edges, np.inf)
    assert bins_of(sign * below) == list(range(len(edges)))
    assert bins_of(sign * edges) == list(range(1, len(edges) + 1))
    assert bins_of(sign * above) == list(range(1, len(edges) + 1))


@pytest.mark.parametrize(
    "x", [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0), 1e-300]
)
def test_zeros_and_tiny_values_are_in_the_first_bin(x):
    assert bins_of([x]) == [0]


@pytest.mark.parametrize("x", [2.0**64, 1e300, -1e300, np.finfo(np.float64).max])
def test_huge_values_are_in_the_last_bin(x):
    assert bins_of([x]) == [N_BINS - 1]


def test_documented_columns():
    for k in range(1, N_BINS - 1):
        low, high = math.ldexp(1.0, k - 65), math.ldexp(1.0, k - 64)
        assert bins_of([low, np.nextafter(high, 0), high]) == [k, k, k + 1]


@settings(max_examples=200)
@given(data=st.data(), X=tables)
def test_replacing_a_record_moves_each_row_by_one_count(data, X):
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    change = log2_histogram(ArrayRecords(neighbour)) - log2_histogram(ArrayRecords(X))
    assert (np.abs(change).sum(axis=1) <= 2).all()
    assert np.sum(change**2) <= 2 * X.shape[1]


def test_the_sensitivity_is_attained():
    X = np.ones((3, 4))
    neighbour = X.copy()
    neighbour[1] = 5.0
    change = log2_histogram(ArrayRecords(neighbour)) - log2_histogram(ArrayRecords(X))
    assert np.sum(change**2) == 2 * 4
