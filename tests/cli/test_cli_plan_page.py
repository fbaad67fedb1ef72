"""`hushcov plan --html`: what it writes and says, and what it refuses before any work."""

from __future__ import annotations

import json

import pytest

from hushcov.cli import forecasts
from hushcov.planning import COMPARED_MODELS, Forecast, predicted
from planner_pages import embedded_data, in_this_process

PUBLIC = ("--features", 10, "--row-sparsity", 2, "--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def asked(monkeypatch):
    """What a stand-in was asked for; its errors are 1 / n."""
    found = []

    def stand_in(inputs, mechanism, *, rough=False):
        found.append((inputs.n_records, mechanism, rough))
        return Forecast(mechanism, dict.fromkeys(COMPARED_MODELS, 1 / inputs.n_records), 0.5, rough)

    monkeypatch.setattr(forecasts, "forecast", stand_in)
    in_this_process(monkeypatch)
    return found


def test_the_page_is_written_beside_the_table(run, asked, tmp_path):
    result = run("plan", *PUBLIC, "--html", "plan.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "written: plan.html" in result.stdout
    assert "Predicted error: 10 features" in result.stdout
    data = embedded_data(tmp_path / "plan.html")
    assert data["mechanisms"] == list(predicted())
    assert data["target_error"] == 0.1
    assert {rough for _, name, rough in asked if name == "multiscale"} == {True}


def test_what_was_asked_for_is_where_the_page_starts(run, asked, tmp_path):
    options = ("--records", 54_321, "--known-mean", "--known-scale", "--target-error", 0.3)
    result = run("plan", *PUBLIC, *options, "--mechanism", "gaussian", "--html", "a.html", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["plans"][0]["n_records"] == 54_321
    data = embedded_data(tmp_path / "a.html")
    sliders = {each["name"]: each for each in data["sliders"]}
    start = {name: each["values"][each["start"]] for name, each in sliders.items()}
    assert list(start.values()) == [10, 2, 1.0, 1e-6, 54_321]
    assert data["mechanisms"] == ["gaussian"]
    assert data["target_error"] == 0.3
    assert data["knowledge"] == "Mean known. Scales known."
    assert data["fit_options"] == "--known-mean --feature-scale SCALES"


@pytest.mark.parametrize("options", [("--refine",), ("--mechanism", "multiscale")])
def test_a_page_of_searches_is_refused(refused, asked, options):
    line = refused(2, "plan", *PUBLIC, *options, "--html", "plan.html")
    assert line.startswith("--html cannot be used with --refine or --mechanism multiscale: ")
    assert asked == []


def test_a_page_that_cannot_be_written_is_refused_before_the_work(refused, asked):
    line = refused(6, "plan", *PUBLIC, "--html", "nowhere/plan.html")
    assert line.startswith("nowhere: No such file or directory")
    assert "is a directory" in refused(2, "plan", *PUBLIC, "--html", ".")
    assert asked == []
