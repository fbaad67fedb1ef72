"""Releases that others changed, with checksums that match: one sentence, and never a traceback."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hushcov
from documents import described, seal
from hushcov.accounting.composition import gaussian_log_delta
from hushcov.cli.main import cli

COMMANDS = {
    "show": ("show", "out"),
    "json": ("show", "out", "--json"),
    "column": ("show", "out", "--column", "x0"),
    "report": ("report", "out", "-o", "page.html"),
    "export": ("export", "out", "--to", "csv", "-o", "exported", "--overwrite"),
    "components": ("ask", "components", "out"),
    "regression": ("ask", "regression", "out", "x0"),
    "on": ("ask", "regression", "out", "x0", "--on", "x1"),
    "partial": ("ask", "partial", "out"),
}


@pytest.fixture(scope="module")
def made():
    rows = np.random.default_rng(0).normal(size=(6_000, 4))
    rows[:, 1] += rows[:, 0]
    return hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(rows)


@pytest.fixture
def forged(made, tmp_path, monkeypatch):
    """Change the text of the description, and renew its checksum."""
    monkeypatch.chdir(tmp_path)
    made.release_.write("out")

    def forge(path, text):
        node = about = described(Path("out"))
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = "HERE"
        content = json.dumps(about).replace('"HERE"', text).encode()
        seal(Path("out"), content)

    return forge


def answers():
    for name, command in COMMANDS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(cli, command, prog_name="hushcov")
        assert isinstance(result.exception, SystemExit | None), (name, result.exception)
        yield name, result


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("parameters", "norm", "norm"), "1e999"),
        (("parameters", "inputs", "delta"), "1e999"),
        (("parameters", "norm", "norm"), "9" * 5_000),
        (("making", "n_records"), "9" * 5_000),
    ],
)
def test_numbers_that_are_no_doubles_are_refused_where_the_document_is_read(forged, path, text):
    forged(path, text)
    for _, result in answers():
        assert result.exit_code == 1
        assert "release.json is not strict JSON" in result.stderr


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("parameters", "norm", "norm"), '"x"'),
        (("parameters", "norm", "norm"), "-1e308"),
        (("parameters", "norm", "norm"), "1e308"),
        (("parameters", "norm", "norm"), "9" * 4_000),
        (("noise_sd",), "null"),
        (("making", "tails", "noise_sd"), "1e308"),
        (("making", "tails", "fourth", 0), "1e155"),
        (("feature_scale", 0), "1e155"),
        (("feature_scale", 0), "5e-324"),
        (("guarantee", "events", 0, "mu"), "5e-324"),
        (("noise_sd", 0), "1e308"),
    ],
)
def test_numbers_that_lead_nowhere_are_answered_in_a_sentence(forged, path, text):
    forged(path, text)
    for name, result in answers():
        assert result.exit_code in (0, 1, 2, 5), (name, result.stderr)
        assert result.stderr.count("hushcov: error") == (result.exit_code != 0)


def test_questions_that_need_the_noise_are_refused_without_it(tmp_path, monkeypatch):
    """Also where the partners of a target are to be found."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(2_000, 4))
    options = {"epsilon": 1.0, "feature_scale": 1.0, "assume_centered": True}
    hushcov.EigenSamplingCovariance(**options).fit(rows).release_.write("out")
    for name, result in answers():
        refused = name in ("components", "regression", "on", "partial")
        assert result.exit_code == (2 if refused else 0), (name, result.stderr)
        assert ("must say how much noise it has" in result.stderr) == refused


def test_deltas_of_the_smallest_mu():
    assert -746 < gaussian_log_delta(5e-324, 0.0) < -744
