"""`binomial` against the exact binomial law, in every regime the sampler meets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushcov.paper.samplers import binomial
from statistics_helpers import FALSE_ALARM, binomial_p_value, normal_p_value

DRAWS = 40_000

# (count, success mass, failure mass). The masses carry the small side to full accuracy.
INVERSION = [
    (1, 0.3, 0.7),
    (2, 0.5, 0.5),
    (7, 0.9, 0.1),
    (19, 0.5, 0.5),
    (50, 0.005, 0.995),
    (1_000, 0.0099, 0.9901),
    (10**6, 3e-6, 1.0),
    (10**8, 1e-22, 1e-14),  # masses need not add up to one
    (10**13, 5e-13, 1.0),
    (10**13, 1.0, 5e-13),
    (10**15, 3e-16, 1.0),  # below the resolution of 1 - p
    (10**15, 1.0, 3e-16),
]
REJECTION = [
    (20, 0.5, 0.5),  # the smallest mean that rejection takes
    (21, 0.6, 0.5),
    (1_000, 0.0101, 0.9899),
    (300, 0.8, 0.2),
    (10**6, 0.37, 0.63),
    (10**8, 1e-22, 1e-15),
    (10**9, 1.0, 2e-8),
    (10**13, 1e-11, 1.0),
    (10**13, 0.45, 0.55),
    (10**13, 1.0, 1e-9),
    (2**34, 0.5, 0.5),  # the mode's square is a multiple of 2^64
    (2**50, 0.5, 0.5),
    (3 * 2**40, 1.0, 2.0),
    (10**15, 0.37, 0.63),
]


def draw(count, success, failure, seed, size=DRAWS):
    return binomial(
        np.random.default_rng(seed),
        np.full(size, count, dtype=np.int64),
        np.full(size, success),
        np.full(size, failure),
    )


def p_value(draws, count, success, failure):
    """Tested on the side of the smaller mass, where the law is not rounded away."""
    if success > failure:
        return binomial_p_value(count - draws, count, failure / (success + failure))
    return binomial_p_value(draws, count, success / (success + failure))


@pytest.mark.parametrize(("count", "success", "failure"), INVERSION + REJECTION)
def test_has_the_exact_law(count, success, failure):
    """False-alarm rate 1e-6."""
    draws = draw(count, success, failure, seed=1)
    assert draws.dtype == np.int64
    assert draws.min() >= 0
    assert draws.max() <= count
    assert p_value(draws, count, success, failure) > FALSE_ALARM


@pytest.mark.parametrize(("count", "success", "failure"), INVERSION + REJECTION)
def test_a_probability_wrong_by_a_tenth_is_noticed(count, success, failure):
    small, large = min(success, failure), max(success, failure)
    wrong = draw(count, 1.1 * small, large, seed=2)
    assert p_value(wrong, count, small, large) < FALSE_ALARM


@pytest.mark.parametrize(("count", "success", "failure"), [c for c in REJECTION if c[0] > 300])
def test_a_spread_wrong_by_a_tenth_is_noticed(count, success, failure):
    mean = count * success / (success + failure)
    wrong = np.rint(mean + 1.1 * (draw(count, success, failure, seed=3) - mean))
    assert p_value(wrong, count, success, failure) < FALSE_ALARM


@pytest.mark.parametrize(("count", "success", "failure"), INVERSION + REJECTION)
def test_has_no_outliers(count, success, failure):
    """The farthest draws against the exact tails, which bins do not see. False-alarm rate 1e-6."""
    draws = draw(count, success, failure, seed=1)
    small = min(success, failure) / (success + failure)
    draws = count - draws if success > failure else draws
    law = stats.binom(count, small)
    tails = min(law.cdf(draws.min()), law.sf(draws.max() - 1))
    assert 2 * DRAWS * tails > FALSE_ALARM


@pytest.mark.parametrize("flipped", [False, True])
def test_both_sides_of_the_switch_between_methods_agree(flipped):
    """Means 9.99 and 10.01 are drawn by different methods. False-alarm rate 1e-6 each."""
    for mean in (9.99, 10.01):
        masses = (mean / 500, 1 - mean / 500)
        success, failure = masses[::-1] if flipped else masses
        draws = draw(500, success, failure, seed=4, size=100_000)
        assert p_value(draws, 500, success, failure) > FALSE_ALARM


def test_vanishing_masses_are_not_rounded_up():
    """Mean 1e-14 over a million draws: a single success has probability 1e-8."""
    assert not draw(10**8, 1e-22, 1.0, seed=5, size=10**6).any()
    assert (draw(10**8, 1.0, 1e-22, seed=5, size=10**6) == 10**8).all()


def test_small_means_add_up_over_many_draws():
    """The total of draws with different tiny masses is Poisson. False-alarm rate 1e-6."""
    success = np.geomspace(1e-22, 1e-12, 200_000)
    counts = np.full(len(success), 10**8, dtype=np.int64)
    mean = float(np.sum(counts * success))
    totals = [
        int(binomial(np.random.default_rng(seed), counts, success, np.ones_like(success)).sum())
        for seed in range(20)
    ]
    law = stats.poisson(20 * mean)
    assert 2 * min(law.cdf(sum(totals)), law.sf(sum(totals) - 1)) > FALSE_ALARM


def test_flipped_masses_mirror_the_draw():
    """Success and failure exchanged, same uniforms: the same number falls on the other side."""
    counts = np.array([3, 40, 10**6, 10**13], dtype=np.int64).repeat(500)
    small = np.array([0.2, 0.4, 1e-3, 1e-7]).repeat(500)
    drawn = binomial(np.random.default_rng(6), counts, small, 1 - small)
    mirrored = binomial(np.random.default_rng(6), counts, 1 - small, small)
    np.testing.assert_array_equal(drawn, counts - mirrored)


def test_certain_outcomes():
    counts = np.array([0, 5, 5, 5, 10**15], dtype=np.int64)
    success = np.array([0.5, 0.0, 1.0, 0.0, 3.0])
    failure = np.array([0.5, 1.0, 0.0, 0.0, 0.0])
    drawn = binomial(np.random.default_rng(7), counts, success, failure)
    np.testing.assert_array_equal(drawn, [0, 0, 5, 0, 10**15])


def test_entries_are_independent_and_in_place():
    """Mixed regimes in one long call, over several threads: means and correlations of neighbours.

    False-alarm rate 1e-6 each.
    """
    kinds = [(5, 0.4), (400, 0.3), (10**6, 1e-6), (10**12, 0.2)]
    counts = np.tile([n for n, _ in kinds], 30_000).astype(np.int64)
    p = np.tile([p for _, p in kinds], 30_000)
    drawn = binomial(np.random.default_rng(8), counts, p, 1 - p)
    scores = ((drawn - counts * p) / np.sqrt(counts * p * (1 - p))).reshape(-1, len(kinds))
    assert normal_p_value(scores.mean(axis=0) * np.sqrt(len(scores))) > FALSE_ALARM
    correlations = np.corrcoef(scores, rowvar=False)[np.triu_indices(len(kinds), 1)]
    assert normal_p_value(correlations * np.sqrt(len(scores))) > FALSE_ALARM


def test_no_uniform_is_drawn_for_certain_entries():
    class Refusing:
        def random(self, *_):
            raise AssertionError("noise was drawn for an entry without any randomness")

    zeros = np.zeros(3)
    drawn = binomial(Refusing(), np.full(3, 9, dtype=np.int64), zeros, zeros + 1)
    np.testing.assert_array_equal(drawn, 0)
