"""The ledger of a dataset's privacy budget: charge first, then release; never the other way round.

From bottom to top: the file, whose entries are only ever appended (`Entry`, `Book`, `Store`);
budgets and charges, and what they cost together; `LedgerFile`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

from hushcov._charged import (
    NOTHING_CHARGED,
    Attempt,
    begin,
    charge_begun,
    database_words,
    ledger_asked,
    stated_charges,
)
from hushcov._validation import check_choice, check_real, shown
from hushcov._version import __version__
from hushcov._words import number
from hushcov.exceptions import BudgetError, LedgerError, ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.composition import Bound, compose, spent_adaptively
from hushcov.kernel.accounting.events import (
    Approximate,
    Event,
    Pure,
    TotalVariation,
    event_from_dict,
    event_to_dict,
)
from hushcov.kernel.accounting.guarantee import Guarantee
from hushcov.kernel.accounting.neighbours import RELATIONS, REPLACE, check_unit, for_group
from hushcov.promise import RECORD, change_words

SCHEMA_VERSION = 2
_APPLICATION_ID = 0x68757368  # "hush", in the header of the file
_CREATE = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    dataset TEXT NOT NULL,
    time TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL
)
"""
BUDGET, CHARGE = "budget", "charge"
# Budgets and charges are decimals such as 0.1, of which doubles hold neighbours: three times 0.1
# is a unit in the last place above 0.3. Plain sums may pass by this much, relative to the budget.
LAST_PLACES = 2.0**-50
# Where promises are added up, events that promise nothing are read at this share of delta.
_UNPROMISED = 1 / 8
_LONGEST_NAME = 200
_LARGEST_DELTA = 0.1
_SMALLEST_DELTA = 1e-300  # of which doubles hold every share

# SQLite must not be carried over a fork while a connection is open: a fork waits for the calls
# that other threads have under way. Calls of one process take turns.
_NO_FORK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK.acquire, after_in_parent=_NO_FORK.release, after_in_child=_NO_FORK.release
    )


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; `body` is JSON."""

    id: int
    kind: str
    dataset: str
    time: str
    body: str
    digest: str

    def sealed_after(self, previous: str) -> str:
        """Return the digest this entry must have after an entry with digest `previous`."""
        content = [previous, self.id, self.kind, self.dataset, self.time, self.body]
        return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()


class Book:
    """All entries, read within one transaction, which may append to them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.entries = self._stored()
        # SQLite keeps the last id apart from the table, so that a lost end is noticed too.
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
        last = connection.execute(query).fetchone()
        sound = len(self.entries) == (last[0] if last else 0)
        previous = ""
        for place, entry in enumerate(self.entries, start=1):
            sound = sound and entry.id == place and entry.digest == entry.sealed_after(previous)
            previous = entry.digest
        if not sound:
            raise sqlite3.DatabaseError("an entry was lost or changed")

    def append(self, kind: str, dataset: str, body: Mapping[str, Any]) -> Entry:
        """Add an entry at the end; it is kept if the transaction is."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        written = json.dumps(body, allow_nan=False)
        draft = Entry(len(self.entries) + 1, kind, dataset, time, written, "")
        previous = self.entries[-1].digest if self.entries else ""
        entry = replace(draft, digest=draft.sealed_after(previous))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", astuple(entry))
        self.entries.append(entry)
        if self._stored() != self.entries:
            raise sqlite3.DatabaseError("the file does not keep what is written")
        return entry

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets, in the order in which they were opened."""
        return tuple(dict.fromkeys(entry.dataset for entry in self.entries))

    def _stored(self) -> list[Entry]:
        query = "SELECT id, kind, dataset, time, body, digest FROM entries ORDER BY id"
        # All at once: the cursor in the traceback of an interrupt would keep the file locked.
        rows = self._connection.execute(query).fetchall()
        return [Entry(*row) for row in rows]


class Store:
    """Access to the file, one transaction at a time, for any number of processes and threads.

    `path` must be absolute: the ledger stays the same when the working folder changes.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self._timeout = path, timeout

    @contextmanager
    def reading(self) -> Iterator[Book]:
        """Give one consistent view of the entries."""
        with self._connection("rw") as connection:
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield Book(connection)

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Book]:
        """Give sole access; what is appended is on the disk when this ends, or gone.

        An exception inside, or death of the process, leaves the file as it was.
        """
        with self._connection("rwc" if create else "rw") as connection:
            # At once, before anything is read: no other process can charge in between.
            connection.execute("BEGIN IMMEDIATE")
            if create and _is_empty(connection):
                connection.execute(_CREATE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._check_schema(connection)
            yield Book(connection)
            self._commit(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Make what was appended stay; whether it does is not known if this fails."""
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} {database_words(error)}. ({error})"
            ) from error

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open the file; closing it takes back what has not been committed."""
        if os.path.isdir(self.path):
            raise LedgerError(
                f"path must be a file, got the folder {self.path}: name a file in it."
            )
        if mode == "rw" and not os.path.exists(self.path):
            raise LedgerError(
                f"the ledger {self.path} is not there: check the path, or create it with "
                "'hushcov ledger init' (Ledger.open_dataset). Nothing was charged."
            )
        address = f"{self.path.as_uri()}?mode={mode}"
        options: dict[str, Any] = {"uri": True, "timeout": self._timeout, "isolation_level": None}
        try:
            with _NO_FORK, closing(sqlite3.connect(address, **options)) as connection:
                # A rollback journal keeps everything in one file between calls. EXTRA waits for
                # the disk, also for the journal's removal, which is the moment of commit: a
                # charge that was answered survives a power failure.
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")
                yield connection
        except sqlite3.Error as error:
            charged = "" if charge_begun() else f" {NOTHING_CHARGED}"  # else a note says it
            raise LedgerError(
                f"the ledger {self.path} {database_words(error)}.{charged} (SQLite: {error})"
            ) from error

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        application, version = _header(connection)
        if application != _APPLICATION_ID:
            what = "is empty" if _is_empty(connection) else "belongs to another program"
            raise LedgerError(
                f"path must be a ledger, got {self.path}, which {what}: create a ledger with "
                "open_dataset or 'hushcov ledger init'. Nothing was charged."
            )
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"path must be a ledger of schema version {SCHEMA_VERSION}, got "
                f"{self.path} of version {version}: use the hushcov that wrote it. Nothing was "
                "charged."
            )
        # A trigger could drop or change a charge that was accepted, and a view hide the table.
        added = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE (type, name) != ('table', 'entries') "
            "AND (type NOT IN ('table', 'index') OR name NOT GLOB 'sqlite_*')"
        ).fetchone()
        if added != (0,):
            raise LedgerError(
                f"path must be a ledger as hushcov makes it, got {self.path}, to which a trigger, "
                "a view, a table or an index was added: restore a copy that has every charge. "
                "Nothing was charged."
            )


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0) and _header(connection) == [0, 0]


def _header(connection: sqlite3.Connection) -> list[int]:
    names = ("application_id", "user_version")
    return [int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]


@dataclass(frozen=True)
class TotalBudget:
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
        """The change between neighbours, in words."""
        return change_words(RELATIONS[self.neighbours], self.unit)


@dataclass(frozen=True)
class Charge:
    """The cost of one release: its events, or the (epsilon, delta) it promises as a whole.

    Both are true statements about the release; `promise` is None where only events are known.
    """

    events: tuple[Event, ...]
    promise: Pure | Approximate | None = None
    private: bool = True  # False where the noise of the release came from a seed
    # Whether both are the cost for a replaced unit of what was promised for one added or removed.
    converted: bool = False
    # The epsilon of a release of which this is the first part, a count, before the rest is planned.
    whole: float = 0.0


@dataclass(frozen=True)
class Receipt:
    """A charge as it stands in the ledger."""

    id: int  # counts the entries of the ledger, promises among them
    dataset: str
    time: str
    label: str
    charge: Charge
    total: Bound  # what all charges of the dataset, with this one, cost together
    versions: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""  # seals the entry and all entries before
    number: int = 0  # counts the releases of the dataset from 1

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain, JSON-ready data."""
        names = ("id", "number", "dataset", "time", "digest")
        about = {name: getattr(self, name) for name in names}
        return about | _charge_body(self.label, self.charge, self.total, self.versions)


def as_charge(cost: object) -> Charge:
    """Read a guarantee, an event or a sequence of events as a charge."""
    if isinstance(cost, Guarantee):
        return _charge_guarantee(cost)
    events = cost if isinstance(cost, Sequence) else (cost,)
    if not events or not all(isinstance(event, get_args(Event)) for event in events):
        raise ParameterError(
            "cost must be a Guarantee, an event or a sequence of events, got "
            f"{type(cost).__name__}: see hushcov.kernel.accounting for the events there are."
        )
    given = tuple(cast("Sequence[Event]", events))
    promise = given[0] if len(given) == 1 and isinstance(given[0], Pure | Approximate) else None
    return Charge(given, promise)


def charge_to(budget: TotalBudget, cost: object) -> Charge:
    """Return the charge for a cost to those whom a budget protects, or refuse it.

    Events by themselves are those of the budget's own neighbours. A release for one unit added or
    removed costs a budget for one replaced twice: a replacement does both.
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
    if cost.adjacency == RELATIONS[budget.neighbours]:
        return charge
    if budget.neighbours == REPLACE:
        promise = charge.promise and cast("Pure | Approximate", _twice(charge.promise))
        events = tuple(_twice(event) for event in charge.events)
        return replace(charge, events=events, promise=promise, converted=True)
    raise PrivacyConditionError(
        f"neighbours of the release must be {budget.neighbours!r}, as the budget of dataset "
        f"{budget.dataset!r} promises, got {cost.adjacency!r}: what is promised for replacing says "
        "nothing of data that has one unit more. Release with neighbours='add-remove', or open "
        "another dataset with neighbours='replace'. Nothing was charged, so nothing may be "
        "released."
    )


def _twice(event: Event) -> Event:
    # proof: step 24
    if isinstance(event, TotalVariation):
        return event  # it holds for every dataset
    if not isinstance(event, Approximate):
        return for_group(event, 2)
    delta = (1 + _largest_factor(event.epsilon)) * event.delta * (1 + LAST_PLACES)
    if delta >= 1:
        raise PrivacyConditionError(
            f"delta must be so small that a replacement is private, got {event.delta!r} at epsilon "
            f"{event.epsilon!r} for one unit added or removed: promise less. Nothing was charged."
        )
    return Approximate(2 * event.epsilon, delta)


def _largest_factor(epsilon: float) -> float:
    """Return e^epsilon, the most that a probability changes by, without overflow."""
    return math.exp(min(epsilon, 700.0))


def _charge_guarantee(guarantee: Guarantee) -> Charge:
    """Charge what ran where the events say so, and the promise where they do not.

    `Approximate` events state a target: what rounding the moments adds (docs/proofs/multiscale.md,
    step 8) only the promise covers. What is pure throughout is a promise, too.
    """
    epsilon, delta, events = guarantee.epsilon, guarantee.delta, guarantee.events
    promise = Approximate(epsilon, delta) if delta else Pure(epsilon)
    kinds = {type(event) for event in events}
    if Approximate in kinds or kinds <= {Pure}:
        return Charge((promise,), promise, guarantee.private)
    if guarantee.numerical_delta:
        # proof: step 6
        # It is (1 + e^epsilon) times a distance. Deltas would not do: together with other
        # releases the same distance costs more, because the total epsilon is larger.
        distance = guarantee.numerical_delta / (1 + _largest_factor(epsilon))
        events = (*events, TotalVariation(distance * (1 + 1e-12)))
    return Charge(events, promise, guarantee.private)


def _charge_body(
    label: str, charge: Charge, total: Bound, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return a charge as the ledger stores it, JSON-ready. Floats round-trip exactly."""
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


def _read_entry(entry: Entry) -> TotalBudget | Receipt:
    """Return the budget an entry sets, or the receipt of a charge."""
    try:
        body = json.loads(entry.body)
        if entry.kind == BUDGET:
            budget = TotalBudget(dataset=entry.dataset, time=entry.time, **body)
            check_choice("neighbours", budget.neighbours, tuple(RELATIONS))
            check_unit(budget.unit)
            return budget
        if entry.kind != CHARGE:
            raise LookupError(entry.kind)
        promise = body["promise"] and cast("Pure | Approximate", event_from_dict(body["promise"]))
        charge = Charge(
            tuple(event_from_dict(event) for event in body["events"]),
            promise,
            *(body[name] for name in ("private", "converted", "whole")),
        )
        about = (entry.id, entry.dataset, entry.time, body["label"])
        return Receipt(*about, charge, Bound(**body["total"]), body["versions"], entry.digest)
    except (LookupError, TypeError, ValueError) as error:
        # Its digest was right, so it is what somebody wrote.
        raise LedgerError(
            f"entry {entry.id} of the ledger cannot be read by hushcov {__version__}: use the "
            f"version that wrote it. Nothing was charged. ({type(error).__name__}: {error})"
        ) from error


def total(charges: Sequence[Charge], budget: TotalBudget) -> Bound:
    """Return what all charges cost together; epsilon is inf where nothing bounds them.

    The first charge was made before anything was released. It may take the budget whole, and it
    decides how later ones, whose costs may depend on results, are counted.
    """
    if not charges:
        return Bound(0.0, 0.0, "none")
    # proof: step 24
    if adds_promises(charges, budget):
        epsilon, deltas = promised(charges, budget)
        fits = deltas <= budget.delta * (1 + LAST_PLACES)
        return Bound(epsilon if fits else math.inf, budget.delta, "basic")
    events = tuple(event for charge in charges for event in charge.events)
    found = [spent_adaptively(events, budget.epsilon, budget.delta)]
    if len(charges) == 1:
        promise = charges[0].promise
        for reading in (events,) if promise is None else (events, (promise,)):
            with suppress(PrivacyConditionError):
                found.append(compose(reading, delta=budget.delta))
    return min(found, key=lambda bound: bound.epsilon)


def within(bound: Bound, budget: TotalBudget) -> bool:
    """Return whether a bound at the budget's delta is inside the budget."""
    return bound.epsilon <= budget.epsilon * (1 + LAST_PLACES)


def adds_promises(charges: Sequence[Charge], budget: TotalBudget) -> bool:
    """Return whether epsilons and deltas are added up, which leaves no delta for noise.

    They are if the first charge is a promise with a delta, or the first part of a release that is
    to take most of the budget: nobody can tell how much of the total later promises will need.
    """
    first = charges[0]
    if 2 * first.whole > budget.epsilon:
        return True
    return isinstance(first.promise, Approximate) and first.events == (first.promise,)


def promised(charges: Sequence[Charge], budget: TotalBudget) -> tuple[float, float]:
    """Return the sums of the epsilons and deltas of charges."""
    spent: list[Approximate | Pure | Bound] = []
    for charge in charges:
        if charge.promise is not None:
            spent.append(charge.promise)
            continue
        try:
            spent.append(compose(charge.events, delta=_UNPROMISED * budget.delta))
        except PrivacyConditionError:
            spent.append(Bound(math.inf, budget.delta, "none"))
    deltas = (0.0 if isinstance(each, Pure) else each.delta for each in spent)
    return math.fsum(each.epsilon for each in spent), math.fsum(deltas)


class OverBudgetError(BudgetError):
    """All charges of a dataset together would pass its budget: the last one was not made."""

    def __init__(self, statement: Statement, refused: Charge, after: Bound) -> None:
        budget = statement.budget
        super().__init__(
            f"dataset {budget.dataset!r} has a total budget of epsilon {number(budget.epsilon)} "
            f"and delta {number(budget.delta)}, which this release does not fit. It was not "
            "charged, so it may not be made."
        )
        self.statement, self.refused, self.after = statement, refused, after


@dataclass(frozen=True)
class Statement:
    """The budgets and charges of one dataset, read at one moment."""

    promises: tuple[TotalBudget, ...]  # the budgets set so far; the last one counts
    receipts: tuple[Receipt, ...]

    @property
    def budget(self) -> TotalBudget:
        """The total budget that counts."""
        return self.promises[-1]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges of the receipts."""
        return tuple(receipt.charge for receipt in self.receipts)

    def spent(self) -> Bound:
        """Return what all charges cost together, at the budget's delta."""
        return total(self.charges, self.budget)


class LedgerFile:
    """Budgets of datasets, and everything charged to them, in one SQLite file.

    `hushcov.Ledger` is this with what people ask of it.

    Privacy
    -------
    A charge is on the disk when `charge` returns, so that a crash between charge and release loses
    budget, never privacy. All charges, by any number of processes and threads, compose to at most
    the dataset's (epsilon, delta) for the neighbours it was opened for, also where what a release
    costs was chosen in the light of earlier ones: `docs/proofs/accounting.md`, steps 19 to 25.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 60.0) -> None:
        if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
            raise ParameterError(
                f"path must be the path of a file, got {shown(path)}: pass a str or a Path."
            )
        self.named = os.fspath(path)  # in messages; the file stays where it is
        self.path = Path(path).absolute()
        cure = "it is how many seconds to wait for other processes."
        self.timeout = check_real("timeout", timeout, above=0, at_most=1e6, cure=cure)
        self._store = Store(self.path, self.timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def open_dataset(
        self, name: str, epsilon: float, delta: float, neighbours: str = REPLACE, unit: str = RECORD
    ) -> TotalBudget:
        """Set the total budget of a dataset, once; the same budget again changes nothing.

        `delta` may be 0 where every release is pure. `neighbours` ("replace" or "add-remove") says
        what happens to a `unit`. The file is created if it is not there.
        """
        asked = _check_budget(name, epsilon, delta, neighbours, unit)
        with self._store.writing(create=True) as book:
            promises = _statement(book, name).promises
            if not promises:
                return _promise(book, asked)
            budget = promises[-1]
            if (budget.epsilon, budget.delta) != (asked.epsilon, asked.delta):
                raise ParameterError(
                    f"the budget of dataset {name!r} must stay epsilon {budget.epsilon!r} and "
                    f"delta {budget.delta!r}, as promised before, got {asked.epsilon!r} and "
                    f"{asked.delta!r}: leave it, or make a new promise with change_budget or "
                    "'hushcov ledger change'."
                )
            if (budget.neighbours, budget.unit) != (asked.neighbours, asked.unit):
                raise ParameterError(
                    f"the budget of dataset {name!r} must stay for {budget.change}, as promised "
                    f"before, got one for {asked.change}: open another dataset for it. The two "
                    "have budgets of their own, and what both cost together nobody counts."
                )
            return budget

    def change_budget(self, name: str, epsilon: float, delta: float) -> TotalBudget:
        """Promise another total from now on; the ledger keeps both. Refused below what is spent.

        Whom it protects stays. A larger total weakens what people were told before: it is theirs to
        decide.
        """
        # proof: step 25
        asked = _check_budget(name, epsilon, delta)
        with self._store.writing() as book:
            known = _known(book, name)
            asked = replace(asked, neighbours=known.budget.neighbours, unit=known.budget.unit)
            spent = total(known.charges, asked)
            if not within(spent, asked):
                raise BudgetError(
                    f"epsilon of dataset {name!r} must be at least {spent.epsilon:.6g} at delta "
                    f"{asked.delta!r}, which is spent already, got {asked.epsilon!r}: keep a "
                    "larger total. Nothing was changed."
                )
            return _promise(book, asked)

    def charge(
        self,
        dataset: str,
        cost: Guarantee | Event | Sequence[Event],
        *,
        label: str,
        whole: float = 0.0,
    ) -> Receipt:
        """Charge a release that is about to be made, or raise; see `hushcov.Ledger.charge`."""
        as_charge(cost)  # refused before the file is touched, if at all
        _check_name("label", label)
        attempt: Attempt | None = None
        with stated_charges():
            ledger_asked()
            with self._store.writing() as book:
                statement = _known(book, dataset)
                new = replace(charge_to(statement.budget, cost), whole=whole)
                after = total((*statement.charges, new), statement.budget)
                if within(after, statement.budget):
                    versions = {
                        "hushcov": __version__,
                        "python": platform.python_version(),
                        "sqlite": sqlite3.sqlite_version,
                    }
                    body = _charge_body(label, new, after, versions)
                    entry = book.append(CHARGE, dataset, body)
                    place = len(statement.receipts) + 1
                    receipt = replace(cast("Receipt", _read_entry(entry)), number=place)
                    attempt = begin(self, receipt)  # from here on it may get to the disk
            if attempt is not None:
                attempt.returned = True
                return receipt
        raise OverBudgetError(statement, new, after)

    def statement(self, dataset: str) -> Statement:
        """Return budgets and charges of a dataset as they are at one moment."""
        ledger_asked()
        with self._store.reading() as book:
            return _known(book, dataset)


def _statement(book: Book, dataset: str) -> Statement:
    mine = [_read_entry(entry) for entry in book.entries if entry.dataset == dataset]
    receipts = [entry for entry in mine if isinstance(entry, Receipt)]
    return Statement(
        promises=tuple(entry for entry in mine if isinstance(entry, TotalBudget)),
        receipts=tuple(replace(each, number=place) for place, each in enumerate(receipts, 1)),
    )


def _promise(book: Book, budget: TotalBudget) -> TotalBudget:
    body: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta}
    if (budget.neighbours, budget.unit) != (REPLACE, RECORD):
        body |= {"neighbours": budget.neighbours, "unit": budget.unit}
    entry = book.append(BUDGET, budget.dataset, body)
    return replace(budget, time=entry.time)


def _known(book: Book, dataset: str) -> Statement:
    statement = _statement(book, dataset)
    if not statement.promises:
        known = ", ".join(map(repr, book.datasets())) or "none"
        raise ParameterError(
            f"dataset must be one of this ledger's ({known}), got {dataset!r}: open it first with "
            "open_dataset or 'hushcov ledger init'. Nothing was charged."
        )
    return statement


def _check_budget(
    name: str, epsilon: float, delta: float, neighbours: str = REPLACE, unit: str = RECORD
) -> TotalBudget:
    _check_name("dataset", name)
    check_choice("neighbours", neighbours, tuple(RELATIONS))
    check_unit(unit)
    epsilon = check_real("epsilon", epsilon, above=0, cure="it is the total budget, a real number.")
    delta = check_real(
        "delta",
        delta,
        above=_SMALLEST_DELTA,
        at_most=_LARGEST_DELTA,
        or_zero=True,
        cure="choose it well below 1 / records; 0 is allowed where every release is pure.",
    )
    return TotalBudget(name, epsilon, delta, neighbours=neighbours, unit=unit)


def _check_name(what: str, name: object) -> None:
    printable = isinstance(name, str) and name.isprintable() and name.strip() == name
    if not (printable and 0 < len(str(name)) <= _LONGEST_NAME):
        raise ParameterError(
            f"{what} must be 1 to {_LONGEST_NAME} printable characters without blanks at its "
            f"ends, got {name!r}: choose a short name."
        )
