"""Names of columns may have any characters: no output lets a terminal or a browser obey them."""

import csv
import json
import subprocess
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import hushcov
from hushcov.answers.files import csv_text, write_table
from hushcov.cli.main import cli
from hushcov.exceptions import AccuracyWarning, HushcovError

SIGNS = (
    *("\x1b[31m", "\x07", "\b", "\r", "\n", "\t", "\x7f", "\x9b", "\0"),
    *("\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u2029", "\ufeff", "\u200b"),
)
NAMES = [f"{i}{sign}x" for i, sign in enumerate(SIGNS)]
#: Features of every kind: mapped, levels of a category, constant, and the rest.
FLAT, MAPPED, PLAIN = NAMES[0], NAMES[1], NAMES[2:]
LEVELS = [f"c{SIGNS[0]}={sign}level" for sign in SIGNS[:2]]
BUDGET = {"epsilon": 4.0, "delta": 1e-6}
RUNS = ["=1+1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "@SUM(A1)", "-1", "+1"]


@pytest.fixture(scope="module")
def fitted():
    """A release of columns with such names, and what was warned of."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, len(PLAIN))) + 2 * rng.normal(size=(20_000, 1))
    level = rng.random(20_000) < 0.4
    table = pd.DataFrame(rows, columns=PLAIN)
    table[FLAT], table[MAPPED] = 1.0, np.exp(rows[:, 0] / 4)
    table[LEVELS[0]], table[LEVELS[1]] = level * 1.0, ~level * 1.0
    options = BUDGET | {"transforms": {MAPPED: "log1p"}}
    with pytest.warns(AccuracyWarning) as warned:
        found = hushcov.PrivateSparseCovariance(**options).fit(table)
    return found, " ".join(str(each.message) for each in warned)


def obeyed(text: str) -> set[str]:
    """Characters that are not shown but obeyed, beside line ends between lines."""
    bad = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return bad - {"\n"}


def lines_of(text: str) -> str:
    """The lines of a text that a name has broken in two."""
    return [line for line in text.splitlines() if line.strip().startswith("x")]


def test_no_name_is_obeyed_on_the_command_line(run, fitted):
    est, warned = fitted
    est.save("release")
    assert not obeyed(warned)
    mapped = f"log1p({MAPPED})"
    asked = {
        "show": ["show", "release"],
        "column": ["show", "release", "--column", PLAIN[0]],
        "part of a name": ["show", "release", "--column", "x"],
        "window": ["show", "release", "--columns", f"{PLAIN[0]}..{PLAIN[2]}"],
        "regression": ["ask", "regression", "release", PLAIN[0], "--on", f"{PLAIN[8]},{mapped}"],
        "predict": ["ask", "predict", "release", PLAIN[0], "--given", f"{PLAIN[8]}=1"],
        "components": ["ask", "components", "release"],
        "partial": ["ask", "partial", "release"],
        "association": ["ask", "association", "release", f"c{SIGNS[0]}", PLAIN[8]],
        "rows": ["export", "release", "--to", "rows", "-n", "20", "-o", "rows.csv"],
        "export": ["export", "release", "--to", "csv", "-o", "pairs"],
        "lavaan": ["export", "release", "--to", "lavaan", "--features", PLAIN[8], "-o", "lavaan"],
        "report": ["report", "release", "-o", "page.html"],
        "unknown": ["ask", "regression", "release", f"{PLAIN[0]}y"],
        "flat": ["ask", "regression", "release", FLAT],
        "folder": ["show", f"none{SIGNS[0]}{SIGNS[9]}"],
        "choice": ["export", "release", "--to", f"csv{SIGNS[9]}"],
    }
    failed = {}
    for name, words in asked.items():
        result = run(*words)
        found = obeyed(result.stdout + result.stderr), lines_of(result.output)
        failed |= {name: found} if any(found) else {}
    for name in ("show", "column", "regression", "association"):
        told = run(*asked[name], "--json").stdout
        failed |= {f"{name} in JSON": obeyed(told)} if obeyed(told) else {}
        json.loads(told)
    assert failed == {}
    assert not obeyed(Path("rows.txt").read_text())
    page = Path("page.html").read_text()
    assert not obeyed(page)
    assert "sign(x) log(1 + |x|): log1p(1?x)" in page
    for name in ("release.json", "summary.json"):
        assert not obeyed(Path("release", name).read_text().replace("\x7f", ""))
    with open("release/variances.csv", encoding="utf-8", newline="") as file:
        found = [row["feature"] for row in csv.DictReader(file)]
    assert found == [csv_text(name) for name in est.release_.column_names]


def test_commands_that_start_prints_can_be_copied(tmp_path, monkeypatch):
    """They have names as a shell reads them back, not as a terminal would obey them."""
    monkeypatch.chdir(tmp_path)
    names = ["it's \u202e\x1b[31mold", "b\\n\u2028x", "weight"]
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=names)
    file, folder = "my \u202e\x07.csv", "out"
    rows.to_csv(file, index=False)
    answers = ["", "", "5k", "weight", "none", "", "", "", "", "none", folder, "no"]
    given = "".join(f"{each}\n" for each in answers)
    result = CliRunner().invoke(cli, ["start", file], input=given)
    assert result.exit_code == 0, result.output
    assert not obeyed(result.output)
    command = result.output[result.output.index("hushcov fit") :].partition("\n\n")[0]
    script = f'hushcov() {{ printf "%s\\0" "$@"; }}\n{command}'
    words = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    told = words.decode().split("\0")
    assert told[:2] == ["fit", "--settings"]
    found = tomllib.loads(Path(told[2]).read_text())
    assert (found["data"], found["output"], found["columns"]) == (file, folder, names[:2])
    again = result.output.splitlines()[-1].strip().removeprefix("hushcov ")
    assert again.startswith("start --settings $'my ")


def test_no_name_is_obeyed_in_python(fitted):
    est, _ = fitted
    mapped = f"log1p({MAPPED})"
    answers = [
        est.regression(PLAIN[0], on=[PLAIN[8], mapped]),
        est.conditional({PLAIN[8]: 1.0}),
        est.components(),
        est.partial_correlations(),
        est.association(f"c{SIGNS[0]}", PLAIN[8]),
        est.window(PLAIN[0], PLAIN[2]),
        est.synthesize(20, random_state=0),
    ]
    texts = [est._repr_html_(), repr(est), repr(est.release_.making)]
    for each in answers:
        texts += [str(each), repr(each), each._repr_html_()]
    for call in (
        lambda: est.regression(FLAT),
        lambda: est.regression(f"{PLAIN[0]}y"),
        lambda: est.regression(PLAIN[0], on=[PLAIN[0]]),
        lambda: est.window(PLAIN[0], SIGNS[0]),
        lambda: hushcov.GaussianCovariance(**BUDGET, bounds={PLAIN[0]: (2, 1)}).fit(
            np.ones((9, 2))
        ),
    ):
        with pytest.raises(HushcovError) as caught:
            call()
        texts.append(str(caught.value))
    assert [text for text in texts if obeyed(text)] == []


def test_names_that_a_spreadsheet_would_run_are_text(tmp_path):
    """Signs in full width, and after blanks, too; one apostrophe less has the names back."""
    runs = [f"{blank}{name}" for name in RUNS for blank in ("", " ", "\t", "\u3000", "\ufeff ")]
    kept = ["a=1", "1-2", " a", "x", "", "'a", "'", "(=1)"]
    names = [*runs, *kept, *(f"'{name}" for name in (*runs, *kept))]
    assert all(csv_text(name) == f"'{name}" for name in runs)
    assert [csv_text(name) for name in kept] == kept
    written = [csv_text(name) for name in names]
    assert len(set(written)) == len(set(names))
    back = [
        text[1:] if text[:1] == "'" and csv_text(text[1:]) != text[1:] else text for text in written
    ]
    assert back == names
    write_table({"\uff1dname": np.array(names, dtype=object)}, tmp_path / "names.csv")
    with (tmp_path / "names.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["'\uff1dname"]
