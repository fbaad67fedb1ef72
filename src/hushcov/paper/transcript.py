"""The protected transcript (J, V) of Algorithm 1, test by test, for schedules that are not huge.

The exact sampler draws only how many gates open. Reading values from the transcript needs the
selected tests themselves: their thresholds T and noisy queries V = S_e/T + Z. They are drawn from
the same selection, one by one, so the cost grows with the quotas but not with the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import CapacityError
from hushcov.paper.samplers import (
    active_tests,
    by_size,
    check_capacity,
    noisy_scores,
    select_tests,
)
from hushcov.paper.schedule import (
    Level,
    Schedule,
    query_inflation,
    rounding_inflation,
)

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


STEPS_PER_DEVIATION = 4  # rounding at a quarter of the deviation adds 0.5 % to the variance


def value_step(schedule: Schedule) -> float:
    """A public step that is fine enough to round values to, in units of the smallest threshold.

    No entry is known better than from all tests of all levels at their smallest thresholds.
    """
    most = math.fsum(lv.repetitions / 4.0**ell for ell, lv in enumerate(schedule.levels))
    return schedule.gate_noise / math.sqrt(most) / STEPS_PER_DEVIATION


def value_integers(
    transcript: Transcript, schedule: Schedule, keep_above: float, step: float
) -> IntArray:
    """Released integers of every entry, in units of `step`; zero where nothing is kept."""
    # proof: step 9
    precision = np.zeros(schedule.n_entries)
    total = np.zeros(schedule.n_entries)
    np.add.at(precision, transcript.entry, transcript.threshold**-2)
    np.add.at(total, transcript.entry, transcript.query / transcript.threshold)
    mean = np.divide(total, precision, out=np.zeros_like(total), where=precision > 0)
    # |mean| > keep_above * r / sqrt(precision), without dividing by a zero precision.
    kept = np.abs(mean) * np.sqrt(precision) > keep_above * schedule.gate_noise
    weighted = mean * _inverse_activation(transcript, schedule)
    return np.where(kept, np.rint(weighted / step), 0).astype(np.int64)


def _inverse_activation(transcript: Transcript, schedule: Schedule) -> FloatArray:
    """1 / p of the surest level an entry was found at: makes up for positions not looked at."""
    activation = np.array([min(1.0, lv.repetitions * lv.activation) for lv in schedule.levels])
    surest = np.zeros(schedule.n_entries)
    np.maximum.at(surest, transcript.entry, activation[transcript.level])
    return np.divide(1.0, surest, out=np.ones_like(surest), where=surest > 0)


@dataclass(frozen=True)
class Reconstruction:
    """One way to read the estimate, with what finite precision costs on that way.

    `inflation` is the relative growth of sensitivities by rounding, of a number of records.
    `all_tests_drawn` says that every selected test is drawn by itself, which is charged. `step`
    is to which values are rounded, in units of the smallest threshold; None for gates.
    """

    inflation: Callable[[int], float]
    all_tests_drawn: bool
    step: Callable[[Schedule], float | None]


#: Every reconstruction by its name; another name is an error, never another one's constants.
RECONSTRUCTIONS = {
    "gate": Reconstruction(rounding_inflation, False, lambda _: None),  # proof: step 8
    "value": Reconstruction(query_inflation, True, value_step),  # proof: step 9
}
