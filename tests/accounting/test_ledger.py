"""The ledger: what is charged, what is refused, and what a file in any state does not lose."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from command_line import PATIENCE
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import BudgetError, LedgerError, ParameterError, PrivacyConditionError
from hushcov.kernel.accounting import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    OneShotLaplace,
    Pure,
    TotalVariation,
    compose,
)
from hushcov.kernel.accounting.composition import SLACK, spent_adaptively
from hushcov.kernel.accounting.ledger import as_charge
from hushcov.ledger import Ledger, Remaining
from statistics_helpers import short_and_long

DELTA = 1e-6
EVENTS = (
    *(Gaussian(0.1 + 2.0**-54), DiscreteGaussian(1 / 30), BoundedRange(1e-3 / 3, 41)),
    *(OneShotLaplace(1.0, 1000.0, 3, 100, 1e-9), Pure(math.pi / 100), Approximate(0.01, 5e-324)),
    TotalVariation(1e-300 / 7),
)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "budget.db", timeout=10)
    ledger.open_dataset("people", 1.0, DELTA)
    return ledger


def guarantee(*events, epsilon=1.0, delta=DELTA, numerical_delta=0.0, private=True):
    known = {"transcript_epsilon": 0.0, "transcript_delta": 0.0, "method": "test"}
    known |= {"numerical_delta": numerical_delta, "preconditions": (), "private": private}
    return Guarantee(epsilon=epsilon, delta=delta, events=events, **known)


# What is charged.


def test_charges_cost_what_the_filter_says(ledger):
    ledger.open_dataset("others", 1.0, DELTA)
    past = []
    for events in ((Gaussian(0.05), BoundedRange(0.01, 20)), (Gaussian(0.1),), (Pure(0.02),)):
        receipt = ledger.charge("people", events, label="a release")
        past += events
        assert receipt.total == ledger.spent("people")
        if past == list(events):  # the first one: nobody had seen a result
            assert receipt.total == compose(past, delta=DELTA)
        else:
            assert receipt.total == spent_adaptively(past, 1.0, DELTA)
    assert ledger.spent("others").epsilon == 0


def test_a_first_promise_with_a_delta_makes_all_later_ones_add_up(ledger):
    # By its events alone, without their theorem, this release costs more than it promises.
    loose = guarantee(Gaussian(0.3), epsilon=0.25, delta=DELTA / 4)
    assert compose(loose.events, delta=DELTA).epsilon > 1
    ledger.charge("people", Approximate(0.25, DELTA / 4), label="first")
    assert ledger.remaining("people") == Remaining(0.75, 0.75, pytest.approx(0.75 * DELTA, abs=0))
    assert ledger.charge("people", loose, label="second").total.epsilon == 0.5
    # Noise that promises nothing is read at an eighth of delta.
    mu = calibrate_gaussian(0.25, DELTA / 8)
    assert ledger.charge("people", Gaussian(mu), label="third").total.epsilon <= 0.75
    assert ledger.remaining("people").delta == pytest.approx(3 / 8 * DELTA, abs=0)
    with pytest.raises(BudgetError, match="does not fit"):
        ledger.charge("people", Approximate(0.01, DELTA / 2), label="too much delta")


def test_noise_first_keeps_delta_for_noise(ledger):
    ledger.charge("people", Gaussian(0.01), label="first")
    with pytest.raises(BudgetError):
        ledger.charge("people", Approximate(0.01, DELTA / 2), label="a promise")
    ledger.charge("people", Approximate(0.01, DELTA / 8), label="a smaller one")


def test_the_first_charge_may_take_all_and_then_nothing_fits(ledger):
    ledger.charge("people", guarantee(Approximate(1.0, DELTA)), label="all")
    for cost in (Pure(1e-9), Gaussian(1e-9), Approximate(1e-9, 1e-15)):
        with pytest.raises(BudgetError, match="Nothing is left"):
            ledger.charge("people", cost, label="more")


def test_slack_is_priced_at_the_epsilon_of_the_budget(ledger):
    one = guarantee(Gaussian(0.05), epsilon=0.2, numerical_delta=DELTA / 100)
    distance = DELTA / 100 / (1 + math.exp(0.2))
    fits = math.floor(SLACK * DELTA / ((1 + math.e) * distance))
    for _ in range(fits):
        ledger.charge("people", one, label="release")
    with pytest.raises(BudgetError, match="does not fit"):
        ledger.charge("people", one, label="no room for slack")
    assert ledger.charge("people", one.events, label="without").total.epsilon < 1


def test_a_guarantee_of_black_boxes_is_charged_as_promised():
    """The events of the paper's theorem leave rounding out; see docs/proofs/multiscale.md."""
    theorem = guarantee(*[Approximate(0.01, 1e-9)] * 12, Approximate(0.25, 1e-7))
    assert as_charge(theorem).events == (Approximate(1.0, DELTA),)
    assert as_charge(guarantee(epsilon=0.5, delta=0.0)).events == (Pure(0.5),)


def test_seeded_releases_are_charged_too_and_marked(ledger):
    receipt = ledger.charge("people", guarantee(Gaussian(0.05), private=False), label="seeded")
    assert receipt.charge.private is False
    assert ledger.history("people")[0].charge.private is False
    assert ledger.spent("people").epsilon > 0


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_read_back_exactly(ledger, event):
    ledger.open_dataset("large", 1e3, 0.1)
    ledger.charge("large", [event, Gaussian(0.1)], label="exact")
    assert ledger.history("large")[0].charge.events == (event, Gaussian(0.1))


def test_receipts_are_what_history_has(ledger):
    first = ledger.charge("people", Gaussian(0.01), label="first")
    second = ledger.charge("people", guarantee(Gaussian(0.1)), label="zweite, größere")
    assert ledger.history("people") == (first, second)
    assert (first.id, second.id) == (2, 3)  # after the budget itself
    assert first.time <= second.time
    assert set(first.versions) == {"hushcov", "python", "sqlite"}
    plain = json.loads(json.dumps(second.to_dict()))
    assert plain["events"] == [{"type": "Gaussian", "mu": 0.1}]
    assert plain["promise"] == {"type": "Approximate", "epsilon": 1.0, "delta": DELTA}


def test_another_object_and_another_folder_see_the_same_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Ledger("a ledger?#%.db")
    here.open_dataset("people", 1.0, DELTA)
    monkeypatch.chdir("/")
    here.charge("people", Gaussian(0.1), label="from elsewhere")
    copy = pickle.loads(pickle.dumps(here))
    assert Ledger(tmp_path / "a ledger?#%.db").history("people") == copy.history("people")
    assert len(copy.history("people")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a ledger?#%.db"]


# What is refused.


def test_the_limit_is_exact(ledger):
    mu = calibrate_gaussian(1.0, DELTA)
    with pytest.raises(BudgetError):
        ledger.charge("people", Gaussian(mu * (1 + 1e-9)), label="too much")
    ledger.charge("people", Gaussian(mu), label="all of it")
    with pytest.raises(BudgetError) as refusal:
        ledger.charge("people", Gaussian(1e-6), label="a little more")
    assert refusal.value.remaining < 1e-4
    assert len(ledger.history("people")) == 1


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 3), (0.1, 10), (0.7, 7), (1e-3, 30)])
def test_decimals_add_up_to_their_sum(tmp_path, epsilon, count):
    """0.1 + 0.1 + 0.1 is 0.3 to a reader, and a unit in the last place more to doubles."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", float(f"{epsilon * count:.10g}"), 0.0)
    for _ in range(count):
        ledger.charge("people", Pure(epsilon), label="a part")
    with pytest.raises(BudgetError):
        ledger.charge("people", Pure(1e-12), label="too much")


def test_deltas_add_up_to_their_sum(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", 1.0, 2e-7)
    for _ in range(2):
        ledger.charge("people", Approximate(0.1, 1e-7), label="a part")
    with pytest.raises(BudgetError, match=r"epsilon up to 0\.8"):
        ledger.charge("people", Approximate(0.1, 1e-18), label="too much")
    ledger.charge("people", Pure(0.8), label="the rest")
    with pytest.raises(BudgetError, match="Nothing is left"):
        ledger.charge("people", Pure(0.1), label="too much")


def test_a_refusal_says_what_fits_and_that_fits(ledger):
    ledger.charge("people", [Gaussian(0.1), BoundedRange(0.01, 50)], label="first")
    with pytest.raises(BudgetError, match=r"would be 5\.101") as refusal:
        ledger.charge("people", Gaussian(1.0), label="too much")
    assert isinstance(refusal.value, PrivacyConditionError)
    left = refusal.value.remaining
    assert left == ledger.remaining("people").epsilon
    assert f"of epsilon {float(f'{left:.4g}'):g}"[:-2] in str(refusal.value)
    with pytest.raises(BudgetError):
        ledger.charge("people", Gaussian(calibrate_gaussian(left * 1.001, DELTA)), label="more")
    ledger.charge("people", Gaussian(calibrate_gaussian(left, DELTA)), label="what was left")
    assert len(ledger.history("people")) == 2
    assert pickle.loads(pickle.dumps(refusal.value)).remaining == left


def test_a_release_that_nothing_bounds_is_refused(ledger):
    for cost in (Gaussian(1e60), TotalVariation(0.6), Approximate(0.1, 1e-3)):
        with pytest.raises(BudgetError, match="does not fit"):
            ledger.charge("people", cost, label="boundless")
    assert ledger.history("people") == ()


def test_a_budget_is_promised_once(ledger):
    first = ledger.open_dataset("people", 1.0, DELTA)
    assert (first.epsilon, first.delta) == (1.0, DELTA)
    for epsilon, delta in ((2.0, DELTA), (0.5, DELTA), (1.0, 1e-5)):
        with pytest.raises(ParameterError, match=r"epsilon 1\.0 .*change_budget"):
            ledger.open_dataset("people", epsilon, delta)
    assert len(ledger.statement("people").promises) == 1


def test_a_new_promise_is_explicit_and_covers_what_is_spent(ledger):
    ledger.charge("people", Gaussian(0.2), label="most of it")
    with pytest.raises(BudgetError):
        ledger.charge("people", Gaussian(0.2), label="again")
    with pytest.raises(BudgetError, match=r"0\.834.*, got 0\.5"):
        ledger.change_budget("people", 0.5, DELTA)
    with pytest.raises(BudgetError, match="spent already"):
        ledger.change_budget("people", 1.0, 1e-9)
    ledger.change_budget("people", 2.0, DELTA)
    ledger.charge("people", Gaussian(0.2), label="again")
    assert [each.epsilon for each in ledger.statement("people").promises] == [1.0, 2.0]
    assert ledger.statement("people").budget.epsilon == 2.0
    with pytest.raises(ParameterError, match="dataset must"):
        ledger.change_budget("nobody", 2.0, DELTA)


@pytest.mark.parametrize(
    ("cost", "label", "message"),
    [
        *(((), "x", "cost must be"), ("Gaussian", "x", "cost must be .* got str")),
        ([Gaussian(0.1), 0.1], "x", "cost must be .* got list"),
        *((0.1, "x", "cost must be .* got float"), (Gaussian(0.1), "", "label must be")),
        *((Gaussian(0.1), " x", "label must be"), (Gaussian(0.1), "two\nlines", "label must be")),
        *((Gaussian(0.1), "x" * 201, "label must be"), (Gaussian(0.1), None, "label must be")),
    ],
)
def test_bad_charges(ledger, cost, label, message):
    with pytest.raises(ParameterError, match=message):
        ledger.charge("people", cost, label=label)
    assert ledger.history("people") == ()


@pytest.mark.parametrize(
    ("name", "epsilon", "delta", "message"),
    [
        *(("", 1.0, DELTA, "dataset must be"), (7, 1.0, DELTA, "dataset must be")),
        ("x", 0.0, DELTA, "epsilon must be above 0"),
        ("x", math.inf, DELTA, "epsilon must be above 0"),
        ("x", True, DELTA, "epsilon must be a real number"),
        ("x", None, DELTA, "epsilon is required"),
        ("x", 1.0, 0.2, "delta must be above 1e-300 and at most 0.1"),
        ("x", 1.0, -DELTA, "delta must be above 1e-300"),
        *(("x", 1.0, False, "delta must be a real number"), ("x", 1.0, None, "delta is required")),
    ],
)
def test_bad_budgets(tmp_path, name, epsilon, delta, message):
    with pytest.raises(ParameterError, match=message):
        Ledger(tmp_path / "budget.db").open_dataset(name, epsilon, delta)
    assert list(tmp_path.iterdir()) == []


# Files in a bad state.


def calls(ledger):
    return (
        lambda: ledger.charge("people", Gaussian(0.01), label="x"),
        lambda: ledger.spent("people"),
        ledger.datasets,
        lambda: ledger.open_dataset("more", 1.0, DELTA),
        lambda: ledger.change_budget("people", 3.0, DELTA),
    )


def refuse_all(ledger, message, *, reading=True):
    """Every call is answered by one typed error, and leaves the file as it is."""
    before = ledger.path.read_bytes()
    for call in calls(ledger) if reading else (calls(ledger)[0], *calls(ledger)[3:]):
        with pytest.raises(LedgerError, match=message) as error:
            call()
        assert isinstance(error.value, OSError)
    assert ledger.path.read_bytes() == before


def test_a_missing_dataset(ledger):
    for call in (ledger.spent, ledger.remaining, ledger.history):
        with pytest.raises(ParameterError, match=r"\('people'\), got 'nobody'"):
            call("nobody")
    with pytest.raises(ParameterError, match="got 'nobody'"):
        ledger.charge("nobody", Gaussian(0.01), label="x")
    assert ledger.datasets() == ("people",)


def test_a_missing_file_is_not_made_by_a_charge(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    for call in (*calls(ledger)[:3], calls(ledger)[4]):
        with pytest.raises(LedgerError, match="create it"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_and_a_missing_folder(tmp_path):
    for call in calls(Ledger(tmp_path)):
        with pytest.raises(LedgerError, match="path must be a file"):
            call()
    with pytest.raises(LedgerError, match="folder exists"):
        Ledger(tmp_path / "nowhere" / "budget.db").open_dataset("people", 1.0, DELTA)


@pytest.mark.parametrize("size", [2, 100, 4096, 100_000])
def test_random_bytes(tmp_path, size):
    path = tmp_path / "budget.db"
    path.write_bytes(random.Random(size).randbytes(size))
    refuse_all(Ledger(path), "is damaged, or not a ledger")


def test_an_empty_file_is_no_ledger_until_a_dataset_is_opened(tmp_path):
    path = tmp_path / "budget.db"
    path.touch()
    with pytest.raises(LedgerError, match="which is empty"):
        Ledger(path).charge("people", Gaussian(0.1), label="x")
    Ledger(path).open_dataset("people", 1.0, DELTA)
    Ledger(path).charge("people", Gaussian(0.1), label="x")


def test_a_truncated_file(ledger):
    for _ in range(20):
        ledger.charge("people", Gaussian(0.01), label="x")
    whole = ledger.path.read_bytes()
    assert len(whole) > 3 * 4096
    for size in (*range(512, len(whole), 1024), len(whole) - 1):
        ledger.path.write_bytes(whole[:size])
        refuse_all(ledger, "is damaged, or not a ledger")
    ledger.path.write_bytes(whole)
    assert len(ledger.history("people")) == 20


def test_a_flipped_bit_never_loses_a_charge(ledger):
    for _ in range(10):
        ledger.charge("people", Gaussian(0.01), label="x")
    whole, history = ledger.path.read_bytes(), ledger.history("people")
    noticed, rng = 0, random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        ledger.path.write_bytes(damaged)
        try:
            assert ledger.history("people") == history
        except LedgerError:
            noticed += 1
    assert noticed > 50  # the rest fell on bytes that hold nothing


@pytest.mark.parametrize(
    "statement",
    [
        *("DELETE FROM entries WHERE id = 4", "DELETE FROM entries WHERE id = 3"),
        "DELETE FROM entries",
        "UPDATE entries SET body = replace(body, '0.01', '0.001') WHERE id = 3",
        "UPDATE entries SET dataset = 'others' WHERE id = 3",
        "UPDATE entries SET body = x'00ff' WHERE id = 3",
        "UPDATE entries SET body = 7, digest = 7 WHERE id = 3",
        "UPDATE entries SET body = replace(body, '1.0', '9.0') WHERE id = 1",
        *("UPDATE entries SET id = 9 WHERE id = 4", "DELETE FROM sqlite_sequence"),
        "DROP TABLE entries",
    ],
)
def test_entries_changed_by_hand(ledger, statement):
    for _ in range(3):
        ledger.charge("people", Gaussian(0.01), label="x")
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(statement)
    refuse_all(ledger, "is damaged, or not a ledger")


def test_other_databases_and_other_versions(ledger, tmp_path):
    other = Ledger(tmp_path / "other.db")
    with closing(sqlite3.connect(other.path)) as connection, connection:
        connection.execute("CREATE TABLE entries (x)")
    refuse_all(other, "belongs to another program")
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA user_version = 3")
    refuse_all(ledger, "of schema version 2, got .* of version 3: use the hushcov that")
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA user_version = 1")
    refuse_all(ledger, "of schema version 2, got .* of version 1: use the hushcov that")


def test_an_entry_of_a_newer_version_is_not_ignored(ledger):
    other = {"epsilon": 9, "delta": 0.0, "neighbours": "swap"}
    for kind, body in (
        ("refund", {}),
        ("charge", {"events": [{"type": "New"}]}),
        ("budget", other),
    ):
        fresh = Ledger(ledger.path.with_name(f"{kind}.db"))
        fresh.open_dataset("people", 1.0, DELTA)
        with fresh._store.writing() as book:
            book.append(kind, "people", body)
        with pytest.raises(LedgerError, match="entry 2 "):
            fresh.charge("people", Gaussian(0.1), label="x")


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
def test_locked_for_ever(ledger, lock):
    hasty = Ledger(ledger.path, timeout=0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute(f"BEGIN {lock}")
        refuse_all(hasty, "is locked by another program", reading=lock == "EXCLUSIVE")
    assert hasty.history("people") == ()


@contextmanager
def not_root():
    """Permissions do not stop root: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX permissions")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only(what):
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    try:
        ledger = Ledger(folder / "budget.db")
        ledger.open_dataset("people", 1.0, DELTA)
        ledger.charge("people", Gaussian(0.01), label="x")
        folder.chmod(0o555)
        ledger.path.chmod(0o444 if what == "file" else 0o666)
        with not_root():
            refuse_all(ledger, "check", reading=False)
            assert len(ledger.history("people")) == 1
        folder.chmod(0o000)
        with not_root(), pytest.raises(LedgerError):
            ledger.charge("people", Gaussian(0.01), label="x")
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


FULL_DISK = """
import sys
from pathlib import Path
from hushcov.kernel.accounting import Gaussian
from hushcov.ledger import Ledger
from hushcov.exceptions import LedgerError

folder, how = Path(sys.argv[1]), sys.argv[2]
ledger = Ledger(folder / "budget.db")
ledger.open_dataset("people", 1.0, 1e-6)
for _ in range(5):
    ledger.charge("people", Gaussian(0.01), label="before")
if how == "disk":
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(512))
        except OSError:
            pass
else:
    import resource
    size = ledger.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
refused = made = 0
while refused < 3:
    try:
        ledger.charge("people", Gaussian(0.001), label="while full")
        made += 1
    except LedgerError as error:
        refused += 1
        assert ("disk is full" if how == "disk" else "check the disk") in str(error), error
    assert len(ledger.history("people")) == 5 + made
if how == "disk":
    (folder / "filler").unlink()
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.charge("people", Gaussian(0.001), label="after")
assert len(ledger.history("people")) == 5 + made + 1
print("refused", refused, "made", made)
"""


def test_no_room_for_the_file_to_grow(tmp_path):
    pytest.importorskip("resource")
    script = [sys.executable, "-c", FULL_DISK, str(tmp_path), "limit"]
    answer = subprocess.run(script, text=True, capture_output=True, timeout=PATIENCE, check=False)
    assert answer.stdout.startswith("refused 3"), answer.stderr


def test_a_full_disk(tmp_path):
    """On a real file system without room, in a namespace of its own that nobody else sees."""
    mount = f"mount -t tmpfs -o size=64k tmpfs '{tmp_path}'"
    probe = ["unshare", "--mount", "sh", "-c", mount]
    if not shutil.which("unshare") or subprocess.call(probe, stderr=subprocess.DEVNULL):
        pytest.skip("mounting a small disk is not permitted here")
    inside = f'{mount} && exec "$@"'
    script = [*probe[:-1], inside, "sh", sys.executable, "-c", FULL_DISK, str(tmp_path), "disk"]
    answer = subprocess.run(script, text=True, capture_output=True, timeout=PATIENCE, check=False)
    assert answer.stdout.startswith("refused 3"), answer.stderr


# Many at a time, and sudden death. A process that imports the ledger once forks all others.

MU = 0.01
ROOM = 40  # charges that fit a dataset
PRELUDE = f"""
import json, os, signal, sqlite3, sys, threading
from pathlib import Path
from hushcov.kernel.accounting import Gaussian
from hushcov.kernel.accounting.composition import spent_adaptively
from hushcov.ledger import Ledger
from hushcov.exceptions import BudgetError

cost = Gaussian({MU})
folder = Path(sys.argv[1])
ledger = Ledger(folder / "budget.db", timeout={PATIENCE})
log = os.open(folder / "released", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
budget = spent_adaptively([cost] * {ROOM}, 1.0, {DELTA}).epsilon

def fork(work):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child
"""
KILLS = """
def release(receipt):
    os.write(log, f"{receipt.id} {receipt.digest}\\n".encode())

def charge_for_ever():
    ledger.open_dataset("set 0", budget, 1e-6)
    number = len(ledger.datasets()) - 1
    while True:
        try:
            ledger.open_dataset(f"set {number}", budget, 1e-6)
            while True:
                if sys.argv[3] == "release first":
                    os.write(log, b"0 nothing\\n")
                receipt = ledger.charge(f"set {number}", cost, label=f"by {os.getpid()}")
                if sys.argv[3] == "charge first":
                    release(receipt)
        except BudgetError:
            number += 1

def die_after(statements):
    class Mortal(sqlite3.Connection):
        def execute(self, *sql):
            nonlocal statements
            done, statements = super().execute(*sql), statements - 1
            if statements == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **options: connect(*given, **options, factory=Mortal)
    charge_for_ever()

hot = 0
for together in (1, 4):
    for first in range(1, 1 + int(sys.argv[2]), together):
        children = [fork(lambda: die_after(first + i)) for i in range(together)]
        ends = [os.waitpid(child, 0)[1] for child in children]
        assert all(map(os.WIFSIGNALED, ends)), ends
        hot += together == 1 and (folder / "budget.db-journal").exists()
        if (folder / "budget.db").stat().st_size:
            ledger.datasets()
print(json.dumps({"interrupted": hot}))
"""
RACE = """
def take():
    os.read(gate, 1)
    while True:
        try:
            receipt = ledger.charge("people", cost, label=f"by {os.getpid()}")
            os.write(log, f"{receipt.id} {receipt.digest}\\n".encode())
        except BudgetError:
            return

ledger.open_dataset("people", budget, 1e-6)
gate, start = os.pipe()
children = [fork(take) for _ in range(8)]
os.write(start, bytes(8))
print(json.dumps([os.waitpid(child, 0)[1] for child in children]))
"""
FORKS = """
def once():
    ledger.charge("people", cost, label="by a child")

def go_on():
    while not done.wait(0.01):
        ledger.charge("people", cost, label="by a thread")

ledger.open_dataset("people", 1000.0, 1e-6)
done = threading.Event()
thread = threading.Thread(target=go_on)
thread.start()
ends = [os.waitpid(fork(once), 0)[1] for _ in range(10)]
done.set()
thread.join()
print(json.dumps(ends))
"""


def start(script, folder, *args):
    answer = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, str(folder), *args],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def released(folder):
    return [line.split() for line in (folder / "released").read_text().splitlines()]


def receipts(ledger):
    return [receipt for name in ledger.datasets() for receipt in ledger.history(name)]


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
@short_and_long("kills", 64, 160)
def test_kill_9_after_every_statement(tmp_path, kills):
    """Of one process alone, and of four at once: the k-th process dies after its k-th statement."""
    found = start(KILLS, tmp_path, str(kills), "charge first")
    ledger = Ledger(tmp_path / "budget.db")
    charged = {(str(receipt.id), receipt.digest) for receipt in receipts(ledger)}
    out = {tuple(line) for line in released(tmp_path)}
    assert len(out) > kills // 4
    assert out <= charged  # never a release without its charge
    assert len(charged) - len(out) <= 2 * kills  # a death loses one charge at most
    assert found["interrupted"] >= kills // 20  # some died in the middle of a transaction
    for name in ledger.datasets():
        statement = ledger.statement(name)
        assert len(statement.receipts) <= ROOM
        assert statement.spent().epsilon <= statement.budget.epsilon
    with closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@needs_fork
def test_the_test_above_notices_a_release_before_its_charge(tmp_path):
    start(KILLS, tmp_path, "60", "release first")
    assert len(released(tmp_path)) > len(receipts(Ledger(tmp_path / "budget.db")))


@needs_fork
def test_eight_processes_race_for_one_budget(tmp_path):
    assert start(RACE, tmp_path) == [0] * 8
    ledger = Ledger(tmp_path / "budget.db")
    charged = [[str(receipt.id), receipt.digest] for receipt in receipts(ledger)]
    assert len(charged) == ROOM
    assert sorted(released(tmp_path)) == sorted(charged)


@needs_fork
def test_forks_while_threads_charge(tmp_path):
    assert start(FORKS, tmp_path) == [0] * 10
    labels = [receipt.label for receipt in receipts(Ledger(tmp_path / "budget.db"))]
    assert labels.count("by a child") == 10
