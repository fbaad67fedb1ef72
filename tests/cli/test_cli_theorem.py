"""The paper's mechanism at the constants of its proof: `fit --mechanism theorem` and `params`."""

import json
from pathlib import Path

import numpy as np
import pytest

from hushcov.kernel.records.base import Records

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


def test_ordinary_data_are_announced_and_refused_by_name_of_n(run, data):
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


def test_release(run, plenty):
    result = run("fit", plenty, *INSIST, "-o", "out", "--json")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stderr.split())
    assert text.index("What will be released") < text.index("Released")
    assert "private? yes." in text
    assert "epsilon 0.375 of the promised 1" in text
    assert "0 of 190 pairs" in text
    files = {path.name for path in Path("out").iterdir()}
    assert files == {
        *("integers.npy", "release.json", "release.sha256", "covariance.npy", "heatmap.png"),
        *("pairs.csv", "variances.csv", "covariance.csv", "correlation.csv", "summary.json"),
        "report.html",
    }
    description = json.loads(Path("out/release.json").read_text())
    estimate = np.load("out/integers.npy") * description["unit"]
    assert np.array_equal(np.load("out/covariance.npy"), estimate)
    found = json.loads(result.stdout)
    for key in ("unit", "guarantee", "parameters", "warnings"):
        assert found[key] == description[key]
    assert (found["mechanism"], found["constants"]) == ("multiscale", "theorem")
    assert (found["n_records"], found["found_pairs"]) == (ENOUGH, 0)
    guarantee = description["guarantee"]
    assert guarantee["private"] is True
    assert (guarantee["epsilon"], guarantee["delta"]) == (1, 1e-6)
    assert description["parameters"]["inputs"]["n_records"] == ENOUGH


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", 2), "--epsilon must be above 0 and at most 1, got 2.0: "),
        (("--row-sparsity", 21), "--row-sparsity must be an integer at least 1 and at most 20"),
        (("--feature-scale", 0), "--feature-scale must be above 1e-60"),
        (("--allow", "hopeless"), "no prediction"),
        (("--no-nulls",), "--no-nulls must be left out with --mechanism theorem: "),
        (("--codebook", "codebook.csv"), "codebook must be left out with --mechanism theorem: "),
        (("--unit", "x"), "--unit must be left out with --mechanism theorem: "),
        (("--bandwidth", 2), "left out with --mechanism theorem: the theorem is about all pairs"),
    ],
)
def test_options_that_mean_nothing_to_it(refused, data, options, words):
    assert words in refused(2, "fit", data, *THEOREM, *options)


@pytest.mark.parametrize("option", ["--known-mean", "--feature-scale", "--row-sparsity"])
def test_required(refused, data, option):
    place = THEOREM.index(option)
    asked = THEOREM[:place] + THEOREM[place + 1 + (option != "--known-mean") :]
    assert f"{option} is required" in refused(2, "fit", data, *asked)


OPTIONS = {
    "--records": 1460676662127354,
    "--features": 100,
    "--row-sparsity": 5,
    "--target-error": 0.25,
    "--epsilon": 1,
    "--delta": 1e-6,
    "--failure-probability": 0.1,
    "--scale": 1,
}
KEYS = [
    *("L", "H", "R", "Delta", "t", "rho", "m", "p", "M", "s", "b", "A", "S_star", "r", "kappa"),
    *("Gamma", "log_eta", "private", "accurate", "smallest_private_n", "smallest_accurate_n"),
]


def _arguments(**changes):
    options = OPTIONS | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return [part for pair in options.items() for part in pair if pair[1] is not None]


def _json(run, **changes):
    result = run("paper", "params", *_arguments(**changes), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_json_has_the_papers_symbols_and_nothing_else(run):
    assert list(_json(run)) == ["inputs", *KEYS]
    explicit = _json(run, target_error=0.25, failure_probability=0.1)
    assert _json(run, target_error=None, failure_probability=None) == explicit
