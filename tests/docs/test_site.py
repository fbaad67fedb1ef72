"""The documentation site: it builds without a warning, is whole, and needs no network."""

import re
import subprocess
import sys
import zlib

import pytest

import hushcov
from chromium import DESKTOP, PHONE
from command_line import PATIENCE
from docs.pages import DOCS
from docs.site import problems
from hushcov import exceptions

ROOT = DOCS.parent
LOOKED_AT = ("index.html", "proofs/screened.html", "api/estimators.html")
# Words of readers, and the page that answers.
SEARCHED = {
    "sparsity": "Choosing parameters",
    "PCA": "Questions to a release",
    "notebook": "Start",
    "Excel": "Outputs, reports and export",
    "significance": "Questions to a release",
    "synthetic": "Outputs, reports and export",
}


def build(folder):
    """Build as `make docs` does, with warnings as errors."""
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-d", folder / "cache"]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, DOCS, folder / "site"],
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
def test_the_site(tmp_path, open_page):
    """One test, because the site is built once for all of it."""
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists(), page
    assert list(problems(site)) == []
    for page in site.rglob("*.html"):
        assert str(ROOT) not in page.read_text(), page  # no path of this machine
    assert undocumented(site) == set()
    for page in LOOKED_AT:
        for viewport in (PHONE, DESKTOP):
            seen = open_page(site / page, viewport=viewport, color_scheme="dark")
            assert seen.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    for word, title in SEARCHED.items():
        page = open_page(site / "search.html")
        page.fill("input[name=q]", word)
        page.keyboard.press("Enter")
        # Results are added one after the other.
        page.wait_for_selector(f"#search-results li a:text-is('{title}')")


def undocumented(site):
    *_, names = (site / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of header
    documented = {line.split(" ")[0] for line in zlib.decompress(names).decode().splitlines()}
    estimators = {name for name in dir(hushcov) if name.endswith("Covariance")}
    public = {f"hushcov.{name}" for name in estimators.union(hushcov.__all__) - {"__version__"}}
    public |= {
        f"hushcov.exceptions.{name}"
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and kind.__module__ == exceptions.__name__
    }
    assert len(public) > 20
    return public - documented


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", "lab/README.md", "genotypes/README.md"]
)
def test_links_of_pages_beside_the_site_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text())
    missing = [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]
    assert missing == []
    assert targets or page == "CHANGELOG.md"


@pytest.fixture
def small(tmp_path):
    (tmp_path / "a.html").write_text(
        "<link rel=stylesheet href='s.css'><h1 id=top>t</h1><a href='b.html#there'>b</a>"
        "<a href='https://example.invalid/'>a link is not loaded</a>"
    )
    (tmp_path / "b.html").write_text("<p id=there>x</p><img src='data:image/png;base64,AA=='>")
    (tmp_path / "s.css").write_text("p { background: url('data:image/png;base64,AA==') }")
    return tmp_path


@pytest.mark.parametrize(
    ("page", "text", "problem"),
    [
        ("b.html", "<a href='c.html'>", "b.html links to c.html, which is not there"),
        ("b.html", "<p id=elsewhere>", "links to b.html#there, where nothing has that name"),
        ("b.html", "<p id=there><a href='#no'>", "b.html links to #no, where nothing"),
        ("b.html", "<p id=there><img src=x.png>", "b.html loads x.png, which is not there"),
        ("b.html", "<p id=there><script src='//x.invalid/a.js'>", "loads //x.invalid/a.js"),
        ("b.html", "<p id=there><style>@import 'http://x.invalid'", "loads http://x.invalid"),
        ("s.css", "p { background: url(https://x.invalid/f.woff) }", "loads https://x.invalid"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(small, page, text, problem):
    (small / page).write_text(text)
    assert any(problem in found for found in problems(small)), list(problems(small))
