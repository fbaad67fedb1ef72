"""The command: table, JSON, files, and a folder that is continued."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from matplotlib.image import imread

from hushcov.cli.main import cli
from hushcov_lab.benchmark import command as bench
from hushcov_lab.benchmark.cells import CELLS, PRESETS, Cell
from hushcov_lab.benchmark.contenders import CONTENDERS
from hushcov_lab.benchmark.figures import write_figures
from hushcov_lab.benchmark.results import Results
from hushcov_lab.benchmark.work import Benchmark, OpenWork

from .settings import TINY, finished

FOLDER = Path("bench-quick")
FILES = {CELLS, "results.json", "results.csv"}
FIGURES = {"error.png", "error-block.png", "rates.png", "crossover.png", "cost.png"}
TOTAL = len(Benchmark(TINY, tuple(CONTENDERS)).cell_keys())


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(PRESETS, "quick", TINY)


@pytest.fixture
def instant(monkeypatch):
    """Every cell that is left is made up at once, and no figure drawn; returns what was asked."""
    asked = []

    def run(work: OpenWork, workers: int, keep: Callable[[Cell], object]) -> None:
        asked.append((work.n_cells, workers))
        for cell in finished().cells if work.n_cells else ():
            keep(cell)

    monkeypatch.setattr(OpenWork, "run", run)
    monkeypatch.setattr(bench, "write_figures", _empty_figure)
    return asked


def _empty_figure(folder: Path, results: Results) -> list[Path]:
    (folder / "error.png").touch()
    return [folder / "error.png"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["bench", *map(str, arguments)])


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


def test_writes_everything(instant, monkeypatch):
    monkeypatch.setattr(bench, "write_figures", write_figures)
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    assert {path.name for path in FOLDER.iterdir()} == FILES | FIGURES
    assert "epsilon = 1, delta = 1e-6" in words(result)
    assert f"{TOTAL} cells, " in result.stdout
    for name in FILES | FIGURES:
        assert f"written: {FOLDER / name}" in result.stdout
    for name in FIGURES:
        assert imread(FOLDER / name)[..., :3].std() > 0.05


def test_json(instant):
    result = run("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found.pop("files") == [
        str(FOLDER / name) for name in (CELLS, "results.json", "results.csv", "error.png")
    ]
    assert found.pop("not_drawn") is None
    assert found == json.loads((FOLDER / "results.json").read_text())


def test_a_finished_folder_only_draws(instant):
    assert run().exit_code == 0
    (FOLDER / "error.png").unlink()
    result = run("--workers", 3)
    assert [cells for cells, _ in instant] == [TOTAL, 0]
    assert instant[1][1] == 3
    assert f"{TOTAL} cells had" in words(result)
    assert (FOLDER / "error.png").exists()
