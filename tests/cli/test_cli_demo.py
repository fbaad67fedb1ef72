"""`hushcov demo`: its story, its files, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from hushcov.cli import practical, story
from hushcov.mechanisms.multiscale import PublicInputs, certify, theorem_parameters
from hushcov.report.backend import MissingFiguresError
from hushcov.simulate import sparse_covariance

SMALL = ("--features", 20, "--row-sparsity", 2)


@pytest.fixture
def run(run, monkeypatch):
    """The demo with a last act that takes no time."""
    monkeypatch.setattr(practical, "RECORDS", 20_000)
    monkeypatch.setattr(practical, "FEATURES", 4)
    monkeypatch.setattr(practical, "ROW_SPARSITY", 2)
    return run


def _facts(text: str) -> str:
    return " ".join(text.split())


def test_as_a_newcomer_runs_it(program, tmp_path):
    answer = program("demo", env=os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "ascii"})
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.isascii()
    assert max(map(len, answer.stdout.splitlines())) <= 80
    text = _facts(answer.stdout)
    for part in (
        "1. The data: simulated, nobody's",
        "A covariance of 100 features",
        "at most 5 nonzeros in a row",
        "2. The mechanism",
        "tests 1,101,445,455,550 (about 1.1e12)",
        "private from 398,797,944,288 (about 3.99e11) records",
        "3. The release, against the truth",
        "0 missed, 0 false",
        "(1, 1e-6)-differential privacy",
        "marked as not private",
        "4. And on 10,000 ordinary records?",
        "Refused before any record is read",
        "5. The same tests with calibrated constants, on 200,000 records",
        "6. Files",
    ):
        assert part in text
    error = float(re.search(r"error ([\d.e-]+) in operator norm; the target was 0.25", text)[1])
    assert 0 < error < 0.25
    predicted = float(re.search(r"predicted error ([\d.e-]+) in operator norm", text)[1])
    measured = float(re.search(r"measured error ([\d.e-]+) related pairs", text)[1])
    assert predicted < 0.2
    assert 0.4 < measured / predicted < 2.5
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert files == {"heatmap.png", "integers.npy", "release.json"}
    assert imread(tmp_path / "demo/heatmap.png")[..., :3].std() > 0.05


@pytest.mark.parametrize("model", ["block", "banded", "random"])
def test_every_model_is_found(run, model):
    text = _facts(run("demo", *SMALL, "--model", model, "--seed", 3).stdout)
    pairs = np.count_nonzero(np.triu(sparse_covariance("block", 20, 2), 1))
    expected = {"block": pairs, "random": pairs, "banded": 0}[model]  # one band needs k = 3
    assert f"{expected} of {expected} found, 0 missed, 0 false" in text


def test_a_seed_makes_it_reproducible(run):
    for folder in ("a", "b"):
        assert run("demo", *SMALL, "--seed", 7, "-o", folder).exit_code == 0
    assert np.array_equal(np.load("a/integers.npy"), np.load("b/integers.npy"))
    run("demo", *SMALL, "--seed", 8, "-o", "c")
    assert not np.array_equal(np.load("a/integers.npy"), np.load("c/integers.npy"))


def test_runs_again_over_its_own_files(run):
    for _ in range(2):
        assert run("demo", *SMALL).exit_code == 0
    guarantee = json.loads(Path("demo/release.json").read_text())["guarantee"]
    assert guarantee["private"] is False


@pytest.mark.parametrize("content", ["{}", "not json", '{"guarantee": {"private": true}}'])
def test_but_not_over_anything_else(run, content):
    Path("demo").mkdir()
    Path("demo/release.json").write_text(content)
    assert run("demo", *SMALL).exit_code == 6
    assert Path("demo/release.json").read_text() == content


def test_records_can_be_chosen(run):
    text = _facts(run("demo", *SMALL, "--records", "1e15").stdout)
    assert "1,000,000,000,000,000 (about 1e15) Gaussian records" in text
    result = run("demo", *SMALL, "--records", "1e6", "-o", "few")
    assert result.exit_code == 4
    assert "n_records must be at least 35,191,835,595" in result.stderr
    assert not Path("few").exists()


def test_more_records_than_64_bits_count(run):
    text = _facts(run("demo", *SMALL, "--records", "1e20").stdout)
    assert "(about 1e20) Gaussian records" in text
    assert "0 missed, 0 false" in text


def test_levels_that_all_select_are_certified():
    # 'demo --features 900' once failed here: no level of it keeps every test.
    inputs = PublicInputs(3 * 10**16, 900, 5, 0.25, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs)
    assert all(level.selection_scale is not None for level in parameters.schedule.levels)
    guarantee = certify(parameters, private=False, exact_statistic=True)
    assert 0 < guarantee.numerical_delta < guarantee.delta / 2


def test_the_default_number_of_records_is_the_smallest_accurate_one(run):
    text = _facts(run("demo", *SMALL).stdout)
    assert "moments of 53,338,474,066 (about 5.33e10) Gaussian records" in text
    assert "accurate from 53,338,474,066 (about 5.33e10) records" in text


def test_the_last_act_shows_prediction_and_measurement(run):
    text = _facts(run("demo", *SMALL, "--seed", 1, "--model", "block").stdout)
    found = re.search(
        r"5\. The same tests with calibrated constants, on 20,000 records .* predicted error "
        r"([\d.]+) in operator norm.* measured error ([\d.]+) related pairs 2 of 2 found, 0 missed",
        text,
    )
    assert 0 < float(found[1]) < 0.2
    assert 0 < float(found[2]) < 0.2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--records", 0), 2, "--records must be an integer at least 1"),
        (("--features", 1), 2, "--features must be an integer at least 2, got 1"),
        (
            ("--row-sparsity", 101),
            2,
            "--row-sparsity must be an integer at least 1 and at most 100",
        ),
        (("--seed", -1), 2, "--seed must be an integer at least 0, got -1"),
        (("--model", "ring"), 2, "'ring' is not one of 'block', 'banded', 'random'"),
        (("--features", "x"), 2, "'x' is not a whole number"),
        (("--records", "1e101"), 2, "too large: at most 100 digits"),
        (("-o", "file/below"), 6, "file/below: Not a directory"),
    ],
)
def test_bad_options(refused, tmp_path, arguments, code, message):
    (tmp_path / "file").write_text("")
    assert message in refused(code, "demo", *arguments)


def test_runs_without_matplotlib(run, monkeypatch):
    def missing(*_, **__):
        raise MissingFiguresError("figures need matplotlib: pip install 'hushcov[figures]'")

    monkeypatch.setattr(story, "write_heatmap", missing)
    result = run("demo", *SMALL)
    assert result.exit_code == 0
    assert "not drawn: figures need matplotlib: pip install 'hushcov[figures]'" in _facts(
        result.stdout
    )
    assert Path("demo/integers.npy").exists()
