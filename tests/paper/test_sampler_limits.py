"""Limit cases and invariances of the two samplers, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.paper import parameters as schedule_module
from hushcov.paper.parameters import Level, Schedule, total_variation
from hushcov.paper.samplers import NoisyScores, sample_exact, sample_transcript
from paper.settings import SCHEDULES, STATISTIC, make_schedule, sample, sample_literal
from statistics_helpers import FALSE_ALARM, binomial_p_value

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


def test_a_lone_large_entry_fills_the_quota():
    """With little selection noise the quota goes to the entry that stands out, and all fires."""
    schedule = make_schedule([(1.0, 0.05, 0.01)], repetitions=300, gate_noise=0.1, gate_clip=0.25)
    statistic = np.zeros(10)
    statistic[3] = -30.0
    expected = np.zeros(10)
    expected[3] = -schedule.levels[0].quota
    for sampler in SAMPLERS:
        np.testing.assert_array_equal(
            sampler(statistic, schedule, np.random.default_rng(2))[0], expected
        )


@pytest.mark.parametrize("name", SCHEDULES)
def test_changing_the_signs_changes_the_signs(name):
    """The exact sampler works with |S|: with the same bits the answer is mirrored exactly."""
    counts = sample_exact(STATISTIC, SCHEDULES[name], np.random.default_rng(3))
    mirrored = sample_exact(-STATISTIC, SCHEDULES[name], np.random.default_rng(3))
    zero = STATISTIC == 0
    np.testing.assert_array_equal(counts[:, ~zero], -mirrored[:, ~zero])
    np.testing.assert_array_equal(np.abs(counts[:, zero]), np.abs(mirrored[:, zero]))
    assert counts.any()


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_order_of_the_entries_does_not_matter(name):
    """Entries are processed by size, so permuting them permutes the answer, bit for bit."""
    distinct = STATISTIC + np.array([0, 0, 0, 0, 0, 0.01, 0, 0, 0, 0])
    permutation = np.random.default_rng(4).permutation(10)
    counts = sample_exact(distinct, SCHEDULES[name], np.random.default_rng(5))
    permuted = sample_exact(distinct[permutation], SCHEDULES[name], np.random.default_rng(5))
    np.testing.assert_array_equal(counts[:, permutation], permuted)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_gates_never_pass_the_quota_or_the_repetitions(sampler, name):
    schedule = SCHEDULES[name]
    shape = (30, len(schedule.levels), len(STATISTIC))
    counts = np.abs(sample(sampler, schedule, 30, seed=6)).reshape(shape)
    for ell, level in enumerate(schedule.levels):
        assert counts[:, ell].max() <= level.repetitions
        assert counts[:, ell].sum(axis=1).max() <= level.quota


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_reproduces_the_draw_and_inputs_are_left_alone(sampler):
    schedule = SCHEDULES["selection around a full level"]
    statistic = STATISTIC.copy()
    statistic.flags.writeable = False
    first, second, other = (
        sampler(statistic, schedule, np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    assert first.dtype == np.int64
    assert first.shape == (3, 10)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_released_integers_weigh_a_gate_by_its_level():
    """A gate of level ell weighs 1/(kappa rho t_ell), which is 2^(L-1-ell) units."""
    schedule = replace(
        SCHEDULES["selection around a full level"], test_rate=3.5, gate_correction=1.01
    )
    n_levels = len(schedule.levels)
    for ell, level in enumerate(schedule.levels):
        one_gate = np.zeros((n_levels, 2), dtype=np.int64)
        one_gate[ell] = 1, -1
        units = 2 ** (n_levels - 1 - ell)
        assert schedule.integers(one_gate).tolist() == [units, -units]
        weight = 1 / (schedule.gate_correction * schedule.test_rate * level.threshold)
        assert schedule.integers(one_gate)[0] * schedule.unit == pytest.approx(
            weight, rel=1e-15, abs=0
        )
    counts = sample_exact(STATISTIC, schedule, np.random.default_rng(9))
    weights = 2 ** np.arange(n_levels)[::-1]
    np.testing.assert_array_equal(schedule.integers(counts), weights @ counts)


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


@pytest.mark.parametrize(("quota", "scale"), [(0, 1.0), (11, None), (-3, 1.0)])
def test_a_level_refuses_an_impossible_quota(quota, scale):
    text = rf"quota must be at least 1 and at most the 10 candidates .* got {quota}:"
    with pytest.raises(ParameterError, match=text):
        Level(1.0, 1, 0.5, 0.5, 10, quota, scale)


@pytest.mark.parametrize(("quota", "scale"), [(5, None), (10, 1.0)])
def test_a_level_selects_with_noise_or_not_at_all(quota, scale):
    with pytest.raises(ParameterError, match="selection_scale must"):
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
