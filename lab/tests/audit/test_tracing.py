"""Tracing: what is traced of estimates with and without privacy, and the command."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import special

import hushcov_lab.audit.command
import hushcov_lab.audit.tracing
from hushcov.cli.main import cli
from hushcov_lab.audit.tracing import (
    LARGEST_ERROR,
    TRACED,
    BlockModel,
    needed_records,
    predicted_rows,
    trace,
    tracing_statistic,
    whitened,
)
from hushcov_lab.benchmark.contenders import APPROXIMATE, CONTENDERS
from statistics_helpers import FALSE_ALARM

MODEL = BlockModel(6, 3, LARGEST_ERROR)
TINY = ("--features", "4", "--row-sparsity", "2", "--records", "300", "--runs", "4", "--sizes", "")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", "tracing", *arguments])


def deviations(value: float, error: float, expected: float) -> float:
    return abs(value - expected) / error


def test_a_sample_covariance_is_traced_in_full() -> None:
    """Its sum over records is the squared norm of its error, and on average D."""
    generator = np.random.default_rng(4)
    covariance = MODEL.draw(generator)
    rows = generator.standard_normal((50, 6)) @ np.linalg.cholesky(covariance).T
    sample = rows.T @ rows / 50
    total = tracing_statistic(rows, sample, covariance).sum()
    assert total == pytest.approx(25 * np.linalg.norm(whitened(sample, covariance)) ** 2)
    found = trace("empirical", MODEL, 2000, 1.0, runs=40)
    limit = special.stdtrit(39, 1 - FALSE_ALARM / 4)
    assert deviations(found.total, found.total_error, MODEL.dimension) < limit
    assert deviations(found.total, found.total_error, MODEL.dimension / 2) > limit
    assert deviations(2000 * found.difference, 2000 * found.difference_error, 12) < limit
    assert found.allowed is None
    assert found.survives


@pytest.mark.parametrize("name", ["adaptive", "gaussian"])
def test_private_estimates_are_within_what_is_allowed(name: str) -> None:
    found = trace(name, MODEL, 3000, 1.0, runs=4)
    assert found.survives
    assert found.allowed is not None
    assert 0 < found.total < found.allowed


def test_an_estimate_without_noise_that_claims_privacy_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At epsilon = 0.1 the sum D is far above what is allowed; the alarm is false once in 1e6."""
    false = dataclasses.replace(CONTENDERS["empirical"], privacy=APPROXIMATE)
    monkeypatch.setitem(CONTENDERS, "empirical", false)
    few = {"runs": 40, "alarm_rate": FALSE_ALARM}
    assert not trace("empirical", MODEL, 60, 0.1, **few).survives
    assert trace("gaussian", MODEL, 60, 0.1, **few).survives


def test_accuracy_forces_where_it_holds() -> None:
    assert trace("empirical", BlockModel(2, 1, LARGEST_ERROR), 40_000, 1.0, runs=4).forced == 1
    assert trace("empirical", MODEL, 100, 1.0, runs=4).forced is None


def test_needed_records_are_above_the_bound() -> None:
    heard: list[str] = []
    rows = list(needed_records(10, 2, LARGEST_ERROR, 1.0, heard.append))
    assert len(rows) == len(heard) == predicted_rows()
    assert all(row["ratio"] is None or row["ratio"] > 1 for row in rows)
    assert sum(row["ratio"] is not None for row in rows) >= 4
    assert {row["least"] for row in rows} == {rows[0]["least"]}


def test_json() -> None:
    result = run("gaussian", *TINY, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["survive"], found["unknown"], found["needed"]) == (True, 6, [])
    assert [each["mechanism"] for each in found["traced"]] == ["gaussian"]
    again = json.loads(run("gaussian", *TINY, "--json").stdout)
    assert again == found
    other = json.loads(run("gaussian", *TINY, "--seed", "3", "--json").stdout)
    assert other["traced"] != found["traced"]


@pytest.mark.slow
def test_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "gaussian", "thresholded"
    monkeypatch.setattr(hushcov_lab.audit.command, "TRACED", names)
    result = run("all", *TINY[:-1], "8")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert {"gaussian", "thresholded"} <= {line[0] for line in lines if line}
    assert sum(line[:1] == ["8"] for line in lines) == predicted_rows()
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "every claim survives" in result.stdout


def test_a_broken_claim_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> object:
        return dataclasses.replace(trace(*args, **options), survives=False)  # type: ignore[arg-type]

    monkeypatch.setattr(hushcov_lab.audit.command, "trace", broken)
    result = run("gaussian", *TINY)
    assert result.exit_code == 1
    assert "gaussian: more than privacy allows" in result.stdout


def test_what_cannot_run_is_skipped_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(CONTENDERS["gaussian"], most_features=3, limit="it is a test")
    monkeypatch.setitem(CONTENDERS, "gaussian", small)
    monkeypatch.setattr(hushcov_lab.audit.command, "TRACED", ("gaussian", "empirical"))
    assert "gaussian was skipped: " in run("all", *TINY).stdout
    alone = run("gaussian", *TINY)
    assert alone.exit_code == 5
    assert "at most 3 features: it is a test" in alone.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("laplace",), "MECHANISM"),
        ((), "MECHANISM"),
        (("all", "--features", "0"), "--features must be an integer at least 1"),
        (("all", "--row-sparsity", "21"), "--row-sparsity must be an integer"),
        (("all", "--target-error", "0.1"), "--target-error must be"),
        (("all", "--records", "1"), "--records must be an integer at least 2"),
        (("all", "--runs", "1"), "--runs must be an integer at least 4"),
        (("all", "--epsilon", "20"), "--epsilon must be"),
        (("all", "--sizes", "50,x"), "'x' is not a whole number"),
    ],
)
def test_refusals_are_one_line(options: tuple[str, ...], words: str) -> None:
    result = run(*options)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert result.stdout == ""


def test_everything_but_zeros_and_the_choice_is_traced() -> None:
    assert set(CONTENDERS) - set(TRACED) == {"zero", "auto"}
