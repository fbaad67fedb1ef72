"""How a command ends by a signal, or where nobody reads: in order, and saying what was charged.

Signals are real ones, which programs of their own send themselves at moments that matter.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import PATIENCE
from hushcov.ledger import Ledger

FIT = [*("fit", "x.npy", "--epsilon", "1", "--delta", "1e-6", "-o", "a/out")]
FIT += ["--ledger", "budget.db", "--dataset", "people"]
CHARGED = "Dataset 'people' in the ledger budget.db was charged epsilon 1 and delta 1e-6"
CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
# Calls `moment` with a signal to the program itself before or after it.
PRELUDE = """
import math, os, signal, sys
import hushcov.cli.output as output
import hushcov.release.files as files
from hushcov.kernel.accounting.ledger import Store
from hushcov.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup
output._EVERY = math.inf  # no progress on a slow computer

def around(place, name, when, numbers):
    real = getattr(place, name)
    def patched(*args, **kwargs):
        if when == "before":
            [os.kill(os.getpid(), each) for each in numbers]
        real(*args, **kwargs)
        if when == "after":
            [os.kill(os.getpid(), each) for each in numbers]
    setattr(place, name, patched)
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(4_000, 3)))
    Ledger("budget.db").open_dataset("people", 4.0, 1e-4)


def fit(*moments, options=(), **streams):
    lines = [f"around({place}, {numbers})" for place, numbers in moments]
    script = "\n".join([PRELUDE, *lines, "main()"])
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    command = [sys.executable, "-c", script, *FIT, *options]
    return subprocess.run(command, text=True, timeout=PATIENCE, check=False, **streams)


def folders():
    return sorted(str(each) for each in Path().rglob("*") if each.is_dir())


MOMENTS = {
    "before the commit": ("Store, '_commit', 'before'", 0),
    "after the commit": ("Store, '_commit', 'after'", 1),
    "writing": ("files, '_fill', 'after'", 1),
}


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        *(("SIGTERM", "before the commit"), ("SIGINT", "after the commit")),
        pytest.param("SIGTERM", "after the commit", marks=pytest.mark.slow),
        pytest.param("SIGHUP", "writing", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_in_order(name, moment):
    place, number = MOMENTS[moment]
    result = fit((place, f"[signal.{name}]"))
    assert result.returncode == CODES[name]
    assert len(Ledger("budget.db").history("people")) == number
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"hushcov: {'interrupted' if name == 'SIGINT' else 'ended by a signal'}")
    assert "Traceback" not in result.stderr
    assert (CHARGED in last) == bool(number)
    assert last.endswith("No estimate was released." if number else ". Nothing was charged.")
    assert folders() == []


@pytest.mark.slow
def test_a_signal_after_the_release_says_where_it_is():
    result = fit(("files, '_move', 'after'", "[signal.SIGTERM]"))
    assert result.returncode == 143
    assert result.stderr.splitlines()[-1].endswith("The release is in a/out/.")
    assert folders() == ["a", "a/out"]


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams(closed):
    script = f'exec "$@" {closed}'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "hushcov.cli.main", *FIT]
    result = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE, check=False)
    assert result.returncode == 0
    assert "Traceback" not in result.stderr
    assert Path("a/out/release.json").exists()


@pytest.mark.slow
def test_output_that_nobody_reads_any_more():
    read, write = os.pipe()
    os.close(read)
    result = fit(options=("--json",), stdout=write)
    os.close(write)
    assert result.returncode == 141
    assert result.stderr.splitlines()[-1].endswith("The release is in a/out/.")
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_messages_that_nobody_reads_do_not_cost_the_release():
    read, write = os.pipe()
    os.close(read)
    result = fit(stderr=write)
    os.close(write)
    assert result.returncode == 0
    assert Path("a/out/release.json").exists()
