"""The exact Gaussian curve and the zCDP conversion against 60-digit arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import brentq

from hushcov.accounting import Gaussian, all_bounds, calibrate_gaussian, calibrate_zcdp, compose
from hushcov.accounting.composition import (
    ROUNDING,
    RenyiCurve,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
)
from hushcov.accounting.events import Parts

RANDOM = np.random.default_rng(20240601)
# mu over nine decades, epsilon such that delta runs from about 1 to about 1e-300.
CURVE_POINTS = [
    (mu, max(0.0, mu * mu / 2 + z * mu))
    for mu in 10.0 ** RANDOM.uniform(-6, 3, 60)
    for z in RANDOM.uniform(-3, 37, 4)
] + [(0.5 - 1e-12, 0.4), (0.5, 0.4), (0.5, 0.0), (1e-6, 0.0)]


def exact_log_delta(mu, epsilon):
    with mp.workdps(60 + int(epsilon)):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return mp.log(mp.ncdf(near) - mp.exp(epsilon) * mp.ncdf(far))


def test_check_values():
    mu = calibrate_gaussian(1.0, 1e-6)
    assert mu == pytest.approx(0.236704, abs=5e-7)
    assert 1 / mu == pytest.approx(4.224679, abs=5e-7)
    assert mu**2 / 2 == pytest.approx(0.028014, abs=5e-7)
    assert calibrate_zcdp(1.0, 1e-6) == pytest.approx(0.024356, abs=5e-7)


@pytest.mark.parametrize(("mu", "epsilon"), [p for p in CURVE_POINTS if p[1] < 1000])
def test_curve_agrees_with_high_precision(mu, epsilon):
    error = float(gaussian_log_delta(mu, epsilon) - exact_log_delta(mu, epsilon))
    assert abs(error) < ROUNDING * (1 + mu) / 10


def test_delta_is_never_below_the_truth_nor_zero():
    assert gaussian_delta(0.01, 50.0) > 0
    for mu, epsilon in CURVE_POINTS[::5]:
        if epsilon < 100:
            assert gaussian_delta(mu, epsilon) >= mp.exp(exact_log_delta(mu, epsilon))


def test_round_trips():
    for mu in 10.0 ** RANDOM.uniform(-4, 1.5, 40):
        for delta in 10.0 ** RANDOM.uniform(-30, -1, 5):
            epsilon = gaussian_epsilon(mu, delta)
            assert gaussian_delta(mu, epsilon) <= delta
            if epsilon > 0:
                assert gaussian_delta(mu, epsilon) >= delta * (1 - 1e-7)


def test_extremes_fall_on_the_private_side():
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_delta(1e5, 1.0) == 1.0
    assert gaussian_epsilon(1e5, 1e-6) == math.inf
    assert gaussian_epsilon(1e-9, 1e-6) == 0.0
    # Renyi still bounds what the exact curve cannot resolve.
    assert compose([Gaussian(1e5)], delta=1e-6).method == "zcdp"


def test_gaussians_compose_to_one():
    mus = RANDOM.uniform(0.01, 0.2, 30)
    together = compose([Gaussian(mu) for mu in mus], delta=1e-6)
    assert together.method == "gaussian"
    alone = compose([Gaussian(float(np.linalg.norm(mus)))], delta=1e-6)
    assert together.epsilon == pytest.approx(alone.epsilon, rel=1e-12, abs=0)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.024356, 0.5, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_zcdp_conversion_agrees_with_high_precision(rho, delta):
    """Canonne, Kamath, Steinke (2020), Corollary 13, with the order solved for by mpmath."""
    curve = RenyiCurve(Parts(discrete_gaussian=math.sqrt(2 * rho)))
    epsilon = curve.epsilon_at(delta)

    def slope(order):
        return (2 * order - 1) * rho - epsilon + math.log1p(-1 / order)

    order = mp.mpf(brentq(slope, 1 + 1e-12, 1e12, xtol=1e-14, rtol=1e-14))
    with mp.workdps(40):
        log_delta = (order - 1) * (order * rho - epsilon)
        log_delta += (order - 1) * mp.log1p(-1 / order) - mp.log(order)
    # The stationary order is the best one: nothing below it was claimed, and little above.
    assert log_delta <= math.log(delta)
    if epsilon == 0:
        return
    assert log_delta == pytest.approx(math.log(delta), abs=1e-7)
    assert curve.delta_at(epsilon) == pytest.approx(delta, rel=1e-7, abs=0)


def test_the_exact_curve_beats_zcdp_and_both_are_listed():
    for mu in (0.01, 0.3, 4.0):
        bounds = all_bounds([Gaussian(mu)], delta=1e-6)
        assert [bound.method for bound in bounds] == ["gaussian", "zcdp"]
        assert bounds[0].epsilon < bounds[1].epsilon < 1.3 * bounds[0].epsilon
