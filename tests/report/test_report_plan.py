"""The figure of predicted errors against the number of records."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from hushcov.exceptions import DataError
from hushcov.mechanisms.multiscale import (
    CalibratedInputs,
    CalibratedParameters,
    Design,
    calibrated_parameters,
)
from hushcov.planning import REFERENCE_MODELS, MultiscalePlan
from hushcov.report.plan import describe, plan_figure, write_plan_figure

RECORDS = (1_000, 10_000, 100_000, 1_000_000)
DESIGN = Design(3.0, 0.25, 1, 1, 0.5, 1.0, 1.0, math.inf, 2.0)


@cache
def _parameters(reconstruction: str) -> CalibratedParameters:
    inputs = CalibratedInputs(10_000, 10, 2, 1.0, 1e-6, 1.0)
    return calibrated_parameters(inputs, DESIGN, reconstruction)


def _plan(n_records: int, reconstruction: str, *, worst: float) -> MultiscalePlan:
    """A plan whose largest error is `worst`, on the last model."""
    parameters = _parameters(reconstruction)
    inputs = replace(parameters.inputs, n_records=n_records)
    errors = {model: worst * (i + 1) / 4 for i, model in enumerate(REFERENCE_MODELS)}
    return MultiscalePlan(replace(parameters, inputs=inputs), errors)


@pytest.fixture
def plans():
    """Values have error 5e3 / n, gates ten times as much; in no order."""
    values = [_plan(n, "value", worst=5e3 / n) for n in RECORDS]
    return [*[_plan(n, "gate", worst=5e4 / n) for n in RECORDS], *reversed(values)]


def _lines(figure):
    return [line for line in figure.axes[0].lines if len(line.get_xdata()) == len(RECORDS)]


def test_one_line_for_each_model_and_reconstruction(plans):
    lines = _lines(plan_figure(plans))
    assert len(lines) == 8
    assert [line.get_linestyle() for line in lines] == ["-"] * 4 + ["--"] * 4
    assert len({to_hex(line.get_color()) for line in lines}) == 4
    for line in lines:
        assert list(line.get_xdata()) == list(RECORDS)
    assert list(lines[3].get_ydata()) == [5e3 / n for n in RECORDS]
    assert list(lines[4].get_ydata()) == [5e4 / n / 4 for n in RECORDS]


def test_axes_title_and_legend(plans):
    axes = plan_figure(plans).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "number of records n"
    assert axes.get_ylabel() == "predicted operator-norm error (scale²)"
    assert axes.get_title() == "Predicted error: d = 10, k = 2, epsilon = 1, delta = 1e-6"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [*REFERENCE_MODELS, "values", "gates"]


def test_the_zero_matrix_and_the_target_are_always_in_view(plans):
    for target in (None, 1e-5, 0.1):
        for few in (plans, plans[:1], plans[-1:]):
            axes = plan_figure(few, target_error=target).axes[0]
            low, high = axes.get_ylim()
            errors = [error for plan in few for error in plan.predicted_error.values()]
            assert low < min([1, *errors] + ([] if target is None else [target]))
            assert high > max([1, *errors])
            texts = [text.get_text() for text in axes.texts]
            assert texts[0] == "zero matrix: needs no data"
            assert texts[1:] == ([] if target is None else [f"target: at most {target:g}"])


def test_caption_says_from_where_on_each_is_good_enough(plans):
    text = describe(plans)
    assert "values (solid) beat the zero matrix on every model from n = 10,000 on" in text
    assert "gates (dashed) beat the zero matrix on every model from n = 100,000 on" in text
    text = describe(plans, target_error=0.01)
    assert "values (solid) reach the shaded target on every model from n = 1e6 on" in text
    assert "gates (dashed) do not reach the shaded target on every model at any n shown" in text
    caption = plan_figure(plans, target_error=0.01).get_supxlabel()
    assert " ".join(caption.split()) == text


def test_the_caption_does_not_trust_an_error_that_grows_again(plans):
    worse = _plan(10_000_000, "value", worst=2.0)
    assert "values (solid) do not beat the zero matrix" in describe([*plans, worse])


def test_one_reconstruction_alone(plans):
    figure = plan_figure(plans[:4])
    assert len(_lines(figure)) == 4
    assert "values" not in figure.get_supxlabel()


def test_an_error_equal_to_that_of_the_zero_matrix_does_not_beat_it():
    plan = _plan(1_000, "value", worst=1.0)
    assert "do not beat the zero matrix" in describe([plan])
    assert "reach the shaded target" in describe([plan], target_error=1.0)


def test_png(plans, tmp_path):
    path = write_plan_figure(tmp_path / "plan.png", plans, target_error=0.1)
    pixels = imread(path)
    assert pixels.shape[:2] == (930, 1350)
    assert pixels[100:700, 150:1300, :3].std() > 0.05


def test_nothing_to_draw():
    with pytest.raises(DataError, match="at least one plan"):
        plan_figure([])
