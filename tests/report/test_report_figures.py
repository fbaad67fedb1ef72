"""The heat map of a release as a figure, and the order of features in it."""

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread
from report_releases import fitted, made

from hushcov.estimators.answering import LoadedCovariance
from hushcov.exceptions import MissingPackageError
from hushcov.postprocess import symmetric_sparse
from hushcov.report.figures import write_release_heatmap
from hushcov.report.heat import related_order
from hushcov.report.style import new_figure


def words(figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def test_the_figure_shows_the_estimate_a_verdict_and_a_caption():
    est = fitted("gaussian-threshold")
    figure = est.plot()
    axes, bar = figure.axes
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    order = [int(label.get_text()[1:]) for label in axes.get_yticklabels()]
    assert order == [int(label.get_text()[1:]) for label in axes.get_xticklabels()]
    np.testing.assert_array_equal(shown, est.correlation_[np.ix_(order, order)])
    low, high = axes.images[0].get_clim()
    assert low == -high  # white is zero
    assert bar.get_xlabel() == "correlation (no unit)"
    assert figure.get_suptitle().startswith("Good: the estimate is off by about")
    assert words(figure).startswith("What to see: red features vary together")
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_().startswith(b"\x89PNG")


def test_names_are_no_formulas_and_noise_is_grey(tmp_path):
    integers = np.array([[1000, 900, 30, 0], [900, -50, 20, 10], [30, 20, 1000, 1400]])
    integers = np.vstack([integers, [0, 10, 1400, 1000]])
    release = made(integers, column_names=("$cost$", "b\n", "\N{DNA DOUBLE HELIX}", "d"))
    axes = LoadedCovariance(release).plot().axes[0]
    names = {label.get_text() for label in axes.get_yticklabels()}
    assert names == {"$cost$", "b\N{REPLACEMENT CHARACTER}", "\N{DNA DOUBLE HELIX}", "d"}
    image = axes.images[0].get_array()
    assert np.ma.getmaskarray(image).sum() == 9  # b with all, and c with d
    pixels = imread(write_release_heatmap(tmp_path / "a.png", release))
    assert (np.abs(pixels[..., :3] - 0.55).max(axis=2) < 0.01).sum() > 1000


@pytest.mark.parametrize("in_order", [False, True])
def test_of_many_features_those_of_the_strongest_pairs_are_drawn(in_order):
    d = 1_000
    rows = np.arange(d - 1)
    integers = symmetric_sparse((rows, rows + 1), np.full(d - 1, 400), np.full(d, 1000))
    release = made(integers, selected=np.array([rows, rows + 1]))
    if in_order:
        inputs = {**release.parameters["inputs"], "bandwidth": 1}
        release = replace(release, parameters={"inputs": inputs})
    assert release.in_order == in_order
    figure = LoadedCovariance(release).plot()
    figure.canvas.draw()
    assert "120 of 1,000 features are drawn" in words(figure)
    places = [int(label.get_text()[1:]) for label in figure.axes[0].get_yticklabels()]
    assert len(places) == 120
    assert not in_order or places == sorted(places)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for make in (lambda: new_figure(1, 1), fitted("gaussian-threshold").plot):
        with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[report\]'"):
            make()


def grouped(seed: int, sizes: tuple[int, ...], d: int):
    """Correlations of features in groups that are scattered over the table, and these groups."""
    generator = np.random.default_rng(seed)
    places, group, start = generator.permutation(d), np.full(d, -1), 0
    matrix = np.eye(d)
    for number, size in enumerate(sizes):
        members = places[start : start + size]
        group[members], start = number, start + size
        block = np.triu(generator.uniform(0.3, 0.5, (size, size)), 1)
        matrix[np.ix_(members, members)] += block + block.T
    return matrix, group


def test_no_group_is_split_and_nothing_moves_without_pairs():
    matrix, group = grouped(0, (3, 9, 5, 2), 30)
    order = related_order(matrix)
    assert sorted(order) == list(range(30))
    assert list(group[order]) == [1] * 9 + [2] * 5 + [0] * 3 + [3] * 2 + [-1] * 11
    assert list(order[19:]) == sorted(order[19:])  # what has no pair keeps its order
    matrix, group = grouped(1, (8, 8, 8), 24)
    ends = [np.flatnonzero(group == each)[0] for each in range(3)]
    for i, j in (ends[:2], ends[1:]):
        matrix[i, j] = matrix[j, i] = 0.05
    assert np.count_nonzero(np.diff(group[related_order(matrix)])) == 2
    sign = np.array([1, -1, 1, 1, -1, 1, -1, 1])
    order = related_order(0.4 * np.multiply.outer(sign, sign) + 0.6 * np.eye(8))
    assert np.count_nonzero(np.diff(sign[order])) == 1
    assert list(related_order(np.eye(3))) == [0, 1, 2]
    few = np.eye(100)
    assert len(related_order(few)) == 100
    few[3, 9] = few[9, 3] = 0.5
    assert len(related_order(few)) == 24
    assert len(related_order(few[:30, :30])) == 30
