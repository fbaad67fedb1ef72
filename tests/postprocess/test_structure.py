"""What a noisy matrix holds: candidates for few entries, few factors, and neither."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from hushcov.postprocess import (
    beside,
    best_candidate,
    coherent_norm,
    detection_deviation,
    largest,
    signal_norm,
    split,
)

D, N, NOISE = 60, 100_000, 0.02
DEVIATION = detection_deviation(NOISE, N)


def noise(seed=0, d=D, deviation=NOISE):
    drawn = np.triu(np.random.default_rng(seed).standard_normal((d, d)))
    return deviation * (drawn + np.triu(drawn, 1).T)


def pairs_of_blocks(d=D, size=5, value=0.5):
    same = np.arange(d) // size
    return np.where(same[:, None] == same, value, 0.0) + (1 - value) * np.eye(d)


def factor(d=D, rank=1, value=0.1, seed=3):
    loadings = np.random.default_rng(seed).choice([-1.0, 1.0], size=(d, rank))
    return value * loadings @ loadings.T / rank + (1 - value) * np.eye(d)


def dense(d=D, value=0.08):
    """Signs at random: no entry stands out, nor does a factor."""
    return value * np.sign(noise(9, d)) * (1 - np.eye(d)) + np.eye(d)


@pytest.mark.parametrize("seed", range(3))
def test_few_pairs(seed):
    found = best_candidate(pairs_of_blocks() + noise(seed), NOISE, N)
    assert found.rank == 0
    assert 1.99 * DEVIATION <= found.threshold <= 4.01 * DEVIATION
    assert found.hidden == 0
    assert found.noise < np.linalg.norm(noise(deviation=DEVIATION), 2) / 2


@pytest.mark.parametrize("seed", range(3))
def test_one_factor(seed):
    """Of many pairs, none of which is strong by itself."""
    truth, matrix = factor(), factor() + noise(seed)
    found = best_candidate(matrix, NOISE, N)
    assert found.rank == 1
    made = split(matrix, found.rank, found.threshold, DEVIATION)
    assert np.linalg.norm(made.matrix - truth, 2) < 0.9 * np.linalg.norm(noise(seed), 2)


def test_neither():
    found = best_candidate(dense() + noise(), NOISE, N)
    assert found.rank == 0
    assert found.threshold < 2.01 * DEVIATION  # at most what is surely noise is left out
    assert found.noise == pytest.approx(2 * DEVIATION * math.sqrt(D), rel=0.15)


@pytest.mark.parametrize("truth", [pairs_of_blocks(), factor(), dense(), np.eye(D)])
def test_the_error_of_a_candidate_is_about_what_it_is(truth):
    matrix = truth + noise(4)
    found = best_candidate(matrix, NOISE, N)
    made = split(matrix, found.rank, found.threshold, DEVIATION)
    error = np.linalg.norm(made.matrix - truth, 2)
    assert 0.4 * found.error < error < 2.2 * found.error


@pytest.mark.parametrize("d", [30, 80])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_split_without_a_threshold_is_the_matrix(d, rank):
    """By all eigenvalues for few features, and by the largest ones alone for many."""
    matrix = factor(d, 3) + noise(d=d)
    made = split(matrix, rank, 0.0, DEVIATION)
    assert made.loadings.shape == (d, rank)
    assert np.allclose(made.matrix, matrix, atol=1e-9)
    assert np.allclose(made.loadings.T @ made.loadings, np.eye(rank), atol=1e-6)
    assert np.all(np.diff(made.values) <= 0)
    assert np.all(made.values > 0)


def test_eigenvalues_are_moved_back_by_what_noise_adds():
    """Of a factor with an eigenvalue of 6, noise makes 6 + d s^2 / 6."""
    truth, deviation = 6.0, 0.2
    direction = np.ones(D) / math.sqrt(D)
    found = []
    for seed in range(20):
        matrix = truth * np.outer(direction, direction) + noise(seed, deviation=deviation)
        found.append(split(matrix, 1, 1.0, deviation).values[0])
    raw = truth + D * deviation**2 / truth
    # Each is off by about sqrt(2) deviations, their mean by a twentieth of the square of that.
    assert np.mean(found) == pytest.approx(truth, abs=5.5 * deviation * math.sqrt(2 / 20))
    assert raw - truth > 0.35


def test_what_is_beyond_the_threshold_is_kept_with_the_diagonal():
    matrix = pairs_of_blocks() + noise()
    rest = split(matrix, 0, 4 * DEVIATION, DEVIATION).remainder
    kept = rest != 0
    assert np.array_equal(kept, (pairs_of_blocks() > 0) | (np.abs(matrix) > 4 * DEVIATION))
    assert np.array_equal(rest[kept], matrix[kept])


def off_diagonal(d=D):
    return ~np.eye(d, dtype=bool)


def left_out(matrix):
    """All entries off the diagonal."""
    return beside(matrix, sparse.diags_array(np.diag(matrix)).tocsr(), float(np.sum(matrix**2)))


def test_noise_hides_no_signal():
    for seed in range(5):
        found = signal_norm(left_out(noise(seed)), NOISE)
        assert found < 0.5 * np.linalg.norm(noise(seed), 2)
    everything = sparse.csr_array(noise())
    assert signal_norm(beside(noise(), everything, float(np.sum(noise() ** 2))), NOISE) == 0


def test_signal_shows_in_the_energy_or_in_the_largest_eigenvalue():
    spread = dense() - np.eye(D)
    found = signal_norm(left_out(spread + noise()), NOISE)
    assert found == pytest.approx(np.linalg.norm(spread, 2), rel=0.35)
    one = factor(value=0.05) * off_diagonal()
    found = signal_norm(left_out(one + noise()), NOISE)
    assert found == pytest.approx(np.linalg.norm(one, 2), rel=0.35)


def test_small_entries_of_one_sign_add_up():
    """A tenth of a deviation each: no entry shows, nor the energy, but their mean does."""
    value, d = NOISE / 10, 400
    matrix = value * off_diagonal(d) + noise(d=d)
    unit = np.ones(d) / math.sqrt(d)
    found = coherent_norm(unit @ matrix @ unit, 1.0, NOISE, N)
    assert 0.5 * value * d < found < 1.2 * value * d
    assert coherent_norm(unit @ noise(d=d) @ unit, 1.0, NOISE, N) < 2 * NOISE
    assert coherent_norm(0.0, 1.0, NOISE, N) == 0


def test_the_largest_eigenvalue_by_its_size():
    # Powers of the square converge slowly where two eigenvalues are of about the same size.
    for matrix in (factor(), -factor(), pairs_of_blocks(), np.diag([1.0, -3.0, 2.0])):
        assert largest(matrix) == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-3)
    assert largest(np.zeros((3, 3))) == 0
