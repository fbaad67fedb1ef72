"""How a notebook shows a release: verdict, pairs and a small heat map, before all else."""

import re
import subprocess
import sys
from collections import Counter
from html import unescape
from xml.etree import ElementTree

import numpy as np
from sklearn import config_context
from sklearn.utils import estimator_html_repr

import hushcov
from hushcov.estimators.answering import LoadedCovariance
from hushcov.report.pages import page_colours
from hushcov.text.description import verdict
from report.report_releases import BUDGET, fitted, made


def cells(html: str) -> Counter:
    """How many cells of the heat map in a page have each colour."""
    (picture,) = re.findall(r"<svg.*?</svg>", html)
    found = Counter()
    for each in ElementTree.fromstring(picture).iter("path"):
        found[each.get("fill")] += each.get("d").count("z")
    return found


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
    shown, colours = cells(html), page_colours()
    assert shown[colours["diagonal"]] == 4
    assert shown[colours["positive"]] == shown[colours["negative"]] == 2
    text = str(loaded)
    assert "<b>a</b>   b" in text
    assert "guarantee" in text
    assert max(map(len, text.splitlines())) <= 100
    assert repr(loaded).startswith("<release of 4 features")
    integers[0, 1] = integers[1, 0] = 1500
    shown = cells(LoadedCovariance(made(integers))._repr_html_())
    assert shown[colours["noise"]] == 2
    assert "not found" in LoadedCovariance(made(integers))._repr_html_()


def test_neither_matplotlib_nor_jinja_is_needed(tmp_path):
    fitted("gaussian-threshold").save(tmp_path / "release")
    code = (
        "import sys\nsys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
        f"import hushcov\nprint(hushcov.load({str(tmp_path / 'release')!r})._repr_html_())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert cells(done.stdout)[page_colours()["diagonal"]] == 6
