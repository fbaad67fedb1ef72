"""What pages and docstrings show is run, and their figures are those of the code."""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import hushcov
from docs.pages import DOCS, blocks, is_shown, run_console, run_page
from docs.test_benchmarks import tables
from hushcov import PrivateSparseCovariance
from hushcov.calibration import calibrate_gaussian
from hushcov.cli.main import cli
from hushcov.fit import forecast
from hushcov.kernel.accounting import Gaussian
from hushcov.kernel.accounting.guarantee import known_noise
from hushcov.promise import odds_of
from project import modules

ELSEWHERE = {"add-a-mechanism.md"}  # run by a test of its own
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if {"python", "console"} & {block.language for block in blocks(path.read_text())}
    and path.name not in ELSEWHERE
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("page", [*PAGES, "../lab/README.md", "../genotypes/README.md"])
def test_code_on_pages_runs(page):
    assert run_page(DOCS / page) > 0


def test_the_first_screen_has_the_commands_of_a_checkout():
    first = (DOCS.parent / "README.md").read_text().split("## ")[0]
    places = [first.index(words) for words in ("make demo", "make test", "pip install", "![")]
    assert places == sorted(places)
    assert first[: places[2]].count("\n") < 25
    assert {f"    {line} " in first for line in ("make demo", "make test")} == {True}


@pytest.mark.parametrize(
    "text",
    [
        "$ hushcov plan --features 3\n",  # refused, and the page does not say so
        "$ hushcov --version\nhushcov: error: ...\n",  # the other way round
        "$ hushcov --version\nhushcov 99\n",
        "$ rm -r .\n",
    ],
)
def test_a_wrong_command_line_is_noticed(text):
    with pytest.raises(AssertionError):
        run_console(text)


MODULES = [name for name, path in modules() if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0


def test_every_estimator_has_an_example():
    estimators = [name for name in dir(hushcov) if name.endswith("Covariance")]
    assert len(estimators) >= 9
    for name in estimators:
        assert ">>> " in getattr(hushcov, name).__doc__, name


DELTA = 1e-6


def shown(title: str) -> list[list[float]]:
    """Rows of the table with this word in its head: epsilon, then percentages."""
    page = (DOCS / "guarantee.md").read_text()
    (rows,) = [rows for head, rows in tables(page) if title in head]
    return [[float(cell.removesuffix(" %")) for cell in row] for row in rows]


@pytest.mark.parametrize("row", shown("sure becomes"), ids=lambda row: str(row[0]))
def test_beliefs(row):
    epsilon, _, *beliefs = row
    found = [100 * after for _, after in odds_of(epsilon, delta=DELTA).beliefs]
    assert beliefs == pytest.approx(found, abs=0.06)


@pytest.mark.parametrize("row", shown("false alarms"), ids=lambda row: str(row[0]))
def test_attacks(row):
    epsilon, *powers = row
    noise = Gaussian(calibrate_gaussian(epsilon, delta=DELTA))
    promised = odds_of(epsilon, delta=DELTA).tests
    known = odds_of(epsilon, delta=DELTA, noise=known_noise([noise])).tests
    pairs = zip(promised, known, strict=True)
    assert powers == pytest.approx([100 * each[1] for pair in pairs for each in pair], abs=0.06)


PAGE = (DOCS / "mechanisms.md").read_text().partition("## Screened release\n")[2]
COMMAND = (
    "hushcov plan --features 1000 --row-sparsity 5 --epsilon 1 --delta 1e-6 --target-error 0.1"
)
TARGET = 0.1


def headline() -> dict[tuple[str, str], int]:
    """Records for an error of 0.1 that the page names, by mechanism and model."""
    text = " ".join(PAGE.split())
    found = re.search(
        r"with neither means nor scales known, an error of 0\.1 is predicted from ([\d,]+) "
        r"\(block\) to ([\d,]+) records \(random model\) on, where the Gaussian mechanism with a "
        r"threshold takes ([\d,]+) to ([\d,]+): hushcov plan",
        text,
    )
    assert found is not None
    places = [(name, model) for name in ("screened", "gaussian-threshold") for model in MODELS]
    return dict(zip(places, (int(part.replace(",", "")) for part in found.groups()), strict=True))


MODELS = ("block", "random")


def test_the_command_stands_below_its_figures():
    assert COMMAND in PAGE.split("## ")[0]


@pytest.mark.parametrize("mechanism", ["screened", "gaussian-threshold"])
@pytest.mark.parametrize("model", MODELS)
def test_the_figures_are_the_planners_with_nothing_known(mechanism, model):
    """As the command finds them, in three digits: 2.5 % more records do, 2.5 % fewer do not."""
    estimator = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, row_sparsity=5)
    n = headline()[mechanism, model]

    def error(share: float) -> float:
        inputs = estimator._public_inputs(int(share * n), 1000)
        return forecast(inputs, mechanism).predicted_error[model]

    assert error(1.025) <= TARGET < error(0.975)


START = (DOCS / "start.md").read_text()
TRANSCRIPT = (Path(__file__).parent / "start.txt").read_text()  # `...` stands for anything
ANSWER = re.compile(r"^  (?:\[.*\] )?>(.*)$", re.MULTILINE)
LAST = "Run it now?"


def test_the_transcript(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, excerpt, settings = (
        next(block.text for block in blocks(START) if block.language == language)
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
