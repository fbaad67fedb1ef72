"""Documents that others changed: one format is read, and what cannot be is a sentence."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hushcov
from documents import described, guarantee, seal
from hushcov.cli.main import cli
from hushcov.exceptions import DamagedReleaseError, ReleaseError
from hushcov.kernel.accounting import Gaussian, Pure
from hushcov.kernel.accounting.composition import gaussian_log_delta
from hushcov.release import Making, Part, Release
from hushcov.release.schema import FORMAT

EVENTS = (Pure(0.02), Gaussian(0.1))
COUNTED = {
    "released": 19_987,
    "noise_sd": 70.7,
    "unit": "patient",
    "max_rows_per_unit": 10,
    "relation": "add-remove",
}
PARTS = (Part("how many rows", EVENTS[:1]), Part("values", EVENTS[1:]))
MAKING = Making(n_records=19_987, counted=COUNTED, parts=PARTS)


def counted_release(**changes) -> Release:
    whom = {"adjacency": "add-remove-one", "unit": "patient", "rows_per_unit": 10}
    promised, making = guarantee(events=EVENTS, **whom), replace(MAKING, **changes)
    return Release("gaussian", np.eye(2, dtype=np.int64), 0.1, promised, {}, making=making)


@pytest.fixture
def folder(tmp_path) -> Path:
    return counted_release().write(tmp_path / "out")


def test_other_formats_are_refused(folder):
    about = described(folder)
    for version in (1, FORMAT - 1):
        seal(folder, about | {"format": version})
        with pytest.raises(ReleaseError) as caught:
            Release.read(folder)
        assert not isinstance(caught.value, DamagedReleaseError)
        words = f"{folder / 'release.json'} must have format {FORMAT}, got {version}, "
        assert str(caught.value).startswith(words)
        assert str(caught.value).endswith("read it with the version that wrote it.")
    for version in (-1, 0, FORMAT + 1, float(FORMAT), True, str(FORMAT), [FORMAT], None):
        seal(folder, about | {"format": version})
        with pytest.raises(DamagedReleaseError, match=f"must have format {FORMAT}"):
            Release.read(folder)


def test_what_was_counted_is_read_back(folder, tmp_path):
    release = Release.read(folder)
    assert release == counted_release()
    assert release.making.counted == COUNTED
    assert release.making.words == "about 19,987"
    assert counted_release(counted=COUNTED | {"noise_sd": 71.0}) != release
    named = counted_release(dataset="patients.csv")
    assert Release.read(named.write(tmp_path / "named")).making.dataset == "patients.csv"
    assert named == counted_release()
    about = described(folder)
    assert (about["guarantee"]["unit"], about["guarantee"]["rows_per_unit"]) == ("patient", 10)
    for name in ("unit", "rows_per_unit"):
        lacking = {key: value for key, value in about["guarantee"].items() if key != name}
        seal(folder, about | {"guarantee": lacking})
        with pytest.raises(DamagedReleaseError, match="guarantee must have the fields"):
            Release.read(folder)


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({}, "each patient counts with 10 records at most"),
        ({"max_rows_per_unit": 1}, "each patient counts with 1 record at most"),
        ({"unit": "record", "max_rows_per_unit": 1}, "each counts once"),
        ({"unit": "record", "max_rows_per_unit": 7}, "each counts 7 times at most"),
    ],
)
def test_counts_in_words(change, bound):
    words = Making(counted=COUNTED | change).counted_words
    assert words.startswith("about 19,987 records, released with noise of standard deviation 71, ")
    assert words.endswith(f"because how many there are is not public; {bound}")
    assert Making().counted_words is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({"released": -1}, "a number of records"), ({"released": 1.0}, "a number of records")),
        ({"released": 10**101}, "a number of records"),
        *(({"noise_sd": -1.0}, "not negative"), ({"noise_sd": "1"}, "made of numbers")),
        ({"noise_sd": 10**400}, "finite"),
        ({"unit": "visit"}, "of those whom the guarantee protects"),
        ({"max_rows_per_unit": 9}, "of those whom the guarantee protects"),
        ({"max_rows_per_unit": 10.0}, "of those whom the guarantee protects"),
        ({"relation": "replace"}, "of those whom the guarantee protects"),
        ({"relation": ["add-remove"]}, "of those whom the guarantee protects"),
        ({"more": 1}, "has fields other than"),
    ],
)
def test_counts_that_cannot_be_right(folder, change, words):
    about = described(folder)
    seal(folder, about | {"making": about["making"] | {"counted": COUNTED | change}})
    with pytest.raises(DamagedReleaseError, match=words):
        Release.read(folder)


def test_a_number_of_rows_that_is_not_the_released_one_is_not_written(tmp_path):
    """It would be the true one, which nobody may know."""
    with pytest.raises(ReleaseError, match="the released number"):
        counted_release(n_records=20_000).write(tmp_path / "out")
    with pytest.raises(ReleaseError, match="whom the guarantee protects"):
        counted_release(counted=COUNTED | {"unit": "record"}).write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
        *((("parameters", "norm", "norm"), '"x"'), (("parameters", "norm", "norm"), "-1e308")),
        (("parameters", "norm", "norm"), "1e308"),
        (("parameters", "norm", "norm"), "9" * 4_000),
        *((("noise_sd",), "null"), (("making", "tails", "noise_sd"), "1e308")),
        *((("making", "tails", "fourth", 0), "1e155"), (("feature_scale", 0), "1e155")),
        *((("feature_scale", 0), "5e-324"), (("guarantee", "events", 0, "mu"), "5e-324")),
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
    assert -746 < gaussian_log_delta(5e-324, 0.0) < -744
