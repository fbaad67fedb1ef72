"""How a notebook shows a release: verdict, pairs and a small heat map, before all else."""

import base64
import io
import re
import subprocess
import sys
from html import unescape

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn import config_context
from sklearn.utils import estimator_html_repr

import hushcov
from hushcov.estimators.answering import LoadedCovariance
from hushcov.release.description import verdict
from hushcov.report.pages import page_colours
from report.report_releases import BUDGET, fitted, made


def pixels(html: str):
    """The heat map in a page, as colours from 0 to 255."""
    (text,) = re.findall(r"data:image/png;base64,([^\"]+)", html)
    return np.rint(255 * imread(io.BytesIO(base64.b64decode(text)))[..., :3]).astype(int)


def colour(name: str) -> list[int]:
    return list(bytes.fromhex(page_colours()[name][1:]))


def test_a_fitted_estimator_shows_its_release_and_another_what_scikit_learn_shows():
    est = fitted("gaussian-threshold")
    html = est._repr_html_()
    found = verdict(est.release_)
    assert f"<b>{found.word.capitalize()}:</b> {found.sentence}." in unescape(html)
    assert f"solid {page_colours()['good']}" in html
    assert "NOT PRIVATE" in html  # the tests' noise is seeded
    assert "differential privacy: replacing any one record" in html
    pairs = est.pairs()
    for value in pairs.loc[pairs["status"] == "nonzero", "correlation"]:
        assert f">{value:.3g}<" in html
    assert html.endswith("</details></div>")  # the parameters
    bundle, first = est._repr_mimebundle_(), html.partition("<details>")[0]
    assert bundle["text/html"].startswith(first)
    assert bundle["text/plain"] == repr(est)
    with config_context(display="text"):
        assert not hasattr(est, "_repr_html_")
        assert set(est._repr_mimebundle_()) == {"text/plain"}
    new = hushcov.GaussianCovariance(**BUDGET)
    assert "heat map" not in new._repr_html_()
    assert len(new._repr_html_()) == len(estimator_html_repr(new))


def test_colours_of_the_map_and_names_that_are_no_tags():
    integers = np.array(
        [[1000, 500, 0, 0], [500, 1000, 0, 0], [0, 0, 1000, -500], [0, 0, -500, 1000]]
    )
    names = ("<b>a</b>", "b", "c", "d")
    loaded = LoadedCovariance(made(integers, column_names=names))
    html = loaded._repr_html_()
    assert "<b>a</b>" not in html
    assert "&lt;b&gt;a&lt;/b&gt;" in html
    shown = pixels(html)
    assert shown.shape == (4, 4, 3)
    assert shown[0, 2].tolist() == colour("zero")
    assert shown[0, 0].tolist() == colour("positive")  # the diagonal passes the scale
    red, blue = shown[0, 1], shown[2, 3]
    assert red[0] > blue[0]
    assert blue[2] > red[2]
    text = str(loaded)
    assert "<b>a</b>   b" in text
    assert "guarantee" in text
    assert max(map(len, text.splitlines())) <= 100
    assert repr(loaded).startswith("<release of 4 features")
    integers[0, 1] = integers[1, 0] = 1500
    shown = pixels(LoadedCovariance(made(integers))._repr_html_())
    assert sum(each.tolist() == colour("noise") for each in shown.reshape(-1, 3)) == 2
    assert "not found" in LoadedCovariance(made(integers))._repr_html_()


@pytest.mark.parametrize("related", [0, 60])
def test_of_many_features_those_of_the_strongest_pairs_are_drawn(related):
    integers = 1000 * np.eye(200, dtype=np.int64)
    for i in range(related):
        integers[i, 100 + i] = integers[100 + i, i] = 400 + i
    html = LoadedCovariance(made(integers))._repr_html_()
    assert pixels(html).shape == (30, 30, 3)
    assert "The 30 of 200 features" in html
    assert (">x159</div>" in html) == (related > 0)


def test_neither_matplotlib_nor_jinja_is_needed(tmp_path):
    fitted("gaussian-threshold").save(tmp_path / "release")
    code = (
        "import sys\nsys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
        f"import hushcov\nprint(hushcov.load({str(tmp_path / 'release')!r})._repr_html_())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert pixels(done.stdout).shape == (6, 6, 3)
