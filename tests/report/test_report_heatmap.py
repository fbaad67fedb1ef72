"""The picture of a release, and what it shares with others."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from command_line import PATIENCE
from hushcov.exceptions import DataError, MissingPackageError
from hushcov.report import figures
from hushcov.report.figures import (
    colour_limit,
    describe_release,
    release_heatmap,
    write_release_heatmap,
)
from hushcov.report.style import new_figure


@pytest.fixture
def correlation():
    matrix = np.eye(30)
    matrix[2, 7] = matrix[7, 2] = 0.4
    matrix[3, 20] = matrix[20, 3] = -0.2
    return matrix


def test_png_shows_something(correlation, tmp_path):
    pixels = imread(write_release_heatmap(tmp_path / "a.png", correlation))
    assert pixels.shape[:2] == (1410, 1350)
    panel = pixels[60:900, 165:1000, :3]
    assert panel.std() > 0.05
    assert len(np.unique(panel.reshape(-1, 3), axis=0)) == 4  # two pairs, diagonal and zero


def test_axes_scale_and_caption(correlation):
    figure = release_heatmap(correlation)
    axes, bar = figure.axes
    low, high = axes.images[0].get_clim()
    assert low == -high  # white is zero
    assert high == pytest.approx(0.6)
    assert axes.images[0].get_extent() == [-0.5, 29.5, 29.5, -0.5]  # counted from 0, as elsewhere
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("feature", "feature")
    assert axes.get_title() == "Released correlations"
    assert bar.get_xlabel() == "correlation (no unit)"
    assert " ".join(figure.get_supxlabel().split()) == describe_release(correlation)


def test_names_are_at_the_axes_in_the_order_of_the_groups(correlation, tmp_path):
    names = [f"name_{i}" for i in range(30)]
    names[2], names[7] = "$cost$", "\N{DNA DOUBLE HELIX}\n"
    axes = release_heatmap(correlation, names).axes[0]
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert shown == [label.get_text() for label in axes.get_xticklabels()]
    assert shown[:4] == [
        "$cost$",
        "\N{DNA DOUBLE HELIX}\N{REPLACEMENT CHARACTER}",
        "name_3",
        "name_20",
    ]
    assert shown[4:7] == ["name_0", "name_1", "name_4"]
    assert write_release_heatmap(tmp_path / "a.png", correlation, names).stat().st_size > 0
    many = np.eye(500)
    axes = release_heatmap(many).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == ["0", "9", "18"]
    assert axes.get_xlabel() == "feature; one in 9 is named"


def test_of_many_features_without_pairs_those_with_pairs_are_shown():
    matrix = np.eye(500)
    matrix[100, 400] = matrix[400, 100] = 0.5
    figure = release_heatmap(matrix)
    assert figure.axes[0].images[0].get_array().shape == (24, 24)
    assert "The 24 of 500 features that are shown" in " ".join(figure.get_supxlabel().split())


def test_caption_says_what_to_see(correlation):
    text = describe_release(correlation)
    assert text.startswith("What to see: 2 of 435 pairs of features are coloured.")
    assert "noise" not in text
    assert "no pair of features" in describe_release(np.eye(3))
    assert "pale colours" in describe_release(np.full((3, 3), 0.1))


def test_noise_is_grey_and_not_a_confident_one(correlation, tmp_path):
    correlation[5, 9] = correlation[9, 5] = 1.7
    correlation[6, 8] = correlation[8, 6] = correlation[6, 6] = np.nan
    text = describe_release(correlation)
    assert "4 of 435 pairs" in text
    assert "Grey ones, 2," in text
    figure = release_heatmap(correlation)
    image = figure.axes[0].images[0]
    assert image.get_clim()[1] == pytest.approx(0.6)  # the others keep their colours
    missing = np.argwhere(np.ma.getmaskarray(image.get_array())).tolist()
    # 5 and 9, then 6 and 8, stand behind the two pairs before them; features are in four groups.
    assert len(missing) == 5
    assert sum(row == column for row, column in missing) == 1
    assert all(abs(row - column) <= 1 for row, column in missing)
    pixels = imread(write_release_heatmap(tmp_path / "a.png", correlation))
    grey = np.abs(pixels[100:800, 150:900, :3] - 0.55).max(axis=2) < 0.01
    assert grey.any()
    large = np.zeros((1003, 1003))
    large[17, 900], large[17, 901], large[40, 40] = np.nan, 0.7, 3.0
    assert np.isnan(figures._condensed(large)).sum() == 1


def test_the_diagonal_does_not_pale_the_rest():
    assert colour_limit(np.eye(3)) == 1.0
    matrix = np.eye(3)
    matrix[0, 1] = 0.2
    assert colour_limit(matrix) == pytest.approx(0.3)
    assert colour_limit(np.zeros((2, 2))) == 1.0


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.eye(2), np.ones((1, 1))])
def test_degenerate_matrices_draw(matrix, tmp_path):
    assert write_release_heatmap(tmp_path / "a.png", matrix).stat().st_size > 0


def test_single_entries_of_a_large_matrix_stay_visible():
    matrix = np.zeros((1003, 1003))
    matrix[17, 900], matrix[1002, 1002] = -0.7, 0.3
    shown = figures._condensed(matrix)
    assert shown.shape == (335, 335)
    assert sorted(shown[shown != 0]) == [-0.7, 0.3]
    assert shown[5, 300] == -0.7
    assert "3 x 3 entries" in describe_release(matrix)


def test_the_matrix_must_be_square():
    with pytest.raises(DataError, match=r"shape \(2, 3\)"):
        release_heatmap(np.ones((2, 3)))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[report\]'"):
        new_figure(1, 1)


def test_no_global_state_is_touched(tmp_path):
    code = (
        "import sys\nimport numpy as np\nfrom hushcov.report import figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"figures.write_release_heatmap({str(tmp_path / 'a.png')!r}, np.eye(3))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    answer = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE, check=False)
    assert answer.returncode == 0
