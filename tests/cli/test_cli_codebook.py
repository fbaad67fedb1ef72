"""`hushcov fit` and `hushcov plan` with `--codebook`."""

import json

import numpy as np
import pandas as pd
import pytest

from estimators.settings import skip_search
from hushcov.release.files import read_release

PUBLIC = ("--epsilon", 2, "--delta", 1e-6, "--row-sparsity", 2)
BOOK = """name,low,high,kind,values
age,0,120,integer,
state,,,category,TX|CA|NY
"""
NAMES = ("age", "state=TX", "state=CA", "state=NY", "w")
N = 20_000


@pytest.fixture(autouse=True)
def survey(tmp_path, monkeypatch):
    skip_search(monkeypatch)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "state": rng.choice(["TX", "CA", "NY", "AL"], N, p=[0.6, 0.3, 0.002, 0.098]),
            "w": rng.normal(size=N),
        }
    )
    frame.to_csv(tmp_path / "survey.csv", index=False)
    frame.to_parquet(tmp_path / "survey.parquet", row_group_size=5_000)
    (tmp_path / "codebook.csv").write_text(BOOK)


def fit(run, file, *more):
    fixed = (*PUBLIC, "--codebook", "codebook.csv", "--json")
    result = run("fit", file, *fixed, *more)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("file", ["survey.csv", "survey.parquet"])
def test_a_codebook_makes_one_hot_columns_and_bounds(run, file):
    result = fit(run, file, "-o", "release")
    assert json.loads(result.stdout)["n_features"] == len(NAMES)
    assert "bounds of 4 features" in " ".join(result.stderr.split())
    release = read_release("release").release
    assert release.column_names == NAMES
    assert release.making.bounds == ((0, 120), (0, 1), (0, 1), (0, 1), (None, None))
    assert release.making.unresolved == ()  # 0.2 % of the records are from NY


def test_a_plan_counts_the_features_of_a_codebook_or_needs_their_number(run, refused):
    fixed = (*PUBLIC, "--codebook", "codebook.csv", "--records", 10**5, "--json")
    found = json.loads(run("plan", *fixed).stdout)
    assert found["n_features"] == 4
    found = json.loads(run("plan", *fixed, "--features", 5).stdout)
    assert found["n_features"] == 5
    result = run("plan", *PUBLIC)
    assert result.exit_code == 2
    assert "--features" in result.stderr
    more = ("--codebook", "codebook.csv", "--features", 3)
    assert "at least the 4" in refused(2, "plan", *PUBLIC, *more)


def test_transforms_of_a_codebook_of_the_command_line_and_of_settings(run, refused, tmp_path):
    (tmp_path / "codebook.csv").write_text(
        BOOK.replace("values\n", "values,transform\n").replace("integer,\n", "integer,,square\n")
    )
    result = fit(run, "survey.csv", "--transform", "w=rank", "--transform", "state=TX=sqrt")
    words = " ".join(result.stderr.split())
    assert "transforms of 3 features" in words
    assert "centres, scales and quantiles of the features" in words
    named = ("age", "sqrt(state=TX)", "state=CA", "state=NY", "rank(w)", "square(age)")
    assert read_release("survey-release").release.column_names == named
    shown = " ".join(run("show", "survey-release").output.split())
    assert "normal scores by released quantiles: rank(w); squares about 60: square(age)" in shown
    (tmp_path / "kept.toml").write_text(
        'data = "survey.csv"\ncolumns = ["age", "w"]\ntransform = ["log1p", "w=rank"]\n'
        'epsilon = 2.0\ndelta = 1e-6\noutput = "kept"\n'
    )
    assert run("fit", "--settings", "kept.toml").exit_code == 0
    assert read_release("kept").release.column_names == ("log1p(age)", "rank(w)")
    # By another case or a number, which were taken and not applied.
    for number, column in enumerate(("AGE", "0")):
        words = ("survey.csv", "--columns", "Age,w", "--transform", f"{column}=log1p", *PUBLIC)
        assert run("fit", *words, "-o", f"kept-{number}").exit_code == 0
        assert read_release(f"kept-{number}").release.column_names == ("log1p(age)", "w")
    wrong = ("fit", "survey.csv", "--columns", "age,w", "-o", "no", *PUBLIC, "--transform")
    assert "--transform must name columns" in refused(2, *wrong, "ages=sqrt")
    assert "--transform must have a number after log" in refused(2, *wrong, "age=log")
    assert "--transform must be left out" in refused(2, *wrong, "sqrt", "--mechanism", "theorem")
