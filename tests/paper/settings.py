"""Small schedules on which both samplers run, with every kind of entry the mechanism meets."""

from __future__ import annotations

import math

import numpy as np

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
            Level(
                threshold=2.0**ell,
                repetitions=repetitions,
                activation=p,
                inactivation=1 - p,
                candidates=candidates,
                quota=round(share * candidates),
                selection_scale=b,
            )
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
    # The numbers are the lines of Algorithm 1. Lines 1-2, clipping and S, came before.
    return np.stack(
        [
            _sample_level(statistic, 2.0**ell, level, schedule, generator)
            for ell, level in enumerate(schedule.levels)
        ]
    )


def _sample_level(statistic, t, level, schedule, generator):
    entry = np.repeat(np.arange(len(statistic)), level.repetitions)
    S = statistic[entry]
    U = generator.random(len(entry)) < level.activation  # line 4
    T = generator.uniform(t, 2 * t, len(entry))  # line 4
    if level.selection_scale is not None:  # line 7
        draw = generator.gumbel if schedule.gumbel else generator.laplace
        zeta = draw(scale=level.selection_scale, size=len(entry))  # line 9
        q = np.where(U, np.abs(S) / T - 1, -2.0)  # line 10
        J = np.argsort(-(q + zeta))[: level.quota]  # line 12
    else:
        J = np.arange(len(entry))  # line 14
    selected = J[U[J]]  # line 19
    Z = generator.normal(scale=schedule.gate_noise, size=len(selected))  # line 20
    Z = np.clip(Z, -schedule.gate_clip, schedule.gate_clip)  # line 20
    V = S[selected] / T[selected] + Z
    psi = (V > 1).astype(np.int64) - (V < -1)  # line 21; the public weight is applied later
    gates = np.zeros(len(statistic), dtype=np.int64)
    np.add.at(gates, entry[selected], psi)
    return gates


def gate_counts(transcript, schedule):
    """N+ - N- of every level (rows) and entry (columns): the paper's reconstruction."""
    psi = (transcript.query > 1).astype(np.int64) - (transcript.query < -1)
    counts = np.zeros((len(schedule.levels), schedule.n_entries), dtype=np.int64)
    np.add.at(counts, (transcript.level, transcript.entry), psi)
    return counts
