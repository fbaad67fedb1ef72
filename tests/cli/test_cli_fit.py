"""`hushcov fit`: the announcement, the release and what it shows, bad options and bad files."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from command_line import words
from hushcov import PrivateSparseCovariance
from hushcov._words import number
from hushcov.cli import fit
from hushcov.exceptions import MissingPackageError
from hushcov.ledger import Ledger
from hushcov.metrics import operator_norm_error
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance

BUDGET = ("--epsilon", 1, "--delta", 1e-6)
PUBLIC = (*BUDGET, "--row-sparsity", 2)
TRUTH = sparse_covariance("block", 6, 2)
SCALES = np.array([0.1, 1.0, 30.0, 1.0, 5.0, 2.0])
FILES = {
    *("integers.npy", "release.json", "release.sha256", "covariance.npy", "heatmap.png"),
    *("pairs.csv", "variances.csv", "covariance.csv", "correlation.csv", "summary.json"),
    "report.html",
}


@pytest.fixture
def data(tmp_path) -> Path:
    rows = gaussian_records(TRUTH, 4_001) * SCALES + 123.456
    np.save(tmp_path / "x.npy", rows)
    return tmp_path / "x.npy"


def _plan(**changes):
    known = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2} | changes
    estimator = PrivateSparseCovariance(**known)
    return estimator.plan(4_001, 6)


def _forecasts(**changes):
    return {each.mechanism: each for each in _plan(**changes).forecasts}


def _released(folder="x-release"):
    return json.loads((Path(folder) / "release.json").read_text())


def test_release(run, refused, data):
    result = run("fit", data, *PUBLIC, "-o", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {path.name for path in Path("out").iterdir()} == FILES
    estimate = np.load("out/covariance.npy") / np.multiply.outer(SCALES, SCALES)
    assert operator_norm_error(estimate, TRUTH) < 0.3
    guarantee = _released("out")["guarantee"]
    assert guarantee["private"] is True
    assert (guarantee["epsilon"], guarantee["delta"]) == (1, 1e-6)
    assert imread("out/heatmap.png")[..., :3].std() > 0.05
    assert _released("out")["making"]["dataset"] == Path(data).name  # where nobody names it
    assert f"Private covariance of {Path(data).name}" in Path("out/report.html").read_text()
    assert re.search(r"verdict +(good|rough|hopeless): ", result.stdout)
    assert list(Path().glob(".hushcov-*")) == []
    assert "pairs.csv, report.html, summary.json, variances.csv match" in words(
        run("show", "out").stdout
    )
    assert "out already holds" in refused(6, "fit", data, *PUBLIC, "-o", "out")
    assert "out already exists" in refused(6, "demo", "-o", "out")
    assert run("show", "out").exit_code == 0


def test_no_file_is_overwritten_and_no_record_is_read(run, refused, data, monkeypatch):
    monkeypatch.setattr(PrivateSparseCovariance, "fit", lambda *_: pytest.fail("records were read"))
    asked = ("fit", data, *PUBLIC, "-o")
    for place, name in enumerate((*sorted(FILES), "notes.txt")):
        file = Path(f"out{place}") / name
        file.parent.mkdir()
        file.write_text("mine")
        assert run(*asked, file.parent).exit_code == 6
        assert [path.read_text() for path in file.parent.iterdir()] == ["mine"]
    assert refused(6, *asked, file).startswith(f"{file}: File exists.")
    assert "current folder" in refused(6, *asked, ".")


UNKNOWN = (
    "the features' means and scales, and the norms of records,",
    "the features' scales, and the norms of records,",
)


@pytest.mark.parametrize("known", [False, True])
def test_the_announcement_says_what_and_what_to_expect(run, data, known):
    options = ("--known-mean",) * known
    chosen = ("--mechanism", "screened")
    text = words(run("fit", data, *PUBLIC, *chosen, *options, "-o", "there").stdout)
    each = _forecasts(assume_centered=known)
    best, second = each["screened"], each["gaussian-threshold"]
    before, after = text.split(" Released ")
    for part in (
        "What will be released",
        "4,001 records of 6 features release",
        "6 x 6 covariance, rounded to integers, and scales of features",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "It holds whatever the records are.",
        f"delta 1e-6, row sparsity 2{', mean zero' * known} not known",
        f"{UNKNOWN[known]} estimated privately from",
        f"{best.mechanism}, predicted error {number(best.typical_error, 2)}, as you chose; others",
        f"{second.mechanism} {number(second.typical_error, 2)}",
        f"in groups {number(best.predicted_error['block'], 2)}, with neighbours",
        f"will find correlations of {number(best.detection_limit, 2)} or more, nine times out",
        "into there/",
    ):
        assert part in before
    assert "epsilon 1 of the promised 1," in after
    assert "alone has 0.016" in after
    assert "of 15 pairs was released" in after or "of 15 pairs were released" in after


def test_json_is_alone_on_standard_output(run, data):
    result = run("fit", data, *PUBLIC, "--json")
    found = json.loads(result.stdout)
    assert list(found) == [
        *("file", "left_out", "n_records", "n_features", "known_mean", "output"),
        *("mechanism", "predicted_error", "typical_error", "families"),
        *("detection_limit", "hopeless"),
        *("warnings", "predicted_memory_bytes", "neighbours", "protected", "max_rows_per_unit"),
        *("estimand", "counted", "forecasts", "unit", "verdict", "structure"),
        "found_pairs",
        *("largest_pairs", "noise_sd", "guarantee", "parameters", "complete_records"),
    ]
    written = _released()
    assert "What will be released" in result.stderr
    for key in ("unit", "guarantee", "parameters", "noise_sd"):
        assert found[key] == written[key]
    assert [each["mechanism"] for each in found["forecasts"]] == [
        each.mechanism for each in _plan().forecasts
    ]


def test_without_the_package_for_figures_the_release_is_whole(run, data, monkeypatch):
    def missing(*_, **__):
        raise MissingPackageError("figures", "matplotlib", "report")

    monkeypatch.setattr(fit, "write_release_heatmap", missing)
    result = run("fit", data, *PUBLIC, "-o", "c")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "heatmap.png not written: figures need matplotlib" in words(result.stdout)
    assert run("show", "c").exit_code == 0


MADE = {
    "write_estimate": "covariance",
    "write_tables": "pairs.csv",
    "write_release_heatmap": "heatmap.png",
    "write_report": "report.html",
}


@pytest.mark.filterwarnings("always:.* was not written")
def test_no_picture_table_or_page_costs_the_release(run, data, monkeypatch):
    """Each fails, in ways of its own; the release is on the disk before, and its name is said."""
    kinds = iter((MemoryError, ValueError, OSError, TypeError))

    def failing(path, *_, **__):
        Release.read("out")
        (path / "half.csv" if path.is_dir() else path).write_text("half of it")
        raise next(kinds)("Buffer dtype\nmismatch")

    Ledger("budget.db").open_dataset("people", 4.0, 1e-4)
    charged = ("--ledger", "budget.db", "--dataset", "people")
    with monkeypatch.context() as broken:
        for name in MADE:
            broken.setattr(fit, name, failing)
        result = run("fit", data, *PUBLIC, *charged, "-o", "out")
    assert result.exit_code == 0
    warned = result.stderr.splitlines()
    for name, line in zip(MADE.values(), warned, strict=True):
        assert line.startswith(f"hushcov: warning: {name} was not written: ")
        assert line.endswith(
            "Error. Buffer dtype mismatch. The release in out/ is complete; 'hushcov report out' "
            "makes the page with all pictures."
        )
        assert f"{name} not written: " in words(result.stdout)
    assert "Released" in result.stdout
    assert "covariance.npy" not in result.stdout
    assert {path.name for path in Path("out").iterdir()} == {
        *("integers.npy", "release.json", "release.sha256")
    }
    assert run("report", "out", "-o", "page.html").exit_code == 0
    assert run("show", "out").exit_code == 0


@pytest.mark.parametrize(
    ("options", "start"),
    [
        (("--ledger", "budget.db"), "--ledger and --dataset"),
        (("--dataset", "people"), "--ledger and --dataset"),
        (
            ("--settings", "frequencies.toml"),
            "frequencies must be left out without",
        ),
        (
            ("--neighbours", "both"),
            "Invalid value for '--neighbours': 'both' is not one of 'replace', 'add-remove'. See",
        ),
        (("--allow", "all"), "Invalid value for '--allow': 'all' is not one of 'hopeless'"),
        (("--mechanism", "best"), "Invalid value for '--mechanism': 'best' is not one of 'auto'"),
        (("--constants", "theorem"), "There is no option --constants"),
        (("--epsilon", 11), "--epsilon must be above 0 and at most 10, got 11.0: "),
        (("--epsilon", 0), "--epsilon must be above 0 and at most 10, got 0.0: "),
        (("--delta", "nan"), "--delta must be above 0 and at most 0.1, got nan: "),
        (("--row-sparsity", 7), "--row-sparsity must be an integer at least 1 and at most 6"),
        (("--feature-scale", -1), "--feature-scale must be 0 (a constant feature) or from"),
        (("--feature-scale", "big"), "Invalid value for '--feature-scale': 'big' is neither"),
        (("--feature-scale", "text.npy"), "Invalid value for '--feature-scale': 'text.npy' is not"),
        (("--feature-scale", "x.npy"), "--feature-scale must be a number or have one for each of"),
    ],
)
def test_options_that_do_not_go_together_or_are_out_of_range(refused, data, options, start):
    Path("text.npy").write_text("1 2 3")
    Path("frequencies.toml").write_text('frequencies = "x.npy"\n')
    assert refused(2, "fit", data, *PUBLIC, *options).startswith(start)
    assert not Path("x-release").exists()


def test_no_data_value_is_ever_shown(run, data):
    rows = np.load(data)
    rows[17, 3] = 98765.4321
    np.save(data, rows)
    theorem = ("--mechanism", "theorem", "--feature-scale", 1)
    for extra in (theorem, ("--known-mean", *theorem), ("--json",), ("--records", 5)):
        output = run("fit", data, *PUBLIC, *extra).output
        assert "98765" not in output
        assert "123.4" not in output
