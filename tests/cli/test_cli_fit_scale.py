"""`hushcov fit` and `plan` at size: sparse output, devices, and memory."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

from hushcov.cli import plan
from hushcov.estimators import scaled
from hushcov.planning import fit_memory, registry
from hushcov.planning.registry import PICTURES
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables import compact

PUBLIC = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2)


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", gaussian_records(sparse_covariance("block", 6, 2), 4_000))
    return tmp_path / "x.npy"


@pytest.fixture
def many(monkeypatch):
    """As if more than five features were many."""
    for module in (scaled, plan):
        monkeypatch.setattr(module, "LARGEST_DENSE", 5)


def test_many_features_are_written_as_a_sparse_matrix(run, data, tmp_path, many):
    result = run("fit", data, *PUBLIC, "-o", "out")
    assert result.exit_code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert "covariance.npz" in names
    assert "covariance.npy" not in names
    assert "covariance.npz" in result.stdout
    estimate, release = sparse.load_npz("out/covariance.npz"), Release.read("out")
    assert sparse.issparse(release.integers)
    shown = estimate.toarray() != 0
    assert np.array_equal(estimate.toarray()[shown], release.covariance().toarray()[shown])
    assert "(0, 1)" in str(estimate) or estimate.nnz >= 6
    shown = json.loads(run("show", "out", "--json").stdout)
    assert shown["released_pairs"] == release.selected.shape[1]
    assert shown["largest_pairs"]
    again = run("fit", data, *PUBLIC, "-o", "out")
    assert again.exit_code == 6


def test_only_releases_of_pairs_are_run_with_many_features(run, refused, data, many):
    assert json.loads(run("fit", data, *PUBLIC, "--json").stdout)["mechanism"] == "adaptive"
    chosen = ("--mechanism", "screened", "-o", "a", "--json")
    assert json.loads(run("fit", data, *PUBLIC, *chosen).stdout)["mechanism"] == "screened"
    message = refused(2, "fit", data, *PUBLIC, "--mechanism", "gaussian", "-o", "b")
    assert "sparse output" in message


def test_devices(run, refused, data):
    assert run("fit", data, *PUBLIC, "--device", "cpu").exit_code == 0
    assert "device must name" in refused(2, "fit", data, *PUBLIC, "--device", "x", "-o", "b")


def test_memory_is_announced(run, data):
    result = run("fit", data, *PUBLIC)
    words = " ".join(result.stdout.split())
    assert "at most about 39" in words
    result = json.loads(run("fit", data, *PUBLIC, "-o", "b", "--json").stdout)
    expected = PICTURES + fit_memory(result["mechanism"], 4_000, 6)
    assert result["predicted_memory_bytes"] == expected


def test_memory_in_the_plan(run):
    size = ("--features", 10_000, *PUBLIC, "--records", 100_000)
    chosen = ("--mechanism", "screened", "--mechanism", "gaussian")
    words = " ".join(run("plan", *size, *chosen).stdout.split())
    assert "about 2.96 GB" in words
    (plan,) = json.loads(run("plan", *size, *chosen, "--json").stdout)["plans"]
    for each in plan["forecasts"]:
        assert each["memory_bytes"] == PICTURES + fit_memory(each["mechanism"], 100_000, 10_000)


def test_what_does_not_fit_in_memory_is_refused(refused, data, monkeypatch):
    monkeypatch.setattr(registry, "total_memory", lambda: 10**8)
    assert "100 MB are there" in refused(5, "fit", data, *PUBLIC)


def test_a_scratch_folder_is_empty_afterwards(run, refused, tmp_path, monkeypatch):
    """Where no copy would be kept in memory."""
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    rows = gaussian_records(sparse_covariance("block", 6, 2), 4_000)
    names = [f"x{i}" for i in range(6)]
    table = pyarrow.table({name: rows[:, i] for i, name in enumerate(names)})
    parquet.write_table(table, tmp_path / "rows.parquet")
    folder = tmp_path / "scratch"
    folder.mkdir()
    scratch = ("fit", "rows.parquet", *PUBLIC, "--scratch", folder)
    assert run(*scratch, "-o", "a").exit_code == 0
    assert not [*folder.iterdir()]
    elsewhere = ("--scheduler", "tcp://127.0.0.1:1")
    assert "--scratch must be left out" in refused(2, *scratch, *elsewhere, "-o", "b")
