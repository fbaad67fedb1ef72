"""Events and guarantees are checked data; the promise in words, and odds against worst cases."""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting import (
    ONE_REPLACED,
    RELATIONS,
    Approximate,
    BoundedRange,
    Clocked,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    Neighbours,
    OneShotLaplace,
    Pure,
    TotalVariation,
    gaussian_delta,
)
from hushcov.kernel.accounting.guarantee import known_noise
from hushcov.promise import (
    FALSE_ALARMS,
    change_words,
    fails_words,
    highest_posterior,
    in_percent,
    largest_power,
    odds_of,
    power_by_noise,
    promise_words,
)

VALID = [
    (Gaussian, {"mu": 0.5}),
    (DiscreteGaussian, {"mu": 0.5}),
    (BoundedRange, {"eta": 0.1, "count": 3}),
    (
        OneShotLaplace,
        {"sensitivity": 0.1, "scale": 9.0, "selected": 2, "candidates": 8, "target_delta": 1e-6},
    ),
    (Pure, {"epsilon": 0.3}),
    (Approximate, {"epsilon": 0.3, "delta": 1e-6}),
    (TotalVariation, {"distance": 1e-9}),
]
BAD_NUMBERS = [0, -1, -1e-300, math.nan, math.inf, -math.inf, "1", True, [1.0], 1j]
GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "transcript_epsilon": 0.5,
    "transcript_delta": 5e-7,
    "numerical_delta": 1e-12,
    "events": (Gaussian(0.1), BoundedRange(0.1, 3)),
    "method": "rdp",
    "preconditions": ("the score is finite",),
}


@pytest.mark.parametrize(("kind", "fields"), VALID)
def test_events_are_frozen_plain_and_compare_by_value(kind, fields):
    event = kind(**fields)
    assert event == kind(**{k: np.asarray(v)[()] for k, v in fields.items()})
    assert all(type(v) in (int, float) for v in dataclasses.asdict(event).values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, next(iter(fields)), 1.0)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("kind", "fields", "name"), [(k, f, n) for k, f in VALID for n in f], ids=str
)
def test_every_field_of_every_event_is_checked(kind, fields, name, bad):
    if bad == 1 and name in ("count", "selected", "candidates") and bad is not True:
        pytest.skip("1 is valid there")
    with pytest.raises(ParameterError, match=f"{kind.__name__}.{name}"):
        kind(**(fields | {name: bad}))


class TestGuarantee:
    def test_is_frozen_and_accepts_the_exact_limit(self):
        guarantee = Guarantee(**GUARANTEE | {"transcript_epsilon": 1, "transcript_delta": 0})
        assert guarantee.private
        assert guarantee.adjacency == "replace-one"
        with pytest.raises(dataclasses.FrozenInstanceError):
            guarantee.epsilon = 2.0

    @pytest.mark.parametrize(
        "changes",
        [
            *({"transcript_epsilon": math.nextafter(1.0, 2)}, {"transcript_delta": 1.1e-6}),
            *({"transcript_delta": 6e-7, "numerical_delta": 6e-7}, {"numerical_delta": 1e-3}),
        ],
    )
    def test_refuses_to_promise_less_than_was_spent(self, changes):
        with pytest.raises(PrivacyConditionError):
            Guarantee(**GUARANTEE | changes)

    @pytest.mark.parametrize(
        "changes",
        [
            *({"epsilon": 0}, {"epsilon": math.nan}, {"epsilon": True}, {"delta": -1e-9}),
            *({"delta": math.inf}, {"delta": 1.5}, {"numerical_delta": math.nan}),
            *({"transcript_epsilon": "0.5"}, {"adjacency": "add-remove"}, {"private": 1}),
            *({"method": ""}, {"events": "Gaussian"}, {"events": (0.1,)}),
            {"preconditions": "checked"},
        ],
    )
    def test_bad_fields_are_refused(self, changes):
        with pytest.raises(ParameterError):
            Guarantee(**GUARANTEE | changes)

    def test_pure_guarantees_have_delta_zero(self):
        zero = {"delta": 0, "transcript_delta": 0, "numerical_delta": 0}
        assert Guarantee(**GUARANTEE | zero).delta == 0.0

    def test_json_round_trip(self):
        data = json.loads(json.dumps(Guarantee(**GUARANTEE).to_dict()))
        assert data["events"] == [
            {"type": "Gaussian", "mu": 0.1},
            {"type": "BoundedRange", "eta": 0.1, "count": 3},
        ]
        assert data["preconditions"] == ["the score is finite"]
        assert {k: data[k] for k in ("epsilon", "delta", "method", "private", "adjacency")} == {
            "epsilon": 1.0,
            "delta": 1e-6,
            "method": "rdp",
            "private": True,
            "adjacency": "replace-one",
        }


# The promise in words, and odds.


REPLACED, REMOVED = RELATIONS["replace"], RELATIONS["add-remove"]
BUDGETS = ((0.1, 1e-6), (1.0, 1e-6), (3.0, 0.01), (1.0, 0.0))


def promised(*events, **changes):
    known = {"epsilon": 1.0, "delta": 1e-6, "transcript_epsilon": 1.0, "transcript_delta": 1e-6}
    known |= {"numerical_delta": 0.0, "method": "gaussian", "preconditions": ()}
    return Guarantee(**known | {"events": events} | changes)


def worst(epsilon, delta):
    """Outcomes of the worst mechanism: it gives A or B away with probability delta, else a coin."""
    factor = math.exp(epsilon)
    under_a = np.array([delta, (1 - delta) * factor / (1 + factor), (1 - delta) / (1 + factor), 0])
    return under_a, under_a[::-1]


def best_test(alarm, under_a, under_b):
    """Neyman and Pearson: outcomes in the order of their ratio, one of them by a coin."""
    order = np.argsort(-under_b / np.maximum(under_a, 1e-300), kind="stable")
    x = np.concatenate([[0], np.cumsum(under_a[order])])
    y = np.concatenate([[0], np.cumsum(under_b[order])])
    return np.interp(alarm, x, y)


# Words.


@pytest.mark.parametrize(
    ("adjacency", "unit", "change", "guess"),
    [
        (REPLACED, "record", "replacing any one record", "what one record is"),
        (
            *(REPLACED, "patient", "replacing all records of any one patient by others"),
            "what the records of one patient are",
        ),
        (REMOVED, "record", "adding or removing any one record", "that one record is in the data"),
        (
            *(REMOVED, "patient", "adding or removing all records of any one patient"),
            "that one patient is in the data",
        ),
    ],
)
def test_every_relation_and_unit_has_its_words(adjacency, unit, change, guess):
    assert change_words(adjacency, unit) == change
    assert odds_of(1.0, 1e-6, adjacency, unit).guess == guess
    first, odds, *_ = str(promised(Gaussian(0.1), adjacency=adjacency, unit=unit)).splitlines()
    assert first.startswith(f"(1, 1e-6)-differential privacy: {change} changes")
    assert guess in odds


def test_an_unknown_relation_has_no_words():
    for words in (change_words, lambda adjacency: odds_of(1.0, 0.0, adjacency)):
        with pytest.raises(ParameterError, match="adjacency"):
            words("add-remove")


def test_promise():
    assert promise_words(1.0, 1e-6) == (
        "(1, 1e-6)-differential privacy: replacing any one record changes the probability of any "
        "outcome by at most a factor e^epsilon = 2.72, plus delta = 1e-6."
    )
    assert promise_words(0.5, 0.0).startswith("Pure 0.5-differential privacy: ")
    assert promise_words(0.5, 0.0).endswith("e^epsilon = 1.65.")


def test_chances():
    assert fails_words(1e-6) == ", but for a chance of 1 in 1,000,000"
    assert fails_words(5e-324) == ", but for a chance of 4.941e-324"
    assert fails_words(0.0) == ""
    assert in_percent(0.731) == "73.1 %"
    assert in_percent(1 - 1e-9) == "nearly 100 %"
    assert in_percent(1.0) == "100 %"


# Odds.


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("prior", [1e-9, 0.01, 0.5, 0.99])
def test_beliefs_are_those_of_the_worst_mechanism(epsilon, delta, prior):
    """Bayes' rule over its outcomes: all but those of probability delta reach the bound or less."""
    for under_a, under_b in (worst(epsilon, delta), worst(epsilon, delta)[::-1]):
        possible = (under_a > 0) & (under_b > 0)
        after = prior * under_b / (prior * under_b + (1 - prior) * under_a + 1e-300)
        assert after[possible].max() == pytest.approx(
            highest_posterior(prior, epsilon), rel=1e-12, abs=0
        )
        assert under_b[~possible].sum() <= delta * (1 + 1e-12)
    odds = prior / (1 - prior) * math.exp(epsilon)
    assert highest_posterior(prior, epsilon) == pytest.approx(odds / (1 + odds), rel=1e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("alarm", [0.001, 0.05, 0.5, 0.97])
def test_no_test_does_better_than_is_said(alarm, epsilon, delta):
    """The worst mechanism there is reaches the bound."""
    power = largest_power(alarm, epsilon, delta)
    assert power == pytest.approx(best_test(alarm, *worst(epsilon, delta)))
    assert largest_power(alarm, 1e300, delta) == 1


@pytest.mark.parametrize("mu", [0.05, 0.24, 2.0])
@pytest.mark.parametrize("alarm", FALSE_ALARMS)
def test_gaussians_by_their_trade_off_and_by_their_curve(mu, alarm):
    """Every epsilon with its exact delta bounds the test; the best of them is the trade-off."""
    power = power_by_noise(alarm, known_noise([Gaussian(0.6 * mu), Gaussian(0.8 * mu)]))
    assert power == pytest.approx(norm.sf(norm.isf(alarm) - mu))
    epsilons = np.linspace(0, 12 * mu, 4001)
    curve = min(largest_power(alarm, each, gaussian_delta(mu, each)) for each in epsilons)
    assert power <= curve <= power * (1 + 1e-4)
    late = power_by_noise(alarm, known_noise([Clocked(mu, 1e-3)]))
    assert late == pytest.approx(power + 1e-3)


@pytest.mark.parametrize("pure", [0.02, 0.5])
@pytest.mark.parametrize("alarm", [0.01, 0.05, 0.9])
def test_a_pure_step_before_gaussians(pure, alarm):
    """A coin and a fine grid of normal outcomes: the best test of both stays below, and near."""
    mu, points = 0.3, np.linspace(-9, 9, 20_001)
    cells = [np.diff(norm.cdf(points, loc=loc)) for loc in (0, mu)]
    coins = [np.array([1, math.exp(pure)]) / (1 + math.exp(pure))]
    coins.append(coins[0][::-1])
    under_a, under_b = (np.outer(*pair).ravel() for pair in zip(coins, cells, strict=True))
    power = power_by_noise(alarm, known_noise([Pure(pure), Gaussian(mu)]))
    best = best_test(alarm, under_a, under_b)
    assert best <= power * (1 + 1e-6)
    assert power <= best * math.exp(pure)


def test_finite_precision_moves_both_sides():
    exact, moved = (
        power_by_noise(0.05, known_noise([Gaussian(0.3)]), slack) for slack in (0.0, 0.01)
    )
    assert moved == pytest.approx(power_by_noise(0.06, known_noise([Gaussian(0.3)])) + 0.01)
    assert moved > exact


def test_other_events_are_bounded_by_the_promise_alone():
    assert known_noise([Gaussian(0.1), BoundedRange(0.1, 3)]) is None
    assert known_noise([Approximate(0.1, 1e-9)]) is None
    assert known_noise([]) is None
    mixed = promised(Gaussian(0.1), BoundedRange(0.1, 3)).odds()
    assert mixed == odds_of(1.0, 1e-6)
    for (alarm, power), far in product(mixed.tests, (1e3, 1e9)):
        assert power == largest_power(alarm, 1.0, 1e-6)
        assert promised(Gaussian(far)).odds().tests == mixed.tests  # never above the promise


def test_a_unit_is_told_apart_by_what_was_charged_for_all_its_records():
    """The odds are those of the scaled events, not those of one record."""
    of_one = promised(Gaussian(0.02)).odds()
    charged = Neighbours("replace", 10, "patient").charged((Gaussian(0.02),))
    of_unit = promised(*charged, unit="patient", rows_per_unit=10).odds()
    assert dict(of_unit.tests)[0.05] == pytest.approx(norm.cdf(norm.ppf(0.05) + 0.2))
    assert dict(of_unit.tests)[0.05] > dict(of_one.tests)[0.05]
    assert ONE_REPLACED.charged((Gaussian(0.02),)) == (Gaussian(0.02),)
