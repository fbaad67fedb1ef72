"""The file of a ledger: entries that are only ever appended, in SQLite.

Every entry carries a digest of itself and of the entry before, so that a file which lost or
changed an entry is refused instead of forgetting what was spent.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hushcov.exceptions import LedgerError

#: Written and read.
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
# SQLite's primary result codes, and what to tell the user.
_REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another program: wait for it, or end it",
    sqlite3.SQLITE_LOCKED: "is locked by another program: wait for it, or end it",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full: free some space",
    sqlite3.SQLITE_READONLY: "cannot be written: check permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "cannot be written: check permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that its folder exists and its permissions",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk, and limits on file sizes",
}
_DAMAGED = "is damaged, or not a ledger: restore a copy that has every charge, or another path"

# SQLite must not be carried over a fork while a connection is open: a fork waits for the calls
# that other threads have under way. Calls of one process take turns.
_NO_FORK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK.acquire,
        after_in_parent=_NO_FORK.release,
        after_in_child=_NO_FORK.release,
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
        self._check()

    def append(self, kind: str, dataset: str, body: str) -> Entry:
        """Add an entry at the end; it is kept if the transaction is."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        draft = Entry(len(self.entries) + 1, kind, dataset, time, body, "")
        entry = Entry(*_fields(draft)[:-1], draft.sealed_after(self._last_digest()))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", _fields(entry))
        self.entries.append(entry)
        if self._stored() != self.entries:
            raise sqlite3.DatabaseError("the file does not keep what is written")
        return entry

    def _stored(self) -> list[Entry]:
        rows = self._connection.execute(
            "SELECT id, kind, dataset, time, body, digest FROM entries ORDER BY id"
        )
        return [Entry(*row) for row in rows]

    def _last_digest(self) -> str:
        return self.entries[-1].digest if self.entries else ""

    def _check(self) -> None:
        # SQLite keeps the last id apart from the table, so that a lost end is noticed too.
        last = self._connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
        ).fetchone()
        sound = len(self.entries) == (last[0] if last else 0)
        previous = ""
        for place, entry in enumerate(self.entries, start=1):
            sound = sound and entry.id == place and entry.digest == entry.sealed_after(previous)
            previous = entry.digest
        if not sound:
            raise sqlite3.DatabaseError("an entry was lost or changed")


class Store:
    """Opens the file for one transaction at a time, so that processes and threads can share it.

    `path` must be absolute: the ledger stays the same when the working folder changes.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self._timeout = timeout

    @contextmanager
    def reading(self) -> Iterator[Book]:
        """One consistent view of the entries."""
        with self._connection("rw") as connection:
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield Book(connection)

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Book]:
        """Sole access to the entries; what is appended is on the disk when this ends, or gone.

        An exception inside, or death of the process, leaves the file as it was.
        """
        with self._connection("rwc" if create else "rw") as connection:
            # At once, before anything is read: no other process can charge in between.
            connection.execute("BEGIN IMMEDIATE")
            if create and self._is_empty(connection):
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
            raise LedgerError(f"the ledger {self.path} {_reason(error)}. ({error})") from error

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open the file; closing it takes back what has not been committed."""
        self._check_path(mode)
        with _NO_FORK, self._typed_errors():
            address = f"{self.path.as_uri()}?mode={mode}"
            with closing(
                sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
            ) as connection:
                # A rollback journal keeps everything in one file between calls. EXTRA waits for
                # the disk, also for the journal's removal, which is the moment of commit: a
                # charge that was answered survives a power failure.
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")
                yield connection

    def _check_path(self, mode: str) -> None:
        if os.path.isdir(self.path):
            raise LedgerError(
                f"path must be a file, got the folder {self.path}: name a file in it."
            )
        if mode == "rw" and not os.path.exists(self.path):
            raise LedgerError(
                f"the ledger {self.path} is not there: check the path, or create it with "
                "'hushcov ledger init' (Ledger.open_dataset). Nothing was charged."
            )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        application, version = _header(connection, "application_id", "user_version")
        if application != _APPLICATION_ID:
            what = "is empty" if self._is_empty(connection) else "belongs to another program"
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

    @staticmethod
    def _is_empty(connection: sqlite3.Connection) -> bool:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return bool(tables == 0) and _header(connection, "application_id", "user_version") == [0, 0]

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.path} {_reason(error)}. Nothing was charged. (SQLite: {error})"
            ) from error


def _reason(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return _REASONS.get(code & 0xFF, _DAMAGED)


def _fields(entry: Entry) -> tuple[int, str, str, str, str, str]:
    return entry.id, entry.kind, entry.dataset, entry.time, entry.body, entry.digest


def _header(connection: sqlite3.Connection, *names: str) -> list[int]:
    return [int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]
