"""Composition: the theorem profile, the choice of the best bound, and what cannot be bounded."""

import dataclasses
import math

import numpy as np
import pytest

from hushcov.accounting import (
    Approximate,
    Bound,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
    all_bounds,
    compose,
)
from hushcov.exceptions import ParameterError, PrivacyConditionError


@pytest.mark.parametrize("epsilon", [1.0, 0.37, 1e-3])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 3e-11])
@pytest.mark.parametrize("levels", [11, 17, 40])
def test_theorem_profile_adds_up_exactly(epsilon, delta, levels):
    selection = [Approximate(epsilon / (8 * levels), delta / (32 * levels))] * levels
    bound = compose([*selection, Approximate(epsilon / 4, delta / 8)])
    assert bound.method == "basic"
    assert bound.epsilon == pytest.approx(3 * epsilon / 8, rel=1e-15, abs=0)
    assert bound.delta == pytest.approx(5 * delta / 32, rel=1e-15, abs=0)


def test_theorem_profile_from_its_noise_scales():
    """The same from the Laplace scales b_ell of the paper instead of their targets."""
    epsilon, delta, levels = 1.0, 1e-6, 12
    target = (epsilon / (8 * levels), delta / (32 * levels))
    events = []
    for level in range(levels):
        g, s, m = 1e-3 / 2**level, 2000 * 2**level, 10**7
        scale = 8 * g * math.sqrt(s * math.log(m / target[1])) / target[0]
        events.append(OneShotLaplace(g, scale, s, m, target[1]))
    bound = compose([*events, Approximate(epsilon / 4, delta / 8)])
    assert bound.epsilon == pytest.approx(3 * epsilon / 8, rel=1e-14, abs=0)
    assert bound.delta == pytest.approx(5 * delta / 32, rel=1e-14, abs=0)


def test_one_shot_laplace_is_read_by_whichever_bound_is_better():
    few = OneShotLaplace(1.0, 1000.0, 3, 100, 1e-9)  # 3 < 16 log(M / delta')
    assert compose([few]) == Bound(few.pure_epsilon, 0.0, "basic")
    many = dataclasses.replace(few, selected=50_000, candidates=10**6, scale=1e6)
    assert compose([many]) == Bound(many.certified_epsilon, 1e-9, "basic")
    # With no delta to spend only the pure reading is left.
    assert compose([many], delta=0) == Bound(many.pure_epsilon, 0.0, "basic")
    assert compose([many], delta=1e-6).epsilon <= many.certified_epsilon


def test_pure_events_report_the_delta_they_spend_not_the_one_allowed():
    assert Bound(0.75, 0.0, "basic") in all_bounds([Pure(0.5), BoundedRange(0.125, 2)], delta=1e-6)


def test_basic_composition_takes_all_gaussians_as_one():
    bounds = {
        b.method: b for b in all_bounds([Gaussian(0.3), Pure(0.2), Gaussian(0.4)], delta=1e-6)
    }
    assert bounds["basic"].epsilon == pytest.approx(
        0.2 + compose([Gaussian(0.5)], delta=1e-6).epsilon, rel=1e-12, abs=0
    )
    assert set(bounds) == {"basic", "rdp"}


def test_the_best_bound_comes_first():
    events = [Gaussian(0.2), BoundedRange(0.05, 40), Approximate(0.05, 1e-8)]
    epsilons = [bound.epsilon for bound in all_bounds(events, delta=1e-6)]
    assert epsilons == sorted(epsilons)
    assert compose(events, delta=1e-6) == all_bounds(events, delta=1e-6)[0]
    deltas = [bound.delta for bound in all_bounds(events, epsilon=0.9)]
    assert deltas == sorted(deltas)


def test_discrete_gaussians_have_no_curve_but_zcdp():
    bounds = all_bounds([DiscreteGaussian(0.3), Gaussian(0.4)], delta=1e-6)
    assert [b.method for b in bounds] == ["zcdp"]
    assert [b.method for b in all_bounds([DiscreteGaussian(0.3), Pure(0.4)], delta=1e-6)] == ["rdp"]
    continuous = {b.method: b.epsilon for b in all_bounds([Gaussian(0.5)], delta=1e-6)}
    assert bounds[0].epsilon == pytest.approx(continuous["zcdp"], rel=1e-12, abs=0)


@pytest.mark.parametrize("distance", [1e-12, 1e-8, 1e-7])
def test_slack_at_a_given_delta_is_charged_at_the_final_epsilon(distance):
    mu, delta = 0.3, 1e-6
    bound = compose([Gaussian(mu), TotalVariation(distance)], delta=delta)
    slack = (1 + math.exp(bound.epsilon)) * distance
    exact = compose([Gaussian(mu)], epsilon=bound.epsilon).delta
    assert exact + slack <= delta * (1 + 1e-14)
    assert exact + slack == pytest.approx(delta, rel=1e-7, abs=0)
    assert bound.epsilon > compose([Gaussian(mu)], delta=delta).epsilon


def test_slack_alone_is_a_delta():
    assert compose([TotalVariation(1e-9)]) == Bound(0.0, 2e-9, "basic")
    assert compose([TotalVariation(1e-9)], delta=1e-6) == Bound(0.0, 2e-9, "basic")


def test_every_method_is_monotone_in_the_noise():
    for scale in (0.5, 0.9, 0.99):
        more = [Gaussian(0.3), BoundedRange(0.05, 30), Pure(0.1)]
        less = [Gaussian(0.3 * scale), BoundedRange(0.05 * scale, 30), Pure(0.1 * scale)]
        cheap = {b.method: b.epsilon for b in all_bounds(less, delta=1e-6)}
        for bound in all_bounds(more, delta=1e-6):
            assert cheap[bound.method] < bound.epsilon


class TestRefusals:
    def test_unknown_events_before_anything_else(self):
        with pytest.raises(PrivacyConditionError, match="a float"):
            compose([0.3], delta=math.nan)

    @pytest.mark.parametrize(
        "events",
        [
            [OneShotLaplace(1e300, 1e-300, 2, 10)],
            [Gaussian(1e200)],
            [BoundedRange(1e300, 10**10)],
            [Approximate(1.0, 0.6), Approximate(1.0, 0.6)],
            [TotalVariation(0.6)],
        ],
    )
    def test_what_nothing_bounds(self, events):
        with pytest.raises(PrivacyConditionError, match="no finite epsilon"):
            compose(events, delta=1e-6)

    def test_a_delta_already_spent(self):
        with pytest.raises(PrivacyConditionError, match="delta 2e-06"):
            compose([Approximate(0.1, 2e-6)], delta=1e-6)
        with pytest.raises(PrivacyConditionError, match="alone cost"):
            compose([Gaussian(0.1), TotalVariation(6e-7)], delta=1e-6)

    def test_an_epsilon_too_small(self):
        with pytest.raises(PrivacyConditionError, match=r"epsilon = 0\.5"):
            compose([Pure(400.0)], epsilon=0.5)

    def test_gaussians_need_a_target(self):
        with pytest.raises(PrivacyConditionError, match="give delta"):
            compose([Gaussian(0.1)])

    @pytest.mark.parametrize(
        "target",
        [
            {"delta": math.nan},
            {"delta": -1e-9},
            {"delta": 1.5},
            {"delta": "1e-6"},
            {"delta": True},
            {"epsilon": math.nan},
            {"epsilon": math.inf},
            {"epsilon": -1.0},
            {"epsilon": 1.0, "delta": 1e-6},
        ],
    )
    def test_bad_targets(self, target):
        with pytest.raises(ParameterError):
            compose([Pure(0.1)], **target)

    @pytest.mark.parametrize("events", [[], (), None, Pure(0.1)], ids=repr)
    def test_no_events(self, events):
        with pytest.raises(ParameterError, match="events"):
            compose(events)

    def test_huge_events_fall_back_to_the_bounds_that_hold(self):
        assert compose([Pure(5000.0)], delta=1e-6).epsilon <= 5000
        # The last is beyond the exact Gaussian curve.
        for count, methods in (
            (10**7, ["embedding", "rdp", "basic"]),
            (10**16, ["rdp", "basic"]),
        ):
            bounds = all_bounds([BoundedRange(1e-3, count)], delta=1e-6)
            assert [bound.method for bound in bounds] == methods


def test_bounds_are_plain_frozen_numbers():
    for events in ([Gaussian(np.float64(0.1)), Pure(0.1)], [BoundedRange(np.float32(0.1), 3)]):
        for bound in all_bounds(events, delta=1e-6):
            assert type(bound.epsilon) is float
            assert type(bound.delta) is float
            with pytest.raises(dataclasses.FrozenInstanceError):
                bound.epsilon = 0.0
