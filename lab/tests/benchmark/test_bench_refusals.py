"""`hushcov bench`: what it refuses, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushcov_lab.benchmark.cells import CELLS, PRESETS, Journal
from hushcov_lab.benchmark.contenders import CONTENDERS
from hushcov_lab.benchmark.work import Benchmark, OpenWork


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--preset", "huge"), 2, "'huge' is not one of 'quick', 'full'"),
        (("--contenders", "laplace"), 2, "--contenders must be among auto, adaptive, screened,"),
        (("--contenders", ""), 2, "--contenders must be among auto, adaptive, screened,"),
        (("--contenders", "zero,,"), 2, "got ''"),
        (("--workers", 0), 2, "--workers must be an integer at least 1"),
        (("--workers", "many"), 2, "'many' is not a whole number"),
        (("-o", "file"), 6, "file: File exists"),
        (("-o", "file/below"), 6, "file/below: Not a directory"),
        (("extra",), 2, "extra"),
    ],
)
def test_bad_options(refused, tmp_path, arguments, code, message):
    (tmp_path / "file").write_text("")
    assert message in refused(code, "bench", *arguments)
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_files_that_no_benchmark_made_are_kept(refused):
    Path("out").mkdir()
    Path("out/results.csv").write_text("mine")
    line = refused(6, "bench", "-o", "out")
    assert "out has a results.csv" in line
    assert Path("out/results.csv").read_text() == "mine"
    assert not Path("out", CELLS).exists()


def test_a_folder_in_use_is_refused(refused):
    with Journal(Path("out"), Benchmark(PRESETS["quick"], tuple(CONTENDERS)).identity()):
        assert "out is in use" in refused(6, "bench", "-o", "out")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ChildProcessError("a worker was ended: use fewer --workers."), 6),
        (MemoryError("use fewer --workers."), 5),
    ],
)
def test_a_worker_that_is_ended_is_one_line(refused, monkeypatch, error, code):
    def ended(*_, **__):
        raise error

    monkeypatch.setattr(OpenWork, "run", ended)
    assert "fewer --workers" in refused(code, "bench")
