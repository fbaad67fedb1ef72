"""Small schedules on which both samplers run, with every kind of entry the mechanism meets."""

from __future__ import annotations

import math

import numpy as np

from hushcov.paper import run_algorithm_on_moments
from hushcov.paper.mechanism import symmetric
from hushcov.paper.parameters import Level, Schedule

# Ten entries (d = 4) in units of t_0: zero, the edges 3t/4, t and 2t of several levels, entries
# below and far above all thresholds, and negative ones.
STATISTIC = np.array([0.0, 0.75, 1.0, 2.0, 8.0, -1.0, -1.5, 0.5, 3.0, -100.0])


def make_schedule(levels, *, repetitions, gate_noise, gate_clip):
    """Levels are (activation, kept share, selection scale or None)."""
    candidates = repetitions * len(STATISTIC)
    return Schedule(
        n_features=4,
        levels=tuple(
            Level(2.0**ell, repetitions, p, 1 - p, candidates, round(share * candidates), b)
            for ell, (p, share, b) in enumerate(levels)
        ),
        test_rate=1.0,
        gate_noise=gate_noise,
        gate_clip=gate_clip,
        gate_correction=1.0,
    )


SCHEDULES = {
    "selection around a full level": make_schedule(
        [(0.7, 0.35, 0.3), (0.9, 1, None), (0.8, 0.25, 0.15)],
        repetitions=300,
        gate_noise=0.1,
        gate_clip=0.25,
    ),
    "unclipped gates": make_schedule(
        [(0.6, 0.4, 0.05), (0.95, 1, None)], repetitions=300, gate_noise=0.01, gate_clip=math.inf
    ),
    # At the first level the two largest entries share so small a quota that what one takes the
    # other lacks.
    "nearly noiseless": make_schedule(
        [(0.5, 0.07, 0.02), (0.8, 0.4, 1e-3)], repetitions=300, gate_noise=1e-6, gate_clip=0.25
    ),
    "gates of either sign": make_schedule(
        [(0.9, 0.6, 0.5), (1.0, 1, None)], repetitions=300, gate_noise=0.6, gate_clip=math.inf
    ),
    # The quota passes the active candidates, so inactive ones are kept too.
    "more room than active tests": make_schedule(
        [(0.4, 0.7, 1.0), (0.3, 0.5, 0.2)], repetitions=40, gate_noise=0.1, gate_clip=0.25
    ),
}


def sample(sampler, schedule, runs, seed):
    """`runs` draws, one a row, of all (level, entry) counts."""
    generator = np.random.default_rng(seed)
    return np.stack([sampler(STATISTIC, schedule, generator).ravel() for _ in range(runs)])


def sample_literal(statistic, schedule, generator):
    """Gate counts N+ - N- of every level (rows) and entry (columns), by Algorithm 1 test by test.

    `statistic` is the upper triangle of S, row by row, in units of the smallest threshold.
    """
    position = symmetric(np.arange(len(statistic)), schedule.n_features)
    S = symmetric(statistic, schedule.n_features)
    run = run_algorithm_on_moments(S, schedule, generator)
    counts = np.zeros((len(schedule.levels), schedule.n_entries), dtype=np.int64)
    np.add.at(counts, (run.level[run.J], position[run.row, run.column][run.J]), run.gate)
    return counts


def gate_counts(transcript, schedule):
    """N+ - N- of every level (rows) and entry (columns): the paper's reconstruction."""
    psi = (transcript.query > 1).astype(np.int64) - (transcript.query < -1)
    counts = np.zeros((len(schedule.levels), schedule.n_entries), dtype=np.int64)
    np.add.at(counts, (transcript.level, transcript.entry), psi)
    return counts
