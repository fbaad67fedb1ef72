"""The figure of a release beside the truth."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from hushcov.exceptions import DataError
from hushcov.report.figures import describe_comparison, truth_figure, write_truth_figure
from hushcov.simulate import sparse_covariance


def _correlation(model: str, d: int, k: int):
    covariance = sparse_covariance(model, d, k)
    deviation = np.sqrt(np.diag(covariance))
    return covariance / np.multiply.outer(deviation, deviation)


@pytest.fixture
def pair():
    """A truth of 100 features, and an estimate with one pair missed and two false ones."""
    truth = _correlation("random", 100, 4)
    noise = np.random.default_rng(0).normal(scale=1e-3, size=truth.shape)
    estimate = truth + (noise + noise.T) * (truth != 0)
    i, j = np.argwhere(np.triu(truth, 1))[5]
    estimate[i, j] = estimate[j, i] = 0.0
    for i, j in np.argwhere(np.triu(truth == 0, 1))[[3, 99]]:
        estimate[i, j] = estimate[j, i] = 0.02
    return truth, estimate


def test_heat_maps_show_the_same_features_side_by_side(pair):
    truth, estimate = pair
    left, middle, *_ = truth_figure(truth, estimate).axes
    shown, released = (np.asarray(axes.images[0].get_array()) for axes in (left, middle))
    assert shown.shape == released.shape == (40, 40)
    assert left.images[0].get_clim() == middle.images[0].get_clim()
    assert [left.get_title(), middle.get_title()] == ["Truth", "Release"]
    assert left.get_xlabel() == "40 of 100 features, related ones side by side"
    # A choice of features by chance would show 24 related pairs.
    assert np.count_nonzero(np.triu(shown, 1)) > 40
    agree = np.abs(shown - released) < 0.01
    assert 2 * np.count_nonzero(~agree) <= 12


@pytest.mark.parametrize("model", ["block", "banded", "random"])
def test_few_features_stay_in_order(model):
    truth = _correlation(model, 40, 3)
    axes = truth_figure(truth, truth).axes[0]
    assert np.array_equal(np.asarray(axes.images[0].get_array()), truth)
    assert axes.get_xlabel() == "feature"


def test_the_scatter_has_every_pair_that_is_not_zero(pair):
    truth, estimate = pair
    axes = truth_figure(truth, estimate).axes[2]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    present = np.count_nonzero(np.triu(truth, 1))
    assert labels == [f"found: {present - 1}", "missed: 1", "false: 2"]
    found, missed, false, line = axes.lines
    assert len(found.get_xdata()) == present - 1
    assert np.abs(found.get_xdata() - found.get_ydata()).max() < 0.01
    assert list(missed.get_ydata()) == [0.0]
    assert list(false.get_xdata()) == [0.0, 0.0]
    assert list(line.get_xdata()) == list(line.get_ydata())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("true correlation", "released correlation")
    reach = axes.get_xlim()[1]
    assert reach > np.abs(found.get_xdata()).max()


def test_caption_counts(pair):
    truth, estimate = pair
    text = describe_comparison(truth, estimate)
    present = np.count_nonzero(np.triu(truth, 1))
    counts = f"Related pairs found: {present - 1}, missed: 1; unrelated pairs shown: 2."
    assert counts in text
    assert f"more than {np.abs(estimate - truth).max():.2g}." in text
    caption = truth_figure(truth, estimate, note="Simulated.").get_supxlabel()
    assert " ".join(caption.split()) == f"{text} Simulated."


def test_png(pair, tmp_path):
    pixels = imread(write_truth_figure(tmp_path / "a.png", *pair))
    height, width = pixels.shape[:2]
    assert (height, width) == (810, 1950)
    for left, right in ((0.03, 0.28), (0.34, 0.59), (0.7, 0.95)):  # the three panels
        assert pixels[50:500, int(left * width) : int(right * width), :3].std() > 0.05


@pytest.mark.parametrize("matrix", [np.eye(1), np.eye(2), np.zeros((3, 3)), np.eye(90)])
def test_degenerate_matrices_draw(matrix, tmp_path):
    assert write_truth_figure(tmp_path / "a.png", matrix, matrix).stat().st_size > 0


def test_shapes_must_agree():
    with pytest.raises(DataError, match=r"got \(2, 2\) and \(3, 3\)"):
        truth_figure(np.eye(2), np.eye(3))
    with pytest.raises(DataError, match="square"):
        truth_figure(np.ones((2, 3)), np.ones((2, 3)))
