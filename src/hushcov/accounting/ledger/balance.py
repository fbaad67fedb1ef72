"""What the charges of a dataset cost together, and what still fits its budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hushcov.accounting.calibration import calibrate_gaussian
from hushcov.accounting.composition import Bound, compose
from hushcov.accounting.events import Approximate, Event, Gaussian, Pure
from hushcov.accounting.filter import spent_adaptively
from hushcov.accounting.gaussian import gaussian_epsilon
from hushcov.accounting.ledger.charges import Budget, Charge, as_charge
from hushcov.exceptions import PrivacyConditionError

# Budgets and charges are decimals such as 0.1, of which doubles hold neighbours: three times 0.1
# is a unit in the last place above 0.3. Plain sums may pass by this much, relative to the budget.
_LAST_PLACES = 2.0**-50
_HALVINGS = 30
# Where promises are added up, events that promise nothing are read at this share of delta.
_UNPROMISED = 1 / 8
NOTHING = Bound(0.0, 0.0, "none")


@dataclass(frozen=True)
class Remaining:
    """What still fits: `epsilon` for a release at `delta`, or `pure_epsilon` for one at delta 0.

    The two are alternatives; each uses up the budget. `epsilon` is that of a Gaussian release;
    one by other noise costs about what a Gaussian one does at the same (epsilon, delta).
    """

    epsilon: float
    pure_epsilon: float
    delta: float


def total(charges: Sequence[Charge], budget: Budget) -> Bound:
    """Return what all charges cost together; epsilon is inf where nothing bounds them.

    The first charge was made before anything was released. It may take the budget whole, and it
    decides how later ones, whose costs may depend on results, are counted.
    """
    if not charges:
        return NOTHING
    # proof: step 27
    if _adds_promises(charges):
        return _promises_added(charges, budget.delta)
    events = tuple(event for charge in charges for event in charge.events)
    found = [spent_adaptively(events, budget.epsilon, budget.delta)]
    if len(charges) == 1:
        found += _alone(charges[0], budget.delta)
    return min(found, key=lambda bound: bound.epsilon)


def within(bound: Bound, budget: Budget) -> bool:
    """Return whether a bound at the budget's delta is inside the budget."""
    return bound.epsilon <= budget.epsilon * (1 + _LAST_PLACES)


def remaining(charges: Sequence[Charge], budget: Budget) -> Remaining:
    """Return what could still be charged."""

    def fits(event: Event) -> bool:
        return within(total((*charges, as_charge(event)), budget), budget)

    pure = _largest(lambda epsilon: fits(Pure(epsilon)), budget.epsilon)
    difference = budget.epsilon - total(charges, budget).epsilon
    if difference > pure and fits(Pure(difference)):
        pure = difference  # a plain sum, to its last place
    if charges and _adds_promises(charges):
        spent = _promises(charges, budget.delta)
        delta = max(0.0, budget.delta - math.fsum(box_delta for _, box_delta in spent))
        delta = delta if delta > _LAST_PLACES * budget.delta else 0.0
        return Remaining(pure if delta else 0.0, pure, delta)
    if budget.delta == 0:
        return Remaining(0.0, pure, 0.0)
    mu = _largest(lambda mu: fits(Gaussian(mu)), calibrate_gaussian(budget.epsilon, budget.delta))
    left = budget.epsilon if not charges else gaussian_epsilon(mu, budget.delta) if mu else 0.0
    return Remaining(left, pure, budget.delta)


def _largest(fits: Callable[[float], bool], most: float) -> float:
    """The largest amount up to `most` that fits, from below."""
    if fits(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _alone(charge: Charge, delta: float) -> list[Bound]:
    """Bounds on one charge, by its events and by what it promises."""
    readings = [charge.events] if charge.promise is None else [charge.events, (charge.promise,)]
    found = []
    for events in readings:
        try:
            found.append(compose(events, delta=delta, pld=False))
        except PrivacyConditionError:
            continue
    return found


def _adds_promises(charges: Sequence[Charge]) -> bool:
    """Whether the first charge is a promise with a delta: then deltas and epsilons are added up.

    The delta of a promise is used up for good, and there is no telling beforehand how much of the
    total later promises will need, so that none of it is kept for noise.
    """
    first = charges[0]
    return isinstance(first.promise, Approximate) and first.events == (first.promise,)


def _promises_added(charges: Sequence[Charge], delta: float) -> Bound:
    spent = _promises(charges, delta)
    if math.fsum(box_delta for _, box_delta in spent) > delta * (1 + _LAST_PLACES):
        return Bound(math.inf, delta, "basic")
    return Bound(math.fsum(epsilon for epsilon, _ in spent), delta, "basic")


def _promises(charges: Sequence[Charge], delta: float) -> list[tuple[float, float]]:
    return [_promise(charge, delta) for charge in charges]


def _promise(charge: Charge, delta: float) -> tuple[float, float]:
    """The (epsilon, delta) of a charge that is added to others."""
    if isinstance(charge.promise, Approximate):
        return charge.promise.epsilon, charge.promise.delta
    if isinstance(charge.promise, Pure):
        return charge.promise.epsilon, 0.0
    try:
        bound = compose(charge.events, delta=_UNPROMISED * delta, pld=False)
    except PrivacyConditionError:
        return math.inf, delta
    return bound.epsilon, bound.delta
