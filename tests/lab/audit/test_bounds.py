"""The bounds: exact where the law is known, and too large no more often than they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hushcov.accounting import gaussian_epsilon
from hushcov.lab.audit.run import (
    Promise,
    Rule,
    best_rule,
    epsilon_lower,
    measured_epsilon,
    mu_lower,
    rate_upper,
)

FALSE_ALARM = 1e-6
CURVE = Promise(4.0, 1e-5, gaussian=True)
RATES = Promise(1.0, 0.0, gaussian=False)


@pytest.mark.parametrize(
    ("errors", "runs"), [(0, 50), (1, 7), (13, 400), (399, 400), (5000, 10**5)]
)
@pytest.mark.parametrize("alarm_rate", [0.3, 1e-3, 1e-8])
def test_the_upper_rate_is_where_so_few_errors_have_the_alarm_rate(errors, runs, alarm_rate):
    upper = float(rate_upper(errors, runs, alarm_rate))
    assert stats.binom.cdf(errors, runs, upper) == pytest.approx(alarm_rate, rel=1e-6, abs=0)


def test_the_upper_rate_at_the_ends():
    assert rate_upper(400, 400, 1e-3) == 1
    assert float(rate_upper(0, 400, 1e-3)) == pytest.approx(1 - 1e-3 ** (1 / 400), rel=1e-12, abs=0)
    assert np.all(np.diff(rate_upper(np.arange(11), 10, 0.01)) >= 0)


@pytest.mark.parametrize("alarm_rate", [0.2, 1e-3])
@pytest.mark.parametrize("rate", [0.003, 0.2, 0.9])
def test_the_upper_rate_covers_every_true_rate(rate, alarm_rate):
    """Summed over all outcomes, not simulated."""
    errors = np.arange(101)
    missed = rate_upper(errors, 100, alarm_rate) < rate
    assert stats.binom.pmf(errors, 100, rate)[missed].sum() <= alarm_rate * (1 + 1e-9)


def test_epsilon_of_randomised_response_and_of_delta():
    for epsilon in (0.1, 1.0, 5.0):
        lie = np.asarray(1 / (1 + math.exp(epsilon)))
        assert float(epsilon_lower(lie, lie, 0.0)) == pytest.approx(epsilon, rel=1e-12, abs=0)
    # Giving a record away with probability delta, and saying nothing else, needs no epsilon.
    assert float(epsilon_lower(np.asarray(1e-9), np.asarray(0.99), 0.01)) < 0


def test_mu_of_a_gaussian_mechanism_at_any_threshold():
    for mu, threshold in ((0.5, -1.0), (0.5, 0.25), (3.0, 4.0)):
        positives, misses = stats.norm.sf(threshold), stats.norm.cdf(threshold - mu)
        assert float(mu_lower(positives, misses)) == pytest.approx(mu, rel=1e-9, abs=0)


def test_errors_of_a_rule_are_counted_on_the_right_side():
    first, second = np.array([0.0, 1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    assert Rule(1, 2.0, swapped=False).errors(first, second) == (1, 1)
    assert Rule(1, 2.0, swapped=True).errors(first, second) == (1, 1)
    assert Rule(1, 0.5, swapped=False).errors(first, second) == (3, 0)
    assert Rule(1, 0.5, swapped=True).errors(first, second) == (0, 3)
    assert Rule(-1, -2.5, swapped=False).errors(first, second) == (3, 2)


def test_the_best_rule_finds_the_side_that_gives_a_dataset_away():
    """A number that is only ever 1 on the first dataset: found with either sign."""
    first, second = np.tile([0.0, 1.0], 1000), np.zeros(2000)
    for sign in (1, -1):
        rule, _ = best_rule(sign * first, sign * second, RATES, 1e-3)
        assert rule.errors(sign * first, sign * second) == (0, 1000)
        assert measured_epsilon(rule, sign * first, sign * second, RATES, 1e-3) > 4


def test_the_best_rule_is_the_best_of_all_thresholds_of_a_discrete_statistic():
    generator = np.random.default_rng(0)
    first, second = generator.binomial(6, 0.3, 3000), generator.binomial(6, 0.5, 3000)
    rule, bound = best_rule(first * 1.0, second * 1.0, RATES, 1e-3)
    every = []
    for sign in (1, -1):
        for threshold in range(-7, 7):
            for swapped in (False, True):
                positives, misses = Rule(sign, threshold, swapped).errors(first, second)
                rates = (rate_upper(errors, 3000, 5e-4) for errors in (positives, misses))
                every.append(float(epsilon_lower(*rates, 0.0)))
    assert bound == pytest.approx(max(every), rel=1e-6, abs=0)
    assert measured_epsilon(rule, first, second, RATES, 1e-3) == pytest.approx(
        bound, rel=1e-6, abs=0
    )


def measured(draw, promise, alarm_rate, runs, audits, seed):
    """Lower bounds of independent audits; `draw(generator, size)` gives both samples."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(audits):
        chosen, counted = draw(generator, runs // 2), draw(generator, runs // 2)
        rule, _ = best_rule(*chosen, promise, alarm_rate)
        found.append(measured_epsilon(rule, *counted, promise, alarm_rate))
    return np.array(found)


def gaussian_mechanism(mu):
    return lambda generator, size: (
        generator.standard_normal(size),
        mu + generator.standard_normal(size),
    )


def randomised_response(epsilon):
    lie = 1 / (1 + math.exp(epsilon))
    return lambda generator, size: (
        1.0 * (generator.random(size) < lie),
        1.0 * (generator.random(size) >= lie),
    )


@pytest.mark.parametrize(
    ("draw", "true_epsilon", "promise"),
    [
        (gaussian_mechanism(0.9), gaussian_epsilon(0.9, 1e-5), CURVE),
        (randomised_response(1.0), 1.0, RATES),
    ],
    ids=["Gaussian curve", "error rates"],
)
def test_lower_bounds_are_too_large_no_more_often_than_they_say(draw, true_epsilon, promise):
    """1,000 audits at an alarm rate of 0.1. A false alarm of this test: once in a million."""
    found = measured(draw, promise, 0.1, 400, 1000, seed=1)
    assert np.sum(found > true_epsilon) <= stats.binom.isf(FALSE_ALARM, 1000, 0.1)
    # They are not just zero: the bound is used up to a good part.
    assert np.median(found) > 0.5 * true_epsilon


@pytest.mark.parametrize(
    ("draw", "promise"),
    [(gaussian_mechanism(1.85), CURVE), (randomised_response(1.6), RATES)],
    ids=["Gaussian curve", "error rates"],
)
def test_a_mechanism_that_leaks_more_than_it_promises_is_found(draw, promise):
    assert np.all(measured(draw, promise, FALSE_ALARM, 4000, 20, seed=2) > promise.epsilon)
