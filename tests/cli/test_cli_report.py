"""`hushcov report`, and the report that `hushcov fit` puts into a release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hushcov.accounting import Gaussian, Guarantee
from hushcov.cli import report
from hushcov.planning import Forecast
from hushcov.release import Release
from hushcov.report.html import outlook
from hushcov.simulate import gaussian_records, sparse_covariance

OPTIONS = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2)


@pytest.fixture(autouse=True)
def no_searches(monkeypatch):
    def quick(inputs, mechanism, *, rough=False):
        return Forecast(mechanism, dict.fromkeys(("block", "banded", "random"), 0.1), 0.25, rough)

    monkeypatch.setattr(outlook, "forecast", quick)


def write(folder="out", *, private=True) -> Path:
    guarantee = Guarantee(
        epsilon=1.0,
        delta=1e-6,
        transcript_epsilon=0.5,
        transcript_delta=1e-6,
        numerical_delta=0.0,
        events=(Gaussian(0.1),),
        method="gaussian",
        preconditions=("rows are bounded",),
        private=private,
    )
    release = Release(
        mechanism="gaussian",
        integers=np.array([[900, 400], [400, 900]]),
        unit=0.001,
        guarantee=guarantee,
        parameters={"inputs": {"n_records": 10_000, "row_sparsity": 2, "delta": 1e-6}},
        feature_scale=np.ones(2),
        noise_sd=(0.01, 0.01),
    )
    return release.write(folder, column_names=["age", "<b>weight"])


def _words(text: str) -> str:
    return " ".join(text.split())


def test_a_page_beside_the_release(run):
    write()
    result = run("report", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = _words(result.stdout)
    assert "Report of out/" in text
    assert "release 2 features, by gaussian" in text
    assert "written out-report.html (" in text
    page = Path("out-report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;weight" in page
    assert "<b>weight" not in page
    assert "The release was written 20" in page
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
    assert "must be the folder of a release" in refused(6, "report", "nowhere")
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
    assert "report.html guarantee, heat map, graph, intervals" in _words(result.stdout)
    listed = json.loads(Path("x-release/release.json").read_text())["files"]
    assert "report.html" in listed
    page = Path("x-release/report.html").read_text("utf-8")
    assert "from 2,000 differences of two records" in page
    assert "NOT PRIVATE" not in page
    # The same release read from its folder gives the same, but for what only the fit knew.
    run("report", "x-release", "-o", "again.html")
    again = Path("again.html").read_text("utf-8")
    largest = [text.partition('id="largest"')[2].partition("<section")[0] for text in (page, again)]
    assert "95 % interval of the covariance" in largest[0]
    assert largest[0] == largest[1]


def test_a_report_that_fails_does_not_cost_the_release(run, data, monkeypatch):
    def broken(path, *_, **__):
        path.write_text("half a page")
        raise MemoryError("no")

    monkeypatch.setattr(report, "write_report", broken)
    result = run("fit", data, *OPTIONS, "-o", "out")
    assert result.exit_code == 0
    assert "report.html not written: MemoryError. Try 'hushcov report out'." in _words(
        result.stdout
    )
    assert not Path("out/report.html").exists()
    assert run("show", "out").exit_code == 0
