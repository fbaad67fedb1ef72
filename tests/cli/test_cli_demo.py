"""`hushcov demo`: the way from a table to a release, and what it refuses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest


def _words(text: str) -> str:
    return " ".join(text.replace("|", " ").split())


def test_as_a_newcomer_runs_it(program, tmp_path):
    answer = program("demo", env=os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "ascii"})
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.isascii()
    assert max(map(len, answer.stdout.splitlines())) <= 80
    text = _words(answer.stdout)
    parts = (
        "1. A table demo/patients.csv holds 20,000 simulated patients, one a row, and 12 columns.",
        "$ hushcov plan --records 20000 --features 12 --epsilon 1 --delta 1e-6",
        "What to see: the column 'error'.",
        "$ hushcov fit demo/patients.csv --epsilon 1 --delta 1e-6 -o demo/release",
        "Largest correlations",
        "What to see: 'Largest correlations'",
        "$ hushcov ask predict demo/release weight --given height=180",
        "The true answer is 86 kg.",
        "What to see: demo/release/report.html",
        "'hushcov start DATA'",
    )
    assert [part for part in parts if part not in text] == []
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    # What the sentences say of the release: related pairs near their truth, and the prediction.
    for pair, true in (("glucose, hba1c", 0.87), ("ldl, cholesterol", 0.78)):
        assert abs(float(re.search(rf"{pair} ([\d.]+) ", text)[1]) - true) < 0.2
    assert abs(float(re.search(r"weight ([\d.]+) ", text.split("mean of all")[1])[1]) - 86) < 6
    assert (tmp_path / "demo/patients.csv").read_text().startswith("age,height,weight,systolic,")
    assert (tmp_path / "demo/release/report.html").exists()


def test_a_second_run_has_a_folder_of_its_own(run):
    Path("demo").mkdir()
    Path("demo-2").write_text("mine")
    result = run("demo")
    assert result.exit_code == 0, result.stderr
    assert Path("demo-3/release/release.json").exists()
    assert not list(Path("demo").iterdir())
    assert Path("demo-2").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-o", "here"), 6, "here already exists: choose another folder with --output"),
        (("-o", "file/below"), 6, "file/below: Not a directory"),
        (("--records", 5), 2, "There is no option --records"),
    ],
)
def test_bad_options(refused, arguments, code, message):
    Path("here").mkdir()
    Path("file").write_text("")
    assert message in refused(code, "demo", *arguments)
