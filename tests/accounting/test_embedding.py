"""The embedding bound against exact compositions, exit times and 50-digit arithmetic.

The references share no code with the bound. Two-point steps with losses u and u - eta are the worst
bounded-range steps, so dynamic programming over u gives the worst adaptive composition.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from hushcov.kernel.accounting import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Pure,
    all_bounds,
    compose,
    gaussian_delta,
    gaussian_epsilon,
)
from hushcov.kernel.accounting.composition import (
    _ANGLES,
    CLOCK_ROUNDING,
    EmbeddedCurve,
    log_exit_moment,
)
from hushcov.kernel.accounting.events import Parts
from statistics_helpers import FALSE_ALARM, normal_p_value


def embedded(mu, *groups):
    return EmbeddedCurve(Parts(gaussian=mu, bounded_range=groups))


class MeanTime(EmbeddedCurve):
    """Wrong: the steps take their mean time, as if it were not random."""

    def __init__(self, parts):
        time = math.fsum(count * eta**2 / 4 for eta, count in parts.bounded_range)
        self._fixed = math.sqrt(parts.gaussian**2 + time)

    def delta_at(self, epsilon):
        return gaussian_delta(self._fixed, epsilon)

    def epsilon_at(self, delta):
        return gaussian_epsilon(self._fixed, delta)


class HalfTime(EmbeddedCurve):
    """Wrong: eta^2/8 in place of eta^2/4, which confuses rho with mu^2."""

    def __init__(self, parts):
        narrow = tuple((eta / math.sqrt(2), count) for eta, count in parts.bounded_range)
        super().__init__(Parts(gaussian=parts.gaussian, bounded_range=narrow))


# The worst adaptive composition


def exact_gaussian(mu, epsilon):
    if mu == 0:
        return np.maximum(-np.expm1(epsilon), 0.0)
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def worst_composition(eta, before, after, mu, top, cells=8):
    """A lower bound on the worst curve: `before` steps, a Gaussian, then `after` steps.

    Backwards from the last step; the adversary picks u anew after every output, from a grid.
    """
    h = eta / cells
    gaussian_cells = math.ceil(6 * (mu + mu**2) / h) if after and mu else 0
    n, margin = math.ceil(top / h), (before + after) * cells + gaussian_cells
    epsilon = h * np.arange(-margin, n + margin + 1)
    # A Gaussian that comes last has an exact curve.
    curve = exact_gaussian(0.0 if after else mu, epsilon)
    for _ in range(after):
        curve = after_worst_step(curve, eta, cells)
    if gaussian_cells:
        # Losses in a cell count as its lower end and small ones as giving nothing: a lower bound.
        losses = h * np.arange(-gaussian_cells, gaussian_cells + 1)
        masses = -np.diff(ndtr(-(losses - mu**2 / 2) / mu), append=0.0)
        curve = np.convolve(curve, masses, mode="valid")
    for _ in range(before):
        curve = after_worst_step(curve, eta, cells)
    return h * np.arange(n + 1), curve


def after_worst_step(curve, eta, cells):
    """One step earlier: the largest expected delta over u, at the points that remain."""
    n = len(curve) - 2 * cells
    best = np.zeros(n)
    for u in range(1, cells):
        high = (math.exp(eta) - math.exp(u * eta / cells)) / math.expm1(eta)
        moved = high * curve[cells - u :][:n] + (1 - high) * curve[2 * cells - u :][:n]
        np.maximum(best, moved, out=best)
    return best


CASES = [
    (eta, steps, mu)
    for steps in (1, 2, 5, 20, 60)
    for eta, mu in [(0.01, 0.0), (0.05, 0.02), (0.05, 0.1), (0.3, 0.0), (0.3, 0.5), (0.9, 0.3)]
]


def excess(curve_class, eta, before, after, mu, points=15):
    """The bound's delta over that of the worst composition, at several epsilon."""
    steps = before + after
    spread = math.sqrt(mu**2 + steps * eta**2 / 4)
    top = 5 * spread + spread**2 / 2
    top = top if mu else min(top, 0.95 * steps * eta)
    epsilon, delta = worst_composition(eta, before, after, mu, top)
    some = np.linspace(0, len(epsilon) - 1, points).astype(int)
    some = some[delta[some] > 1e-11]
    curve = curve_class(Parts(gaussian=mu, bounded_range=((eta, steps),)))
    return np.array([curve.delta_at(epsilon[i]) for i in some]) / delta[some]


@pytest.mark.parametrize(("eta", "steps", "mu"), CASES)
def test_no_adaptive_composition_costs_more(eta, steps, mu):
    for after in {0, steps // 2, steps} if mu else {0}:
        assert np.all(excess(EmbeddedCurve, eta, steps - after, after, mu) >= 1)


def test_the_reference_is_the_worst_single_step():
    """Proof step 15: one step costs (1 - e^((eps - eta)/2))^2 / (1 - e^-eta), at the best u."""
    epsilon, delta = worst_composition(0.4, 1, 0, 0.0, 0.4, cells=64)
    exact = (1 - np.exp((epsilon - 0.4) / 2)) ** 2 / -math.expm1(-0.4)
    even = slice(0, None, 2)  # where u = (eta + eps)/2 is on the grid
    np.testing.assert_allclose(delta[even], exact[even], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("wrong", [MeanTime, HalfTime])
def test_wrong_bounds_are_found_out_by_the_worst_composition(wrong):
    assert any(
        np.any(excess(wrong, eta, steps, 0, mu) < 1)
        for eta, steps, mu in [(0.01, 1, 0.0), (0.05, 5, 0.02), (0.02, 500, 0.2)]
    )


# Symmetric steps, known to be as bad as any for many steps


def symmetric_epsilon(eta, steps, mu, delta):
    """Exact for u = eta/2 in every step: a binomial sum of Gaussian curves."""
    wins = np.arange(steps + 1)
    masses = stats.binom.pmf(wins, steps, 1 / (1 + math.exp(-eta / 2)))
    losses = (2 * wins - steps) * eta / 2

    def log_excess(epsilon):
        return math.log(masses @ exact_gaussian(mu, epsilon - losses)) - math.log(delta)

    return brentq(log_excess, 0.0, 5.0, rtol=1e-12)


SYMMETRIC = [(0.01, 0.6, 1.015), (0.01, 0.3, 1.03), (0.005, 0.2, 1.03), (0.01, 0.0, 1.08)]


@pytest.mark.parametrize(("eta", "mu", "factor"), SYMMETRIC)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_two_thousand_symmetric_steps(eta, mu, factor, delta):
    exact = symmetric_epsilon(eta, 2000, mu, delta)
    assert exact <= embedded(mu, (eta, 2000)).epsilon_at(delta) <= factor * exact


def test_half_the_time_is_found_out_by_symmetric_steps():
    for eta, mu, _ in SYMMETRIC:
        wrong = HalfTime(Parts(gaussian=mu, bounded_range=((eta, 2000),)))
        assert wrong.epsilon_at(1e-6) < symmetric_epsilon(eta, 2000, mu, 1e-6)


# The time to leave an interval


def exit_moment(eta, rate, y):
    """E e^(rate tau) for drift 1/2 from y, counted from the middle of an interval of width eta."""
    omega = mp.sqrt(2 * mp.mpc(rate) - mp.mpf(1) / 4)
    even = mp.cosh(eta / 4) * mp.cos(omega * y) / mp.cos(omega * eta / 2)
    odd = mp.sinh(eta / 4) * mp.sin(omega * y) / mp.sin(omega * eta / 2)
    return mp.re(mp.exp(-y / 2) * (even + odd))


def largest_exit_moment(eta, rate):
    """Its maximum over y, by golden sections: it rises, then falls."""
    low, high, section = -eta / 2, eta / 2, (mp.sqrt(5) - 1) / 2
    for _ in range(120):
        width = section * (high - low)
        if exit_moment(eta, rate, high - width) > exit_moment(eta, rate, low + width):
            high = low + width
        else:
            low = high - width
    return exit_moment(eta, rate, (low + high) / 2)


@pytest.mark.parametrize("eta", [1e-6, 1e-3, 0.05, 0.4, 0.99])
@pytest.mark.parametrize("angle", _ANGLES[[0, 150, 300, 400, 470, 500, -1]])
def test_the_moment_bounds_every_start_and_is_nearly_the_largest(eta, angle):
    claimed = log_exit_moment(np.array([angle]))[0]
    with mp.workdps(50):
        eta, angle = mp.mpf(eta), mp.mpf(float(angle))
        largest = mp.log(largest_exit_moment(eta, 2 * (angle / eta) ** 2))
        assert largest <= claimed * (1 + mp.mpf(CLOCK_ROUNDING))
        assert claimed <= largest * (1 + eta**2 / 10 + mp.mpf(CLOCK_ROUNDING))


def test_the_moment_is_exact_far_within_the_allowance():
    for angle in np.concatenate([_ANGLES, np.geomspace(1e-149, 1e-6, 50)]):
        with mp.workdps(350):
            exact = -mp.log(mp.cos(mp.mpf(float(angle))))
            error = float(log_exit_moment(np.array([angle]))[0] / exact - 1)
        assert abs(error) < 1e-13
    assert log_exit_moment(np.zeros(1))[0] > 0


@pytest.mark.parametrize("count", [1, 30, 10**9, 10**18])
@pytest.mark.parametrize("eta", [1e-9, 1e-4, 0.99])
@pytest.mark.parametrize("late", [0.25, 1e-9, 4.0**-511])
def test_the_time_is_never_below_its_exact_bound(eta, count, late):
    """With narrower steps beside, the angles of which are not on the grid."""
    groups = ((eta / 1234.5, 7 * count), (eta / 3, 2 * count), (eta, count))
    (claimed,) = embedded(0.0, *groups).roots_exceeded_with([late])
    with mp.workdps(50):
        times = []
        for angle in _ANGLES:
            rate = 2 * (mp.mpf(float(angle)) / mp.mpf(eta)) ** 2
            logs = [-n * mp.log(mp.cos(mp.mpf(width) * mp.sqrt(rate / 2))) for width, n in groups]
            times.append((mp.fsum(logs) - mp.log(late)) / rate)
        error = float(claimed / mp.sqrt(min(times)) - 1)
    assert abs(error) < CLOCK_ROUNDING / 10


def exit_times(eta, start, runs, random, cells=8):
    """Exact draws of the time at which motion with drift 1/2 leaves an interval of width eta.

    A walk of exits from intervals of half-width h = eta/cells. Side and time are independent;
    the time is that of driftless motion, kept with probability e^(-t/8) (Girsanov).
    """
    h = eta / cells
    total, position = np.zeros(runs), np.full(runs, start)
    left = np.arange(runs)
    while left.size:
        total[left] += h**2 * unit_exit_times(left.size, random, h**2 / 8)
        up = random.random(left.size) < 1 / (1 + math.exp(-h))
        position[left] += np.where(up, 1, -1)
        left = left[(position[left] > 0) & (position[left] < cells)]
    return total


def unit_exit_times(runs, random, killing):
    """Driftless exit times from (-1, 1) by the series of their survival function, thinned."""
    kept = np.empty(0)
    while kept.size < runs:
        drawn = np.interp(-random.random(runs), -SURVIVAL, TIMES)
        kept = np.append(kept, drawn[random.random(runs) < np.exp(-killing * drawn)])
    return kept[:runs]


TIMES = np.linspace(0.01, 15, 20_001)
ODD = np.arange(1, 60, 2)[:, None]
SURVIVAL = np.sum(
    4 / np.pi * (-1) ** ((ODD - 1) // 2) / ODD * np.exp(-(ODD**2) * np.pi**2 * TIMES / 8), axis=0
)


@pytest.mark.parametrize("eta", [0.05, 0.9])
@pytest.mark.parametrize("start", [4, 1])
def test_exit_times_have_the_claimed_moment(eta, start):
    runs, angle = 30_000, 0.7  # the fourth moment is finite too
    rate = 2 * (angle / eta) ** 2
    seed = np.random.default_rng([start, round(1000 * eta)])
    moments = np.exp(rate * exit_times(eta, start, runs, seed))
    deviation = moments.std() / math.sqrt(runs)
    exact = float(exit_moment(eta, rate, eta * (start / 8 - 0.5)))
    assert normal_p_value((moments.mean() - exact) / deviation) > FALSE_ALARM
    claimed = math.exp(log_exit_moment(np.array([angle]))[0])
    assert moments.mean() < claimed + 5 * deviation
    if start == 4:
        # From the middle the bound is nearly attained, and one for a narrower interval is not.
        assert claimed < exact * (1 + eta**2 / 20)
        narrow = math.exp(log_exit_moment(np.array([0.9 * angle]))[0])
        assert normal_p_value((moments.mean() - narrow) / deviation) < FALSE_ALARM


# The curve


@pytest.mark.parametrize(
    ("events", "applies"),
    [
        *(([Gaussian(0.1), BoundedRange(0.1, 2)], True), ([BoundedRange(0.3, 2)], True)),
        *(([Gaussian(0.1)], False), ([BoundedRange(0.1, 2), Pure(0.1)], False)),
        ([BoundedRange(0.1, 2), DiscreteGaussian(0.1)], False),
    ],
)
def test_it_applies_to_gaussians_and_bounded_range_steps_only(events, applies):
    methods = {bound.method for bound in all_bounds(events, delta=1e-6)}
    assert ("embedding" in methods) == applies


class TestExtremes:
    def test_no_delta_no_claim(self):
        assert embedded(0.1, (0.01, 10)).epsilon_at(1.0) == 0.0
        for delta in (0.0, 5e-324, 1e-310):
            assert embedded(0.1, (0.01, 10)).epsilon_at(delta) == math.inf

    def test_a_delta_near_the_smallest_double(self):
        curve = embedded(0.1, (0.01, 10))
        assert curve.epsilon_at(1e-306) < math.inf
        assert 0 < curve.delta_at(1e9) < 1e-306

    @pytest.mark.parametrize("eta", [5e-324, 1e-310, 1e-200, 1e-155])
    def test_tiny_steps(self, eta):
        assert embedded(0.0, (eta, 3)).epsilon_at(1e-6) == 0.0
        assert 0 < embedded(0.0, (eta, 3)).delta_at(0.0) < 1e-100
        assert embedded(0.5, (eta, 3)).epsilon_at(1e-6) >= gaussian_epsilon(0.5, 1e-6)

    def test_tiny_steps_beside_wide_ones_are_not_lost(self):
        wide = embedded(0.0, (0.1, 5)).epsilon_at(1e-6)
        assert embedded(0.0, (1e-200, 10**299), (0.1, 5)).epsilon_at(1e-6) >= wide
        assert embedded(0.0, (1e-12, 10**24), (0.1, 5)).epsilon_at(1e-6) > 2 * wide

    def test_too_much_to_resolve_is_no_claim_but_renyi_remains(self):
        for eta, count in ((1e-3, 10**30), (1e50, 10), (1e-250, 10**300)):
            curve = embedded(0.0, (eta, count))
            big = eta**2 * count > 1e9
            assert curve.epsilon_at(1e-6) == (math.inf if big else 0.0)
            assert (curve.delta_at(1.0) == 1.0) == big
        assert compose([BoundedRange(1e-3, 10**30)], delta=1e-6).method == "rdp"


COMPOSITIONS = {
    "mu": st.one_of(st.just(0.0), st.floats(1e-3, 3.0)),
    "eta": st.floats(1e-6, 2.0),
    "count": st.integers(1, 10**6),
    "other": st.floats(1e-6, 2.0),
    "log_delta": st.floats(-60.0, -0.5),
    "factor": st.floats(1.01, 3.0),
}
SLACK = 1 + 1e-3  # the grid of rates depends on the widest step


@settings(max_examples=60, deadline=None, derandomize=True)
@given(**COMPOSITIONS)
def test_more_of_anything_costs_more(mu, eta, count, other, log_delta, factor):
    def curve(mu, eta, count):
        return embedded(mu, (eta, count), (other, 5))

    delta = math.exp(log_delta)
    epsilon = curve(mu, eta, count).epsilon_at(delta)
    wider, longer = curve(mu, eta * factor, count), curve(mu, eta, math.ceil(count * factor))
    for more in (wider, longer, curve(max(mu, 1e-3) * factor, eta, count)):
        assert epsilon <= more.epsilon_at(delta) * SLACK
    assert epsilon <= curve(mu, eta, count).epsilon_at(delta / factor) * SLACK
    if math.isfinite(epsilon):
        assert curve(mu, eta, count).delta_at(epsilon) <= delta * (1 + 1e-12)
        assert curve(mu, eta, count).delta_at(epsilon * factor) <= delta
