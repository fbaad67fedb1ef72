"""`PairDifferences`: records without their mean, with unchanged neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.exceptions import DataError
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.sums.records import PairDifferences
from hushcov.tables.sources import ArrayRecords

GRID = IntegerGrid(4.0, 1000)
ROWS = np.random.default_rng(0).standard_normal((41, 3)) + np.array([10.0, -20.0, 0.5])


def rows_of(records):
    return np.concatenate(list(records._blocks()))


def direct(X):
    even = len(X) // 2 * 2
    return (X[0:even:2] - X[1:even:2]) / np.sqrt(2)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 40, 41])
@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 8, 100])
def test_equals_a_direct_computation_for_any_block_size(n, block_rows):
    pairs = PairDifferences(ArrayRecords(ROWS[:n], block_rows=block_rows))
    assert (pairs.n_records, pairs.n_features) == (n // 2, 3)
    rows = rows_of(pairs)
    assert len(rows) == n // 2
    np.testing.assert_allclose(rows, direct(ROWS[:n]), rtol=1e-12)
    # Bit for bit the same for any block size.
    np.testing.assert_array_equal(rows, rows_of(PairDifferences(ArrayRecords(ROWS[:n]))))


def test_moments_are_those_of_the_differences():
    pairs = PairDifferences(ArrayRecords(ROWS, block_rows=5))
    moments = second_moments(pairs, GRID)
    assert moments.n_records == 20
    np.testing.assert_array_equal(
        moments.gram, second_moments(ArrayRecords(rows_of(pairs)), GRID).gram
    )


def test_the_mean_is_removed_and_the_covariance_kept():
    """Without the differences a mean of 64 would be all that is left after clipping at 4."""
    X = np.random.default_rng(1).standard_normal((20_000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    moved = ArrayRecords(X + np.array([64.0, -128.0]))
    shifted = second_moments(PairDifferences(moved), GRID).covariance()
    # Each of 10,000 pairs contributes with deviation at most 1.5: five standard errors.
    np.testing.assert_allclose(shifted, [[1.0, 0.6], [0.6, 1.0]], atol=5 * 1.5 / 100)


@pytest.mark.parametrize("size", [1e300, np.finfo(float).max])
def test_huge_values_are_clipped_and_not_refused(size):
    """Differences of the largest finite numbers stay finite, without a warning."""
    X = np.array([[size, -size], [-size, size], [size, 0.0], [size, size]])
    gram = second_moments(PairDifferences(ArrayRecords(X)), GRID).gram
    assert gram.tolist() == [[1000**2, -(1000**2)], [-(1000**2), 2 * 1000**2]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("block_rows", [1, 2, 10])
def test_values_that_are_not_finite_are_still_refused(bad, block_rows):
    for X in ([[1.0], [bad]], [[bad], [bad]]):
        with pytest.raises(DataError, match="finite"):
            second_moments(PairDifferences(ArrayRecords(X, block_rows=block_rows)), GRID)


def test_a_single_record_is_refused():
    with pytest.raises(DataError, match="at least 2 records"):
        PairDifferences(ArrayRecords(ROWS[:1]))


def test_the_original_array_is_left_alone():
    X = ROWS.copy()
    list(PairDifferences(ArrayRecords(X, block_rows=4))._blocks())
    np.testing.assert_array_equal(X, ROWS)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 12),
    position=st.integers(0, 11),
    block_rows=st.integers(1, 5),
    replacement=st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3),
)
def test_neighbours_stay_neighbours(n, position, block_rows, replacement):
    """Replacing one record replaces at most one pair, so the sensitivity of moments holds."""
    neighbour = ROWS[:n].copy()
    neighbour[position % n] = replacement
    pairs = [PairDifferences(ArrayRecords(X, block_rows=block_rows)) for X in (ROWS[:n], neighbour)]
    changed = np.any(rows_of(pairs[0]) != rows_of(pairs[1]), axis=1)
    assert changed.sum() <= 1
    first, second = (second_moments(records, GRID) for records in pairs)
    assert np.max(np.abs(first.gram - second.gram)) <= first.entry_sensitivity
