"""`hushcov fit` and `plan` of genotypes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from genotypes.literal import linked_genotypes
from hushcov import load
from hushcov.genotypes.reading import write_bed

BUDGET = ["--epsilon", "5", "--delta", "1e-6"]


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
    found = run("fit", cohort / "cohort.bed", "--bandwidth", 5, *BUDGET, "-o", out)
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
    options += ["--frequencies", cohort / "frequencies.npy", "--tables", "none", "--json"]
    found = run("fit", cohort / "cohort.npy", *options, *BUDGET, "-o", tmp_path / "release")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["mechanism"] == "genotypes"
    assert result["guarantee"]["adjacency"] == "add-remove-one"
    assert result["plan"]["known"]
    # Not the exact number, which is not public.
    released = result["plan"]["inputs"]["n_records"]
    assert result["n_records"] == released


def test_a_dry_run_reads_nothing(run, cohort, tmp_path):
    arguments = ["fit", cohort / "cohort.bed", "--bandwidth", 5, *BUDGET, "-o", tmp_path / "r"]
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
        (["--psd"], "--psd must be left out with genotypes"),
        (["--row-sparsity", 5], "--row-sparsity must be left out with genotypes"),
        (["--mechanism", "gaussian"], "--mechanism must be auto or genotypes"),
        (["--records", 5], "--records must be what"),
        (["--neighbours", "add-remove", "--records", 5], "--records must be left out where"),
        (["--candidate-pairs", "pairs.npz"], "one of bandwidth, window_bp, candidate_pairs"),
    ],
)
def test_what_means_nothing_for_genotypes_is_refused(run, cohort, tmp_path, options, words):
    usual = ["--bandwidth", 5, *BUDGET, "-o", tmp_path / "release"]
    found = run("fit", cohort / "cohort.bed", *usual, *options)
    assert found.exit_code != 0
    assert words in " ".join(found.output.split())


def test_windows_by_position_are_for_genotypes(run, cohort, tmp_path):
    options = ("--bandwidth", "5bp", *BUDGET, "-o", tmp_path / "r")
    found = run("fit", cohort / "cohort.bed", *options, "--dry-run", "--json")
    assert found.exit_code == 0, found.output
    found = run("fit", cohort / "cohort.npy", *options)
    assert found.exit_code == 2
    assert "--bandwidth must be a number of columns without" in " ".join(found.output.split())


def test_noise_is_planned_for(run, cohort):
    arguments = ["plan", "--mechanism", "genotypes", "--features", 1000000, "--bandwidth", 20]
    found = run(*arguments, *BUDGET, "--records", 100000, "--json")
    assert found.exit_code == 0, found.output
    (plan,) = json.loads(found.stdout)["plans"]
    mu = plan["value_mu"]
    assert plan["noise"] == pytest.approx(1.5 * 2 * np.sqrt(20.99979e6) / (1e5 * mu), rel=1e-3)
    table = run(*arguments, *BUDGET)
    assert "noise of r" in table.output
    refused = run(*arguments, *BUDGET, "--row-sparsity", 5)
    assert refused.exit_code != 0
    assert "--row-sparsity means nothing" in refused.output
