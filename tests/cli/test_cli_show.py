"""`hushcov show`: what it says of a release, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushcov.accounting import Gaussian, Guarantee
from hushcov.cli.main import EXIT_CODES
from hushcov.release import Making, Release
from hushcov.simulate import gaussian_records, sparse_covariance


def write(folder="out", **changes) -> Path:
    private = changes.pop("private", True)
    promised = {"epsilon": 1.0, "delta": 1e-6, "transcript_epsilon": 0.5, "transcript_delta": 1e-6}
    guarantee = Guarantee(
        **promised | {name: changes.pop(name) for name in promised if name in changes},
        numerical_delta=0.0,
        events=(Gaussian(0.1),),
        method="gaussian",
        preconditions=("rows are bounded",),
        private=private,
    )
    parts = {
        "mechanism": "screened",
        "integers": np.array([[4, -1, 0], [-1, 1, 0], [0, 0, 9]]),
        "unit": 0.5,
        "guarantee": guarantee,
        "parameters": {"inputs": {"n_records": 12_345, "epsilon": 1.0, "spent": []}},
        "feature_scale": np.array([1.0, 2.0, 3.0]),
        "noise_sd": (0.25, 0.125),
        "selected": np.array([[0], [1]]),
    }
    return Release(**parts | changes).write(folder)


def _words(text: str) -> str:
    return " ".join(text.split())


def test_everything_is_said(run):
    write()
    result = run("show", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    text = _words(result.stdout)
    for part in (
        "Release in out/",
        "undamaged yes: integers.npy match",
        "signature none: checksums do not say who wrote the files",
        "UTC by hushcov 0.1.0, numpy 2",
        "private yes",
        "(1, 1e-6)-differential privacy: replacing any one record",
        "odds somebody who is 1, 10 or 50 % sure what one record is can become 2.67,",
        "spent epsilon 0.5, delta 1e-6 conditions",
        "conditions rows are bounded",
        "mechanism screened",
        "public inputs the size of the data, epsilon 1",
        "size 3 features: a 3 x 3 covariance",
        "pairs 1 of 3 pairs was selected and released",
        "noise standard deviation 0.25 on a pair and 0.125 on a variance",
        "0, 1 -0.500 -1",
    ):
        assert part in text
    assert "NOT PRIVATE" not in text


def test_whom_it_protects_and_what_was_counted(run):
    counted = {"released": 10_000, "noise_sd": 70.0, "unit": "patient", "max_rows_per_unit": 5}
    release = Release.read(write("plain"))
    whom = {"adjacency": "add-remove-one", "unit": "patient", "rows_per_unit": 5}
    guarantee = replace(release.guarantee, **whom)
    making = Making(n_records=10_000, counted=counted | {"relation": "add-remove"})
    replace(release, guarantee=guarantee, making=making).write("out")
    text = _words(run("show", "out").stdout)
    assert "adding or removing all records of any one patient changes" in text
    assert "50 % sure that one patient is in the data can" in text
    assert "counted about 10,000 records, released with noise of standard deviation 70" in text
    found = json.loads(run("show", "out", "--json").stdout)
    assert found["odds"]["guess"] == "that one patient is in the data"
    assert found["making"]["counted"]["max_rows_per_unit"] == 5


def test_not_private_is_said_loudly(run):
    write(private=False)
    text = run("show", "out").stdout
    assert "NOT PRIVATE" in text
    assert json.loads(Path("out/release.json").read_text())["private"] is False


def test_json(run):
    folder = write(column_names=("a", "b", "c"))
    found = json.loads(run("show", "out", "--json").stdout)
    assert (found["undamaged"], found["signature"]) == (True, "none")
    assert "verified" not in found
    written = json.loads((folder / "release.json").read_text())
    assert {name: found[name] for name in written} == written
    assert found["released_pairs"] == 1
    assert found["largest_pairs"][0]["features"] == [0, 1]
    assert found["not_part_of_it"] == []


def test_noise_is_not_shown_as_a_correlation_of_one(run):
    """A pair beyond 1, a negative variance with a pair, and nothing cut to 1.000."""
    matrix = np.array([[4, -9, 2], [-9, 4, 0], [2, 0, -1]])
    write(integers=matrix, selected=None, feature_scale=np.ones(3))
    text = _words(run("show", "out").stdout)
    assert "0, 1 -2.25: noise -4.5" in text
    assert "0, 2 none: noise 1" in text
    assert "1 of 3 variances" in text
    assert "correlation beyond 1" in text
    assert "1.000" not in text
    second, first = json.loads(run("show", "out", "--json").stdout)["largest_pairs"]
    assert (first["correlation"], first["noise"]) == (pytest.approx(-2.25), True)
    assert (second["correlation"], second["noise"]) == (None, True)


def test_columns_have_names_and_terminals_are_safe(run):
    write(column_names=("age", "\x1b[31mred\n", "x" * 80), mechanism="m\x1b]0;t\x07")
    Path("out/\x1b[2Jnotes").touch()
    text = run("show", "out").stdout
    assert "age, ?[31mred?" in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "not part of it" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": 1e308},
        {"unit": 5e-324},
        {"feature_scale": np.full(3, 1e308)},
        {"feature_scale": np.zeros(3)},
        {"feature_scale": None, "noise_sd": None, "selected": None},
        {"integers": np.zeros((3, 3), np.int64)},
        {"integers": np.full((3, 3), -(2**63)), "selected": None},
        {"integers": np.array([[7]]), "selected": None, "feature_scale": None},
        {"parameters": {"inputs": [1]}},
        {"parameters": {"inputs": {"n": 10**4000, "t": True, "x": "y\x1b"}}},
        {"epsilon": 1e300},
    ],
)
def test_extreme_numbers(run, changes):
    write(**changes)
    assert run("show", "out").exit_code == 0
    json.loads(run("show", "out", "--json").stdout)


def test_what_fit_wrote_is_undamaged(run):
    np.save("x.npy", gaussian_records(sparse_covariance("block", 6, 2), 4_001))
    options = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2)
    assert run("fit", "x.npy", *options).exit_code == 0
    assert list(Path().glob(".hushcov-*")) == []
    text = _words(run("show", "x-release").stdout)
    assert "pairs.csv, report.html, variances.csv match" in text
    assert "private yes" in text
    for name in ("covariance.npy", "heatmap.png", "integers.npy", "release.json"):
        path = Path("x-release") / name
        sound = path.read_bytes()
        path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        result = run("show", "x-release")
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"{name} does not match" in result.stderr
        path.write_bytes(sound)


def test_other_refusals(refused):
    assert "show" in EXIT_CODES[1]
    write()
    Path("empty").mkdir()
    Path("file").write_text("")
    for name in ("nowhere", "empty", "file", "out/release.json"):
        assert "of a release" in refused(6, "show", name)
    Path("out/release.sha256").unlink()
    assert "release.sha256 is missing" in refused(1, "show", "out")
    refused(2, "show")


def test_fit_wants_a_new_or_empty_folder(refused):
    np.save("x.npy", np.ones((50, 2)))
    options = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 2, "--mechanism", "gaussian")
    options = (*options, "--known-mean")
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    for folder, words in (("full", "new or empty folder"), (".", "current folder")):
        assert words in refused(6, "fit", "x.npy", *options, "-o", folder)
    assert Path("full/notes.txt").read_text() == "mine"


# Some columns of a release.


def named(**changes) -> Path:
    places = {
        "positions": np.array([10, 20, 40]),
        "chromosomes": ("1", "1", "2"),
        "making": Making(n_records=10_000),
    }
    return write(column_names=("rs1", "rs2", "rs30"), **places | changes)


def test_a_column_and_its_pairs(run):
    named()
    text = _words(run("show", "out", "--column", "rs1").stdout)
    for part in ("rs1 and its pairs", "chromosome 1, position 10", "rs2 +1 20 -0.500"):
        assert part in text
    found = json.loads(run("show", "out", "--column", "rs1", "--json").stdout)
    assert found["position"] == 10
    assert [(each["feature"], each["columns_away"]) for each in found["pairs"]] == [("rs2", 1)]
    nothing = json.loads(run("show", "out", "--column", "rs30", "--window", 1, "--json").stdout)
    assert nothing["pairs"] == []


def test_columns_by_a_part_of_their_name(run):
    named()
    text = _words(run("show", "out", "--column", "rs").stdout)
    assert "3 columns with 'rs' in the name" in text
    assert json.loads(run("show", "out", "--column", "rs?", "--json").stdout) == {
        "matching": ["rs1", "rs2"],
        "number": 2,
    }
    assert "rs30 and its pairs" in run("show", "out", "--column", "*30").stdout


def test_columns_side_by_side(run):
    named()
    text = _words(run("show", "out", "--columns", "rs1..rs30").stdout)
    assert "1 rs1 10 1.00 -0.50" in text
    found = json.loads(run("show", "out", "--columns", "rs30..rs1", "--json").stdout)
    assert found["columns"] == ["rs1", "rs2", "rs30"]
    assert found["correlation"][0] == [1.0, pytest.approx(-0.5), None]
    assert found["positions"] == [10, 20, 40]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--column", "zz"], "none of its 3 has 'zz'"),
        (["--column", "rs1", "--columns", "rs1..rs2"], "must not be given both"),
        (["--window", "3"], "--window must be given with --column"),
        (["--columns", "rs1"], "two columns like A..B"),
        (["--columns", "rs..rs2"], "part of 3 names"),
        (["--columns", "rs1..zz"], "none of its 3 has 'zz'"),
        (["--column", "rs1", "--window", "0"], "window must be"),
    ],
)
def test_columns_that_are_not_there(run, options, words):
    named()
    result = run("show", "out", *options)
    assert result.exit_code != 0
    assert words in _words(result.stderr)
    assert "raceback" not in result.stderr


def test_showing_a_release_loads_little(run):
    write()
    code = (
        "import sys; from hushcov.cli.main import cli\n"
        "try: cli.main(['show', 'out'])\n"
        "except SystemExit: pass\n"
        "print(sum(name.split('.')[0] == 'hushcov' for name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stderr) <= 40
