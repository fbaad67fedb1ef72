"""Dense and sparse matrices do the same; projections and correlations of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hushcov.exceptions import DataError
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.postprocess import (
    hard_threshold,
    is_noise,
    is_sparse,
    multiply_outer,
    project_psd,
    released_correlations,
    symmetric_sparse,
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


def test_products_with_factors(both):
    factors = np.array([0.1, 3.0, 0.0, 1 / 3, 7.0])
    expected = both[1] * np.multiply.outer(factors, factors)
    for each in both:
        multiply_outer(each, factors)
        found = each.toarray() if is_sparse(each) else each
        assert np.array_equal(found, expected)
        assert np.array_equal(found, found.T)


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


# The projection onto positive semidefinite matrices.


def symmetric(seed, d):
    G = np.random.default_rng(seed).standard_normal((d, d))
    return (G + G.T) / 2


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize("seed", range(3))
def test_the_projection_is_the_nearest_matrix(seed, d):
    """P is nearest to M in a convex cone: P is inside, P - M too, and the two are orthogonal."""
    M = symmetric(seed, d)
    P = project_psd(M)
    np.testing.assert_array_equal(P, P.T)
    slack = 1e-13 * d
    assert np.linalg.eigvalsh(P)[0] >= -slack
    assert np.linalg.eigvalsh(P - M)[0] >= -slack
    assert abs(np.sum(P * (P - M))) <= slack * d
    np.testing.assert_allclose(project_psd(P), P, atol=slack)


def test_semidefinite_matrices_are_returned_as_they_are():
    G = np.random.default_rng(1).standard_normal((5, 9))
    M = G @ G.T
    P = project_psd(M)
    np.testing.assert_array_equal(P, M)
    assert P is not M


@pytest.mark.parametrize(
    "matrix",
    [
        *(np.ones((2, 3)), np.empty((0, 0)), np.array([[1.0, 2.0], [0.0, 1.0]])),
        np.full((2, 2), np.inf),
    ],
)
def test_refusals(matrix):
    with pytest.raises(DataError):
        project_psd(matrix)


# Correlations of a release, sound and drowned in noise.


COVARIANCE = np.array([[4.0, 3, 0, 0], [3, 9, -1.5, 0], [0, -1.5, 1, 0], [0, 0, 0, 0]])
CORRELATION = np.array([[1.0, 0.5, 0, 0], [0.5, 1, -0.5, 0], [0, -0.5, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_covariances_over_standard_deviations(kind):
    given = kind(COVARIANCE)
    found = released_correlations(given)
    assert sparse.issparse(found) == sparse.issparse(given)
    dense = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(dense, CORRELATION)
    kept = given.toarray() if sparse.issparse(given) else given
    np.testing.assert_array_equal(kept, COVARIANCE)


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("variance", [-3.0, 0.0])
def test_a_variance_that_is_not_positive_leaves_no_correlation(kind, variance):
    noisy = np.array([[variance, 0.2, 0.0], [0.2, 1.0, 0.5], [0.0, 0.5, 1.0]])
    found = dense(released_correlations(kind(noisy)))
    assert np.isnan(found[0, 1])
    assert np.isnan(found[1, 0])
    assert (found[0, 2], found[2, 0]) == (0.0, 0.0)  # was not found: stays zero
    assert found[1, 2] == found[2, 1] == 0.5
    assert np.isnan(found[0, 0]) == (variance < 0)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_nothing_is_cut_to_a_confident_one(kind):
    noisy = np.array([[0.01, 0.2, -0.3], [0.2, 1.0, 1.2], [-0.3, 1.2, 1.0]])
    found = dense(released_correlations(kind(noisy)))
    np.testing.assert_allclose(found, [[1, 2, -3], [2, 1, 1.2], [-3, 1.2, 1]])
    np.testing.assert_array_equal(is_noise(found), ~np.eye(3, dtype=bool))


def test_what_counts_as_noise():
    values = np.array([0.0, 1.0, -1.0, 1 + 1e-12, 1.01, -1.01, 1e300, np.inf, np.nan])
    assert list(is_noise(values)) == [False] * 4 + [True] * 5
