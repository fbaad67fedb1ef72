"""The HTML report of a release: what it says, for every mechanism, and that it is one safe file."""

import base64
import hashlib
import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from report_releases import MECHANISMS, fitted, made

from documents import quick_forecast
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.fit import outlook
from hushcov.kernel.accounting import Gaussian
from hushcov.release import Making, Part, Release, Structure, view
from hushcov.release.coverage import Coverage
from hushcov.release.document import UNNAMED
from hushcov.report import pages, report_page, write_report
from hushcov.report.pages import subject_of
from hushcov.report.sections import MOST_LISTED
from hushcov.text.description import verdict
from hushcov.text.rows import feature_rows

COMPLETE = ("released", "of", "noise_sd")
FIRST = ("largest", "correlations", "variances")
DETAILS = ("pairs", "spectrum", "promise", "budget", "assumed", "error")
SECTIONS = (*FIRST, *DETAILS)
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<b>bold</b> & 'quoted' \"name\"",
    "\u202egnidnepes\x1b[31m\n\u2028",
    "\ud800 lone",
    "x" * 500,
    "-->]]><svg onload=alert(2)>",
]


@pytest.fixture(autouse=True)
def no_searches(monkeypatch):
    monkeypatch.setattr(outlook, "forecast", quick_forecast)


class Page(HTMLParser):
    """Elements, and text outside programs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.words, self._inside = [], [], None
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside not in ("script", "style", "pre"):
            self.words.append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def six(**changes):
    matrix = np.array([[1000, 300, -40], [300, 1000, 0], [-40, 0, 1000]])
    return made(**{"integers": np.kron(matrix, np.eye(2, dtype=np.int64))} | changes)


EXPECTED = {
    "screened": ("which pairs matter", "scales of the features", "were released and pass the"),
    "screened-given": ("Scales: given",),
    "gaussian": ("all pairs (15) and variances (6)", "out from the noise; all were released"),
    "gaussian-threshold": ("all pairs (15)", "Error by the number of records"),
    "multiscale": ("answers of the selected tests", "planner expects, roughly", "No intervals"),
    "row-top-k": ("partners of every feature", "planner has no prediction for row-top-k"),
    "pace": ("which pairs are measured", "planner has no prediction for pace"),
    "separate": ("counts of the norms of records", "None of 15 pairs counts", "No intervals"),
    "coinpress": ("the matrix, step 3 of 3", "which are noise cannot be said"),
    "eigen-sampling": ("eigenvalues and directions", "Shares are of epsilon", "plus 0."),
    "theorem": ("level 1 of", "Shares are of epsilon", "its conditions hold here"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(mechanism, tmp_path):
    """A page is computed from the document, and the folder holds all of it."""
    release = fitted(mechanism).release_
    path = write_report(tmp_path / "report.html", release)
    stored = Release.read(release.write(tmp_path / "release"))
    assert path.read_bytes() == write_report(tmp_path / "read.html", stored).read_bytes()
    page = Page(path.read_text(encoding="utf-8"))
    found = [attributes["id"] for attributes in page.named("section")]
    assert found == list(SECTIONS)
    assert "NOT PRIVATE" in page.text
    assert not re.search(r"\b(nan|inf|out of range)\b", page.text)
    assert UNNAMED not in page.text
    for part in EXPECTED[mechanism]:
        assert part in page.text


def test_the_guarantee_in_words_and_formulas():
    page = Page(report_page(six()))
    assert "NOT PRIVATE" not in page.text
    assert "counted from 0" in page.text
    assert "counted from 0" not in report_page(six(column_names=tuple("abcdef")))
    for part in (
        "replacing any one record makes whatever happens at most 2.72 times as likely, plus 1e-6",
        "Pr[M(x) \u2208 S] \u2264 e \u03b5 Pr[M(x\u2032) \u2208 S] + \u03b4, \u03b5 = 1",
        "50 % 73.1 %",  # e / (1 + e)
        "5 % 6.12 %",  # Phi(Phi^-1(5 %) + mu) of its mu of 0.1
        "but for a chance of 1 in 1,000,000",
        "Groups: 4 records together have epsilon 4",
        "What the records of others tell about you",
        "Other releases from the same records",
        "Conditions: rows are bounded.",
        "2 nonzeros in a row of the covariance were expected, at most",
    ):
        assert part in page.text, part


def test_whom_the_guarantee_protects():
    of_unit = replace(six().guarantee, adjacency="add-remove-one", unit="<b>patient")
    page = report_page(replace(six(), guarantee=of_unit))
    assert "<b>patient" not in page
    for part in (
        "adding or removing all records of any one <b>patient makes whatever happens",
        "Protects each <b>patient",
        "guesses that one <b>patient is in the data",
        "in the data, the factor counts twice",
        "Groups: 4 <b>patients together",
        "Public inputs: names",
    ):
        assert part in Page(page).text, part


def test_what_is_known_of_the_records_is_said():
    counted = {"released": 10_000, "noise_sd": 70.0, "unit": "patient", "max_rows_per_unit": 5}
    making = Making(n_records=10_000, counted=counted | {"relation": "add-remove"})
    page = Page(report_page(six(making=making)))
    assert "Number of records: about 10,000 records, released with noise" in page.text
    assert "each patient counts with 5 records at most" in page.text
    assert "Means: said to be zero" in Page(report_page(six())).text
    assert "Means were not released" in Page(report_page(six())).text
    assert "Means: found within" in Page(report_page(six(location=np.zeros(6)))).text


def test_everything_is_escaped(tmp_path):
    making = Making(made=HOSTILE[0], parts=(Part(HOSTILE[5] + HOSTILE[2], (Gaussian(0.1),)),))
    hostile = {"column_names": tuple(HOSTILE), "making": making, "warnings": (HOSTILE[5],)}
    release = six(mechanism=HOSTILE[0], preconditions=(HOSTILE[1], HOSTILE[5]), **hostile)
    text = write_report(tmp_path / "a.html", release).read_text("utf-8")
    page = Page(text)
    assert not page.named("img")
    assert not page.named("b")
    assert len(page.named("script")) == 1
    assert all(not key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert "</script><img src=x onerror=alert(1)>" in page.text
    assert not set(text) & {"\x1b", "\u202e", "\u2028", "\ud800"}
    names = re.findall(r"<bdi>(.*?)</bdi>", text)
    assert unescape(names[0]) == HOSTILE[0]
    assert max(len(unescape(name)) for name in names) <= 60


def test_nothing_is_loaded_from_anywhere():
    text = report_page(six(column_names=tuple("abcdef")))
    page = Page(text)
    assert all(each["href"].startswith("#") for each in page.named("a"))
    for name in ("link", "iframe", "object", "embed", "base"):
        assert not page.named(name)
    assert not [each for _, each in page.elements if "src" in each or "style" in each]
    assert "http" not in re.sub(r'http-equiv="', "", text)
    (policy,) = [each["content"] for each in page.named("meta") if "http-equiv" in each]
    assert "default-src 'none'" in policy
    program = re.search(r'<script type="module">(.*?)</script>', text, re.S)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    for content in (program, style):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_all_pictures_have_names_captions_and_axes():
    page = report_page(fitted("screened").release_)
    pictures = re.findall(r"<figure>.*?</figure>", page, re.S)
    assert len(pictures) == 2
    assert all(re.search("<figcaption>[A-Z]", each) for each in pictures)
    for drawn in re.findall(r"<svg[^>]*>", page):
        if 'aria-hidden="true"' in drawn:  # a sign beside words, or a bar beside its numbers
            continue
        assert 'role="img"' in drawn
        assert re.search(r'aria-label="[A-Z]', drawn)
    for label in ("rank of the eigenvalue", "eigenvalue (no unit)"):
        assert label in page


def test_a_missing_package_is_named_with_its_cure(monkeypatch, tmp_path):
    pages._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[report\]'"):
        pages.check_pages()
    with pytest.raises(MissingPackageError):
        write_report(tmp_path / "a.html", fitted("screened").release_)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    "changes",
    [
        *({"unit": 1e308}, {"unit": 5e-324}, {"feature_scale": np.full(6, 1e308)}),
        *({"feature_scale": np.zeros(6)}, {"feature_scale": None, "noise_sd": None}),
        *({"noise_sd": (1e300, 1e300)}, {"noise_sd": (0.0, 0.0)}),
        *({"integers": np.zeros((3, 3), np.int64)}, {"integers": np.full((2, 2), -(2**63))}),
        {"integers": np.array([[7]]), "feature_scale": None},
        {"selected": np.empty((2, 0), np.int64), "integers": np.diag([1, 2]), "noise_sd": None},
        {"parameters": {"inputs": [1], "levels": [1, {"size": []}], "design": {"keep_above": "x"}}},
        {"parameters": {"inputs": {"n_records": 10**4000, "epsilon": True, "delta": "\x1b"}}},
        *({"epsilon": 1e300}, {"making": Making(n_records=10**100)}),
        {"making": Making(n_records=1, threshold=1e308)},
        {"making": Making(n_records=1, threshold=5e-324, projected=True)},
        {"making": Making(n_records=2, complete={"released": 0, "of": 2, "noise_sd": 0})},
        {"making": Making(n_records=10**18, complete=dict.fromkeys(COMPLETE, 10**18))},
    ],
)
def test_extreme_numbers(changes):
    mechanism = "screened" if "selected" in changes or "parameters" in changes else "gaussian"
    release = six(**{"mechanism": mechanism} | changes)
    page = Page(report_page(release))
    assert [each["id"] for each in page.named("section")] == list(SECTIONS)
    visible = [value for _, each in page.elements for value in each.values() if value]
    for text in (page.text, *visible):
        assert not re.search(r"\b(nan|inf)\b", text)


def _found(**changes) -> Release:
    loading = np.linspace(0.9, 0.3, 16)
    matrix = np.rint(1e6 * np.multiply.outer(loading, loading)).astype(np.int64)
    np.fill_diagonal(matrix, 10**6)
    structure = Structure("factors", 1, "one eigenvalue stands out", 0.04, 0.02, 0.07)
    making = Making(n_records=10_000, threshold=0.01, structure=replace(structure, **changes))
    names = ("strongest", *HOSTILE, *(f"item {i}" for i in range(9)))
    parts = {"unit": 1e-6, "noise_sd": (1e-4, 1e-4), "feature_scale": np.ones(16)}
    return made(matrix, mechanism="adaptive", making=making, column_names=names, **parts)


def test_structure_and_error_say_the_same_as_the_verdict():
    text = report_page(_found())
    assert "<img src=x" not in text
    assert "<svg onload" not in text
    page = Page(text)
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert ids == [*FIRST, "pairs", "structure", *DETAILS[1:]]
    assert "Factors: 1 factor that many features follow. Why: one eigenvalue" in page.text
    # In the verdict and in the section: the same numbers in the same words.
    said = "0.04 of the covariance's size (its norm), between 0.02 and 0.07"
    assert page.text.count(said) == 2
    assert page.text.count("Error estimate 0.04") == 1
    assert "strongest (0." in page.text
    assert "would do as well" not in page.text
    assert "This release is off by about 0.04 of the covariance's norm" in page.text
    page = Page(report_page(_found(error=0.97, most=1.05, kept=0.3)))
    assert "would do as well" in page.text
    assert "multiplied by 0.3" in page.text


@pytest.mark.parametrize(
    ("changes", "look"),
    [
        *(({}, "good"), ({"most": 0.21}, "rough"), ({"error": 0.5, "most": 0.8}, "rough")),
        *(({"most": 1.05}, "hopeless"), ({"error": 0.95, "most": 1.05}, "hopeless")),
    ],
)
def test_the_page_begins_with_the_table_and_a_verdict(changes, look):
    release = _found(**changes)
    named = replace(release.making, dataset=HOSTILE[0], made="2026-01-31T12:00:00+00:00")
    page = Page(report_page(replace(release, making=named)))
    head = page.text[: page.text.index("Strongest relations")]
    for part in (
        f"Private covariance of {HOSTILE[0]}",
        "2026-01-31 12:00:00 UTC",
        "10,000 records, 16 features.",
        "Protects each record: epsilon 1, delta 1e-6",
        f"{look.capitalize()} ",
        verdict(release).sentence[1:],
    ):
        assert part in head, part
    classes = [attrs.get("class", "") for _, attrs in page.elements]
    assert f"verdict {look}" in classes


def test_variances_and_deviations_have_intervals():
    release = six(column_names=tuple("abcdef"), location=np.array([2.5, 0, 0, 7, 0, -4000]))
    rows = spreads(subject_of(release))
    assert [row.name for row in rows] == list("abcdef")
    table = view.view(release).features()
    ends = [float(end) for end in rows[0].deviation_ends.split(" to ")]
    assert ends == pytest.approx([table["lower"][0] ** 0.5, table["upper"][0] ** 0.5], rel=0.01)
    assert ends[0] < 1 < ends[1]
    page = Page(report_page(release))
    ends = f"{rows[0].mean_ends} {rows[0].mean_error} {rows[0].deviation}"
    assert f"a 2.5 {ends} {rows[0].deviation_ends} {rows[0].variance} " in page.text
    assert rows[5].mean == "-4,000"
    making = replace(release.making, means_sd=(0.1,) * 6)
    known = replace(release, making=making, location=np.full(6, 2015.04))
    (error,) = {row.mean_error for row in spreads(subject_of(known))}  # ends differ at its digits
    assert float(error) == pytest.approx(0.1, rel=0.1)
    (ends,) = {row.mean_ends for row in spreads(subject_of(known))}
    assert ends == "2014.84 to 2015.24"
    lost = replace(release.making, unresolved=(1, 3))  # one without a mean, and a constant
    words = spreads(subject_of(replace(release, making=lost)))
    assert words[1].variance == words[1].deviation == words[1].mean == "not found"
    assert (words[3].mean, words[3].variance) == ("7", "not found")
    page = report_page(replace(release, making=lost))
    assert "Why some were not found" in page
    noisy = six(integers=np.diag([-5, 1000, 1000]), feature_scale=np.ones(3))
    words = spreads(subject_of(noisy))[0]
    assert (words.variance, words.deviation) == ("-0.005: noise", "not found")


def spreads(subject):
    return feature_rows(subject.view, subject.names, MOST_LISTED)


def test_of_many_features_some_are_listed():
    d = MOST_LISTED + 10
    release = made(1000 * np.eye(d, dtype=np.int64))
    page = Page(report_page(release))
    assert f"The first {MOST_LISTED:,} of {d:,} are listed" in page.text
    assert len(spreads(subject_of(release))) == MOST_LISTED
    with pytest.raises(ParameterError, match="column_names must"):
        report_page(six(column_names=("a", "b")))


def test_intervals_that_do_not_hold_are_marked(monkeypatch):
    page = Page(report_page(six()))
    assert "\N{DAGGER}" not in page.text
    holds = np.array([False, True, True, True, True, True])
    monkeypatch.setattr(Coverage, "holds", holds)
    page = Page(report_page(six()))
    assert "may not hold: most of the variance of a feature with values far away" in page.text
    assert "Intervals marked \N{DAGGER} may not hold" in page.text
