"""The loss everything is judged by, against a full singular value decomposition."""

import numpy as np
import pytest
from scipy import sparse

from hushcov import metrics
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery


def symmetric(d, seed):
    matrix = np.random.default_rng(seed).standard_normal((d, d))
    return matrix + matrix.T


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_is_the_largest_singular_value(d):
    matrix = symmetric(d, seed=d)
    assert operator_norm(matrix) == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-12, abs=0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("d", [3, 620])
def test_sees_both_ends_of_the_spectrum(sign, d):
    """The largest absolute eigenvalue may be a negative one, in small and large matrices."""
    values = np.linspace(-1, 1, d)
    values[0], values[-1] = -3.0, 2.0
    rotation = np.linalg.qr(symmetric(d, seed=1))[0]
    matrix = sign * (rotation * values) @ rotation.T
    assert operator_norm((matrix + matrix.T) / 2) == pytest.approx(3.0, rel=1e-7, abs=0)


def test_large_matrices_agree_with_the_dense_route():
    matrix = symmetric(650, seed=2)
    assert operator_norm(matrix) == pytest.approx(
        np.max(np.abs(np.linalg.eigvalsh(matrix))), rel=1e-7, abs=0
    )
    matrix = np.zeros((620, 620))
    assert operator_norm(matrix) == 0
    matrix[3, 510] = matrix[510, 3] = -0.2
    assert operator_norm(matrix) == pytest.approx(0.2, rel=1e-7, abs=0)
    assert operator_norm(0.3 * np.eye(620)) == pytest.approx(0.3, rel=1e-7, abs=0)


def test_the_error_is_a_distance_and_support_counts_pairs():
    a, b = symmetric(6, seed=3), symmetric(6, seed=4)
    assert operator_norm_error(a, a) == 0
    assert operator_norm_error(a, b) == operator_norm_error(b, a) > 0
    assert operator_norm_error(2 * a, 2 * b) == pytest.approx(
        2 * operator_norm_error(a, b), rel=1e-6, abs=0
    )
    assert operator_norm_error(a.tolist(), b.tolist()) == operator_norm_error(a, b)
    truth = np.eye(4)
    truth[0, 1] = truth[1, 0] = truth[2, 3] = truth[3, 2] = 0.5
    estimate = 2 * np.eye(4)
    estimate[0, 1] = estimate[1, 0] = -0.1  # found
    estimate[0, 2] = estimate[2, 0] = 0.1  # not there
    estimate[1, 3] = estimate[3, 1] = 0.1  # not there
    assert support_recovery(estimate, truth) == (1 / 2, 1 / 3)
    assert support_recovery(truth, truth) == (1, 1)
    assert support_recovery(np.eye(4), truth) == (0, 1)
    assert support_recovery(estimate, np.eye(4)) == (1, 0)


def test_crowded_eigenvalues(monkeypatch):
    """Eigenvalues of a band crowd at their ends: at 2 + 2 cos(pi/(d + 1)) and below."""
    for d, limit in ((700, 5000), (700, 600)):
        monkeypatch.setattr(metrics, "_LARGEST_DENSE", limit)
        band = sparse.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(d, d), format="csr")
        expected = 2 + 2 * np.cos(np.pi / (d + 1))
        assert operator_norm(band) == pytest.approx(expected, rel=1e-4, abs=0)
