"""Let every step of a charge and of a release go wrong once, and look at what is left.

A run is first counted, then repeated with a fault at each of its points. Points are calls of the C
library on files of the run (`calls`, by fault_points.c: those of SQLite and NumPy, too), statements
of SQLite (`statements`), and lines of hushcov that deal with either (`lines`). After each run the
same is asked (`problems_of`): no release without its charge, nothing lost, no part of a release
taken for one, nothing left that is not named, and words that say what was charged.

    python tests/fault_points.py SOURCE SCENARIO [STRIDE]
"""

import contextlib
import copy
import ctypes
import errno
import gc
import io
import json
import linecache
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import hushcov
from documents import guarantee
from hushcov import GaussianCovariance
from hushcov.cli import fit as fit_command
from hushcov.cli.main import cli
from hushcov.exceptions import HushcovError
from hushcov.kernel.accounting import Approximate
from hushcov.ledger import Ledger
from hushcov.release import Release
from hushcov.release import files as release_files

ROWS = np.random.default_rng(0).normal(size=(4_000, 3))
FIT = {"epsilon": 0.5, "delta": 1e-6, "assume_centered": True, "drop_nulls": False}
EARLIER = GaussianCovariance(**FIT).fit(ROWS)
FAIL, STAY, SIGNAL, DIE = 1, 2, 3, 4  # as in fault_points.c


def release_of(value):
    return Release("gaussian", np.full((2, 2), value), 0.5, guarantee(), {})


def book(folder):
    return Ledger(folder / "budget.db", timeout=1.0)


# What is run: `prepare` a folder, then `act` in it, keeping what is made for those who look.


def open_book(folder):
    book(folder).open_dataset("people", 4.0, 1e-4)


def act_open(folder, made):
    made["budget"] = book(folder).open_dataset("people", 4.0, 1e-4)


def act_change(folder, made):
    made["budget"] = book(folder).change_budget("people", 5.0, 1e-4)


def act_charge(folder, made):
    made["receipt"] = book(folder).charge("people", Approximate(0.5, 1e-6), label="a release")


def act_fit(folder, made):
    made["estimator"] = estimator = copy.copy(EARLIER)
    estimator.set_params(ledger=book(folder), dataset="people").fit(ROWS)
    made["fitted"] = True
    estimator.release_.write(folder / "out")


def old_release(folder):
    release_of(1).write(folder / "out")


def act_overwrite(folder, made):
    release_of(2).write(folder / "out", overwrite=True)


def act_overwrite_in_steps(folder, made):
    exchange, release_files._exchange = release_files._exchange, lambda *_: False
    try:
        act_overwrite(folder, made)
    finally:
        release_files._exchange = exchange


def table_and_book(folder):
    open_book(folder)
    np.save(folder.parent / "x.npy", ROWS)


def act_command(folder, made):
    words = ["fit", folder.parent / "x.npy", "-o", folder / "out", "--known-mean", "--no-nulls"]
    words += ["--epsilon", 0.5, "--delta", 1e-6, "--ledger", folder / "budget.db"]
    cli.main([*map(str, words), "--mechanism", "gaussian", "--dataset", "people"])


SCENARIOS = {
    "open": (lambda folder: None, act_open),
    "change": (open_book, act_change),
    "charge": (open_book, act_charge),
    "fit": (open_book, act_fit),
    "overwrite": (old_release, act_overwrite),
    "overwrite in steps": (old_release, act_overwrite_in_steps),
    "command": (table_and_book, act_command),
}


OVERWRITING = ("overwrite", "overwrite in steps")
CHARGING = ("charge", "fit", "command")
WRITING = ("fit", "command", *OVERWRITING)


def written(path, *_, **__):
    Path(path).write_bytes(b"a picture")
    return "a picture"


def run(scenario, folder, fault):
    """Act under a fault; what was made, the error, and all words that somebody could read."""
    made, error, said = {}, None, io.StringIO()
    pictures = dict.fromkeys(("write_release_heatmap", "write_report"), written)
    before = {name: getattr(fit_command, name) for name in pictures}
    with contextlib.ExitStack() as stack:
        heard = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # an interrupt between open and with
        stack.enter_context(contextlib.redirect_stderr(said))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        vars(fit_command).update(pictures)  # they take long, and are files like others
        if scenario != "command":  # which has its own
            usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
            stack.callback(signal.signal, signal.SIGTERM, usual)
        try:
            with fault:
                SCENARIOS[scenario][1](folder, made)
        except SystemExit as end:
            error = end if end.code else None
        except BaseException as end:
            error = end
        vars(fit_command).update(before)
    words = [said.getvalue(), *(str(each.message) for each in heard)]
    words += ["" if error is None else str(error), *getattr(error, "__notes__", ())]
    words = " ".join(" ".join(words).split())
    return SimpleNamespace(made=made, error=error, words=words, early=fault.early)


def stored_charges(scenario, folder):
    """The charges in the ledger, which then takes another one."""
    if scenario in OVERWRITING:
        return ()
    ledger = book(folder)
    if scenario == "open":
        open_book(folder)
    receipts = ledger.history("people")
    later = ledger.charge("people", Approximate(0.1, 1e-7), label="afterwards")
    assert ledger.history("people") == (*receipts, later)
    return receipts


def stored_release(out):
    """The release in a folder, or what is wrong with it."""
    try:
        return Release.read(out) if out.exists() and any(out.iterdir()) else None
    except HushcovError as error:
        return str(error)


def problems_of(scenario, folder, end, *, died=False):
    """Everything that is wrong after a run that ended as `end`."""
    words, estimator = end.words, end.made.get("estimator")
    overwriting, charging = scenario in OVERWRITING, scenario in CHARGING
    receipts, release = stored_charges(scenario, folder), stored_release(folder / "out")
    charges, kept = len(receipts), getattr(estimator, "release_", None)
    fresh = kept is not None and kept is not EARLIER.release_
    released = fresh or "receipt" in end.made or (release is not None and not overwriting)
    left = {each.name for each in folder.iterdir()} - {"budget.db", "out"}
    found = {
        f"a part of a release has its name: {release}": isinstance(release, str),
        "the earlier release was lost": estimator is not None and kept is None,
        "there is a release without its charge": released and charges != 1,
        "the release has another receipt": fresh and estimator.receipt_ not in receipts,
        "it was charged twice": charges > 1,
    }
    if died:
        return [each for each, so in found.items() if so]
    there = release in (release_of(1), release_of(2)) or "move it back" in words
    found |= {
        "neither the old release nor the new one is there": overwriting and not there,
        f"left without a word: {left}": any(each not in words for each in left),
    }
    if end.error is None:
        found |= {
            "it ended well without a charge": charging and charges != 1,
            "it ended well without a release": scenario in WRITING and release is None,
            "it ended well with the old release": overwriting and release != release_of(2),
        }
        return [each for each, so in found.items() if so]
    answered = isinstance(end.error, HushcovError | KeyboardInterrupt | SystemExit)
    found["it is no answer"] = not answered or "Traceback" in words
    if "fitted" in end.made:  # what is in memory can be written again, at no charge
        if release is None:
            release = Release.read(kept.write(folder / "out"))
        found["another release is there"] = release != kept
    elif charging:
        stands = bool(re.search(r"in the ledger \S+ was charged", words))
        perhaps = "may have been charged" in words
        nothing = bool(re.search("nothing was (read or )?charged|was not charged", words, re.I))
        unsaid = stands or not (nothing or perhaps or end.early)
        denied = "No estimate was released" in words and (fresh or release is not None)
        found |= {
            "a charge is not said": charges and (nothing or not (stands or perhaps)),
            "that nothing was charged is not said": not charges and unsaid,
            "a release is denied": denied,
        }
    return [each for each, so in found.items() if so]


# Where it goes wrong. A source is a context; afterwards `seen` has its points, and `early` is true
# if the fault came before any ledger was in use.

_LINES = (
    "kernel/accounting/ledger.py",
    "ledger.py",
    "_charged.py",
    "_files.py",
    "release/files.py",
)
_LINES += ("estimators/base.py", "cli/files.py", "cli/fit.py")
_OWN = {str(Path(hushcov.__file__).parent / name) for name in _LINES}


class Lines:
    """An interrupt before a line."""

    def __init__(self, folder, at=None, way=None):
        self.at, self.seen, self.early = at, [], True

    def ways(self, name):
        return ["interrupt"]

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, arg):
        return self._line if frame.f_code.co_filename in _OWN else None

    def _line(self, frame, event, arg):
        if event == "line":
            self.early = self.early and frame.f_code.co_name not in ("writing", "reading")
            file, line = frame.f_code.co_filename, frame.f_lineno
            self.seen.append(f"{Path(file).name}:{line} {linecache.getline(file, line).strip()}")
            if len(self.seen) - 1 == self.at:
                raise KeyboardInterrupt
        return self._line


_CODES = {
    "full": sqlite3.SQLITE_FULL,
    "broken": sqlite3.SQLITE_IOERR,
    "locked": sqlite3.SQLITE_BUSY,
}


class Statements:
    """An error of SQLite, or an interrupt, before or after a statement."""

    early = False

    def __init__(self, folder, at=None, way=None):
        self.at, self.way, self.seen = at, way, []

    def ways(self, name):
        return [f"{what} {when}" for what in (*_CODES, "interrupt") for when in ("before", "after")]

    def _point(self, name, call):
        self.seen.append(name)
        if len(self.seen) - 1 != self.at:
            return call()
        what, when = self.way.split()
        if when == "after" or name == "close":
            call()
        if what == "interrupt":
            raise KeyboardInterrupt
        error = sqlite3.OperationalError(what)
        error.sqlite_errorcode = _CODES[what]
        raise error

    def __enter__(self):
        point, self._connect = self._point, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, sql, *rest):
                execute = super().execute
                return point(sql.split()[0], lambda: execute(sql, *rest))

            def close(self):
                return point("close", super().close)

        sqlite3.connect = lambda *a, **k: point(
            "connect", lambda: self._connect(*a, **k, factory=Connection)
        )

    def __exit__(self, *_):
        sqlite3.connect = self._connect


_READS = {"read", "pread64", "fstat64", "stat64", "lstat64", "fstatat64", "access", "opendir"}


class Calls:
    """A call of the C library that fails, is preceded by a signal, or is the last of a program."""

    def __init__(self, folder, at=None, way=None):
        self._c, self.at, self.way = ctypes.CDLL(None), at, way
        self._root = os.fsencode(folder)

    def ways(self, name):
        codes = ["EIO"] if name == "close" or name in _READS else ["EIO", "ENOSPC"]
        codes += ["EACCES"] if name in {"open", "mkdir", "rename", "renameat2", "opendir"} else []
        stays = [f"{code} stays" for code in codes if code != "EACCES"]
        return [*codes, *stays, "SIGINT", "SIGTERM", "death"]

    def _set(self, name, value, kind=ctypes.c_int):
        kind.in_dll(self._c, name).value = value

    def __enter__(self):
        names = (ctypes.c_char * 4096).in_dll(self._c, "fault_root")
        names.value = self._root
        self._set("fault_seen", 0, ctypes.c_long)
        way = (self.way or "").split()
        if way and way[0].startswith("SIG"):
            kind, code = SIGNAL, getattr(signal, way[0])
        elif way:
            kind = DIE if way == ["death"] else STAY if way[1:] else FAIL
            code = getattr(errno, way[0], 0)
        else:
            kind = code = 0
        self._set("fault_at", self.at or 0, ctypes.c_long)
        self._set("fault_code", code)
        self._set("fault_way", kind)
        self._set("fault_on", 1)
        return self

    def __exit__(self, *_):
        self._set("fault_on", 0)
        self._set("fault_way", 0)
        n = ctypes.c_long.in_dll(self._c, "fault_seen").value
        kept = (ctypes.c_char_p * 100_000).in_dll(self._c, "fault_names")
        self.seen = [kept[i].decode() for i in range(n)]
        self.early = "open" not in self.seen[: self.at]


SOURCES = {"lines": Lines, "statements": Statements, "calls": Calls}


def _died(scenario, folder, fault):
    """Act in a child that dies at the fault."""
    child = os.fork()
    if child == 0:
        run(scenario, folder, fault)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return SimpleNamespace(made={}, error=None, words="", hit=status == 137)


def exercise(source, scenario, stride=1):
    """Run once for each point and way, or each `stride`-th; counts, and what was wrong where."""
    kind = SOURCES[source]
    ran, wrong = Counter(), []
    with tempfile.TemporaryDirectory(dir=_memory()) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        root = Path(place).resolve()
        template = root / "template"
        template.mkdir()
        SCENARIOS[scenario][0](template)

        def once(at=None, way=None):
            folder = root / "run"
            shutil.copytree(template, folder)
            try:
                fault = kind(folder, at, way)
                if way == "death":
                    end = _died(scenario, folder, fault)
                    hit = end.hit
                else:
                    end = run(scenario, folder, fault)
                    hit = at is None or len(fault.seen) > at
                found = problems_of(scenario, folder, end, died=way == "death")
                return fault, hit, end, found
            finally:
                shutil.rmtree(folder)

        once()  # imports, and what is made once for all
        fault, _, end, found = once()
        assert end.error is None, end.words
        assert not found, found
        points = fault.seen
        every = [(at, way) for at, name in enumerate(points) for way in fault.ways(name)]
        if scenario == "command":  # which takes long; "fit" has the other ways
            every = [(at, way) for at, way in every if not re.search("stays|SIGINT|death", way)]
        for at, way in every[::stride]:
            _, hit, end, found = once(at, way)
            ran[points[at] if source != "lines" else "line"] += hit
            if found or not hit:
                wrong.append([at, points[at], way, found or ["not reached"], end.words])
        del fault, end
        gc.collect()
    return {"points": len(points), "faults": len(every), "ran": dict(ran), "wrong": wrong}


def _memory():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def in_program(scenario, library, stride=1):
    """`exercise("calls", ...)` in a program that loads the library of fault_points.c first."""
    command = [sys.executable, __file__, "calls", scenario, str(stride)]
    here = [str(Path(__file__).parent), str(Path(hushcov.__file__).parents[1])]
    known = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(here)}
    answer = subprocess.run(command, env=known, text=True, capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr[-3_000:]
    return json.loads(answer.stdout)


if __name__ == "__main__":
    json.dump(exercise(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])), sys.stdout)
