"""The cost of releases together when each was chosen in the light of earlier results.

Composition bounds fix all costs beforehand. Here only the total is fixed: a budget of epsilon and
delta. Its delta is divided once, by the shares below, among three accounts and two reserves.
Charges are accepted as long as one account holds all of them. An analyst who steers from one
account into another pays for both, which is why the shares add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting.composition import (
    CLOCK_ROUNDING,
    ROUNDING,
    SMALLEST_MU,
    WIDEST_ANGLE,
    Bound,
    gaussian_epsilon,
    log_exit_moment,
    renyi_epsilon,
)
from hushcov.kernel.accounting.events import Event, Parts, fixed_reading

# proof: step 23
# Shares of delta; multiples of 1/64 that add up to 1.
PROMISED = 8 / 64  # reserve for deltas of black boxes
SLACK = 4 / 64  # reserve for finite precision
CLOCK = 27 / 64  # account that times everything on one Brownian motion
LATE = 1 / 64  # that its clock runs late
RENYI = 24 / 64  # account that adds up Renyi divergences
# The account that adds up epsilons needs no delta.

# proof: step 21
# Rates of the clock's exponential moments. Fixed here, because a rate chosen afterwards is not
# covered; one that is off by a factor of 2 costs a quarter of a small term.
_RATES = 4.0 ** np.arange(-3, 21)
# Renyi orders, of which the budget picks one before anything is charged.
_ORDERS = 1 + np.geomspace(1e-3, 1e8, 16_384)
_HALVINGS = 50
# What plain sums may pass a budget by (`charges`) is far below this; divergences may not.
_REFUSED = 1 + 2.0**-40


def spent_adaptively(events: Sequence[Event], epsilon: float, delta: float) -> Bound:
    """Return about the smallest total epsilon at which all these events would have been accepted.

    The events are all that was charged, in any order. Each may have been chosen in the light of the
    results of the others. They are accepted if and only if the answer is at most `epsilon`, of the
    total budget. The method is "basic", "clock" or "renyi". Epsilon is infinite where no account
    has room.
    """
    nothing = Bound(math.inf, delta, "none")
    try:
        parts = fixed_reading(events, PROMISED * delta)
    except PrivacyConditionError:
        return nothing
    # proof: step 19
    # Fixed deltas and finite precision stay within what is set aside for each.
    slack = Parts(total_variation=parts.total_variation).fixed_delta(epsilon)
    if parts.delta > PROMISED * delta or slack > SLACK * delta:
        return nothing
    # proof: step 20
    basic = Bound(math.inf if parts.mu else parts.pure_epsilon, parts.delta, "basic")
    found = [_clock(parts, delta), _renyi(parts, epsilon, delta), basic]
    return min(found, key=lambda bound: bound.epsilon)


def _clock(parts: Parts, delta: float) -> Bound:
    """Time everything on one Brownian motion; a pure epsilon is a step of range 2 epsilon."""
    steps = (*parts.bounded_range, *((2 * cost, count) for cost, count in parts.pure))
    if parts.discrete_gaussian or delta == 0:
        return Bound(math.inf, delta, "clock")
    mu = math.hypot(parts.gaussian, _root_of_time(steps, delta)) * (1 + CLOCK_ROUNDING)
    return Bound(gaussian_epsilon(max(mu, SMALLEST_MU), CLOCK * delta), delta, "clock")


def _root_of_time(steps: tuple[tuple[float, int], ...], delta: float) -> float:
    """Return the root of the time of steps, but for a probability of `LATE` times delta."""
    if not steps:
        return 0.0
    # proof: step 21
    moments = np.zeros(len(_RATES))
    for eta, count in steps:
        angles = eta * np.sqrt(_RATES / 2)
        usable = angles <= WIDEST_ANGLE
        moments += np.where(usable, count * log_exit_moment(np.where(usable, angles, 1.0)), np.inf)
    times = (moments + math.log(len(_RATES)) - math.log(LATE * delta)) / _RATES
    return math.sqrt(float(np.min(times)))


def _renyi(parts: Parts, epsilon: float, delta: float) -> Bound:
    """Add up Renyi divergences at the order that belongs to the total epsilon."""
    # proof: step 22
    if delta == 0 or parts.clocked:
        return Bound(math.inf, delta, "renyi")
    spent = renyi_epsilon(parts, _ORDERS, RENYI * delta) * (1 + ROUNDING)
    at_rest = renyi_epsilon(Parts(), _ORDERS, RENYI * delta)

    def accepted(total: float) -> bool:
        order = int(np.argmax((total - at_rest) / _ORDERS))  # most room for Gaussian noise
        return bool(spent[order] <= total)

    # Accepted at the budget or not is what counts; how much less or more would do is for people.
    low, high = (0.0, epsilon)
    if not accepted(epsilon):
        low, high = epsilon * _REFUSED, 2.0 * epsilon
    while not accepted(high):
        low, high = high, 2.0 * high
        if not math.isfinite(high):
            return Bound(math.inf, delta, "renyi")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if accepted(middle) else (middle, high)
    return Bound(high, delta, "renyi")
