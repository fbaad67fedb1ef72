"""The samplers have the law of the literal one, jointly over entries and levels.

`disagreements` compares means, marginals, covariances over all (level, entry) pairs and one random
projection, each with a false-alarm rate of 1e-6. It must reject samplers that are wrong.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.paper import parameters, samplers
from hushcov.paper import parameters as schedule_module
from hushcov.paper.parameters import Level, Schedule, total_variation
from hushcov.paper.samplers import (
    NoisyScores,
    Transcript,
    sample_exact,
    sample_transcript,
    value_integers,
    value_step,
)
from paper.settings import (
    SCHEDULES,
    STATISTIC,
    gate_counts,
    make_schedule,
    sample,
    sample_literal,
)
from statistics_helpers import (
    FALSE_ALARM,
    binomial_p_value,
    disagreements,
    normal_p_value,
    short_and_long,
)

MAIN = "selection around a full level"
RUNS = 700
DEFAULT = samplers.FEW_POINTS


@functools.cache
def exact_draws(name, few, runs):
    """`few` undecided points are drawn one by one; small values force bands and splits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "FEW_POINTS", few)
        return sample(sample_exact, SCHEDULES[name], runs, seed=1)


@functools.cache
def literal_draws(name, runs):
    return sample(sample_literal, SCHEDULES[name], 2 * runs, seed=2)


@pytest.mark.parametrize(
    ("name", "few", "runs"),
    [
        pytest.param(MAIN, 4, RUNS, marks=pytest.mark.slow),
        pytest.param(MAIN, DEFAULT, RUNS, marks=pytest.mark.slow),
        pytest.param("unclipped gates", 16, RUNS, marks=pytest.mark.slow),
        pytest.param("nearly noiseless", 16, RUNS, marks=pytest.mark.slow),
        pytest.param("gates of either sign", 32, RUNS, marks=pytest.mark.slow),
        *(("gates of either sign", DEFAULT, RUNS), ("more room than active tests", 16, 250)),
        pytest.param("more room than active tests", 16, RUNS, marks=pytest.mark.slow),
        pytest.param("more room than active tests", DEFAULT, RUNS, marks=pytest.mark.slow),
    ],
)
def test_exact_and_literal_have_the_same_law(name, few, runs):
    """False-alarm rate 1e-6 for each of the tests in `disagreements`."""
    assert disagreements(exact_draws(name, few, runs), literal_draws(name, runs)) == []


def test_small_sizes_really_use_bands_and_splits(monkeypatch):
    """Otherwise the comparison above would only test points drawn one by one."""
    seen = []
    selection = samplers.Selection

    def spy(bands, single_groups, single_details):
        seen.append((len(bands), len(single_groups)))
        return selection(bands, single_groups, single_details)

    monkeypatch.setattr(samplers, "FEW_POINTS", 4)
    monkeypatch.setattr(samplers, "Selection", spy)
    sample(sample_exact, SCHEDULES[MAIN], 50, seed=3)
    bands, singles = np.array(seen).T
    assert bands.min() >= 1
    assert bands.max() >= 3
    assert 0 < singles.max() <= 4


def on_selecting_levels(schedule, **changes):
    """A schedule whose selecting levels are changed: each change maps a level to a new value."""
    levels = [
        level
        if level.selection_scale is None
        else replace(level, **{name: change(level) for name, change in changes.items()})
        for level in schedule.levels
    ]
    return replace(schedule, levels=tuple(levels))


def ignores_selection(statistic, schedule, generator):
    everything = on_selecting_levels(
        schedule, quota=lambda level: level.candidates, selection_scale=lambda _: None
    )
    return sample_literal(statistic, everything, generator)


def uses_a_selection_scale_ten_percent_off(statistic, schedule, generator):
    wrong = on_selecting_levels(schedule, selection_scale=lambda lv: 1.1 * lv.selection_scale)
    return sample_literal(statistic, wrong, generator)


def uses_a_gate_noise_ten_percent_off(statistic, schedule, generator):
    wrong = replace(schedule, gate_noise=1.1 * schedule.gate_noise)
    return sample_literal(statistic, wrong, generator)


def keeps_three_percent_too_many(statistic, schedule, generator):
    wrong = on_selecting_levels(schedule, quota=lambda level: round(1.03 * level.quota))
    return sample_literal(statistic, wrong, generator)


def ignores_activation(statistic, schedule, generator):
    levels = tuple(replace(level, activation=1.0) for level in schedule.levels)
    return sample_literal(statistic, replace(schedule, levels=levels), generator)


WRONG_SAMPLERS = [
    pytest.param(ignores_selection, marks=pytest.mark.slow),
    pytest.param(uses_a_selection_scale_ten_percent_off, marks=pytest.mark.slow),
    pytest.param(keeps_three_percent_too_many, marks=pytest.mark.slow),
    *(uses_a_gate_noise_ten_percent_off, ignores_activation),
]


@pytest.mark.parametrize("wrong", WRONG_SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_wrong_samplers_are_rejected(wrong):
    draws = sample(wrong, SCHEDULES[MAIN], 2 * RUNS, seed=2)
    assert disagreements(exact_draws(MAIN, 4, RUNS), draws)


def test_entries_drawn_independently_are_rejected():
    """Shuffling a column over the runs keeps its marginal: only the joint law is wrong."""
    generator = np.random.default_rng(4)
    draws, others = np.split(literal_draws("nearly noiseless", RUNS), 2)
    shuffled = np.stack([generator.permutation(column) for column in others.T], axis=1)
    assert disagreements(draws, others) == []
    found = disagreements(draws, shuffled)
    assert "covariances" in found
    assert "marginals" not in found


# Limit cases and invariances, and what is refused.


SAMPLERS = [sample_exact, sample_literal]
CLIPPED = [name for name, schedule in SCHEDULES.items() if schedule.gate_clip == 0.25]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", CLIPPED)
def test_nothing_fires_at_or_below_three_quarters_of_the_threshold(sampler, name):
    """Clipped noise cannot lift |S|/T <= 3/4 above one: exactly zero, whatever is selected."""
    generator = np.random.default_rng(0)
    for statistic in (np.zeros(10), np.full(10, 0.75), np.full(10, -0.75)):
        for _ in range(5):
            assert not sampler(statistic, SCHEDULES[name], generator).any()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_entries_far_above_count_their_active_tests(sampler):
    """Without selection every active test fires: N is Binomial(m, p). False-alarm rate 1e-6."""
    schedule = make_schedule([(0.7, 1, None)], repetitions=50, gate_noise=0.1, gate_clip=0.25)
    generator = np.random.default_rng(1)
    far = np.array([2.5, 3.0, -2.5, -50.0, 1e9, -1e15, 10.0, -10.0, 2.6, 1e100])
    counts = np.stack([sampler(far, schedule, generator)[0] for _ in range(2_000)])
    assert (np.sign(counts) == np.sign(far)).all()
    assert binomial_p_value(np.abs(counts).ravel(), 50, 0.7) > FALSE_ALARM
    assert binomial_p_value(np.abs(counts).ravel(), 50, 0.63) < FALSE_ALARM


@pytest.mark.parametrize("name", SCHEDULES)
def test_changing_the_signs_changes_the_signs(name):
    """The exact sampler works with |S|: with the same bits the answer is mirrored exactly."""
    counts = sample_exact(STATISTIC, SCHEDULES[name], np.random.default_rng(3))
    mirrored = sample_exact(-STATISTIC, SCHEDULES[name], np.random.default_rng(3))
    zero = STATISTIC == 0
    np.testing.assert_array_equal(counts[:, ~zero], -mirrored[:, ~zero])
    np.testing.assert_array_equal(np.abs(counts[:, zero]), np.abs(mirrored[:, zero]))
    assert counts.any()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_gates_never_pass_the_quota_or_the_repetitions(sampler, name):
    schedule = SCHEDULES[name]
    shape = (30, len(schedule.levels), len(STATISTIC))
    counts = np.abs(sample(sampler, schedule, 30, seed=6)).reshape(shape)
    for ell, level in enumerate(schedule.levels):
        assert counts[:, ell].max() <= level.repetitions
        assert counts[:, ell].sum(axis=1).max() <= level.quota


def huge_schedule(repetitions, *, activation=0.5, quota=None, scale=None):
    candidates = 10 * repetitions
    level = Level(
        1.0, repetitions, activation, 1 - activation, candidates, quota or candidates, scale
    )
    return Schedule(4, (level,), 1.0, 0.1, 0.25, 1.0)


class Refusing:
    """A generator that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"noise was drawn ({name}) before the refusal")


def test_schedules_beyond_the_integers_are_refused_before_any_draw():
    with pytest.raises(CapacityError, match=r"4\.61e\+18 .* target_error"):
        sample_exact(STATISTIC, huge_schedule(2**60), Refusing())


@pytest.mark.parametrize("sampler", [sample_exact, sample_transcript])
def test_ties_that_doubles_cannot_break_are_refused(sampler):
    """Selection noise of 1e-17 around the score -1 of the inactive tests is below its last bit."""
    schedule = huge_schedule(10_000, activation=1e-9, quota=50, scale=1e-17)
    with pytest.raises(CapacityError, match="4,441 tests are tied"):
        sampler(np.full(10, 1e-9), schedule, np.random.default_rng(10))


# A level with few candidates draws all of them; one with a large quota draws its edge.
DRAWN_SINGLY = {
    "few candidates, one kept": huge_schedule(20, quota=1, scale=0.1),
    "many candidates": huge_schedule(100_000, quota=200_000, scale=0.1),
    "tied": huge_schedule(10_000, activation=0.1, quota=50_000, scale=1e-17),
    **SCHEDULES,
}


@pytest.mark.parametrize("sampler", [sample_exact, sample_transcript])
@pytest.mark.parametrize("name", DRAWN_SINGLY)
def test_no_more_tests_are_drawn_one_by_one_than_are_charged(sampler, name, monkeypatch):
    """Those of an edge that were not kept in the end are charged as well."""
    schedule, drawn = DRAWN_SINGLY[name], []
    draw = NoisyScores.draw

    def counted(self, generator, groups, lo, hi):
        drawn.append(len(groups))
        return draw(self, generator, groups, lo, hi)

    monkeypatch.setattr(NoisyScores, "draw", counted)
    for seed in range(5):
        drawn.clear()
        sampler(STATISTIC, schedule, np.random.default_rng(seed))
        whole = sampler is sample_transcript
        with_singles = total_variation(schedule, all_tests_drawn=whole)
        monkeypatch.setattr(schedule_module, "SINGLE_TEST", 0.0)
        without = total_variation(schedule, all_tests_drawn=whole)
        monkeypatch.setattr(schedule_module, "SINGLE_TEST", 2.0**-46)
        assert 0 < sum(drawn) <= round((with_singles - without) * 2**46)


def test_what_is_charged_for_single_tests_follows_from_public_numbers():
    """256 a level, and more only where doubles cannot tell the tests at its edge apart."""
    level = SCHEDULES["nearly noiseless"].levels[1]
    assert level.most_single == 256
    assert replace(level, selection_scale=1e-17).most_single == math.ceil(1200 * 1e17 / 2**50)
    assert replace(level, selection_scale=1e-30).most_single == 5_000_000
    assert SCHEDULES["unclipped gates"].levels[1].most_single == 0


@pytest.mark.parametrize(
    ("quota", "scale", "words"),
    [
        (0, 1.0, "quota must be at least 1 .* got 0:"),
        (11, None, "quota must be .* at most the 10 candidates .* got 11:"),
        *((q, s, "selection_scale must") for q, s in ((5, None), (10, 1.0))),
    ],
)
def test_a_level_refuses_impossible_quotas_and_selects_with_noise_or_not_at_all(
    quota, scale, words
):
    with pytest.raises(ParameterError, match=words):
        Level(1.0, 1, 0.5, 0.5, 10, quota, scale)


@pytest.mark.parametrize("clip", [0.05, 0.25, math.inf])
def test_gate_noise_is_clipped_where_the_schedule_says(clip):
    """Gaussian inside, and what is beyond lies at the ends. False-alarm rate 1e-6."""
    schedule = replace(SCHEDULES["selection around a full level"], gate_clip=clip)
    noise = schedule.draw_gate_noise(np.random.default_rng(0), 100_000)
    assert np.abs(noise).max() <= clip
    if clip < math.inf:
        beyond = math.erfc(clip / 0.1 / math.sqrt(2))
        assert binomial_p_value(np.abs(noise) == clip, 1, beyond) > FALSE_ALARM
    inside = math.erf(0.04 / 0.1 / math.sqrt(2))
    assert binomial_p_value(np.abs(noise) < 0.04, 1, inside) > FALSE_ALARM
    assert binomial_p_value(np.abs(noise) < 0.04, 1, 0.9 * inside) < FALSE_ALARM


# Gumbel selection, and the transcript (J, V) drawn test by test.


# Enough to tell Gumbel from Laplace noise. Literal draws are cheap, so there are ten times as many.
GUMBEL_RUNS, LONG = 150, 600
GUMBEL = {name: replace(schedule, gumbel=True) for name, schedule in SCHEDULES.items()}


def draw_singly(monkeypatch, few):
    """Let `few` tests be drawn one by one, and be charged."""
    monkeypatch.setattr(samplers, "FEW_POINTS", few)
    monkeypatch.setattr(parameters, "FEW_POINTS", few)


@functools.cache
def gumbel_draws(name, runs):
    return sample(sample_literal, GUMBEL[name], 10 * runs, seed=12)


def gates_of_transcript(statistic, schedule, generator):
    return gate_counts(sample_transcript(statistic, schedule, generator), schedule)


OTHERS = (MAIN, 16), ("nearly noiseless", 4096)


@short_and_long("runs", GUMBEL_RUNS, LONG)
@pytest.mark.parametrize("sampler", [sample_exact, gates_of_transcript])
@pytest.mark.parametrize(
    ("name", "few"),
    [
        ("gates of either sign", 32),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS),
    ],
)
def test_gumbel_samplers_have_the_literal_law(sampler, name, few, runs, monkeypatch):
    """False-alarm rate 1e-6 for each of the tests in `disagreements`."""
    draw_singly(monkeypatch, few)
    drawn = sample(sampler, GUMBEL[name], runs, seed=11)
    assert disagreements(drawn, gumbel_draws(name, runs)) == []


@pytest.mark.slow
def test_the_comparison_tells_gumbel_from_laplace():
    gumbel = sample(sample_exact, GUMBEL[MAIN], GUMBEL_RUNS, seed=15)
    laplace = sample(sample_literal, SCHEDULES[MAIN], 10 * GUMBEL_RUNS, seed=16)
    assert disagreements(gumbel, laplace) != []


def test_the_comparison_rejects_thresholds_that_ignore_the_selection(monkeypatch):
    """A transcript whose thresholds are uniform within a band, the likeliest mistake."""

    def forgetful(statistic, schedule, generator):
        right = sample_transcript(statistic, schedule, generator)
        tau = generator.uniform(1, 2, len(right.level)) * 2.0**right.level
        query = statistic[right.entry] / tau + schedule.draw_gate_noise(generator, len(tau))
        return gate_counts(Transcript(right.level, right.entry, tau, query), schedule)

    monkeypatch.setattr(samplers, "FEW_POINTS", 16)
    wrong = sample(forgetful, GUMBEL[MAIN], GUMBEL_RUNS, seed=17)
    assert disagreements(wrong, gumbel_draws(MAIN, GUMBEL_RUNS)) != []


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


def test_positions_not_looked_at_are_made_up_for():
    """With activation 1/4 the mean over runs is still the statistic (false alarm 1e-6)."""
    schedule = make_schedule([(0.25, 1, None)], repetitions=1, gate_noise=0.1, gate_clip=math.inf)
    generator = np.random.default_rng(23)
    step = value_step(schedule)
    drawn = (sample_transcript(STATISTIC, schedule, generator) for _ in range(4_000))
    values = np.stack([value_integers(each, schedule, 0.0, step) for each in drawn]) * step
    z = (values.mean(axis=0) - STATISTIC) / (values.std(axis=0) / math.sqrt(len(values)))
    assert normal_p_value(z) > 1e-6
    assert np.mean(values[:, -1] == 0) == pytest.approx(0.75, abs=0.05)


def test_a_transcript_that_would_not_fit_is_refused():
    huge = make_schedule([(1.0, 1, None)], repetitions=10**8, gate_noise=0.1, gate_clip=0.25)
    with pytest.raises(CapacityError, match="reconstruction='gate'"):
        sample_transcript(STATISTIC, huge, np.random.default_rng(0))
