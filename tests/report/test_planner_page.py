"""The planner as a page: its grid, the numbers in it, and the file that holds them."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from importlib import resources

import pytest

from hushcov._words import memory, number
from hushcov.cli import forecasts, plan_page
from hushcov.cli.workers import Task
from hushcov.exceptions import CapacityError
from hushcov.inputs import LARGEST_EPSILON
from hushcov.planning import COMPARED_MODELS, Forecast, forecast, predicted
from hushcov.report import pages
from hushcov.report.planner import SHOWN_ERRORS, Setting, grid_around
from planner_pages import MECHANISMS as SMALL
from planner_pages import (
    RECORDS,
    embedded_data,
    in_this_process,
    planner,
    write_small_page,
)

HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028<!--"


@pytest.fixture(scope="module")
def small_page(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        return write_small_page(tmp_path_factory.mktemp("page") / "plan.html", monkeypatch)


def _combinations(data):
    """The values of all sliders at each point, in the order of the points."""
    names = [each["name"] for each in data["sliders"]]
    values = itertools.product(*(each["values"] for each in data["sliders"]))
    return [dict(zip(names, each, strict=True)) for each in values]


def test_the_grid_has_what_was_asked_for_and_values_around_it():
    grid = grid_around(Setting(1000, 5, 1.0, 1e-6), [300, 100])
    assert grid.n_features == (300, 1000, 3000)
    assert grid.row_sparsity == (2, 5, 10)
    assert grid.epsilon == (0.3, 1.0, 3.0)
    assert grid.delta == (1e-6,)
    assert grid.n_records == (100, 300)
    settings = grid.settings()
    assert len(settings) == len(set(settings)) == 3 * 3 * 3
    assert settings[:2] == [Setting(300, 2, 0.3, 1e-6), Setting(300, 2, 1.0, 1e-6)]


@pytest.mark.parametrize("k", [1, 4, 37, 800])
@pytest.mark.parametrize("epsilon", [1e-9, 0.7312345, 9.0])
def test_every_value_of_a_grid_is_in_its_range_and_of_its_kind(k, epsilon):
    centre = Setting(1000, k, epsilon, 0.1)
    grid = grid_around(centre, [7])
    assert centre in grid.settings()
    for values in (grid.n_features, grid.row_sparsity, grid.epsilon, grid.delta):
        assert list(values) == sorted(set(values))
        assert min(values) > 0
    assert all(type(each) is int for each in grid.n_features + grid.row_sparsity)
    assert max(grid.row_sparsity) <= centre.n_features
    assert max(grid.epsilon) <= LARGEST_EPSILON
    assert max(grid.delta) <= 0.1


def test_large_row_sparsities_have_fewer_settings_for_each_takes_longer():
    few = grid_around(Setting(1000, 40, 1.0, 1e-6), [7]).settings()
    many = grid_around(Setting(1000, 10, 1.0, 1e-6), [7]).settings()
    assert len(few) <= len(many) / 3


def test_the_numbers_are_those_of_the_planner_to_the_last_digit(small_page):
    data = embedded_data(small_page)
    assert data["errors"] == list(SHOWN_ERRORS) == ["typical", *COMPARED_MODELS]
    combinations = _combinations(data)
    assert len(combinations) == len(data["points"]) == 2**4 * len(RECORDS)
    for values, point in zip(combinations, data["points"], strict=True):
        n = values.pop("n_records")
        if values["row_sparsity"] > values["n_features"]:
            continue
        row = planner(**values).row(n)
        assert list(point["figures"]) == list(SMALL)
        assert point["best"] == row.best.mechanism
        for name, found in point["figures"].items():
            expected = forecast(row.given(name), name, rough=name == "multiscale")
            errors = [expected.typical_error]
            errors += [expected.predicted_error[model] for model in COMPARED_MODELS]
            assert found["errors"] == errors
            assert found["detection_limit"] == expected.detection_limit
            assert found["rough"] is expected.rough
            assert found["memory"] == row.memory(name)
            assert found["words"][:4] == [number(error, 2) for error in errors]
            assert found["words"][5] == memory(row.memory(name))


def test_what_cannot_be_planned_keeps_its_reason(small_page):
    data = embedded_data(small_page)
    impossible = [
        point
        for values, point in zip(_combinations(data), data["points"], strict=True)
        if values["row_sparsity"] > values["n_features"]
    ]
    assert len(impossible) == 4 * len(RECORDS)  # 2 nonzeros in the row of 1 feature
    for point in impossible:
        assert (point["figures"], point["best"]) == ({}, None)
        assert list(point["refusals"]) == list(SMALL)
        for reason in point["refusals"].values():
            assert reason.startswith("row_sparsity must be an integer at least 1 and at most 1")


def test_a_mechanism_that_refuses_does_not_hide_the_others(monkeypatch, tmp_path):
    def refusing(inputs, mechanism, *, rough=False):
        if mechanism == "gaussian":
            raise CapacityError("it needs more noise than integers hold")
        return Forecast(mechanism, dict.fromkeys(("block", "banded", "random"), 0.5), None, rough)

    monkeypatch.setattr(forecasts, "forecast", refusing)
    point = embedded_data(write_small_page(tmp_path / "a.html", monkeypatch))["points"][-1]
    assert list(point["figures"]) == ["screened", "multiscale"]
    assert point["refusals"] == {"gaussian": "it needs more noise than integers hold"}
    assert point["best"] == "screened"


def test_the_sliders_say_what_their_values_mean(small_page):
    data = embedded_data(small_page)
    sliders = {each["name"]: each for each in data["sliders"]}
    assert list(sliders) == ["n_features", "row_sparsity", "epsilon", "delta", "n_records"]
    start = {name: each["values"][each["start"]] for name, each in sliders.items()}
    assert start == {
        "n_features": 3,
        "row_sparsity": 2,
        "epsilon": 1.0,
        "delta": 1e-6,
        "n_records": RECORDS[1],
    }
    assert sliders["n_records"]["labels"][2] == "500,000 records"
    assert sliders["n_records"]["notes"][2].endswith("as the mean is found privately")
    assert sliders["row_sparsity"]["notes"][0] == "variances alone are released"
    assert sliders["row_sparsity"]["notes"][1].endswith("together with 1 other at most")
    note = sliders["epsilon"]["notes"][0]
    assert note.startswith("replacing one record changes the probability of an outcome by a factor")
    assert "of 2.72 at most: " in note
    assert note.endswith("50 % sure what one record is becomes 73.1 % sure at most")
    assert sliders["delta"]["labels"] == ["1e-8", "1e-6"]
    assert data["knowledge"].startswith("Means, scales and norms unknown: found from")
    assert data["fit_options"] == ""


def test_a_page_of_full_size_is_small(monkeypatch, tmp_path):
    def stand_in(inputs, mechanism, *, rough=False):
        errors = dict.fromkeys(COMPARED_MODELS, 1e5 / 3 / inputs.n_records)
        return Forecast(mechanism, errors, 1 / 3, rough)

    monkeypatch.setattr(forecasts, "forecast", stand_in)
    monkeypatch.setattr(plan_page, "usable_cores", lambda: 1)
    full = plan_page.Planner(planner().request, 1000)
    plan_page.write_page(tmp_path / "a.html", full, [], 0.25)
    data = embedded_data(tmp_path / "a.html")
    assert data["mechanisms"] == list(predicted())
    assert data["target_error"] == 0.25
    assert len(data["points"]) == 3 * 3 * 3 * 10
    assert (tmp_path / "a.html").stat().st_size < 1_500_000


@pytest.mark.parametrize("known", [False, True])
def test_the_records_go_beyond_the_usual_ones_and_contain_those_asked_for(known):
    how = {"known_mean": known, "centre": "pairs"}
    estimator = planner(**how).request
    usual = plan_page.Planner(estimator, 1000).default_records()
    found = plan_page.page_records(plan_page.Planner(estimator, 1000), [12_345])
    assert found == sorted({usual[1] // 10, *usual, usual[-2] * 10, 12_345})
    tiny = planner(**how, epsilon=10.0, delta=0.1, n_features=1, row_sparsity=1)
    assert plan_page.page_records(tiny, [])[0] == (1 if known else 3)


def test_workers_are_sent_everything_they_need():
    task = Task(plan_page._points, (planner(), Setting(3, 2, 1.0, 1e-6), RECORDS[:2]))
    sent = pickle.loads(pickle.dumps(task))
    assert list(sent.function(*sent.arguments)) == list(task.function(*task.arguments))


@pytest.mark.parametrize("kind", [ChildProcessError, MemoryError])
def test_a_worker_that_is_ended_is_explained(kind, monkeypatch, tmp_path):
    def ended(*_):
        raise kind("Finished cells are kept: run again with fewer --workers.")

    in_this_process(monkeypatch)
    monkeypatch.setattr(plan_page, "usable_cores", lambda: 2)
    monkeypatch.setattr(plan_page, "run_tasks", ended)
    with pytest.raises(ChildProcessError, match="leave out --html"):
        plan_page.write_page(tmp_path / "a.html", planner(), [], None)
    assert not (tmp_path / "a.html").exists()


def test_no_text_escapes_from_a_page():
    def page(data):
        return pages.page(
            "planner.html.j2", styles=(), programs=("graph.js",), data=data, title=HOSTILE
        )

    text = page({HOSTILE: [HOSTILE, 0.1, 1e-300]})
    assert text.count("</script>") == 2  # the data's and the program's own
    assert "<img" not in text
    assert text.index("&lt;/script&gt;&lt;img") < text.index("</title>")
    block = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(block) == {HOSTILE: [HOSTILE, 0.1, 1e-300]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        page({"error": float("nan")})


def test_the_page_asks_for_nothing_outside(small_page):
    text = small_page.read_text()
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    assert re.findall(r"(?:src|href|action|style)\s*=|url\((?!#)|import\b", text) == []
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]


def test_curves_differ_without_their_colours():
    """As many looks as the style sheet has colours, each with a dash and a mark of its own."""
    assets = resources.files("hushcov.report").joinpath("assets")
    looks = assets.joinpath("planner_chart.js").read_text().split("const LOOKS")[1].split("];")[0]
    for what in ("dash", "mark"):
        found = re.findall(rf'{what}: "([^"]+)"', looks)
        assert len(set(found)) == len(found) >= len(predicted())
    assert len(re.findall(r"\.look-\d", assets.joinpath("planner.css").read_text())) == len(found)
