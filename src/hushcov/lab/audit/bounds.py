"""Lower bounds on epsilon from how well outputs tell two neighbouring datasets apart.

An attacker sees one output and says "second dataset" when a number computed from it passes a
threshold. On outputs of the first dataset that is a false positive, and saying "first" on the
second is a miss. Privacy bounds both rates together from below, so rates that are surely small
(Clopper and Pearson 1934) bound epsilon from below. The rule is chosen on one half of the
runs and its errors are counted on the other half, so that choosing it costs no confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import FloatArray
from hushcov.accounting import gaussian_epsilon

_THRESHOLDS = 200  # tried on either side of the median; more would gain nothing


@dataclass(frozen=True)
class Promise:
    """What is attacked: (epsilon, delta), and whether it comes from one Gaussian curve."""

    epsilon: float
    delta: float
    gaussian: bool


@dataclass(frozen=True)
class Rule:
    """Say "second" where sign * value > threshold.

    With `swapped` the attacker is after the first dataset: false positives and misses change
    places, which matters for epsilon because delta and the two rates do not enter alike.
    """

    sign: int
    threshold: float
    swapped: bool

    def errors(self, first: FloatArray, second: FloatArray) -> tuple[int, int]:
        """False positives and misses among values from the first and the second dataset."""
        positives = int(np.sum(self.sign * first > self.threshold))
        misses = int(np.sum(self.sign * second <= self.threshold))
        return (misses, positives) if self.swapped else (positives, misses)


def rate_upper(errors: npt.ArrayLike, runs: int, alarm_rate: float) -> FloatArray:
    """Upper bound of an error rate that is too low with probability `alarm_rate` at most.

    Clopper and Pearson: the rate at which this few errors have exactly that probability.
    """
    errors = np.asarray(errors, dtype=np.float64)
    bound = special.betainccinv(errors + 1, np.maximum(runs - errors, 1), alarm_rate)
    return np.where(errors >= runs, 1.0, bound)


def epsilon_lower(
    false_positive_rate: FloatArray, miss_rate: FloatArray, delta: float
) -> FloatArray:
    """The epsilon without which no test has errors this rare; below 0 it says nothing.

    (epsilon, delta)-DP says 1 - miss_rate <= e^epsilon false_positive_rate + delta.
    """
    caught = np.maximum(1 - delta - miss_rate, 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(caught / false_positive_rate))


def mu_lower(false_positive_rate: FloatArray, miss_rate: FloatArray) -> FloatArray:
    """The mu without which no test of a Gaussian mechanism has errors this rare, or below 0."""
    return np.asarray(-special.ndtri(false_positive_rate) - special.ndtri(miss_rate))


def measured_epsilon(
    rule: Rule, first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> float:
    """A lower bound on epsilon at the promised delta, by a rule that was chosen beforehand.

    If the mechanism keeps its promise, this is above the promised epsilon with probability
    `alarm_rate` at most. Where the promise is one Gaussian curve, the errors bound its mu, and
    the curve turns that into epsilon. This is much closer than what the two rates say about
    epsilon itself.
    """
    n_false, n_missed = (len(second), len(first)) if rule.swapped else (len(first), len(second))
    positives, misses = rule.errors(first, second)
    false_positive_rate = rate_upper(positives, n_false, alarm_rate / 2)
    miss_rate = rate_upper(misses, n_missed, alarm_rate / 2)
    if not promise.gaussian:
        return max(0.0, float(epsilon_lower(false_positive_rate, miss_rate, promise.delta)))
    mu = float(mu_lower(false_positive_rate, miss_rate))
    return gaussian_epsilon(mu, promise.delta) if mu > 0 else 0.0


def best_rule(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> tuple[Rule, float]:
    """The rule with the largest lower bound on these runs, and that bound (mu or epsilon).

    The bound is for comparing rules: on the runs that chose the rule it is too large.
    """
    best = (Rule(1, 0.0, False), -math.inf)
    for sign in (1, -1):
        ordered = np.sort(sign * first), np.sort(sign * second)
        thresholds = _thresholds(*ordered)
        positives = len(first) - np.searchsorted(ordered[0], thresholds, side="right")
        misses = np.searchsorted(ordered[1], thresholds, side="right")
        rates = (
            rate_upper(positives, len(first), alarm_rate / 2),
            rate_upper(misses, len(second), alarm_rate / 2),
        )
        for swapped in (False,) if promise.gaussian else (False, True):
            pair = rates[::-1] if swapped else rates
            bounds = mu_lower(*pair) if promise.gaussian else epsilon_lower(*pair, promise.delta)
            top = int(np.argmax(bounds))
            if bounds[top] > best[1]:
                best = Rule(sign, float(thresholds[top]), swapped), float(bounds[top])
    return best


def _thresholds(first: FloatArray, second: FloatArray) -> FloatArray:
    """Values of both samples, dense at either end, where the rarest errors are."""
    both = np.sort(np.concatenate([first, second]))
    ranks = np.geomspace(1, len(both) / 2, _THRESHOLDS).astype(np.int64) - 1
    return np.unique(both[np.concatenate([ranks, len(both) - 1 - ranks])])
