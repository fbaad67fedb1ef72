"""Selections that are planned where the row sparsity is given, for the whole of its pairs.

A ladder that knows nothing starts with few pairs and little time, and learns how many there are.
One that is told can spend its time where it helps: on as many pairs as there may be, in levels that
shrink while their noise falls. How much time they take follows from public numbers, by a formula
for the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy import special

from hushcov.fit.adaptive.rules import AdaptiveRules
from hushcov.fit.screened.mechanism import (
    PAIR_WEIGHT,
    TO_CORRELATION,
    possible_pairs,
    root_square,
    sum_movement,
    usual_of_units,
)
from hushcov.inputs import ReleaseInputs
from hushcov.postprocess import detection_deviation


@dataclass(frozen=True)
class PlannedRung:
    """One selection: how many pairs, the rate of scores, and about the time that it takes."""

    size: int
    rate: float
    time: float


def told_pairs(inputs: ReleaseInputs, rules: AdaptiveRules) -> int:
    """Return how many pairs are selected where row sparsity says how many there may be."""
    d = inputs.n_features
    few = max(rules.fewest_pairs, d // rules.features_per_pair)
    possible = possible_pairs(inputs)
    many = round(rules.told_over_possible * possible + rules.told_over_root * math.sqrt(possible))
    return min(max(few, many), d * (d - 1) // 2)


@lru_cache(maxsize=64)
def planned_rungs(
    inputs: ReleaseInputs, time: float, rules: AdaptiveRules
) -> tuple[PlannedRung, ...]:
    """Return the levels of a planned ladder, at the share of `time` at which errors are least."""
    sizes = _sizes(told_pairs(inputs, rules), rules)
    if not sizes:
        return ()
    plans = [
        _levels(sizes, inputs, share * time, ratio)
        for share in rules.told_shares
        for ratio in rules.told_noise_ratios
    ]
    errors = [_expected(plan, inputs, time, rules) for plan in plans]
    enough = rules.told_enough * min(errors)
    return next(plan for plan, error in zip(plans, errors, strict=True) if error <= enough)


def equal_steps(plan: tuple[PlannedRung, ...]) -> int:
    """Return how many equal steps have the same variance of their loss as those of a plan."""
    squares = sum(rung.time**2 / rung.size for rung in plan)
    return max(1, round(sum(rung.time for rung in plan) ** 2 / squares))


def _sizes(total: int, rules: AdaptiveRules) -> list[int]:
    """Divide pairs into levels, of which each is smaller than the one before."""
    weights = [rules.told_size_ratio**level for level in range(rules.told_levels)]
    sizes = [round(total * weight / sum(weights)) for weight in weights]
    return [size for size in sizes if size]


def _levels(
    sizes: list[int], inputs: ReleaseInputs, time: float, noise_ratio: float
) -> tuple[PlannedRung, ...]:
    """Return levels that take so much time, of which each has less noise than the one before."""
    growth = 1 / noise_ratio
    moved = inputs.neighbours.moved(replaced=2, removed=1)  # scores, by one record
    costs = [size * growth ** (2 * level) for level, size in enumerate(sizes)]
    first = math.sqrt(time / sum(costs)) / moved
    return tuple(
        PlannedRung(size, first * growth**level, time * cost / sum(costs))
        for level, (size, cost) in enumerate(zip(sizes, costs, strict=True))
    )


_LOG_LATE = 19.4  # minus the logarithm of the chance that a clock runs late, about
_MOST_TIME = 0.6  # of the time, what the clock sets aside for them included
_WIDEST = 1.3  # angle of a step on the clock, which refuses those beyond 1.5


def _expected(
    plan: tuple[PlannedRung, ...], inputs: ReleaseInputs, time: float, rules: AdaptiveRules
) -> float:
    """Approximate the norm of the error: that of values, and of the pairs that are missed.

    Correlations are as if spread evenly up to one at which they together are as large as variances.
    """
    n, k = inputs.n_sampled, inputs.row_sparsity
    total, spent = sum(rung.size for rung in plan), sum(rung.time for rung in plan)
    # What the clock sets aside for the chance that selections lose more than their mean.
    rate = math.sqrt(3 * _LOG_LATE * equal_steps(plan)) / spent
    widest = max(math.sqrt(2 * rate * rung.time / rung.size) for rung in plan)
    spent += 2 * _LOG_LATE / rate
    if spent > _MOST_TIME * time or widest > _WIDEST:
        return math.inf
    noise = value_noise(total, inputs, math.sqrt(time - spent))
    deviation = detection_deviation(noise, n)
    values = 2 * math.sqrt(k) * deviation
    largest = min(0.5, math.sqrt(3 / (4 * max(1, k - 1))))
    # Pairs whose values look like noise are dropped, whether they were selected or not.
    weakest = max(2 * deviation, min(_edge(rung, inputs) for rung in plan))
    # Where all would be missed it goes on to grow: even then time is better spent on finding more.
    missed = 2 * math.sqrt((k - 1) * (weakest / largest) ** 3 / 3) * largest
    weight = rules.told_missed_weight
    return float(values ** (1 - weight) * math.hypot(values, missed) ** weight)


def _edge(rung: PlannedRung, inputs: ReleaseInputs) -> float:
    """Approximate the correlation at which one level finds half of the pairs."""
    n, d = inputs.n_records, inputs.n_features
    excess = math.log(max(2.0, d * (d - 1) / 2 / rung.size))
    # Scores of other pairs are sampling errors, which no rate can tell from small correlations.
    finest = min(rung.rate * math.sqrt(n), math.sqrt(2 * excess))
    spread = finest**2 / 2 + math.log(2 * float(special.ndtr(finest)))
    return TO_CORRELATION * (excess + spread) / (finest * math.sqrt(n))


def value_noise(
    n_pairs: int, inputs: ReleaseInputs, mu: float, alike: float | None = None
) -> float:
    """Approximate the noise of a pair when `n_pairs` are released, for records of typical norm.

    `alike` is about how many records of a unit are worth one that is independent; None is unknown.
    """
    moved = 1.1 * sum_movement(inputs.neighbours) * root_square(n_pairs, inputs.n_features)
    together = inputs.neighbours.together
    longer = usual_of_units(inputs.neighbours) if alike is None else math.sqrt(alike * together)
    moved *= longer / together
    return moved / (PAIR_WEIGHT * inputs.n_records * mu)
