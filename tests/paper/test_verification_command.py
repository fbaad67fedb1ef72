"""The command: JSON on standard output and nothing else, exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from hushcov.cli.main import cli
from hushcov.paper.verification.claims import N_CLAIMS

KEYS = {"name", "source", "statement", "bound", "measured", "second", "margin", "holds"}
KEYS |= {"detail", "logarithmic", "vacuous"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["paper", "verify", *arguments])


def test_json() -> None:
    result = run("--features", "6,8", "--row-sparsity", "2", "--runs", "2", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["holds"], found["runs"], found["seed"]) == (True, 2, 0)
    assert [item["inputs"]["n_features"] for item in found["settings"]] == [6, 8]
    for item in found["settings"]:
        assert len(item["claims"]) == N_CLAIMS
        assert all(set(claim) == KEYS for claim in item["claims"])
        assert len(item["relative_errors"]) == 2


def test_a_failed_claim_is_exit_code_1_and_is_explained() -> None:
    result = run("--features", "6", "--records", "1e7", "--runs", "1")
    assert result.exit_code == 1
    assert " NO" in result.stdout
    assert "eta condition: holds" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (
            ("--features", "20,100", "--row-sparsity", "2,5,7"),
            2,
            "--row-sparsity must be one number",
        ),
        (("--features", "20.5"), 2, "not a whole number"),
        (("--features", "4", "--row-sparsity", "5"), 2, "--row-sparsity must be"),
        (("--runs", "0"), 2, "--runs must be an integer at least 1"),
        (("--epsilon", "2"), 2, "--epsilon must be above 0 and at most 1"),
        (("--seed", "-1"), 2, "--seed must be"),
    ],
)
def test_errors(options: tuple[str, ...], code: int, words: str) -> None:
    result = run(*options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
