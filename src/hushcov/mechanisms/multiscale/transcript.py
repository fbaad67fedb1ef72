"""The protected transcript (J, V) of Algorithm 1, test by test, for schedules that are not huge.

The exact sampler draws only how many gates open. Reading values from the transcript needs the
selected tests themselves: their thresholds T and noisy queries V = S_e/T + Z. They are drawn from
the same selection, one by one, so the cost grows with the quotas but not with the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.multiscale.exact import by_size, check_capacity
from hushcov.mechanisms.multiscale.schedule import Level, Schedule
from hushcov.mechanisms.multiscale.selection import active_tests, noisy_scores, select_tests

LARGEST_TRANSCRIPT = 50_000_000  # tests


@dataclass(frozen=True)
class Transcript:
    """Selected active tests: level, entry, threshold in units of t_0, and noisy query V.

    Selected inactive tests carry pure noise that no reconstruction reads; they are left out.
    """

    level: IntArray
    entry: IntArray
    threshold: FloatArray
    query: FloatArray

    def gate_counts(self, schedule: Schedule) -> IntArray:
        """N+ - N- of every level (rows) and entry (columns): the paper's reconstruction."""
        psi = (self.query > 1).astype(np.int64) - (self.query < -1)
        counts = np.zeros((len(schedule.levels), schedule.n_entries), dtype=np.int64)
        np.add.at(counts, (self.level, self.entry), psi)
        return counts


def sample_transcript(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> Transcript:
    """Draw (J, V) for the upper triangle `statistic` of S in units of the smallest threshold."""
    check_capacity(schedule)
    if schedule.total_quota > LARGEST_TRANSCRIPT:
        raise CapacityError(
            f"a transcript holds at most {LARGEST_TRANSCRIPT:,} tests and this schedule selects "
            f"{schedule.total_quota:,}: use reconstruction='gate', which only counts them."
        )
    order, size = by_size(statistic)
    levels, entries, thresholds = [], [], []
    for ell, level in enumerate(schedule.levels):
        groups, tau = _selected(np.ldexp(size, -ell), level, schedule, generator)
        levels.append(np.full(len(groups), ell))
        entries.append(order[groups])
        thresholds.append(np.ldexp(tau, ell))
    entry, threshold = np.concatenate(entries), np.concatenate(thresholds)
    query = statistic[entry] / threshold + schedule.draw_gate_noise(generator, len(entry))
    return Transcript(np.concatenate(levels), entry, threshold, query)


def _selected(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Group and tau = T / t_ell of every selected active test of a level."""
    if level.selection_scale is None:
        groups = np.repeat(np.arange(len(alpha)), active_tests(len(alpha), level, generator))
        return groups, generator.uniform(1, 2, len(groups))
    parts = list(_selected_parts(alpha, level, schedule, generator))
    groups = np.concatenate([part[0] for part in parts])
    omega = np.concatenate([part[1] for part in parts])
    tau = generator.uniform(1, 2, len(groups))  # what is left where S_e = 0 says nothing of tau
    np.divide(alpha[groups], omega, out=tau, where=omega > 0)
    return groups, tau


def _selected_parts(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> Iterator[tuple[IntArray, FloatArray]]:
    chosen = select_tests(alpha, level, schedule.gumbel, generator)
    scores = noisy_scores(alpha, level, schedule.gumbel)
    low, high = scores.support
    active = chosen.single_groups < len(alpha)
    yield chosen.single_groups[active], chosen.single_details[active]
    for band in chosen.bands:
        active = band.groups < len(alpha)
        groups = np.repeat(band.groups[active], band.counts[active])
        yield groups, scores.draw(generator, groups, max(band.lo, low), min(band.hi, high))[1]
