"""`hushcov plan`: its tables, the designs in words, the smallest n, JSON and bad input.

Most runs use forecasts with a known answer, errors proportional to 1 / n.
"""

import json
import sys
from collections import Counter

import numpy as np
import pytest

from command_line import words
from hushcov import PrivateSparseCovariance, inputs
from hushcov import fit as planning
from hushcov.exceptions import CapacityError
from hushcov.fit import (
    COMPARED_MODELS,
    Forecast,
    Request,
    comparison,
)

PUBLIC = ("--features", 10, "--row-sparsity", 2, "--epsilon", 1, "--delta", 1e-6)
PUBLIC = (*PUBLIC, "--known-mean")  # so that plans are quick
# The stand-ins, and how many records make the typical error of each equal to 1.
ONE = {"adaptive": 2_000, "screened": 4_000, "gaussian-threshold": 6_000}
ONE |= {"gaussian": 20_000, "multiscale": 40_000}
MODELS = {"block": 0.5, "banded": 1.0, "random": 2.0, "diagonal": 4.0}  # over the typical error
ROUGHLY = 2  # the rough figures over the searched ones


def _forecast(
    inputs, mechanism: str, *, rough: bool = False, adaptive_width: bool = False
) -> Forecast:
    error = ONE[mechanism] / inputs.n_records * (ROUGHLY if rough else 1)
    limit = min(1.0, error) if mechanism not in ("gaussian", "multiscale") else None
    return Forecast(mechanism, {m: f * error for m, f in MODELS.items()}, limit, rough)


class StandIn:
    """A mechanism with a design of one fact."""

    def __init__(self, name):
        self.name, self.slow = name, name == "multiscale"

    def plan(self, inputs):
        return self

    def facts(self, before):
        return [("name", self.name)]

    def table(self):
        return None

    def to_dict(self):
        return {"name": self.name}


def predict(monkeypatch, function):
    """Plan with another forecast."""
    for module in (comparison, planning):
        monkeypatch.setattr(module, "forecast", function)


@pytest.fixture
def planned(run, monkeypatch):
    """`planned("--records", 10)` with the stand-in; also remembers what it was asked."""
    asked = []

    def remembered(inputs, mechanism, *, rough=False, adaptive_width=False):
        asked.append((inputs.n_records, mechanism, rough))
        return _forecast(inputs, mechanism, rough=rough)

    predict(monkeypatch, remembered)
    for module in (comparison, planning):
        monkeypatch.setattr(module, "comparable", lambda _: {name: StandIn(name) for name in ONE})

    def invoke(*options):
        result = run("plan", *PUBLIC, *options)
        assert (result.exit_code, result.stderr) == (0, ""), result.stderr
        return result.stdout

    invoke.asked = asked
    return invoke


def _rows(text: str, first: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split()[:1] == [first]]


def test_rows_and_columns_and_the_design_of_the_best(planned):
    text = planned("--records", "2e5", "--records", 20_000, "--records", "2e5")
    assert _rows(text, "20,000") == [
        ["20,000", "*0.1", "0.2", "0.3", "1", "~4", "0.05", "0.1", "0.2", "0.1"]
    ]
    assert _rows(text, "200,000")[0][:6] == ["200,000", "*0.01", "0.02", "0.03", "0.1", "~0.4"]
    words = " ".join(text.split())
    assert "10 features, row sparsity 2, epsilon 1," in words
    assert "'hushcov plan --mechanism multiscale'" in words
    assert "Mean known. Scales unknown" in words
    assert "The design of" not in text
    text = planned("--records", 20_000)
    assert _rows(text, "adaptive") == [["adaptive", "*0.1", "0.05", "0.1", "0.2", "0.1"]]
    assert _rows(text, "multiscale") == [["multiscale", "~4", "2", "4", "8", "-"]]
    assert _rows(text, "gaussian") == [["gaussian", "1", "0.5", "1", "2", "-"]]
    assert "20,000 records" in text
    assert "design of adaptive," in text
    assert text.count("The design of") == 1


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ((), "Means, scales and norms unknown: found from a part of the budget"),
        (("--known-scale",), "Means and norms unknown: found from a part of the budget"),
        (("--known-mean",), "Mean known. Scales unknown: estimated from a part of the budget"),
        (("--known-mean", "--known-scale"), "Mean known. Scales known."),
    ],
)
def test_what_is_not_known_is_said(run, planned, known, words):
    options = ("plan", *PUBLIC[:-1], "--records", 20_000, *known)
    assert words in " ".join(run(*options).stdout.split())
    found = json.loads(run(*options, "--json").stdout)
    asked = tuple(f"--{name}" in known for name in ("known-mean", "known-scale"))
    assert (found["known_mean"], found["known_scale"]) == asked


def test_mechanisms_can_be_chosen(planned):
    options = ("--mechanism", "gaussian", "--mechanism", "gaussian-threshold")
    text = planned("--records", 20_000, *options)
    assert {name for _, name, _ in planned.asked} == {"gaussian", "gaussian-threshold"}
    assert _rows(text, "gaussian-threshold")[0][1] == "*0.3"
    assert "design of gaussian-threshold" in text
    assert "design of gaussian, " in text
    found = json.loads(planned("--records", 20_000, *options, "--json"))
    assert found["mechanisms"] == ["gaussian-threshold", "gaussian"]
    assert list(found["designs"]) == ["gaussian-threshold", "gaussian"]


def test_target_finds_the_smallest_number_of_records(planned):
    text = planned("--records", 20_000, "--target-error", 0.1)
    assert "error of 0.1 or" in text
    table = text.split("Smallest")[1]
    for name in ONE:
        row = _rows(table, name)[0]
        factor = 1 / 0.1 * (ROUGHLY if name == "multiscale" else 1)
        for model, found in zip(COMPARED_MODELS, row[1:], strict=True):
            assert found.startswith("~") is (name == "multiscale")
            n = int(found.strip("~").replace(",", ""))
            expected = factor * ONE[name] * MODELS[model]
            assert expected * 0.99 <= n <= 1.03 * expected


def test_numbers_are_whole_where_there_are_more_mechanisms(planned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(ONE, "candidates", 60_000)
    text = planned("--records", 20_000, "--records", "2e6")
    assert _rows(text, "2,000,000")[0][1] == "*0.001"
    assert "…" not in text


def test_json_has_everything(planned):
    found = json.loads(planned("--records", 20_000, "--json", "--target-error", 0.5))
    assert list(found) == [
        *("n_features", "row_sparsity", "epsilon", "delta", "known_mean"),
        *("known_scale", "neighbours", "unit", "max_rows_per_unit", "odds"),
        *("mechanisms", "count_epsilon", "plans", "designs", "target_error", "smallest_records"),
    ]
    assert (found["neighbours"], found["unit"], found["max_rows_per_unit"]) == (
        "replace",
        "record",
        1,
    )
    assert found["odds"]["guess"] == "what one record is"
    assert found["mechanisms"] == list(ONE)
    (each,) = found["plans"]
    assert list(each) == ["n_records", "best", "forecasts", "refusals", "warnings"]
    assert (each["n_records"], each["best"]) == (20_000, "adaptive")
    assert [forecast["mechanism"] for forecast in each["forecasts"]] == list(ONE)
    first = each["forecasts"][0]
    assert first["predicted_error"] == {m: pytest.approx(0.1 * f) for m, f in MODELS.items()}
    assert first["typical_error"] == pytest.approx(0.1)
    assert first["detection_limit"] == pytest.approx(0.1)
    assert [forecast["rough"] for forecast in each["forecasts"]] == [False] * 4 + [True]
    assert found["designs"] == {"adaptive": {"name": "adaptive"}}
    assert list(found["smallest_records"]) == list(ONE)
    assert list(found["smallest_records"]["gaussian"]) == list(COMPARED_MODELS)


def _refusing(name):
    def answer(inputs, mechanism, *, rough=False, adaptive_width=False):
        if name in (mechanism, "all"):
            raise CapacityError("epsilon = 1 needs more noise: use a larger budget.")
        return _forecast(inputs, mechanism, rough=rough)

    return answer


def test_a_mechanism_that_refuses_does_not_hide_the_others(planned, monkeypatch):
    predict(monkeypatch, _refusing("adaptive"))
    text = planned("--records", 20_000, "--records", 40_000)
    assert _rows(text, "20,000")[0][:3] == ["20,000", "-", "*0.2"]
    reason = "adaptive: epsilon = 1 needs more noise: use a larger budget."
    assert " ".join(text.split()).count(reason) == 1
    one = planned("--records", 20_000)
    assert _rows(one, "adaptive")[0] == ["adaptive", "-", "-", "-", "-", "-"]
    assert reason in " ".join(one.split())
    everything = json.loads(planned("--records", 20_000, "--json", "--target-error", 0.1))
    (found,) = everything["plans"]
    assert list(found["refusals"]) == ["adaptive"]
    assert found["best"] == "screened"
    assert list(everything["smallest_records"]) == list(ONE)[1:]


@pytest.mark.parametrize(
    ("option", "value", "start"),
    [
        ("--epsilon", "nan", "--epsilon must be above 0 and at most 10, got nan: "),
        ("--epsilon", "one", "Invalid value for '--epsilon': 'one' is not a number"),
        ("--delta", 0.2, "--delta must be above 0 and at most 0.1, got 0.2: "),
        ("--row-sparsity", 11, "--row-sparsity must be an integer at least 1 and at most 10, got"),
        (
            "--features",
            0,
            "--features must be an integer at least 1 and at most 1000000000, got 0: ",
        ),
        ("--records", 0, "--records must be an integer at least 1 and at most 1000000000000, got"),
        ("--records", "1e13", "--records must be an integer at least 1 and at most 100000000000"),
        ("--records", 1.5, "Invalid value for '--records': '1.5' is not a whole number"),
        ("--target-error", 2, "--target-error must be above 0 and at most 1, got 2.0: "),
        ("--mechanism", "laplace", "Invalid value for '--mechanism': 'laplace' is not"),
    ],
)
def test_bad_input_is_refused_before_any_plan(refused, planned, option, value, start):
    line = refused(2, "plan", *PUBLIC, "--records", 100, option, value)
    assert line.startswith(start)
    assert planned.asked == []


def test_the_real_plan_of_one_size(run):
    size = ("--features", 6, "--row-sparsity", 2, "--epsilon", 1, "--delta", 1e-6)
    estimator = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, row_sparsity=2)
    comparison = estimator.plan(4_001, 6)
    result = run("plan", *size, "--records", 4_001, "--json")
    (found,) = json.loads(result.stdout)["plans"]
    assert found["best"] == comparison.best.mechanism
    for each in comparison.forecasts:
        (same,) = [f for f in found["forecasts"] if f["mechanism"] == each.mechanism]
        assert same["predicted_error"] == each.predicted_error
        assert same["rough"] == each.rough
    text = run("plan", *size, "--records", 4_001).stdout
    assert "design of adaptive," in text  # what a fit runs


BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_one_number_of_records_has_families_and_the_design(run):
    result = run("plan", "--features", 12, "--records", 8_000, *BUDGET)
    assert (result.exit_code, result.stderr) == (0, "")
    text = words(result.stdout)
    for part in (
        "whatever the structure: 8,000 records of 12 features, epsilon 1, delta 1e-6",
        "k = 3 2 partners of each feature",
        "k = 10 9 partners of each feature",
        "factor one factor, a third of the variance",
        "dense all pairs related, a little",
        "nine times out of ten",
        "The design, from public inputs alone budget",
    ):
        assert part in text
    assert "k = 20" not in text


# A fit of the command line plans once: nothing is divided or checked again on the way.


def calls(functions, action):
    """Count calls of functions, however deep below the action they are."""
    codes, found = {function.__code__: name for name, function in functions.items()}, Counter()

    def watch(frame, event, _):
        if event == "call" and frame.f_code in codes:
            found[codes[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def test_a_fit_divides_its_budget_once_and_checks_its_inputs_at_most_twice(run):
    """The second check is that of the report, which is written from the release alone."""
    rows = np.random.default_rng(0).standard_normal((4_000, 12))
    names = ",".join(f"c{i}" for i in range(12))
    np.savetxt("x.csv", rows, delimiter=",", header=names, comments="")
    functions = {"divisions": Request.divide, "checks": inputs._check}
    results = []
    found = calls(functions, lambda: results.append(run("fit", "x.csv", *BUDGET, "-o", "out")))
    assert results[0].exit_code == 0, results[0].stderr
    assert found["divisions"] == 1
    assert 1 <= found["checks"] <= 2
