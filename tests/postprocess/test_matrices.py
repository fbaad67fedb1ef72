"""Dense and sparse matrices do the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.postprocess import (
    hard_threshold,
    is_sparse,
    multiply_outer,
    row_blocks,
    symmetric_sparse,
    upper_pairs,
    values_at,
)

PAIRS = np.array([3, 0, 2]), np.array([1, 4, 4])
VALUES = np.array([-0.7, 0.0, 0.25])
DIAGONAL = np.array([1.0, 2.0, 0.0, -1.0, 5.0])


@pytest.fixture
def both():
    stored = symmetric_sparse(PAIRS, VALUES, DIAGONAL)
    dense = np.diag(DIAGONAL)
    dense[PAIRS] = dense.T[PAIRS] = VALUES
    return stored, dense


def test_what_is_stored(both):
    stored, dense = both
    assert is_sparse(stored)
    assert not is_sparse(dense)
    assert np.array_equal(stored.toarray(), dense)
    assert stored.nnz == 2 * len(VALUES) + len(DIAGONAL)  # zeros, too
    assert stored.indices.dtype == np.int32


def test_the_same_pairs_and_values(both):
    (rows, columns, values), from_dense = (upper_pairs(each) for each in both)
    for one, other in zip((rows, columns, values), from_dense, strict=True):
        assert np.array_equal(one, other)
    assert list(zip(rows, columns, values, strict=True)) == [(1, 3, -0.7), (2, 4, 0.25)]
    for each in both:
        assert np.array_equal(values_at(each, rows, columns), values)


def test_products_with_factors(both):
    factors = np.array([0.1, 3.0, 0.0, 1 / 3, 7.0])
    expected = both[1] * np.multiply.outer(factors, factors)
    for each in both:
        multiply_outer(each, factors)
        found = each.toarray() if is_sparse(each) else each
        assert np.array_equal(found, expected)
        assert np.array_equal(found, found.T)


def test_many_blocks_of_rows_cover_each_row_once():
    for d in (1, 2, 1023, 2**20 + 1):
        rows = np.concatenate([np.arange(d)[block] for block in row_blocks(d)[-3:]])
        assert rows[-1] == d - 1
        assert np.all(np.diff(rows) == 1)
    matrix = np.random.default_rng(0).normal(size=(1500, 1500))
    factors = np.arange(1500.0)
    expected = matrix * np.multiply.outer(factors, factors)
    multiply_outer(matrix, factors)
    assert np.array_equal(matrix, expected)


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 1.0])
def test_thresholds(both, level):
    stored, dense = (hard_threshold(each, level) for each in both)
    assert np.array_equal(stored.toarray(), dense)
    assert stored.nnz == np.count_nonzero(np.triu(dense, 1)) * 2 + len(DIAGONAL)


def test_metrics(both):
    stored, dense = both
    other = symmetric_sparse(PAIRS, VALUES * [0, 1, 2], DIAGONAL)
    assert operator_norm(stored) == operator_norm(dense)
    assert operator_norm(sparse.csr_array((3, 3))) == 0.0
    for one in both:
        for two in (other, other.toarray()):
            assert operator_norm_error(one, two) == pytest.approx(0.7, abs=0.05)
            assert support_recovery(two, one) == (0.5, 1.0)
    large = sparse.diags_array(np.arange(700.0), format="csr")
    assert operator_norm(large) == pytest.approx(699)
