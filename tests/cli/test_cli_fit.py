"""`hushcov fit`: the announcement, the refusal, the release and bad files.

Runs that are about the command and not about the constants use the theorem's, which need no plan.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hushcov.cli import fit
from hushcov.cli.output import number
from hushcov.cli.progress import WatchedRecords, busy, steps, watched
from hushcov.exceptions import DataError
from hushcov.mechanisms.multiscale import CalibratedInputs
from hushcov.metrics import operator_norm_error
from hushcov.planning import plan_multiscale
from hushcov.records import ArrayRecords, Records
from hushcov.simulate import gaussian_records, sparse_covariance

PUBLIC = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2, "--scale", 1)
THEOREM = (*PUBLIC, "--constants", "theorem")
NOT_CENTERED = "--not-centered"
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
    rows = np.random.default_rng(0).normal(size=(1000, 20)) + 123.456
    np.save(tmp_path / "x.npy", rows)
    return tmp_path / "x.npy"


@pytest.fixture
def plenty(data, monkeypatch) -> Path:
    monkeypatch.setattr(fit, "open_records", lambda file: StandIn())
    return data


def test_ordinary_data_is_refused_by_name_of_n(run, data):
    result = run("fit", data, *THEOREM)
    assert result.exit_code == 4
    assert result.stderr.startswith(
        "hushcov: error: n_records must be at least 35,191,835,595 (about 3.52e+10)"
    )
    assert "got 1,000:" in result.stderr
    assert "Nothing was released." in result.stderr
    assert "Or use --constants calibrated" in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in data.parent.iterdir()] == ["x.npy"]


def test_the_announcement_comes_first(run, data):
    text = " ".join(run("fit", data, *THEOREM, "-o", "there").stdout.split())
    for part in (
        "What will be released",
        "1,000 records of 20 features",
        "a 20 x 20 covariance estimate: integers and one public unit",
        "theorem constants, gate reconstruction",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "private? no. The proof needs at least 35,191,835,595 (about 3.52e10) records",
        "accurate? no.",
        "epsilon 1, delta 1e-6, row_sparsity 2, scale 1, target_error 0.25, "
        "failure_probability 0.1",
        "into there/",
    ):
        assert part in text
    assert "Released" not in text.replace("What will be released", "")


def test_pairs_are_counted_and_explained(run, data):
    result = run("fit", data, *THEOREM, NOT_CENTERED)
    assert result.exit_code == 4
    assert "used as 500 differences of pairs" in result.stdout
    assert "got 500:" in result.stderr
    assert "counts pairs of records, because of --not-centered" in result.stderr


def test_options_reach_the_mechanism(run, data):
    result = run("fit", data, *THEOREM, "--target-error", 0.125, "--failure-probability", 0.05)
    assert "target_error 0.125, failure_probability 0.05" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("option", "declared", "found"),
    [
        ("--records", "1e3", None),
        ("--features", 20, None),
        ("--records", 999, "1,000"),
        ("--features", 21, "20"),
    ],
)
def test_declared_size(run, data, option, declared, found):
    result = run("fit", data, *THEOREM, option, declared)
    if found is None:
        assert result.exit_code == 4
        return
    assert result.exit_code == 3
    assert result.stdout == ""
    assert f"{option} must be what {data} holds, {found}, got {declared}" in result.stderr
    assert "No record was read." in result.stderr


def test_release(run, plenty):
    result = run("fit", plenty, *THEOREM, "-o", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert text.index("What will be released") < text.index("Released")
    assert "private? yes. The proof covers every dataset of 35,191,835,595" in text
    assert "epsilon 0.375 and delta 1.562e-7 of what is promised" in text
    assert "written out/integers.npy, out/release.json" in text
    integers = np.load("out/integers.npy")
    assert integers.shape == (20, 20)
    guarantee = json.loads(Path("out/release.json").read_text())["guarantee"]
    assert guarantee["private"] is True
    assert (guarantee["epsilon"], guarantee["delta"]) == (1, 1e-6)


def test_release_of_pairs(run, plenty, monkeypatch):
    monkeypatch.setattr(fit, "open_records", lambda file: StandIn(2 * ENOUGH))
    assert run("fit", plenty, *THEOREM, NOT_CENTERED).exit_code == 0
    parameters = json.loads(Path("x-release/release.json").read_text())["parameters"]
    assert parameters["inputs"]["n_records"] == ENOUGH


def test_json_is_alone_on_standard_output(run, plenty):
    result = run("fit", plenty, *THEOREM, "--json")
    found = json.loads(result.stdout)
    written = json.loads(Path("x-release/release.json").read_text())
    assert "What will be released" in result.stderr
    for key in ("mechanism", "unit", "guarantee", "parameters"):
        assert found[key] == written[key]
    assert found["output"] == "x-release"
    assert (found["n_records"], found["n_features"]) == (ENOUGH, 20)
    assert found["nonzero_pairs"] == 0


def test_a_release_is_never_overwritten(run, plenty):
    assert run("fit", plenty, *THEOREM).exit_code == 0
    before = Path("x-release/release.json").read_bytes()
    for command in (("fit", plenty, *THEOREM), ("demo", "-o", "x-release")):
        result = run(*command)
        assert result.exit_code == 6
        assert "x-release already holds a release, which cost privacy budget" in result.stderr
    assert Path("x-release/release.json").read_bytes() == before


def test_nothing_is_left_behind_when_the_records_are_bad(run, plenty, monkeypatch):
    monkeypatch.setattr(fit, "open_records", lambda file: StandIn(value=np.nan))
    result = run("fit", plenty, *THEOREM)
    assert result.exit_code == 3
    assert "records must be finite, but some are NaN or infinite" in result.stderr
    assert not Path("x-release").exists()


def test_a_folder_that_cannot_be_is_refused_before_noise(run, plenty, monkeypatch):
    monkeypatch.setattr(StandIn, "_blocks", lambda self: pytest.fail("records were read"))
    Path("file").write_text("")
    result = run("fit", plenty, *THEOREM, "-o", "file")
    assert result.exit_code == 6
    assert result.stderr.startswith("hushcov: error: file: File exists.")


@pytest.fixture
def modest(tmp_path) -> Path:
    """As many records as people have."""
    np.save(tmp_path / "m.npy", gaussian_records(sparse_covariance("block", 4, 2), 20_000))
    return tmp_path / "m.npy"


def test_calibrated_values_are_the_default(run, modest):
    result = run("fit", modest, *PUBLIC, "-o", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    parameters = json.loads(Path("out/release.json").read_text())["parameters"]
    assert (parameters["constants"], parameters["reconstruction"]) == ("calibrated", "value")
    estimate = (
        np.load("out/integers.npy") * json.loads(Path("out/release.json").read_text())["unit"]
    )
    assert operator_norm_error(estimate, sparse_covariance("block", 4, 2)) < 0.3


def test_calibrated_announcement_has_the_prediction(run, modest):
    text = " ".join(run("fit", modest, *PUBLIC).stdout.split())
    plan = plan_multiscale(CalibratedInputs(20_000, 4, 2, 1.0, 1e-6, 1.0), "value")
    before, after = text.split(" Released ")
    for part in (
        "calibrated constants, value reconstruction",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "private? yes, whatever the records are",
        f"expected error block {number(plan.predicted_error['block'], 2)}, banded",
        "public inputs the size of the data, epsilon 1, delta 1e-6, row_sparsity 2, scale 1 into",
        plan.advice,
    ):
        assert part in before
    assert "epsilon 1 and delta" in after


def test_the_announcement_and_the_plan_come_before_any_record(run, modest, monkeypatch):
    class Unreadable(StandIn):
        def _blocks(self):
            raise DataError("records were read")

    monkeypatch.setattr(fit, "open_records", lambda file: Unreadable(20_000))
    result = run("fit", modest, *PUBLIC)
    assert result.stderr == "hushcov: error: records were read\n"
    assert "expected error block" in " ".join(result.stdout.split())


def test_a_hopeless_number_of_records_is_said_plainly_and_once(run):
    np.save("few.npy", np.ones((3, 20)))
    result = run("fit", "few.npy", *PUBLIC, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["hopeless"] is True
    assert min(found["predicted_error"].values()) == pytest.approx(1)
    text = " ".join(result.stderr.split())
    assert text.count("3 records of 20 features are too few at this budget") == 1
    assert "no better than the zero matrix" in text
    assert "warning" not in text


@pytest.mark.parametrize(
    ("options", "start"),
    [
        (
            ("--constants", "theorem", "--reconstruction", "value"),
            "--reconstruction must be 'gate' with constants='theorem', got 'value': ",
        ),
        (
            ("--target-error", 0.1),
            "--target-error must be left out with --constants calibrated, got 0.1: ",
        ),
        (
            ("--failure-probability", 0.1),
            "--failure-probability must be left out with --constants calibrated, got 0.1: ",
        ),
        (("--constants", "best"), "Invalid value for '--constants': 'best' is not one of"),
        (("--reconstruction", "both"), "Invalid value for '--reconstruction': 'both' is not"),
        (("--epsilon", 11), "--epsilon must be above 0 and at most 10, got 11.0: "),
        (("--epsilon", 0), "--epsilon must be above 0 and at most 10, got 0.0: "),
        (("--delta", "nan"), "--delta must be above 0 and at most 0.1, got nan: "),
        (("--row-sparsity", 21), "--row-sparsity must be an integer at least 1 and at most 20"),
    ],
)
def test_options_that_do_not_go_together_or_are_out_of_range(refused, data, options, start):
    assert refused(2, "fit", data, *PUBLIC, *options).startswith(start)


def test_a_delta_beyond_double_precision_is_refused(refused, data):
    line = refused(4, "fit", data, *PUBLIC, "--delta", 1e-30)
    assert line.startswith("delta must be above ")


def test_one_record_has_no_differences(refused):
    np.save("one.npy", np.ones((1, 3)))
    assert "need at least 2 records, got 1" in refused(3, "fit", "one.npy", *PUBLIC, NOT_CENTERED)


def _save(path: Path, array) -> None:
    np.save(path, array, allow_pickle=True)


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("a.npy", None, 6, "a.npy: No such file or directory"),
        ("a.npy", b"not numpy", 3, "is not a .npy file of numbers"),
        ("a.csv", b"1,2", 3, "must be a file whose name ends in .npy"),
        ("a.npy", np.zeros(5), 3, "must have two dimensions, records by features, got shape (5,)"),
        ("a.npy", np.zeros((0, 5)), 3, "must have at least one record and one feature"),
        ("a.npy", np.array([["s3cret", "b"]]), 3, "must hold real numbers, got dtype str_"),
        ("a.npy", np.array([[1, "s3cret"]], dtype=object), 3, "must hold real numbers"),
        ("a.npy", np.zeros((5, 1)), 2, "n_features must be an integer at least 2, got 1"),
        ("a.npy", np.zeros((1, 3)), 4, "got 1:"),
    ],
)
def test_bad_files(run, name, content, code, message):
    if isinstance(content, bytes):
        Path(name).write_bytes(content)
    elif content is not None:
        _save(Path(name), content)
    options = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 1, "--scale", 1)
    result = run("fit", name, *options, "--constants", "theorem")
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.output


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_dtypes_and_order_are_accepted(run, dtype):
    _save(Path("a.npy"), np.asfortranarray(np.ones((50, 20), dtype=dtype)))
    assert run("fit", "a.npy", *THEOREM).exit_code == 4


def test_a_folder_is_not_a_file(run):
    Path("folder.npy").mkdir()
    result = run("fit", "folder.npy", *THEOREM)
    assert result.exit_code == 6
    assert "folder.npy: Is a directory" in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "start"),
    [
        ("--epsilon", 2, "--epsilon must be above 0 and at most 1, got 2.0: "),
        ("--row-sparsity", 21, "--row-sparsity must be an integer at least 1 and at most 20"),
        ("--scale", 0, "--scale must be above 1e-60"),
    ],
)
def test_errors_name_the_option(refused, data, option, value, start):
    options = dict(zip(PUBLIC[::2], PUBLIC[1::2], strict=True)) | {option: value}
    arguments = [part for pair in options.items() for part in pair]
    assert refused(2, "fit", data, *arguments, "--constants", "theorem").startswith(start)


def test_required(refused, data):
    assert "Missing argument 'FILE.npy'" in refused(2, "fit")
    assert "Missing option '--row-sparsity'" in refused(2, "fit", data)


def test_no_data_value_is_ever_shown(run, data):
    rows = np.load(data)
    rows[17, 3] = 98765.4321
    np.save(data, rows)
    theorem = ("--constants", "theorem")
    for extra in (theorem, (*theorem, "--not-centered"), ("--json",), ("--records", 5)):
        output = run("fit", data, *PUBLIC, *extra).output
        assert "98765" not in output
        assert "123.4" not in output


def test_progress_counts_every_row_once():
    seen: list[int] = []
    records = WatchedRecords(ArrayRecords(np.ones((2500, 3)), block_rows=1000), seen.append)
    assert (records.n_records, records.n_features) == (2500, 3)
    total = records.map_sum(lambda block: np.array([len(block)]))
    assert total.tolist() == [2500]
    assert seen == [1000, 1000, 500]


def test_no_progress_without_a_terminal(capsys):
    with watched(ArrayRecords(np.ones((10, 3))), "afterwards") as records:
        records.map_sum(lambda block: np.array([len(block)]))
    with steps(2) as step:
        step("first")
        step("second")
    with busy("working") as say:
        say("still working")
    assert capsys.readouterr() == ("", "")


def test_progress_goes_to_standard_error_of_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with steps(2) as step:
        step("first")
        step("second")
    with busy("working"):
        pass
    out, err = capsys.readouterr()
    assert out == ""
    assert "second" in err
    assert "1/2" in err
    assert "working" in err
