"""What an adaptive release settles beforehand: a clock, and the shares that its steps may take."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from hushcov.accounting import Clocked, Event, clock_rate
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import WITHIN
from hushcov.steps.stage import NormBound

NAME = "adaptive"
# Shares of the time on the clock. Chosen on the families of docs/mechanisms.md.
PROBE = 0.10  # the look at the whole matrix
MOST_LADDER = 0.5  # selections together
FIRST_LOOK = 0.02  # the same where no pairs are selected, for the bound on norms alone
NORMS = 0.01  # histogram of norms, where none was released before
PRODUCT_NORMS = 0.01  # the same for the products of selected pairs
TEST = 0.001  # the mean score of what a rung selected
FIRST_VALUES = 0.25  # of what is left: values that decide which pairs are released again
FIRST_OF_UNITS = 0.15  # the same where values are taken off units before these are bounded
# What matters beside noise, in its deviations, or over its norm.
DROPPED = 1.5  # deviations below which a selected pair is taken for noise
WEAKEST = 0.6  # a row may miss several pairs: those that alone are so far below noise matter
KEEP = 3.0  # deviations that a selected pair must exceed
_LADDER_SHARE, _STEPS_PER_FEATURE, _FEWEST_STEPS = 0.3, 1.25, 64  # for the rate of the clock


@dataclass(frozen=True)
class AdaptiveParameters:
    """Everything that is fixed before a record is read, and what earlier steps released.

    `event` is the whole release; `rate` that of its clock. `norm` and `tilt` are what was released
    of norms and signs, None where nothing was.
    """

    inputs: ReleaseInputs
    event: Clocked
    rate: float
    norm: NormBound | None = None
    tilt: tuple[int, ...] | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """What is charged: the events spent before, and one clock."""
        return (*self.inputs.spent, self.event)  # proof: step 1

    @property
    def part_names(self) -> tuple[str, ...]:
        """What the clock released, in words."""
        return ("which pairs and factors matter, and their values",)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "inputs": self.inputs.to_dict(),
            "mu": self.event.mu,
            "late": self.event.late,
            "rate": self.rate,
            "norm": None if self.norm is None else asdict(self.norm),
            "tilt": None if self.tilt is None else list(self.tilt),
        }


def adaptive_parameters(inputs: ReleaseInputs) -> AdaptiveParameters:
    """The longest clock within the budget, from public inputs alone.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The event of the answer, with those spent
    before, composes to at most (epsilon, delta); `docs/proofs/adaptive.md`.
    """
    event = inputs.longest_clock()
    event = Clocked(event.mu * WITHIN, event.late)
    steps = max(_FEWEST_STEPS, math.ceil(_STEPS_PER_FEATURE * inputs.n_features))
    return AdaptiveParameters(inputs, event, clock_rate(event, steps, _LADDER_SHARE))
