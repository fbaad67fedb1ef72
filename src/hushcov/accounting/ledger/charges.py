"""What the ledger remembers of a budget and of a charge, and how it is written down."""

from __future__ import annotations

import json
import math
import platform
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast, get_args

from hushcov._version import __version__
from hushcov.accounting.composition import Bound
from hushcov.accounting.events import Approximate, Event, Pure, TotalVariation
from hushcov.accounting.guarantee import NOT_CERTIFIED, Guarantee
from hushcov.accounting.ledger.store import Entry
from hushcov.exceptions import LedgerError, ParameterError, PrivacyConditionError

BUDGET, CHARGE = "budget", "charge"
# How a charge was counted when it was accepted; entries of the first version do not say.
_FILTER = "filter-1"
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True)
class Budget:
    """The total (epsilon, delta) that everything released from a dataset may cost."""

    dataset: str
    epsilon: float
    delta: float
    time: str = ""


@dataclass(frozen=True)
class Charge:
    """What one release costs: its events, or the (epsilon, delta) it promises as a whole.

    Both are true statements about the release. `promise` is None where only events are known.
    """

    events: tuple[Event, ...]
    promise: Pure | Approximate | None = None
    private: bool = True


@dataclass(frozen=True)
class Receipt:
    """A charge as it stands in the ledger.

    `id` counts the entries of the ledger. `total` is what all charges of the dataset, with this
    one, cost together. `private` is False where the noise of the release came from a seed.
    `adaptive` says that the charge was accepted by the rule for costs chosen in the light of
    results; earlier versions of hushcov had another one. `digest` seals the entry and all entries
    before.
    """

    id: int
    dataset: str
    time: str
    label: str
    charge: Charge
    total: Bound
    versions: Mapping[str, str] = field(default_factory=dict)
    adaptive: bool = True
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain, JSON-ready data."""
        names = ("id", "dataset", "time", "adaptive", "digest")
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


def _guarantee_charge(guarantee: Guarantee) -> Charge:
    """Charge what ran where the events say so, and the promise where they do not.

    `Pure` and `Approximate` events state a target. Those of the paper's theorem leave out what
    rounding the moments adds (docs/proofs/multiscale.md, step 8), which only the promise covers.
    """
    if guarantee.method == NOT_CERTIFIED:
        raise PrivacyConditionError(
            "the guarantee must be certified to be charged, got one that no bound certifies: what "
            "the release costs is not known. Use constants with a proof. Nothing was charged."
        )
    epsilon, delta = guarantee.epsilon, guarantee.delta
    promise = Approximate(epsilon, delta) if delta else Pure(epsilon)
    events = guarantee.events
    if not events or any(isinstance(event, Pure | Approximate) for event in events):
        return Charge((promise,), promise, guarantee.private)
    if guarantee.numerical_delta:
        # proof: step 6
        # It is (1 + e^epsilon) times a distance. Deltas would not do: together with other
        # releases the same distance costs more, because the total epsilon is larger.
        distance = guarantee.numerical_delta / (1 + math.exp(min(epsilon, 700.0)))
        events = (*events, TotalVariation(distance * (1 + 1e-12)))
    return Charge(events, promise, guarantee.private)


def budget_body(budget: Budget) -> str:
    """Return what is written down of a budget, as JSON."""
    return _dump({"epsilon": budget.epsilon, "delta": budget.delta})


def charge_body(
    label: str, charge: Charge, total: Bound, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is written down of a charge, as JSON-ready data. Floats round-trip exactly."""
    return {
        "label": label,
        "private": charge.private,
        "promise": None if charge.promise is None else _event_to_dict(charge.promise),
        "events": [_event_to_dict(event) for event in charge.events],
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
    return _dump(charge_body(label, charge, total, versions) | {"rule": _FILTER})


def read_entry(entry: Entry) -> Budget | Receipt:
    """Return the budget an entry sets, or the receipt of a charge."""
    try:
        return _READERS[entry.kind](entry)
    except (LookupError, TypeError, ValueError) as error:
        # Its digest was right, so it is what somebody wrote.
        raise LedgerError(
            f"entry {entry.id} of the ledger cannot be read by hushcov {__version__}: use the "
            f"version that wrote it. Nothing was charged. ({type(error).__name__}: {error})"
        ) from error


def _read_budget(entry: Entry) -> Budget:
    return Budget(dataset=entry.dataset, time=entry.time, **json.loads(entry.body))


def _read_receipt(entry: Entry) -> Receipt:
    body = json.loads(entry.body)
    promise = body["promise"]
    charge = Charge(
        events=tuple(_event_from_dict(event) for event in body["events"]),
        promise=None if promise is None else _event_from_dict(promise),
        private=body["private"],
    )
    return Receipt(
        id=entry.id,
        dataset=entry.dataset,
        time=entry.time,
        label=body["label"],
        charge=charge,
        total=Bound(**body["total"]),
        versions=body["versions"],
        adaptive=body.get("rule") == _FILTER,
        digest=entry.digest,
    )


_READERS: dict[str, Callable[[Entry], Budget | Receipt]] = {
    BUDGET: _read_budget,
    CHARGE: _read_receipt,
}


def _event_to_dict(event: Event) -> dict[str, Any]:
    return {"type": type(event).__name__, **asdict(event)}


def _event_from_dict(fields: Mapping[str, Any]) -> Any:
    values = dict(fields)
    return _KINDS[values.pop("type")](**values)


def _dump(body: Mapping[str, Any]) -> str:
    return json.dumps(body, allow_nan=False)
