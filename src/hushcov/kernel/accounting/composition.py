"""Bounds on compositions of privacy events.

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

`compose` takes the best of them. Noise that meets a budget is searched for outside the kernel, in
`hushcov.calibration`: whatever a search finds is certified here before it is used.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter

import numpy as np
from scipy.special import erfcx, log_ndtr

from hushcov._arrays import FloatArray, root
from hushcov._validation import check_real
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.events import Event, Parts, fixed_reading, readings

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
_TRIED_TOGETHER = 8  # probabilities tried in one go
# Chernoff rates, as the angle of the widest step; below pi/2, where its moment is infinite.
WIDEST_ANGLE = 1.5
_ANGLES = np.geomspace(1e-6, WIDEST_ANGLE, 512)
# proof: step 17
# Relative, of mu. All terms of the time are positive, so that no cancellation enlarges errors.
CLOCK_ROUNDING = 1e-12
# Smaller angles and mu might underflow. Larger ones are valid, since the bounds increase in them.
_SMALLEST_ANGLE = 1e-150
SMALLEST_MU = 1e-300

_ROUNDS = 100


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which mu is epsilon-private, rounded up."""
    # proof: step 8
    log_delta = gaussian_log_delta(mu, epsilon) + math.log1p(ROUNDING * (1 + mu))
    # A positive delta must not underflow to 0, which would claim pure privacy.
    return max(math.exp(min(log_delta, 0.0)), sys.float_info.min)


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
    slope = np.where(x > _FAR, 1 / (1 + x * x), slope)
    return math.log(float(_WEIGHTS @ slope)) + math.log(width) - math.log(2)


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
        for start in range(0, len(_LATES), _TRIED_TOGETHER):
            lates = _LATES[start : start + _TRIED_TOGETHER]
            for late, mu in zip(lates, self._mus(lates), strict=True):
                best = min(best, (late + gaussian_delta(mu, epsilon)) * (1 + 1e-15))
                # The Gaussian part only grows from here on: less than `late` can be gained.
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
    """Return -log(cos(angle)): it bounds log E e^(r tau), tau the time to leave a width of eta.

    For every start; angle = eta sqrt(r/2), below pi/2.
    """
    # proof: step 17
    sine: FloatArray = np.sin(np.maximum(angle, _SMALLEST_ANGLE))
    # This form keeps its digits where cos(angle) is close to 1.
    return -np.log1p(-sine * sine) / 2


Curve = BasicCurve | RenyiCurve | EmbeddedCurve


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
    """Return the best valid bound on the adaptive composition of events on the same records.

    Give `delta` or `epsilon`, and the other is made as small as can be proved. Give neither to add
    up epsilons and deltas (basic composition), which needs events that have fixed ones. Raises
    `PrivacyConditionError` if an event cannot be bounded, or no bound reaches what is asked.
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
        for curve in curves_of(parts):
            bound: Bound | None
            if epsilon is not None:
                bound = Bound(epsilon, total_delta(curve, parts, epsilon), curve.method)
            elif delta is not None:
                bound = bound_at(curve, parts, delta)
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


def curves_of(parts: Parts) -> Iterator[Curve]:
    """Return every curve that bounds these parts."""
    # proof: step 4
    if not parts.discrete_gaussian:
        yield BasicCurve(parts)
    if parts.bounded_range and not (parts.discrete_gaussian or parts.pure):
        yield EmbeddedCurve(parts)
    if parts.clocked:  # proof: step 26
        return
    if parts.mu or parts.bounded_range or parts.pure:
        yield RenyiCurve(parts)


def total_delta(curve: Curve, parts: Parts, epsilon: float) -> float:
    """Return the delta of everything at this epsilon: that of the curve, and the fixed ones."""
    return math.fsum((curve.delta_at(epsilon), parts.fixed_delta(epsilon)))


def bound_at(curve: Curve, parts: Parts, delta: float) -> Bound | None:
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


def smallest_sigma(squared_sensitivity: int | Fraction, mu: float) -> int:
    """Return the smallest integer noise at which the sensitivity is at most mu deviations.

    In exact arithmetic, for integer statistics with rounded normal noise.
    """
    least_square = math.ceil(squared_sensitivity / Fraction(mu) ** 2)
    return math.isqrt(least_square - 1) + 1


# Releases of which each may be chosen in the light of earlier results.
#
# Only the total is fixed beforehand: a budget of epsilon and delta. Its delta is divided once, by
# the shares below, among three accounts and two reserves. Charges are accepted as long as one
# account holds all of them. An analyst who steers from one account into another pays for both,
# which is why the shares add up to one.

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

    They are all that was charged, each possibly chosen in the light of results of the others, and
    are accepted if and only if the answer is at most `epsilon`, of the total budget. The method is
    "basic", "clock" or "renyi". Epsilon is infinite where no account has room.
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
