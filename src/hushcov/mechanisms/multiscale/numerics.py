"""What double precision costs the exact sampler, as a share of delta.

The masses in `kernels` are doubles: a mass that is a share q of its total has relative error at
most ERROR_UNIT * (1 + |ln q|). A binomial over N tests with log-odds wrong by e is off by at most
N q (1 - q) e^2 / 2 in Kullback-Leibler divergence, and sup_q q (1 - q) (1 + |ln q|)^2 < 1, so a
test costs at most 2 ERROR_UNIT^2 each time it is in a draw. Divergences add over the draws of
a release (chain rule), and Pinsker's inequality turns the sum into total variation.
"""

from __future__ import annotations

import math

from hushcov.mechanisms.multiscale.schedule import Schedule

ERROR_UNIT = 5e-16  # tests hold the kernels against mpmath
# A uniform has 53 bits, so a binomial proposal with deviation sd reaches an integer with relative
# error of about 2^-50 sd in the mean square: (2^-50)^2 sd^2 / 2 <= 2^-103 for each of its N tests.
_GENERATOR = 2.0**-103
_COST = 2 * ERROR_UNIT**2 + _GENERATOR
# Draws a test takes part in at a level that selects: all splits together (each leaves a small
# share of the tests undecided; 1.5 is never reached) and the gate.
_DRAWS_WITH_SELECTION = 2.5


def total_variation(schedule: Schedule) -> float:
    """Bound on the distance between the sampler's law and Algorithm 1's, for every dataset."""
    selecting = sum(lv.candidates for lv in schedule.levels if lv.selection_scale is not None)
    full = [lv.candidates for lv in schedule.levels if lv.selection_scale is None]
    if math.isinf(schedule.gate_clip):
        undecided = sum(full)
    else:
        # With clipped noise a gate is certain unless 1 - clip < |S|/T < 1 + clip: an entry has at
        # most two neighbouring levels where it is not, and the others follow a public law.
        undecided = max((sum(full[i : i + 2]) for i in range(len(full))), default=0)
    divergence = _COST * (_DRAWS_WITH_SELECTION * selecting + undecided)
    return math.sqrt(divergence / 2)


def numerical_delta(schedule: Schedule, epsilon: float) -> float:
    """(1 + e^epsilon) times the total variation: what it adds to delta."""
    return (1 + math.exp(epsilon)) * total_variation(schedule)  # proof: step 8


def rounding_inflation(n_records: int) -> float:
    """Relative growth of the sensitivity when integer moments become doubles.

    An entry is rounded twice (2^-52 relative in all) and is at most R^2, so two neighbours differ
    by up to Delta + 2^-51 R^2 = Delta (1 + 2^-52 n).
    """
    return n_records * 2.0**-52 + 2.0**-50  # proof: step 8


def value_variation(schedule: Schedule, largest: float, unit: float) -> float:
    """Bound on the distance that arithmetic in doubles adds to values rounded to steps of `unit`.

    A weighted mean of the queries of an entry of size at most `largest` is wrong by at most
    e = (8 + tests) 2^-53 of it. That moves the ends of a rounding cell by e, so its probability by
    a relative 2 e / unit where the density is flat over a cell, and by at most e^(z/4) times as
    much z deviations out: the chi-square divergence is below 4 (2 e / unit)^2 an entry.
    Divergences add over entries, and Pinsker's inequality gives the distance.
    """
    entries = min(schedule.total_quota, schedule.n_entries)
    tests = sum(level.repetitions for level in schedule.levels)
    error = (8 + tests) * 2.0**-53 * largest
    return math.sqrt(2 * entries) * 2 * error / unit  # proof: step 9
