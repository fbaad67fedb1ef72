"""The probabilities behind the exact sampler, against 50-digit arithmetic."""

from __future__ import annotations

import functools
import math

import mpmath as mp
import pytest

from hushcov.paper import kernels
from hushcov.paper import parameters as schedule
from hushcov.paper.parameters import gate_correction
from paper import reference
from statistics_helpers import short_and_long

INF = math.inf
SMALLEST = 1e-28  # masses below this never decide a draw


def hard_cases():
    """(alpha, lo, hi, b, r, clip): every kind of interval at every kind of alpha."""
    for alpha in (0.0, 1e-6, 0.75, 0.7500001, 1.0, 2.0, 2.5, 100.0):
        yield alpha, -INF, INF, 1.0, 1e-6, 0.25
        yield alpha, -INF, INF, 1.0, 0.1, INF
        yield alpha, 0.6 * alpha, 0.8 * alpha + 0.01, 0.3, 0.01, 0.25
        yield alpha, 0.7 * alpha, 0.7 * alpha + 1e-9 * 1e-3, 1e-3, 1e-4, INF  # narrow
        yield alpha, 1 - 1e-5, 1 - 1e-5 + 1e-9 * 1e-5, 1e-5, 1e-6, 0.25  # narrow, at the gate
        yield alpha, alpha + 0.03, INF, 1e-2, 0.1, 0.25
        yield alpha, -INF, alpha / 2 - 5e-5, 1e-5, 1e-3, INF
        yield alpha, alpha / 2 - 2, alpha + 2, 1.0, 1e-5, 0.25


CASES = list(hard_cases())
# Masses of 1e-20 and less lose relative accuracy (to 1e-11); it must not cost more than charged.
FAR_TAILS = [
    (0.9, -INF, INF, 1.0, 0.01115, 0.25),  # a gate nine deviations away
    (0.75, 0.99998, 1.129, 0.0043, 0.1, INF),  # a score sixty scales away
    (1.1, 2.0977, 6.3233, 0.1409, 0.0013, 0.25),  # all scores far below the interval
]


def name_of(case):
    return "-".join(f"{value:g}" for value in case)


@functools.cache
def exact_masses(case):
    """The three gate masses in 50 digits."""
    return reference.gate_masses(*case)


def relative_error(value, exact):
    with mp.workdps(reference.DIGITS):
        return float(abs(mp.mpf(value) - exact) / exact)


def log_odds_error(first, second, exact_first, exact_second):
    with mp.workdps(reference.DIGITS):
        odds = mp.mpf(first) / mp.mpf(second)
        return float(abs(mp.log(odds * exact_second / exact_first)))


def assert_accurate(value, exact):
    """The error of a mass may grow with its logarithm: the exponent itself is rounded."""
    if exact < SMALLEST:
        assert 0 <= value < 1.001 * SMALLEST
    else:
        allowed = schedule.LOG_ODDS_ERROR / 2 * (1 + abs(math.log(float(exact))))
        assert relative_error(value, exact) <= allowed


def assert_affordable(first, second, exact_first, exact_second):
    """What `numerics` charges: e^2 q (1 - q) / 2 a test, with e = LOG_ODDS_ERROR at most.

    A test takes part with probability `kept`, and masses that carry no variance may be off by more.
    """
    if min(exact_first, exact_second) < SMALLEST:
        return
    kept = float(exact_first + exact_second)
    q = float(exact_first / (exact_first + exact_second))
    error = log_odds_error(first, second, exact_first, exact_second)
    assert math.sqrt(4 * kept * q * (1 - q)) * error <= schedule.LOG_ODDS_ERROR


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_score_and_gate_masses_are_accurate(case):
    alpha, lo, hi, b, _, _ = case
    exact = exact_masses(case)
    assert_accurate(kernels.score_mass(alpha, lo, hi, b), sum(exact))
    for value, truth in zip(kernels.gate_masses(*case), exact, strict=True):
        assert_accurate(value, truth)


@pytest.mark.parametrize("case", CASES + FAR_TAILS, ids=name_of)
def test_the_gate_draw_costs_no_more_than_is_charged(case):
    same, opposite, silent = exact_masses(case)
    fired, wrong, rest = kernels.gate_masses(*case)
    assert_affordable(fired, wrong + rest, same, opposite + silent)
    assert_affordable(wrong, rest, opposite, silent)


@short_and_long("share", 0.003, 0.5)
@pytest.mark.parametrize(
    ("alpha", "b"), [(-1.0, 0.2), (0.0, 1e-3), (0.75, 1e-5), (1.0, 1e-3), (2.5, 1.0), (100.0, 1e-4)]
)
def test_the_draw_of_a_split_costs_no_more_than_is_charged(alpha, b, share):
    """Splits of the whole line, and of narrower and narrower intervals inside it."""
    middle = alpha if alpha <= 0 else 0.7 * alpha
    for lo, hi in [
        *((-INF, INF), (middle - b, INF), (middle - b, middle + b), (middle, middle + 1e-9 * b))
    ]:
        split = middle + share * min(b, hi - middle)
        above = kernels.score_mass(alpha, split, hi, b)
        below = kernels.score_mass(alpha, lo, split, b)
        exact = reference.score_mass(alpha, split, hi, b), reference.score_mass(alpha, lo, split, b)
        assert_affordable(above, below, *exact)


@pytest.mark.parametrize("b", [1e-5, 0.03, 1.0])
@pytest.mark.parametrize(
    ("low", "width"), [(-2, 1), (-2, 2), (-2, 5), (0, 1e-9), (0, INF), (3, 1e-9), (55, 4)]
)
def test_laplace_mass_is_accurate_on_both_sides_of_zero(b, low, width):
    """`low` and `width` in units of b; the mirrored interval has the mirrored mass."""
    low, width = low * b, width * b
    high = low + width
    with mp.workdps(reference.DIGITS):
        exact = reference.laplace_mass(mp.mpf(low), mp.mpf(high), mp.mpf(b))
    exact_width = width if math.isinf(width) else high - low
    assert_accurate(kernels.laplace_mass(low, high, exact_width, b), exact)
    assert_accurate(kernels.laplace_mass(-high, -low, exact_width, b), exact)


@pytest.mark.parametrize(
    ("y", "clip", "expected"),
    [(0.25, 0.25, 0.0), (0.3, 0.25, 0.0), (-0.2500001, 0.25, 1.0), (0, 0.25, 0.5)],
)
def test_gate_tail_at_the_clip(y, clip, expected):
    """An atom sits on each end of the clip, and the gate opens strictly above its threshold."""
    assert kernels.gate_tail(y, 0.1, clip) == expected
    assert kernels.gate_tail(-0.25, 0.1, 0.25) == pytest.approx(
        0.5 * math.erfc(-2.5 / math.sqrt(2))
    )


@pytest.mark.parametrize("r", [1e-6, 1e-3, 0.02, 0.1, 0.25, 1.0, 1e3])
def test_gate_correction_is_accurate(r):
    assert relative_error(gate_correction(r, 0.25), reference.gate_correction(r, 0.25)) < 1e-14


@pytest.mark.parametrize("scale", [1e-5, 1e-16, 2e-17])
def test_panels_always_advance(scale):
    """A panel narrower than the last bit of its start would be walked for ever."""
    selecting = kernels._panel_end(1.0, 2.0, 1.0, INF, scale, 0.0, False)
    gate = kernels._panel_end(1.0, 2.0, -INF, INF, 1.0, scale, False)
    assert selecting > 1
    assert gate > 1


@pytest.mark.parametrize("high", [0.5, 5.0, 600.0, 700.0, 709.5, 720.0, 744.0, 800.0, 3e3])
@pytest.mark.parametrize("width", [1e-9, 0.3, 40.0, 803.0, 4e3])
def test_truncated_gumbel_inverts_its_distribution(high, width):
    """zeta - low for zeta Gumbel in (low, high], against 60 digits; b = 1."""
    low = high - width
    for uniform in (1e-12, 0.1, 0.5, 0.999):
        offset = kernels._truncated_gumbel(low, high, width, 1.0, uniform)
        assert 0 <= offset <= width * (1 + 1e-12)
        # Every difference of nearby numbers below loses at most ten of these digits.
        with mp.workdps(60):
            exact_low = mp.mpf(high) - mp.mpf(width)  # `low` is rounded to more than a width
            upper, lower = mp.exp(-mp.mpf(high)), mp.exp(-exact_low)
            excess = -mp.log1p(uniform * mp.expm1(-(lower - upper)))
            exact = -mp.log(upper + excess) - exact_low
        assert offset == pytest.approx(float(exact), rel=1e-9, abs=1e-9 * min(width, 1.0))
