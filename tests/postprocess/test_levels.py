"""Levels of a matrix against the literal algorithm, and few eigenvalues against all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.postprocess import largest
from hushcov.postprocess.structure import look_beyond, normal_at, settled, top_vectors
from statistics_helpers import FALSE_ALARM, normal_p_value

D = 160


def noise(d=D, seed=0):
    drawn = np.triu(np.random.default_rng(seed).standard_normal((d, d)))
    return drawn + np.triu(drawn, 1).T


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_levels_are_those_of_the_literal_algorithm(cores, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    matrix, levels = noise() + 0.3, np.array([1.0, 2.0, 2.5, 10.0])
    drawn = np.array([[normal_at(i, j) for j in range(D)] for i in range(D)])
    found = look_beyond(matrix, levels)
    for at, level in enumerate(levels):
        kept = (np.abs(matrix) > level) | np.eye(D, dtype=bool)
        left = np.where(kept, 0.0, matrix)
        assert np.array_equal(found.counts[at], (~kept).sum(axis=1))
        assert found.energy[at] == pytest.approx(np.sum(left**2))
        assert found.total[at] == pytest.approx(np.sum(left))
        assert found.signal[at] == pytest.approx(largest(left), rel=1e-5)
        assert found.noise[at] == pytest.approx(largest(drawn * kept), rel=1e-5)


def test_the_noise_of_places_is_standard_normal_and_symmetric():
    """False-alarm rate 1e-6."""
    values = np.array([normal_at(i, j) for i in range(200) for j in range(i)])
    assert normal_at(3, 7) == normal_at(7, 3)
    scores = [values.mean(), (values**2 - 1).mean() / math.sqrt(2), (values**3).mean() / 15**0.5]
    lagged = (values[1:] * values[:-1]).mean()
    root = math.sqrt(len(values))
    assert normal_p_value([root * each for each in (*scores, lagged)]) > FALSE_ALARM


def test_a_few_large_eigenvalues_are_those_of_all():
    """Three of one size and one beside the edge of noise by a tenth."""
    d = 600
    basis = np.linalg.qr(np.random.default_rng(4).standard_normal((d, 4)))[0]
    sizes = 2 * math.sqrt(d) * np.array([3.0, 3.0, 3.0, 1.3])
    matrix = (basis * sizes) @ basis.T + noise(d)
    np.fill_diagonal(matrix, 0.0)
    values, vectors = np.linalg.eigh(matrix)
    top = top_vectors(matrix, 8)
    assert np.linalg.norm(top[:, :4].T @ vectors[:, -4:], -2) > 0.99
    assert np.allclose(top.T @ top, np.eye(8), atol=1e-10)
    np.fill_diagonal(matrix, 1e9)  # says nothing: it is replaced by what factors have of it
    found, factors = settled(matrix, top[:, :4], 2 * math.sqrt(d))[::-1]
    assert found == pytest.approx(values[::-1][:4], rel=0.05)
    assert np.allclose(factors.T @ factors, np.eye(4), atol=1e-10)
