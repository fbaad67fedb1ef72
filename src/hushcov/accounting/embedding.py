"""Bounded-range steps and Gaussians on one Brownian motion: nearly the Gaussian curve.

The privacy loss of a Gaussian is Brownian motion with drift 1/2 at time mu^2. The loss of an
eta-bounded-range step is the same motion stopped before it leaves an interval of width eta. So the
loss of a composition is the motion at a random time, whose excess over any fixed time has a small
probability, and until a fixed time the Gaussian curve bounds everything.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushcov.accounting.gaussian import gaussian_delta, gaussian_epsilon
from hushcov.accounting.parts import Parts

Array = NDArray[np.float64]

# Probabilities that the random time is too long, down to the smallest normal double. The curve
# takes the best of them, and only looks at those above this share of delta.
_LATES = tuple(4.0**-power for power in range(1, 512))
_SMALLEST_SHARE = 1e-3
# Chernoff rates, as the angle of the widest step; below pi/2, where its moment is infinite.
_ANGLES = np.geomspace(1e-6, 1.5, 512)
# proof: step 20
# Relative, of mu. All terms of the time are positive, so that no cancellation enlarges errors.
CLOCK_ROUNDING = 1e-12
# Smaller angles and mu might underflow. Larger ones are valid, since the bounds increase in them.
_SMALLEST_ANGLE = 1e-150
SMALLEST_MU = 1e-300


def embedding_applies(parts: Parts) -> bool:
    """Return whether bounded-range steps are there, and nothing that is not embedded."""
    return bool(parts.bounded_range) and not (parts.discrete_gaussian or parts.pure)


class EmbeddedCurve:
    """The (epsilon, delta) curve by embedding all losses in one Brownian motion."""

    method = "embedding"

    def __init__(self, parts: Parts) -> None:
        self._gaussian = parts.gaussian
        self._time = StoppingTime(parts.bounded_range)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf at delta = 0."""
        # proof: step 21
        lates = (late for late in _LATES if _SMALLEST_SHARE * delta <= late < delta)
        epsilons = (gaussian_epsilon(self._mu(late), delta - late) for late in lates)
        return min(epsilons, default=math.inf)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""
        best = 1.0
        for late in _LATES:
            best = min(best, (late + gaussian_delta(self._mu(late), epsilon)) * (1 + 1e-15))
            # The Gaussian part only grows from here on, so that less than `late` can be gained.
            if late < _SMALLEST_SHARE * best:
                break
        return best

    def _mu(self, late: float) -> float:
        """The Gaussian that bounds all, but for a probability of `late`, rounded up."""
        mu = math.hypot(self._gaussian, self._time.root_exceeded_with(late))
        return max(mu * (1 + CLOCK_ROUNDING), SMALLEST_MU)


class StoppingTime:
    """The time that bounded-range steps take together, bounded in probability."""

    def __init__(self, groups: tuple[tuple[float, int], ...]) -> None:
        self._widest = max(eta for eta, _ in groups)
        self._log_moments = sum(
            count * log_exit_moment(_ANGLES * (eta / self._widest)) for eta, count in groups
        )

    def root_exceeded_with(self, late: float) -> float:
        """The root of a time that is exceeded with probability at most `late`.

        Chernoff's bound: min over r of (sum of count * log E e^(r tau) + log(1/late)) / r, with
        angle = eta sqrt(r/2).
        """
        # proof: step 20
        roots = np.sqrt((self._log_moments - math.log(late)) / 2) / _ANGLES
        return self._widest * float(np.min(roots))


def log_exit_moment(angle: Array) -> Array:
    """Return a bound on log E e^(r tau), tau being the time to leave an interval of width eta.

    Here angle = eta sqrt(r/2), below pi/2. The bound is -log(cos(angle)), for every start.
    """
    # proof: step 20
    sine: Array = np.sin(np.maximum(angle, _SMALLEST_ANGLE))
    # This form keeps its digits where cos(angle) is close to 1.
    return -np.log1p(-sine * sine) / 2
