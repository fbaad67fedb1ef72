"""`hushcov fit` and `plan` where it is public which pairs may covary."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance

D = 8
BUDGET = ("--epsilon", 2, "--delta", 1e-6)
PAIRS = "first,second\nv0,v1\nv2,v3,v4\n"


@pytest.fixture
def data(tmp_path):
    X = gaussian_records(sparse_covariance("banded", D, 3), 4_000, random_state=0) + 1
    names = ",".join(f"v{i}" for i in range(D))
    np.savetxt(tmp_path / "x.csv", X, "%.4f", ",", header=names, comments="")
    (tmp_path / "pairs.csv").write_text(PAIRS)
    return tmp_path / "x.csv"


def test_a_band_is_released_and_nothing_beside_it(run, data):
    result = run("fit", data, *BUDGET, "--bandwidth", 2, "-o", "out")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "pairs at most 2 columns apart, 13 of them, of 28 pairs" in said
    assert "candidates: looks at the candidate pairs alone" in said
    assert "assumed" not in said
    rows, columns = sparse.load_npz("out/covariance.npz").nonzero()
    assert abs(rows - columns).max() <= 2
    release = Release.read("out")
    assert release.name == "candidates"
    assert release.parameters["inputs"]["bandwidth"] == 2
    assert run("show", "out").exit_code == 0
    # The report names what was told, beside a verdict that holds for that alone.
    page = " ".join(Path("out/report.html").read_text(encoding="utf-8").split())
    assert "<li>2 columns apart, at most, are pairs that may covary" in page
    assert "nonzeros in a row" not in page  # which nobody told
    assert "if all pairs but the candidates are zero" in page


def test_pairs_of_a_file_by_name_from_settings(run, data, tmp_path):
    """Paths start at the folder of the settings; the plan of a fit says what memory it takes."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "s.toml").write_text(
        'data = "../x.csv"\nepsilon = 2\ndelta = 1e-6\ncandidate-pairs = "../pairs.csv"\n'
    )
    found = json.loads(run("fit", "--settings", "inner/s.toml", "--dry-run", "--json").stdout)
    assert found["mechanism"] == "candidates"
    able = {"candidates", "screened", "gaussian"}
    assert {each["mechanism"] for each in found["forecasts"]} == able
    chosen = ("--mechanism", "screened", "-o", "out", "--json")
    made = json.loads(run("fit", "--settings", "inner/s.toml", *chosen).stdout)
    assert made["mechanism"] == "screened"
    assert made["parameters"]["inputs"]["candidate_pairs"] == 4
    selected = Release.read("out").selected
    assert selected.T.tolist() == [[0, 1], [2, 3], [2, 4], [3, 4]]


def test_a_width_that_is_found(run, data):
    said = run("fit", data, *BUDGET, "--bandwidth", "up-to:4", "--dry-run").stdout
    assert "finds how far apart features covary, up to 4 columns" in " ".join(said.split())
    (data.parent / "s.toml").write_text('bandwidth = "up-to:4"\n')
    plan = ("plan", "--settings", "s.toml", "--features", D, "--records", 4_000, *BUDGET)
    found = json.loads(run(*plan, "--json").stdout)
    assert (found["bandwidth"], found["adaptive_width"]) == (4, True)
    assert found["designs"]["candidates"]["adaptive_width"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bandwidth", 2, "--candidate-pairs", "pairs.csv"), "must not be given both"),
        (("--bandwidth", -1), "--bandwidth must be an integer at least 0"),
        (("--bandwidth", 1.5), "whole number"),
        (("--candidate-pairs", "none.csv"), "none.csv does not exist: check the path."),
        (("--candidate-pairs", "wrong.csv"), "did you mean 'v1', 'v2'"),
        (("--bandwidth", "up-to:x"), "whole number"),
        (("--bandwidth", "up-to:2", "--mechanism", "gaussian"), "leave mechanism out to find"),
        (("--bandwidth", 2, "--mechanism", "adaptive"), "'screened' or 'gaussian' or 'auto'"),
    ],
)
def test_fit_refuses(refused, data, words, message):
    (data.parent / "wrong.csv").write_text("v0,v1\nv_1,v_2\n")
    assert message in refused(2, "fit", data, *BUDGET, *words)
    assert not (data.parent / "x-release").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bandwidth", 2, "--mechanism", "adaptive"), "must be left out with adaptive"),
        (("--mechanism", "candidates"), "is required by candidates"),
        (("--candidate-pairs", "pairs.csv"), "the columns have no names: give positions"),
        (("--bandwidth", 2, "--row-sparsity", 9), "--row-sparsity must be an integer"),
    ],
)
def test_plan_refuses(refused, data, words, message):
    assert message in refused(2, "plan", "--features", D, *BUDGET, *words)
