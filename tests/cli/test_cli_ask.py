"""`hushcov ask`: what is printed, written and refused; the numbers are those of the library."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import hushcov
from command_line import Run

NAMES = ["age", "weight", "pulse", "dose"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame(rng.normal(size=(8_000, 4)) * 3 + 10, columns=NAMES)
    rows["weight"] += 0.8 * rows["age"]
    estimator = hushcov.PrivateSparseCovariance(epsilon=2.0, delta=1e-6).fit(rows)
    return estimator.save(tmp_path_factory.mktemp("ask") / "release")


@pytest.fixture(scope="module")
def loaded(folder):
    return hushcov.load(folder)


def test_regression(run: Run, folder, loaded, tmp_path):
    file = tmp_path / "coefficients.csv"
    found = loaded.regression("weight", ["age", "dose"])
    result = run("ask", "regression", folder, "weight", "--on", "age,dose", "-o", file, "--json")
    said = json.loads(result.stdout)
    assert said["r_squared"] == found.r_squared
    assert {line["feature"]: line["coefficient"] for line in said["table"]} == dict(
        zip(found.features, found.coefficients.tolist(), strict=True)
    )
    pandas.testing.assert_frame_equal(pandas.read_csv(file), found.frame())
    text = run("ask", "regression", folder, "weight").stdout
    assert "R^2" in text
    assert "age" in text


def test_prediction(run: Run, folder, loaded):
    result = run("ask", "predict", folder, "weight", "--given", "age=12", "--json")
    (line,) = json.loads(result.stdout)["table"]
    assert line["mean"] == loaded.conditional({"age": 12.0}, "weight").mean[0]
    assert "mean of all" in run("ask", "predict", folder, "weight", "--given", "age=12").stdout


def test_components_and_partial_correlations(run: Run, folder, loaded, tmp_path):
    result = run("ask", "components", folder, "--number", 1, "--json")
    said = json.loads(result.stdout)
    assert said["components"][0]["share"] == loaded.components(1).share[0]
    assert "% of the variance" in run("ask", "components", folder, "--number", 1).stdout
    file = tmp_path / "partial.parquet"
    assert run("ask", "partial", folder, "-o", file).exit_code == 0
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(file), loaded.partial_correlations().frame()
    )


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (("regression", "wieght"), "did you mean 'weight'?"),
        (("regression", "weight", "--on", "weight"), "must not hold the target"),
        (("predict", "weight", "--given", "age"), "write NAME=NUMBER"),
        (("predict", "weight", "--given", "age=old"), "write NAME=NUMBER"),
        (("components", "--number", "9"), "--number must be an integer"),
        (("partial", "--level", "2"), "level must be"),
        (("partial", "-o", "answer.xlsx"), "must end in .csv or .parquet"),
    ],
)
def test_what_is_refused(run: Run, folder, question, words):
    result = run("ask", question[0], folder, *question[1:])
    assert result.exit_code != 0
    assert words in result.stderr


def test_damaged_releases_are_refused(run: Run, folder, tmp_path):
    assert run("ask", "partial", tmp_path).exit_code != 0
    assert run("ask").exit_code == 0  # help
