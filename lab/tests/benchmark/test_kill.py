"""A benchmark that is killed or interrupted goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hushcov_lab.benchmark.cells import CELLS, from_line
from hushcov_lab.benchmark.work import Benchmark

from .settings import TINY
from .tiny import WAIT_AFTER

TESTS = Path(__file__).parents[1]
FEW = ("gaussian",)
TOTAL = len(Benchmark(TINY, FEW).cell_keys())
SOME = 6  # cells to wait for
_PATIENCE = 600  # seconds until a test gives up; it never waits that long
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are found where Linux lists them"
)


def start(folder: Path, environment: dict[str, str] | None = None) -> subprocess.Popen:
    command = ("bench", "-o", str(folder), "--workers", "1")
    return subprocess.Popen(
        [sys.executable, "-m", "benchmark.tiny", *command, "--contenders", ",".join(FEW)],
        cwd=TESTS,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(folder: Path) -> list[bytes]:
    path = folder / CELLS
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def wait_for_cells(program: subprocess.Popen, folder: Path) -> None:
    give_up = time.monotonic() + _PATIENCE
    while len(lines(folder)) <= SOME:
        assert program.poll() is None, program.stderr.read()
        assert time.monotonic() < give_up
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def stopped(folder: Path, stop: Callable[[subprocess.Popen], None]) -> tuple[int, str]:
    """Start, stop after some cells, and see all workers end; the exit code and what was said."""
    program = start(folder, {WAIT_AFTER: str(SOME)})
    wait_for_cells(program, folder)
    workers = children(program.pid)
    assert workers
    stop(program)
    _, errors = program.communicate(timeout=_PATIENCE)
    give_up = time.monotonic() + _PATIENCE
    while any(map(is_running, workers)):
        assert time.monotonic() < give_up, "a worker outlived its parent"
        time.sleep(0.01)
    assert len(lines(folder)) == 1 + SOME < 1 + TOTAL
    return program.returncode, errors


@pytest.mark.slow
def test_a_killed_benchmark_goes_on(tmp_path):
    folder = tmp_path / "bench"
    code, errors = stopped(folder, lambda program: program.kill())
    assert (code, errors) == (-signal.SIGKILL, "")
    before = lines(folder)
    # A line that was being written, as a kill in the middle of it would leave it.
    with (folder / CELLS).open("ab") as file:
        file.write(before[-1][: len(before[-1]) // 2])
    program = start(folder)
    output, errors = program.communicate(timeout=_PATIENCE)
    assert (program.returncode, errors) == (0, "")
    assert f"{len(before) - 1} cells had" in output
    after = lines(folder)
    assert after[: len(before)] == before  # not measured again
    keys = [from_line(line).key for line in after[1:]]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(Benchmark(TINY, FEW).cell_keys())
    results = json.loads((folder / "results.json").read_text())
    assert len(results["errors"]) == len(TINY.measured()) * len(FEW)
    (row,) = results["headline"]
    assert row["contender"] == "gaussian"
    assert min(row["error"], row["seconds"], 1 + row["megabytes"]) > 0


@pytest.mark.slow
def test_an_interrupted_benchmark_keeps_its_cells(tmp_path):
    folder = tmp_path / "bench"
    # As a terminal does: to all processes.
    code, errors = stopped(folder, lambda program: os.killpg(program.pid, signal.SIGINT))
    assert code == 130
    assert [line for line in errors.splitlines() if line] == [
        f"hushcov: finished cells are kept in {folder}: the same command goes on",
        "hushcov: interrupted",
    ]
    assert all(from_line(line) for line in lines(folder)[1:])
