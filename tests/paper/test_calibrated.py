"""Calibrated schedules: certified at every n, by the accountant and against known curves."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from hushcov.accounting import BoundedRange, Gaussian, TotalVariation, compose
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.inputs import CalibratedInputs
from hushcov.noise import Entropy, entropy_source
from hushcov.paper.mechanism import (
    Design,
    calibrated_parameters,
    certify,
    draft_schedule,
    grid_for,
    release_multiscale,
    schedule_events,
)
from hushcov.paper.parameters import Level
from hushcov.simulate import gaussian_records, sparse_covariance, wishart_moments
from hushcov.sums.gram import second_moments
from hushcov.tables.sources import open_records

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


def test_the_accountant_beats_the_zcdp_draft_slightly():
    """The draft's noise is private by zCDP, so the certified one is no larger; nor much smaller."""
    for design in (VALUE, GATE):
        draft = draft_schedule(INPUTS, design).gate_noise
        certified = calibrated_parameters(INPUTS, design, "gate").schedule.gate_noise
        assert 0.8 * draft < certified < 1.001 * draft


def test_clipped_gates_are_refused_where_their_noise_passes_the_clip():
    """Clipping is private only while all noises stay inside: more noise makes it worse."""
    clipped = dataclasses.replace(CLIPPED, quota_factor=0.2)
    many = dataclasses.replace(INPUTS, n_records=10**9)
    certify(calibrated_parameters(many, clipped, "gate"), private=True, exact_statistic=False)
    few = dataclasses.replace(INPUTS, n_records=10_000)
    with pytest.raises(PrivacyConditionError):
        calibrated_parameters(few, clipped, "gate")


def test_a_full_level_costs_nothing_to_select():
    everything = dataclasses.replace(VALUE, quota_factor=1e6)
    parameters = calibrated_parameters(INPUTS, everything, "value")
    assert [type(event) for event in parameters.events] == [Gaussian]


def test_integer_moments_of_records_are_released():
    truth = sparse_covariance("block", 30, 3)
    parameters = calibrated_parameters(INPUTS, VALUE, "value")
    records = open_records(gaussian_records(truth, INPUTS.n_records))
    moments = second_moments(records, grid_for(parameters))
    assert release_multiscale(moments, parameters, entropy_source()).guarantee.private
    release = release_multiscale(moments, parameters, Entropy(np.random.default_rng(0), False))
    assert np.abs(release.covariance() - truth).max() < 0.05
    np.testing.assert_array_equal(release.integers, release.integers.T)
    json.dumps(release.parameters)


def test_gates_and_values_estimate_the_same_matrix():
    truth = sparse_covariance("block", 30, 3)
    inputs = dataclasses.replace(INPUTS, n_records=10**7)
    moments = wishart_moments(truth, inputs.n_records)
    for design, name in ((VALUE, "value"), (dataclasses.replace(GATE, base_tests=4), "gate")):
        parameters = calibrated_parameters(inputs, design, name)
        release = release_multiscale(moments, parameters, Entropy(np.random.default_rng(0), False))
        assert np.abs(release.covariance() - truth).max() < 0.12
        assert not release.guarantee.private


def test_a_delta_below_what_finite_precision_costs_is_refused():
    inputs = dataclasses.replace(INPUTS, delta=1e-12)
    with pytest.raises(PrivacyConditionError, match="larger delta"):
        calibrated_parameters(inputs, dataclasses.replace(GATE, base_tests=1024), "gate")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("epsilon", 11.0),
        ("epsilon", "1"),
        ("delta", 0.0),
        ("delta", 0.2),
        ("delta", math.nan),
        ("row_sparsity", 31),
        ("row_sparsity", 0),
        ("n_records", 0),
        ("n_records", 10.5),
        ("scale", -1.0),
        ("scale", math.inf),
    ],
)
def test_bad_inputs_are_typed_errors(name, value):
    with pytest.raises(ParameterError, match=name):
        dataclasses.replace(INPUTS, **{name: value})


def test_a_quota_above_the_candidates_is_refused():
    with pytest.raises(ParameterError, match=r"quota must .* 10"):
        Level(1.0, 1, 1.0, 0.0, 10, 11, None)
    with pytest.raises(ParameterError, match="selection_scale"):
        Level(1.0, 1, 1.0, 0.0, 10, 5, None)


def test_reconstruction_must_be_known():
    with pytest.raises(ParameterError, match="reconstruction"):
        calibrated_parameters(INPUTS, VALUE, "both")
