"""`hushcov export`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from documents import guarantee
from hushcov.release import Making, Release

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
        (("--to", "hdf5"), "'hdf5' is not one of 'npz', 'zarr', 'parquet', 'csv'. See"),
        (("--to", "npz", "--block-size", "gene"), "--block-size must be a number"),
        (("--to", "npz", "--block-size", "chromosome"), "does not say"),
        (("--to", "npz", "-o", "out/in"), "outside the release"),
        ((), "--to"),
    ],
)
def test_what_cannot_be_exported_is_refused(run, release, arguments, words):
    result = run("export", "out", *arguments)
    assert result.exit_code != 0
    assert words in result.stderr
    assert [each.name for each in Path().iterdir()] == ["out"]


def test_a_damaged_release_is_not_exported(run, release):
    (Path("out") / "release.json").write_text("{}")
    result = run("export", "out", "--to", "npz")
    assert result.exit_code == 1
    assert not Path("out-npz").exists()
