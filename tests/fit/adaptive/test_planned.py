"""Selections that are planned where the row sparsity is given."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import SeededNoiseWarning
from hushcov.fit.adaptive.planned import PlannedRung, equal_steps, planned_rungs, told_pairs
from hushcov.fit.adaptive.rules import RULES
from hushcov.fit.norms import Mass
from hushcov.inputs import ReleaseInputs
from hushcov.simulate import gaussian_records, structured_covariance

TIME = 0.05


def inputs(k: int, n: int = 50_000, d: int = 100) -> ReleaseInputs:
    return ReleaseInputs(n, d, k, 1.0, 1e-6, told=True)


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_a_plan_selects_a_few_more_pairs_than_there_may_be(k):
    plan = planned_rungs(inputs(k), TIME, RULES)
    total, possible = sum(rung.size for rung in plan), 100 * (k - 1) // 2
    assert abs(total - told_pairs(inputs(k), RULES)) <= len(plan)
    assert possible < total <= 1.5 * possible + 20


def test_a_plan_takes_one_of_the_shares_and_its_levels_cost_what_they_say():
    plan = planned_rungs(inputs(5), TIME, RULES)
    share = sum(rung.time for rung in plan) / TIME
    assert min(abs(share - each) for each in RULES.told_shares) < 1e-9
    for rung in plan:
        # One of `size` steps moves scores by 2, and takes the square of that times its rate.
        assert math.isclose(rung.time, rung.size * (2 * rung.rate) ** 2)
    sizes, rates = [rung.size for rung in plan], [rung.rate for rung in plan]
    assert sizes == sorted(sizes, reverse=True)
    assert rates == sorted(rates)


def test_weaker_pairs_are_worth_less_time():
    patient = replace(RULES, told_missed_weight=1.0)
    hasty = replace(RULES, told_missed_weight=0.05)
    spent = [sum(r.time for r in planned_rungs(inputs(5), TIME, each)) for each in (hasty, patient)]
    assert spent[0] < spent[1]


def test_equal_steps_count_as_many_as_there_are():
    assert equal_steps((PlannedRung(30, 0.1, 0.3), PlannedRung(20, 0.1, 0.2))) == 50
    assert equal_steps((PlannedRung(30, 0.1, 0.01), PlannedRung(20, 0.3, 0.5))) < 25


def error(family: str, k: int | None) -> float:
    truth = structured_covariance(family, 100, random_state=1)
    records = gaussian_records(truth, 100_000, random_state=1)
    estimator = PrivateSparseCovariance(
        epsilon=1.0,
        delta=1e-6,
        row_sparsity=k,
        assume_centered=True,
        feature_scale=1.0,
        random_state=0,
    )
    with pytest.warns(SeededNoiseWarning):
        difference = np.asarray(estimator.fit(records).covariance_) - truth
    return float(np.linalg.norm(difference, 2) / np.linalg.norm(truth, 2))


@pytest.mark.parametrize("k", [2, 5, 20])
def test_row_sparsity_is_advice_whether_it_is_true_or_not(k):
    # Without the levels beyond the plan, k = 2 misses most pairs: the error is 0.3 then.
    assert error("random", k) < 2 * error("random", None)


def test_a_bound_of_products_falls_with_noise_and_cuts_none_without():
    mass = Mass(np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.09, 0.01]))
    bounds = [mass.best_of_products(noise, 1.0) for noise in (1e-6, 1e-2, 1.0)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] >= 4.0 > bounds[-1]
