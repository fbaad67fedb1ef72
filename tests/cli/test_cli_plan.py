"""`hushcov plan`: its table, the design in words, the search for the smallest n, bad input.

Most runs use a planner with a known answer, errors proportional to 1 / n, and a fixed design; the
real one is asked in two of them.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest
from matplotlib.image import imread

from hushcov.cli import cells
from hushcov.cli.cells import default_records, smallest_records
from hushcov.cli.design import design_facts
from hushcov.exceptions import PrivacyConditionError
from hushcov.mechanisms.multiscale import (
    CalibratedInputs,
    CalibratedParameters,
    Design,
    calibrated_parameters,
)
from hushcov.planning import REFERENCE_MODELS, MultiscalePlan, plan_multiscale

PUBLIC = ("--features", 10, "--row-sparsity", 2, "--epsilon", 1, "--delta", 1e-6)
# What n makes the error of the stand-in planner equal to 1.
ONE = {"block": 10_000, "banded": 20_000, "random": 30_000, "diagonal": 40_000}
DESIGN = Design(3.0, 0.25, 2, 1, 0.5, 1.0, 1.0, math.inf, 2.0)


def _inputs(**changes) -> CalibratedInputs:
    values = {
        "n_records": 10_000,
        "n_features": 10,
        "row_sparsity": 2,
        "epsilon": 1.0,
        "delta": 1e-6,
        "scale": 1.0,
    }
    return CalibratedInputs(**values | changes)


@cache
def _parameters(reconstruction: str) -> CalibratedParameters:
    return calibrated_parameters(_inputs(), DESIGN, reconstruction)


def _plan(inputs: CalibratedInputs, reconstruction: str) -> MultiscalePlan:
    """A planner with a known answer: gates need ten times the records of values."""
    factor = {"value": 1, "gate": 10}[reconstruction]
    errors = {model: factor * n / inputs.n_records for model, n in ONE.items()}
    return MultiscalePlan(replace(_parameters(reconstruction), inputs=inputs), errors)


@pytest.fixture
def planned(run, monkeypatch):
    """`planned("--records", 10)` with the stand-in planner; also remembers what it was asked."""
    asked = []

    def plan(inputs, reconstruction):
        asked.append((inputs.n_records, reconstruction))
        return _plan(inputs, reconstruction)

    monkeypatch.setattr(cells, "plan_multiscale", plan)

    def invoke(*options):
        result = run("plan", *PUBLIC, *options)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    invoke.asked = asked
    return invoke


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if "value" in line or "gate" in line]


def test_one_row_for_each_n_and_reconstruction(planned):
    text = planned("--records", "1e6", "--records", 100_000, "--records", "1e6")
    assert _rows(text) == [
        ["100,000", "value", "0.1", "0.2", "0.3", "0.4"],
        ["100,000", "gate", "1", "2", "3", "4", "no", "better", "than", "the", "zero", "matrix"],
        ["1,000,000", "value", "0.01", "0.02", "0.03", "0.04"],
        ["1,000,000", "gate", "0.1", "0.2", "0.3", "0.4"],
    ]
    assert "10 features, row sparsity 2, epsilon 1, delta 1e-6" in " ".join(text.split())
    assert "The chosen design" not in text


def test_models_without_hope_are_named(planned):
    (row,) = _rows(planned("--records", 25_000, "--reconstruction", "value"))[:1]
    assert row[2:] == ["0.4", "0.8", "1.2", "1.6", "hopeless", "on", "random,", "diagonal"]


def test_the_unit_is_named(planned):
    text = " ".join(planned("--records", 10_000, "--scale", 3).split())
    assert "in units of scale^2 = 9, if" in text


def test_without_records_the_table_goes_from_hopeless_to_accurate(planned):
    text = planned()
    values = [row for row in _rows(text) if row[1] == "value"]
    assert len(values) == 7
    assert [row[0] for row in values][:3] == ["1,000", "3,000", "10,000"]


@pytest.mark.parametrize(
    ("d", "k", "epsilon"), [(1, 1, 10.0), (20, 2, 1.0), (1000, 5, 1.0), (10**6, 50, 1e-9)]
)
def test_default_records_grow_with_the_problem(d, k, epsilon):
    inputs = _inputs(n_features=d, row_sparsity=k, epsilon=epsilon)
    records = default_records(inputs)
    assert records == sorted(records)
    assert records[-1] == 1000 * records[0]
    assert records[0] <= 10**10
    bigger = default_records(_inputs(n_features=100 * d, row_sparsity=k, epsilon=epsilon))
    assert bigger >= records
    if d == 1000:
        assert records == [30_000, 10**5, 300_000, 10**6, 3 * 10**6, 10**7, 3 * 10**7]


def test_a_single_n_shows_its_design_in_words(planned):
    text = " ".join(planned("--records", 100_000, "--reconstruction", "value").split())
    for part in (
        "The chosen design, read out by value",
        "every value of a record is clipped to +-3",
        "2 levels, with thresholds from 0.25 to 1",
        "times the threshold of a kept test, not clipped; Gumbel for the selection",
        "an average below 2 times its standard deviation is set to zero",
        "2 selections of ",
        "one Gaussian event for all kept tests, sensitivity / noise ",
        "Together epsilon 1 at delta ",
        "100,000 records of 10 features: the predicted operator-norm error is 0.1 to 0.4",
    ):
        assert part in text


def test_the_words_follow_the_design():
    inputs = _inputs(n_records=10**8)
    keeps_all = Design(2.0, 0.25, 1, 1, 100.0, 1.0, 1.0, 0.5, 0.0)
    facts = dict(design_facts(calibrated_parameters(inputs, keeps_all, "gate")))
    assert facts["levels"] == "1 level, with thresholds from 0.25 to 0.5"
    assert facts["tests"] == "55, all of them kept"
    assert "clipped at 0.5" in facts["noise"]
    assert "Gumbel" not in facts["noise"]
    assert "the answers -1, 0 or +1 of its kept tests are added up" in facts["read-out"]
    assert "selection" not in facts["budget"]


def test_hopeless_designs_say_so(planned):
    text = " ".join(planned("--records", 100, "--reconstruction", "gate").split())
    assert "100 records of 10 features are too few at this budget" in text


def test_target_finds_the_smallest_n(planned):
    text = planned("--records", 10_000, "--target-error", 0.1, "--reconstruction", "value")
    assert "Smallest number of records with a predicted error of 0.1 or less" in text
    found = [int(n.replace(",", "")) for n in _rows(text)[-1][1:]]
    for n, one in zip(found, ONE.values(), strict=True):
        assert 10 * one <= n <= 1.1 * 10 * one


@pytest.mark.parametrize("model", REFERENCE_MODELS)
@pytest.mark.parametrize("target", [1.0, 0.3, 1e-3])
def test_smallest_n_is_found_from_either_side(monkeypatch, model, target):
    monkeypatch.setattr(cells, "plan_multiscale", _plan)
    for epsilon in (10.0, 1.0, 1e-4):  # moves where the walk starts
        inputs = _inputs(epsilon=epsilon)
        n = smallest_records(inputs, "value", model, target, lambda _: None)
        assert ONE[model] / target <= n <= 1.1 * ONE[model] / target


def test_smallest_n_at_both_ends(monkeypatch):
    errors = dict.fromkeys(REFERENCE_MODELS, 0.5)
    parameters = _plan(_inputs(), "value").parameters
    monkeypatch.setattr(cells, "plan_multiscale", lambda *_: MultiscalePlan(parameters, errors))
    assert smallest_records(_inputs(), "value", "block", 0.6, lambda _: None) == 1
    assert smallest_records(_inputs(), "value", "block", 0.4, lambda _: None) is None


def test_a_target_out_of_reach_is_said(planned, monkeypatch):
    errors = dict.fromkeys(REFERENCE_MODELS, 0.5)
    plan = MultiscalePlan(_plan(_inputs(), "gate").parameters, errors)
    monkeypatch.setattr(cells, "plan_multiscale", lambda *_: plan)
    text = planned("--records", 10_000, "--reconstruction", "gate", "--target-error", 0.4)
    assert "not by 1e10" in text


def test_json_has_everything(planned):
    found = json.loads(planned("--records", 1e5, "--json", "--target-error", 0.5, "--scale", 2))
    assert found["mechanism"] == "multiscale"
    assert [cell["reconstruction"] for cell in found["cells"]] == ["value", "gate"]
    for cell in found["cells"]:
        inputs = _inputs(n_records=100_000, scale=2.0)
        plan = _plan(inputs, cell["reconstruction"])
        assert CalibratedInputs(**cell["inputs"]) == inputs
        assert cell["predicted_error"] == plan.predicted_error
        assert cell["hopeless"] is plan.hopeless
        assert cell["advice"] == plan.advice
        assert cell["parameters"] == json.loads(json.dumps(plan.parameters.to_dict()))
        assert cell["guarantee"]["transcript_epsilon"] <= 1
    assert found["target_error"] == 0.5
    assert list(found["smallest_records"]) == ["value", "gate"]
    assert list(found["smallest_records"]["gate"]) == list(REFERENCE_MODELS)


def _refusing(n_records):
    def plan(inputs, reconstruction):
        if inputs.n_records in n_records:
            raise PrivacyConditionError("delta must be above 1e-5, got 1e-6: choose a larger one.")
        return _plan(inputs, reconstruction)

    return plan


def test_a_cell_that_cannot_be_certified_does_not_hide_the_others(planned, monkeypatch):
    monkeypatch.setattr(cells, "plan_multiscale", _refusing({10**7}))
    options = ("--records", 100_000, "--records", "1e7", "--reconstruction", "value")
    rows = _rows(planned(*options))
    assert rows[1][2:9] == ["-", "-", "-", "-", "refused:", "delta", "must"]
    kept, refusal = json.loads(planned(*options, "--json"))["cells"]
    assert kept["hopeless"] is False
    assert (refusal["hopeless"], refusal["predicted_error"], refusal["parameters"]) == (None,) * 3
    assert refusal["refusal"].startswith("delta must be above 1e-5")


def test_if_nothing_can_be_certified_the_reason_is_the_answer(refused, monkeypatch):
    monkeypatch.setattr(cells, "plan_multiscale", _refusing({5, 6}))
    line = refused(4, "plan", *PUBLIC, "--records", 5, "--records", 6)
    assert line == "delta must be above 1e-5, got 1e-6: choose a larger one."


def test_figure(planned):
    text = planned("--figure", "plan.png", "--target-error", 0.5)
    assert "written: plan.png" in text
    assert imread("plan.png")[..., :3].std() > 0.05


def test_a_figure_that_cannot_be_is_refused_before_the_work(refused, planned):
    line = refused(6, "plan", *PUBLIC, "--figure", "nowhere/plan.png")
    assert line.startswith("nowhere: No such file or directory")
    assert "is a directory" in refused(2, "plan", *PUBLIC, "--figure", ".")
    assert planned.asked == []


@pytest.mark.parametrize(
    ("option", "value", "start"),
    [
        ("--epsilon", 0, "--epsilon must be above 0 and at most 10, got 0.0: "),
        ("--epsilon", -1, "--epsilon must be above 0 and at most 10, got -1.0: "),
        ("--epsilon", "nan", "--epsilon must be above 0 and at most 10, got nan: "),
        ("--epsilon", 10.5, "--epsilon must be above 0 and at most 10, got 10.5: "),
        ("--epsilon", "one", "Invalid value for '--epsilon': 'one' is not a number"),
        ("--delta", 0, "--delta must be above 0 and at most 0.1, got 0.0: "),
        ("--delta", "nan", "--delta must be above 0 and at most 0.1, got nan: "),
        ("--delta", 0.2, "--delta must be above 0 and at most 0.1, got 0.2: "),
        ("--row-sparsity", 11, "--row-sparsity must be an integer at least 1 and at most 10, got"),
        ("--row-sparsity", 0, "--row-sparsity must be an integer at least 1 and at most 10, got"),
        ("--features", 0, "--features must be an integer at least 1, got 0: "),
        ("--records", 0, "--records must be an integer at least 1 and at most 1e+18, got 0"),
        ("--records", "1e19", "--records must be an integer at least 1 and at most 1e+18, got"),
        ("--records", 1.5, "Invalid value for '--records': '1.5' is not a whole number"),
        ("--scale", "inf", "--scale must be above 1e-60 and at most 1e+60, got inf: "),
        ("--target-error", 0, "--target-error must be above 0 and at most 1, got 0.0: "),
        ("--target-error", 2, "--target-error must be above 0 and at most 1, got 2.0: "),
        ("--target-error", "nan", "--target-error must be above 0 and at most 1, got nan: "),
        ("--mechanism", "laplace", "Invalid value for '--mechanism': 'laplace' is not"),
        ("--reconstruction", "none", "Invalid value for '--reconstruction': 'none' is not one of"),
    ],
)
def test_bad_input_is_refused_before_any_plan(refused, planned, option, value, start):
    line = refused(2, "plan", *PUBLIC, "--records", 100, option, value)
    assert line.startswith(start)
    assert planned.asked == []


@pytest.mark.parametrize("option", ["--features", "--row-sparsity", "--epsilon", "--delta"])
def test_required(refused, option):
    options = dict(zip(PUBLIC[::2], PUBLIC[1::2], strict=True))
    del options[option]
    arguments = [part for pair in options.items() for part in pair]
    assert f"Missing option '{option}'" in refused(2, "plan", *arguments)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_reads_well_in_a_pipe(planned, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = planned("--records", 30_000, "--target-error", 0.5)
    assert max(map(len, text.splitlines())) <= max(80, min(width, 100))
    assert "\x1b" not in text


@pytest.mark.parametrize("reconstruction", ["value", "gate"])
def test_the_real_planner(run, reconstruction):
    size = ("--features", 2, "--row-sparsity", 1, "--epsilon", 1, "--delta", 1e-6)
    options = ("--records", "1e4", "--reconstruction", reconstruction)
    (cell,) = json.loads(run("plan", *size, *options, "--json").stdout)["cells"]
    plan = plan_multiscale(CalibratedInputs(10_000, 2, 1, 1.0, 1e-6, 1.0), reconstruction)
    assert cell["predicted_error"] == plan.predicted_error
    result = run("plan", *size, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert plan.advice in " ".join(result.stdout.split())
