"""Screening scores: exact integers, and how far one record moves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import CapacityError, DataError
from hushcov.records import (
    ArrayRecords,
    FeatureGrid,
    PairDifferences,
    clipped_gram,
    gram,
    pair_sums,
    sign_gram,
)

HALF_WIDTH = 15
ADVERSARIAL = [0.0, -0.0, 5e-324, -5e-324, 1.5, -1.5, 1e308, -1e308, 1.0, -1.0]
coordinates = st.sampled_from(ADVERSARIAL) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def coarse(n_features, scale=1.0, half_width=HALF_WIDTH):
    return FeatureGrid(np.full(n_features, scale), 1.5, half_width)


def sign(x):
    return (x > 0) - (x < 0)


def literal_gram(rows):
    """Sums of products in Python's integers."""
    d = len(rows[0])
    gram = [[0] * d for _ in range(d)]
    for row in rows:
        for i, j in itertools.product(range(d), repeat=2):
            gram[i][j] += row[i] * row[j]
    return gram


def on_grid(X, grid):
    multipliers, h = grid.multipliers.tolist(), grid.half_width
    return [
        [round(min(max(x * m, -h), h)) for x, m in zip(row, multipliers, strict=True)]
        for row in X.tolist()
    ]


GRAMS = {
    "sign": (sign_gram, lambda X: [[sign(x) for x in row] for row in X.tolist()], 1),
    "clipped": (
        lambda records: clipped_gram(records, coarse(records.n_features)),
        lambda X: on_grid(X, coarse(X.shape[1])),
        HALF_WIDTH**2,
    ),
}


@pytest.mark.parametrize("screen", GRAMS)
@settings(deadline=None)
@given(X=tables)
def test_equals_python_integers(screen, X):
    gram, integers, _ = GRAMS[screen]
    found = gram(ArrayRecords(X))
    assert found.dtype == np.int64
    assert np.triu(found).tolist() == np.triu(literal_gram(integers(X))).tolist()


@pytest.mark.parametrize("screen", GRAMS)
@settings(deadline=None)
@given(X=tables, data=st.data())
def test_replacing_a_record_moves_no_score_by_more_than_the_sensitivity(screen, X, data):
    gram, _, largest = GRAMS[screen]
    other = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    other[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    first, second = (np.abs(gram(ArrayRecords(table))) for table in (X, other))
    assert np.abs(first - second).max() <= 2 * largest


@pytest.mark.parametrize("screen", GRAMS)
def test_the_sensitivity_is_attained_by_all_scores_at_once(screen):
    """One score in each direction, too: the losses of a selection span twice the sensitivity."""
    gram, _, largest = GRAMS[screen]
    X = np.full((9, 3), 10.0)
    X[:2, 0] = -10.0  # every pair has the same sign in most records

    def scores(row):
        table = X.copy()
        table[-1] = row
        return np.abs(gram(ArrayRecords(table)))[np.triu_indices(3, 1)]

    moved = scores([10.0, 10.0, 10.0]) - scores([-10.0, 10.0, 10.0])
    assert moved.tolist() == [2 * largest, 2 * largest, 0]
    X[:6, 0] = -10.0  # now the pairs with the first feature have opposite signs in most
    moved = scores([10.0, 10.0, 10.0]) - scores([10.0, 10.0, -10.0])
    assert moved.tolist() == [0, -2 * largest, 2 * largest]


@pytest.mark.parametrize("screen", GRAMS)
@pytest.mark.parametrize("block_rows", [1, 7, 100, None])
def test_blocks_and_row_order_change_nothing(screen, block_rows):
    gram, _, _ = GRAMS[screen]
    random = np.random.default_rng(1)
    X = random.standard_normal((257, 6))
    expected = gram(ArrayRecords(X))
    shuffled = X[random.permutation(len(X))]
    np.testing.assert_array_equal(gram(ArrayRecords(shuffled, block_rows=block_rows)), expected)
    np.testing.assert_array_equal(gram(ArrayRecords(np.asfortranarray(shuffled))), expected)


@pytest.mark.parametrize("screen", GRAMS)
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32, object])
def test_the_dtype_changes_nothing(screen, dtype):
    gram, _, _ = GRAMS[screen]
    X = np.random.default_rng(2).integers(-3, 4, (50, 4)).astype(np.float64)
    np.testing.assert_array_equal(gram(ArrayRecords(X.astype(dtype))), gram(ArrayRecords(X)))


def test_signs_of_zero_and_of_the_smallest_numbers():
    X = np.array([[0.0, 1.0, 5e-324], [-0.0, -1.0, -5e-324]])
    assert sign_gram(ArrayRecords(X)).tolist() == [[0, 0, 0], [0, 2, 2], [0, 0, 2]]


def test_a_constant_feature_has_no_clipped_score():
    X = np.full((5, 2), 3.0)
    grid = FeatureGrid(np.array([0.0, 1.0]), 1.5, HALF_WIDTH)
    assert clipped_gram(ArrayRecords(X), grid).tolist() == [[0, 0], [0, 5 * HALF_WIDTH**2]]


@pytest.mark.parametrize("half_width", [2047, 4095, 4096])
def test_exact_where_only_a_few_rows_fit_into_single_precision(half_width):
    """2^24 is 4 rows of 2047^2 and one of 4096^2."""
    X = np.random.default_rng(3).standard_normal((23, 3)) * 3
    X[5:15] = 1e9
    grid = coarse(3, half_width=half_width)
    found = clipped_gram(ArrayRecords(X), grid)
    assert found.tolist() == literal_gram(on_grid(X, grid))


@pytest.mark.parametrize("width", [2, 4])
def test_records_of_another_width_are_refused(width):
    with pytest.raises(DataError, match="3 features"):
        clipped_gram(ArrayRecords(np.ones((2, width))), coarse(3))


def test_a_grid_too_fine_for_single_precision_is_refused():
    with pytest.raises(CapacityError, match=r"half_width must .*4096"):
        clipped_gram(ArrayRecords(np.ones((1, 1))), coarse(1, half_width=4097))


@pytest.mark.parametrize("screen", GRAMS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_records_that_are_not_finite_are_refused(screen, bad):
    gram, _, _ = GRAMS[screen]
    with pytest.raises(DataError, match="finite"):
        gram(ArrayRecords(np.array([[1.0, bad]])))


@pytest.mark.parametrize("screen", GRAMS)
@settings(deadline=None, max_examples=50)
@given(X=tables.filter(lambda X: len(X) >= 2), data=st.data())
def test_one_record_moves_one_difference_of_pairs(screen, X, data):
    gram, _, largest = GRAMS[screen]
    other = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    other[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    first, second = (gram(PairDifferences(ArrayRecords(table))) for table in (X, other))
    assert np.abs(first - second).max() <= 2 * largest


# Panels of the upper triangle


def panel_of(screen, records, seen):
    def panel(start, stop):
        seen.append((start, stop))
        if screen == "sign":
            return sign_gram(records, start, stop)
        return clipped_gram(records, coarse(records.n_features), start, stop)

    return panel


@pytest.mark.parametrize("screen", GRAMS)
@pytest.mark.parametrize("d", [1, 2, 3, 11])
@pytest.mark.parametrize("panel_bytes", [1, 8, 200, 8 * 11 * 4, 2**30])
def test_scores_from_small_panels_are_those_of_the_whole(monkeypatch, screen, d, panel_bytes):
    """In the order of the upper triangle, from panels that cover every row once."""
    monkeypatch.setattr(gram, "PANEL_BYTES", panel_bytes)
    X = np.random.default_rng(4).standard_normal((60, d))
    seen = []
    found = pair_sums(panel_of(screen, ArrayRecords(X), seen), d, 60 * HALF_WIDTH**2)
    whole = GRAMS[screen][0](ArrayRecords(X))
    np.testing.assert_array_equal(found, whole[np.triu_indices(d, 1)])
    covered = [row for start, stop in seen for row in range(start, stop)]
    assert covered[: d - 1] == list(range(d - 1))
    for start, stop in seen:
        assert 8 * (stop - start) * (d - start) <= max(panel_bytes, 8 * (d - start))


@pytest.mark.parametrize("screen", GRAMS)
@pytest.mark.parametrize("strip", [1, 2, 5])
def test_strips_of_products_change_nothing_above_the_diagonal(monkeypatch, screen, strip):
    monkeypatch.setattr(gram, "STRIP", strip)
    X = np.random.default_rng(5).standard_normal((60, 7))
    rows, columns = np.triu_indices(7)
    found = GRAMS[screen][0](ArrayRecords(X))
    assert found[rows, columns].tolist() == [
        literal_gram(GRAMS[screen][1](X))[i][j] for i, j in zip(rows, columns, strict=True)
    ]


@pytest.mark.parametrize("screen", GRAMS)
def test_a_panel_is_a_part_of_the_whole(screen):
    records = ArrayRecords(np.random.default_rng(6).standard_normal((60, 6)))
    whole = GRAMS[screen][0](records)
    for start, stop in itertools.combinations(range(7), 2):
        found = panel_of(screen, records, [])(start, stop)
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
