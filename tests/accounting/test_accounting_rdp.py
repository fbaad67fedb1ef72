"""Renyi divergences of pure and bounded-range events against direct maximisation."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from hushcov.accounting import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Pure,
    compose,
    gaussian_epsilon,
)
from hushcov.accounting.composition import (
    RenyiCurve,
    bounded_range_divergence,
    pure_divergence,
    renyi_divergence,
)
from hushcov.accounting.events import Parts

ORDERS = np.array([1 + 1e-4, 1.01, 1.5, 2.0, 3.7, 10.0, 200.0, 1e5, 1e9])
COSTS = [1e-6, 1e-3, 0.05, 0.4, 1.0, 3.0, 20.0]


def binary_divergence(eta, order, u):
    """Renyi divergence of the pair with losses u and u - eta."""
    high = (mp.exp(eta) - mp.exp(u)) / mp.expm1(eta)
    moment = high * mp.exp((order - 1) * u) + (1 - high) * mp.exp((order - 1) * (u - eta))
    return mp.log(moment) / (order - 1)


@pytest.mark.parametrize("eta", COSTS)
@pytest.mark.parametrize("order", ORDERS)
def test_bounded_range_closed_form_is_the_maximum_over_u(eta, order):
    claimed = float(bounded_range_divergence(eta, np.array([order]))[0])
    with mp.workdps(80):
        h, a = mp.mpf(eta) / 2, mp.mpf(order)

        def log_sinhc(x):
            return mp.log(mp.sinh(x) / x)

        best = h + log_sinhc(a * h) - log_sinhc((a - 1) * h)
        exact = binary_divergence(mp.mpf(eta), a, best)
        # Never below the truth; above it only by what the rounding guard allows.
        assert claimed >= exact * (1 - mp.mpf(10) ** -15)
        assert claimed <= exact * (1 + 1e-13 * (order + 1 / (order - 1)))
        # u = best is the maximum: no other u does better.
        for fraction in np.linspace(0, 1, 21):
            assert binary_divergence(mp.mpf(eta), a, fraction * mp.mpf(eta)) <= exact


def test_bounded_range_maximum_found_without_the_closed_form():
    for eta in (0.1, 1.0, 4.0):
        for order in (1.2, 2.0, 8.0):
            found = minimize_scalar(
                lambda u, eta=eta, order=order: -float(binary_divergence(eta, order, u)),
                bounds=(0, eta),
                method="bounded",
                options={"xatol": 1e-9},
            )
            claimed = bounded_range_divergence(eta, np.array([order]))[0]
            assert claimed == pytest.approx(-found.fun, rel=1e-10, abs=0)


def test_bounded_range_is_at_most_eta_squared_over_eight_and_tends_to_it():
    for eta in COSTS:
        values = bounded_range_divergence(eta, ORDERS)
        assert np.all(values <= ORDERS * eta**2 / 8)
        assert np.all(values <= eta)
    small = bounded_range_divergence(1e-4, ORDERS[:6])
    np.testing.assert_allclose(small, ORDERS[:6] * 1e-8 / 8, rtol=1e-6)


@pytest.mark.parametrize("eta", [0.05, 0.4, 1.0, 3.0, 20.0])
def test_bounded_range_tends_to_the_divergence_of_proposition_4(eta):
    """Dong, Durfee, Rogers (2020), Proposition 4: the tight KL divergence."""
    ratio = eta / -math.expm1(-eta)
    kl = ratio - 1 - math.log(ratio)
    assert bounded_range_divergence(eta, np.array([1 + 1e-6]))[0] == pytest.approx(
        kl, rel=1e-4, abs=0
    )


@pytest.mark.parametrize("epsilon", COSTS)
@pytest.mark.parametrize("order", ORDERS)
def test_pure_divergence_is_that_of_randomised_response(epsilon, order):
    claimed = float(pure_divergence(epsilon, np.array([order]))[0])
    with mp.workdps(80):
        e, a = mp.mpf(epsilon), mp.mpf(order)
        moment = (mp.exp(a * e) + mp.exp((1 - a) * e)) / (1 + mp.exp(e))
        exact = mp.log(moment) / (a - 1)
        assert claimed >= exact * (1 - mp.mpf(10) ** -15)
        assert claimed <= exact * (1 + 1e-13 * (1 + 1 / (order - 1)))


def test_divergences_add_up():
    parts = Parts(0.3, 0.4, ((0.1, 7), (0.2, 2)), ((0.05, 3),))
    expected = ORDERS * 0.125
    expected = expected + 7 * bounded_range_divergence(0.1, ORDERS)
    expected = expected + 2 * bounded_range_divergence(0.2, ORDERS)
    expected = expected + 3 * pure_divergence(0.05, ORDERS)
    np.testing.assert_allclose(renyi_divergence(parts, ORDERS), expected, rtol=1e-14)


def test_many_small_steps_cost_what_zcdp_says():
    many = RenyiCurve(Parts(bounded_range=((1e-3, 40_000),))).epsilon_at(1e-6)
    rho = 40_000 * 1e-6 / 8
    line = RenyiCurve(Parts(discrete_gaussian=math.sqrt(2 * rho))).epsilon_at(1e-6)
    assert many == pytest.approx(line, rel=1e-4, abs=0)
    assert many <= line
    # The embedding bound is better by what the exact Gaussian curve gains over zCDP, nearly.
    best = compose([BoundedRange(1e-3, 40_000)], delta=1e-6)
    assert best.method == "embedding"
    assert gaussian_epsilon(math.sqrt(2 * rho), 1e-6) < best.epsilon < 0.94 * many


def test_order_search_finds_the_minimum():
    """A fine brute-force grid of orders does no better than the search, up to 1e-9."""
    orders = 1 + np.exp(np.linspace(math.log(1e-4), math.log(1e10), 200_001))
    for parts in (
        Parts(gaussian=0.2, bounded_range=((0.02, 50),)),
        Parts(pure=((0.1, 3),)),
        Parts(discrete_gaussian=1e-4),
        Parts(discrete_gaussian=30.0, pure=((5.0, 2),)),
    ):
        for delta in (1e-12, 1e-6, 0.1):
            prefactor = (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
            values = renyi_divergence(parts, orders) + (prefactor - math.log(delta)) / (orders - 1)
            found = RenyiCurve(parts).epsilon_at(delta)
            assert found <= max(0.0, values.min()) * (1 + 1e-9)


def test_round_trips():
    for events in (
        [Pure(0.1), BoundedRange(0.3, 4)],
        [DiscreteGaussian(0.5), BoundedRange(0.02, 300)],
        [Gaussian(2.0), Pure(1.0)],
    ):
        for delta in (1e-10, 1e-5):
            epsilon = compose(events, delta=delta).epsilon
            back = compose(events, epsilon=epsilon).delta
            assert back == pytest.approx(delta, rel=1e-6, abs=0)
