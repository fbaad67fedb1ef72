"""What an adaptive release settles beforehand: its budget, and shares that its steps may take."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.screened import check_exact
from hushcov.steps import Prepared

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
    """What is fixed before a record is read: the public inputs."""

    inputs: ReleaseInputs

    @property
    def selects(self) -> bool:
        """Whether pairs may be selected."""
        return True

    @property
    def part(self) -> str:
        """What is released, in words."""
        return "which pairs and factors matter, and their values"

    @property
    def mu(self) -> float:
        """About what steps before leave."""
        return self.inputs.largest_mu(selects=self.selects)

    def budget(self, *, private: bool = True) -> Budget:
        """Certify a clock, from public inputs alone.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. Whatever the steps are, they stay on the
        clock; `docs/proofs/adaptive.md`.
        """
        check_exact(self.inputs.n_records)  # scores and sums, as in the screened release
        return self.inputs.budget(selects=self.selects, private=private)  # proof: step 1

    def expect(self, budget: Budget) -> None:
        """Choose the rate of the clock for a ladder."""
        steps = max(_FEWEST_STEPS, math.ceil(_STEPS_PER_FEATURE * self.inputs.n_features))
        budget.expect(steps, _LADDER_SHARE)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {"inputs": self.inputs.to_dict()}


def clock_dict(budget: Budget, prepared: Prepared) -> dict[str, object]:
    """Return the clock of a release and what it started with, as plain data."""
    norm, tilt = prepared.norm, prepared.tilt
    return {
        "mu": budget.mu,
        "late": budget.late,
        "rate": budget.rate,
        "norm": None if norm is None else asdict(norm),
        "tilt": None if tilt is None else tilt.tolist(),
    }
