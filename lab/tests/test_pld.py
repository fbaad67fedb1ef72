"""Privacy-loss distributions: exact where laws are known, and close to what the accountant says."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from hushcov.kernel.accounting import BoundedRange, Gaussian, compose
from hushcov.kernel.accounting.events import Parts, readings
from hushcov_lab.pld import (
    FFT_DELTA_PER_STEP,
    LossDistributionCurve,
    _bounded_range_masses,
    _on_grid,
)

DELTA = 1e-6


@pytest.mark.parametrize("steps", [1, 3, 20, 200, 2000])
def test_fourier_errors_are_a_hundredth_of_their_allowance(steps):
    """Composed randomised response is a binomial sum, known to 40 digits."""
    unit = mp.mpf(1) / mp.mpf(10) / mp.sqrt(steps)
    curve = LossDistributionCurve(Parts(pure=((float(unit), steps),)))
    allowance = FFT_DELTA_PER_STEP * (steps + 1)
    with mp.workdps(40):
        unit = mp.mpf(float(unit))
        p = mp.exp(unit) / (1 + mp.exp(unit))
        for z in (0.0, 1.0, 3.0, 5.0, 6.5):
            epsilon = min(0.005 + 0.1 * z, float(steps * unit))
            exact = mp.fsum(
                mp.binomial(steps, j)
                * p**j
                * (1 - p) ** (steps - j)
                * -mp.expm1(epsilon - (2 * j - steps) * unit)
                for j in range(steps + 1)
                if (2 * j - steps) * unit > epsilon
            )
            assert curve.delta_at(epsilon) - allowance >= exact - allowance / 100


@pytest.mark.parametrize("interval", [0.003, 0.07, 0.2, 1.0])
@pytest.mark.parametrize("eta", [0.01, 0.21, 1.0])
def test_the_grid_keeps_the_curve_of_a_bounded_range_step(eta, interval):
    """Exact at the grid's points, and both laws of the pair keep their mass."""
    cells = math.ceil(eta / interval)
    edges = interval * np.arange(-cells, cells + 1)
    law = _on_grid(_bounded_range_masses(eta, edges), edges)
    assert law.sum() == pytest.approx(1, rel=1e-14, abs=0)
    assert law @ np.exp(-edges) == pytest.approx(1, rel=1e-14, abs=0)
    for epsilon in edges:
        claimed = law @ np.maximum(-np.expm1(epsilon - edges), 0)
        inside = min(max(epsilon, -eta), eta)
        exact = (1 - math.exp((inside - eta) / 2)) ** 2 / -math.expm1(-eta)
        if epsilon < -eta:
            exact = -math.expm1(epsilon)
        assert claimed == pytest.approx(exact, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("selected", [(0.02, 200), (0.05, 30)])
@pytest.mark.parametrize("mu", [0.1, 0.3])
def test_the_accountant_is_close_to_them(mu, selected):
    """Both are bounds on the same compositions; neither is far below the other."""
    events = [Gaussian(mu), BoundedRange(*selected)]
    found = LossDistributionCurve(readings(events)[0]).epsilon_at(DELTA)
    assert compose(events, delta=DELTA).epsilon == pytest.approx(found, rel=0.15, abs=0)
