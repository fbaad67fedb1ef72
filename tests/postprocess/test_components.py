"""Sparse principal components: limit cases, planted directions, and matrices that are not sound."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import DataError, ParameterError
from hushcov.postprocess import sparse_components


def planted(strengths, size=4, d=20, noise=0.0):
    """Blocks of `size` features with these eigenvalues on top of the identity."""
    sigma = np.eye(d)
    for index, strength in enumerate(strengths):
        direction = np.zeros(d)
        direction[index * size : (index + 1) * size] = [1.0, -2.0, 3.0, 4.0]
        direction /= np.linalg.norm(direction)
        sigma += strength * np.outer(direction, direction)
    wobble = np.random.default_rng(0).normal(0, noise, (d, d))
    return sigma + (wobble + wobble.T) / 2


def test_all_nonzeros_give_the_eigenvectors():
    generator = np.random.default_rng(3)
    root = generator.normal(size=(6, 6)) * np.array([5, 3, 2, 1, 0.5, 0.1])
    sigma = root @ root.T
    values, vectors = np.linalg.eigh(sigma)
    components, variances = sparse_components(sigma, 3, 6)
    np.testing.assert_allclose(variances, values[::-1][:3])
    np.testing.assert_allclose(np.abs(components @ vectors[:, ::-1][:, :3]), np.eye(3), atol=1e-6)


def test_one_nonzero_gives_the_largest_variances():
    components, variances = sparse_components(np.diag([1.0, 5.0, 3.0]), 2, 1)
    np.testing.assert_array_equal(components, [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(variances, [5, 3])


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_planted_directions_are_found_strongest_first(noise):
    components, variances = sparse_components(planted([3.0, 6.0, 4.5], noise=noise), 3, 4)
    assert [set(np.flatnonzero(c) // 4) for c in components] == [{1}, {2}, {0}]
    np.testing.assert_allclose(variances, [7.0, 5.5, 4.0], rtol=0.05)
    np.testing.assert_allclose(np.linalg.norm(components, axis=1), 1.0)
    assert (components.max(axis=1) == np.abs(components).max(axis=1)).all()
    assert np.sign(components[0, 4:8]).tolist() == [1, -1, 1, 1]


def test_a_matrix_with_large_negative_eigenvalues():
    """As noise leaves it: iterations must not end in the direction of the most negative one."""
    sigma = planted([2.0])
    bad = np.zeros(20)
    bad[10:14] = 0.5
    components, variances = sparse_components(sigma - 9 * np.outer(bad, bad), 1, 4)
    assert set(np.flatnonzero(components[0])) == {0, 1, 2, 3}
    assert variances[0] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((np.ones((2, 3)), 1, 1), DataError),
        ((np.array([[1.0, 0.0], [1.0, 1.0]]), 1, 1), DataError),
        *(((np.full((2, 2), np.nan), 1, 1), DataError), ((np.eye(2), 0, 1), ParameterError)),
        *(((np.eye(2), 3, 1), ParameterError), ((np.eye(2), 1, 3), ParameterError)),
        ((np.eye(2), 1, 0.5), ParameterError),
    ],
)
def test_refusals(arguments, error):
    with pytest.raises(error):
        sparse_components(*arguments)
