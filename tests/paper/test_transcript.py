"""Gumbel selection, and the transcript (J, V) drawn test by test, against the literal algorithm."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.exceptions import CapacityError
from hushcov.paper import parameters, samplers
from hushcov.paper.samplers import (
    Transcript,
    sample_exact,
    sample_transcript,
    value_integers,
    value_step,
)
from paper.settings import SCHEDULES, STATISTIC, gate_counts, make_schedule, sample, sample_literal
from statistics_helpers import disagreements, normal_p_value, short_and_long

# Enough to tell Gumbel from Laplace noise. Literal draws are cheap, so there are ten times as many.
RUNS, LONG = 150, 600
GUMBEL = {name: replace(schedule, gumbel=True) for name, schedule in SCHEDULES.items()}
MAIN = "selection around a full level"


def draw_singly(monkeypatch, few):
    """Let `few` tests be drawn one by one, and be charged."""
    monkeypatch.setattr(samplers, "FEW_POINTS", few)
    monkeypatch.setattr(parameters, "FEW_POINTS", few)


@functools.cache
def literal_draws(name, runs):
    return sample(sample_literal, GUMBEL[name], 10 * runs, seed=12)


def gates_of_transcript(statistic, schedule, generator):
    return gate_counts(sample_transcript(statistic, schedule, generator), schedule)


@short_and_long("runs", RUNS, LONG)
@pytest.mark.parametrize("sampler", [sample_exact, gates_of_transcript])
@pytest.mark.parametrize(
    ("name", "few"), [(MAIN, 16), ("gates of either sign", 32), ("nearly noiseless", 4096)]
)
def test_gumbel_samplers_have_the_literal_law(sampler, name, few, runs, monkeypatch):
    """False-alarm rate 1e-6 for each of the tests in `disagreements`."""
    draw_singly(monkeypatch, few)
    drawn = sample(sampler, GUMBEL[name], runs, seed=11)
    assert disagreements(drawn, literal_draws(name, runs)) == []


@short_and_long("runs", RUNS, LONG)
def test_transcript_with_laplace_noise_has_the_literal_law(runs, monkeypatch):
    monkeypatch.setattr(samplers, "FEW_POINTS", 16)
    drawn = sample(gates_of_transcript, SCHEDULES[MAIN], runs, seed=13)
    literal = sample(sample_literal, SCHEDULES[MAIN], 10 * runs, seed=14)
    assert disagreements(drawn, literal) == []


def test_the_comparison_tells_gumbel_from_laplace():
    gumbel = sample(sample_exact, GUMBEL[MAIN], RUNS, seed=15)
    laplace = sample(sample_literal, SCHEDULES[MAIN], 10 * RUNS, seed=16)
    assert disagreements(gumbel, laplace) != []


def test_the_comparison_rejects_thresholds_that_ignore_the_selection(monkeypatch):
    """A transcript whose thresholds are uniform within a band, the likeliest mistake."""

    def forgetful(statistic, schedule, generator):
        right = sample_transcript(statistic, schedule, generator)
        tau = generator.uniform(1, 2, len(right.level)) * 2.0**right.level
        query = statistic[right.entry] / tau + schedule.draw_gate_noise(generator, len(tau))
        return gate_counts(Transcript(right.level, right.entry, tau, query), schedule)

    monkeypatch.setattr(samplers, "FEW_POINTS", 16)
    wrong = sample(forgetful, GUMBEL[MAIN], RUNS, seed=17)
    assert disagreements(wrong, literal_draws(MAIN, RUNS)) != []


@pytest.mark.parametrize("reach", [300, 650, 720, 760, 2000])
@pytest.mark.parametrize("sampler", [sample_exact, gates_of_transcript])
def test_scores_far_apart_in_units_of_the_noise(sampler, reach, monkeypatch):
    """Where e^(-score/b) leaves the doubles: the largest scores are still the ones kept.

    Far entries have scores hundreds of b above the others, and the quota holds exactly them, so
    every draw keeps all their tests; what is drawn one by one and in bands must both do that.
    """
    statistic = np.array([0.0, 0.0, 0.1, 0.0, 8.0, -8.0, 7.0, 0.0, 6.0, -6.0])
    schedule = replace(
        make_schedule([(1.0, 0.5, 8.0 / reach)], repetitions=30, gate_noise=1e-3, gate_clip=0.25),
        gumbel=True,
    )
    generator = np.random.default_rng(19)
    for few in (4, 10_000):
        draw_singly(monkeypatch, few)
        for _ in range(20):
            gates = sampler(statistic, schedule, generator)[0]
            np.testing.assert_array_equal(np.abs(gates), 30 * (np.abs(statistic) > 1))


def test_values_are_unbiased_with_the_stated_deviation():
    """T V = S_e + T Z: the standardised values are standard normal (false alarm 1e-6)."""
    schedule = make_schedule([(1.0, 1, None)], repetitions=3, gate_noise=0.2, gate_clip=math.inf)
    generator = np.random.default_rng(21)
    step = value_step(schedule)
    standardised = []
    for _ in range(2_000):
        transcript = sample_transcript(STATISTIC, schedule, generator)
        precision = np.bincount(transcript.entry, transcript.threshold**-2.0)
        value = value_integers(transcript, schedule, 0.0, step) * step
        standardised.append((value - STATISTIC) * np.sqrt(precision) / schedule.gate_noise)
    scores = np.array(standardised)
    assert normal_p_value(scores.mean(axis=0) * math.sqrt(len(scores))) > 1e-6
    # Rounding to a quarter of the best deviation adds at most 1/(12 * 16) to the variance.
    spread = scores.var(axis=0, ddof=1) - 1
    assert np.all(spread > -6 * math.sqrt(2 / len(scores)))
    assert np.all(spread < 1 / 192 + 6 * math.sqrt(2 / len(scores)))


def test_values_below_the_multiple_are_dropped():
    schedule = make_schedule([(1.0, 1, None)], repetitions=1, gate_noise=0.2, gate_clip=math.inf)
    transcript = sample_transcript(STATISTIC, schedule, np.random.default_rng(22))
    step = value_step(schedule)
    deviation = schedule.gate_noise * transcript.threshold[np.argsort(transcript.entry)]
    everything = value_integers(transcript, schedule, 0.0, step) * step
    kept = value_integers(transcript, schedule, 3.0, step)
    sure = np.abs(np.abs(everything) - 3 * deviation) > step
    np.testing.assert_array_equal((kept != 0)[sure], (np.abs(everything) > 3 * deviation)[sure])


def test_positions_not_looked_at_are_made_up_for():
    """With activation 1/4 the mean over runs is still the statistic (false alarm 1e-6)."""
    schedule = make_schedule([(0.25, 1, None)], repetitions=1, gate_noise=0.1, gate_clip=math.inf)
    generator = np.random.default_rng(23)
    step = value_step(schedule)
    values = (
        np.stack(
            [
                value_integers(
                    sample_transcript(STATISTIC, schedule, generator), schedule, 0.0, step
                )
                for _ in range(4_000)
            ]
        )
        * step
    )
    z = (values.mean(axis=0) - STATISTIC) / (values.std(axis=0) / math.sqrt(len(values)))
    assert normal_p_value(z) > 1e-6
    assert np.mean(values[:, -1] == 0) == pytest.approx(0.75, abs=0.05)


def test_a_transcript_that_would_not_fit_is_refused():
    huge = make_schedule([(1.0, 1, None)], repetitions=10**8, gate_noise=0.1, gate_clip=0.25)
    with pytest.raises(CapacityError, match="reconstruction='gate'"):
        sample_transcript(STATISTIC, huge, np.random.default_rng(0))
