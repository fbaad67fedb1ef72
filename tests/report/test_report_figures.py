"""Pictures: of a release, of predicted errors, and the order of features in them."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread
from report_releases import made
from scipy.sparse import csgraph

from command_line import PATIENCE
from hushcov.cli.plan_figure import describe_plan, plan_figure
from hushcov.exceptions import DataError, MissingPackageError
from hushcov.planning import COMPARED_MODELS, Forecast, predicted
from hushcov.report import heat
from hushcov.report.figures import release_heatmap, write_release_heatmap
from hushcov.report.heat import colour_limit, describe_release, opened_features, related_order
from hushcov.report.layout import graph
from hushcov.report.pages import subject_of
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
    matrix = np.eye(500)
    matrix[100, 400] = matrix[400, 100] = 0.5
    figure = release_heatmap(matrix)
    assert figure.axes[0].images[0].get_array().shape == (24, 24)
    assert "The 24 of 500 features that are shown" in " ".join(figure.get_supxlabel().split())


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
    assert colour_limit(np.eye(3)) == 1.0
    matrix = np.eye(3)
    matrix[0, 1] = 0.2
    assert colour_limit(matrix) == pytest.approx(0.3)
    assert colour_limit(np.zeros((2, 2))) == 1.0
    with pytest.raises(DataError, match=r"shape \(2, 3\)"):
        release_heatmap(np.ones((2, 3)))
    text = describe_release(correlation)
    assert text.startswith("What to see: 2 of 435 pairs of features are coloured.")
    assert "noise" not in text
    assert "no pair of features" in describe_release(np.eye(3))
    assert "pale colours" in describe_release(np.full((3, 3), 0.1))


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
    assert np.isnan(heat.condense(large)).sum() == 1


def test_single_entries_of_a_large_matrix_stay_visible():
    matrix = np.zeros((1003, 1003))
    matrix[17, 900], matrix[1002, 1002] = -0.7, 0.3
    shown = heat.condense(matrix)
    assert shown.shape == (335, 335)
    assert sorted(shown[shown != 0]) == [-0.7, 0.3]
    assert shown[5, 300] == -0.7
    assert "3 x 3 entries" in describe_release(matrix)


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
    figure = plan_figure(forecasts, title="10 features")
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "number of records"
    label = figure.axes[0].get_ylabel()
    assert label == "predicted operator-norm error\n(relative to the covariance's norm)"
    assert figure.get_suptitle().endswith("against the number of records: 10 features")
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == [*list(predicted())[:-1], "multiscale (rough)"]
    forecasts[1_000] = forecasts[1_000][:1]
    lines = plan_figure(forecasts).axes[0].lines
    assert sorted(len(line.get_xdata()) for line in lines) == [2, 3, 3, 3, 3, 4]


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
    worse = forecasts | {10_000_000: [_forecast("screened", 2.0)]}
    assert "screened at no number shown" in describe_plan(worse)
    one = {1_000: [_forecast("screened", 1.0)]}
    assert "screened at no number shown" in describe_plan(one)
    below = {1_000: [_forecast("screened", 0.999)]}
    assert "screened from 1,000 records on" in describe_plan(below)
    assert "rough" not in describe_plan(below)


@pytest.mark.parametrize("nothing", [{}, {1_000: []}])
def test_nothing_to_draw(nothing):
    with pytest.raises(DataError, match="one forecast"):
        plan_figure(nothing)


def grouped(seed: int, sizes: tuple[int, ...], d: int):
    """Pairs of features in groups that are scattered over the table, and whose each is in."""
    generator = np.random.default_rng(seed)
    places, group, start = generator.permutation(d), np.full(d, -1), 0
    pairs = []
    for number, size in enumerate(sizes):
        members = places[start : start + size]
        group[members], start = number, start + size
        pairs += [(min(i, j), max(i, j)) for i in members for j in members if i < j]
    rows, columns = np.array(pairs).T
    return rows, columns, generator.uniform(0.3, 0.5, len(rows)), group


def test_no_group_is_split_and_nothing_moves_without_pairs():
    rows, columns, values, group = grouped(0, (3, 9, 5, 2), 40)
    order = related_order(40, rows, columns, values)
    assert sorted(order) == list(range(40))
    assert list(group[order]) == [1] * 9 + [2] * 5 + [0] * 3 + [3] * 2 + [-1] * 21
    assert list(order[19:]) == sorted(order[19:])  # what has no pair keeps its order
    rows, columns, values, group = grouped(1, (8, 8, 8), 24)
    ends = [np.flatnonzero(group == each)[0] for each in range(3)]
    weak = np.array([sorted(ends[:2]), sorted(ends[1:])]).T
    order = related_order(
        24, np.append(rows, weak[0]), np.append(columns, weak[1]), np.append(values, [0.05, 0.05])
    )
    assert np.count_nonzero(np.diff(group[order])) == 2
    sign = np.array([1, -1, 1, 1, -1, 1, -1, 1])
    rows, columns = np.triu_indices(8, 1)
    order = related_order(8, rows, columns, 0.4 * sign[rows] * sign[columns])
    assert np.count_nonzero(np.diff(sign[order])) == 1
    nothing = np.empty(0, dtype=np.int64)
    assert list(related_order(3, nothing, nothing, np.empty(0))) == [0, 1, 2]
    assert opened_features(100, nothing, nothing) == 100
    assert opened_features(100, np.array([3]), np.array([9])) == 24
    assert opened_features(30, np.array([3]), np.array([9])) == 30


def test_large_groups_are_kept_together_too(monkeypatch):
    monkeypatch.setattr(heat, "_MOST_CLUSTERED", 3)
    rows, columns, values, group = grouped(2, (6, 6), 20)
    order = related_order(20, rows, columns, values)
    assert np.count_nonzero(np.diff(group[order])) == 2


def test_graphs_have_indices_of_32_bits(monkeypatch):
    """scipy 1.13 to 1.17.0 take no others for trees and paths: "Buffer dtype mismatch"."""
    asked = []

    def strict(name):
        call = getattr(csgraph, name)

        def checked(graph, **options):
            assert graph.indices.dtype == graph.indptr.dtype == np.int32
            asked.append(name)
            return call(graph, **options)

        monkeypatch.setattr(csgraph, name, checked)

    for name in ("connected_components", "minimum_spanning_tree"):
        strict(name)
    monkeypatch.setattr(heat, "_MOST_CLUSTERED", 3)
    related_order(5, np.array([0, 1, 2]), np.array([1, 3, 3]), np.array([0.5, -0.5, 0.4]))
    integers = 1000 * np.eye(5, dtype=np.int64)
    integers[0, 1] = integers[1, 0] = 500
    assert graph(subject_of(made(integers))) is not None
    assert len(set(asked)) == 2


def test_groups_stand_on_circles_and_labels_apart():
    """A ring, whose neighbours are side by side, before a pair; labels have room beside another."""
    integers = 1000 * np.eye(40, dtype=np.int64)
    for i in range(30):
        integers[i, (i + 1) % 30] = integers[(i + 1) % 30, i] = 450
    integers[33, 35] = integers[35, 33] = -400
    names = tuple(f"feature number {i}" for i in range(40))
    found = graph(subject_of(made(integers, column_names=names)))
    assert [node.feature for node in found.nodes] == [*range(30), 33, 35]
    assert len(found.edges) == 31
    places = np.array([[node.x, node.y] for node in found.nodes])
    radii = np.linalg.norm(places[:30] - places[:30].mean(axis=0), axis=1)
    assert np.ptp(radii) < 1e-6
    steps = [np.linalg.norm(places[i] - places[(i + 1) % 30]) for i in range(30)]
    assert sum(step < 30 for step in steps) >= 28
    labels = np.array([[node.label_x, node.label_y] for node in found.nodes])
    apart = np.linalg.norm(labels[:, None] - labels[None], axis=2)[np.triu_indices(32, 1)]
    assert apart.min() > 12  # more than a line
    for node in found.nodes:
        length = 6.4 * len(node.label) * (-1 if node.ends else 1)
        end = node.label_x + length * np.cos(np.radians(node.angle))
        assert min(node.label_x, end) > -1e-6
        assert max(node.label_x, end) < found.width + 1e-6
        assert 0 <= node.label_y <= found.height
    narrow = graph(subject_of(made(integers, column_names=names)), wide=100.0)
    assert narrow.height > found.height  # one circle below the other
    assert len(graph(subject_of(made(integers)), most=4).nodes) <= 4
