"""The best valid (epsilon, delta) bound on a composition of events, and noise for a given one.

Every answer of a calibration has itself been checked, not its neighbour.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol

from hushcov._validation import check_real
from hushcov.accounting.curves import (
    BasicCurve,
    EmbeddedCurve,
    RenyiCurve,
    embedding_applies,
    gaussian_delta,
    gaussian_epsilon,
    root,
)
from hushcov.accounting.events import Event, Gaussian, Parts, readings
from hushcov.exceptions import ParameterError, PrivacyConditionError

# Where the multiplier is looked for, near what the zCDP bound asks for and then farther away.
_BRACKETS, _NEAR_PRECISION = ((0.9, 1.02), (0.1, 10.0)), 1e-6
_ROUNDS = 100
_PRECISION = 1e-12
# How closely the multiplier is guessed, and how far from the guess nothing needs to be tried.
_GUESS, _UNSURE = 1e-9, 1e-7
_SMALLEST, _MOST_EPSILON = 1e-150, 1e6
#: Noise that is tried, over what the whole budget needs: for a budget that is nearly spent.
MOST_NOISE = 1e6


@dataclass(frozen=True)
class Bound:
    """A proved (epsilon, delta) and the name of the method that proves it.

    The method is "basic", "gaussian" (the exact curve), "zcdp", "rdp" or "embedding".
    """

    epsilon: float
    delta: float
    method: str


class _Curve(Protocol):
    """One method's bound on everything but the fixed deltas and the total-variation slack."""

    method: str

    def epsilon_at(self, delta: float) -> float: ...

    def delta_at(self, epsilon: float) -> float: ...


def compose(
    events: Sequence[Event], *, delta: float | None = None, epsilon: float | None = None
) -> Bound:
    """Return the best valid bound on the adaptive composition of the events.

    Parameters
    ----------
    events
        What was, or will be, run on the same records.
    delta, epsilon
        Give one of them and the other is made as small as can be proved. Give neither to add up
        epsilons and deltas (basic composition), which needs events that have fixed ones.

    Raises
    ------
    PrivacyConditionError
        If an event cannot be bounded, or no bound reaches the asked delta or epsilon.
    """
    return all_bounds(events, delta=delta, epsilon=epsilon)[0]


def all_bounds(
    events: Sequence[Event], *, delta: float | None = None, epsilon: float | None = None
) -> tuple[Bound, ...]:
    """Return the best bound of every applicable method, best first; see `compose`."""
    choices = readings(events)
    delta, epsilon = _check_target(delta, epsilon)
    best: dict[str, Bound] = {}
    for parts in choices:
        for curve in _curves(parts):
            bound = _evaluate(curve, parts, delta, epsilon)
            if bound is not None and bound.delta < 1:
                known = best.setdefault(bound.method, bound)
                best[bound.method] = min(known, bound, key=_size)
    if not best:
        raise PrivacyConditionError(_why_nothing(choices, delta, epsilon))
    return tuple(sorted(best.values(), key=_size))


def _check_target(delta: float | None, epsilon: float | None) -> tuple[float | None, float | None]:
    if delta is not None and epsilon is not None:
        raise ParameterError("delta and epsilon cannot both be given: the other is the answer.")
    cure = "0 is allowed too."
    if delta is not None:
        delta = check_real("delta", delta, above=0, at_most=1, or_zero=True, cure=cure)
    if epsilon is not None:
        epsilon = check_real("epsilon", epsilon, above=0, or_zero=True, cure=cure)
    return delta, epsilon


def _curves(parts: Parts) -> Iterator[_Curve]:
    # proof: step 4
    if not parts.discrete_gaussian:
        yield BasicCurve(parts)
    if embedding_applies(parts):
        yield EmbeddedCurve(parts)
    if parts.clocked:  # proof: step 26
        return
    if parts.mu or parts.bounded_range or parts.pure:
        yield RenyiCurve(parts)


def _evaluate(
    curve: _Curve, parts: Parts, delta: float | None, epsilon: float | None
) -> Bound | None:
    if epsilon is not None:
        return Bound(epsilon, _delta_at(curve, parts, epsilon), curve.method)
    if delta is not None:
        return _at_delta(curve, parts, delta)
    spent = curve.epsilon_at(0.0)
    return Bound(spent, parts.fixed_delta(spent), curve.method) if math.isfinite(spent) else None


def _delta_at(curve: _Curve, parts: Parts, epsilon: float) -> float:
    return math.fsum((curve.delta_at(epsilon), parts.fixed_delta(epsilon)))


def _at_delta(curve: _Curve, parts: Parts, delta: float) -> Bound | None:
    """Find the smallest epsilon; the slack taken from delta grows with epsilon, so iterate.

    A trial epsilon sets the slack. When the epsilon that then follows is no larger than the
    trial, its own slack is no larger either, so it is a valid answer whatever came before.
    """
    # proof: step 14
    trial = 0.0
    for _ in range(_ROUNDS):
        rest = delta - parts.fixed_delta(trial)
        if rest < 0:
            return None
        epsilon = curve.epsilon_at(rest)
        if not math.isfinite(epsilon):
            return None
        if epsilon <= trial or parts.total_variation == 0:
            # A pure bound spends the fixed deltas only: report these and not what was allowed.
            pure = curve.delta_at(epsilon) == 0
            return Bound(epsilon, parts.fixed_delta(epsilon) if pure else delta, curve.method)
        trial = epsilon * (1 + 1e-9)
    return None


def _size(bound: Bound) -> tuple[float, float]:
    return bound.epsilon, bound.delta


def _why_nothing(choices: tuple[Parts, ...], delta: float | None, epsilon: float | None) -> str:
    if delta is None and epsilon is None:
        return (
            "events have no fixed epsilon and delta to add up: "
            "give delta (or epsilon) to have the other computed."
        )
    fixed = min(parts.fixed_delta(epsilon or 0.0) for parts in choices)
    asked = f"delta = {delta!r}" if epsilon is None else f"epsilon = {epsilon!r}"
    return (
        f"no bound reaches {asked}; approximate events and total-variation slack alone cost "
        f"delta {fixed:.6g}: ask for more, or add noise."
    )


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

    return alone / calibrate(family, epsilon, delta, (1.0, MOST_NOISE))


def calibrate_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP.

    Discrete Gaussians and bounded-range steps may share it: mu^2/2 and count * eta^2/8 add up.
    """
    return _calibrate_zcdp(*_check_budget(epsilon, delta))


def smallest_sigma(squared_sensitivity: int | Fraction, mu: float) -> int:
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
    """
    epsilon, delta = _check_budget(epsilon, delta)
    low, high = _check_bracket(bracket)

    @cache
    def holds(noise: float) -> bool:
        return _proved(_proofs(event_family(noise)), epsilon, delta)

    best: list[int] = []

    def delta_excess(log_noise: float) -> float:
        """About how far too large delta is: a smooth function, to guess from."""
        proofs = _proofs(event_family(math.exp(log_noise)))
        ends = len(best) < 2  # of the bracket; between them what is best at both is
        used = proofs if ends or best[0] != best[1] else proofs[best[0] : best[0] + 1]
        found = [_delta_at(*proof, epsilon) for proof in used]
        if ends:
            best.append(min(range(len(found)), key=found.__getitem__, default=0))
        return math.log(max(min(found, default=1.0), sys.float_info.min) / delta)

    def epsilon_excess(log_noise: float) -> float:
        """The same for epsilon, which takes longer and may ask for more noise."""
        proofs = _proofs(event_family(math.exp(log_noise)))
        bounds = (_at_delta(*proof, delta) for proof in proofs)
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
    """The same, within a millionth; multipliers close to 1 are tried first."""
    for low, high in _BRACKETS[:-1]:
        try:
            found = calibrate(event_family, epsilon, delta, (low, high), precision=_NEAR_PRECISION)
        except PrivacyConditionError:
            continue
        if found > low:
            return found
    return calibrate(event_family, epsilon, delta, _BRACKETS[-1], precision=_NEAR_PRECISION)


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


def _proofs(events: Sequence[Event]) -> tuple[tuple[_Curve, Parts], ...]:
    """Every curve that bounds the events."""
    try:
        choices = readings(events)
    except PrivacyConditionError:
        return ()
    return tuple((curve, parts) for parts in choices for curve in _curves(parts))


def _proved(proofs: Sequence[tuple[_Curve, Parts]], epsilon: float, delta: float) -> bool:
    """Whether `compose` would find at most this epsilon and, the other way round, this delta."""
    others = []
    for proof in proofs:
        if _delta_at(*proof, epsilon) > delta:
            others.append(proof)
        elif _reaches(proof, epsilon, delta):
            return True
    if len(others) == len(proofs):
        return False  # without the search for an epsilon, which takes longer
    return any(_reaches(proof, epsilon, delta) for proof in others)


def _reaches(proof: tuple[_Curve, Parts], epsilon: float, delta: float) -> bool:
    bound = _at_delta(*proof, delta)
    return bound is not None and bound.epsilon <= epsilon


def _guessed(
    holds: Callable[[float], bool],
    guesses: Sequence[Callable[[float], float]],
    safe: float,
    unsafe: float,
    precision: float,
) -> float:
    """What `_bisect` finds, which is asked only about noise near where a guess is zero."""
    for excess in guesses:
        try:
            guess = math.exp(root(excess, math.log(unsafe), math.log(safe), relative=_GUESS))
        except ValueError:
            continue

        def likely(noise: float, guess: float = guess) -> bool:
            return holds(noise) if abs(noise / guess - 1) < _UNSURE else noise > guess

        found = _bisect(likely, safe, unsafe, precision)
        # One curve may be the best at both ends and not between: then less noise would do.
        if holds(found) and not holds(found * (1 - 2 * _UNSURE)):  # proof: step 15
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
