"""DP-SGD: its accountant beside known curves and others, its gradients, samples and noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.special import ndtr

from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov_lab.rivals import bounds, dpsgd
from hushcov_lab.rivals.dpsgd import BOUNDS_ALONE, TUNED, Training, sum_gradients, train
from hushcov_lab.rivals.subsampled import bound_delta, calibrate_steps, grid, step_masses
from statistics_helpers import FALSE_ALARM, variance_p_value


def exact_step(epsilon: float, noise: float, rate: float, adds: bool) -> float:
    """Return delta of one step; outputs above (or below) one point favour the record."""
    cut = noise**2 * math.log((math.exp(-epsilon if adds else epsilon) - 1 + rate) / rate) + 0.5
    sign = 1 if adds else -1
    without = ndtr(sign * cut / noise)
    sampled = (1 - rate) * without + rate * ndtr(sign * (cut - 1) / noise)
    p, q = (without, sampled) if adds else (sampled, without)
    return float(p - math.exp(epsilon) * q)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.3), (2.0, 0.5), (5.0, 1.0)])
def test_the_grid_keeps_the_curve_of_a_step(noise, rate, adds):
    losses = grid(0.01, 8.0)
    law = step_masses(losses, noise, rate, adds)
    assert law.sum() == pytest.approx(1, rel=1e-9, abs=0)
    # Nothing exceeds this loss where a record is added to a sample that may leave it out.
    most = -math.log1p(-rate) if adds and rate < 1 else math.inf
    for epsilon in losses[(losses > 0.02) & (losses < min(1.5, most))][::10]:
        claimed = float(law @ np.maximum(-np.expm1(epsilon - losses), 0))
        exact = exact_step(float(epsilon), noise, rate, adds)
        assert claimed == pytest.approx(exact, rel=1e-6, abs=1e-13)
        between = float(epsilon) + 0.004
        claimed = float(law @ np.maximum(-np.expm1(between - losses), 0))
        assert claimed >= exact_step(between, noise, rate, adds) - 1e-15


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_steps_that_see_every_record_are_one_gaussian_mechanism(epsilon):
    delta = 1e-9
    exact = math.sqrt(50 / (calibrate_gaussian(epsilon, delta) ** 2 - 0.01**2))
    found = calibrate_steps(epsilon, delta, 1.0, 50, 0.01)
    assert exact <= found <= 1.001 * exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("how", [TUNED, replace(TUNED, rate=0.05, steps=400)])
def test_other_accountants_find_the_epsilon_that_was_asked_for(epsilon, how):
    delta, beside = 1e-8, 0.3 * calibrate_gaussian(epsilon, 1e-8)
    noise = calibrate_steps(epsilon, delta, how.rate, how.steps, beside)

    def spent(accountant, factor: float = 1.0) -> float:
        step = dp_event.PoissonSampledDpEvent(how.rate, dp_event.GaussianDpEvent(factor * noise))
        steps = dp_event.SelfComposedDpEvent(step, how.steps)
        accountant.compose(dp_event.ComposedDpEvent([steps, dp_event.GaussianDpEvent(1 / beside)]))
        return float(accountant.get_epsilon(delta))

    exact = spent(PLDAccountant(value_discretization_interval=2e-5 * min(epsilon, 1.0)))
    assert exact == pytest.approx(epsilon, rel=2e-3)
    assert exact <= epsilon * (1 + 2e-4)  # dp-accounting rounds up, too
    assert epsilon < spent(RdpAccountant()) < 1.15 * epsilon
    less = bound_delta(
        epsilon, delta, noise=0.99 * noise, rate=how.rate, steps=how.steps, beside=beside
    )
    assert less > delta


def test_no_noise_is_enough_where_the_budget_is_spent():
    spent = calibrate_gaussian(1.0, 1e-6)
    with pytest.raises(ParameterError, match="has spent as much"):
        calibrate_steps(1.0, 1e-6, 0.1, 10, spent)


@pytest.mark.parametrize("seed", range(20))
def test_one_record_moves_a_sum_of_gradients_by_no_more_than_the_clip(seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(30), rng.standard_normal((30, 4))])
    rows[-1, 1:] = rng.choice([0.0, 1.0, -1e100, 1e100, 1e-30], 4)
    residual = rng.standard_normal(30)
    residual[-1] = rng.choice([0.0, 0.1, 1e100, -1e100])
    moved = sum_gradients(rows, residual, 2.0) - sum_gradients(rows[:-1], residual[:-1], 2.0)
    assert np.linalg.norm(moved) <= 2.0 * (1 + 1e-12)
    small = np.full(30, 1e-3)
    np.testing.assert_allclose(sum_gradients(rows[:-1], small[:-1], 2.0), rows[:-1].T @ small[:-1])


ONE_STEP = Training(rate=0.3, steps=1, learning_rate=1.0, momentum=0.0, clip=0.5)


def test_noise_and_samples_are_those_that_are_charged():
    rng = np.random.default_rng(2)
    n, noise = 200, 4.0
    rows = np.ones((n, 1))
    still = [train(rows, np.zeros(n), ONE_STEP, noise, n, rng)[0] for _ in range(6000)]
    deviation = noise * 0.5 / (0.3 * n)
    assert variance_p_value(np.array(still), deviation) > FALSE_ALARM
    assert variance_p_value(np.array(still), 1.15 * deviation) < FALSE_ALARM
    moved = [train(rows, np.full(n, 9.0), ONE_STEP, 0.0, n, rng)[0] for _ in range(2000)]
    sizes = np.rint(np.array(moved) * 0.3 * n / 0.5).astype(int)  # of samples of clipped gradients
    total = int(sizes.sum())
    assert stats.binomtest(total, 2000 * n, 0.3).pvalue > FALSE_ALARM
    assert variance_p_value(sizes - 0.3 * n, math.sqrt(0.21 * n)) > FALSE_ALARM


def test_momentum_decay_and_averaging():
    """Without noise, of one record that is always in the sample: gradient w - 1."""
    how = Training(rate=1.0, steps=4, learning_rate=0.5, momentum=0.5, clip=100.0)
    ones = np.ones((1, 1))

    def weights(how: Training) -> list[float]:
        w = v = 0.0
        found = []
        for step in range(how.steps):
            v = how.momentum * v + (w - 1)
            w -= how.learning_rate * ((1 - step / how.steps) if how.decays else 1) * v
            found.append(w)
        return found

    for each in (how, replace(how, decays=True)):
        last = train(ones, np.ones(1), each, 0.0, 1.0, np.random.default_rng(0))
        assert last[0] == pytest.approx(weights(each)[-1])
        half = replace(each, averaged=0.5)
        mean = train(ones, np.ones(1), half, 0.0, 1.0, np.random.default_rng(0))
        assert mean[0] == pytest.approx(np.mean(weights(each)[2:]))


@pytest.mark.parametrize("n", [1, 8_000])
def test_scaled_by_bounds_alone(monkeypatch, n):
    """It is about least squares where little noise is needed, and pays for the count."""
    called, inner = [], dpsgd.calibrate_steps
    monkeypatch.setattr(dpsgd, "calibrate_steps", lambda *args: called.append(args) or inner(*args))
    rng = np.random.default_rng(1)
    X = rng.uniform([0.0, -9.0, 7.0], [1.0, 1.0, 7.0], (n, 3))
    y = 3 + X @ [1.0, 0.5, 0.0] + 0.1 * rng.standard_normal(n)
    public = bounds.ColumnBounds(np.array([0.0, -9.0, 7.0, -2.0]), np.array([1.0, 1.0, 7.0, 5.0]))
    found = dpsgd.fit_between_bounds(X, y, epsilon=30.0, delta=1e-9, bounds=public, rng=rng)
    assert np.isfinite([found.intercept, *found.coefficients]).all()
    assert found.coefficients[2] == 0
    ((epsilon, delta, rate, steps, beside),) = called
    assert (epsilon, delta, rate, steps) == (30.0, 1e-9, BOUNDS_ALONE.rate, BOUNDS_ALONE.steps)
    assert beside == pytest.approx(bounds.total_mu(30.0, 1e-9) * math.sqrt(0.005))
    if n > 1:
        assert np.mean((y - found.predict(X)) ** 2) < 0.02 * y.var()
