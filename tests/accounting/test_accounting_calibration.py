"""Calibration errs on the private side, by very little."""

import math

import numpy as np
import pytest

from hushcov.accounting import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
    calibrate,
    calibrate_gaussian,
    calibrate_zcdp,
    compose,
)
from hushcov.exceptions import ParameterError, PrivacyConditionError

RANDOM = np.random.default_rng(11)
BUDGETS = [
    (float(10 ** RANDOM.uniform(-3, 1.5)), float(10 ** RANDOM.uniform(-20, -1))) for _ in range(40)
]
FAMILIES = {
    "gaussians": lambda noise: [Gaussian(1 / noise), Gaussian(0.5 / noise)],
    "discrete": lambda noise: [DiscreteGaussian(1 / noise)],
    "selection": lambda noise: [BoundedRange(2 / noise, 20), DiscreteGaussian(3 / noise)],
    "slack": lambda noise: [BoundedRange(2 / noise, 20), TotalVariation(1e-9)],
    "laplace": lambda noise: [OneShotLaplace(1.0, noise, 900, 5000, 1e-9), Gaussian(1 / noise)],
    "pure": lambda noise: [Pure(1 / noise)],
}


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_is_certified_and_cannot_grow(epsilon, delta):
    mu = calibrate_gaussian(epsilon, delta)
    assert compose([Gaussian(mu)], delta=delta).epsilon <= epsilon
    assert compose([Gaussian(mu)], epsilon=epsilon).delta <= delta
    assert compose([Gaussian(mu * (1 + 1e-8))], epsilon=epsilon).delta > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_zcdp_is_certified_and_cannot_grow(epsilon, delta):
    mu = math.sqrt(2 * calibrate_zcdp(epsilon, delta))
    assert compose([DiscreteGaussian(mu * (1 - 1e-15))], delta=delta).epsilon <= epsilon
    assert compose([DiscreteGaussian(mu * (1 + 1e-8))], epsilon=epsilon).delta > delta
    assert mu <= calibrate_gaussian(epsilon, delta)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-7), (8.0, 1e-5)])
def test_families_are_certified_and_cannot_shrink(name, epsilon, delta):
    family = FAMILIES[name]
    noise = calibrate(family, epsilon, delta, (1e-3, 1e7))
    assert compose(family(noise), delta=delta).epsilon <= epsilon
    assert compose(family(noise), epsilon=epsilon).delta <= delta
    less = compose(family(noise * (1 - 1e-6)), delta=delta)
    assert less.epsilon > epsilon


def test_one_gaussian_agrees_with_its_own_calibration():
    noise = calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, (1.0, 10.0))
    assert noise == pytest.approx(1 / calibrate_gaussian(1.0, 1e-6), rel=1e-8, abs=0)


def test_a_private_lower_end_is_returned_as_it_is():
    assert calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, (5.0, 10.0)) == 5.0


def test_the_answer_is_private_even_if_the_family_is_not_monotone():
    def family(noise):
        return [Gaussian((1.5 + math.sin(20 * noise)) / noise)]

    noise = calibrate(family, 1.0, 1e-6, (1.0, 50.0))
    assert compose(family(noise), delta=1e-6).epsilon <= 1.0


class TestRefusals:
    @pytest.mark.parametrize("function", [calibrate_gaussian, calibrate_zcdp])
    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, None, "1", True])
    def test_bad_budgets(self, function, bad):
        with pytest.raises(ParameterError, match="epsilon"):
            function(bad, 1e-6)
        with pytest.raises(ParameterError, match="delta"):
            function(1.0, bad)

    @pytest.mark.parametrize("delta", [1.0, 1.5])
    def test_delta_of_one_or_more(self, delta):
        with pytest.raises(ParameterError, match="delta"):
            calibrate_gaussian(1.0, delta)

    @pytest.mark.parametrize("bracket", [(0, 1), (2, 1), (1, 1), (1, math.inf), (math.nan, 1)])
    def test_bad_brackets(self, bracket):
        with pytest.raises(ParameterError, match="bracket"):
            calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, bracket)

    def test_a_bracket_without_a_private_end(self):
        with pytest.raises(PrivacyConditionError, match=r"up to 2\.0"):
            calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, (1.0, 2.0))

    def test_events_nothing_can_bound_are_not_private_at_any_noise(self):
        with pytest.raises(PrivacyConditionError):
            calibrate(lambda x: [Gaussian(1 / x), TotalVariation(1e-3)], 1.0, 1e-6, (1.0, 100.0))

    def test_budgets_below_all_arithmetic(self):
        with pytest.raises(PrivacyConditionError, match="too small"):
            calibrate_gaussian(1.0, 1e-320)
