"""`discrete_laplace` against its exact law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.exceptions import ParameterError
from hushcov.noise.laplace import _below, _coin, discrete_laplace
from statistics_helpers import FALSE_ALARM, chi_square_p_value, normal_p_value

DRAWS = 15_000


def cumulative(j, scale):
    """P(X <= j) = 1 - q^(j+1)/(1+q) for j >= 0, q = exp(-1/scale); for j < 0 by symmetry."""
    q = math.exp(-1 / scale)
    return 1 - q ** (j + 1) / (1 + q) if j >= 0 else q ** (-j) / (1 + q)


def p_value(draws, scale):
    """Chi-square on about 40 bins of the exact law."""
    edges = np.unique([round(scale * x) for x in np.linspace(-3.5, 3.5, 40)]).tolist()
    masses = np.diff([0.0, *(cumulative(edge, scale) for edge in edges), 1.0])
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1)
    return chi_square_p_value(observed, masses)


def test_the_reference_is_the_law():
    for scale in (1, 7):
        masses = [cumulative(j, scale) - cumulative(j - 1, scale) for j in range(-9, 10)]
        for j, mass in zip(range(-9, 10), masses, strict=True):
            assert mass / masses[9] == pytest.approx(math.exp(-abs(j) / scale), rel=1e-9, abs=0)


@pytest.mark.parametrize("scale", [1, 2, 7, 1_000, 3 * 2**40])
def test_has_the_exact_law(scale):
    """False-alarm rate 1e-6; a scale wrong by a tenth is noticed."""
    draws = discrete_laplace(np.random.default_rng(1), scale, DRAWS)
    assert all(type(draw) is int for draw in draws)
    assert p_value(draws, scale) > FALSE_ALARM
    assert p_value(draws, scale * 1.1) < FALSE_ALARM
    assert p_value(draws, scale / 1.1) < FALSE_ALARM


def test_huge_scales_and_their_last_bits():
    """Beyond any machine integer. False-alarm rate 1e-6."""
    scale = 10**40 + 1
    draws = discrete_laplace(np.random.default_rng(2), scale, 4_000)
    sizes = np.array([abs(draw) / scale for draw in draws])
    assert normal_p_value((sizes.mean() - 1) * math.sqrt(len(sizes))) > FALSE_ALARM
    last = np.bincount([draw % 16 for draw in draws], minlength=16)
    assert chi_square_p_value(last, np.full(16, 1 / 16)) > FALSE_ALARM


def test_signs_and_neighbours_are_independent():
    """False-alarm rate 1e-6."""
    draws = np.array(discrete_laplace(np.random.default_rng(3), 50, DRAWS)) / 50
    sizes = np.abs(draws) - np.abs(draws).mean()
    products = [draws, draws[1:] * draws[:-1], sizes[1:] * sizes[:-1], np.sign(draws) * sizes]
    scores = [each.mean() / each.std() * math.sqrt(len(each)) for each in products]
    assert normal_p_value(scores) > FALSE_ALARM


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 1), (1, 3), (7, 9), (10**30, 2 * 10**30)])
def test_coins_have_their_probability(p, q):
    """False-alarm rate 1e-6; a probability wrong by a tenth is noticed."""
    generator, runs = np.random.default_rng(4), 6_000
    heads = sum(_coin(generator, p, q) for _ in range(runs))
    chance = math.exp(-p / q)
    if p == 0:
        assert heads == runs
        return
    deviation = math.sqrt(runs * chance * (1 - chance))
    assert normal_p_value((heads - runs * chance) / deviation) > FALSE_ALARM
    assert normal_p_value((heads - runs * chance * 0.9) / deviation) < FALSE_ALARM


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 64])
def test_integers_below_a_bound_are_uniform(bound):
    """False-alarm rate 1e-6."""
    generator = np.random.default_rng(5)
    drawn = [_below(generator, bound) for _ in range(4_000)]
    assert 0 <= min(drawn) <= max(drawn) < bound
    if bound > 1:
        observed = np.bincount(drawn, minlength=bound)
        assert chi_square_p_value(observed, np.full(bound, 1 / bound)) > FALSE_ALARM


def test_words_are_put_together():
    """Bounds around one and two words of 64 bits."""
    generator = np.random.default_rng(6)
    for bound in (2**64, 2**64 + 1, 2**127, 2**128, 2**130 + 5):
        largest = max(_below(generator, bound) for _ in range(200))
        assert 0.8 * bound < largest < bound


def test_is_determined_by_the_generator():
    first, second, third = (
        discrete_laplace(np.random.default_rng(seed), 1_000, 50) for seed in (7, 7, 8)
    )
    assert first == second != third
    assert discrete_laplace(np.random.default_rng(0), 3, 0) == []


@pytest.mark.parametrize("scale", [0, -1, 1.5, None, True, "3", math.nan])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        discrete_laplace(np.random.default_rng(0), scale, 1)


def test_a_bad_size_is_refused():
    for size in (-1, 0.5, None):
        with pytest.raises(ParameterError, match="size"):
            discrete_laplace(np.random.default_rng(0), 1, size)
