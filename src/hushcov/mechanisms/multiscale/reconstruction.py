"""How the estimate is read from a release: the paper's gates, or values of the transcript.

Each reconstruction says what its sampler costs. Values are post-processing of (J, V):

A selected active test says S_e with noise: T V = S_e + T Z, of deviation T r. The
precision-weighted mean over an entry's tests has deviation r / sqrt(sum 1/T^2) and is unbiased
given J. An entry is kept where the mean passes a public multiple of its own deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.mechanisms.multiscale.numerics import query_inflation, rounding_inflation
from hushcov.mechanisms.multiscale.schedule import Schedule
from hushcov.mechanisms.multiscale.transcript import Transcript

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
