"""`hushcov fit` by mechanisms whose error is not predicted, and what is said of their releases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import words
from hushcov.accounting.ledger import Ledger
from hushcov.planning import mechanisms, predicted
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance

PUBLIC = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 3)
SCALE = 2.0
TRUTH = SCALE**2 * sparse_covariance("block", 6, 3)
PEERS = [name for name in mechanisms() if name not in predicted()]
PURE = [name for name in PEERS if mechanisms()[name].pure]


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", gaussian_records(TRUTH, 20_000, random_state=1))
    return tmp_path / "x.npy"


@pytest.mark.parametrize("name", PEERS)
def test_a_release_by_a_peer(run, data, name):
    """A fit, its dry run, and every command that reads the folder."""
    options = (
        data,
        *PUBLIC,
        "--mechanism",
        name,
        "--feature-scale",
        SCALE,
        "--known-mean",
        "--json",
    )
    planned = json.loads(run("fit", *options, "--dry-run").stdout)
    result = run("fit", *options)
    assert result.exit_code == 0, result.stderr
    assert f"expected error not predicted for {name}" in words(result.stderr)
    assert f"{name}, as you chose; predicted errors of others: " in words(result.stderr)
    found = json.loads(result.stdout)
    assert found["mechanism"] == planned["mechanism"] == name
    for key in ("epsilon", "delta", "private", "preconditions"):
        assert found["guarantee"][key] == planned["guarantee"][key]
    spent = [each["guarantee"]["transcript_epsilon"] for each in (planned, found)]
    assert spent == pytest.approx([1.0, 1.0], rel=1e-5, abs=0)
    for unknown in ("predicted_error", "typical_error", "detection_limit", "hopeless"):
        assert found[unknown] is planned[unknown] is None
    assert {each["mechanism"] for each in found["forecasts"]} <= set(predicted())
    estimate = np.load("x-release/covariance.npy")
    assert np.linalg.norm(estimate - TRUTH, 2) < 0.5 * np.linalg.norm(TRUTH, 2)
    shown = run("show", "x-release")
    assert f"mechanism {name} " in words(shown.stdout)
    assert run("report", "x-release", "-o", "page.html").exit_code == 0
    assert Path("page.html").read_text() == Path("x-release/report.html").read_text()


@pytest.mark.parametrize("name", sorted(set(PEERS) - set(PURE)))
def test_peers_with_a_delta_find_scales(run, data, name):
    result = run("fit", data, *PUBLIC, "--mechanism", name, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "(1, 1e-6)-differential privacy" in words(result.stdout)
    assert "the features' means and scales, and the norms of records," in words(result.stdout)
    known = run("fit", data, *PUBLIC, "--mechanism", name, "--known-mean", "--dry-run")
    assert "the features' scales, estimated privately" in words(known.stdout)


@pytest.mark.parametrize("name", PURE)
def test_a_guarantee_without_a_delta(run, refused, data, name):
    """What is announced, charged and shown is pure, and what needs a delta is refused."""
    options = (data, *PUBLIC, "--mechanism", name)
    start = f"--known-mean is required with --mechanism {name}: "
    assert refused(2, "fit", *options).startswith(start)
    options = (*options, "--known-mean")
    start = f"--feature-scale is required with --mechanism {name}: "
    assert refused(2, "fit", *options).startswith(start)
    options = (*options, "--feature-scale", SCALE)
    start = f"--drop-nulls must be left out with --mechanism {name}: "
    assert refused(2, "fit", *options, "--drop-nulls").startswith(start)
    Ledger("budget.db").open_dataset("people", 2.0, 0.0)
    result = run("fit", *options, "--ledger", "budget.db", "--dataset", "people", "-o", "out")
    assert result.exit_code == 0, result.stderr
    promise = "Pure 1-differential privacy"
    assert promise in words(result.stdout)
    assert "The delta of 1e-6 is not used." in words(result.stdout)
    assert Release.read("out").guarantee.delta == 0
    assert Release.read("out").making.dataset == "people"
    assert Ledger("budget.db").statement("people").spent().delta == 0
    assert promise in words(run("show", "out").stdout)


def test_many_features_take_long(run, tmp_path):
    """A mechanism that says so takes minutes; that is announced."""
    np.save(tmp_path / "wide.npy", np.zeros((10, 201)))
    options = ("--mechanism", "eigen-sampling", "--feature-scale", 1, "--known-mean", "--dry-run")
    result = run("fit", "wide.npy", *PUBLIC, *options)
    assert "time long, with more than 200 features: " in words(result.stdout)
