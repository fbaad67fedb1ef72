"""Composition: exact curves against high precision, the best bound, and calibrated noise."""

from __future__ import annotations

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq

from hushcov import calibration
from hushcov.calibration import calibrate, calibrate_gaussian, calibrate_near, calibrate_zcdp
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting import (
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
from hushcov.kernel.accounting.composition import (
    ROUNDING,
    RenyiCurve,
    bounded_range_divergence,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    pure_divergence,
    root,
)
from hushcov.kernel.accounting.events import Parts, readings

# The exact Gaussian curve and the zCDP conversion, against 60-digit arithmetic.


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


def test_extremes_fall_on_the_private_side():
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_delta(1e5, 1.0) == 1.0
    assert gaussian_epsilon(1e5, 1e-6) == math.inf
    assert gaussian_epsilon(1e-9, 1e-6) == 0.0
    # Renyi still bounds what the exact curve cannot resolve.
    assert compose([Gaussian(1e5)], delta=1e-6).method == "zcdp"


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


# Renyi divergences of pure and bounded-range events, against direct maximisation.


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


# The theorem profile, the choice of the best bound, and what cannot be bounded.


@pytest.mark.parametrize("epsilon", [1.0, 0.37, 1e-3])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 3e-11])
@pytest.mark.parametrize("levels", [11, 17, 40])
def test_theorem_profile_adds_up_exactly(epsilon, delta, levels):
    selection = [Approximate(epsilon / (8 * levels), delta / (32 * levels))] * levels
    bound = compose([*selection, Approximate(epsilon / 4, delta / 8)])
    assert bound.method == "basic"
    assert bound.epsilon == pytest.approx(3 * epsilon / 8, rel=1e-15, abs=0)
    assert bound.delta == pytest.approx(5 * delta / 32, rel=1e-15, abs=0)


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


class TestRefusals:
    def test_unknown_events_before_anything_else(self):
        with pytest.raises(PrivacyConditionError, match="a float"):
            compose([0.3], delta=math.nan)

    @pytest.mark.parametrize(
        "events",
        [
            *([OneShotLaplace(1e300, 1e-300, 2, 10)], [Gaussian(1e200)]),
            *([BoundedRange(1e300, 10**10)], [Approximate(1.0, 0.6), Approximate(1.0, 0.6)]),
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
            *({"delta": math.nan}, {"delta": -1e-9}, {"delta": 1.5}, {"delta": "1e-6"}),
            *({"delta": True}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": -1.0}),
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
        for count, methods in ((10**7, ["embedding", "rdp", "basic"]), (10**16, ["rdp", "basic"])):
            bounds = all_bounds([BoundedRange(1e-3, count)], delta=1e-6)
            assert [bound.method for bound in bounds] == methods


# Calibration errs on the private side, by very little.


RNG = np.random.default_rng(11)
BUDGETS = [
    (float(10 ** RNG.uniform(-3, 1.5)), float(10 ** RNG.uniform(-20, -1))) for _ in range(40)
]
FAMILIES = {
    "gaussians": lambda noise: [Gaussian(1 / noise), Gaussian(0.5 / noise)],
    "discrete": lambda noise: [DiscreteGaussian(1 / noise)],
    "selection": lambda noise: [BoundedRange(2 / noise, 20), DiscreteGaussian(3 / noise)],
    "slack": lambda noise: [BoundedRange(2 / noise, 20), TotalVariation(1e-9)],
    "laplace": lambda noise: [OneShotLaplace(1.0, noise, 900, 5000, 1e-9), Gaussian(1 / noise)],
    "pure": lambda noise: [Pure(1 / noise)],
}


def test_gaussians_and_zcdp_are_certified_and_cannot_grow():
    for epsilon, delta in BUDGETS:
        mu = calibrate_gaussian(epsilon, delta)
        assert compose([Gaussian(mu)], delta=delta).epsilon <= epsilon
        assert compose([Gaussian(mu)], epsilon=epsilon).delta <= delta
        assert compose([Gaussian(mu * (1 + 1e-8))], epsilon=epsilon).delta > delta
        less = math.sqrt(2 * calibrate_zcdp(epsilon, delta))
        assert compose([DiscreteGaussian(less * (1 - 1e-15))], delta=delta).epsilon <= epsilon
        assert compose([DiscreteGaussian(less * (1 + 1e-8))], epsilon=epsilon).delta > delta
        assert less <= mu


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-7), (8.0, 1e-5)])
def test_families_are_certified_and_cannot_shrink(name, epsilon, delta):
    family = FAMILIES[name]
    noise = calibrate(family, epsilon, delta, (1e-3, 1e7))
    assert compose(family(noise), delta=delta).epsilon <= epsilon
    assert compose(family(noise), epsilon=epsilon).delta <= delta
    less = compose(family(noise * (1 - 1e-6)), delta=delta)
    assert less.epsilon > epsilon


def test_the_answer_is_private_even_if_the_family_is_not_monotone():
    def family(noise):
        return [Gaussian((1.5 + math.sin(20 * noise)) / noise)]

    noise = calibrate(family, 1.0, 1e-6, (1.0, 50.0))
    assert compose(family(noise), delta=1e-6).epsilon <= 1.0


class TestRefusedCalibrations:
    @pytest.mark.parametrize("function", [calibrate_gaussian, calibrate_zcdp])
    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, None, "1", True])
    def test_bad_budgets(self, function, bad):
        with pytest.raises(ParameterError, match="epsilon"):
            function(bad, 1e-6)
        with pytest.raises(ParameterError, match="delta"):
            function(1.0, bad)

    @pytest.mark.parametrize("bracket", [(0, 1), (2, 1), (1, 1), (1, math.inf), (math.nan, 1)])
    def test_bad_brackets(self, bracket):
        with pytest.raises(ParameterError, match="bracket"):
            calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, bracket)

    def test_a_bracket_without_a_private_end(self):
        with pytest.raises(PrivacyConditionError, match=r"up to 2\.0"):
            calibrate(lambda x: [Gaussian(1 / x)], 1.0, 1e-6, (1.0, 2.0))

    def test_budgets_below_all_arithmetic(self):
        with pytest.raises(PrivacyConditionError, match="too small"):
            calibrate_gaussian(1.0, 1e-320)


# Calibrations are those of plain bisection.


def mixed(noise):
    return (Gaussian(0.1), BoundedRange(0.02 / noise, 40), Gaussian(0.2 / noise))


def test_a_wrong_guess_is_found_out(monkeypatch):
    right = calibrate(mixed, 1.0, 1e-6, (0.5, 5.0))
    for wrong in (0.6, 4.0):  # too little noise, and too much

        def guess(*given, relative, wrong=wrong):
            guessed = relative == calibration._GUESS
            return math.log(wrong) if guessed else root(*given, relative=relative)

        monkeypatch.setattr(calibration, "root", guess)
        found = calibrate(mixed, 1.0, 1e-6, (0.5, 5.0))
        assert compose(mixed(found), delta=1e-6).epsilon <= 1.0
        assert found >= right


def test_a_calibration_looks_for_few_epsilons(monkeypatch):
    scale = calibrate(mixed, 1.0, 1e-6, (0.5, 5.0)) / 0.95
    asked, real = [], calibration.bound_at
    monkeypatch.setattr(calibration, "bound_at", lambda *by: asked.append(by) or real(*by))
    found = calibrate_near(lambda noise: mixed(scale * noise), 1.0, 1e-6)
    assert len(asked) <= 4  # at the upper end, and near the answer
    monkeypatch.setattr(
        calibration, "_guessed", lambda holds, _, *ends: calibration._bisect(holds, *ends)
    )
    assert calibrate_near(lambda noise: mixed(scale * noise), 1.0, 1e-6) == found


def test_roots_are_those_of_scipy_to_the_last_bit():
    generator, found = np.random.default_rng(0), 0
    for _ in range(400):
        zero, slope = generator.uniform(-2, 2), generator.normal()
        low, high = generator.uniform(-3, 3, 2)
        for function in (
            lambda x, a=slope, z=zero: math.exp(a * x) - math.exp(a * z),
            lambda x, a=slope, z=zero: (x - z) ** 3 + 0.1 * a,
            lambda x, z=zero: math.floor(5 * (x - z)) + 0.5,
        ):
            if function(low) * function(high) > 0:
                with pytest.raises(ValueError, match="one sign"):
                    root(function, low, high, relative=1e-9)
                continue
            found += 1
            for relative in (1e-9, 1e-14):
                other = brentq(function, low, high, rtol=relative, disp=False)
                assert root(function, low, high, relative=relative) == other
    assert found > 100


# Agreement with Google's dp-accounting, in both directions, on 120 random compositions.


DELTA = 1e-6
NeighborRel = library.NeighborRel


def random_events(seed):
    random = np.random.default_rng([7, seed])

    def sizes(most, low, high):
        return 10.0 ** random.uniform(low, high, random.integers(0, most + 1))

    events = [Gaussian(mu) for mu in sizes(3, -2, 0.3)]
    events += [Pure(epsilon) for epsilon in sizes(4, -2, 0)]
    events += [Approximate(epsilon, 1e-8) for epsilon in sizes(3, -2, 0)]
    events += [BoundedRange(eta, int(random.integers(1, 30))) for eta in sizes(2, -2, -0.5)]
    return events or [Pure(0.1)]


COMPOSITIONS = [random_events(seed) for seed in range(120)]
each_block = pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in range(2, 6))]
)


def spread(events):
    sizes = [1e-3]
    for event in events:
        match event:
            case Gaussian(mu):
                sizes.append(mu)
            case BoundedRange(eta, count):
                sizes.append(eta * math.sqrt(count))
            case _:
                sizes.append(event.epsilon)
    return math.hypot(*sizes)


def two_point(high, low, interval, mass_at_infinity, pessimistic):
    """Losses `high` and `low`, the pair being normalised, and a loss of infinity."""
    probability = (1 - math.exp(low)) / (1 - math.exp(low - high))
    law = {}
    for loss, p in ((high, probability), (low, 1 - probability)):
        cell = math.ceil(loss / interval) if pessimistic else math.floor(loss / interval)
        law[cell] = law.get(cell, 0.0) + (1 - mass_at_infinity) * p
    return library.PrivacyLossDistribution.create_from_rounded_probability(
        law, mass_at_infinity, interval, pessimistic
    )


def reference(events, interval, pessimistic):
    total = library.identity(interval, pessimistic)
    for event in events:
        count = 1
        match event:
            case Gaussian(mu):
                step = library.from_gaussian_mechanism(
                    1 / mu,
                    pessimistic_estimate=pessimistic,
                    use_connect_dots=pessimistic,
                    value_discretization_interval=interval,
                )
            case Pure(epsilon):
                step = two_point(epsilon, -epsilon, interval, 0.0, pessimistic)
            case Approximate(epsilon, delta):
                step = two_point(epsilon, -epsilon, interval, delta, pessimistic)
            case BoundedRange(eta, count):
                step = two_point(eta / 2, -eta / 2, interval, 0.0, pessimistic)
        for _ in range(count):
            # Truncation is a pessimistic device, so none of it where the truth is wanted.
            total = total.compose(step, 1e-15 if pessimistic else 0.0)
    return total


@each_block
def test_no_bound_claims_less_than_the_truth(block):
    for events in COMPOSITIONS[20 * block : 20 * block + 20]:
        truth = reference(events, spread(events) / 200, pessimistic=False)
        for bound in all_bounds(events, delta=DELTA):
            # 1e-12: the optimistic reference has Fourier errors too.
            assert truth.get_delta_for_epsilon(bound.epsilon) <= bound.delta + 1e-12, (
                bound,
                events,
            )
        for bound in all_bounds(events, epsilon=1.0):
            assert truth.get_delta_for_epsilon(1.0) <= bound.delta + 1e-12, (bound, events)


def test_renyi_agrees_with_the_rdp_accountant_both_ways():
    """Its orders are a grid (a fine one would take minutes), ours are optimised."""
    orders = 1 + np.exp(np.linspace(math.log(1e-1), math.log(1e5), 70))
    compared = 0
    for events in COMPOSITIONS:
        known = [event for event in events if isinstance(event, Gaussian | Pure)]
        if not known:
            continue
        accountant = RdpAccountant(orders, NeighborRel.REPLACE_ONE)
        for event in known:
            if isinstance(event, Gaussian):
                accountant.compose(dp_event.GaussianDpEvent(1 / event.mu))
            else:
                noise = 2 / (1 + math.exp(event.epsilon))
                accountant.compose(dp_event.RandomizedResponseDpEvent(noise, 2))
        theirs = accountant.get_epsilon(DELTA)
        ours = RenyiCurve(readings(known)[0]).epsilon_at(DELTA)
        assert theirs * 0.99 <= ours <= theirs * (1 + 1e-9)
        compared += 1
    assert compared > 90
