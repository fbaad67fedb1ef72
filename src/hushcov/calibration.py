"""Searches for the least noise that meets a privacy budget.

Nothing here is trusted: the kernel certifies every budget and every charge anew
(`hushcov.kernel.accounting`), so that a mistake in a search is refused or costs accuracy. Every
answer of a search has itself been checked all the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from hushcov._arrays import root
from hushcov._validation import check_real
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.budget import LATE_SHARE, WITHIN, Budget
from hushcov.kernel.accounting.composition import (
    Curve,
    RenyiCurve,
    bound_at,
    curves_of,
    gaussian_delta,
    gaussian_epsilon,
    total_delta,
)
from hushcov.kernel.accounting.events import Clocked, Event, Gaussian, Parts, readings
from hushcov.kernel.accounting.neighbours import ONE_REPLACED, Neighbours

# Where the multiplier is looked for, near what the zCDP bound asks for and then farther away.
_BRACKETS, _NEAR_PRECISION = ((0.9, 1.02), (0.1, 10.0)), 1e-6
_PRECISION = 1e-12
# How closely the multiplier is guessed, and how far from the guess nothing needs to be tried.
_GUESS, _UNSURE = 1e-9, 1e-7
_SMALLEST, _MOST_EPSILON = 1e-150, 1e6
# Noise that is tried, over what the whole budget needs: for a budget that is nearly spent.
_MOST_NOISE = 1e6


def full_budget(
    epsilon: float,
    delta: float,
    relation: Neighbours = ONE_REPLACED,
    *,
    selects: bool = False,
    **options: Any,
) -> Budget:
    """Certify a budget whose clock takes all of it; `options` are those of `Budget`."""
    mu = largest_mu(epsilon, delta, relation, selects=selects)
    return Budget(epsilon, delta, relation, mu=mu, selects=selects, **options)


@lru_cache(maxsize=1024)
def largest_mu(
    epsilon: float, delta: float, relation: Neighbours = ONE_REPLACED, *, selects: bool = False
) -> float:
    """Return the mu of one record of a clock that has all of a budget."""
    found = calibrate_gaussian(epsilon, delta)
    if selects:
        alone, late = found, LATE_SHARE * delta

        def family(noise: float) -> tuple[Event, ...]:
            return (Clocked(alone / noise, late),)

        found = alone / calibrate(family, epsilon, delta, (1.0, _MOST_NOISE))
    return found / relation.most_rows * WITHIN


@lru_cache(maxsize=1024, typed=True)  # True is not 1
def calibrate_gaussian(epsilon: float, delta: float, spent: tuple[Event, ...] = ()) -> float:
    """Return the largest mu whose Gaussian mechanism, after what was spent, is (epsilon, delta)-DP.

    The standard deviation to use is l2 sensitivity / mu. For several Gaussians, mu is the root
    of the sum of their squares. `spent` are events on the same records that share the budget.
    """
    epsilon, delta = _check_budget(epsilon, delta)

    def holds(mu: float) -> bool:
        return gaussian_delta(mu, epsilon) <= delta and gaussian_epsilon(mu, delta) <= epsilon

    alone = _largest(holds)
    if not spent:
        return alone

    def family(noise: float) -> tuple[Event, ...]:
        return (*spent, Gaussian(alone / noise))

    return alone / calibrate(family, epsilon, delta, (1.0, _MOST_NOISE))


@lru_cache(maxsize=1024, typed=True)  # True is not 1
def calibrate_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP.

    Discrete Gaussians and bounded-range steps may share it: mu^2/2 and count * eta^2/8 add up.
    """
    epsilon, delta = _check_budget(epsilon, delta)

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
    """
    epsilon, delta = _check_budget(epsilon, delta)
    cure = "pass (smallest, largest) noise multiplier."
    low = check_real("bracket[0]", bracket[0], above=0, cure=cure)
    high = check_real("bracket[1]", bracket[1], above=low, cure=cure)

    @cache
    def holds(noise: float) -> bool:
        """Whether `compose` would find at most this epsilon and, in turn, this delta."""
        proofs, late = _proofs(event_family(noise)), []
        for proof in proofs:
            if total_delta(*proof, epsilon) > delta:
                late.append(proof)
            elif reached(*proof):  # most often one proves both, and the search is spared the others
                return True
        return len(late) < len(proofs) and any(reached(*proof) for proof in late)

    def reached(curve: Curve, parts: Parts) -> bool:
        bound = bound_at(curve, parts, delta)
        return bound is not None and bound.epsilon <= epsilon

    best: list[int] = []

    def delta_excess(log_noise: float) -> float:
        """Return the log of delta over the wanted one: approximate, but smooth."""
        proofs = _proofs(event_family(math.exp(log_noise)))
        ends = len(best) < 2  # of the bracket; between them what is best at both is
        used = proofs if ends or best[0] != best[1] else proofs[best[0] : best[0] + 1]
        found = [total_delta(*proof, epsilon) for proof in used]
        if ends:
            best.append(min(range(len(found)), key=found.__getitem__, default=0))
        return math.log(max(min(found, default=1.0), sys.float_info.min) / delta)

    def epsilon_excess(log_noise: float) -> float:
        """Return the log of epsilon over the wanted one; slower, and may ask for more noise."""
        proofs = _proofs(event_family(math.exp(log_noise)))
        bounds = (bound_at(*proof, delta) for proof in proofs)
        found = min((each.epsilon for each in bounds if each is not None), default=_MOST_EPSILON)
        return math.log(max(min(found, _MOST_EPSILON), sys.float_info.min) / epsilon)

    if holds(low):
        return low
    if not holds(high):
        raise PrivacyConditionError(
            f"no noise up to {high!r} gives epsilon = {epsilon!r}, delta = {delta!r}: "
            "raise the upper end of bracket or the budget."
        )
    return _guessed(holds, (delta_excess, epsilon_excess), high, low, precision)


def calibrate_near(
    event_family: Callable[[float], Sequence[Event]], epsilon: float, delta: float
) -> float:
    """Return what `calibrate` does, within a millionth; multipliers near 1 are tried first."""
    near, far = _BRACKETS
    with suppress(PrivacyConditionError):
        found = calibrate(event_family, epsilon, delta, near, precision=_NEAR_PRECISION)
        if found > near[0]:
            return found
    return calibrate(event_family, epsilon, delta, far, precision=_NEAR_PRECISION)


def _check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    cure = "pass the budget of the whole composition."
    epsilon = check_real("epsilon", epsilon, above=0, cure=cure)
    delta = check_real("delta", delta, above=0, at_most=1, cure=cure)
    if delta == 1:
        raise ParameterError("delta must be below 1, got 1.0: delta = 1 protects nothing.")
    return epsilon, delta


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


def _proofs(events: Sequence[Event]) -> tuple[tuple[Curve, Parts], ...]:
    """Return every curve that bounds the events."""
    try:
        choices = readings(events)
    except PrivacyConditionError:
        return ()
    return tuple((curve, parts) for parts in choices for curve in curves_of(parts))


def _guessed(
    holds: Callable[[float], bool],
    guesses: Sequence[Callable[[float], float]],
    safe: float,
    unsafe: float,
    precision: float,
) -> float:
    """Return what `_bisect` finds, asking `holds` only near the zero of a guess."""
    for excess in guesses:
        try:
            guess = math.exp(root(excess, math.log(unsafe), math.log(safe), relative=_GUESS))
        except ValueError:
            continue

        def likely(noise: float, guess: float = guess) -> bool:
            return holds(noise) if abs(noise / guess - 1) < _UNSURE else noise > guess

        found = _bisect(likely, safe, unsafe, precision)
        # One curve may be the best at both ends and not between: then less noise would do.
        less = found * (1 - max(precision, 2 * _UNSURE))
        if holds(found) and not holds(less):  # proof: step 15
            return found
    return _bisect(holds, safe, unsafe, precision)


def _bisect(holds: Callable[[float], bool], safe: float, unsafe: float, precision: float) -> float:
    """Narrow the gap from the safe side; what is returned has passed `holds`."""
    # proof: step 15
    while abs(unsafe - safe) > precision * safe:
        middle = math.sqrt(safe) * math.sqrt(unsafe)
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe
