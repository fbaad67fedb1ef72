"""Run the command line in this process, or as a program of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from click.testing import CliRunner, Result

from hushcov.cli.main import cli

Run = Callable[..., Result]
PATIENCE = 600  # seconds until a program is given up; on a busy computer the quickest take long


def seeded(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment in which programs draw the same noise in every run."""
    folder.mkdir()
    lines = "import random, secrets\nsecrets.randbits = random.Random(0).getrandbits\n"
    (folder / "sitecustomize.py").write_text(lines)
    path = filter(None, (str(folder), environment.get("PYTHONPATH")))
    return {**environment, "PYTHONPATH": os.pathsep.join(path)}


def words(text: str) -> str:
    """The words of a text in one line, however it was broken."""
    return " ".join(text.split())


def in_settings(**lines: Any) -> tuple[str, str]:
    """Write a settings file into the current folder, and return the option that names it."""
    keys = {name.replace("_", "-"): value for name, value in lines.items()}
    path = f"{'-'.join(keys)}.toml"
    Path(path).write_text(tomli_w.dumps(keys))
    return "--settings", path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Run:
    """`run("params", "--records", 10)` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def invoke(*args: object) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args], prog_name="hushcov")
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    return invoke


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Run, expect one line on standard error and an exit code, and return that line."""

    def invoke(code: int, *args: object) -> str:
        result = run(*args)
        assert result.exit_code == code, result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("hushcov: error: ")
        return lines[0].removeprefix("hushcov: error: ")

    return invoke


@pytest.fixture
def program(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line as a program of its own, as a shell would start it."""

    def invoke(*args: str, **options) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hushcov.cli.main", *args],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            **options,
        )

    return invoke
