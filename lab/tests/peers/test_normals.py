"""`lazy_normals`: the exact law, and bits that go on where they are asked for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import special

from hushcov_lab.peers.normals import lazy_normals
from statistics_helpers import FALSE_ALARM, chi_square_p_value, normal_p_value


def equal_bins_p_value(sample):
    """Chi-square on 100 bins of equal probability."""
    observed = np.histogram(special.ndtr(sample), np.linspace(0, 1, 101))[0]
    return chi_square_p_value(observed, np.full(100, 0.01))


def test_has_the_normal_law():
    """False-alarm rate 1e-6; a deviation wrong by a tenth is noticed."""
    sample = lazy_normals(np.random.default_rng(1), 200_000).floats()
    assert equal_bins_p_value(sample) > FALSE_ALARM
    assert equal_bins_p_value(sample * 1.1) < FALSE_ALARM
    assert equal_bins_p_value(sample / 1.1) < FALSE_ALARM
    far = np.mean(np.abs(sample) > 3)
    chance = 2 * special.ndtr(-3)
    assert normal_p_value((far - chance) / math.sqrt(chance / len(sample))) > FALSE_ALARM
    neighbours = sample[1:] * sample[:-1]
    assert normal_p_value(neighbours.mean() * math.sqrt(len(neighbours))) > FALSE_ALARM


def test_the_exact_path_has_the_same_law():
    """Every trial goes the exact way. False-alarm rate 1e-6; a tenth is noticed."""
    normals = lazy_normals(np.random.default_rng(2), 8_000, margin=2.0)
    assert len(normals.refined) == 8_000
    assert equal_bins_p_value(normals.floats()) > FALSE_ALARM
    assert equal_bins_p_value(normals.floats() * 1.1) < FALSE_ALARM


def test_the_exact_path_decides_as_the_quick_one():
    """On the same words, which are all drawn before the first trial is decided."""
    size = 30
    for seed in range(30):
        quick = lazy_normals(np.random.default_rng(seed), size, margin=2.0**-45)
        exact = lazy_normals(np.random.default_rng(seed), size, margin=2.0)
        words = np.random.default_rng(seed).integers(0, 2**64, size=(3, size), dtype=np.uint64)
        first = (words[1] >> np.uint64(1)).astype(np.int64)
        # Both kept the first trial exactly where both still have its bits.
        np.testing.assert_array_equal(quick.leading == first, exact.leading == first)
        kept = quick.leading == first
        np.testing.assert_array_equal(quick.wholes[kept], exact.wholes[kept])
        np.testing.assert_array_equal(quick.signs[kept], exact.signs[kept])


def test_floats_are_as_close_as_they_say_and_bits_go_on():
    generator = np.random.default_rng(3)
    normals = lazy_normals(generator, 200, margin=0.01)
    assert 0 < len(normals.refined) < 200
    floats = normals.floats()
    for position in range(200):
        offset = normals.offset(generator, position)
        leading, length = offset.leading, offset.length
        offset.refine()
        assert offset.leading >> 64 == leading
        assert leading >> (length - 63) == normals.leading[position]
        exact = normals.wholes[position] + Fraction(offset.leading, 2**offset.length)
        exact *= int(normals.signs[position])
        assert abs(exact - Fraction(floats[position])) <= (1 + abs(exact)) / 2**52


def test_refined_bits_are_uniform():
    """Those drawn after a number was kept. False-alarm rate 1e-6."""
    generator = np.random.default_rng(4)
    normals = lazy_normals(generator, 4_000)
    bits = []
    for position in range(4_000):
        offset = normals.offset(generator, position)
        offset.refine()
        bits.append(offset.leading >> 58 & 63)
    assert chi_square_p_value(np.bincount(bits, minlength=64), np.full(64, 1 / 64)) > FALSE_ALARM


class Watched(np.random.Generator):
    """A generator of which it is known what it is asked for."""

    def integers(self, low, high, **given):
        assert (low, high) == (0, 2**64)
        return super().integers(low, high, **given)


def test_all_bits_are_asked_for():
    lazy_normals(Watched(np.random.PCG64(7)), 50, margin=0.5)
