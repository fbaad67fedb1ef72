"""Bounded-range steps and Gaussians on one Brownian motion: nearly the Gaussian curve.

The privacy loss of a Gaussian is Brownian motion with drift 1/2 at time mu^2. The loss of an
eta-bounded-range step is the same motion stopped before it leaves an interval of width eta. So the
loss of a composition is the motion at a random time, whose excess over any fixed time has a small
probability, and until a fixed time the Gaussian curve bounds everything.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from hushcov.accounting.gaussian import gaussian_delta, gaussian_epsilon
from hushcov.accounting.parts import Parts

Array = NDArray[np.float64]

_SHARES = (3e-3, 0.01, 0.03, 0.1)  # of delta, for the random time
_TIME_ROUNDING = 1e-9  # relative; the closed form loses a few digits for tiny eta
_USUAL_LATE = 20.0  # log(1 / probability) for which the grid of Chernoff rates is made


def embedding_applies(parts: Parts) -> bool:
    """Return whether bounded-range steps are there, and nothing that is not embedded."""
    small = all(eta < 1 for eta, _ in parts.bounded_range)
    return bool(parts.bounded_range) and small and not (parts.discrete_gaussian or parts.pure)


class EmbeddedCurve:
    """The (epsilon, delta) curve by embedding all losses in one Brownian motion."""

    method = "embedding"

    def __init__(self, parts: Parts) -> None:
        self._square = parts.gaussian**2
        self._time = StoppingTime(parts.bounded_range)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf at delta = 0."""
        if delta <= 0:
            return math.inf
        # proof: step 21
        return min(
            gaussian_epsilon(self._mu(share * delta), delta * (1 - share)) for share in _SHARES
        )

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""
        # The best share of a delta that is not known yet: two rounds find its order of magnitude.
        best = gaussian_delta(self._mu(0.5), epsilon)
        for _ in range(2):
            lates = [max(share * best, sys.float_info.min) for share in _SHARES]
            best = min(late + gaussian_delta(self._mu(late), epsilon) for late in lates)
        return min(1.0, best * (1 + 1e-15))

    def _mu(self, late: float) -> float:
        """The Gaussian that bounds all, but for a probability of `late`."""
        return math.sqrt(self._square + self._time.exceeded_with(late)) * (1 + 1e-15)


class StoppingTime:
    """The time that bounded-range steps take together, bounded in probability."""

    def __init__(self, groups: tuple[tuple[float, int], ...]) -> None:
        widest = max(eta for eta, _ in groups)
        # The best Chernoff rate for a normal time of this variance is sqrt(2 log(1/late)) / sd.
        variance = sum(count * eta**4 / 24 for eta, count in groups)
        middle = math.sqrt(2 * _USUAL_LATE / variance)
        largest = (math.pi / widest) ** 2 / 2
        rates = np.minimum(middle * np.geomspace(1 / 16, 4, 65), largest)
        self._rates = np.maximum(rates, 0.2)
        self._log_moments = sum(count * log_exit_moment(eta, self._rates) for eta, count in groups)

    def exceeded_with(self, late: float) -> float:
        """A time that is exceeded with probability at most `late`, rounded up.

        Chernoff's bound: min over r of (sum of count * log E e^(r tau) + log(1/late)) / r.
        """
        # proof: step 20
        times = (self._log_moments - math.log(late)) / self._rates
        return float(np.min(times)) * (1 + _TIME_ROUNDING)


def log_exit_moment(eta: float, rates: Array) -> Array:
    """Return log sup E e^(r tau) over starting points; tau leaves an interval of width eta.

    For motion with drift 1/2 and r > 1/8. Infinite where the moment is.
    """
    # proof: step 20
    omega, half = np.sqrt(2 * rates - 0.25), eta / 2
    inside = omega * half < math.pi / 2
    angle = np.where(inside, omega * half, 0.5)
    # e^(-y/2) (A cos(omega y) + B sin(omega y)), at its stationary point y.
    log_a = math.log(math.cosh(eta / 4)) - np.log(np.cos(angle))
    ratio = math.tanh(eta / 4) / np.tan(angle)  # B / A
    theta = -np.arctan(1 / (2 * omega))
    y = (theta + np.arctan(ratio)) / omega
    moment = log_a + np.log1p(ratio**2) / 2 - y / 2 + np.log(np.cos(theta))
    return np.where(inside, np.maximum(moment, 0.0) + 4e-16, np.inf)
