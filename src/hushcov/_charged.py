"""Notes on charges to a ledger, for fits and commands that end before they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from hushcov._words import number
from hushcov.exceptions import HushcovError

NOTHING_CHARGED = "Nothing was charged."
NOTHING_RELEASED = "No estimate was released."


@dataclass
class Attempt:
    """A charge that was begun; that it is on the disk is certain once `returned`."""

    ledger: Any
    receipt: Any
    returned: bool = False

    def words(self) -> str:
        """Return what became of it; the file is asked if something came in between."""
        receipt, verb = self.receipt, "was charged"
        if not self.returned:
            try:
                receipts = self.ledger.statement(receipt.dataset).receipts
                stored = [each.digest for each in receipts]
            except HushcovError:
                verb = f"may have been charged (see 'hushcov ledger show {self.ledger.named}')"
            else:
                if receipt.digest not in stored:
                    return ""
        cost, promise = "what its events cost", receipt.charge.promise
        if promise is not None:
            delta = number(getattr(promise, "delta", 0.0))
            cost = f"epsilon {number(promise.epsilon)} and delta {delta}"
        return (
            f"Dataset {receipt.dataset!r} in the ledger {self.ledger.named} {verb} {cost} before "
            f"any record was read, as release {receipt.number}: that stands."
        )


@dataclass
class _Watch:
    attempts: list[Attempt] = field(default_factory=list)
    asked: bool = False
    watched: bool = False  # whether the caller says what was released
    released: str = ""

    def note(self, error: BaseException) -> str:
        """Return what to add to an error."""
        words = [each for each in (attempt.words() for attempt in self.attempts) if each]
        if words or self.released:
            missing = NOTHING_RELEASED if self.watched else ""
            return " ".join((*words, self.released or missing)).strip()
        unsaid = self.asked and "charged" not in str(error)
        return NOTHING_CHARGED if self.attempts or unsaid else ""


_WATCH: ContextVar[_Watch | None] = ContextVar("charges", default=None)


@contextmanager
def stated_charges(released: Callable[[], str] | None = None) -> Iterator[None]:
    """Add a note to every error inside: what was charged, and where the release is.

    `released` returns a sentence about a release that was made before the error, or nothing.
    An interrupt may come in the middle of a charge, or right after it: then the ledger is asked.
    Of nested contexts, only the outermost adds a note.
    """
    outer = _WATCH.get()
    watch = outer or _Watch()
    try:  # from before it is set: an interrupt leaves nothing that would silence later ones
        _WATCH.set(watch)
        yield
        _WATCH.set(outer)
    except BaseException as error:
        _WATCH.set(outer)
        if released is not None:
            watch.watched, watch.released = True, released()
        note = "" if outer else watch.note(error)
        if note:
            error.add_note(note)
        raise


def begin(ledger: Any, receipt: Any) -> Attempt:
    """Say that a charge may be on the disk from now on; inside `stated_charges`."""
    watch, attempt = _WATCH.get(), Attempt(ledger, receipt)
    assert watch is not None
    watch.attempts.append(attempt)
    return attempt


def ledger_asked() -> None:
    """Say that a ledger is in use, so that errors say that nothing was charged."""
    watch = _WATCH.get()
    if watch is not None:
        watch.asked = True


def charge_begun() -> bool:
    """Return whether `stated_charges` has a charge to speak of."""
    watch = _WATCH.get()
    return watch is not None and bool(watch.attempts)


def database_words(error: Exception) -> str:
    """Return what SQLite says about a ledger, and the cure, for the end of a sentence."""
    import sqlite3

    locked = "is locked by another program: wait for it, or end it"
    forbidden = "cannot be written: check permissions of the file and its folder"
    missing = "cannot be opened: check that its folder exists and its permissions"
    failing = "cannot be read or written: check the disk, and limits on file sizes"
    damaged = "is damaged, or not a ledger: restore a copy that has every charge, or another path"
    reasons = {
        sqlite3.SQLITE_BUSY: locked,
        sqlite3.SQLITE_LOCKED: locked,
        sqlite3.SQLITE_FULL: "cannot grow, the disk is full: free some space",
        sqlite3.SQLITE_READONLY: forbidden,
        sqlite3.SQLITE_PERM: forbidden,
        sqlite3.SQLITE_CANTOPEN: missing,
        sqlite3.SQLITE_IOERR: failing,
    }
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return reasons.get(code & 0xFF, damaged)  # of a primary result code
