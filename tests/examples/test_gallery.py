"""The examples of the gallery run, find what they say they find, and draw their figures."""

from __future__ import annotations

import importlib
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("gene_expression", "outliers", "portfolio", "survey")
# Noise is seeded below, so that what is found is the same in every run.
pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example, with a figure, and return what it prints."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def run(name: str, records: int) -> str:
        example = importlib.import_module(name)
        seeded = partial(PrivateSparseCovariance, random_state=0)
        monkeypatch.setattr(example, "PrivateSparseCovariance", seeded)
        example.main(["--records", str(records), "--figure", str(tmp_path / "figure.png")])
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
        printed = capsys.readouterr().out
        assert "NOT PRIVATE" in printed
        return printed

    return run


def after(printed: str, words: str) -> list[float]:
    """Numbers that follow some words on their line."""
    line = next(line for line in printed.splitlines() if words in line)
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", line.partition(words)[2])]


@pytest.mark.slow
def test_modules_of_genes(run):
    printed = run("gene_expression", 20_000)
    edges, found, true = after(printed, "A graph of")
    assert 400 < 0.99 * true <= found <= true
    assert edges < 1.2 * true
    assert after(printed, "Correlations above 0.25 make")[0] == 16
    assert after(printed, "(adjusted Rand index):")[0] >= 0.99
    assert after(printed, "Sparse principal components:")[0] >= 15


def test_weights_of_a_portfolio(run):
    printed = run("portfolio", 20_000)
    released, sample, truth, equal = (
        after(printed, words)[0]
        for words in ("the release  ", "without privacy", "true covariance", "with equal weights  ")
    )
    assert truth <= released <= 1.05 * sample < 0.6 * equal
    assert after(printed, "by the release:")[0] == pytest.approx(released, rel=0.12)
    assert after(printed, "above 0.2:")[0] == 16


def test_scales_of_a_survey(run):
    printed = run("survey", 10_000)
    assert after(printed, "adjusted Rand index):")[0] >= 0.97
    scales = printed.split("without privacy:")[1].strip().splitlines()
    assert len(scales) == 6
    alphas = np.array([line.split()[-2:] for line in scales], dtype=float)
    assert np.abs(alphas[:, 0] - alphas[:, 1]).max() <= 0.06
    assert sum(line.count("-") for line in scales) > 5  # questions that ask the other way round


def test_unusual_rows(run):
    printed = run("outliers", 40_000)
    hits, false_alarms = after(printed, "distances of the release")
    ideal, _ = after(printed, "distances of the true covariance")
    alone, _ = after(printed, "each reading alone")
    assert hits >= ideal - 4 > 40
    assert false_alarms <= 10
    assert alone <= 2
    assert after(printed, "is off by")[0] < 0.55


def test_too_few_records_are_said_to_be(run):
    with pytest.raises(SystemExit, match="too few records"):
        run("outliers", 6_000)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_that_one_release_is_enough(name):
    text = " ".join((EXAMPLES / f"{name}.py").read_text().split())
    assert "post-processing" in text
    assert "free" in text
    assert text.count("PrivateSparseCovariance(") == 1
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert f"examples/{name}.py" in page
