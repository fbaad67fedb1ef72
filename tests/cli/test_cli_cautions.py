"""What `hushcov fit` warns of, refuses, charges and says; and where the words stay."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from command_line import words
from hushcov.kernel.records.base import Records
from hushcov.ledger import Ledger

pytestmark = pytest.mark.usefixtures("no_search")

PUBLIC = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2, "--known-mean")
LEDGER = ("--ledger", "budget.db", "--dataset", "people")
HOPELESS = "5 records of 20 features are too few at this budget"


@pytest.fixture
def ledger(run, tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.open_dataset("people", epsilon=1.2, delta=1e-5)
    return book


@pytest.fixture
def few(run):
    np.save("few.npy", np.ones((5, 20)))
    return "few.npy"


@pytest.fixture
def enough(run):
    np.save("enough.npy", np.random.default_rng(0).normal(size=(4_000, 3)))
    return "enough.npy"


def names():
    return sorted(path.name for path in Path().iterdir())


class Unread(Records):
    """Public sizes only; the exit code tells when a row is asked for."""

    n_records, n_features = 4_000, 3

    def _blocks(self):
        raise KeyboardInterrupt


def test_a_hopeless_fit_is_refused_before_its_charge(run, ledger, few):
    result = run("fit", few, *PUBLIC, *LEDGER)
    assert result.exit_code == 8
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"hushcov: error: {HOPELESS}")
    assert "read or charged" in line
    assert "--allow hopeless" in line
    assert result.stdout == ""  # nothing that would hide the refusal
    assert ledger.history("people") == ()
    assert names() == ["budget.db", "few.npy"]
    assert run("fit", few, *PUBLIC, "--dry-run").exit_code == 8
    assert HOPELESS in words(run("fit", few, *PUBLIC, "--dry-run", "--allow", "hopeless").stdout)


def test_plans_say_it_for_each_number_of_records(run):
    options = ("plan", "--features", 20, *PUBLIC, "--records", 5)
    assert f"WARNING: {HOPELESS}" in words(run(*options).stdout)
    (plan,) = json.loads(run(*options, "--json").stdout)["plans"]
    assert [each.startswith("5 records") for each in plan["warnings"]] == [True, True]
    text = words(run(*options, "--records", 2_000_000).stdout)
    assert "refuses: with 5 records." in text
    assert "WARNING: delta is 1 / n or more" in text
    assert "WARNING: Too few" in text


def test_a_large_delta_is_refused_unless_it_is_allowed(run, ledger, enough):
    options = ("fit", enough, *PUBLIC, "--delta", 1 / 4_000, "-o", "out")
    result = run(*options, *LEDGER)
    assert result.exit_code == 2
    assert "--delta = 0.00025" in result.stderr
    assert "--allow large-delta" in result.stderr
    assert ledger.history("people") == ()
    result = run(*options, "--allow", "large-delta")
    assert result.exit_code == 0
    (sentence,) = json.loads(Path("out/release.json").read_text())["warnings"]
    assert f"WARNING: {sentence}" in words(result.stdout)
    assert f"WARNING: {sentence}" in words(run("show", "out").stdout)


@pytest.fixture
def unread(monkeypatch, enough):
    monkeypatch.setattr("hushcov.tables.sources.open_records", lambda *_, **__: Unread())
    return enough


def test_a_dry_run_says_everything_and_does_nothing(run, ledger, unread):
    before = names()
    result = run("fit", unread, *PUBLIC, *LEDGER, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    text = words(result.stdout)
    left = ledger.remaining("people").epsilon
    for part in (
        "What will be released from enough.npy: 4,000 records of 3 features",
        "(1, 1e-6)-differential privacy",
        "expected error about",
        "into enough-release/",
        "the charge would fit, and epsilon",
        "No record was read, and nothing was charged or written.",
    ):
        assert part in text
    assert ledger.history("people") == ()
    assert names() == before
    found = json.loads(run("fit", unread, *PUBLIC, *LEDGER, "--dry-run", "--json").stdout)
    assert found["dry_run"] is True
    assert found["warnings"] == []
    assert found["guarantee"]["epsilon"] == 1
    assert 0 <= found["ledger"]["epsilon_left"] < left
    assert names() == before


def test_a_dry_run_says_what_the_charge_leaves(run, ledger, enough):
    options = ("fit", enough, *PUBLIC, "--epsilon", 0.5, *LEDGER)
    quoted = json.loads(run(*options, "--dry-run", "--json").stdout)["ledger"]
    assert run(*options).exit_code == 0
    left = ledger.remaining("people")
    assert (quoted["epsilon_left"], quoted["pure_epsilon_left"]) == (
        pytest.approx(left.epsilon),
        pytest.approx(left.pure_epsilon),
    )


def charged(receipt):
    return (
        f"Dataset {receipt.dataset!r} in the ledger budget.db was charged epsilon 1 and delta 1e-6 "
        "before any record was read, as release 1: that stands."
    )


def test_a_full_disk_says_what_was_charged_and_that_nothing_was_written(
    run, ledger, enough, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(os, "fsync", full)
    result = run("fit", enough, *PUBLIC, *LEDGER)
    assert result.exit_code == 6
    (receipt,) = ledger.history("people")
    assert "No space left" in result.stderr
    assert result.stderr.endswith(f"{charged(receipt)} No estimate was released.\n")
    assert names() == ["budget.db", "enough.npy"]
