"""The figure of truth, estimate and error."""

from __future__ import annotations

import builtins
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from hushcov.exceptions import DataError
from hushcov.report import heatmap
from hushcov.report.backend import MissingFiguresError, new_figure
from hushcov.report.heatmap import (
    colour_limit,
    covariance_heatmap,
    describe,
    write_heatmap,
)
from hushcov.simulate import sparse_covariance


@pytest.fixture
def pair():
    truth = sparse_covariance("random", 30, 4)
    noise = np.random.default_rng(0).normal(scale=1e-3, size=truth.shape)
    return truth, truth + (noise + noise.T) * (truth != 0)


def test_png_shows_something(pair, tmp_path):
    path = write_heatmap(tmp_path / "a.png", *pair, note="Simulated.")
    pixels = imread(path)
    height, width, _ = pixels.shape
    assert (height, width) == (855, 1800)
    for left, right in ((0.06, 0.33), (0.38, 0.65), (0.71, 0.98)):  # the three panels
        panel = pixels[200:550, int(left * width) : int(right * width), :3]
        assert panel.std() > 0.05
        assert len(np.unique(panel.reshape(-1, 3), axis=0)) > 20


def test_first_two_share_a_scale_and_the_error_has_its_own(pair):
    figure = covariance_heatmap(*pair, unit="cm²")
    truth, estimate, error = (axes.images[0] for axes in figure.axes[:3])
    assert truth.get_clim() == estimate.get_clim()
    assert error.get_clim()[1] == pytest.approx(np.abs(pair[1] - pair[0]).max())
    for image in (truth, estimate, error):
        low, high = image.get_clim()
        assert low == -high  # white is zero
    labels = [axes.get_xlabel() for axes in figure.axes[3:]]
    assert labels == ["covariance (cm²)", "error (cm²), on its own scale"]
    assert [axes.get_title().splitlines()[0] for axes in figure.axes[:3]] == [
        "Truth",
        "Released estimate",
        "Error: estimate - truth",
    ]


def test_caption_says_what_to_see(pair):
    caption = covariance_heatmap(*pair, note="Simulated: d = 30.").get_supxlabel()
    assert caption.startswith("What to see:")
    assert caption.endswith("Simulated: d = 30.")
    text = describe(*pair)
    assert "exactly zero wherever the truth is zero" in text
    assert f"more than {np.abs(pair[1] - pair[0]).max():.2g}." in text
    assert "times finer" in text


def test_caption_is_true_of_bad_estimates(pair):
    truth, _ = pair
    worse = truth.copy()
    zero = np.argwhere(np.triu(truth == 0, 1))[:3]
    for i, j in zero:
        worse[i, j] = worse[j, i] = 2.0
    text = describe(truth, worse)
    assert "nonzero at 6 entries where the truth is zero" in text
    assert "finer" not in text
    assert "equals the truth" in describe(truth, truth)


def test_variances_do_not_pale_the_covariances():
    truth = np.diag([100.0, 100.0, 100.0])
    truth[0, 1] = truth[1, 0] = 2.0
    assert colour_limit(truth, truth) == 3.0
    assert "variances go beyond" in describe(truth, truth + 1e-3)
    assert colour_limit(np.eye(3), np.eye(3)) == 1.0


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.eye(2), np.ones((1, 1))])
def test_degenerate_matrices_draw(matrix, tmp_path):
    assert write_heatmap(tmp_path / "a.png", matrix, matrix).stat().st_size > 0


def test_single_entries_of_a_large_matrix_stay_visible():
    matrix = np.zeros((1003, 1003))
    matrix[17, 900], matrix[1002, 1002] = -0.7, 0.3
    shown = heatmap._condensed(matrix)
    assert shown.shape == (335, 335)
    assert sorted(shown[shown != 0]) == [-0.7, 0.3]
    assert shown[5, 300] == -0.7
    assert "largest of 3 x 3 entries" in describe(matrix, matrix + 1)


def test_shapes_must_agree():
    with pytest.raises(DataError, match=r"got \(2, 2\) and \(3, 3\)"):
        covariance_heatmap(np.eye(2), np.eye(3))
    with pytest.raises(DataError, match="square"):
        covariance_heatmap(np.ones((2, 3)), np.ones((2, 3)))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **options):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **options)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingFiguresError, match=r"pip install 'hushcov\[figures\]'"):
        new_figure(1, 1)


def test_no_global_state_is_touched(tmp_path):
    code = (
        "import sys\nimport numpy as np\nfrom hushcov.report import heatmap\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"heatmap.write_heatmap({str(tmp_path / 'a.png')!r}, np.eye(3), np.ones((3, 3)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
