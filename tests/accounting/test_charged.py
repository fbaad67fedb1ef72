"""Whatever ends a charge, or what comes after it, says what the ledger holds."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from hushcov import GaussianCovariance
from hushcov.exceptions import LedgerError
from hushcov.kernel.accounting import Approximate, Gaussian
from hushcov.kernel.accounting.ledger import Store
from hushcov.ledger import Ledger

X = np.random.default_rng(0).normal(size=(4_000, 3))
FIT = {"epsilon": 0.5, "delta": 1e-6, "dataset": "people"}


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "budget.db")
    made.open_dataset("people", 4.0, 1e-4)
    return made


@pytest.fixture
def commit(monkeypatch):
    """Let something happen before or after the moment at which a charge gets to the disk."""
    real = Store._commit

    def install(before=lambda: None, after=lambda: None):
        def patched(self, connection):
            before()
            real(self, connection)
            after()

        monkeypatch.setattr(Store, "_commit", patched)

    return install


def interrupt():
    raise KeyboardInterrupt


def charged(ledger, cost="epsilon 0.5 and delta 1e-6"):
    return (
        f"Dataset 'people' in the ledger {ledger.path} was charged {cost} before any record was "
        "read, as release 1: that stands."
    )


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (Approximate(0.5, 1e-6), "epsilon 0.5 and delta 1e-6"),
        (Gaussian(0.1), "what its events cost"),
    ],
)
def test_an_interrupt_right_after_the_commit_says_what_is_stored(ledger, commit, cost, words):
    commit(after=interrupt)
    with pytest.raises(KeyboardInterrupt) as info:
        ledger.charge("people", cost, label="a release")
    assert len(ledger.history("people")) == 1
    assert info.value.__notes__ == [charged(ledger, words)]


def test_an_interrupt_right_before_the_commit_says_that_nothing_is(ledger, commit):
    commit(before=interrupt)
    with pytest.raises(KeyboardInterrupt) as info:
        ledger.charge("people", Gaussian(0.1), label="a release")
    assert ledger.history("people") == ()
    assert info.value.__notes__ == ["Nothing was charged."]


def test_a_ledger_that_cannot_be_asked_any_more(ledger, commit):
    def lost():
        ledger.path.unlink()
        raise KeyboardInterrupt

    commit(after=lost)
    with pytest.raises(KeyboardInterrupt) as info:
        ledger.charge("people", Gaussian(0.1), label="a release")
    (note,) = info.value.__notes__
    assert "may have been charged (see 'hushcov ledger show" in note


@pytest.mark.parametrize("stored", [True, False])
def test_a_commit_that_fails_does_not_claim_to_know(ledger, monkeypatch, stored):
    real = sqlite3.connect

    class Failing(sqlite3.Connection):
        def execute(self, sql, *args):
            if sql == "COMMIT":
                super().execute("COMMIT" if stored else "ROLLBACK")
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *args)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=Failing))
    with pytest.raises(LedgerError) as info:
        ledger.charge("people", Approximate(0.5, 1e-6), label="a release")
    assert "Nothing was charged" not in str(info.value)
    assert len(ledger.history("people")) == stored
    assert info.value.__notes__ == [charged(ledger) if stored else "Nothing was charged."]


def test_a_fit_interrupted_in_the_commit_says_what_is_stored(ledger, commit):
    commit(after=interrupt)
    with pytest.raises(KeyboardInterrupt) as info:
        GaussianCovariance(**FIT, ledger=ledger).fit(X)
    assert info.value.__notes__ == [f"{charged(ledger)} No estimate was released."]


def test_a_fit_interrupted_after_its_release_says_what_is_stored(ledger):
    class Late(GaussianCovariance):
        def _run(self, *args):
            super()._run(*args)
            raise KeyboardInterrupt

    estimator = Late(**FIT, ledger=ledger)
    with pytest.raises(KeyboardInterrupt) as info:
        estimator.fit(X)
    kept = "The release was made and is kept: write it with release_.write(folder)."
    assert info.value.__notes__ == [f"{charged(ledger)} {kept}"]
    assert estimator.covariance_.shape == (X.shape[1], X.shape[1])


def added(ledger, sql):
    connection = sqlite3.connect(ledger.path)
    connection.execute(sql)
    connection.commit()
    connection.close()


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE id > 1; END"


@pytest.mark.parametrize(
    "sql",
    [TRIGGER, "CREATE VIEW v AS SELECT 1", "CREATE TABLE x (a)", "CREATE INDEX i ON entries (id)"],
)
def test_what_was_added_to_a_ledger_is_refused(ledger, sql):
    added(ledger, sql)
    for use in (ledger.datasets, lambda: ledger.charge("people", Gaussian(0.1), label="a")):
        with pytest.raises(LedgerError, match=r"a ledger as hushcov makes it.*Nothing was charged"):
            use()


def test_statistics_of_the_database_are_not(ledger):
    added(ledger, "ANALYZE")
    assert ledger.datasets() == ("people",)


def test_a_charge_that_is_not_kept_is_refused(ledger, monkeypatch):
    added(ledger, TRIGGER)
    monkeypatch.setattr(Store, "_check_schema", lambda *_: None)
    with pytest.raises(LedgerError, match="does not keep what is written"):
        ledger.charge("people", Gaussian(0.1), label="a release")
