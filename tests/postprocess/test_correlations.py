"""Correlations of a release, dense and sparse, sound and drowned in noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hushcov.postprocess import is_noise, released_correlations

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
