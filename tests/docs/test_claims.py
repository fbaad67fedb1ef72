"""Pages say of other packages what was run, when and with which version, and name their sources."""

from __future__ import annotations

import re
import runpy

import pytest

from docs.pages import DOCS

ROOT = DOCS.parent
RUN = runpy.run_path(str(ROOT / "benchmarks" / "studies" / "packages.py"))["REQUIREMENTS"]
#: Packages that nobody has run here: no page may say how they behave.
NEVER_RUN = re.compile(r"SmartNoise|Tumult|DPpack|PipelineDP|hkustDB|synthpop", re.I)
QUESTIONS = "asked-elsewhere.md"  # quotes users of other packages, and says nothing of these
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def test_only_packages_that_were_run_are_spoken_of():
    named = {path.name for path in PAGES if NEVER_RUN.search(path.read_text())}
    assert named == {QUESTIONS}
    claims = [path.name for path in PAGES if re.search(r"no other package", path.read_text(), re.I)]
    assert claims == []


@pytest.mark.parametrize("page", ["packages.md", "rivals.md", QUESTIONS])
def test_a_page_about_others_begins_with_a_date(page):
    first = (DOCS / page).read_text().split("\n|")[0]
    assert re.search(r"\b2026-\d\d-\d\d\b", first)


def test_the_versions_on_the_page_are_those_of_the_script():
    text = (DOCS / "packages.md").read_text()
    pinned = {re.match(r"[\w-]+", each)[0]: re.search(r"=([\d.]+\d)", each) for each in RUN}
    for name in ("diffprivlib", "opendp"):
        version = re.search(rf"{name} ([\d.]+\d)", text, re.I)[1]
        assert version.startswith(pinned[name][1])
    for script in ("packages.py", "packages_law.py"):
        assert f"benchmarks/studies/{script}" in text


def test_a_proof_that_rests_on_an_abstract_or_on_memory_says_so_first():
    sources = re.compile(r"\babstract\b|from memory|could not be read")
    for page in sorted((DOCS / "proofs").glob("*.md")):
        _, first, *rest = page.read_text().split("\n\n")
        whether_new = page.name == "lower_bound.md"  # of related work, on which no step rests
        if not whether_new and any(sources.search(part) for part in rest):
            assert sources.search(first), page.name
    for name in ("pace", "coinpress", "separate", "eigen_sampling"):
        page = (DOCS / "proofs" / f"{name}.md").read_text()
        assert page.split("\n\n")[1].startswith("**Source: the abstract"), name
