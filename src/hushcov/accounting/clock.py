"""One run whose steps choose each other's costs: a clock that is fixed before the first of them.

Gaussians take the time mu^2 of one Brownian motion, bounded-range steps a random time that is
bounded by its exponential moment at one rate (`docs/proofs/accounting.md`, step 26). Nothing but
the end of the clock, the rate and the probability of being late is fixed beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hushcov._validation import check_integer, check_real
from hushcov.accounting.composition import (
    CLOCK_ROUNDING,
    MOST_NOISE,
    WIDEST_ANGLE,
    calibrate,
    calibrate_gaussian,
    log_exit_moment,
)
from hushcov.accounting.events import Clocked, Event
from hushcov.exceptions import PrivacyConditionError

# Share of delta for a clock that runs late. A ledger sets an eighth of its delta aside for them: it
# has room for 32 releases that each promise the delta of the whole.
_LATE = 1 / 256


@dataclass
class Clock:
    """Time on one Brownian motion, and what was taken of it.

    Parameters
    ----------
    event : Clocked
        What was certified: the end of the clock, `mu`^2, and the probability of being late.
    rate : float
        The rate of the exponential moments of bounded-range steps, fixed before the first step.
    """

    event: Clocked
    rate: float
    taken: float = 0.0  # by Gaussians, and moments of steps over the rate
    started: bool = field(default=False)  # whether a bounded-range step was taken

    def __post_init__(self) -> None:
        check_real("rate", self.rate, above=0, cure="use clock_rate.")

    @property
    def left(self) -> float:
        """The time left for Gaussians, as the sum of their mu^2; rounded down."""
        end = self.event.mu**2 * (1 - 4 * CLOCK_ROUNDING)
        return max(0.0, end - self.taken - (self._start if self.started else 0.0))

    @property
    def mu_left(self) -> float:
        """The largest mu of a Gaussian that there is time for."""
        return math.sqrt(self.left) * (1 - 2.0**-50)

    @property
    def _start(self) -> float:
        """What the first bounded-range step takes beside its own time."""
        return -math.log(self.event.late) / self.rate

    def step_time(self, eta: float) -> float:
        """What one bounded-range step takes; infinite where its moment may be."""
        angle = eta * math.sqrt(self.rate / 2)
        if angle > WIDEST_ANGLE:
            return math.inf
        # proof: step 26
        return float(log_exit_moment(np.array([angle]))[0]) / self.rate

    def steps_left(self, eta: float, share: float = 1.0) -> int:
        """How many bounded-range steps there is time for in a share of what is left."""
        time = self.left * share - (0.0 if self.started else self._start)
        return max(0, math.floor(time / self.step_time(eta)))

    def gaussian(self, mu: float) -> None:
        """Take the time of a Gaussian, or raise; before it is run."""
        time = check_real("mu", mu, above=0, cure="it is sensitivity over deviation.") ** 2
        self._take(time, self.left)

    def steps(self, eta: float, count: int) -> None:
        """Take the time of `count` bounded-range steps, or raise; before they are run."""
        check_integer("count", count, at_least=1, cure="it is the number of selected items.")
        start = 0.0 if self.started else self._start
        self._take(count * self.step_time(eta), self.left - start)
        self.started = True

    def _take(self, time: float, left: float) -> None:
        # proof: step 26
        if not time <= left:
            raise PrivacyConditionError(
                "the clock of an adaptive release has no time left for its next step: this is a "
                "mistake in the mechanism, and nothing more was released."
            )
        self.taken += time


def clocked(epsilon: float, delta: float, spent: tuple[Event, ...] = ()) -> Clocked:
    """The longest clock within a budget of which these events are spent."""
    alone, late = calibrate_gaussian(epsilon, delta), _LATE * delta

    def family(noise: float) -> tuple[Event, ...]:
        return (*spent, Clocked(alone / noise, late))

    return Clocked(alone / calibrate(family, epsilon, delta, (1.0, MOST_NOISE)), late)


def clock_rate(event: Clocked, n_steps: int, share: float) -> float:
    """The best rate where so many equal steps take a share of the time; any rate is private.

    With L = log(1/late) and s steps of range eta that take the time T = s eta^2 / 4, what is set
    aside beside T is L / r + s eta^4 r / 48, and least at r = sqrt(3 L s) / T.
    """
    time = share * event.mu**2
    return math.sqrt(-3 * math.log(event.late) * n_steps) / time
