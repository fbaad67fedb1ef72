"""What a noisy matrix holds: few entries, few factors, and neither; levels, eigenvalues, tails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse, stats

from hushcov.postprocess import detection_deviation, structure
from hushcov.postprocess.structure import (
    best_candidate,
    coherent_norm,
    largest,
    look_beyond,
    normal_at,
    norms_beyond,
    signal_norm,
    split,
)
from hushcov.postprocess.tails import lost_beyond
from statistics_helpers import FALSE_ALARM, normal_p_value

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


def hidden(matrix):
    """Return the norm of the signal in all entries off the diagonal."""
    return signal_norm(matrix, sparse.diags_array(np.diag(matrix)).tocsr(), NOISE)


def test_noise_hides_no_signal():
    for seed in range(5):
        found = hidden(noise(seed))
        assert found < 0.5 * np.linalg.norm(noise(seed), 2)
    everything = sparse.csr_array(noise())
    assert signal_norm(noise(), everything, NOISE) == 0


def test_signal_shows_in_the_energy_or_in_the_largest_eigenvalue():
    spread = dense() - np.eye(D)
    found = hidden(spread + noise())
    assert found == pytest.approx(np.linalg.norm(spread, 2), rel=0.35)
    one = factor(value=0.05) * off_diagonal()
    found = hidden(one + noise())
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


# Levels of a matrix against the literal algorithm, and few eigenvalues against all.


LEVELS_D = 160


def unit_noise(d=LEVELS_D, seed=0):
    drawn = np.triu(np.random.default_rng(seed).standard_normal((d, d)))
    return drawn + np.triu(drawn, 1).T


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_levels_are_those_of_the_literal_algorithm(cores, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    matrix, levels = unit_noise() + 0.3, np.array([1.0, 2.0, 2.5, 10.0])
    drawn = np.array([[normal_at(i, j) for j in range(LEVELS_D)] for i in range(LEVELS_D)])
    counts, energy, total = look_beyond(matrix, levels)
    signal, noises = norms_beyond(matrix, levels, counts)
    for at, level in enumerate(levels):
        kept = (np.abs(matrix) > level) | np.eye(LEVELS_D, dtype=bool)
        left = np.where(kept, 0.0, matrix)
        assert np.array_equal(counts[at], (~kept).sum(axis=1))
        assert energy[at] == pytest.approx(np.sum(left**2))
        assert total[at] == pytest.approx(np.sum(left))
        assert signal[at] == pytest.approx(largest(left), rel=1e-5)
        assert noises[at] == pytest.approx(largest(drawn * kept), rel=1e-5)


@pytest.mark.parametrize("rough", [False, True])
def test_ranks_without_a_chance_are_left_out_and_change_nothing(rough, monkeypatch):
    """By their energy alone: what is taken is that of all candidates, bit for bit."""
    truths = [pairs_of_blocks(), factor(value=0.03), factor(rank=3, value=0.1), dense()]
    matrices = [truth + noise(seed) for truth in truths for seed in range(2)]
    found = [best_candidate(matrix, NOISE, N, rough=rough) for matrix in matrices]
    candidates, looked = structure._candidates, []

    def all_of_them(*known):
        looked.append((known, candidates(*known)))
        return candidates(*known[:-1], math.inf)

    monkeypatch.setattr(structure, "_candidates", all_of_them)
    assert found == [best_candidate(matrix, NOISE, N, rough=rough) for matrix in matrices]
    assert {each.rank for each in found} >= {0, 1}
    left_out = [known for known, tried in looked if not tried]
    assert 2 <= len(left_out) < len(looked)
    for known in left_out:
        assert min(each.error for each in candidates(*known[:-1], math.inf)) > known[-1]


def test_the_noise_of_places_is_standard_normal_and_symmetric():
    """False-alarm rate 1e-6."""
    values = np.array([normal_at(i, j) for i in range(200) for j in range(i)])
    assert normal_at(3, 7) == normal_at(7, 3)
    scores = [values.mean(), (values**2 - 1).mean() / math.sqrt(2), (values**3).mean() / 15**0.5]
    lagged = (values[1:] * values[:-1]).mean()
    root = math.sqrt(len(values))
    assert normal_p_value([root * each for each in (*scores, lagged)]) > FALSE_ALARM


# What lies beyond a bound, read off noisy counts.


EDGES = np.exp2(np.arange(-8, 12, 0.25))
MIDDLE = np.concatenate([[EDGES[0] / 2], np.sqrt(EDGES[1:] * EDGES[:-1]), [1.1 * EDGES[-1]]])
TAILS_N, SIGMA = 100_000, 60.0


def counted(law, seed):
    parts = np.diff(np.concatenate([[0.0], law.cdf(EDGES), [1.0]]))
    return TAILS_N * parts + np.random.default_rng(seed).normal(0, SIGMA, len(parts))


def beyond(law, bound):
    return float(law.expect(lambda x: x - bound, lb=bound) / law.mean())


@pytest.mark.parametrize(
    ("law", "bound"),
    [
        *((stats.expon(), 3.0), (stats.chi2(20, scale=1 / 20), 1.5), (stats.pareto(4), 3.0)),
        (stats.lognorm(0.8), 4.0),
    ],
)
def test_what_lies_beyond_a_bound_is_found_within_its_deviation(law, bound):
    truth = beyond(law, bound)
    found = np.array(
        [lost_beyond(counted(law, seed), SIGMA, EDGES, MIDDLE, bound) for seed in range(20)]
    )
    # Bins have a width, so the share is good to a sixth of itself beyond what it says.
    off = np.abs(found[:, 0] - truth) - truth / 6
    assert np.all(off < 5 * found[:, 1])
    assert np.median(found[:, 0]) == pytest.approx(truth, rel=0.3)
    assert np.median(found[:, 1]) < truth


def test_nothing_is_lost_where_nothing_was_counted():
    assert lost_beyond(np.zeros(len(MIDDLE)), SIGMA, EDGES, MIDDLE, 1.0) == (0.0, 0.0)
