"""Budgets for tests of single steps."""

import math

from hushcov.calibration import full_budget
from hushcov.kernel.accounting import UNSPENT, Budget


def ample(mu: float | None = None) -> Budget:
    """Certify a budget for steps of a test; without a mu, they will not use it up."""
    return full_budget(10.0, 0.09) if mu is None else Budget(10.0, 0.09, mu=mu)


def spent(budget: Budget) -> dict[str, float]:
    """Return the mu of every part that was spent on the clock."""
    return {part: event.mu for part, (event,) in budget.parts if part != UNSPENT}


def squared(budget: Budget) -> float:
    """Return the time that was spent."""
    return math.fsum(mu**2 for mu in spent(budget).values())
