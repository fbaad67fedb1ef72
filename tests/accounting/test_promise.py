"""The promise in words, and odds held against worst cases and against direct computation."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from hushcov.accounting import (
    ONE_REPLACED,
    RELATIONS,
    Approximate,
    BoundedRange,
    Clocked,
    Gaussian,
    Guarantee,
    Neighbours,
    Pure,
    calibrate_gaussian,
    gaussian_delta,
)
from hushcov.accounting.guarantee import (
    FALSE_ALARMS,
    PRIORS,
    change_words,
    event_power,
    fails_words,
    highest_posterior,
    in_percent,
    largest_power,
    odds_of,
    promise_words,
)
from hushcov.exceptions import ParameterError

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
            REPLACED,
            "patient",
            "replacing all records of any one patient by others",
            "what the records of one patient are",
        ),
        (REMOVED, "record", "adding or removing any one record", "that one record is in the data"),
        (
            REMOVED,
            "patient",
            "adding or removing all records of any one patient",
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


def test_beliefs_at_the_ends():
    assert (highest_posterior(0, 1.0), highest_posterior(1, 1.0)) == (0, 1)
    assert highest_posterior(0.3, 0.0) == pytest.approx(0.3)
    assert highest_posterior(1e-300, 1e300) == 1


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
    power = event_power(alarm, [Gaussian(0.6 * mu), Gaussian(0.8 * mu)])
    assert power == pytest.approx(norm.sf(norm.isf(alarm) - mu))
    epsilons = np.linspace(0, 12 * mu, 4001)
    curve = min(largest_power(alarm, each, gaussian_delta(mu, each)) for each in epsilons)
    assert power <= curve <= power * (1 + 1e-4)
    late = event_power(alarm, [Clocked(mu, 1e-3)])
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
    power = event_power(alarm, [Pure(pure), Gaussian(mu)])
    best = best_test(alarm, under_a, under_b)
    assert best <= power * (1 + 1e-6)
    assert power <= best * math.exp(pure)


def test_finite_precision_moves_both_sides():
    exact, moved = (event_power(0.05, [Gaussian(0.3)], slack) for slack in (0.0, 0.01))
    assert moved == pytest.approx(event_power(0.06, [Gaussian(0.3)]) + 0.01)
    assert moved > exact


def test_other_events_are_bounded_by_the_promise_alone():
    assert event_power(0.05, [Gaussian(0.1), BoundedRange(0.1, 3)]) is None
    assert event_power(0.05, [Approximate(0.1, 1e-9)]) is None
    assert event_power(0.05, []) is None
    mixed = promised(Gaussian(0.1), BoundedRange(0.1, 3)).odds()
    assert mixed == odds_of(1.0, 1e-6)
    for (alarm, power), far in product(mixed.tests, (1e3, 1e9)):
        assert power == largest_power(alarm, 1.0, 1e-6)
        assert promised(Gaussian(far)).odds().tests == mixed.tests  # never above the promise


def test_odds_of_a_guarantee():
    mu = calibrate_gaussian(1.0, 1e-6)
    odds = promised(Gaussian(mu)).odds()
    assert odds.beliefs == tuple((p, highest_posterior(p, 1.0)) for p in PRIORS)
    assert odds.fails == 1e-6
    assert dict(odds.tests)[0.05] == pytest.approx(norm.cdf(norm.ppf(0.05) + mu))
    assert json.loads(json.dumps(odds.to_dict()))["guess"] == "what one record is"


def test_a_unit_is_told_apart_by_what_was_charged_for_all_its_records():
    """The odds are those of the scaled events, not those of one record."""
    of_one = promised(Gaussian(0.02)).odds()
    charged = Neighbours("replace", 10, "patient").charged((Gaussian(0.02),))
    of_unit = promised(*charged, unit="patient", rows_per_unit=10).odds()
    assert dict(of_unit.tests)[0.05] == pytest.approx(norm.cdf(norm.ppf(0.05) + 0.2))
    assert dict(of_unit.tests)[0.05] > dict(of_one.tests)[0.05]
    assert ONE_REPLACED.charged((Gaussian(0.02),)) == (Gaussian(0.02),)
