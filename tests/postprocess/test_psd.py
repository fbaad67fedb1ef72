"""The projection onto positive semidefinite matrices."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import DataError
from hushcov.postprocess import project_psd


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
        np.ones((2, 3)),
        np.empty((0, 0)),
        np.array([[1.0, 2.0], [0.0, 1.0]]),
        np.full((2, 2), np.inf),
    ],
)
def test_refusals(matrix):
    with pytest.raises(DataError):
        project_psd(matrix)
