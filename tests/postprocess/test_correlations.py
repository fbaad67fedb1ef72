"""Correlations of a release, dense and sparse, sound and drowned in noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hushcov.postprocess import released_correlations

SCALE = np.array([2.0, 3.0, 1.0, 0.0])
COVARIANCE = np.array(
    [
        [4.0, 3.0, 0.0, 0.0],
        [3.0, 9.0, -1.5, 0.0],
        [0.0, -1.5, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
)
CORRELATION = np.array(
    [
        [1.0, 0.5, 0.0, 0.0],
        [0.5, 1.0, -0.5, 0.0],
        [0.0, -0.5, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_covariances_over_standard_deviations(kind):
    given = kind(COVARIANCE)
    found = released_correlations(given, SCALE)
    assert sparse.issparse(found) == sparse.issparse(given)
    dense = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(dense, CORRELATION)
    kept = given.toarray() if sparse.issparse(given) else given
    np.testing.assert_array_equal(kept, COVARIANCE)


@pytest.mark.parametrize("variance", [-3.0, 0.0, 0.01])
def test_a_variance_lost_in_noise_counts_as_a_quarter_of_its_scale(variance):
    noisy = np.array([[variance, 0.2], [0.2, 1.0]])
    found = released_correlations(noisy, np.array([1.0, 1.0]))
    assert found[0, 1] == found[1, 0] == pytest.approx(0.8)
    noisy[0, 1] = noisy[1, 0] = -0.9
    assert released_correlations(noisy, np.array([1.0, 1.0]))[0, 1] == -1.0
