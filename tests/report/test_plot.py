"""`plot`: pictures of a release, whose numbers are those of its tables."""

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest

from hushcov.estimators.answering import LoadedCovariance
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.postprocess import symmetric_sparse
from report.report_releases import fitted, made


def words(figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def texts(axes) -> list[str]:
    return [each.get_text() for each in axes.texts]


def test_every_picture_has_the_numbers_of_the_tables():
    est = fitted("gaussian-threshold")
    table = est.pairs()
    table = table[table["status"] == "nonzero"]
    axes = est.plot("pairs").axes[0]
    lines = [list(line.get_xdata()) for line in axes.lines]
    assert [x for (x,) in (each for each in lines if len(each) == 1)] == list(table["correlation"])
    ends = table[["correlation_lower", "correlation_upper"]].to_numpy().tolist()
    assert lines[: 2 * len(table) : 2] == ends
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [", ".join(each) for each in table[["feature_1", "feature_2"]].to_numpy()]
    assert axes.get_xlabel() == "correlation (no unit)"

    figure = est.plot("spectrum")
    (axes,) = figure.axes
    exact = np.linalg.eigvalsh(est.correlation_)[::-1]
    dots = next(line for line in axes.lines if len(line.get_xdata()) == len(exact))
    np.testing.assert_allclose(dots.get_ydata(), exact)
    assert len(axes.patches) == 1  # the level of the noise
    assert "as far from 1 as noise and sampling reach" in words(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "rank of the eigenvalue",
        "eigenvalue (no unit)",
    )

    (axes,) = est.plot("graph").axes
    assert len([line for line in axes.lines if len(line.get_xdata()) > 2]) == len(table)
    named = set(table["feature_1"]) | set(table["feature_2"])
    assert set(texts(axes)) == named

    axes = est.plot("heat").axes[0]
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    order = [int(label.get_text()[1:]) for label in axes.get_yticklabels()]
    np.testing.assert_array_equal(shown, est.correlation_[np.ix_(order, order)])


def test_all_of_them_in_one_figure_which_a_notebook_shows():
    est = fitted("gaussian-threshold")
    figure = est.plot()
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [
        "Released correlations",
        "Strongest pairs, with 95 % intervals",
        "Eigenvalues of the correlations, and the level of the noise",
        "Found pairs as a graph",
    ]
    assert figure.get_suptitle().startswith("Good: the estimate is off by about")
    assert all(f"{name}: " in words(figure) for name in ("Correlations", "Pairs", "Graph"))
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_().startswith(b"\x89PNG")


def test_what_was_not_found_is_shown_as_such():
    integers = np.array([[1000, 900, 30, 0], [900, -50, 20, 10], [30, 20, 1000, 1400]])
    integers = np.vstack([integers, [0, 10, 1400, 1000]])
    loaded = LoadedCovariance(made(integers, column_names=("$cost$", "b", "c", "d")))
    figure = loaded.plot("pairs")
    assert texts(figure.axes[0]) == ["not found"]  # b does not vary beyond noise
    assert "Grey, 1: not found" in words(figure)
    assert "Grey and dashed: not found" in words(loaded.plot("graph"))
    image = loaded.plot("heat").axes[0].images[0]
    assert np.ma.getmaskarray(image.get_array()).sum() == 9  # b with all, c with d
    loaded.plot().canvas.draw()  # names that look like mathematics are none


def test_releases_without_intervals_and_without_pairs():
    est = fitted("multiscale")
    assert "No intervals are known" in words(est.plot("pairs"))
    assert "noise" not in est.plot("spectrum").axes[0].get_title()
    assert "none is known not to be noise" in words(fitted("coinpress").plot("graph"))
    for d in (1, 5):
        loaded = LoadedCovariance(made(1000 * np.eye(d, dtype=np.int64)))
        loaded.plot().canvas.draw()
        for kind in ("pairs", "graph"):
            assert texts(loaded.plot(kind).axes[0]) == ["nothing to draw"]


@pytest.mark.parametrize("in_order", [False, True])
def test_many_features_of_a_sparse_release(in_order):
    d = 1_000
    rows = np.arange(d - 1)
    integers = symmetric_sparse((rows, rows + 1), np.full(d - 1, 400), np.full(d, 1000))
    release = made(integers, selected=np.array([rows, rows + 1]))
    if in_order:
        inputs = {**release.parameters["inputs"], "bandwidth": 1}
        release = replace(release, parameters={"inputs": inputs})
    assert release.in_order == in_order
    loaded = LoadedCovariance(release)
    figure = loaded.plot()
    figure.canvas.draw()
    assert "The 10 strongest are drawn" in words(figure)
    assert "of 999" in words(figure)
    assert figure.axes[0].get_xlabel() == (
        "column, counted from 0" if in_order else "feature; one in 34 is named"
    )
    for kind in ("heat", "graph"):
        assert loaded.plot(kind).axes


def test_refusals_name_the_cure(monkeypatch):
    est = fitted("gaussian-threshold")
    with pytest.raises(ParameterError, match="kind must be one of 'heat', 'pairs', 'spectrum'"):
        est.plot("scree")
    for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[report\]'"):
        est.plot()
