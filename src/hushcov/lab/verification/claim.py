"""One checked statement of the paper: what it promises, and what two computations found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

ROUNDING = 1e-12  # relative allowance where a bound is attained: both sides are doubles
FALSE_ALARM = 1e-6  # rate at which a statistical claim may fail although it is true
LOG10 = math.log(10.0)


@dataclass(frozen=True)
class Claim:
    """A statement `measured <= bound` with its source, and the same number by a second route.

    Where `logarithmic`, the three numbers are decimal logarithms of probabilities and minus
    infinity stands for an event that cannot happen.
    """

    name: str
    source: str
    statement: str
    bound: float
    measured: float
    second: float  # the same quantity by an independent route; it must keep the bound too
    holds: bool
    detail: str
    logarithmic: bool = False
    vacuous: bool = False  # true because this setting has nothing it speaks of

    @property
    def margin(self) -> float:
        """bound / measured; of logarithms, how many decades the measured one lies below."""
        if self.logarithmic:
            return self.bound - self.measured
        return self.bound / self.measured if self.measured else math.inf

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data; a number that is not finite becomes None."""
        values = asdict(self) | {"margin": self.margin}
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in values.items()
        }


def at_most(
    name: str,
    source: str,
    statement: str,
    *,
    bound: float,
    measured: float,
    second: float,
    detail: str = "",
    also: bool = True,
    logarithmic: bool = False,
    vacuous: bool = False,
) -> Claim:
    """Build a claim that holds if both numbers keep the bound, and whatever `also` demands."""
    slack = ROUNDING * max(1.0, abs(bound)) if logarithmic else ROUNDING * abs(bound)
    # A NaN compares false, so a computation that broke down never passes.
    holds = measured <= bound + slack and second <= bound + slack and also
    numbers = float(bound), float(measured), float(second)
    return Claim(name, source, statement, *numbers, bool(holds), detail, logarithmic, vacuous)


def agree(first: float, second: float, tolerance: float = 1e-9) -> bool:
    """Whether two computations of one number give the same one, in relative terms."""
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=0.0)
