"""What double precision costs the samplers, as a share of delta.

A binomial draw over N tests whose log-odds are wrong by e is off by at most N q (1 - q) e^2 / 2 in
Kullback-Leibler divergence. Divergences add over the draws of a release (chain rule), and
Pinsker's inequality turns the sum into total variation. All splits of a level together have a
variance N q (1 - q) of about its number of candidates at most, whatever the split points; gates
have a quarter for each sign. The proof page, step 8, has the details.
"""

from __future__ import annotations

import math

from hushcov.mechanisms.multiscale.schedule import Schedule

# Largest error of the log-odds of two masses from `kernels`, with what the 53 bits of the
# binomial sampler's proposal add; tests hold the kernels against mpmath.
LOG_ODDS_ERROR = 4e-15
# Splits of a level: M + sqrt(R M) + R over R rounds, at most this share of M from 400 tests on.
_SPLITS = 1.5
# A test drawn by itself is wrong by a few uniforms of 53 bits and leaves out e^-60 of a tail.
SINGLE_TEST = 2.0**-46


def total_variation(schedule: Schedule, *, all_tests_drawn: bool = False) -> float:
    """Bound on the distance between the sampler's law and Algorithm 1's, for every dataset.

    `all_tests_drawn` is for transcripts, where every selected test is drawn by itself, too.
    """
    selecting = [lv.candidates for lv in schedule.levels if lv.selection_scale is not None]
    gates = 0.5 if math.isinf(schedule.gate_clip) else 0.25
    variance = (_SPLITS + gates) * sum(selecting) + gates * _undecided(schedule)
    singles = sum(level.most_single for level in schedule.levels)
    singles += schedule.total_quota if all_tests_drawn else 0
    return LOG_ODDS_ERROR * math.sqrt(variance) / 2 + singles * SINGLE_TEST


def _undecided(schedule: Schedule) -> int:
    """Most candidates of levels without selection whose gate is neither certain nor excluded.

    With noise clipped at c a gate is certain unless 1 - c < |S|/T < 1 + c, which holds on a few
    neighbouring levels only; the others follow a public law, whatever the data.
    """
    full = [lv.candidates for lv in schedule.levels if lv.selection_scale is None]
    clip = schedule.gate_clip
    if clip >= 1:
        return sum(full)
    window = 1 + math.ceil(math.log2((1 + clip) / (1 - clip)))
    return max((sum(full[i : i + window]) for i in range(len(full))), default=0)


def numerical_delta(schedule: Schedule, epsilon: float, *, all_tests_drawn: bool = False) -> float:
    """(1 + e^epsilon) times the total variation: what it adds to delta."""
    distance = total_variation(schedule, all_tests_drawn=all_tests_drawn)
    return (1 + math.exp(epsilon)) * distance  # proof: step 8


def rounding_inflation(n_records: int) -> float:
    """Relative growth of the sensitivity when integer moments become doubles.

    An entry is rounded twice (2^-52 relative in all) and is at most R^2, so two neighbours differ
    by up to Delta + 2^-51 R^2 = Delta (1 + 2^-52 n).
    """
    return n_records * 2.0**-52 + 2.0**-50  # proof: step 8


def query_inflation(n_records: int) -> float:
    """The same for the queries S_e / T of a transcript, which are rounded once more.

    The noisy query is a function of the exact sum of that double and the noise, so all later
    arithmetic is post-processing.
    """
    return rounding_inflation(n_records) + n_records * 2.0**-51  # proof: step 9
