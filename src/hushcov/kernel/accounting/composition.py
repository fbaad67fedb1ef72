"""Bounds on compositions of privacy events, and the noise that meets a given one.

A composition has one curve, of the delta that each epsilon costs, for each way to prove it.

- `BasicCurve` adds the exact Gaussian curve to pure epsilons. Balle and Wang (2018), Theorem 8: a
  Gaussian mechanism with mu = sensitivity / sd is (epsilon, delta)-DP if and only if
  delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
- `RenyiCurve` adds up Renyi divergences.
- `EmbeddedCurve` is nearly the Gaussian curve for bounded-range steps, too: the privacy loss of a
  Gaussian is Brownian motion with drift 1/2 at time mu^2, and the loss of an eta-bounded-range step
  is the same motion stopped before it leaves an interval of width eta. So the loss of a composition
  is the motion at a random time, whose excess over any fixed time has a small probability, and
  until a fixed time the Gaussian curve bounds everything.

`compose` takes the best of them. Every answer of a calibration has itself been checked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from operator import attrgetter

import numpy as np
from scipy.special import erfcx, log_ndtr

from hushcov._arrays import FloatArray
from hushcov._validation import check_real
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.events import Event, Gaussian, Parts, readings

# proof: step 16
# Added to every delta, relative to it (and growing with mu, whose size limits the accuracy of
# epsilon/mu - mu/2), so that double rounding never claims too much. The tests measure errors
# ten times smaller against 60-digit arithmetic.
ROUNDING = 1e-11

# Below this mu the two terms are so close that their difference is integrated instead.
_SMALL_MU = 0.5
# Beyond this, epsilon/mu - mu/2 has too few digits left to certify anything.
_LARGEST_MU = 1e4
# Beyond this, delta is below the smallest double by any account.
_LARGEST_NEAR = 1e5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PLACES = (_NODES + 1) / 2
_ROOT_HALF, _ROOT_HALF_PI = math.sqrt(0.5), math.sqrt(math.pi / 2)
_FAR = 50.0

# Orders are searched as log(order - 1): first this grid, then ever finer ones at its best point.
_LOG_ORDERS = np.linspace(math.log(1e-4), math.log(1e10), 256)
_ZOOMS = 5
_MACHINE = sys.float_info.epsilon
# sinh(x)/x - 1 = x^2 (1/3! + x^2/5! + ...); ten terms are exact in doubles for x <= 1.
_SINHC_COEFFICIENTS = tuple(1 / math.factorial(2 * k + 3) for k in reversed(range(10)))

# Probabilities that the random time is too long, down to the smallest normal double. The curve
# takes the best of them, and only looks at those above this share of delta.
_LATES = tuple(4.0**-power for power in range(1, 512))
_SMALLEST_SHARE = 1e-3
_AT_ONCE = 16  # probabilities tried in one go
# Chernoff rates, as the angle of the widest step; below pi/2, where its moment is infinite.
WIDEST_ANGLE = 1.5
_ANGLES = np.geomspace(1e-6, WIDEST_ANGLE, 512)
# proof: step 17
# Relative, of mu. All terms of the time are positive, so that no cancellation enlarges errors.
CLOCK_ROUNDING = 1e-12
# Smaller angles and mu might underflow. Larger ones are valid, since the bounds increase in them.
_SMALLEST_ANGLE = 1e-150
SMALLEST_MU = 1e-300

# Where the multiplier is looked for, near what the zCDP bound asks for and then farther away.
_BRACKETS, _NEAR_PRECISION = ((0.9, 1.02), (0.1, 10.0)), 1e-6
_ROUNDS = 100
_PRECISION = 1e-12
_NEAR_ROOT = 2e-12  # absolute, of a root
# How closely the multiplier is guessed, and how far from the guess nothing needs to be tried.
_GUESS, _UNSURE = 1e-9, 1e-7
_SMALLEST, _MOST_EPSILON = 1e-150, 1e6
#: Noise that is tried, over what the whole budget needs: for a budget that is nearly spent.
MOST_NOISE = 1e6


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which mu is epsilon-private, rounded up."""
    # proof: step 8
    log_delta = gaussian_log_delta(mu, epsilon) + math.log1p(ROUNDING * (1 + mu))
    # A positive delta must not underflow to 0, which would claim pure privacy.
    return max(math.exp(min(log_delta, 0.0)), sys.float_info.min)


def gaussian_deltas(mus: Sequence[float], epsilon: float) -> list[float]:
    """Return `gaussian_delta` of several mu at once."""
    mu = np.asarray(mus)
    near = epsilon / mu - mu / 2
    found = [0.0] * len(mus)
    plain = (mu < _SMALL_MU) & (near <= _LARGEST_NEAR)
    near, width = near[plain], mu[plain]
    log_deltas = _log_mills_drops(near, width) - near * near / 2 - 0.5 * math.log(2 * math.pi)
    log_deltas += np.log1p(ROUNDING * (1 + width))
    for place, log_delta in zip(np.flatnonzero(plain).tolist(), log_deltas.tolist(), strict=True):
        found[place] = max(math.exp(min(log_delta, 0.0)), sys.float_info.min)
    for place in np.flatnonzero(~plain).tolist():
        found[place] = gaussian_delta(mus[place], epsilon)
    return found


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which mu is delta-private, rounded up; inf at delta = 0."""
    if delta <= sys.float_info.min:
        return math.inf
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # zCDP already proves this much privacy (Bun and Steinke 2016, Proposition 1.3).
    upper = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    goal = math.log(delta) - math.log1p(ROUNDING * (1 + mu))
    upper *= 1 + 1e-9
    if gaussian_log_delta(mu, upper) > goal:
        return math.inf
    epsilon = root(lambda x: gaussian_log_delta(mu, x) - goal, 0.0, upper, relative=1e-14)
    step = 1e-15
    while gaussian_delta(mu, epsilon) > delta:
        epsilon *= 1 + step
        step *= 2
    return float(epsilon)


def root(function: Callable[[float], float], low: float, high: float, *, relative: float) -> float:
    """Return a zero of a function that changes its sign between `low` and `high`.

    Brent's method, step by step that of `scipy.optimize.brentq`, which takes longer to load than
    a plan takes.
    """
    last, here = low, high
    at_last, at = function(last), function(here)
    if at_last == 0:
        return last
    if not at_last * at <= 0:
        raise ValueError("the function has one sign at both ends")
    other, at_other, before, step = last, at_last, 0.0, 0.0
    for _ in range(_ROUNDS):
        if at and (at_last < 0) != (at < 0):
            other, at_other, before, step = last, at_last, here - last, here - last
        if abs(at_other) < abs(at):
            last, here, other = here, other, here
            at_last, at, at_other = at, at_other, at
        near, half = (_NEAR_ROOT + relative * abs(here)) / 2, (other - here) / 2
        if at == 0 or abs(half) < near:
            break
        tried = math.inf
        if abs(before) > near and abs(at) < abs(at_last):
            if last == other:  # along a line, else by a quadratic
                tried = -at * (here - last) / (at - at_last)
            else:
                one, two = (at_last - at) / (last - here), (at_other - at) / (other - here)
                bend = two * one * (at_other - at_last)
                tried = -at * (at_other * two - at_last * one) / bend if bend else math.inf
        short = 2 * abs(tried) < min(abs(before), 3 * abs(half) - near)
        before, step = (step, tried) if short else (half, half)
        last, at_last = here, at
        here += step if abs(step) > near else math.copysign(near, half)
        at = function(here)
    return here


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon), to a relative error in delta far below `ROUNDING` (1 + mu)."""
    if mu > _LARGEST_MU:
        return 0.0
    near = epsilon / mu - mu / 2
    if near > _LARGEST_NEAR:
        return -math.inf
    far = epsilon / mu + mu / 2
    # e^epsilon phi(far) = phi(near), so delta = phi(near) (mills(near) - mills(far)), where
    # mills(x) = Phi(-x) / phi(x).
    if mu < _SMALL_MU:
        return _log_density(near) + _log_mills_drop(near, mu)
    ratio = math.exp(_log_mills(far) - _log_mills(near))
    return float(log_ndtr(-near)) + math.log1p(-ratio)


def _log_mills_drop(start: float, width: float) -> float:
    """Return log(mills(start) - mills(start + width)), by integrating 1 - x mills = -mills'."""
    x = start + width * _PLACES
    slope = 1 - x * _ROOT_HALF_PI * erfcx(x * _ROOT_HALF)
    # Far out the difference above loses its digits; its upper bound 1/(1 + x^2) does not.
    if start + width > _FAR:
        slope = np.where(x > _FAR, 1 / (1 + x * x), slope)
    return math.log(float(_WEIGHTS @ slope)) + math.log(width) - math.log(2)


def _log_mills_drops(start: FloatArray, width: FloatArray) -> FloatArray:
    """Return `_log_mills_drop` of several starts and widths; the order of sums differs."""
    x = start[:, None] + width[:, None] * _PLACES
    slope = 1 - x * _ROOT_HALF_PI * erfcx(x * _ROOT_HALF)
    slope = np.where(x > _FAR, 1 / (1 + x * x), slope)
    return np.asarray(np.log(slope @ _WEIGHTS) + np.log(width) - math.log(2))


def _log_mills(x: float) -> float:
    if x > 0:
        return 0.5 * math.log(math.pi / 2) + math.log(erfcx(x / math.sqrt(2)))
    return float(log_ndtr(-x)) - _log_density(x)


def _log_density(x: float) -> float:
    return -x * x / 2 - 0.5 * math.log(2 * math.pi)


class BasicCurve:
    """Pure epsilons add up; all Gaussians together are one more mechanism beside them."""

    def __init__(self, parts: Parts) -> None:
        self._mu = parts.gaussian
        self._pure_epsilon = parts.pure_epsilon
        self.method = "gaussian" if self._mu and not self._pure_epsilon else "basic"

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta; inf at delta = 0 unless all is pure."""
        return self._pure_epsilon + (gaussian_epsilon(self._mu, delta) if self._mu else 0.0)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon; 1 where basic composition has nothing."""
        if epsilon < self._pure_epsilon:
            return 1.0
        return gaussian_delta(self._mu, epsilon - self._pure_epsilon) if self._mu else 0.0


def renyi_divergence(parts: Parts, order: FloatArray) -> FloatArray:
    """Return the Renyi divergence bound of the whole composition at each order above 1."""
    # proof: step 9
    total = order * (parts.mu * parts.mu / 2)
    if parts.bounded_range:
        etas = np.array([[eta] for eta, _ in parts.bounded_range])
        steps = bounded_range_divergence(etas, order)
        for (_, count), each in zip(parts.bounded_range, steps, strict=True):
            total = total + count * each
    for epsilon, count in parts.pure:
        total = total + count * pure_divergence(epsilon, order)
    return total


def renyi_epsilon(parts: Parts, order: FloatArray, delta: float) -> FloatArray:
    """Return the epsilon that each order proves at this delta."""
    # proof: step 13
    divergence = renyi_divergence(parts, order)
    slope = (_log_prefactor(order) - math.log(delta)) / (order - 1)
    return np.asarray(divergence + slope + 8 * _MACHINE * (divergence + np.abs(slope)))


def pure_divergence(epsilon: float, order: FloatArray) -> FloatArray:
    """Return the largest Renyi divergence of an (epsilon, 0)-DP mechanism."""
    # proof: step 11
    spread = _log_cosh((order - 0.5) * epsilon) - _log_cosh(np.asarray(epsilon / 2))
    exact = spread / (order - 1) * _rounding_guard(1 + 1 / (order - 1))
    return np.minimum(exact, np.minimum(epsilon, order * (epsilon * epsilon / 2)))


def bounded_range_divergence(eta: float | FloatArray, order: FloatArray) -> FloatArray:
    """Return the largest Renyi divergence of one eta-bounded-range step.

    The worst pair is binary with losses u and u - eta; the maximum over u has a closed form.
    """
    # proof: step 12
    at_order = order * _log_sinhc(order * eta / 2)
    below = (order - 1) * _log_sinhc((order - 1) * eta / 2)
    exact = (at_order - below - _log_sinhc(np.asarray(eta / 2))) / (order - 1)
    exact = exact * _rounding_guard(order + 1 / (order - 1))
    return np.minimum(exact, np.minimum(eta, order * (eta * eta / 8)))


class RenyiCurve:
    """The (epsilon, delta) curve by Renyi DP and the Canonne-Kamath-Steinke conversion."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # proof: step 10
        # With Gaussians alone the divergence is the line rho * order: that is zCDP.
        self.method = "rdp" if parts.bounded_range or parts.pure else "zcdp"

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf at delta = 0."""
        if delta <= sys.float_info.min:
            return math.inf

        def epsilon(order: FloatArray) -> FloatArray:
            return renyi_epsilon(self._parts, order, delta)

        return max(0.0, _minimum(epsilon) * (1 + ROUNDING))

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""

        # proof: step 13
        def log_delta(order: FloatArray) -> FloatArray:
            divergence = renyi_divergence(self._parts, order)
            rounding = 8 * _MACHINE * (divergence + epsilon)
            return (order - 1) * (divergence - epsilon + rounding) + _log_prefactor(order)

        log_best = _minimum(log_delta) + math.log1p(ROUNDING)
        return max(math.exp(min(log_best, 0.0)), sys.float_info.min)


def _log_prefactor(order: FloatArray) -> FloatArray:
    # Near order 1 the quotient keeps the digits that 1 - 1/order would lose.
    log_ratio = np.where(order < 2, np.log((order - 1) / order), np.log1p(-1 / order))
    return (order - 1) * log_ratio - np.log(order)


def _minimum(objective: Callable[[FloatArray], FloatArray]) -> float:
    """Minimise over the order. Every order is a valid bound, so a miss only costs tightness."""
    log_orders = _LOG_ORDERS
    for _ in range(_ZOOMS):
        values = objective(1 + np.exp(log_orders))
        best = int(np.argmin(values))
        low, high = max(best - 1, 0), min(best + 1, len(log_orders) - 1)
        log_orders = np.linspace(log_orders[low], log_orders[high], 33)
    return float(np.min(values))


def _rounding_guard(cancellation: FloatArray) -> FloatArray:
    """Return a factor above the relative error of a closed form that cancels this much."""
    return 1 + 32 * _MACHINE * cancellation


def _log_cosh(x: FloatArray) -> FloatArray:
    half_sinh: FloatArray = np.sinh(np.minimum(x, 1.0) / 2)
    large = x - math.log(2) + np.log1p(np.exp(-2 * x))
    return np.where(x < 1.0, np.log1p(2 * half_sinh * half_sinh), large)


def _log_sinhc(x: FloatArray) -> FloatArray:
    """Return log(sinh(x) / x) to full relative accuracy for x > 0."""
    square: FloatArray = np.minimum(x, 1.0) ** 2
    series = np.zeros_like(square)
    for coefficient in _SINHC_COEFFICIENTS:
        series *= square
        series += coefficient
    small = np.log1p(square * series)
    x = np.maximum(x, 1.0)
    large = x + np.log1p(-np.exp(-2 * x)) - np.log(2 * x)
    return np.where(square < 1.0, small, large)


class EmbeddedCurve:
    """The (epsilon, delta) curve by embedding all losses in one Brownian motion."""

    method = "embedding"

    def __init__(self, parts: Parts) -> None:
        self._gaussian = parts.gaussian
        self._widest = max(eta for eta, _ in parts.bounded_range)
        self._log_moments = sum(
            count * log_exit_moment(_ANGLES * (eta / self._widest))
            for eta, count in parts.bounded_range
        )

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf at delta = 0."""
        # proof: step 18
        lates = [late for late in _LATES if _SMALLEST_SHARE * delta <= late < delta]
        mus = self._mus(lates)
        epsilons = (gaussian_epsilon(mu, delta - late) for mu, late in zip(mus, lates, strict=True))
        return min(epsilons, default=math.inf)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""
        best = 1.0
        for start in range(0, len(_LATES), _AT_ONCE):
            lates = _LATES[start : start + _AT_ONCE]
            for late, delta in zip(lates, gaussian_deltas(self._mus(lates), epsilon), strict=True):
                best = min(best, (late + delta) * (1 + 1e-15))
                # The Gaussian part only grows from here on, so that less than `late` can be gained.
                if late < _SMALLEST_SHARE * best:
                    return best
        return best

    def roots_exceeded_with(self, lates: Sequence[float]) -> list[float]:
        """Return roots of the time of all steps, exceeded with probability at most each of `lates`.

        Chernoff's bound: min over r of (sum of count * log E e^(r tau) + log(1/late)) / r, with
        angle = eta sqrt(r/2).
        """
        # proof: step 17
        costs = np.array([-math.log(late) for late in lates])[:, None]
        roots = np.sqrt((self._log_moments + costs) / 2) / _ANGLES
        return [self._widest * root for root in np.min(roots, axis=1).tolist()]

    def _mus(self, lates: Sequence[float]) -> list[float]:
        """Return Gaussians that bound all but for a probability of each of `lates`, rounded up."""
        return [
            max(math.hypot(self._gaussian, root) * (1 + CLOCK_ROUNDING), SMALLEST_MU)
            for root in self.roots_exceeded_with(lates)
        ]


def log_exit_moment(angle: FloatArray) -> FloatArray:
    """Return a bound on log E e^(r tau), tau being the time to leave an interval of width eta.

    Here angle = eta sqrt(r/2), below pi/2. The bound is -log(cos(angle)), for every start.
    """
    # proof: step 17
    sine: FloatArray = np.sin(np.maximum(angle, _SMALLEST_ANGLE))
    # This form keeps its digits where cos(angle) is close to 1.
    return -np.log1p(-sine * sine) / 2


_Curve = BasicCurve | RenyiCurve | EmbeddedCurve


@dataclass(frozen=True)
class Bound:
    """A proved (epsilon, delta) and the name of the method that proves it.

    The method is "basic", "gaussian" (the exact curve), "zcdp", "rdp" or "embedding".
    """

    epsilon: float
    delta: float
    method: str


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
    if delta is not None and epsilon is not None:
        raise ParameterError("delta and epsilon cannot both be given: the other is the answer.")
    cure = "0 is allowed too."
    if delta is not None:
        delta = check_real("delta", delta, above=0, at_most=1, or_zero=True, cure=cure)
    if epsilon is not None:
        epsilon = check_real("epsilon", epsilon, above=0, or_zero=True, cure=cure)
    best: dict[str, Bound] = {}
    order = attrgetter("epsilon", "delta")
    for parts in choices:
        for curve in _curves(parts):
            bound: Bound | None
            if epsilon is not None:
                bound = Bound(epsilon, _delta_at(curve, parts, epsilon), curve.method)
            elif delta is not None:
                bound = _at_delta(curve, parts, delta)
            else:
                spent = curve.epsilon_at(0.0)
                bound = Bound(spent, parts.fixed_delta(spent), curve.method)
            if bound is not None and bound.delta < 1 and math.isfinite(bound.epsilon):
                known = best.setdefault(bound.method, bound)
                best[bound.method] = min(known, bound, key=order)
    if not best and delta is None and epsilon is None:
        raise PrivacyConditionError(
            "events have no fixed epsilon and delta to add up: give delta (or epsilon) to have the "
            "other computed."
        )
    if not best:
        fixed = min(parts.fixed_delta(epsilon or 0.0) for parts in choices)
        asked = f"delta = {delta!r}" if epsilon is None else f"epsilon = {epsilon!r}"
        raise PrivacyConditionError(
            f"no bound reaches {asked}; approximate events and total-variation slack alone cost "
            f"delta {fixed:.6g}: ask for more, or add noise."
        )
    return tuple(sorted(best.values(), key=order))


def _curves(parts: Parts) -> Iterator[_Curve]:
    # proof: step 4
    if not parts.discrete_gaussian:
        yield BasicCurve(parts)
    if parts.bounded_range and not (parts.discrete_gaussian or parts.pure):
        yield EmbeddedCurve(parts)
    if parts.clocked:  # proof: step 26
        return
    if parts.mu or parts.bounded_range or parts.pure:
        yield RenyiCurve(parts)


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


def calibrate_gaussian(epsilon: float, delta: float, spent: Sequence[Event] = ()) -> float:
    """Return the largest mu whose Gaussian mechanism, after what was spent, is (epsilon, delta)-DP.

    The standard deviation to use is l2 sensitivity / mu. For several Gaussians, mu is the root
    of the sum of their squares. `spent` are events on the same records that share the budget.
    """
    return _calibrate_gaussian(*_check_budget(epsilon, delta), tuple(spent))


@lru_cache(maxsize=1024)
def _calibrate_gaussian(epsilon: float, delta: float, spent: tuple[Event, ...]) -> float:
    def holds(mu: float) -> bool:
        return gaussian_delta(mu, epsilon) <= delta and gaussian_epsilon(mu, delta) <= epsilon

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
    cure = "pass (smallest, largest) noise multiplier."
    low = check_real("bracket[0]", bracket[0], above=0, cure=cure)
    high = check_real("bracket[1]", bracket[1], above=low, cure=cure)

    @cache
    def holds(noise: float) -> bool:
        """Whether `compose` would find at most this epsilon and, in turn, this delta."""
        proofs, late = _proofs(event_family(noise)), []
        for proof in proofs:
            if _delta_at(*proof, epsilon) > delta:
                late.append(proof)
            elif reached(*proof):  # most often one proves both, and the search is spared the others
                return True
        return len(late) < len(proofs) and any(reached(*proof) for proof in late)

    def reached(curve: _Curve, parts: Parts) -> bool:
        bound = _at_delta(curve, parts, delta)
        return bound is not None and bound.epsilon <= epsilon

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
        """About how far too large epsilon is; slower, and may ask for more noise."""
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


def _proofs(events: Sequence[Event]) -> tuple[tuple[_Curve, Parts], ...]:
    """Return every curve that bounds the events."""
    try:
        choices = readings(events)
    except PrivacyConditionError:
        return ()
    return tuple((curve, parts) for parts in choices for curve in _curves(parts))


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
