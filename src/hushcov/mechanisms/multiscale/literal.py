"""Algorithm 1 as the paper writes it, candidate by candidate: the readable statement.

It draws every candidate, so it is for small sizes: the tests hold the exact sampler against it.
"""

from __future__ import annotations

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.multiscale.schedule import Level, Schedule

LARGEST_LEVEL = 20_000_000  # candidates of one level held in memory at once


def sample_literal(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Draw the gate counts N+ - N- of every level (rows) and entry (columns).

    `statistic` is the upper triangle of S, row by row, in units of the smallest threshold.
    """
    most = max(level.candidates for level in schedule.levels)
    if most > LARGEST_LEVEL:
        raise CapacityError(
            f"the literal sampler holds at most {LARGEST_LEVEL:,} candidates of a level and this "
            f"schedule has {most:,}: use sample_exact, which draws the same law."
        )
    # The numbers are the lines of Algorithm 1. Lines 1-2, clipping and S, came before.
    return np.stack(
        [
            _sample_level(statistic, 2.0**ell, level, schedule, generator)
            for ell, level in enumerate(schedule.levels)
        ]
    )


def _sample_level(
    statistic: FloatArray,
    t: float,
    level: Level,
    schedule: Schedule,
    generator: np.random.Generator,
) -> IntArray:
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
