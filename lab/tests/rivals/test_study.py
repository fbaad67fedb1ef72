"""Studies of `hushcov bench`: rows with what made them, a folder that resumes, and refusals."""

from __future__ import annotations

import json
import math
import platform
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import scipy
from matplotlib.image import imread

import hushcov
from hushcov_lab.benchmark import command as bench
from hushcov_lab.rivals import study
from hushcov_lab.rivals.study import Summary, find_study, installed_studies

from .fake_study import STOP, STUDY

FOLDER = Path("bench-quick")
FILES = ["regression.jsonl", "regression.parquet", "regression.png"]
COMMAND = ("bench", "regression")


def run_here(tasks, workers, keep):
    for task in tasks:
        for cell in task.function(*task.arguments):
            keep(cell)


@pytest.fixture
def fake(monkeypatch):
    """The study of regression is a fake one, and measured in this process."""
    monkeypatch.setattr(study, "find_study", lambda name: STUDY)
    monkeypatch.setattr(study, "run_tasks", run_here)


def rows() -> list[dict]:
    return pyarrow.parquet.read_table(FOLDER / FILES[1]).to_pylist()


def test_rows_say_what_made_them(fake, run):
    result = run(*COMMAND)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(path.name for path in FOLDER.iterdir()) == FILES
    found = rows()
    assert [(row["size"], row["seed"], row["method"]) for row in found] == [
        (size, 7 + size, method) for size in (1, 2, 3) for method in ("ours", "theirs")
    ]
    assert [row["score"] for row in found] == [1.0, 0.1, 2.0, None, 3.0, 0.3]
    assert (found[0]["width"], found[0]["refusal"]) == (math.inf, None)
    assert found[1]["width"] is None
    for row in found:
        assert row["command"] == "hushcov bench regression --preset quick"
        assert (row["preset"], row["hushcov"]) == ("quick", hushcov.__version__)
        assert (row["numpy"], row["scipy"]) == (np.__version__, scipy.__version__)
        assert row["python"] == platform.python_version()
    assert imread(FOLDER / FILES[2])[..., :3].std() > 0.01
    said = " ".join(result.stdout.split())
    assert "ours 3 of 3 1 2 3" in said
    assert "theirs 2 of 3 0.1 0.2 0.3" in said
    assert "Nothing to see." in said


def test_a_run_that_was_stopped_goes_on(fake, run, monkeypatch):
    monkeypatch.setenv(STOP, "3")
    result = run(*COMMAND)
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    journal = FOLDER / FILES[0]
    before = journal.read_bytes()
    assert before.count(b"\n") == 3  # what is measured, and two cells
    journal.write_bytes(before + b'{"cell": {"si')  # as a kill leaves it
    monkeypatch.delenv(STOP)
    result = run(*COMMAND)
    assert "2 cells had been finished before" in result.stdout
    assert journal.read_bytes().startswith(before)
    assert [row["size"] for row in rows()] == [1, 1, 2, 2, 3, 3]


def test_several_studies_and_json(fake, run, monkeypatch):
    monkeypatch.setattr(bench, "STUDIES", ("mechanisms", "regression", "all"))
    done = bench._Done(5, 0, {"headline": []}, print, [], None)
    monkeypatch.setattr(bench, "_measure_mechanisms", lambda *_: done)
    result = run("bench", "all", "--json")
    found = json.loads(result.stdout)
    assert list(found) == ["mechanisms", "regression"]
    assert found["regression"] == {
        "study": "regression",
        "preset": "quick",
        "rows": 6,
        "files": [str(FOLDER / name) for name in FILES],
        "not_drawn": None,
    }
    assert json.loads(run(*COMMAND, "--json").stdout) == found["regression"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("regresion",), 2, "'regresion' is not one of 'mechanisms', 'regression'"),
        (("regression", "--contenders", "zero"), 2, "--contenders is not for the study"),
        (("--tables", "data"), 2, "--tables is not for the study of mechanisms"),
        (("regression", "--tables", "absent"), 2, "absent, which has none: write each table with"),
        (("regression", "--tables", "."), 2, "tables must be a folder with .npz files"),
        (("regression", "--workers", 0), 2, "--workers must be an integer at least 1"),
    ],
)
def test_what_is_refused_before_anything_is_measured(refused, arguments, code, message):
    assert message in refused(code, "bench", *arguments)
    assert not FOLDER.exists()


def test_a_bad_table_is_refused_before_anything_is_measured(refused, tmp_path):
    np.savez(tmp_path / "bad.npz", X=np.ones((3, 2)))
    line = refused(3, *COMMAND, "--tables", tmp_path)
    assert "bad.npz must have arrays of numbers named X and y" in line
    assert not FOLDER.exists()


@pytest.mark.slow
def test_workers_measure_cells():
    run = study.StudyRun(STUDY, "quick", None, STUDY.cells("quick", None))
    found = []
    run.run(run.cells[1:], 2, found.append)
    assert sorted(each.cell["size"] for each in found) == [2, 3]
    assert run.missing(found) == run.cells[:1]
    assert [row["method"] for row in run.rows(found)] == ["ours", "theirs"] * 2


def test_other_files_and_other_designs_are_kept(fake, refused, run):
    FOLDER.mkdir()
    (FOLDER / FILES[1]).write_text("mine")
    assert "bench-quick has a regression.parquet" in refused(6, *COMMAND)
    (FOLDER / FILES[1]).unlink()
    assert run(*COMMAND).exit_code == 0
    line = refused(6, *COMMAND, "--preset", "full", "-o", FOLDER)
    assert "of another preset (quick, and this is full)" in line


def test_without_the_packages(fake, refused, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(*COMMAND)
    assert "not drawn: figures need matplotlib" in " ".join(result.stdout.split())
    assert len(rows()) == 6
    monkeypatch.setattr("hushcov.answers.files.find_spec", lambda name: None)
    assert "Parquet files need pyarrow" in refused(6, *COMMAND)


def test_a_corrupt_line_is_refused(fake, refused, run):
    run(*COMMAND)
    path = FOLDER / FILES[0]
    first, *others = path.read_text().splitlines(keepends=True)
    for line in ("{}", '{"cell": 1, "rows": []}', '{"cell": {}, "rows": [], "more": 1}'):
        path.write_text("".join([first, line + "\n", *others]))
        assert "line 2: not a finished cell" in refused(6, *COMMAND)


def test_medians_are_over_seeds_then_over_groups():
    found = [
        {"method": "a", "table": table, "epsilon": epsilon, "r2": value}
        for table, epsilon, values in (("t", 1, (1.0, 2.0, 9.0)), ("u", 1, (None, math.nan)))
        for value in values
    ]
    found.append({"method": "a", "table": "t", "epsilon": 3, "r2": 5.0})
    assert Summary("table", "r2", {"epsilon": 1}).lines(found) == [("a", [2.0], 2)]


@pytest.mark.parametrize("name", installed_studies())
def test_every_study_keeps_the_contract(name):
    found = find_study(name)
    assert found.name == name
    assert min(len(found.title), len(found.caption)) > 10
    for preset in ("quick", "full"):
        cells = found.cells(preset, None)
        assert json.loads(json.dumps(cells)) == cells
        assert all("seed" in cell for cell in cells)
        assert len({json.dumps(cell) for cell in cells}) == len(cells) > 0
    assert found.measure.__module__ == f"hushcov_lab.rivals.{name}_study"


def test_the_study_of_regression_is_installed():
    assert "regression" in installed_studies()
    assert (*installed_studies(), "all") == bench.STUDIES[1:]
