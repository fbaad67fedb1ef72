"""Noise for a given (epsilon, delta). Every answer has itself been checked, not its neighbour."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from hushcov._validation import check_real
from hushcov.accounting.composition import compose
from hushcov.accounting.events import Event, Gaussian
from hushcov.accounting.gaussian import gaussian_delta, gaussian_epsilon
from hushcov.accounting.parts import Parts
from hushcov.accounting.rdp import RenyiCurve
from hushcov.exceptions import ParameterError, PrivacyConditionError

_PRECISION = 1e-12
_SMALLEST = 1e-150
_MOST_NOISE = 1e6  # over what the whole budget needs, for a budget that is nearly spent


def calibrate_gaussian(epsilon: float, delta: float, spent: Sequence[Event] = ()) -> float:
    """Return the largest mu whose Gaussian mechanism, after what was spent, is (epsilon, delta)-DP.

    The standard deviation to use is l2 sensitivity / mu. For several Gaussians, mu is the root
    of the sum of their squares. `spent` are events on the same records that share the budget.
    """
    return _calibrate_gaussian(*_check_budget(epsilon, delta), tuple(spent))


@lru_cache(maxsize=1024)
def _calibrate_gaussian(epsilon: float, delta: float, spent: tuple[Event, ...]) -> float:
    def holds(mu: float) -> bool:
        return gaussian_epsilon(mu, delta) <= epsilon and gaussian_delta(mu, epsilon) <= delta

    alone = _largest(holds)
    if not spent:
        return alone

    def family(noise: float) -> tuple[Event, ...]:
        return (*spent, Gaussian(alone / noise))

    return alone / calibrate(family, epsilon, delta, (1.0, _MOST_NOISE))


def calibrate_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP.

    Discrete Gaussians and bounded-range steps may share it: mu^2/2 and count * eta^2/8 add up.
    """
    return _calibrate_zcdp(*_check_budget(epsilon, delta))


def smallest_sigma(squared_sensitivity: int, mu: float) -> int:
    """Return the smallest integer noise at which the sensitivity is at most mu deviations.

    In exact arithmetic, for integer statistics with rounded normal noise.
    """
    least_square = math.ceil(squared_sensitivity / Fraction(mu) ** 2)
    return math.isqrt(least_square - 1) + 1


@lru_cache(maxsize=1024)
def _calibrate_zcdp(epsilon: float, delta: float) -> float:
    def holds(rho: float) -> bool:
        curve = RenyiCurve(Parts(discrete_gaussian=math.sqrt(2 * rho)))
        return curve.epsilon_at(delta) <= epsilon and curve.delta_at(epsilon) <= delta

    return _largest(holds)


def calibrate(
    event_family: Callable[[float], Sequence[Event]],
    epsilon: float,
    delta: float,
    bracket: tuple[float, float],
    *,
    precision: float = 1e-9,
) -> float:
    """Return the smallest noise multiplier in `bracket` whose events are (epsilon, delta)-DP.

    Parameters
    ----------
    event_family
        The events at a noise multiplier; more noise must not cost more privacy. If it does,
        the answer is still private, only perhaps not the smallest.
    epsilon, delta
        The budget.
    bracket
        The positive multipliers to search between. If the lower end is private it is returned.
    precision
        Relative distance to the smallest multiplier; the answer is on the private side of it.

    Privacy-loss distributions are not used, so that the noise does not depend on whether an
    optional package is installed.
    """
    epsilon, delta = _check_budget(epsilon, delta)
    low, high = _check_bracket(bracket)

    def holds(noise: float) -> bool:
        events = event_family(noise)
        try:
            return (
                compose(events, delta=delta, pld=False).epsilon <= epsilon
                and compose(events, epsilon=epsilon, pld=False).delta <= delta
            )
        except PrivacyConditionError:
            return False

    if holds(low):
        return low
    if not holds(high):
        raise PrivacyConditionError(
            f"no noise up to {high!r} gives epsilon = {epsilon!r}, delta = {delta!r}: "
            "raise the upper end of bracket or the budget."
        )
    return _bisect(holds, high, low, precision)


def _check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    cure = "pass the budget of the whole composition."
    epsilon = check_real("epsilon", epsilon, above=0, cure=cure)
    delta = check_real("delta", delta, above=0, at_most=1, cure=cure)
    if delta == 1:
        raise ParameterError("delta must be below 1, got 1.0: delta = 1 protects nothing.")
    return epsilon, delta


def _check_bracket(bracket: tuple[float, float]) -> tuple[float, float]:
    cure = "pass (smallest, largest) noise multiplier."
    low = check_real("bracket[0]", bracket[0], above=0, cure=cure)
    return low, check_real("bracket[1]", bracket[1], above=low, cure=cure)


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest value that holds, for a condition that fails from some value on."""
    value = 1.0
    if holds(value):
        while holds(value * 2):
            value *= 2
        return _bisect(holds, value, value * 2, _PRECISION)
    while not holds(value / 2):
        value /= 2
        if value < _SMALLEST:
            raise PrivacyConditionError(
                "epsilon and delta are too small for any noise to be certified: raise them."
            )
    return _bisect(holds, value / 2, value, _PRECISION)


def _bisect(holds: Callable[[float], bool], safe: float, unsafe: float, precision: float) -> float:
    """Narrow the gap from the safe side; what is returned has passed `holds`."""
    # proof: step 18
    while abs(unsafe - safe) > precision * safe:
        middle = math.sqrt(safe) * math.sqrt(unsafe)
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe
