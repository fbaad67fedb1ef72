"""The release, with the theorem's constants and calibrated ones: certified before it is drawn."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest

from fit.settings import UNTOUCHABLE, seeded
from hushcov.exceptions import DataError, PrivacyConditionError
from hushcov.inputs import CalibratedInputs, PublicInputs
from hushcov.kernel.accounting import BoundedRange, Gaussian, TotalVariation, compose
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.sums.gram import second_moments
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.paper import plan as paper_plan
from hushcov.paper.mechanism import (
    Design,
    calibrated_parameters,
    certify,
    draft_schedule,
    grid_for,
    release_multiscale,
    schedule_events,
)
from hushcov.paper.parameters import LOG_ODDS_ERROR, theorem_parameters
from hushcov.simulate import sparse_covariance, wishart_moments
from hushcov.tables.sources import open_records

VALID = {"n_records": 10**10, "n_features": 3, "row_sparsity": 2, "target_error": 0.25}
VALID |= {"epsilon": 1.0, "delta": 1e-3, "failure_probability": 0.1, "scale": 1.0}


def parameters_for(**changes):
    return theorem_parameters(PublicInputs(**{**VALID, **changes}))


def simulated(parameters, seed=0):
    inputs = parameters.inputs
    truth = sparse_covariance("block", inputs.n_features, inputs.row_sparsity)
    return wishart_moments(truth, inputs.n_records, random_state=seed)


def integer_moments(parameters):
    """The moments of a small exact Gram matrix, as if its rows were repeated to fill n."""
    grid = grid_for(parameters)
    n, d = parameters.inputs.n_records, parameters.inputs.n_features
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((100, d)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(d)).T
    repeats, rest = divmod(n, len(rows))
    assert rest == 0
    gram = second_moments(open_records(rows), grid).gram
    return Statistics(gram * repeats, n, RecordMap(d, grid))


def test_too_few_records_are_refused_before_anything_is_drawn():
    needed = parameters_for().smallest_private_n
    parameters = parameters_for(n_records=needed - 1)
    for attempt in (
        lambda: certify(parameters, private=True, exact_statistic=False),
        lambda: release_multiscale(simulated(parameters), parameters, UNTOUCHABLE),
    ):
        with pytest.raises(PrivacyConditionError, match=f"{needed:,}") as info:
            attempt()
        assert info.value.smallest_private_n == needed
    enough = parameters_for(n_records=needed)
    assert certify(enough, private=True, exact_statistic=False).private


@pytest.mark.parametrize(
    "changes", [{}, {"epsilon": 0.3, "n_records": 10**12}, {"delta": 1e-7, "n_features": 40}]
)
def test_the_guarantee_has_the_numbers_of_the_paper(changes):
    parameters = parameters_for(**{"n_records": 10**12, **changes})
    inputs = parameters.inputs
    guarantee = certify(parameters, private=True, exact_statistic=False)
    assert (guarantee.epsilon, guarantee.delta) == (inputs.epsilon, inputs.delta)
    assert guarantee.transcript_epsilon == pytest.approx(3 * inputs.epsilon / 8, rel=1e-14, abs=0)
    assert guarantee.transcript_delta == pytest.approx(5 * inputs.delta / 32, rel=1e-14, abs=0)
    assert guarantee.adjacency == "replace-one"
    assert guarantee.private is True
    assert guarantee.numerical_delta > 0
    assert guarantee.transcript_delta + guarantee.numerical_delta <= guarantee.delta
    # One event a level for the selections, and one for all gates.
    *selections, gates = guarantee.events
    assert len(selections) == parameters.n_levels
    assert sum(event.epsilon for event in selections) == pytest.approx(
        inputs.epsilon / 8, rel=1e-6, abs=0
    )
    assert sum(event.delta for event in selections) == pytest.approx(
        inputs.delta / 32, rel=1e-6, abs=0
    )
    assert (gates.epsilon, gates.delta) == (inputs.epsilon / 4, inputs.delta / 8)


@pytest.mark.parametrize(
    ("d", "k", "n"), [(20, 2, 6 * 10**10), (100, 5, 4 * 10**15), (1000, 10, 7 * 10**15)]
)
def test_numerical_delta_by_hand(d, k, n):
    """Variance of all draws times the squared log-odds error, and the tests drawn singly."""
    parameters = parameters_for(n_features=d, row_sparsity=k, n_records=n, delta=1e-6)
    levels = parameters.schedule.levels
    selecting = sum(level.candidates for level in levels if level.quota < level.candidates)
    full = [level.candidates for level in levels if level.quota == level.candidates]
    variance = 1.75 * selecting + 0.25 * (full[-1] + full[-2])
    singles = 256 * 2.0**-46 * (len(levels) - len(full))
    expected = (1 + math.e) * (math.sqrt(variance) * LOG_ODDS_ERROR / 2 + singles)
    guarantee = certify(parameters, private=True, exact_statistic=True)
    assert guarantee.numerical_delta == pytest.approx(expected, rel=1e-12, abs=0)
    assert guarantee.numerical_delta < guarantee.delta / 4


def test_a_delta_below_what_doubles_can_promise_is_refused():
    parameters = parameters_for(n_features=20, n_records=10**14, delta=1e-11)
    assert parameters.private
    with pytest.raises(PrivacyConditionError, match="numerical_delta must"):
        release_multiscale(simulated(parameters), parameters, UNTOUCHABLE)


def test_so_many_records_that_rounding_exceeds_the_sensitivity_are_refused():
    parameters = parameters_for(n_records=8 * 10**15)
    with pytest.raises(PrivacyConditionError, match=r"at most 7\.5e15"):
        certify(parameters, private=True, exact_statistic=False)
    assert certify(parameters, private=False, exact_statistic=True).epsilon == 1


def test_moments_of_another_size_are_refused():
    parameters = parameters_for()
    other_d = simulated(parameters_for(n_features=4))
    other_n = simulated(parameters_for(n_records=10**10 + 1))
    for moments in (other_d, other_n):
        with pytest.raises(DataError, match="10,000,000,000 records"):
            release_multiscale(moments, parameters, UNTOUCHABLE)


def test_moments_on_another_grid_are_refused():
    """A finer grid, or another radius, would change the sensitivity that was promised."""
    parameters = parameters_for()
    grid = grid_for(parameters)
    gram = np.diag([5, 6, 7]).astype(object)
    for other in (
        IntegerGrid(grid.radius, grid.half_width - 1),
        IntegerGrid(math.nextafter(grid.radius, 0), grid.half_width),
    ):
        moments = Statistics(gram, 10**10, RecordMap(3, other))
        with pytest.raises(DataError, match="moments must") as info:
            release_multiscale(moments, parameters, UNTOUCHABLE)
        assert repr(grid.radius) in str(info.value)


@pytest.mark.parametrize("private", [True, False])
def test_only_secret_noise_on_real_moments_is_called_private(private):
    parameters = parameters_for()
    entropy = entropy_source() if private else seeded(0)
    assert (
        release_multiscale(integer_moments(parameters), parameters, entropy).guarantee.private
        == private
    )
    assert not release_multiscale(simulated(parameters), parameters, entropy).guarantee.private


INPUTS = CalibratedInputs(100_000, 30, 3, 1.0, 1e-6, 1.0)
VALUE = Design(3.0, 0.25, 1, 1, 1.0, 1.0, 1.0, math.inf, 2.0)
GATE = Design(3.0, 2.0**-5, 5, 0.25, 1.0, 0.5, 0.7, math.inf, 0.0)
CLIPPED = dataclasses.replace(GATE, gate_clip=0.25)


def random_design(generator):
    return Design(
        clip_radius=generator.uniform(2, 5),
        base_threshold=2 ** generator.uniform(-8, 0),
        n_levels=int(generator.integers(1, 7)),
        base_tests=float(generator.choice([0.25, 1, 2, 8])),
        quota_factor=2 ** generator.uniform(-3, 4),
        energy_factor=2 ** generator.uniform(-4, 0),
        selection_ratio=2 ** generator.uniform(-2, 2),
        gate_clip=math.inf,
        keep_above=2.0,
    )


@pytest.mark.parametrize(
    "n_records",
    [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (10, 10**9)), 10_000, 10**15],
)
def test_every_design_is_certified_at_every_n(n_records):
    """And the noise is the least that is: a hundredth less breaks the budget."""
    generator = np.random.default_rng(n_records)
    for _ in range(6):
        design = random_design(generator)
        inputs = dataclasses.replace(INPUTS, n_records=n_records, epsilon=generator.uniform(0.1, 3))
        parameters = calibrated_parameters(inputs, design, "gate")
        guarantee = certify(parameters, private=True, exact_statistic=False)
        assert guarantee.transcript_epsilon <= inputs.epsilon
        assert guarantee.transcript_delta + guarantee.numerical_delta <= inputs.delta
        less = dataclasses.replace(
            parameters.schedule,
            gate_noise=0.99 * parameters.schedule.gate_noise,
            levels=tuple(
                lv
                if lv.selection_scale is None
                else dataclasses.replace(lv, selection_scale=0.99 * lv.selection_scale)
                for lv in parameters.schedule.levels
            ),
        )
        rounding = 1 + n_records * 2.0**-52
        events = schedule_events(less, rounding * parameters.entry_sensitivity)
        spent = compose(events, delta=inputs.delta).epsilon
        assert spent > inputs.epsilon


def test_events_are_what_the_proof_charges():
    """Recomputed from the schedule's numbers: bounded range 2 g / beta, Gaussian, clipping."""
    inputs = dataclasses.replace(INPUTS, n_records=3 * 10**6)
    parameters = calibrated_parameters(inputs, CLIPPED, "gate")
    # Rounding the moments to doubles costs n 2^-52 of the sensitivity.
    schedule = parameters.schedule
    delta_s = 2 * 9.0 / inputs.n_records * (1 + inputs.n_records * 2.0**-52)
    *selections, gaussian, slack = parameters.events
    selecting = [lv for lv in schedule.levels if lv.selection_scale is not None]
    for event, level in zip(selections, selecting, strict=True):
        assert isinstance(event, BoundedRange)
        assert event.count == level.quota
        expected = 2 * delta_s / level.threshold / level.selection_scale
        assert event.eta == pytest.approx(expected, rel=1e-9, abs=0)
    budget = sum(lv.quota / lv.threshold**2 for lv in schedule.levels)
    assert isinstance(gaussian, Gaussian)
    assert gaussian.mu == pytest.approx(
        delta_s * math.sqrt(budget) / schedule.gate_noise, rel=1e-6, abs=0
    )
    assert isinstance(slack, TotalVariation)
    beyond = math.erfc(0.25 / schedule.gate_noise / math.sqrt(2))
    assert slack.distance == pytest.approx(beyond * schedule.total_quota, rel=1e-6, abs=0)


@pytest.mark.parametrize(("reconstruction", "roundings"), [("gate", 1), ("value", 3)])
def test_rounding_is_part_of_the_sensitivity(reconstruction, roundings):
    """A fifth of it at 1e15 records, n 2^-52, and for values three times as much."""
    n = 10**15
    inputs = dataclasses.replace(INPUTS, n_records=n)
    parameters = calibrated_parameters(inputs, GATE, reconstruction)
    schedule = parameters.schedule
    sensitivity = 2 * 9.0 / n * (1 + roundings * n * 2.0**-52)
    *selections, gaussian = parameters.events
    mu = sensitivity * math.sqrt(schedule.query_budget) / schedule.gate_noise
    assert gaussian.mu == pytest.approx(mu, rel=1e-9, abs=0)
    selecting = [lv for lv in schedule.levels if lv.selection_scale is not None]
    assert [event.eta for event in selections] == pytest.approx(
        [2 * sensitivity / lv.threshold / lv.selection_scale for lv in selecting], rel=1e-9, abs=0
    )


@pytest.mark.parametrize("base_tests", [0.25, 1, 2.5, 7.3])
def test_as_many_tests_are_active_as_the_design_says(base_tests):
    """The unit of gates and the inverse activation of values take this number for granted."""
    design = dataclasses.replace(GATE, base_tests=base_tests)
    for schedule in (
        draft_schedule(INPUTS, design),
        calibrated_parameters(INPUTS, design, "gate").schedule,
        calibrated_parameters(INPUTS, design, "value").schedule,
    ):
        for ell, level in enumerate(schedule.levels):
            tests = base_tests * 4**ell
            assert level.repetitions == math.ceil(tests)
            assert level.repetitions * level.activation == pytest.approx(tests)
            assert level.activation + level.inactivation == pytest.approx(1)
            assert tests == pytest.approx(schedule.test_rate * level.threshold**2)


def test_clipped_gates_are_refused_where_their_noise_passes_the_clip():
    """Clipping is private only while all noises stay inside: more noise makes it worse."""
    clipped = dataclasses.replace(CLIPPED, quota_factor=0.2)
    many = dataclasses.replace(INPUTS, n_records=10**9)
    certify(calibrated_parameters(many, clipped, "gate"), private=True, exact_statistic=False)
    few = dataclasses.replace(INPUTS, n_records=10_000)
    with pytest.raises(PrivacyConditionError):
        calibrated_parameters(few, clipped, "gate")


def test_a_delta_below_what_finite_precision_costs_is_refused():
    inputs = dataclasses.replace(INPUTS, delta=1e-12)
    with pytest.raises(PrivacyConditionError, match="larger delta"):
        calibrated_parameters(inputs, dataclasses.replace(GATE, base_tests=1024), "gate")


@pytest.mark.parametrize(("reconstruction", "design"), [("value", VALUE), ("gate", GATE)])
def test_a_score_is_exact_or_at_least_what_is_enough(reconstruction, design):
    """What a search rejects need not be drawn to the end, and everything else is."""
    score = functools.partial(paper_plan.score_design, INPUTS, reconstruction, design)
    exact = score()
    for enough in exact * np.array([0.05, 0.5, 0.9, 0.999]):
        assert enough <= score(enough) <= exact
    assert score(exact * 0.05) < exact == score(exact * 1.001)


@pytest.mark.slow
def test_a_search_that_draws_every_error_to_the_end_finds_the_same_design(monkeypatch):
    found = [paper_plan.plan_multiscale.__wrapped__(INPUTS, "value")]
    scores, exact = [], paper_plan.score_design
    monkeypatch.setattr(
        paper_plan, "score_design", lambda *known: scores.append(known) or exact(*known[:3])
    )
    found.append(paper_plan.plan_multiscale.__wrapped__(INPUTS, "value"))
    assert len(scores) == len({design for *_, design, _ in scores}) > 20
    assert found[0].parameters.design == found[1].parameters.design
    assert found[0].predicted_error == found[1].predicted_error


def test_levels_that_all_select_are_certified():
    # The theorem at 900 features once failed here: no level of it keeps every test.
    inputs = PublicInputs(3 * 10**16, 900, 5, 0.25, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs)
    assert all(level.selection_scale is not None for level in parameters.schedule.levels)
    guarantee = certify(parameters, private=False, exact_statistic=True)
    assert 0 < guarantee.numerical_delta < guarantee.delta / 2
