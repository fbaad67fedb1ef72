"""The share of the budget that each part of a release took."""

from __future__ import annotations

from collections.abc import Callable

from hushcov.accounting import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    Pure,
    TotalVariation,
    compose,
)
from hushcov.exceptions import HushcovError
from hushcov.release import Part, Release, named_parts
from hushcov.report.html.markup import printable, short

#: What shares are shares of.
ZCDP, EPSILON = "zcdp", "epsilon"
_LONGEST_NAME = 120


def privacy_parts(release: Release) -> tuple[Part, ...]:
    """Everything the guarantee charges, in the order in which it happened; names as shown."""
    parts = release.making.parts or named_parts(release.guarantee.events, ())
    return tuple(Part(short(printable(part.name), _LONGEST_NAME), part.events) for part in parts)


def cost(part: Part, currency: str) -> float:
    """What a part spent; nothing for what costs delta alone."""
    return sum(_COSTS[currency](event) or 0.0 for event in part.events)


def alone(part: Part, delta: float) -> float | None:
    """The epsilon that a part would have at this delta if it were all there is."""
    charged = [event for event in part.events if not isinstance(event, TotalVariation)]
    try:
        return compose(charged, delta=delta, pld=False).epsilon
    except HushcovError:
        return None


def currency(parts: tuple[Part, ...]) -> str | None:
    """In which unit the parts add up exactly; None where there is none."""
    events = [event for part in parts for event in part.events]
    for name, cost in _COSTS.items():
        if events and all(cost(event) is not None for event in events):
            return name
    return None


def _rho(event: Event) -> float | None:
    match event:
        case Gaussian(mu) | DiscreteGaussian(mu):
            return mu * mu / 2
        case BoundedRange(eta, count):
            return count * eta * eta / 8
        case TotalVariation():
            return 0.0
    return None


def _epsilon(event: Event) -> float | None:
    match event:
        case Pure(epsilon) | Approximate(epsilon, _):
            return epsilon
        case TotalVariation():
            return 0.0
    return None


_COSTS: dict[str, Callable[[Event], float | None]] = {ZCDP: _rho, EPSILON: _epsilon}
