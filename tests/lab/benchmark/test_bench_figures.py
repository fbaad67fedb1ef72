"""The figures of the benchmark, from results whose numbers are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushcov.lab.benchmark import figures
from hushcov.lab.benchmark.cells import Cost, Fit
from hushcov.lab.benchmark.contenders import CONTENDERS
from hushcov.lab.benchmark.figures import FIGURES, families_figure, over_best, write_figures
from hushcov.lab.benchmark.results import Results, predicted_rates
from hushcov.report.style import write_png

from .settings import TINY, finished, made_up_error


@pytest.fixture(scope="module")
def results():
    return finished()


def test_error_has_four_panels_with_every_contender(results):
    figure = figures.error_figure(results, "random")
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "number of records n",
        "number of features d",
        "nonzeros of a row k",
        "privacy budget epsilon",
    ]
    (legend,) = figure.legends
    titles = [contender.title for contender in CONTENDERS.values()]
    assert [text.get_text() for text in legend.get_texts()] == titles
    for axes in figure.axes:
        assert axes.get_xscale() == axes.get_yscale() == "log"
    line = next(line for line in figure.axes[0].lines if line.get_label() == "Gaussian")
    assert list(line.get_xdata()) == [100, 400]
    expected = [
        1.1 * made_up_error(point, "gaussian") for point in TINY.sweep("n_records", "random")
    ]
    assert np.allclose(line.get_ydata(), expected)


def test_error_says_who_is_ahead_and_what_is_missing(results):
    title = figures.error_headline(results, "random")
    assert title.startswith("Model random: adaptive (0.27) has the smallest error")
    assert "1.5 times smaller" in title
    text = figures.describe_error(results, "random")
    assert "eigen-sampling, too many" in text
    assert "n = 400, d = 6, k = 2, epsilon = 1" in text
    assert "medians of 2 seeds" in text
    assert "Not everywhere" not in figures.describe_error(finished(("gaussian",)), "random")


def test_error_titles_of_few_contenders():
    alone = figures.error_headline(finished(("gaussian", "zero")), "block")
    assert alone == "Model block: Gaussian (0.67) has the smallest error at the base point"
    none = "Model block: no private estimator beats the zero matrix at the base point"
    assert figures.error_headline(finished(("zero", "empirical")), "block") == none
    assert figures.error_headline(finished(("coinpress",)), "block") == none


def test_crossover_shows_regions_and_winners(results):
    figure = figures.crossover_figure(results)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "number of features d",
        "number of records n",
    )
    assert [(*line.get_xdata(), *line.get_ydata()) for line in axes.lines] == [
        (4, 100),
        (4, 400),
        (8, 100),
    ]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["predicted: adaptive", "measured: adaptive"]
    assert "holds at 3 of 3 sizes" in figures.crossover_headline(results)
    assert (
        "adaptive 3. It is the predicted one at 3 of 3 sizes. Model"
        in figures.describe_crossover(results)
    )


def test_crossover_rings_where_the_prediction_fails(results):
    point = TINY.grid(2)[0]
    changed = Results(
        results.benchmark, [*results.cells, Fit(point, 0, "adaptive", 0.99, 1.0, 1.0, 0.1)]
    )
    text = figures.describe_crossover(changed)
    assert "adaptive 2, screened 1" in text
    assert "In white rings (1) the predicted one is over 10 % worse." in text
    assert len(figures.crossover_figure(changed).axes[0].lines) == 4


def test_cost_has_a_bar_for_each_contender(results):
    few = Results(results.benchmark, [*results.cells, Cost(TINY.base, "zero", 1e-5, None)])
    figure = figures.cost_figure(few)
    left, right = figure.axes
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert labels == [contender.title for contender in CONTENDERS.values()]
    seconds = [text.get_text() for text in left.texts]
    assert seconds[list(CONTENDERS).index("gaussian")] == "1.5"
    assert seconds[list(CONTENDERS).index("eigen-sampling")] == "skipped"
    assert seconds[list(CONTENDERS).index("zero")] == "below 0.01"
    assert [text.get_text() for text in right.texts][-1] == "unknown"
    assert "MB" in right.get_xlabel()
    assert "takes longest: 1.5 s" in figure.get_suptitle()
    skipped = [Cost(TINY.base, name, skipped="no") for name in CONTENDERS]
    assert figures.cost_headline(skipped) == "No contender ran at the base point"


def test_rates_show_their_slopes():
    rates = predicted_rates()
    figure = figures.rates_figure(rates)
    for axes, curve in zip(
        figure.axes, (rates.against_sparsity, rates.against_features), strict=True
    ):
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        for name, label in zip(curve.slopes, labels, strict=True):
            assert label.endswith(f"slope {curve.slopes[name]:.2f}")


def test_few_contenders_draw(tmp_path):
    written = write_figures(tmp_path, finished(("eigen-sampling", "zero")))
    names = [path.name for path in written]
    assert names == ["error.png", "error-block.png", "rates.png", "crossover.png", "cost.png"]
    assert set(names) <= set(FIGURES)
    assert all(path.stat().st_size > 0 for path in written)


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
