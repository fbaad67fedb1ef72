"""The exact sampler has the law of the literal one, jointly over entries and levels.

`disagreements` compares means, marginals, the covariance matrix over all (level, entry) pairs and
one random projection; each has a false-alarm rate of 1e-6. The same comparison must reject
samplers that are deliberately wrong.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from hushcov.paper import samplers
from hushcov.paper.samplers import sample_exact
from paper.settings import SCHEDULES, STATISTIC, sample, sample_literal
from statistics_helpers import disagreements

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
        (MAIN, 4, RUNS),
        pytest.param(MAIN, DEFAULT, RUNS, marks=pytest.mark.slow),
        pytest.param("unclipped gates", 16, RUNS, marks=pytest.mark.slow),
        pytest.param("nearly noiseless", 16, RUNS, marks=pytest.mark.slow),
        pytest.param("gates of either sign", 32, RUNS, marks=pytest.mark.slow),
        ("gates of either sign", DEFAULT, RUNS),
        ("more room than active tests", 16, 250),
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


def draws_gates_independently_of_the_band(statistic, schedule, generator):
    """Selects rightly, then gives each kept test a fresh threshold for its gate."""
    rows = []
    for ell, level in enumerate(schedule.levels):
        entry = np.repeat(np.arange(len(statistic)), level.repetitions)
        tau = generator.uniform(1, 2, len(entry)) * 2.0**ell
        active = generator.random(len(entry)) < level.activation
        kept = np.flatnonzero(active)
        if level.selection_scale is not None:
            noise = generator.laplace(scale=level.selection_scale, size=len(entry))
            score = np.where(active, np.abs(statistic[entry]) / tau - 1, -2.0) + noise
            best = np.argsort(-score)[: level.quota]
            kept = best[active[best]]
        fresh = generator.uniform(1, 2, len(kept)) * 2.0**ell
        z = np.clip(
            generator.normal(scale=schedule.gate_noise, size=len(kept)),
            -schedule.gate_clip,
            schedule.gate_clip,
        )
        value = statistic[entry[kept]] / fresh + z
        gate = (value > 1).astype(np.int64) - (value < -1)
        rows.append(np.bincount(entry[kept], gate, minlength=len(statistic)).astype(np.int64))
    return np.stack(rows)


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
    ignores_selection,
    draws_gates_independently_of_the_band,
    uses_a_selection_scale_ten_percent_off,
    uses_a_gate_noise_ten_percent_off,
    keeps_three_percent_too_many,
    ignores_activation,
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


def test_the_settings_cover_what_they_promise():
    """Selection at some levels and not at others, every kind of entry, gates of both signs."""
    for schedule in SCHEDULES.values():
        assert any(level.selection_scale is not None for level in schedule.levels)
    noises = {schedule.gate_noise for schedule in SCHEDULES.values()}
    assert {1e-6, 0.01, 0.1} <= noises
    assert {0.0, 0.75, 1.0, 2.0} <= set(np.abs(STATISTIC))
    either = exact_draws("gates of either sign", DEFAULT, RUNS)
    zero_entry = either[:, STATISTIC.tolist().index(0.0)]
    assert zero_entry.min() < 0 < zero_entry.max()
