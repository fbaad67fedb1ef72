"""Screening scores: exact integers, and how far one record moves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.sums import gram
from hushcov.sums.gram import pair_sums
from hushcov.sums.signs import sign_gram
from hushcov.tables.sources import ArrayRecords

ADVERSARIAL = [0.0, -0.0, 5e-324, -5e-324, 1.5, -1.5, 1e308, -1e308, 1.0, -1.0]
coordinates = st.sampled_from(ADVERSARIAL) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def sign(x):
    return (x > 0) - (x < 0)


def literal_gram(X):
    """Sums of products of signs in Python's integers."""
    rows = [[sign(x) for x in row] for row in X.tolist()]
    d = len(rows[0])
    gram = [[0] * d for _ in range(d)]
    for row in rows:
        for i, j in itertools.product(range(d), repeat=2):
            gram[i][j] += row[i] * row[j]
    return gram


@settings(deadline=None)
@given(X=tables)
def test_equals_python_integers(X):
    found = sign_gram(ArrayRecords(X))
    assert found.dtype == np.int64
    assert np.triu(found).tolist() == np.triu(literal_gram(X)).tolist()


@settings(deadline=None)
@given(X=tables, data=st.data())
def test_replacing_a_record_moves_no_score_by_more_than_the_sensitivity(X, data):
    other = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    other[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    first, second = (np.abs(sign_gram(ArrayRecords(table))) for table in (X, other))
    assert np.abs(first - second).max() <= 2


def test_the_sensitivity_is_attained_by_all_scores_at_once():
    """One score in each direction, too: the losses of a selection span twice the sensitivity."""
    X = np.full((9, 3), 10.0)
    X[:2, 0] = -10.0  # every pair has the same sign in most records

    def scores(row):
        table = X.copy()
        table[-1] = row
        return np.abs(sign_gram(ArrayRecords(table)))[np.triu_indices(3, 1)]

    moved = scores([10.0, 10.0, 10.0]) - scores([-10.0, 10.0, 10.0])
    assert moved.tolist() == [2, 2, 0]
    X[:6, 0] = -10.0  # now the pairs with the first feature have opposite signs in most
    moved = scores([10.0, 10.0, 10.0]) - scores([10.0, 10.0, -10.0])
    assert moved.tolist() == [0, -2, 2]


def test_signs_of_zero_and_of_the_smallest_numbers():
    X = np.array([[0.0, 1.0, 5e-324], [-0.0, -1.0, -5e-324]])
    assert sign_gram(ArrayRecords(X)).tolist() == [[0, 0, 0], [0, 2, 2], [0, 0, 2]]


# Panels of the upper triangle


def panel_of(records, seen):
    def panel(start, stop):
        seen.append((start, stop))
        return sign_gram(records, start, stop)

    return panel


@pytest.mark.parametrize("d", [1, 2, 3, 11])
@pytest.mark.parametrize("panel_bytes", [1, 8, 200, 8 * 11 * 4, 2**30])
def test_scores_from_small_panels_are_those_of_the_whole(monkeypatch, d, panel_bytes):
    """In the order of the upper triangle, from panels that cover every row once."""
    monkeypatch.setattr(gram, "PANEL_BYTES", panel_bytes)
    X = np.random.default_rng(4).standard_normal((60, d))
    seen = []
    found = pair_sums(panel_of(ArrayRecords(X), seen), d, 60)
    whole = sign_gram(ArrayRecords(X))
    np.testing.assert_array_equal(found, whole[np.triu_indices(d, 1)])
    covered = [row for start, stop in seen for row in range(start, stop)]
    assert covered[: d - 1] == list(range(d - 1))
    for start, stop in seen:
        assert 8 * (stop - start) * (d - start) <= max(panel_bytes, 8 * (d - start))


def test_a_panel_is_a_part_of_the_whole():
    records = ArrayRecords(np.random.default_rng(6).standard_normal((60, 6)))
    whole = sign_gram(records)
    for start, stop in itertools.combinations(range(7), 2):
        found = panel_of(records, [])(start, stop)
        assert found.shape == (stop - start, 6 - start)
        np.testing.assert_array_equal(np.triu(found), np.triu(whole[start:stop, start:]))


@pytest.mark.parametrize(
    ("largest", "dtype"),
    [(1, np.int32), (2**31 - 1, np.int32), (2**31, np.int64), (2**53, np.int64)],
)
def test_four_bytes_where_they_are_enough(largest, dtype):
    sums = np.array([[largest, -largest], [-largest, largest]])
    found = pair_sums(lambda start, stop: sums, 2, largest)
    assert found.dtype == dtype
    assert found.tolist() == [-largest]
