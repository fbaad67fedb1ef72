"""`hushcov ask`: what is printed, written and refused; the numbers are those of the library."""

import json

import numpy as np
import pandas
import pytest

import hushcov
from command_line import Run
from hushcov.exceptions import SeededNoiseWarning

NAMES = ["age", "weight", "pulse", "dose"]
LEVELS = [f"department={name}" for name in ("sales", "engineering", "people_and_culture")]


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


@pytest.fixture(scope="module")
def staff(tmp_path_factory):
    """A release with a category whose columns add up, with large numbers and with bounds."""
    rng = np.random.default_rng(1)
    team = rng.integers(3, size=8_000)
    rows = pandas.DataFrame({"age": rng.uniform(18, 90, 8_000)})
    for place, name in enumerate(LEVELS):
        rows[name] = (team == place).astype(float)
    rows["salary"] = 20_000 + 700 * rows["age"] + 9_000 * team + rng.normal(size=8_000) * 8_000
    bounds = {name: (0.0, 1.0) for name in rows if "=" in name} | {"age": (18.0, 90.0)}
    estimator = hushcov.GaussianCovariance(epsilon=10.0, delta=1e-6, bounds=bounds, random_state=0)
    with pytest.warns(SeededNoiseWarning):
        estimator.fit(rows)
    return estimator.save(tmp_path_factory.mktemp("ask") / "staff")


ONE_RIDGE = ("ridge", "multiplier", "ridge_reason", "predicted_r_squared")


def test_categories_bounds_and_large_numbers(run: Run, staff):
    text = run("ask", "regression", staff, "salary", "--on", "age,department").stdout
    assert "department=people_and_culture is left out" in " ".join(text.split())
    asked = ("ask", "predict", staff, "salary", "--given")
    said = json.loads(run(*asked, "department=engineering,age=40", "--json").stdout)
    assert said["given"] == {"age": 40, "department=sales": 0, "department=engineering": 1}
    text = " ".join(run(*asked, "age=400").stdout.split())
    assert "age = 400 is outside its public bounds (at most 90)" in text
    mean = json.loads(run(*asked, "age=40", "--json").stdout)["table"][0]["mean"]
    assert f"{round(mean, -2):,.0f}" in run(*asked, "age=40").stdout
    refused = run(*asked, "department=enginering").stderr
    assert "write department=sales or department=engineering" in refused
    assert "department=sales=0 for no" in refused
    text = " ".join(run("ask", "partial", staff).stdout.split())
    assert "department=people_and_culture is left out, as what to compare" in text
    text = run("ask", "partial", staff, "--features", "age," + ",".join(LEVELS)).stdout
    assert "edges 0 of 3 pairs" in " ".join(text.split())
    text = " ".join(run("ask", "components", staff, "--covariance").stdout.split())
    assert "above 99.9 % of the variance; direction off by less than 1 degree" in text
    assert "salary has nearly all of the variance, because of its unit" in text


def test_a_question_without_ask(run: Run):
    result = run("regression", "release", "weight")
    assert result.exit_code == 2
    assert "did you mean 'hushcov ask regression'?" in result.stderr


def test_answers_are_those_of_the_library(run: Run, folder, loaded, tmp_path):
    """Of numbers in JSON see test_same_numbers.py."""
    csv, parquet = tmp_path / "coefficients.csv", tmp_path / "partial.parquet"
    text = run("ask", "regression", folder, "weight", "--on", "age,dose", "-o", csv).stdout
    assert "R^2" in text
    found = loaded.regression("weight", ["age", "dose"])
    assert f"ridge {found.ridge:.3g}: {found.ridge_reason}" in " ".join(text.split())
    said = json.loads(run("ask", "regression", folder, "Weight", "--on", "AGE", "--json").stdout)
    one = loaded.regression("weight", ["age"])
    assert said["intercept_interval"] == [one.intercept_lower, one.intercept_upper]
    told = one.ridge, one.multiplier, one.ridge_reason, one.predicted_r_squared
    assert tuple(said[name] for name in ONE_RIDGE) == told
    pandas.testing.assert_frame_equal(pandas.read_csv(csv), found.frame())
    assert run("ask", "partial", folder, "-o", parquet).exit_code == 0
    found = loaded.partial_correlations()
    pandas.testing.assert_frame_equal(pandas.read_parquet(parquet), found.frame())
    given = ("ask", "predict", folder, "weight", "--given", "age=12")
    (line,) = json.loads(run(*given, "--json").stdout)["table"]
    assert line["mean"] == loaded.conditional({"age": 12.0}, "weight").mean[0]
    assert "mean of all" in run(*given).stdout


def test_odds_ratios_are_those_of_the_library(run: Run, staff, tmp_path):
    csv, loaded = tmp_path / "odds.csv", hushcov.load(staff)
    asked = ("ask", "logistic", staff, "department=sales", "--on", "age,salary")
    text = " ".join(run(*asked, "-o", csv).stdout.split())
    assert "factor of the odds of department=sales" in text
    found = loaded.logistic("department=sales", ["age", "salary"])
    pandas.testing.assert_frame_equal(pandas.read_csv(csv), found.frame())
    said = json.loads(run(*asked, "--json").stdout)
    assert said["intercept_interval"] == [found.intercept_lower, found.intercept_upper]
    assert [line["odds_ratio"] for line in said["table"]] == found.odds_ratio.tolist()
    assert (said["share"], said["r_squared"]) == (found.share, found.linear.r_squared)
    linear = " ".join(run("ask", "regression", *asked[2:]).stdout.split())
    assert "probability of department=sales (a linear probability model)" in linear
    assert "linear probability" not in run("ask", "regression", staff, "age").stdout
    refused = run("ask", "logistic", staff, "age")
    assert refused.exit_code != 0
    assert "target must be a column of 0 and 1, got 'age'" in refused.stderr


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (("regression", "WIEGHT"), "did you mean 'weight'?"),
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
