"""Medians, winners, files and figures, from cells whose numbers are known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hushcov import __version__
from hushcov.report.style import write_png
from hushcov_lab.benchmark import figures
from hushcov_lab.benchmark.cells import Fit
from hushcov_lab.benchmark.contenders import CONTENDERS
from hushcov_lab.benchmark.figures import (
    FIGURES,
    crossover_headline,
    describe_crossover,
    describe_error,
    error_headline,
    families_figure,
    over_best,
    write_figures,
)
from hushcov_lab.benchmark.results import EXPONENTS, Results, predicted_rates

from .settings import TINY, finished, made_up_error


def changed(results: Results, *cells) -> Results:
    """The same results with some cells replaced."""
    return Results(results.benchmark, [*results.cells, *cells])


def test_median_and_range():
    spread = finished().spread(TINY.base, "gaussian")
    low, high = (made_up_error(TINY.base, "gaussian", seed) for seed in (0, 1))
    assert (spread.smallest, spread.largest, spread.runs) == (low, high, 2)
    assert spread.median == pytest.approx((low + high) / 2)
    assert (spread.recall, spread.precision, spread.skipped) == (0.9, 0.8, None)


def test_ranking_leaves_out_what_chooses_and_what_is_not_private():
    names = [name for name, _ in finished().ranking(TINY.base)]
    private = [name for name, each in CONTENDERS.items() if each.private]
    assert names == [name for name in private if name not in ("auto", "eigen-sampling")]


def test_winners():
    results = finished()
    for size in results.sizes(2):
        assert (size.predicted, size.measured, size.agrees) == ("adaptive", "adaptive", True)
    point = TINY.grid(2)[0]
    worse = changed(results, Fit(point, 0, "adaptive", 0.9, 1.0, 1.0, 0.1))
    assert worse.measured_winner(point) == "screened"
    assert not worse.sizes(2)[0].agrees
    best = made_up_error(point, "screened")
    near = changed(results, Fit(point, 0, "adaptive", 1.09 * best, 1.0, 1.0, 0.1))
    assert (near.sizes(2)[0].measured, near.sizes(2)[0].agrees) == ("screened", True)


def test_the_automatic_choice_is_ranked_where_what_it_runs_is_not():
    """It has the smallest error here: a title that names another one is wrong."""
    few = ("auto", "multiscale", "row-top-k")
    results = finished(few)
    assert [name for name, _ in results.ranking(TINY.base)] == list(few)
    assert error_headline(results, TINY.base.model).startswith(
        f"Model {TINY.base.model}: {CONTENDERS['auto'].title} ("
    )
    size = results.sizes(2)[0]
    assert (size.predicted, size.measured, size.agrees) == ("auto", "auto", True)


def test_a_caption_describes_the_lines_that_are_drawn():
    words = {"zero": "dashed line", "thresholded": "dark grey", "empirical": "pale grey"}
    for drawn in ((), ("zero",), ("thresholded",), ("empirical",), tuple(words)):
        text = describe_error(finished(("auto", *drawn)), TINY.base.model)
        assert [name for name in words if words[name] in text] == [n for n in words if n in drawn]
        assert ("grey" in text) == bool({"thresholded", "empirical"} & set(drawn))


def test_a_predicted_mechanism_that_was_not_measured_is_not_called_worse():
    results = finished(("screened", "zero"))
    size = results.sizes(2)[0]
    assert (size.predicted, size.measured, size.agrees) == ("adaptive", "screened", None)
    assert "rings" not in describe_crossover(results)
    assert crossover_headline(results).endswith("those that were predicted were not measured")
    assert {size.measured for size in finished(("zero",)).sizes(2)} == {"zero"}


def test_json():
    results = finished()
    found = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert found["benchmark"]["preset"] == "tiny"
    assert found["environment"]["hushcov"] == __version__
    assert [each["name"] for each in found["contenders"]] == list(CONTENDERS)
    points = len(TINY.measured())
    assert len(found["errors"]) + len(found["skipped"]) == points * len(CONTENDERS)
    assert {each["reason"] for each in found["skipped"]} == {"too many features."}
    assert {each["contender"] for each in found["skipped"]} == {"eigen-sampling"}
    assert len(found["crossover"]) == len(TINY.grid(2))
    row = next(row for row in found["errors"] if row["contender"] == "gaussian")
    assert {"model", "n_records", "n_features", "row_sparsity", "epsilon", "median"} <= set(row)
    assert len(found["predictions"]) == len(TINY.predicted())


def test_rates_are_near_the_exponents_of_the_theorems():
    rates = predicted_rates()
    for curve in (rates.against_sparsity, rates.against_features):
        for name, slope in curve.slopes.items():
            # Logarithms add up to 0.16 over these ranges.
            assert 0 < slope - EXPONENTS[curve.quantity][name] < 0.16


# Figures.


@pytest.fixture(scope="module")
def results():
    return finished()


def test_few_contenders_draw(tmp_path):
    written = write_figures(tmp_path, finished(("eigen-sampling", "zero")))
    names = [path.name for path in written]
    assert names == ["error.png", "error-block.png", "rates.png", "crossover.png", "cost.png"]
    assert set(names) <= set(FIGURES)
    assert all(path.stat().st_size > 0 for path in written)


@pytest.mark.slow
def test_families_are_drawn_where_there_are_any(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "write_png", lambda path, figure: path)  # others are drawn above
    preset = replace(TINY, families=("ar-0.5", "equicorrelated"))
    results = finished(preset=preset)
    names = [path.name for path in write_figures(tmp_path, results)]
    assert "families.png" in names
    figure = families_figure(results)
    assert write_png(tmp_path / "families.png", figure).stat().st_size > 0
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [*preset.families]
    # Errors rise with the place in the registry, so the first is the best and the others are not.
    private = [each.name for each in results.contenders if each.private and not each.chooses]
    assert all(value < 1 for value in over_best(results, private[0]).values())
    assert all(value > 1 for value in over_best(results, private[1]).values())
