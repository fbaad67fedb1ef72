"""`hushcov params` against independent numbers, and as a reader sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushcov.inputs import PublicInputs
from hushcov.paper.parameters import theorem_parameters

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
PER_LEVEL = ("m", "p", "M", "s", "b")


def _arguments(**changes):
    options = OPTIONS | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return [part for pair in options.items() for part in pair if pair[1] is not None]


def _json(run, **changes):
    result = run("params", *_arguments(**changes), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_json_has_the_papers_symbols_and_nothing_else(run):
    assert list(_json(run)) == ["inputs", *KEYS]


def test_json_agrees_with_every_golden_case(run):
    golden = Path(__file__).parents[1] / "golden/theorem_parameters.json"
    names = {
        "n": "records",
        "d": "features",
        "k": "row_sparsity",
        "alpha": "target_error",
        "epsilon": "epsilon",
        "delta": "delta",
        "beta": "failure_probability",
        "sigma": "scale",
    }
    for case in json.loads(golden.read_text())["cases"]:
        found = _json(run, **{names[key]: value for key, value in case.pop("inputs").items()})
        private = case.pop("smallest_n_where_privacy_condition_holds")
        accurate = case.pop("smallest_n_where_r_and_b_conditions_hold")
        assert found["smallest_private_n"] == pytest.approx(private, rel=1e-8, abs=0)
        assert found["smallest_accurate_n"] == pytest.approx(accurate, rel=1e-8, abs=0)
        b = case.pop("b")
        assert [scale is None for scale in found["b"]] == [scale is None for scale in b]
        assert [scale or 0 for scale in found["b"]] == pytest.approx(
            [scale or 0 for scale in b], rel=1e-9, abs=0
        )
        for key, value in case.items():
            assert found[key] == pytest.approx(value, rel=1e-9, abs=0), key


def test_json_is_the_library_object_with_exact_integers(run):
    found = _json(run, records="1e18", features="1e5", row_sparsity=100, target_error=0.001)
    parameters = theorem_parameters(PublicInputs(10**18, 10**5, 100, 0.001, 1.0, 1e-6, 0.1, 1.0))
    assert found == json.loads(json.dumps(parameters.to_dict()))
    assert max(found["M"]) == max(parameters.candidates) > 2**53
    assert all(isinstance(value, int) for key in ("m", "M", "s") for value in found[key])
    assert {len(found[key]) for key in PER_LEVEL} == {found["L"]}
    assert len(found["t"]) == found["L"] + 1


def test_defaults(run):
    explicit = _json(run, target_error=0.25, failure_probability=0.1)
    assert _json(run, target_error=None, failure_probability=None) == explicit


@pytest.mark.parametrize("width", [80, 120])
def test_reads_well_in_a_pipe(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("params", *_arguments(records="1e18", features=1000)).stdout.splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    assert not [line for line in lines if line != line.rstrip()]
    assert not [line for line in lines if "\x1b" in line]


def test_tables_show_names_symbols_and_values(run):
    text = run("params", *_arguments()).stdout
    rows = {tuple(line.split()[:3]) for line in text.splitlines() if len(line.split()) >= 3}
    for row in (
        ("n_records", "n", "1,460,676,662,127,354"),
        ("row_sparsity", "k", "5"),
        ("failure_probability", "beta", "0.1"),
        ("n_levels", "L", "14"),
        ("clip_radius", "R", "9.540892089"),
        ("test_rate", "rho", "63898828.61"),
        ("total_quota", "S_star", "684,313,899,416"),
    ):
        assert row in rows
    assert "keeps all" in text
    assert [line.split()[:3] for line in text.splitlines() if line.split()[:1] == ["3"]] == [
        ["3", "0.001563", "157"]
    ]


@pytest.mark.parametrize(
    ("records", "private", "accurate"),
    [("1e4", "no", "no"), ("1e12", "yes", "no"), ("1e16", "yes", "yes")],
)
def test_says_in_words_what_n_would_do(run, records, private, accurate):
    text = " ".join(run("params", *_arguments(records=records)).stdout.split())
    assert f"private {private}." in text
    assert f"accurate {accurate}." in text
    assert "398,797,944,288 (about 3.99e11)" in text
    assert "1,460,676,662,127,345 (about 1.46e15)" in text
    assert "error at most 0.25 " in text


def test_the_target_is_in_the_unit_of_the_data(run):
    text = " ".join(run("params", *_arguments(scale=3)).stdout.split())
    assert "error at most 2.25 " in text


@pytest.mark.parametrize(
    ("option", "value", "constraint"),
    [
        ("--records", 0, "an integer at least 1"),
        ("--records", -5, "an integer at least 1"),
        ("--features", 1, "an integer at least 2"),
        ("--row-sparsity", 0, "an integer at least 1 and at most 100"),
        ("--row-sparsity", 101, "an integer at least 1 and at most 100"),
        ("--target-error", 0.3, "above 0 and at most 0.25"),
        ("--target-error", 0.0, "above 0 and at most 0.25"),
        ("--epsilon", 1.5, "above 0 and at most 1"),
        ("--epsilon", "nan", "above 0 and at most 1"),
        ("--delta", 0.2, "above 0 and at most 0.1"),
        ("--failure-probability", 0.2, "above 0 and at most 0.1"),
        ("--scale", -1.0, "above 1e-60 and at most 1e+60"),
        ("--scale", "inf", "above 1e-60 and at most 1e+60"),
    ],
)
def test_out_of_range(refused, option, value, constraint):
    name = option.removeprefix("--").replace("-", "_")
    line = refused(2, "params", *_arguments(**{name: value}))
    assert line.startswith(f"{option} must be {constraint}")
    assert f", got {value}: " in line
    assert len(line.split(": ", 1)[1]) > 10  # the cure


@pytest.mark.parametrize(
    "option", ["--records", "--features", "--row-sparsity", "--epsilon", "--delta", "--scale"]
)
def test_required(refused, option):
    name = option.removeprefix("--").replace("-", "_")
    assert f"Missing option '{option}'" in refused(2, "params", *_arguments(**{name: None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_error": 1e-300}, "for the test rate to fit a double, got 1e-300"),
        ({"target_error": 1e-280, "scale": 1e-50}, "at scale 1e-50: choose a larger one"),
        ({"target_error": 1e-148, "features": 100_000}, "range of double precision"),
        ({"epsilon": 1e-300}, "no n up to 1e100 would do"),
    ],
)
def test_inputs_beyond_doubles_are_refused(refused, changes, message):
    assert message in refused(5, "params", *_arguments(**changes))
