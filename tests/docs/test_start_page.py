"""The guided start asks and says what start.txt has, and its page shows parts of that."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from click.testing import CliRunner

from docs.pages import DOCS, blocks, is_shown
from hushcov.cli.main import cli

PAGE = (DOCS / "start.md").read_text()
TRANSCRIPT = (Path(__file__).parent / "start.txt").read_text()  # `...` stands for anything
ANSWER = re.compile(r"^  (?:\[.*\] )?>(.*)$", re.MULTILINE)
LAST = "Run it now?"


def test_the_transcript(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, excerpt, settings = (
        next(block.text for block in blocks(PAGE) if block.language == language)
        for language in ("python", "text", "toml")
    )
    assert is_shown(excerpt, TRANSCRIPT, noisy=False)
    exec(code, {})
    command, _, shown = TRANSCRIPT.partition("\n")
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
