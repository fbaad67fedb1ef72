"""The command: table, JSON, figure, exit codes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hushcov_lab.audit.command
from hushcov.cli.main import cli
from hushcov_lab.audit.run import AuditResult, audit

KEYS = {"mechanism", "pair", "statistic", "method", "claimed_epsilon", "delta"}
KEYS |= {"measured_epsilon", "runs", "alarm_rate", "ratio", "survives"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments])


def broken(mechanism: str, **options: object) -> tuple[AuditResult, ...]:
    """An audit whose first attack breaks the claim."""
    first, *rest = audit(mechanism, runs=100)
    return (dataclasses.replace(first, measured_epsilon=9.5), *rest)


def test_json() -> None:
    result = run("scales", "--runs", "200", "--seed", "4", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["survive"], found["seed"]) == (True, 4)
    assert [set(attack) for attack in found["attacks"]] == [KEYS, KEYS]
    assert all(attack["runs"] == 200 for attack in found["attacks"])


def test_a_broken_claim_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hushcov_lab.audit.command, "audit", broken)
    result = run("scales")
    assert result.exit_code == 1
    assert sum(line.endswith(" BROKEN") for line in result.stdout.splitlines()) == 1
    assert "2 attacks: 1 breaks" in result.stdout
    assert json.loads(run("scales", "--json").stdout)["survive"] is False


def test_the_figure(tmp_path: Path) -> None:
    figure = tmp_path / "audit.png"
    result = run("gaussian", "--runs", "100", "--figure", str(figure))
    assert result.exit_code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "audit.png" in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("laplace",), 2, "MECHANISM"),
        ((), 2, "MECHANISM"),
        (("scales", "--runs", "10"), 2, "--runs must be an integer at least 100"),
        (("scales", "--quick", "--runs", "500"), 2, "--quick cannot be given together with --runs"),
        (("scales", "--figure", "nowhere/audit.png"), 6, "nowhere"),
    ],
)
def test_refusals_are_one_line(options: tuple[str, ...], code: int, words: str) -> None:
    result = run(*options)
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert result.stdout == ""
