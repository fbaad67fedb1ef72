"""`hushcov show`, `report` and `export`: what they say of a release, and what they refuse."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from command_line import words
from documents import guarantee, quick_forecast
from hushcov.fit import outlook
from hushcov.release import Making, Release
from hushcov.report import pages
from hushcov.simulate import gaussian_records, sparse_covariance


def write(folder="out", **changes) -> Path:
    private = changes.pop("private", True)
    promised = ("epsilon", "delta", "transcript_epsilon", "transcript_delta")
    said = {name: changes.pop(name) for name in promised if name in changes}
    parts = {
        "mechanism": "screened",
        "integers": np.array([[4, -1, 0], [-1, 1, 0], [0, 0, 9]]),
        "unit": 0.5,
        "guarantee": guarantee(preconditions=("rows are bounded",), private=private, **said),
        "parameters": {"inputs": {"n_records": 12_345, "epsilon": 1.0, "spent": []}},
        "feature_scale": np.array([1.0, 2.0, 3.0]),
        "noise_sd": (0.25, 0.125),
        "selected": np.array([[0], [1]]),
    }
    return Release(**parts | changes).write(folder)


def test_everything_is_said(run):
    write()
    result = run("show", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = words(result.stdout)
    for part in (
        "Release in out/",
        "undamaged yes: integers.npy match",
        "signature none: checksums do not say who wrote the files",
        "made by hushcov 0.1.0, numpy 2",
        "private yes",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "odds somebody who is 1, 10 or 50 % sure what one record is can become 2.67,",
        "spent epsilon 0.5, delta 1e-6 conditions",
        "conditions rows are bounded",
        "mechanism screened",
        "public inputs the size of the data, epsilon 1",
        "size 3 features: a 3 x 3 covariance",
        "pairs 1 of 3 pairs was selected and released",
        "noise standard deviation 0.25 on a pair and 0.125 on a variance",
        "0, 1 -0.500 -1",
    ):
        assert part in text
    assert "NOT PRIVATE" not in text


def test_json(run):
    folder = write(column_names=("a", "b", "c"))
    found = json.loads(run("show", "out", "--json").stdout)
    assert (found["undamaged"], found["signature"]) == (True, "none")
    assert "verified" not in found
    written = json.loads((folder / "release.json").read_text())
    assert {name: found[name] for name in written} == written
    assert found["released_pairs"] == 1
    assert found["largest_pairs"][0]["features"] == [0, 1]
    assert found["not_part_of_it"] == []
    write("other", private=False)
    assert "NOT PRIVATE" in run("show", "other").stdout


def named(**changes) -> Path:
    places = {
        "positions": np.array([10, 20, 40]),
        "chromosomes": ("1", "1", "2"),
        "making": Making(n_records=10_000),
    }
    return write(column_names=("rs1", "rs2", "rs30"), **places | changes)


def test_columns_and_their_pairs(run):
    named()
    text = words(run("show", "out", "--column", "rs1").stdout)
    for part in ("rs1 and its pairs", "chromosome 1, position 10", "rs2 1 20 -0.5"):
        assert part in text
    found = json.loads(run("show", "out", "--column", "rs1", "--json").stdout)
    assert found["position"] == 10
    assert [(each["feature"], each["columns_away"]) for each in found["pairs"]] == [("rs2", 1)]
    nothing = json.loads(run("show", "out", "--column", "rs30", "--window", 1, "--json").stdout)
    assert nothing["pairs"] == []
    text = words(run("show", "out", "--column", "rs").stdout)
    assert "3 columns with 'rs' in the name" in text
    assert json.loads(run("show", "out", "--column", "rs?", "--json").stdout) == {
        "matching": ["rs1", "rs2"],
        "number": 2,
    }
    assert "rs30 and its pairs" in run("show", "out", "--column", "*30").stdout
    text = words(run("show", "out", "--columns", "rs1..rs30").stdout)
    assert "3, from rs1 to rs30" in text
    assert "rs1 rs2 -0.5" in text
    found = json.loads(run("show", "out", "--columns", "rs30..rs1", "--json").stdout)
    assert found["columns"] == ["rs1", "rs2", "rs30"]
    assert found["correlation"][0] == [1.0, pytest.approx(-0.5), None]
    assert found["positions"] == [10, 20, 40]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--column", "zz"], "none of its 3 has 'zz'"),
        (["--column", "rs1", "--columns", "rs1..rs2"], "must not be given both"),
        (["--window", "3"], "--window must be given with --column"),
        (["--columns", "rs1"], "two columns like A..B"),
        (["--columns", "rs..rs2"], "part of 3 names"),
        (["--columns", "rs1..zz"], "none of its 3 has 'zz'"),
        (["--column", "rs1", "--window", "0"], "window must be"),
    ],
)
def test_columns_that_are_not_there(run, options, said):
    named()
    result = run("show", "out", *options)
    assert result.exit_code != 0
    assert said in words(result.stderr)
    assert "raceback" not in result.stderr


def test_showing_a_release_loads_little(run):
    write()
    code = (
        "import sys; from hushcov.cli.main import cli\n"
        "try: cli.main(['show', 'out'])\n"
        "except SystemExit: pass\n"
        "print(sum(name.split('.')[0] == 'hushcov' for name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stderr) <= 50


OPTIONS = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2)


@pytest.fixture(autouse=True)
def no_searches(monkeypatch):
    monkeypatch.setattr(outlook, "forecast", quick_forecast)


def write_two(folder="out", *, private=True) -> Path:
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
    write_two()
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


def test_refusals(refused):
    folder = write_two()
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


def test_without_the_extra_fit_writes_the_release_and_report_refuses(
    run, refused, data, monkeypatch
):
    pages._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run("fit", data, *OPTIONS, "-o", "out")
    assert result.exit_code == 0
    cure = "pip install 'hushcov[report]'"
    assert f"{cure}, then 'hushcov report out' makes the page with all pictures" in words(
        result.stdout
    )
    assert not Path("out/report.html").exists()
    assert cure in refused(6, "report", "out")


MATRIX = np.array([[900, 890, 0], [890, 900, 890], [0, 890, 900]])


@pytest.fixture
def release(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = Release(
        mechanism="gaussian",
        integers=sparse.csr_array(MATRIX),
        unit=0.001,
        guarantee=guarantee(),
        parameters={},
        noise_sd=(0.01, 0.01),
        selected=np.array([[0, 1], [1, 2]]),
        column_names=("rs1", "rs2", "rs3"),
        making=Making(n_records=10_000),
    )
    return made.write("out")


def test_npz_with_the_change_that_was_made(run, release):
    result = run("export", "out", "--to", "npz")
    assert result.exit_code == 0, result.stderr
    upper = sparse.load_npz("out-npz/matrix.npz").toarray()
    matrix = upper + upper.T
    assert np.linalg.eigvalsh(matrix)[0] > 0
    words = " ".join(result.stdout.split())
    change = np.abs(matrix - MATRIX / 900).max()
    assert f"correlations by {change:.2g} at most" in words
    assert "3 features, 2 pairs" in words
    assert "nothing; export.json says all this" in words
    assert pd.read_csv("out-npz/matrix.features.csv")["name"].tolist() == ["rs1", "rs2", "rs3"]


def test_options_and_json(run, release):
    arguments = ("--to", "csv", "-o", "here", "--covariance", "--no-psd", "--block-size", 2)
    result = run("export", "out", *arguments, "--json")
    said = json.loads(result.stdout)
    assert said["files"] == ["export.json", "features.csv", "pairs.csv"]
    assert said["values"] == "covariance"
    assert said["correction"]["cut_pairs"] == 1
    assert not said["correction"]["psd"]
    table = pd.read_csv("here/pairs.csv")
    assert table["covariance"].tolist() == [MATRIX[0, 1] * 0.001]
    again = run("export", "out", *arguments)
    assert again.exit_code != 0
    assert "holds an export" in again.stderr
    words = " ".join(run("export", "out", *arguments, "--overwrite").stdout.split())
    assert "may have negative eigenvalues" in words
    assert "1 pair across blocks" in words
    assert "in 2 blocks" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "hdf5"), "'hdf5' is not one of 'npz', 'zarr', 'parquet', 'csv', 'lavaan'"),
        (("--to", "npz", "--block-size", "gene"), "--block-size must be a number"),
        (("--to", "npz", "--block-size", "chromosome"), "does not say"),
        (("--to", "npz", "-o", "out/in"), "outside the release"),
        (("--to", "lavaan", "--features", "nobody"), "features must be names or positions"),
        (("--to", "npz", "--features", "0,1"), "features must be"),
        ((), "--to"),
    ],
)
def test_what_cannot_be_exported_is_refused(run, release, arguments, words):
    result = run("export", "out", *arguments)
    assert result.exit_code != 0
    assert words in result.stderr
    assert [each.name for each in Path().iterdir()] == ["out"]
