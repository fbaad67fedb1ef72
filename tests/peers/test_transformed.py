"""`TransformedRecords`: integers times integers, exactly, record by record."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.peers.coinpress import TransformedRecords
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import ArrayRecords

ROWS = np.random.default_rng(0).standard_normal((301, 5)) * [1, 2, 3, 0.5, 1]
SCALE = np.array([1, 2, 3, 0.5, 1])
GRID = FeatureGrid(SCALE, 6.0, 2**20)
# As large as exact products of five features allow.
LARGEST = (2**53 - 1) // (5 * 2**20)
MATRIX = np.random.default_rng(1).integers(-LARGEST, LARGEST, (5, 5), endpoint=True)


def rows_of(records):
    return np.concatenate(list(records._blocks()))


def in_python(rows, grid, matrix):
    """The definition in Python's integers, which do not round."""
    with np.errstate(over="ignore"):
        scaled = np.clip(rows * grid.multipliers, -grid.half_width, grid.half_width)
    integers = [[int(value) for value in row] for row in np.rint(scaled)]
    columns = [[int(value) for value in column] for column in np.asarray(matrix).T]
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in columns]
        for row in integers
    ]


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_products_are_exact_integers_for_any_block_size(block_rows):
    records = ArrayRecords(ROWS, block_rows=block_rows)
    transformed = TransformedRecords(records, GRID, MATRIX)
    assert (transformed.n_records, transformed.n_features) == (301, 5)
    found = [[int(value) for value in row] for row in rows_of(transformed)]
    assert found == in_python(ROWS, GRID, MATRIX)


def test_products_are_exact_up_to_the_largest_that_is_allowed():
    rows = np.full((3, 5), 1e9) * [[1], [-1], [1]]
    matrix = np.full((5, 2), LARGEST)
    found = rows_of(TransformedRecords(ArrayRecords(rows), GRID, matrix))
    assert np.all(np.abs(found) == 5 * 2**20 * LARGEST)
    with pytest.raises(CapacityError, match=r"below 2\*\*53"):
        TransformedRecords(ArrayRecords(rows), GRID, matrix + 1)
    with pytest.raises(CapacityError):
        TransformedRecords(ArrayRecords(rows), GRID, np.full((5, 1), np.iinfo(np.int64).min))


def test_the_gram_matrix_is_the_same_for_any_block_size_and_order():
    scale = np.full(5, float(2**20) * LARGEST)
    grid = FeatureGrid(scale, 4.0, 30_000)
    expected = None
    for block_rows, seed in ((1, 1), (64, 2), (301, 3)):
        rows = np.random.default_rng(seed).permutation(ROWS)
        records = TransformedRecords(ArrayRecords(rows, block_rows=block_rows), GRID, MATRIX)
        gram = row_bounded_gram(records, grid, 7_500)
        expected = gram if expected is None else expected
        np.testing.assert_array_equal(gram, expected)


def test_floats_that_are_integers_and_matrices_that_are_not_square_will_do():
    wide = np.array([[1.0, 0.0, -2.0]] * 5)
    transformed = TransformedRecords(ArrayRecords(ROWS), GRID, wide)
    assert transformed.n_features == 3
    found = rows_of(transformed)
    assert not found[:, 1].any()
    np.testing.assert_array_equal(found[:, 2], -2 * found[:, 0])


@pytest.mark.parametrize("size", [1e300, np.finfo(float).max, 5e-324])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100, 0.0])
def test_any_size_over_any_scale_is_finite(size, scale):
    """Without a warning; what is beyond the radius is clipped, and a scale of 0 makes zeros."""
    X = np.array([[size, -size], [0.0, size]])
    grid = FeatureGrid(np.full(2, scale), 6.0, 1000)
    found = rows_of(TransformedRecords(ArrayRecords(X), grid, np.eye(2)))
    assert found.tolist() == in_python(X, grid, np.eye(2))
    assert scale > 0 or not found.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_also_where_the_scale_is_zero(bad):
    X = ROWS.copy()
    X[5, 0] = bad
    grid = FeatureGrid(np.array([0.0, 1.0, 1.0, 1.0, 1.0]), 6.0, 1000)
    with pytest.raises(DataError, match="finite"):
        rows_of(TransformedRecords(ArrayRecords(X), grid, np.eye(5)))


@pytest.mark.parametrize(
    ("matrix", "error"),
    [
        (np.eye(5) * 0.5, ParameterError),
        (np.full((5, 5), np.nan), ParameterError),
        (np.full((5, 5), np.inf), ParameterError),
        (np.eye(4), DataError),
        (np.ones(5), DataError),
        (np.ones((5, 0)), DataError),
    ],
)
def test_bad_matrices_are_refused(matrix, error):
    with pytest.raises(error, match="matrix"):
        TransformedRecords(ArrayRecords(ROWS), GRID, matrix)


def test_a_grid_of_another_width_is_refused():
    with pytest.raises(DataError, match="5 features"):
        TransformedRecords(ArrayRecords(ROWS[:, :4]), GRID, np.eye(4))
