"""`rounded_normal` against its exact law and against exact arithmetic."""

from __future__ import annotations

import decimal
import math

import mpmath
import numpy as np
import pytest
from randomgen import ChaCha
from scipy import special

from hushcov.exceptions import ParameterError
from hushcov.kernel.noise import normal as module
from hushcov.kernel.noise import rounded_normal
from hushcov.kernel.noise.entropy import LazyUniform
from statistics_helpers import FALSE_ALARM, chi_square_p_value, normal_p_value

SIGMAS = [1, 2, 3, 17, 1_000, 12_345_678_901, 2**40]
DRAWS = 300_000  # more than one block


def interval_mass(low, high, sigma):
    """P(low < round(sigma Z) <= high), accurate in both tails."""
    low, high = (low + 0.5) / sigma, (high + 0.5) / sigma
    upper = special.ndtr(-low) - special.ndtr(-high)
    return np.where(low > 0, upper, special.ndtr(high) - special.ndtr(low))


def p_value(draws, sigma, *, beyond=0.0):
    """Chi-square on at most 80 bins between quantiles; of the magnitudes beyond some deviations."""
    if beyond == 0.0:
        probabilities = np.linspace(0.0, 1.0, 81)[1:-1]
        edges = np.unique(np.rint(sigma * special.ndtri(probabilities)))
        edges = np.concatenate([[-40.0 * sigma], edges, [40.0 * sigma]])
        masses = interval_mass(edges[:-1], edges[1:], sigma)
    else:
        start = math.ceil(beyond * sigma)
        tails = special.ndtr(-(start + 0.5) / sigma) * np.geomspace(1.0, 1e-3, 30)[1:]
        edges = np.unique(np.rint(-sigma * special.ndtri(tails)))
        edges = np.concatenate([[start], edges[edges > start], [40.0 * sigma]])
        masses = 2 * interval_mass(edges[:-1], edges[1:], sigma)
        rest = 1 - masses.sum()
        edges, masses = np.concatenate([[-1.0], edges]), np.concatenate([[rest], masses])
        draws = np.abs(draws)
    observed = np.histogram(draws, edges + 0.25)[0]  # bins are (low, high] for integers
    assert observed.sum() == len(draws)
    return chi_square_p_value(observed, masses)


def imitation(sigma, size, seed):
    return np.rint(sigma * np.random.default_rng(seed).standard_normal(size))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_has_the_exact_law(sigma):
    """False-alarm rate 1e-6; sigma wrong by a tenth is noticed."""
    draws = rounded_normal(np.random.default_rng(1), sigma, DRAWS)
    assert draws.dtype == np.int64
    assert draws.shape == (DRAWS,)
    assert p_value(draws, sigma) > FALSE_ALARM
    assert p_value(imitation(1.1 * sigma, DRAWS, 2), sigma) < FALSE_ALARM
    assert p_value(imitation(sigma / 1.1, DRAWS, 2), sigma) < FALSE_ALARM


@pytest.mark.parametrize("widening", [0, 2**55])
@pytest.mark.parametrize("sigma", [1, 17, 2**40])
def test_keyed_streams_have_the_exact_law(sigma, widening, monkeypatch):
    """So do they where much is left to exact arithmetic. False-alarm rate 1e-6."""
    monkeypatch.setattr(module, "_KEYED", 1)
    size = DRAWS if widening == 0 else 30_000
    draws = module._draw(np.random.Generator(ChaCha(key=1)), sigma, size, widening=widening)
    assert p_value(draws, sigma) > FALSE_ALARM
    assert p_value(draws, sigma, beyond=1) > FALSE_ALARM
    assert normal_p_value(np.sign(draws).mean() * math.sqrt(size)) > FALSE_ALARM


@pytest.mark.parametrize("sigma", [1, 2, 50, 2**40])
def test_has_the_exact_tails(sigma):
    """Three deviations out and beyond. False-alarm rate 1e-6; a tenth is noticed."""
    draws = rounded_normal(np.random.default_rng(3), sigma, 2_000_000)
    assert p_value(draws, sigma, beyond=3) > FALSE_ALARM
    assert p_value(imitation(1.1 * sigma, 2_000_000, 4), sigma, beyond=3) < FALSE_ALARM
    farthest = float(np.abs(draws).max())
    assert 2 * len(draws) * special.ndtr(-(farthest - 0.5) / sigma) > FALSE_ALARM


def test_the_last_bits_of_a_large_draw_are_uniform():
    """False-alarm rate 1e-6; noise rounded to doubles of 24 bits is noticed."""
    draws = rounded_normal(np.random.default_rng(5), 2**40, 100_000)

    def last_bits(values):
        return chi_square_p_value(np.bincount(values & 63, minlength=64), np.full(64, 1 / 64))

    assert last_bits(draws) > FALSE_ALARM
    assert last_bits(draws.astype(np.float32).astype(np.int64)) < FALSE_ALARM


def test_draws_are_independent():
    """Neighbours, neighbours' sizes, and signs and sizes. False-alarm rate 1e-6."""
    draws = rounded_normal(np.random.default_rng(6), 1_000, 400_000) / 1_000.0
    even = draws**2 - np.mean(draws**2)
    signs = np.sign(draws)
    products = [draws[1:] * draws[:-1], even[1:] * even[:-1], signs * even, draws[1:] * even[:-1]]
    scores = [product.mean() / product.std() * math.sqrt(len(product)) for product in products]
    assert normal_p_value(scores) > FALSE_ALARM
    repeated = np.where(np.arange(400_000) % 10 == 0, np.roll(draws, 1), draws)
    products = repeated[1:] * repeated[:-1]
    assert normal_p_value(products.mean() / products.std() * math.sqrt(len(products))) < FALSE_ALARM


def test_the_levels_are_the_cumulated_weights():
    """The sum of all weights is half of one plus a theta function."""
    with mpmath.workdps(80):
        total = (1 + mpmath.jtheta(3, 0, mpmath.exp(-0.5))) / 2
        weights = [mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(30)]
        for length in (1, 5, 63, 127, 191):
            for k in (0, 1, 2, 5, 9, 12, 25):
                exact = mpmath.fsum(weights[: k + 1]) / total * 2**length
                low, high = module._cumulative(k, length)
                assert low <= exact <= high
                assert high - low <= 2
        floors = [
            int(mpmath.floor(mpmath.fsum(weights[: k + 1]) / total * 2**63)) for k in range(10)
        ]
    assert module.LEVELS.tolist() == floors
    assert floors[-1] == 2**63 - 1  # otherwise the kernel would read beyond the table


def reference_trial(sigma, level, offset, coin):
    """The trial from three real numbers, in arithmetic of 120 digits."""
    with mpmath.workdps(120):
        level, offset, coin = (
            mpmath.mpf(leading) / 2**length for leading, length in (level, offset, coin)
        )
        total = (1 + mpmath.jtheta(3, 0, mpmath.exp(-0.5))) / 2
        k, cumulated = 0, mpmath.mpf(1)
        while level * total >= cumulated:
            k += 1
            cumulated += mpmath.exp(-mpmath.mpf(k * k) / 2)
        if coin >= mpmath.exp(-offset * (2 * k + offset) / 2):
            return module._REJECTED
        return int(mpmath.floor(sigma * (k + offset) + 0.5))


def continued(uniform, generator):
    """Any number of the cell in which the uniform is known to lie."""
    tail = int.from_bytes(generator.bytes(16), "little")
    return uniform.leading << 128 | tail, uniform.length + 128


@pytest.mark.parametrize("sigma", [1, 3, 2**40])
@pytest.mark.parametrize("length", [1, 4, 63])
def test_the_exact_path_decides_only_what_it_knows(sigma, length):
    """Whatever the bits not drawn turn out to be, the outcome stays the same."""
    generator = np.random.default_rng(9)
    for _ in range(150):
        uniforms = [
            LazyUniform(generator, int(generator.integers(2**length)), length) for _ in range(3)
        ]
        outcome = module._exact_trial(sigma, *uniforms)
        for _ in range(2):
            numbers = [continued(uniform, generator) for uniform in uniforms]
            assert reference_trial(sigma, *numbers) == outcome


@pytest.mark.parametrize("length", [1, 3])
def test_the_exact_path_alone_has_the_exact_law(length):
    """Nearly every trial needs more bits. False-alarm rate 1e-6; a tenth is noticed."""
    generator, size = np.random.default_rng(10), 10_000
    leading = generator.integers(2**length, size=(size, 3)).tolist()
    outcomes = np.array(
        [
            module._exact_trial(2, *(LazyUniform(generator, bits, length) for bits in trial))
            for trial in leading
        ]
    )
    kept = math.sqrt(math.pi / 2) / float((1 + mpmath.jtheta(3, 0, math.exp(-0.5))) / 2)

    def trial_p_value(sigma):
        values = np.arange(1, 40)
        masses = 2 * interval_mass(values - 1, values, sigma)
        masses = np.concatenate([[1 - kept, kept * interval_mass(-1, 0, sigma)], kept * masses])
        return chi_square_p_value(np.bincount(outcomes + 1, minlength=41), masses)

    assert trial_p_value(2) > FALSE_ALARM
    assert trial_p_value(2.2) < FALSE_ALARM


@pytest.mark.parametrize("widening", [2**57, 2**60])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_both_paths_give_the_very_same_draws(sigma, widening, monkeypatch):
    """The same bits through the exact path, for a share of the trials that grows with widening."""
    quick = rounded_normal(np.random.default_rng(11), sigma, 1_500)
    exact_trial, calls = module._exact_trial, []

    def counted(*arguments):
        calls.append(exact_trial(*arguments))
        return calls[-1]

    monkeypatch.setattr(module, "_exact_trial", counted)
    slow = module._draw(np.random.default_rng(11), sigma, 1_500, widening=widening)
    np.testing.assert_array_equal(slow, quick)
    assert len(calls) > (500 if widening == 2**60 else 50)
    assert module._REJECTED in calls


class NoBits:
    def integers(self, *_, **__):
        raise AssertionError("more bits were drawn although the quick path was certain")


class Script:
    """A generator that gives the listed words."""

    def __init__(self, words):
        self.words = list(words)

    def integers(self, low, high, *, dtype, size=()):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        taken, self.words = self.words[: math.prod(size)], self.words[math.prod(size) :]
        return np.array(taken, dtype=np.uint64).reshape(size)


LEVEL_TIE = int(module.LEVELS[0]) << 1
SIXTH = 2**63 // 6 << 1
COIN_TIE = int(module._scaled_survival(0, 2**62, 63)) << 1
LAST = 2**64 - 1


@pytest.mark.parametrize(
    ("sigma", "words", "expected"),
    [
        (8, [LEVEL_TIE, 0, 0, 0], 0),  # the next bits of the level are zeros: k = 0
        (8, [LEVEL_TIE, 0, 0, LAST], 8),  # .. or ones: k = 1
        (8, [LEVEL_TIE + 1, 0, 0, LAST], -8),  # the last bit of the first word is the sign
        (3, [0, SIXTH, 0, 0], 0),  # x just below one sixth, 3 x below one half
        (3, [0, SIXTH, 0, LAST], 1),
        (3, [1, SIXTH, 0, LAST], -1),
        (8, [0, 2**63, COIN_TIE, 0, 0], 4),  # x = 1/2, coin just below exp(-1/8)
        (8, [0, 2**63, COIN_TIE, 0, LAST, 0, 0, 0], 0),  # just above: a new trial gives 0
    ],
)
def test_a_tie_is_broken_by_the_next_bits(sigma, words, expected):
    script = Script(words)
    assert rounded_normal(script, sigma, 1).tolist() == [expected]
    assert script.words == []


@pytest.mark.parametrize(("ones", "expected"), [(0, 9), (1, 13), (2, 16), (4, 21)])
def test_levels_beyond_the_table_are_reached(ones, expected):
    """A level of many leading ones belongs to a large k, and the exact path follows."""
    level = LazyUniform(Script([LAST] * ones + [0]), 2**63 - 1, 63)
    offset, coin = LazyUniform(NoBits(), 0, 63), LazyUniform(NoBits(), 0, 63)
    k = module._exact_trial(1, level, offset, coin)
    assert level.length == 63 + 64 * (ones + 1)
    assert k == reference_trial(1, (level.leading, level.length), (0, 1), (0, 1)) == expected


def test_the_decimal_context_of_the_caller_has_no_influence():
    module._cumulative.cache_clear()
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.Emin = 2, decimal.ROUND_UP, -3
        drawn = module._draw(np.random.default_rng(14), 9, 300, widening=2**60)
    np.testing.assert_array_equal(drawn, rounded_normal(np.random.default_rng(14), 9, 300))


@pytest.mark.parametrize(
    ("name", "values"),
    [("sigma", [0, -1, 1.0, True, None, "3", 2**40 + 1]), ("size", [-1, 2.0, None, (2, 3)])],
)
def test_other_arguments_are_refused_and_nothing_is_drawn_for_nothing(name, values):
    for value in values:
        with pytest.raises(ParameterError, match=name):
            rounded_normal(NoBits(), **{"sigma": 3, "size": 3} | {name: value})
    drawn = rounded_normal(NoBits(), 5, 0)
    assert (drawn.dtype, drawn.shape) == (np.int64, (0,))
