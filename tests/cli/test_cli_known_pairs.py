"""`hushcov fit` and `plan` where it is public which pairs may covary, and of genotypes."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from command_line import in_settings
from hushcov import load
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov_genotypes.reading import write_bed
from literal_genotypes import linked_genotypes

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


OF_FIVE = ["--epsilon", "5", "--delta", "1e-6"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    table = linked_genotypes(3000, 40, 1, missing=0.02)
    write_bed(folder / "cohort.bed", np.nan_to_num(table, nan=-1).astype(np.int8))
    np.save(folder / "cohort.npy", table)
    np.save(folder / "frequencies.npy", np.nanmean(table, axis=0) / 2)
    return folder


def test_a_plink_file_is_fitted(run, cohort, tmp_path):
    out = tmp_path / "release"
    found = run("fit", cohort / "cohort.bed", "--bandwidth", 5, *OF_FIVE, "-o", out)
    assert found.exit_code == 0, found.output
    assert "covariance of genotypes within windows" in found.output
    assert "of the records lay far out and were left out" in " ".join(found.output.split())
    release = load(out).release_
    assert (release.mechanism, release.n_features) == ("genotypes", 40)
    assert release.selected.shape[1] == 5 * 40 - 15
    shown = run("show", out)
    assert shown.exit_code == 0
    assert "left out" in shown.output


def test_a_table_of_genotypes_with_all_that_may_be_said(run, cohort, tmp_path):
    options = ["--mechanism", "genotypes", "--bandwidth", 5, "--neighbours", "add-remove"]
    options += [*in_settings(frequencies=str(cohort / "frequencies.npy")), "--json"]
    found = run("fit", cohort / "cohort.npy", *options, *OF_FIVE, "-o", tmp_path / "release")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["mechanism"] == "genotypes"
    assert result["guarantee"]["adjacency"] == "add-remove-one"
    assert result["plan"]["known"]
    # Not the exact number, which is not public.
    released = result["plan"]["inputs"]["n_records"]
    assert result["n_records"] == released


def test_a_dry_run_reads_nothing(run, cohort, tmp_path):
    arguments = ["fit", cohort / "cohort.bed", "--bandwidth", 5, *OF_FIVE, "-o", tmp_path / "r"]
    assert "No record was read" in run(*arguments, "--dry-run").output
    removed = [*arguments, "--dry-run", "--neighbours", "add-remove"]
    assert "--records is required with --dry-run" in " ".join(run(*removed).output.split())
    guessed = run(*removed, "--records", 2500).output
    assert "No record was read" in guessed
    assert "about 2,500 records" in guessed
    assert "3,000" not in guessed  # the exact number, which is not public
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--row-sparsity", 5], "--row-sparsity must be left out with genotypes"),
        (["--mechanism", "gaussian"], "--mechanism must be auto or genotypes"),
        (["--records", 5], "--records must be what"),
        (["--neighbours", "add-remove", "--records", 5], "--records must be left out where"),
        (["--candidate-pairs", "pairs.npz"], "one of bandwidth, window_bp, candidate_pairs"),
    ],
)
def test_what_means_nothing_for_genotypes_is_refused(run, cohort, tmp_path, options, words):
    usual = ["--bandwidth", 5, *OF_FIVE, "-o", tmp_path / "release"]
    found = run("fit", cohort / "cohort.bed", *usual, *options)
    assert found.exit_code != 0
    assert words in " ".join(found.output.split())
