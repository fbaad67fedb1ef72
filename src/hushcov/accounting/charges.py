"""Budgets and charges: how a ledger writes them down, what they cost together, what still fits."""

from __future__ import annotations

import json
import math
import platform
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast, get_args

from hushcov._validation import check_choice
from hushcov._version import __version__
from hushcov.accounting.composition import Bound, calibrate_gaussian, compose
from hushcov.accounting.curves import gaussian_epsilon
from hushcov.accounting.events import (
    Approximate,
    Event,
    Gaussian,
    Pure,
    TotalVariation,
    event_from_dict,
    event_to_dict,
)
from hushcov.accounting.filter import spent_adaptively
from hushcov.accounting.guarantee import Guarantee
from hushcov.accounting.ledger_file import Entry
from hushcov.accounting.neighbours import RECORD, RELATIONS, REPLACE, check_unit, for_group
from hushcov.accounting.promise import change_words, largest_factor
from hushcov.exceptions import LedgerError, ParameterError, PrivacyConditionError

BUDGET, CHARGE = "budget", "charge"
# Budgets and charges are decimals such as 0.1, of which doubles hold neighbours: three times 0.1
# is a unit in the last place above 0.3. Plain sums may pass by this much, relative to the budget.
_LAST_PLACES = 2.0**-50
_HALVINGS = 30
# Where promises are added up, events that promise nothing are read at this share of delta.
_UNPROMISED = 1 / 8


@dataclass(frozen=True)
class DatasetBudget:
    """The total (epsilon, delta) that everything released from a dataset may cost.

    It is promised to one `unit` that is replaced, or added or removed: `neighbours`.
    """

    dataset: str
    epsilon: float
    delta: float
    time: str = ""
    neighbours: str = REPLACE
    unit: str = RECORD

    @property
    def change(self) -> str:
        """What neighbours differ by, in words."""
        return change_words(RELATIONS[self.neighbours], self.unit)


@dataclass(frozen=True)
class Charge:
    """What one release costs: its events, or the (epsilon, delta) it promises as a whole.

    Both are true statements about the release. `promise` is None where only events are known.
    `converted` says that the release was promised for a unit that is added or removed, and that
    both are here what they cost for one that is replaced. `whole` is the epsilon of a release of
    which this is the first part, a count, after which the rest is planned; 0 of all others.
    """

    events: tuple[Event, ...]
    promise: Pure | Approximate | None = None
    private: bool = True
    converted: bool = False
    whole: float = 0.0


@dataclass(frozen=True)
class Receipt:
    """A charge as it stands in the ledger.

    `number` counts the releases of the dataset from 1, and `id` the entries of the ledger, promises
    among them. `total` is what all charges of the dataset, with this one, cost together.
    `private` is False where the noise of the release came from a seed.
    `digest` seals the entry and all entries before.
    """

    id: int
    dataset: str
    time: str
    label: str
    charge: Charge
    total: Bound
    versions: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    number: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain, JSON-ready data."""
        names = ("id", "number", "dataset", "time", "digest")
        about = {name: getattr(self, name) for name in names}
        return about | charge_body(self.label, self.charge, self.total, self.versions)


def as_charge(cost: object) -> Charge:
    """Read a guarantee, an event or a sequence of events as a charge."""
    if isinstance(cost, Guarantee):
        return _guarantee_charge(cost)
    events = cost if isinstance(cost, Sequence) else (cost,)
    if not events or not all(isinstance(event, get_args(Event)) for event in events):
        raise ParameterError(
            "cost must be a Guarantee, an event or a sequence of events, got "
            f"{type(cost).__name__}: see hushcov.accounting for the events there are."
        )
    given = tuple(cast("Sequence[Event]", events))
    promise = given[0] if len(given) == 1 and isinstance(given[0], Pure | Approximate) else None
    return Charge(given, promise)


def charge_to(budget: DatasetBudget, cost: object) -> Charge:
    """What a cost is for those whom a budget protects, or a refusal.

    Events by themselves are those of the budget's own neighbours.
    """
    charge = as_charge(cost)
    if not isinstance(cost, Guarantee):
        return charge
    if cost.unit != budget.unit:
        raise PrivacyConditionError(
            f"unit of the release must be {budget.unit!r}, which the budget of dataset "
            f"{budget.dataset!r} protects, got {cost.unit!r}: name the column that says "
            "whose a record is, by fit(X, unit=...) (--unit COLUMN), or open another dataset with "
            "open_dataset(..., unit=...) ('hushcov ledger init --unit'). "
            "Nothing was charged, so nothing may be released."
        )
    promised = RELATIONS[budget.neighbours]
    if cost.adjacency == promised:
        return charge
    if promised == RELATIONS[REPLACE]:
        return _replaced(charge)
    raise PrivacyConditionError(
        f"neighbours of the release must be {budget.neighbours!r}, as the budget of dataset "
        f"{budget.dataset!r} promises, got {cost.adjacency!r}: what is promised for replacing says "
        "nothing of data that has one unit more. Release with neighbours='add-remove', or open "
        "another dataset with neighbours='replace'. Nothing was charged, so nothing may be "
        "released."
    )


def _replaced(charge: Charge) -> Charge:
    """What a release for one unit added or removed costs for one replaced: it does both."""
    return Charge(
        events=tuple(_twice(event) for event in charge.events),
        promise=None
        if charge.promise is None
        else cast("Pure | Approximate", _twice(charge.promise)),
        private=charge.private,
        converted=True,
    )


def _twice(event: Event) -> Event:
    # proof: step 24
    if isinstance(event, TotalVariation):
        return event  # it holds for every dataset
    if not isinstance(event, Approximate):
        return for_group(event, 2)
    delta = (1 + largest_factor(event.epsilon)) * event.delta * (1 + _LAST_PLACES)
    if delta >= 1:
        raise PrivacyConditionError(
            f"delta must be so small that a replacement is private, got {event.delta!r} at epsilon "
            f"{event.epsilon!r} for one unit added or removed: promise less. Nothing was charged."
        )
    return Approximate(2 * event.epsilon, delta)


def _guarantee_charge(guarantee: Guarantee) -> Charge:
    """Charge what ran where the events say so, and the promise where they do not.

    `Approximate` events state a target. Those of the paper's theorem leave out what rounding the
    moments adds (docs/proofs/multiscale.md, step 8), which only the promise covers. What is pure
    throughout is a promise, too.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    promise = Approximate(epsilon, delta) if delta else Pure(epsilon)
    events = guarantee.events
    targets = [isinstance(event, Approximate) for event in events]
    if any(targets) or all(isinstance(event, Pure) for event in events):
        return Charge((promise,), promise, guarantee.private)
    if guarantee.numerical_delta:
        # proof: step 6
        # It is (1 + e^epsilon) times a distance. Deltas would not do: together with other
        # releases the same distance costs more, because the total epsilon is larger.
        distance = guarantee.numerical_delta / (1 + largest_factor(epsilon))
        events = (*events, TotalVariation(distance * (1 + 1e-12)))
    return Charge(events, promise, guarantee.private)


def budget_body(budget: DatasetBudget) -> str:
    """Return what is written down of a budget, as JSON.

    Budgets for one replaced record are as they always were; a version that knows no others cannot
    read the rest, and refuses.
    """
    whom = {"neighbours": budget.neighbours, "unit": budget.unit}
    usual = (budget.neighbours, budget.unit) == (REPLACE, RECORD)
    return _dump({"epsilon": budget.epsilon, "delta": budget.delta} | ({} if usual else whom))


def charge_body(
    label: str, charge: Charge, total: Bound, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is written down of a charge, as JSON-ready data. Floats round-trip exactly."""
    return {
        "label": label,
        "private": charge.private,
        "converted": charge.converted,
        "whole": charge.whole,
        "promise": None if charge.promise is None else event_to_dict(charge.promise),
        "events": [event_to_dict(event) for event in charge.events],
        "total": asdict(total),
        "versions": dict(versions),
    }


def charge_json(label: str, charge: Charge, total: Bound) -> str:
    """Return what is written down of a new charge, as JSON."""
    versions = {
        "hushcov": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    return _dump(charge_body(label, charge, total, versions))


def read_entry(entry: Entry) -> DatasetBudget | Receipt:
    """Return the budget an entry sets, or the receipt of a charge."""
    try:
        return _READERS[entry.kind](entry)
    except (LookupError, TypeError, ValueError) as error:
        # Its digest was right, so it is what somebody wrote.
        raise LedgerError(
            f"entry {entry.id} of the ledger cannot be read by hushcov {__version__}: use the "
            f"version that wrote it. Nothing was charged. ({type(error).__name__}: {error})"
        ) from error


def _read_budget(entry: Entry) -> DatasetBudget:
    budget = DatasetBudget(dataset=entry.dataset, time=entry.time, **json.loads(entry.body))
    check_choice("neighbours", budget.neighbours, tuple(RELATIONS))
    check_unit(budget.unit)
    return budget


def _read_receipt(entry: Entry) -> Receipt:
    body = json.loads(entry.body)
    promise = body["promise"]
    charge = Charge(
        events=tuple(event_from_dict(event) for event in body["events"]),
        promise=None if promise is None else cast("Pure | Approximate", event_from_dict(promise)),
        private=body["private"],
        converted=body["converted"],
        whole=body["whole"],
    )
    return Receipt(
        id=entry.id,
        dataset=entry.dataset,
        time=entry.time,
        label=body["label"],
        charge=charge,
        total=Bound(**body["total"]),
        versions=body["versions"],
        digest=entry.digest,
    )


_READERS: dict[str, Callable[[Entry], DatasetBudget | Receipt]] = {
    BUDGET: _read_budget,
    CHARGE: _read_receipt,
}


def _dump(body: Mapping[str, Any]) -> str:
    return json.dumps(body, allow_nan=False)


@dataclass(frozen=True)
class Remaining:
    """What still fits: `epsilon` for a release at `delta`, or `pure_epsilon` for one at delta 0.

    The two are alternatives; each uses up the budget. `epsilon` is that of a Gaussian release;
    one by other noise costs about what a Gaussian one does at the same (epsilon, delta).
    """

    epsilon: float
    pure_epsilon: float
    delta: float

    def converted(self) -> Remaining:
        """What fits of releases for a unit added or removed, which count twice."""
        epsilon = 0.0
        if self.epsilon > 0:
            mu = calibrate_gaussian(self.epsilon, self.delta) / 2
            epsilon = min(self.epsilon / 2, gaussian_epsilon(mu * (1 - 1e-9), self.delta))
        delta = self.delta / (1 + largest_factor(epsilon)) * (1 - 1e-9)
        return Remaining(epsilon, self.pure_epsilon / 2 * (1 - 1e-9), delta)


def total(charges: Sequence[Charge], budget: DatasetBudget) -> Bound:
    """Return what all charges cost together; epsilon is inf where nothing bounds them.

    The first charge was made before anything was released. It may take the budget whole, and it
    decides how later ones, whose costs may depend on results, are counted.
    """
    if not charges:
        return Bound(0.0, 0.0, "none")
    # proof: step 24
    if _adds_promises(charges, budget):
        return _promises_added(charges, budget.delta)
    events = tuple(event for charge in charges for event in charge.events)
    found = [spent_adaptively(events, budget.epsilon, budget.delta)]
    if len(charges) == 1:
        found += _alone(charges[0], budget.delta)
    return min(found, key=lambda bound: bound.epsilon)


def within(bound: Bound, budget: DatasetBudget) -> bool:
    """Return whether a bound at the budget's delta is inside the budget."""
    return bound.epsilon <= budget.epsilon * (1 + _LAST_PLACES)


def remaining(charges: Sequence[Charge], budget: DatasetBudget) -> Remaining:
    """Return what could still be charged."""

    def fits(event: Event) -> bool:
        return within(total((*charges, as_charge(event)), budget), budget)

    pure = _largest(lambda epsilon: fits(Pure(epsilon)), budget.epsilon)
    difference = budget.epsilon - total(charges, budget).epsilon
    if difference > pure and fits(Pure(difference)):
        pure = difference  # a plain sum, to its last place
    if charges and _adds_promises(charges, budget):
        spent = [_promise(charge, budget.delta) for charge in charges]
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
            found.append(compose(events, delta=delta))
        except PrivacyConditionError:
            continue
    return found


def _adds_promises(charges: Sequence[Charge], budget: DatasetBudget) -> bool:
    """Whether the first charge is a promise with a delta: then deltas and epsilons are added up.

    Or it is the first part of a release that is to take most of the budget.

    The delta of a promise is used up for good, and there is no telling beforehand how much of the
    total later promises will need, so that none of it is kept for noise.
    """
    first = charges[0]
    if 2 * first.whole > budget.epsilon:
        return True
    return isinstance(first.promise, Approximate) and first.events == (first.promise,)


def _promises_added(charges: Sequence[Charge], delta: float) -> Bound:
    spent = [_promise(charge, delta) for charge in charges]
    if math.fsum(box_delta for _, box_delta in spent) > delta * (1 + _LAST_PLACES):
        return Bound(math.inf, delta, "basic")
    return Bound(math.fsum(epsilon for epsilon, _ in spent), delta, "basic")


def _promise(charge: Charge, delta: float) -> tuple[float, float]:
    """The (epsilon, delta) of a charge that is added to others."""
    if isinstance(charge.promise, Approximate):
        return charge.promise.epsilon, charge.promise.delta
    if isinstance(charge.promise, Pure):
        return charge.promise.epsilon, 0.0
    try:
        bound = compose(charge.events, delta=_UNPROMISED * delta)
    except PrivacyConditionError:
        return math.inf, delta
    return bound.epsilon, bound.delta
