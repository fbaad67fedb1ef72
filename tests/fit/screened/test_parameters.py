"""Certified parameters against exact arithmetic and dp-accounting, and how designs share them."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fit.screened.settings import DESIGN, inputs_of, parameters_of
from hushcov.exceptions import CapacityError, PrivacyConditionError
from hushcov.fit.screened.mechanism import (
    ScreenedDesign,
    candidate_pairs,
    level_shares,
    level_sizes,
    possible_pairs,
    screened_parameters,
    sum_sigma,
)
from hushcov.kernel.accounting import ONE_REPLACED, Gaussian, compose

SETTINGS = {
    "two levels": parameters_of(10**5, 200, 5),
    "four levels": parameters_of(10**5, 1000, 5, epsilon=0.3, delta=1e-8, before=0.02, n_levels=4),
    "one level, large budget": parameters_of(10**4, 30, 3, epsilon=5.0, delta=1e-5, n_levels=1),
    "all pairs": parameters_of(10**4, 20, 3, n_levels=0),
    "no pairs": parameters_of(10**4, 20, 1),
    "one feature": parameters_of(10, 1, 1),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_budget_is_kept_and_nearly_used(name):
    parameters = SETTINGS[name]
    guarantee = parameters.budget().certificate
    epsilon = parameters.inputs.epsilon
    assert 0.999 * epsilon < guarantee.transcript_epsilon <= epsilon
    assert guarantee.transcript_delta <= parameters.inputs.delta
    assert guarantee.numerical_delta == 0
    gaussian = [event.mu for event in parameters.events if isinstance(event, Gaussian)]
    assert guarantee.events[:-1] == tuple(event for _, event in parameters.selections)
    assert guarantee.events[-1].mu == pytest.approx(math.hypot(*gaussian))
    used = compose(parameters.events, epsilon=epsilon)
    assert used.delta <= parameters.inputs.delta


# What is charged is what the noise provides, in exact arithmetic.


def test_uncertified_parameters_are_close_and_cannot_be_released_unchecked():
    inputs = inputs_of(1000, 30, 3)
    rough = screened_parameters(inputs, DESIGN, certified=False)
    certified = screened_parameters(inputs, DESIGN)
    assert math.isclose(rough.mu, certified.mu, rel_tol=0.05)
    more = dataclasses.replace(rough, mu=1.2 * certified.mu)
    with pytest.raises(PrivacyConditionError):
        more.budget()


# Steps before


def test_what_steps_before_take_leaves_less():
    alone, parameters = parameters_of(1000, 30, 3), parameters_of(1000, 30, 3, before=0.1)
    assert parameters.events[0] == Gaussian(0.1)
    assert parameters.mu < alone.mu
    assert all(a.rate < b.rate for a, b in zip(parameters.levels, alone.levels, strict=True))
    budget = parameters.budget()
    assert budget.mu == pytest.approx(math.hypot(0.1, parameters.mu))
    budget.gaussian(0.05, "a step before")
    assert budget.mu_left > parameters.mu


# Extremes


@pytest.mark.parametrize("d", [1, 2, 3, 40, 3000])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-6, 1e-3, 1.0, 10.0])
def test_noise_can_be_drawn_for_every_norm_bound(d, epsilon):
    """At most 2^40, also for the largest bound."""
    parameters = parameters_of(1000, d, min(d, 5), epsilon=epsilon)
    h = parameters.half_width
    assert 1 <= h <= 2047
    n_products = parameters.n_pairs + d
    assert 16 * h**4 * n_products < 2**53
    largest = math.isqrt(16 * h**4 * n_products)
    assert 1 <= parameters.norm_bound <= largest
    assert sum_sigma(largest, parameters.mu, ONE_REPLACED) <= 2**40


def test_a_budget_too_small_for_integers_is_refused():
    with pytest.raises(CapacityError, match="larger budget"):
        parameters_of(1000, 3000, 5, epsilon=1e-9, delta=1e-9)


# Designs: how many pairs each level takes, and how levels share what the screen spends.


designs = st.builds(
    ScreenedDesign,
    screen_share=st.floats(0.01, 0.95),
    selection_factor=st.floats(0.01, 10) | st.just(1e6),
    n_levels=st.integers(0, 30),
    size_ratio=st.floats(1e-3, 1e3) | st.just(1e-300),
    noise_ratio=st.floats(1.1e-3, 1e3),
    norm_factor=st.floats(0.1, 10),
    keep_above=st.floats(0, 5),
)
sizes_of_data = st.integers(1, 2000).flatmap(
    lambda d: st.builds(inputs_of, st.just(100), st.just(d), st.integers(1, d))
)


@given(inputs=sizes_of_data, design=designs)
def test_levels_add_up_and_each_selects_something(inputs, design):
    sizes = level_sizes(inputs, design)
    possible, candidates = possible_pairs(inputs), candidate_pairs(inputs)
    wanted = max(possible, round(design.selection_factor * possible))
    if design.n_levels == 0 or possible == 0 or wanted >= candidates:
        assert sizes == ()
        return
    assert sum(sizes) == wanted < candidates
    assert min(sizes) >= 1
    assert len(sizes) == min(design.n_levels, wanted)


@given(inputs=sizes_of_data, design=designs)
def test_shares_add_up_and_none_is_zero(inputs, design):
    sizes = level_sizes(inputs, design)
    shares = level_shares(sizes, design)
    assert len(shares) == len(sizes)
    if sizes:
        assert math.isclose(sum(shares), 1.0, rel_tol=1e-12)
        assert min(shares) > 0
