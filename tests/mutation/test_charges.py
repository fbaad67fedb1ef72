"""Every step charges what its noise is worth: what a record moves, over the deviation drawn.

A charge that is left out, one of another size, and noise of another deviation are all found by the
same comparison (`traced`), of whole steps on a budget.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from hushcov.calibration import full_budget
from hushcov.exceptions import LedgerError, PrivacyConditionError
from hushcov.fit import counting, preparation
from hushcov.fit.complete import CompleteParameters, read_count
from hushcov.fit.counting import Counting
from hushcov.fit.location import LocationParameters, LookUnits
from hushcov.fit.preparation import Preparation
from hushcov.fit.scales import ScaleParameters
from hushcov.inputs import LARGEST_CALIBRATED_N
from hushcov.kernel import session
from hushcov.kernel.accounting import (
    ADD_REMOVE,
    REPLACE,
    Approximate,
    BoundedRange,
    Budget,
    Clocked,
    Gaussian,
    Neighbours,
    OneShotLaplace,
    Pure,
)
from hushcov.kernel.accounting.composition import (
    _log_cosh,
    _log_prefactor,
    _log_sinhc,
    _renyi,
    bounded_range_divergence,
    pure_divergence,
)
from hushcov.kernel.accounting.events import Parts, event_from_dict, event_to_dict
from hushcov.kernel.accounting.ledger import Charge, _twice, as_charge
from hushcov.ledger import Ledger
from hushcov.promise import largest_factor
from sessions import session_of

RELATIONS = pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
N, D, TINY = 3_000, 4, 2.0**-45


@pytest.mark.parametrize("noise", [-(10**9), -3, 0, 7, 10**30])
def test_counts_are_released_with_their_noise(monkeypatch, noise):
    monkeypatch.setattr(session, "discrete_laplace", lambda _, scale, size: [noise] * size)
    step = Counting(1.0, Neighbours(REPLACE))
    access = session_of(np.zeros((900, 1)), step.budget())
    assert step.number(access, step.neighbours).released == min(
        max(900 + noise, 1), LARGEST_CALIBRATED_N
    )
    seen = []
    monkeypatch.setattr(counting, "most_rows", lambda counts, _: seen.append(counts))
    sizes = np.array([1, 1, 1, 2, 3, 4, 7, 8, 2**19, 2**20, 2**21 - 1, 2**21, 2**40])
    budget = Budget(0.1, 0.0, fixed=[Pure(0.1)], mu=0.0)
    units = SimpleNamespace(sizes=sizes)
    counting.release_most_rows(session_of(np.zeros((1, 1)), budget, units=units), 0.1)
    counts = {0: 3, 1: 2, 2: 2, 3: 1, 19: 1, 20: 4}  # units of 2^20 records and more are one bin
    assert seen[0].tolist() == [counts.get(octave, 0) + float(noise) for octave in range(21)]


@pytest.mark.parametrize(
    ("noisy", "share"), [(981, 1.0), (980, 1.0), (979, 0.979), (500, 0.5), (10, 0.01), (-7, 0.01)]
)
def test_the_share_of_complete_records_is_read_off_the_noisy_count(noisy, share):
    assert read_count(noisy, CompleteParameters(1_000, 10)).share == share


@RELATIONS
def test_looks_have_the_noise_of_their_histograms(relation):
    """One for octaves and for finer ones, two for cells, three for both; to the last unit."""
    looks = LocationParameters(N, D, 0.7, neighbours=Neighbours(relation))
    both = 2 if relation == REPLACE else 1
    for units in (LookUnits(3, 1), LookUnits(cells=4), LookUnits(1, 0, 1, 2), LookUnits(refined=1)):
        square = both * (units.octaves + units.refined + 2 * units.cells + 3 * units.both)
        sigma = looks.sigma(units, TINY)
        assert ((sigma - 1) * Fraction(TINY)) ** 2 < square <= (sigma * Fraction(TINY)) ** 2
    for d in range(1, 6):  # scales have one histogram of each feature
        mu, square = Fraction(1, 2**30), both * d
        sigma = ScaleParameters(N, d, float(mu), looks.neighbours).sigma
        assert ((sigma - 1) * mu) ** 2 < square <= (sigma * mu) ** 2


# Shares of a budget, from the formulas of their pages.


@pytest.mark.parametrize("total", [0.7, 2.5])
@pytest.mark.parametrize("located", [False, True])
def test_the_most_that_a_preparation_takes(total, located):
    """The root of the sum of squares of its steps, rounded up by 2^-40 (preparation, step 7)."""
    looks = 0.0 if located else LocationParameters(1000, D, total).largest_mu
    assert located or looks == pytest.approx(math.sqrt(0.35) * total, rel=1e-15, abs=0)
    share = preparation.centre_share(1000, D, total) + preparation.norm_share(1000, D, total)
    share += 0.01 + 0.03
    exact = Fraction(looks) ** 2 + Fraction(share) * Fraction(total) ** 2
    most = Fraction(Preparation(1000, D, total, located=located).cost().most) ** 2
    assert exact * (1 + Fraction(1, 2**40)) < most < exact * (1 + Fraction(1, 2**38))


@RELATIONS
def test_looks_take_what_makes_their_counts_clear(relation):
    """So many deviations in n records, of the noise of all their histograms."""
    looks = LocationParameters(1_000, 20, 0.8, neighbours=Neighbours(relation))
    both = 2 if relation == REPLACE else 1
    for look, units, aim, number in (
        (0, LookUnits(octaves=30), 30.0, 30),
        (2, LookUnits(cells=20), 22.0, 40),
        (2, LookUnits(both=10), 22.0, 30),
        (3, LookUnits(refined=1, cells=12), 40.0, 25),
    ):
        share = looks._share(look, units)
        assert share == pytest.approx(both * number * (aim / (1_000 * 0.8)) ** 2)
        assert looks.look_mu(look, units, ()) == pytest.approx(math.sqrt(share) * 0.8)
    assert looks._share(0, LookUnits(octaves=10**6)) == 0.25
    assert looks._share(0, LookUnits(octaves=1)) == 0.04
    assert looks._share(1, LookUnits(cells=10**6)) == 0.15


def test_all_looks_together_take_no_more_than_their_share():
    looks, spent = LocationParameters(10**6, 20, 0.8), (0.3, 0.3, 0.2)
    left = looks.look_mu(3, LookUnits(cells=4 * 10**6), spent)
    most = Fraction(looks.largest_mu) ** 2 - sum(Fraction(mu) ** 2 for mu in spent)
    assert most * (1 - Fraction(1, 2**50)) < Fraction(left) ** 2 <= most
    assert looks.look_mu(4, LookUnits(cells=1), (*spent, left, 1e-3)) is None


# What a composition costs, against arithmetic of more digits.


def test_orders_are_read_with_all_their_digits():
    order = 1 + np.geomspace(1e-7, 1e12, 60)
    order = np.array([*order, 2.0, math.nextafter(2.0, 1), math.nextafter(2.0, 3)])
    with mp.workdps(60):
        exact = [(mp.mpf(a) - 1) * mp.log1p(-1 / mp.mpf(a)) - mp.log(mp.mpf(a)) for a in order]
    assert _log_prefactor(order) == pytest.approx([float(e) for e in exact], rel=1e-14, abs=0)


def test_logarithms_of_hyperbolic_functions_have_all_their_digits():
    """On both sides of 1, where another formula takes over."""
    x = np.array([*np.geomspace(1e-8, 700.0, 30), *np.linspace(0.85, 1.15, 31)])
    with mp.workdps(60):
        cosh = [float(mp.log(mp.cosh(mp.mpf(each)))) for each in x]
        sinhc = [float(mp.log(mp.sinh(mp.mpf(each)) / mp.mpf(each))) for each in x]
    assert _log_cosh(x) == pytest.approx(cosh, rel=4e-15, abs=0)
    assert _log_sinhc(x) == pytest.approx(sinhc, rel=4e-15, abs=0)


@pytest.mark.parametrize("cost", [1e-5, 1e-3, 0.3, 5.0, 300.0])
def test_divergences_are_no_more_than_simple_bounds(cost):
    """Where the closed form cancels and has a wide margin, these are nearer."""
    order = 1 + np.geomspace(1e-13, 1e6, 40)
    above = 1 + 4 * np.finfo(float).eps
    assert (pure_divergence(cost, order) <= np.minimum(cost, order * cost**2 / 2) * above).all()
    most = np.minimum(cost, order * cost**2 / 8) * above
    assert (bounded_range_divergence(cost, order) <= most).all()


def test_a_promise_whose_replacement_has_a_delta_of_one_is_refused():
    """That of one unit added or removed, at a delta where twice of it is exactly 1."""
    epsilon = 0.5
    factor = (1 + largest_factor(epsilon)) * (1 + 2.0**-50)
    deltas = [1 / factor * (1 + step * 2.0**-52) for step in range(-8, 9)]
    with pytest.raises(PrivacyConditionError, match="delta must be so small"):
        _twice(Approximate(epsilon, next(each for each in deltas if _doubled(each, epsilon) == 1)))


def _doubled(delta, epsilon):
    return (1 + largest_factor(epsilon)) * delta * (1 + 2.0**-50)


# Limits of events and of the clock, at the limit itself.


def test_steps_on_the_clock_may_be_as_wide_as_the_widest_angle():
    budget = full_budget(1.0, 1e-6, selects=True)
    budget.rate = 2.0  # the angle is the range then
    assert budget.step_time(1.5) == pytest.approx(-math.log(math.cos(1.5)) / 2)
    assert math.isinf(budget.step_time(math.nextafter(1.5, 2)))


def test_the_theorem_of_one_shot_selections_holds_at_its_largest_epsilon():
    spread = math.sqrt(3 * math.log(50 / 1e-3))
    near = 0.2 / (8 * spread)
    found = [
        OneShotLaplace(near * (1 + step * 2.0**-52), 1.0, 3, 50, 1e-3).certified_epsilon
        for step in range(-8, 9)
    ]
    assert max(each for each in found if each) == 0.2
    assert found[-1] is None


def test_numbers_of_events_are_plain():
    events = [Gaussian(np.float64(0.5)), BoundedRange(np.float32(0.5), np.int64(3))]
    events += [
        Approximate(np.float64(0.5), np.float64(1e-6)),
        Clocked(np.int64(2), np.float64(0.1)),
    ]
    for event in events:
        assert {type(value) for value in vars(event).values()} <= {float, int}, event
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@pytest.mark.parametrize("mu", [0.03, 0.2, 1.5])
def test_what_divergences_refuse_is_beyond_the_budget_by_more_than_sums_may_be(mu):
    """By 2^-40, where plain sums may pass it by 2^-50."""
    parts, delta = Parts(discrete_gaussian=mu), 1e-6
    least = _renyi(parts, 1.0, delta).epsilon
    for below in (2.0**-44, 2.0**-46):
        budget = least * (1 - below)
        found = _renyi(parts, budget, delta).epsilon / budget - 1
        assert found == pytest.approx(2.0**-40, rel=2.0**-5, abs=0)
    assert _renyi(parts, least * (1 + 2.0**-40), delta).epsilon == pytest.approx(least, rel=1e-11)


# What a ledger reads.


@pytest.mark.parametrize("events", [(Pure(0.25),), (Pure(0.25), Pure(0.5))])
def test_a_release_that_is_pure_throughout_is_charged_as_promised(events):
    promised = Budget(1.0, 0.0, fixed=events, mu=0.0).certificate
    assert as_charge(promised) == Charge((Pure(1.0),), Pure(1.0))
    noisy = Budget(1.0, 1e-6, fixed=events[:1], mu=0.1).certificate
    assert as_charge(noisy) == Charge(noisy.events, Approximate(1.0, 1e-6))


@pytest.mark.parametrize(
    "wrong", [{"unit": "line\nbreak"}, {"unit": ""}, {"neighbours": "either"}, {"epsilons": 1.0}]
)
def test_budgets_of_others_than_are_known_are_not_read(tmp_path, wrong):
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open_dataset("a", 1.0, 1e-6)
    body = {"epsilon": 1.0, "delta": 1e-6, "neighbours": REPLACE, "unit": "patient"}
    with ledger._store.writing() as book:
        book.append("budget", "fine", body)
        book.append("budget", "b", body | wrong)
    assert ledger.statement("fine").budget.unit == "patient"
    for use in (ledger.statement, lambda name: ledger.charge(name, Gaussian(0.1), label="c")):
        with pytest.raises(LedgerError, match=r"entry 3 .* cannot be read"):
            use("b")
