"""`discrete_laplace` against its exact law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.exceptions import ParameterError
from hushcov.kernel.noise.laplace import discrete_laplace
from statistics_helpers import FALSE_ALARM, chi_square_p_value, mostly_slow, normal_p_value

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


@pytest.mark.parametrize("scale", mostly_slow([1, 2, 7, 1_000, 3 * 2**40], 0, 2, 4))
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


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, True, "3", math.nan])
def test_bad_scales_and_sizes_are_refused(bad):
    with pytest.raises(ParameterError, match="scale"):
        discrete_laplace(np.random.default_rng(0), bad, 1)
    if bad != 0:
        with pytest.raises(ParameterError, match="size"):
            discrete_laplace(np.random.default_rng(0), 1, bad)
