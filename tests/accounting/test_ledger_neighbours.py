"""Whom a budget protects: charges for others are converted where that is sound, else refused."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import BudgetError, ParameterError, PrivacyConditionError
from hushcov.kernel.accounting import (
    BoundedRange,
    Clocked,
    Gaussian,
    Guarantee,
    Pure,
    TotalVariation,
    for_group,
    gaussian_delta,
    gaussian_epsilon,
)
from hushcov.kernel.accounting.ledger import as_charge, charge_to
from hushcov.ledger import Ledger, TotalBudget

DELTA = 1e-6
REPLACED, REMOVED = "replace-one", "add-remove-one"
FOR_REPLACED = TotalBudget("people", 1.0, DELTA)
FOR_REMOVED = TotalBudget("people", 1.0, DELTA, neighbours="add-remove")


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "budget.db", timeout=10)


def guarantee(*events, epsilon=0.4, delta=DELTA, **changes):
    known = {"transcript_epsilon": 0.0, "transcript_delta": 0.0, "numerical_delta": 0.0}
    known |= {"method": "test", "preconditions": (), "adjacency": REMOVED}
    return Guarantee(epsilon=epsilon, delta=delta, events=events, **known | changes)


# What a budget says.


def test_a_budget_keeps_whom_it_protects(ledger):
    asked = (1.0, DELTA, "add-remove", "patient")
    first = ledger.open_dataset("visits", *asked)
    assert ledger.open_dataset("visits", *asked) == first
    assert ledger.statement("visits").budget == first
    assert first.change == "adding or removing all records of any one patient"
    for other in (("replace", "patient"), ("add-remove", "record")):
        with pytest.raises(ParameterError, match="must stay for adding or removing all records"):
            ledger.open_dataset("visits", 1.0, DELTA, *other)
    changed = ledger.change_budget("visits", 2.0, DELTA)
    assert (changed.neighbours, changed.unit) == ("add-remove", "patient")
    assert ledger.statement("visits").promises == (first, changed)


# What is converted.


@pytest.mark.parametrize(
    "event", [Gaussian(0.1), Clocked(0.1, 1e-12), BoundedRange(0.01, 5)], ids=repr
)
def test_noise_counts_twice_where_one_is_replaced(ledger, event):
    ledger.open_dataset("people", 1.0, DELTA)
    ledger.open_dataset("twice", 1.0, DELTA)
    receipt = ledger.charge("people", guarantee(event), label="converted")
    direct = ledger.charge("twice", [for_group(event, 2)], label="by hand")
    assert receipt.charge.events == direct.charge.events
    assert receipt.charge.converted
    assert receipt.to_dict()["converted"] is True
    assert ledger.history("people") == (receipt,)
    assert receipt.total.epsilon == pytest.approx(direct.total.epsilon)
    assert not direct.charge.converted


def test_noise_counts_once_where_one_is_added_or_removed(ledger):
    ledger.open_dataset("people", 1.0, DELTA, "add-remove")
    once = ledger.charge("people", guarantee(Gaussian(0.1)), label="as it is")
    assert once.charge.events == (Gaussian(0.1),)
    assert not once.charge.converted
    same = ledger.charge("people", Gaussian(0.1), label="events are for whom the budget is")
    assert same.charge.events == once.charge.events


@pytest.mark.parametrize(("mu", "epsilon"), [(0.05, 0.01), (0.3, 0.01), (0.3, 0.4), (1.5, 3.0)])
def test_promises_of_both_steps_hold_for_the_whole(mu, epsilon):
    """The exact delta of twice the shift is below what its two steps are said to cost."""
    delta = gaussian_delta(mu, epsilon)
    promised = charge_to(FOR_REPLACED, guarantee(epsilon=epsilon, delta=delta)).promise
    assert promised.epsilon == 2 * epsilon
    assert promised.delta == pytest.approx((1 + math.exp(epsilon)) * delta, rel=1e-12, abs=0)
    assert gaussian_delta(2 * mu, 2 * epsilon) <= promised.delta


def test_promises_without_delta_and_finite_precision():
    pure = charge_to(FOR_REPLACED, guarantee(Pure(0.4), delta=0.0))
    assert pure.events == (pure.promise,) == (for_group(Pure(0.4), 2),)
    inexact = guarantee(Gaussian(0.1), numerical_delta=1e-9)
    before, after = as_charge(inexact), charge_to(FOR_REPLACED, inexact)
    assert isinstance(after.events[1], TotalVariation)
    assert after.events[1] == before.events[1]  # it holds for every dataset


def test_what_would_not_be_private_is_refused():
    with pytest.raises(PrivacyConditionError, match="delta must be so small"):
        charge_to(FOR_REPLACED, guarantee(epsilon=3.0, delta=0.1))


def test_a_count_before_noise_is_charged_as_it_ran(ledger):
    """What is pure and what is noise keep their own events; only promises are charged whole."""
    counted = guarantee(Pure(0.01), Clocked(0.1, 1e-12))
    assert charge_to(FOR_REMOVED, counted).events == (Pure(0.01), Clocked(0.1, 1e-12))
    ledger.open_dataset("people", 1.0, DELTA, "add-remove")
    for _ in range(3):  # promises of 0.4 each would be 1.2
        total = ledger.charge("people", counted, label="again").total
    assert total.epsilon < 1.0


def test_a_refusal_says_what_fits_and_it_does(ledger):
    ledger.open_dataset("people", 1.0, DELTA)
    ledger.charge("people", guarantee(Gaussian(0.05)), label="first")
    full = guarantee(Gaussian(calibrate_gaussian(0.9, DELTA)), epsilon=0.9)
    with pytest.raises(
        BudgetError, match=r"For replacing any one record it counts twice\."
    ) as said:
        ledger.charge("people", full, label="too much")
    epsilon, delta = map(
        float, re.search(r"release of epsilon (\S+) at delta (\S+)\. ", str(said.value)).groups()
    )
    assert said.value.remaining >= epsilon
    mu = calibrate_gaussian(epsilon, delta)
    with pytest.raises(BudgetError):
        ledger.quote("people", guarantee(Gaussian(1.3 * mu), epsilon=2 * epsilon))
    ledger.charge("people", guarantee(Gaussian(mu), epsilon=epsilon, delta=delta), label="fits")
    assert gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-9)


# What is refused.


def test_a_release_for_replacing_is_refused_by_a_budget_for_adding(ledger):
    ledger.open_dataset("people", 1.0, DELTA, "add-remove")
    for call in (ledger.quote, lambda *given: ledger.charge(*given, label="x")):
        with pytest.raises(
            PrivacyConditionError, match="neighbours of the release must be 'add-re"
        ):
            call("people", guarantee(Gaussian(0.01), adjacency=REPLACED))
    assert ledger.history("people") == ()


@pytest.mark.parametrize("adjacency", [REPLACED, REMOVED])
@pytest.mark.parametrize(("of", "by"), [("record", "patient"), ("patient", "record"), ("a", "b")])
def test_a_release_for_another_unit_is_refused(ledger, adjacency, of, by):
    ledger.open_dataset("people", 1.0, DELTA, unit=of)
    given = guarantee(Gaussian(0.01), adjacency=adjacency, unit=by)
    with pytest.raises(PrivacyConditionError, match=f"unit of the release must be '{of}', .*{by}"):
        ledger.charge("people", given, label="x")
    assert ledger.history("people") == ()
    ledger.charge("people", replace(given, unit=of), label="the same unit")
