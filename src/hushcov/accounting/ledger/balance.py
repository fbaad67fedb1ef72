"""What the charges of a dataset cost together, and what still fits its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushcov.accounting.calibration import calibrate_gaussian
from hushcov.accounting.composition import Bound, compose
from hushcov.accounting.events import Approximate, Event, Gaussian, Pure, TotalVariation
from hushcov.accounting.gaussian import gaussian_epsilon
from hushcov.accounting.ledger.charges import Budget, Charge
from hushcov.exceptions import PrivacyConditionError

# Budgets and charges are decimals such as 0.1, of which doubles hold neighbours: three times 0.1
# is a unit in the last place above 0.3. Plain sums may pass by this much, relative to the budget.
_LAST_PLACES = 2.0**-50
_HALVINGS = 30
NOTHING = Bound(0.0, 0.0, "none")


@dataclass(frozen=True)
class Remaining:
    """What still fits: `epsilon` for a Gaussian release at the dataset's delta, or a pure one.

    The two are alternatives; each uses up the budget. A release by other noise costs about what
    a Gaussian one does at the same (epsilon, delta).
    """

    epsilon: float
    pure_epsilon: float


def total(charges: Sequence[Charge], delta: float) -> Bound:
    """Return the best valid bound on all charges together; epsilon is inf where there is none."""
    if not charges:
        return NOTHING
    # proof: step 4
    found = [bound for events in _readings(charges) for bound in _bounds(events, delta)]
    if not found:
        return Bound(math.inf, delta, "none")
    return min(found, key=lambda bound: (bound.epsilon, bound.delta))


def within(bound: Bound, budget: Budget) -> bool:
    """Return whether a bound at the budget's delta is inside the budget."""
    return bound.epsilon <= budget.epsilon * (1 + _LAST_PLACES)


def remaining(charges: Sequence[Charge], budget: Budget) -> Remaining:
    """Return what could still be charged."""
    spent = total(charges, budget.delta).epsilon
    return Remaining(_gaussian_left(charges, budget), max(0.0, budget.epsilon - spent))


def _gaussian_left(charges: Sequence[Charge], budget: Budget) -> float:
    if budget.delta == 0:
        return 0.0

    def fits(mu: float) -> bool:
        return within(total((*charges, Charge((Gaussian(mu),))), budget.delta), budget)

    low, high = 0.0, calibrate_gaussian(budget.epsilon, budget.delta)
    if fits(high):
        return budget.epsilon
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return gaussian_epsilon(low, budget.delta) if low else 0.0


def _readings(charges: Sequence[Charge]) -> tuple[tuple[Event, ...], ...]:
    """Return all events, and all promises with the events of charges that promise nothing."""
    events = tuple(event for charge in charges for event in charge.events)
    promises = tuple(
        event
        for charge in charges
        for event in (charge.events if charge.promise is None else (charge.promise,))
    )
    return tuple(dict.fromkeys((events, promises)))


def _bounds(events: tuple[Event, ...], delta: float) -> list[Bound]:
    found = (_together(events, delta), _boxes_apart(events, delta), _boxes_added(events, delta))
    return [bound for bound in found if bound is not None]


def _together(events: tuple[Event, ...], delta: float) -> Bound | None:
    try:
        return compose(events, delta=delta, pld=False)
    except PrivacyConditionError:
        return None


def _boxes_added(events: tuple[Event, ...], delta: float) -> Bound | None:
    """Add up black boxes whose deltas are exactly the budget's, but for their last places."""
    if not all(isinstance(event, Pure | Approximate) for event in events):
        return None
    epsilon, spent = _sums(events)
    if not delta < spent <= delta * (1 + _LAST_PLACES):
        return None
    return Bound(epsilon, delta, "basic")


def _boxes_apart(events: tuple[Event, ...], delta: float) -> Bound | None:
    """Add the (epsilon, delta) of black boxes to the composition of everything else.

    Some tight bounds hold without black boxes only. Slack in total variation is priced at the
    epsilon of the whole, so it must stay with the whole.
    """
    boxes = tuple(event for event in events if isinstance(event, Pure | Approximate))
    rest = tuple(event for event in events if not isinstance(event, Pure | Approximate))
    if not boxes or not rest or any(isinstance(event, TotalVariation) for event in rest):
        return None
    # proof: step 7
    box_epsilon, box_delta = _sums(boxes)
    left = (delta - box_delta) * (1 - _LAST_PLACES)
    bound = _together(rest, left) if left >= 0 else None
    if bound is None:
        return None
    both = math.fsum((box_epsilon, bound.epsilon)), math.fsum((box_delta, bound.delta))
    return Bound(*both, bound.method)


def _sums(boxes: tuple[Event, ...]) -> tuple[float, float]:
    epsilons = [event.epsilon for event in boxes if isinstance(event, Pure | Approximate)]
    deltas = [event.delta for event in boxes if isinstance(event, Approximate)]
    return math.fsum(epsilons), math.fsum(deltas)
