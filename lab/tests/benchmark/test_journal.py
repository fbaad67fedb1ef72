"""What presets measure; finished cells survive a kill, and nothing else passes for one."""

from __future__ import annotations

import json
import os

import pytest

from hushcov_lab.benchmark.cells import (
    CELLS,
    Cost,
    Fit,
    Journal,
    PredictedErrors,
    from_line,
    to_line,
)
from hushcov_lab.benchmark.work import Benchmark, measure, measure_cost, missing_work, predict

from .settings import CHEAP, TINY, finished

IDENTITY = Benchmark(TINY, CHEAP).identity()
EXAMPLES = [
    Fit(TINY.base, 1, "gaussian", 0.25, 1.0, 0.5, 0.01),
    Fit(TINY.base, 1, "eigen-sampling", skipped="at most 100 features."),
    Cost(TINY.base, "gaussian", 0.5, 12.25),
    Cost(TINY.base, "zero", 1e-6),
    PredictedErrors(TINY.base, {"gaussian": 0.5, "screened": 0.25}),
]


@pytest.mark.parametrize("cell", EXAMPLES, ids=str)
def test_lines_round_trip(cell):
    line = to_line(cell)
    assert line.count("\n") == 1
    assert from_line(line) == cell
    assert from_line(line).key == cell.key


@pytest.mark.parametrize(
    "change",
    [
        *({"kind": "guess"}, {"error": "small"}, {"error": float("nan")}, {"seed": 0.5}),
        *({"contender": 3}, {"skipped": 1}, {"extra": 1}, {"point": {"model": "random"}}),
        {"point": 7},
    ],
)
def test_anything_else_is_refused(change):
    content = json.loads(to_line(EXAMPLES[0])) | change
    with pytest.raises(ValueError, match="not a"):
        from_line(json.dumps(content))


def test_cells_are_on_the_disk_at_once(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(1), fsync(descriptor)))
    with Journal(tmp_path / "new", IDENTITY) as journal:
        for count, cell in enumerate(EXAMPLES, start=1):
            journal.append(cell)
            lines = (tmp_path / "new" / CELLS).read_text().splitlines()
            assert [from_line(line) for line in lines[1:]] == EXAMPLES[:count]
    assert len(synced) == 1 + len(EXAMPLES)
    with Journal(tmp_path / "new", IDENTITY) as journal:
        assert journal.cells == EXAMPLES


@pytest.mark.parametrize("cut", [1, 20, 100])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_torn_last_line_is_dropped(tmp_path, cut, end):
    with Journal(tmp_path, IDENTITY) as journal:
        for cell in EXAMPLES:
            journal.append(cell)
    path = tmp_path / CELLS
    whole = path.read_text()
    path.write_text(whole.removesuffix("\n")[:-cut] + end)
    with Journal(tmp_path, IDENTITY) as journal:
        assert journal.cells == EXAMPLES[:-1]
        journal.append(EXAMPLES[-1])
    assert path.read_text() == whole


@pytest.mark.parametrize("line", ["", "{}", "[]", "nonsense", '{"kind": "fit"}'])
def test_a_corrupt_line_is_refused_and_nothing_is_changed(tmp_path, line):
    path = tmp_path / CELLS
    with Journal(tmp_path, IDENTITY) as journal:
        journal.append(EXAMPLES[0])
    path.write_text(path.read_text() + line + "\n" + to_line(EXAMPLES[2]))
    before = path.read_bytes()
    with pytest.raises(OSError, match="line 3"):
        Journal(tmp_path, IDENTITY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("first", ["{}", "[1]", '"text"', "nonsense"])
def test_a_file_of_something_else_is_refused(tmp_path, first):
    (tmp_path / CELLS).write_text(first + "\n" + to_line(EXAMPLES[0]))
    with pytest.raises(OSError, match="line 1"):
        Journal(tmp_path, IDENTITY)


@pytest.mark.parametrize(
    ("name", "value"), [("preset", "full"), ("version", "0.0.0"), ("contenders", ["zero"])]
)
def test_another_benchmark_is_refused(tmp_path, name, value):
    with Journal(tmp_path, IDENTITY | {name: value}):
        pass
    with pytest.raises(FileExistsError, match=f"of another {name}"):
        Journal(tmp_path, IDENTITY)


def test_one_program_at_a_time(tmp_path):
    with Journal(tmp_path, IDENTITY), pytest.raises(BlockingIOError, match="in use"):
        Journal(tmp_path, IDENTITY)
    with Journal(tmp_path, IDENTITY):
        pass  # free again


# Presets: what they measure, and how much of it.


def test_everything_is_left_at_first_and_nothing_at_the_end():
    benchmark = Benchmark(TINY, CHEAP)
    work = missing_work(benchmark, [])
    keys = benchmark.cell_keys()
    assert len(set(keys)) == len(keys) == work.n_cells
    assert {task.function for task in work.shared} == {measure, predict}
    assert [task.arguments for task in work.alone] == [(TINY.base, name) for name in CHEAP]
    assert all(task.function is measure_cost for task in work.alone)
    done = finished(CHEAP)
    left = missing_work(benchmark, done.cells)
    assert (left.n_cells, left.shared, left.alone) == (0, (), ())


def test_only_what_is_missing_is_done():
    benchmark = Benchmark(TINY, CHEAP)
    cells = finished(CHEAP).cells
    gap = next(cell for cell in cells if cell.key[0] == "fit" and cell.point == TINY.base)
    left = missing_work(benchmark, [cell for cell in cells if cell is not gap])
    assert (left.n_cells, left.alone) == (1, ())
    (task,) = left.shared
    assert task.arguments == (TINY.base, [(gap.seed, (gap.contender,))])
