"""`hushcov fit` of genotypes: packed files, tables, dry runs, and what is refused."""

import json

import numpy as np
import pytest

from command_line import in_settings, run
from hushcov import load
from hushcov_genotypes.reading import write_bed
from literal_genotypes import linked_genotypes

__all__ = ["run"]

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
