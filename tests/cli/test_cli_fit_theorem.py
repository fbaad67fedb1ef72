"""`hushcov fit --mechanism theorem`: the paper's mechanism at the constants of its proof."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hushcov.sums.records import Records

THEOREM = (
    *("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2),
    *("--mechanism", "theorem", "--feature-scale", 1, "--known-mean"),
)
INSIST = (*THEOREM, "--allow", "large-delta")  # it is far above 1 / n where the theorem holds
ENOUGH = 60_000_000_000  # records for the theorem at d = 20, k = 2


class StandIn(Records):
    """Says that it has many records and yields few, for runs that need the theorem's n."""

    def __init__(self, n_records: int = ENOUGH, value: float = 0.5) -> None:
        self.n_records, self.n_features = n_records, 20
        self.value = value

    def _blocks(self):
        for _ in range(3):
            yield np.full((100, self.n_features), self.value)


@pytest.fixture
def data(tmp_path) -> Path:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1000, 20)))
    return tmp_path / "x.npy"


@pytest.fixture
def plenty(data, monkeypatch) -> Path:
    monkeypatch.setattr("hushcov.tables.sources.open_records", lambda file, **_: StandIn())
    return data


def test_ordinary_data_is_refused_by_name_of_n(run, data):
    result = run("fit", data, *THEOREM)
    assert result.exit_code == 4
    assert result.stderr.startswith(
        "hushcov: error: n_records must be at least 35,191,835,595 (about 3.52e+10)"
    )
    assert "got 1,000:" in result.stderr
    assert "Nothing was released." in result.stderr
    assert "leave out --mechanism" in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in data.parent.iterdir()] == ["x.npy"]


def test_the_announcement_comes_first(run, data):
    text = " ".join(run("fit", data, *THEOREM, "-o", "there").stdout.split())
    for part in (
        "What will be released",
        "1,000 records of 20 features",
        "20 x 20 covariance, rounded to integers",
        "multiscale threshold tests at the constants of the paper's theorem",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "private? no. The proof needs at least 35,191,835,595 (about 3.52e10) records",
        "accurate? no.",
        "epsilon 1, delta 1e-6, row sparsity 2, scale 1, target error 0.25, "
        "failure probability 0.1",
        "into there/",
    ):
        assert part in text
    assert "Released" not in text.replace("What will be released", "")


def test_an_unknown_mean_is_refused(refused, data):
    asked = [each for each in THEOREM if each != "--known-mean"]
    start = "--known-mean is required with --mechanism theorem: "
    assert refused(2, "fit", data, *asked).startswith(start)


def test_release(run, plenty):
    result = run("fit", plenty, *INSIST, "-o", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert text.index("What will be released") < text.index("Released")
    assert "private? yes." in text
    assert "epsilon 0.375 of the promised 1" in text
    assert "0 of 190 pairs" in text
    files = {path.name for path in Path("out").iterdir()}
    assert files == {
        *("integers.npy", "release.json", "release.sha256", "covariance.npy", "heatmap.png"),
        *("pairs.csv", "variances.csv", "covariance.csv"),
        "report.html",
    }
    description = json.loads(Path("out/release.json").read_text())
    estimate = np.load("out/integers.npy") * description["unit"]
    assert np.array_equal(np.load("out/covariance.npy"), estimate)
    guarantee = description["guarantee"]
    assert guarantee["private"] is True
    assert (guarantee["epsilon"], guarantee["delta"]) == (1, 1e-6)
    assert description["parameters"]["inputs"]["n_records"] == ENOUGH


def test_json_is_alone_on_standard_output(run, plenty):
    result = run("fit", plenty, *INSIST, "--json")
    found = json.loads(result.stdout)
    written = json.loads(Path("x-release/release.json").read_text())
    assert "What will be released" in result.stderr
    assert list(found) == [
        *("file", "n_records", "n_features", "known_mean", "output"),
        "signed",
        *(
            "mechanism",
            "constants",
            "warnings",
            "unit",
            "verdict",
            "structure",
            "found_pairs",
            "largest_pairs",
            "noise_sd",
        ),
        *("guarantee", "parameters", "complete_records"),
    ]
    for key in ("unit", "guarantee", "parameters", "warnings"):
        assert found[key] == written[key]
    assert found["n_records"] == ENOUGH
    assert (found["mechanism"], found["constants"]) == ("multiscale", "theorem")
    assert found["found_pairs"] == 0


def test_nothing_is_left_behind_when_the_records_are_bad(run, plenty, monkeypatch):
    monkeypatch.setattr(
        "hushcov.tables.sources.open_records", lambda file, **_: StandIn(value=np.nan)
    )
    result = run("fit", plenty, *INSIST)
    assert result.exit_code == 3
    assert "must be finite" in result.stderr
    assert not Path("x-release").exists()


@pytest.mark.parametrize(
    ("option", "value", "start"),
    [
        ("--epsilon", 2, "--epsilon must be above 0 and at most 1, got 2.0: "),
        ("--row-sparsity", 21, "--row-sparsity must be an integer at least 1 and at most 20"),
        ("--feature-scale", 0, "--feature-scale must be above 1e-60"),
    ],
)
def test_errors_name_the_option(refused, data, option, value, start):
    assert refused(2, "fit", data, *THEOREM, option, value).startswith(start)


def test_one_feature_is_too_few(refused):
    np.save("a.npy", np.zeros((5, 1)))
    options = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 1)
    line = refused(
        2, "fit", "a.npy", *options, "--mechanism", "theorem", "--feature-scale", 1, "--known-mean"
    )
    assert line.startswith("n_features must be an integer at least 2, got 1")
