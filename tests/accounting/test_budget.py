"""The budget of a release: its time, its event, and adversaries by backward induction.

An adversary chooses each step by the loss so far, among all that the clock accepts, at its worst.
What it reaches is exact on a lattice of losses, and passes the promise of wrong clocks alone.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.calibration import calibrate_gaussian, full_budget, largest_mu
from hushcov.exceptions import BudgetError, ParameterError, PrivacyConditionError
from hushcov.kernel.accounting import (
    UNSPENT,
    Approximate,
    BoundedRange,
    Budget,
    Clocked,
    DiscreteGaussian,
    Gaussian,
    Neighbours,
    Pure,
    TotalVariation,
    all_bounds,
    compose,
    gaussian_delta,
)
from hushcov.kernel.accounting.composition import CLOCK, PROMISED, spent_adaptively
from hushcov.kernel.accounting.events import event_from_dict, event_to_dict
from hushcov.ledger import Ledger

EPSILON, DELTA = 1.0, 1e-6
WHOLE = full_budget(EPSILON, DELTA, selects=True)
(EVENT,) = WHOLE.certificate.events
WHOLE.expect(64, 0.3)
RATE, MU = WHOLE.rate, WHOLE.mu


def new_clock(whole=WHOLE, kind=Budget):
    """A budget of which nothing is spent, or one that counts too little."""
    clock = copy.deepcopy(whole)
    clock.__class__, clock.part = kind, "a step"
    return clock


def taken(clock):
    """What was spent of its time."""
    return math.fsum(time for _, time in clock.charges)


# What there is time for.


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
def test_gaussians_alone_may_fill_all_of_the_time(parts):
    clock, mu = new_clock(), MU * (1 - 1e-9) / math.sqrt(parts)
    for _ in range(parts):
        clock.gaussian(mu)
    assert clock.left < 1e-8 * MU**2
    with pytest.raises(PrivacyConditionError, match="no room left"):
        clock.gaussian(mu)


def test_no_more_than_the_time_is_ever_taken_whatever_the_rounding():
    clock, mu = new_clock(), MU / math.sqrt(10_000)
    for _ in range(9_999):
        clock.gaussian(mu)
    with pytest.raises(PrivacyConditionError):
        clock.gaussian(mu)
    assert taken(clock) <= MU**2 * (1 - 1e-12)


def test_steps_beyond_the_time_are_refused_and_take_nothing():
    clock, eta = new_clock(), 0.01
    most = clock.steps_left(eta)
    assert most > 10
    with pytest.raises(PrivacyConditionError, match="no room left"):
        clock.select(eta, most + 1)
    assert taken(clock) == 0
    assert clock.start_time > 0
    clock.select(eta, most)
    assert clock.steps_left(eta) == 0
    with pytest.raises(PrivacyConditionError):
        clock.select(eta, 1)
    with pytest.raises(PrivacyConditionError):  # its moment is infinite
        new_clock().select(1e3, 1)


def test_gaussians_leave_no_time_for_a_first_step_but_for_their_own():
    """Steps cannot begin where there is less time than being late takes."""
    clock = new_clock()
    start = math.log(1 / EVENT.late) / RATE
    clock.gaussian(math.sqrt(MU**2 - 0.99 * start))
    assert clock.steps_left(1e-9) == 0
    with pytest.raises(PrivacyConditionError):
        clock.select(1e-9, 1)
    clock.gaussian(clock.mu_left)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda clock: clock.gaussian(0.0), "mu"),
        (lambda clock: clock.gaussian(math.nan), "mu"),
        (lambda clock: clock.select(0.01, 0), "count"),
    ],
)
def test_odd_steps_are_refused(call, what):
    clock = new_clock()
    with pytest.raises(ParameterError, match=what):
        call(clock)
    assert taken(clock) == 0


def test_alone_it_costs_a_gaussian_and_being_late():
    bound = compose((EVENT,), epsilon=EPSILON)
    assert bound.method == "gaussian"
    assert bound.delta == gaussian_delta(EVENT.mu, EPSILON) + EVENT.late
    assert DELTA * (1 - 1e-6) < bound.delta <= DELTA
    assert compose((EVENT,), delta=DELTA).epsilon <= EPSILON
    assert pytest.approx(calibrate_gaussian(EPSILON, DELTA), rel=0.02) == MU
    assert calibrate_gaussian(EPSILON, DELTA) > MU
    with pytest.raises(PrivacyConditionError):
        compose((EVENT,), delta=EVENT.late / 2)


def test_no_bound_that_needs_more_than_its_curve_is_used():
    events = (EVENT, Gaussian(0.1), BoundedRange(0.01, 50))
    assert {bound.method for bound in all_bounds(events, delta=1e-5)} <= {"basic", "embedding"}
    same = (Gaussian(MU), Gaussian(0.1), BoundedRange(0.01, 50))
    assert {"rdp"} <= {bound.method for bound in all_bounds(same, delta=1e-5)}
    with pytest.raises(PrivacyConditionError):  # which is on no clock
        compose((EVENT, DiscreteGaussian(0.1)), delta=1e-5)


def test_beside_other_events_times_and_probabilities_of_being_late_add_up():
    both = compose((EVENT, EVENT, Gaussian(0.1)), epsilon=2.0)
    mu = math.hypot(EVENT.mu, EVENT.mu, 0.1)
    assert both.delta == pytest.approx(gaussian_delta(mu, 2.0) + 2 * EVENT.late, rel=1e-9, abs=0)
    boxed = compose((EVENT, Pure(0.3), Approximate(0.2, 1e-8)), epsilon=2.0)
    plain = gaussian_delta(EVENT.mu, 1.5) + EVENT.late + 1e-8
    assert boxed.delta == pytest.approx(plain, rel=1e-9, abs=0)
    embedded = compose((EVENT, BoundedRange(0.01, 500)), epsilon=2.0)
    alike = compose((Gaussian(MU), BoundedRange(0.01, 500)), epsilon=2.0)
    assert embedded.method == "embedding"
    assert embedded.delta >= alike.delta + EVENT.late * (1 - 1e-9)
    slack = compose((EVENT, TotalVariation(1e-9)), epsilon=1.0)
    assert slack.delta == pytest.approx(
        compose((EVENT,), epsilon=1.0).delta + (1 + math.e) * 1e-9, rel=1e-6, abs=0
    )


# What is certified, and what is listed.


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("selects", [False, True])
@pytest.mark.parametrize("relation", [Neighbours(), Neighbours("add-remove", 3, "patient")])
def test_a_budget_has_all_that_is_promised_and_no_more(epsilon, selects, relation):
    budget = full_budget(epsilon, DELTA, relation, selects=selects)
    found, (event,) = budget.certificate, budget.certificate.events
    assert compose((event,), delta=DELTA).epsilon == found.transcript_epsilon <= epsilon
    longer = replace(event, mu=event.mu * (1 + 1e-8))
    assert compose((longer,), delta=DELTA).epsilon > epsilon
    assert event.mu == pytest.approx(relation.most_rows * budget.mu, rel=1e-12, abs=0)
    assert (found.unit, found.rows_per_unit) == (relation.unit, relation.most_rows)
    assert largest_mu(epsilon, DELTA, relation) * (1 - 4e-4) < budget.mu  # 0.04 % for being late
    with pytest.raises(PrivacyConditionError):
        Budget(epsilon, DELTA, relation, selects=selects, mu=budget.mu * (1 + 1e-8))


def test_parts_list_all_that_was_certified():
    fixed = (BoundedRange(0.01, 20), Pure(0.1))
    budget = Budget(EPSILON, DELTA, Neighbours("replace", 2, "pupil"), fixed=fixed, mu=0.04)
    budget.gaussian(0.01, "first")
    budget.fixed(BoundedRange(0.009, 20), "picks")
    budget.gaussian(0.02, "second")
    budget.gaussian(0.01, "first")
    assert [part for part, _ in budget.parts] == ["first", "picks", "second", UNSPENT, UNSPENT]
    events = [event for _, (event,) in budget.parts]
    assert events == list(budget.guarantee.events)
    assert events[0].mu == pytest.approx(2 * 0.01 * math.sqrt(2))
    assert math.hypot(*(each.mu for each in events if isinstance(each, Gaussian))) == (
        pytest.approx(2 * 0.04)
    )
    assert compose(events, delta=DELTA).epsilon <= budget.certificate.transcript_epsilon
    assert budget.guarantee.transcript_epsilon == budget.certificate.transcript_epsilon
    clock = new_clock()
    clock.select(0.01, 3)
    clock.gaussian(0.01, "another")
    names, kinds = zip(*((part, type(event)) for part, (event,) in clock.parts), strict=True)
    assert names == ("a step", "another", UNSPENT)
    assert kinds == (Gaussian, Gaussian, Clocked)
    clock.gaussian(clock.mu_left)
    assert [type(event) for _, (event,) in clock.parts] == [Gaussian, Clocked]


def test_fixed_events_that_cost_too_much_are_never_certified():
    with pytest.raises(PrivacyConditionError):
        Budget(EPSILON, DELTA, fixed=(Pure(1.001),), mu=0.0)
    with pytest.raises(PrivacyConditionError):
        Budget(EPSILON, DELTA, fixed=(Pure(0.1),), mu=largest_mu(EPSILON, DELTA))


# The event.


def test_plain_data_and_back():
    assert event_from_dict(event_to_dict(EVENT)) == EVENT
    assert event_to_dict(EVENT) == {"type": "Clocked", "mu": EVENT.mu, "late": EVENT.late}
    for odd in ({"mu": 0.0, "late": 0.1}, {"mu": 1.0, "late": 0.0}, {"mu": 1.0, "late": 1.0}):
        with pytest.raises(ParameterError):
            Clocked(**odd)


def test_the_filter_counts_its_time_and_its_delta():
    """Its time as that of a Gaussian, its `late` among the deltas of black boxes, no divergence."""
    small = Clocked(0.1, 1e-9)
    spent = spent_adaptively((small,), EPSILON, DELTA)
    assert spent.method == "clock"
    alike = spent_adaptively((Gaussian(0.1), Approximate(1e-9, 1e-9)), EPSILON, DELTA)
    assert spent.epsilon == pytest.approx(alike.epsilon, rel=1e-3, abs=0)
    assert math.isinf(spent_adaptively((small, DiscreteGaussian(1e-3)), EPSILON, DELTA).epsilon)
    too_often = Clocked(0.01, 1.01 * PROMISED * DELTA)
    assert math.isinf(spent_adaptively((too_often,), EPSILON, DELTA).epsilon)
    # Steps that divergences would hold, and the clock does not: with a run on a clock none does.
    wide = BoundedRange(0.35, 1)
    assert spent_adaptively((Gaussian(1e-3), wide), 0.4, DELTA).method == "renyi"
    found = spent_adaptively((Clocked(1e-3, 1e-9), wide), 0.4, DELTA)
    assert found.method == "clock"


def test_a_ledger_takes_runs_until_their_time_is_over(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("patients", EPSILON, DELTA)
    most = calibrate_gaussian(EPSILON, CLOCK * DELTA)
    half = Clocked(most / math.sqrt(2) * (1 - 1e-6), PROMISED * DELTA / 4)
    for number in range(2):
        ledger.charge("patients", half, label=f"run {number}")
    assert [receipt.charge.events for receipt in ledger.history("patients")] == [(half,)] * 2
    ledger.open_dataset("others", EPSILON, DELTA)
    ledger.charge("others", EVENT, label="all of it")
    for dataset, more in (("patients", Clocked(0.01, 1e-12)), ("others", Gaussian(1e-3))):
        with pytest.raises(BudgetError):
            ledger.charge(dataset, more, label="one more")


# Adversaries.

WIDE = full_budget(EPSILON, 1e-3, selects=True)  # a larger delta: less is lost to being late
(LONG,) = WIDE.certificate.events
PLACES = 4  # lattice steps of a wide range; a narrow one has half as many
COUNT, SHARE = 200, 0.9  # wide steps, and the share of the time that they take on average
ETA = 2 * math.sqrt(SHARE * LONG.mu**2 / COUNT)
PARTS = 3  # Gaussians that fill the time
WIDE.expect(COUNT, SHARE)


class HalfCounted(Budget):
    """Counts half of what bounded-range steps take."""

    def step_time(self, eta):
        return super().step_time(eta) / 2


class GaussiansHalfCounted(Budget):
    """Counts half of what Gaussians take."""

    def gaussian(self, mu, part=None):
        super().gaussian(mu / math.sqrt(2), part)


class Apart(Budget):
    """Lets bounded-range steps and Gaussians take all of the time each."""

    def gaussian(self, mu, part=None):
        self.mine = getattr(self, "mine", 0.0) + mu**2
        if self.mine > self.mu**2:
            raise PrivacyConditionError("no room left")


class Lattice:
    """Losses from which an adversary chooses, and what each choice leads to."""

    def __init__(self, mu):
        self.width = ETA / PLACES
        low, high = math.ceil(3 / self.width), math.ceil(2 / self.width)
        self.losses = EPSILON + self.width * np.arange(-low, high + 1)
        self.stopped = np.maximum(-np.expm1(EPSILON - self.losses), 0.0)
        far = math.ceil(7 * mu / self.width)
        steps = self.width * np.arange(-far, far + 1)
        density = np.exp(-((steps - mu**2 / 2) ** 2) / (2 * mu**2))
        self.kernel = density / density.sum()

    def two_points(self, value, places):
        """The best step with losses u and u - eta, and a mean of 1 of exp(-loss)."""
        options = []
        for up in range(1, places):
            down = places - up
            gain, drop = math.exp(-up * self.width), math.exp(down * self.width)
            chance = (drop - 1) / (drop - gain)
            options.append(chance * moved(value, up) + (1 - chance) * moved(value, -down))
        return np.max(options, axis=0)

    def gaussian(self, value):
        far = len(self.kernel) // 2
        padded = np.concatenate([np.full(far, value[0]), value, np.full(far, value[-1])])
        return np.convolve(padded, self.kernel[::-1], mode="valid")


def moved(value, places):
    """The value at losses that are so many places higher; constant beyond the ends."""
    if places > 0:
        return np.concatenate([value[places:], np.full(places, value[-1])])
    return np.concatenate([np.full(-places, value[0]), value[:places]])


def accepted(kind, past, mu):
    """Whether the clock has time for so many wide steps, narrow steps and Gaussians."""
    clock = new_clock(WIDE, kind)
    try:
        for _ in range(past[2]):
            clock.gaussian(mu)
        for eta, count in zip((ETA, ETA / 2), past, strict=False):
            if count:
                clock.select(eta, count)
    except PrivacyConditionError:
        return False
    return True


def reached(kind, most):
    """The largest delta of an adversary who chooses each step by the loss so far.

    `most` limits the steps of each kind: wide ones, narrow ones and Gaussians.
    """
    mu = LONG.mu * (1 - 1e-6) / math.sqrt(PARTS)
    lattice, values = Lattice(mu), {}
    kinds = (
        lambda value: lattice.two_points(value, PLACES),
        lambda value: lattice.two_points(value, PLACES // 2),
        lattice.gaussian,
    )
    # The longest pasts first: what a step leads to is known then.
    for past in sorted(np.ndindex(*(number + 1 for number in most)), key=sum, reverse=True):
        if not accepted(kind, past, mu):
            continue
        best = lattice.stopped
        for place, step in enumerate(kinds):
            then = tuple(number + (place == other) for other, number in enumerate(past))
            if then in values:
                best = np.maximum(best, step(values[then]))
        values[past] = best
    return float(np.interp(0.0, lattice.losses, values[0, 0, 0]))


PROMISE = gaussian_delta(LONG.mu, EPSILON) + LONG.late


def test_the_lattice_has_the_gaussian_curve():
    """Gaussians alone, which no order and no choice makes better or worse."""
    found = reached(Budget, (0, 0, 2 * PARTS))
    assert found == pytest.approx(gaussian_delta(LONG.mu, EPSILON), rel=0.002)


@pytest.mark.parametrize(
    ("most", "least"),
    [((400, 4, 0), 0.15), ((300, 2, PARTS), 0.9)],
    ids=["steps alone", "steps and Gaussians"],
)
def test_no_adversary_passes_the_promise(most, least):
    """Steps alone reach a sixth: much is set aside for clocks that are late, and not spent."""
    assert least * PROMISE < reached(Budget, most) <= PROMISE


@pytest.mark.parametrize(
    ("kind", "most", "least"),
    [
        *((HalfCounted, (400, 2, 0), 4), (HalfCounted, (250, 0, PARTS), 2)),
        *((GaussiansHalfCounted, (0, 0, 2 * PARTS), 10), (Apart, (200, 0, PARTS), 5)),
    ],
)
def test_an_adversary_passes_the_promise_of_a_clock_that_counts_too_little(kind, most, least):
    assert reached(kind, most) > least * PROMISE
