"""The figure of predicted errors against the number of records."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from hushcov.exceptions import DataError
from hushcov.planning import COMPARED_MODELS, Forecast, predicted
from hushcov.report.figures import describe_plan, plan_figure, write_plan_figure

RECORDS = (1_000, 10_000, 100_000, 1_000_000)
WORST = {"block": 0.25, "banded": 0.5, "random": 1.0, "diagonal": 9.0}


def _forecast(mechanism: str, worst: float, *, rough: bool = False) -> Forecast:
    """A forecast whose largest error on the models drawn is `worst`, on random."""
    return Forecast(mechanism, {m: worst * part for m, part in WORST.items()}, None, rough)


@pytest.fixture
def forecasts():
    """Adaptive has error 5e3 / n, the others ten times as much; in no order."""
    return {
        n: [
            _forecast(name, 5e3 / n * (1 if name == "adaptive" else 10), rough=name == "multiscale")
            for name in reversed(list(predicted()))
        ]
        for n in reversed(RECORDS)
    }


def _lines(axes):
    return [line for line in axes.lines if len(line.get_xdata()) == len(RECORDS)]


def test_one_panel_a_model_and_one_line_a_mechanism(forecasts):
    panels = plan_figure(forecasts).axes
    assert [axes.get_title() for axes in panels] == list(COMPARED_MODELS)
    for axes in panels:
        lines = _lines(axes)
        assert [line.get_label() for line in lines] == [
            *list(predicted())[:-1],
            "multiscale (rough)",
        ]
        assert len({to_hex(line.get_color()) for line in lines}) == 5
        assert len({line.get_marker() for line in lines}) == 5
        assert [line.get_linestyle() for line in lines] == ["-"] * 4 + [":"]
        assert all(list(line.get_xdata()) == list(RECORDS) for line in lines)
        part = WORST[axes.get_title()]
        assert list(lines[0].get_ydata()) == [part * 5e3 / n for n in RECORDS]
        assert list(lines[2].get_ydata()) == [part * 5e4 / n for n in RECORDS]


def test_axes_title_and_legend(forecasts):
    figure = plan_figure(forecasts, title="10 features")
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "number of records"
    label = figure.axes[0].get_ylabel()
    assert label == "predicted operator-norm error\n(relative to the covariance's norm)"
    assert figure.get_suptitle().endswith("against the number of records: 10 features")
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == [*list(predicted())[:-1], "multiscale (rough)"]


def test_the_zero_matrix_and_the_target_are_always_in_view(forecasts):
    for target in (None, 1e-5, 0.1):
        for few in (forecasts, {1_000: forecasts[1_000][-1:]}, {10**6: forecasts[10**6][:1]}):
            axes = plan_figure(few, target_error=target).axes[0]
            low, high = axes.get_ylim()
            errors = [
                each.predicted_error[model]
                for row in few.values()
                for each in row
                for model in COMPARED_MODELS
            ]
            assert low < min([1, *errors] + ([] if target is None else [target]))
            assert high > max(1, min(*errors, 20))
            dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
            assert [line.get_ydata()[0] for line in dashed] == [1.0]
            texts = [text.get_text() for text in axes.texts]
            assert texts == ["zero matrix"] + (
                [] if target is None else [f"target: at most {target:g}"]
            )


def test_caption_says_from_where_on_each_is_good_enough(forecasts):
    text = describe_plan(forecasts)
    assert "beats the zero matrix on all three models: adaptive from 10,000 records on" in text
    assert "gaussian from 100,000 records on" in text
    text = describe_plan(forecasts, target_error=0.01)
    assert "reaches the shaded target on all three models: adaptive from 1,000,000 records" in text
    assert "gaussian at no number shown" in text
    assert text.endswith("Open markers are rough: the mechanism's own search was not run.")
    caption = plan_figure(forecasts, target_error=0.01).get_supxlabel()
    assert " ".join(caption.split()) == text


def test_the_caption_does_not_trust_an_error_that_grows_again(forecasts):
    worse = forecasts | {10_000_000: [_forecast("screened", 2.0)]}
    assert "screened at no number shown" in describe_plan(worse)


def test_an_error_equal_to_that_of_the_zero_matrix_does_not_beat_it():
    one = {1_000: [_forecast("screened", 1.0)]}
    assert "screened at no number shown" in describe_plan(one)
    below = {1_000: [_forecast("screened", 0.999)]}
    assert "screened from 1,000 records on" in describe_plan(below)
    assert "rough" not in describe_plan(below)


def test_a_mechanism_that_is_missing_somewhere(forecasts):
    forecasts[1_000] = forecasts[1_000][:1]
    lines = plan_figure(forecasts).axes[0].lines
    assert sorted(len(line.get_xdata()) for line in lines) == [2, 3, 3, 3, 3, 4]


def test_png(forecasts, tmp_path):
    path = write_plan_figure(tmp_path / "plan.png", forecasts, title="d = 10", target_error=0.1)
    pixels = imread(path)
    assert pixels.shape[:2] == (780, 1800)
    for left in (150, 720, 1290):
        assert pixels[100:600, left : left + 480, :3].std() > 0.05


@pytest.mark.parametrize("nothing", [{}, {1_000: []}])
def test_nothing_to_draw(nothing):
    with pytest.raises(DataError, match="one forecast"):
        plan_figure(nothing)
