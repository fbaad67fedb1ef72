"""`hushcov report`, and the report that `hushcov fit` puts into a release."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import words
from documents import guarantee, quick_forecast
from hushcov.cli import report
from hushcov.release import Making, Release
from hushcov.report import pages
from hushcov.report import sections as outlook
from hushcov.simulate import gaussian_records, sparse_covariance

OPTIONS = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2)


@pytest.fixture(autouse=True)
def no_searches(monkeypatch):
    monkeypatch.setattr(outlook, "forecast", quick_forecast)


def write(folder="out", *, private=True) -> Path:
    release = Release(
        mechanism="gaussian",
        integers=np.array([[900, 400], [400, 900]]),
        unit=0.001,
        guarantee=guarantee(private=private),
        parameters={"inputs": {"n_records": 10_000, "row_sparsity": 2, "delta": 1e-6}},
        feature_scale=np.ones(2),
        noise_sd=(0.01, 0.01),
        column_names=("age", "<b>weight"),
        making=Making(n_records=10_000, made="2026-01-31T12:00:00+00:00"),
    )
    return release.write(folder)


def test_a_page_beside_the_release(run):
    write()
    result = run("report", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = words(result.stdout)
    assert "Report of out/" in text
    assert "2 features, by gaussian" in text
    assert "written out-report.html (" in text
    page = Path("out-report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;weight" in page
    assert "<b>weight" not in page
    assert "2026-01-31 12:00:00 UTC" in page
    assert run("show", "out").exit_code == 0


def test_json(run):
    write(private=False)
    found = json.loads(run("report", "out", "-o", "there.html", "--json").stdout)
    assert found == {
        "folder": "out",
        "report": "there.html",
        "bytes": Path("there.html").stat().st_size,
        "private": False,
        "epsilon": 1.0,
        "delta": 1e-6,
        "mechanism": "gaussian",
        "warnings": [],
        "n_features": 2,
    }


def test_not_private_is_said_loudly(run):
    write(private=False)
    assert "NOT PRIVATE" in run("report", "out").stdout
    assert "NOT PRIVATE" in Path("out-report.html").read_text("utf-8")


def test_refusals(refused):
    folder = write()
    sealed = "--output must lie outside the release"
    assert sealed in refused(2, "report", "out", "-o", "out/report.html")
    assert "of a release" in refused(6, "report", "nowhere")
    refused(6, "report", "out", "-o", "no/such/folder.html")
    refused(2, "report")
    (folder / "integers.npy").write_bytes(b"")
    assert "integers.npy has 0 bytes" in refused(1, "report", "out")
    assert not Path("out-report.html").exists()


@pytest.fixture
def data() -> str:
    np.save("x.npy", gaussian_records(sparse_covariance("block", 6, 2), 4_000, random_state=0))
    return "x.npy"


def test_fit_writes_the_report_into_the_release(run, data):
    result = run("fit", data, *OPTIONS)
    assert result.exit_code == 0
    assert "report.html verdict, relations" in words(result.stdout)
    listed = json.loads(Path("x-release/release.json").read_text())["files"]
    assert "report.html" in listed
    page = Path("x-release/report.html").read_text("utf-8")
    assert "<dt>Records</dt><dd>4,000</dd>" in page
    assert "95 % interval" in page
    assert "NOT PRIVATE" not in page


def test_a_report_that_fails_does_not_cost_the_release(run, data, monkeypatch):
    def broken(path, *_, **__):
        path.write_text("half a page")
        raise MemoryError("no")

    monkeypatch.setattr(report, "write_report", broken)
    result = run("fit", data, *OPTIONS, "-o", "out")
    assert result.exit_code == 0
    assert "MemoryError. Try 'hushcov report" in words(result.stdout)
    assert not Path("out/report.html").exists()
    assert run("show", "out").exit_code == 0


def test_without_the_extra_fit_writes_the_release_and_report_refuses(
    run, refused, data, monkeypatch
):
    pages._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run("fit", data, *OPTIONS, "-o", "out")
    assert result.exit_code == 0
    cure = "pip install 'hushcov[report]'"
    assert f"{cure}, then 'hushcov report out' writes the same page." in words(result.stdout)
    assert not Path("out/report.html").exists()
    assert cure in refused(6, "report", "out")
