"""The transcript on the page about the guided start is what is asked and said."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from click.testing import CliRunner

from docs.pages import DOCS, blocks, is_shown
from hushcov.cli.main import cli

PAGE = (DOCS / "start.md").read_text()
ANSWER = re.compile(r"^  (?:\[.*\] )?>(.*)$", re.MULTILINE)
LAST = "Run it now?"


def test_the_transcript(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, transcript, settings = (
        next(block.text for block in blocks(PAGE) if block.language == language)
        for language in ("python", "text", "toml")
    )
    exec(code, {})
    command, _, shown = transcript.partition("\n")
    *answers, yes = (found.strip() for found in ANSWER.findall(shown))
    assert yes == "yes"
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        cli, command.split()[2:], input="\n".join([*answers, "no", ""]), prog_name="hushcov"
    )
    assert result.exit_code == 0, result.output
    before, _, _ = shown.partition(LAST)
    assert is_shown(before, result.output.partition(LAST)[0], noisy=False)
    assert tomllib.loads(settings) == tomllib.loads(Path("patients-settings.toml").read_text())
    assert settings == Path("patients-settings.toml").read_text()
