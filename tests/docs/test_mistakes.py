"""The page of common mistakes has what is printed now."""

from __future__ import annotations

import sys

import pytest

from docs.pages import DOCS

sys.path.insert(0, str(DOCS.parent / "benchmarks" / "guards"))
import mistakes

PAGE = (DOCS / "mistakes.md").read_text()


@pytest.fixture(scope="module")
def workplace():
    with mistakes.workplace():
        yield


@pytest.mark.parametrize(
    "mistake", [each for each in mistakes.MISTAKES if not each.fits], ids=lambda each: each.title
)
def test_what_is_printed_is_on_the_page(workplace, mistake):
    found = mistakes.section(mistake)
    assert found in PAGE
    assert "raceback" not in found
    assert "(exit code 0)" not in found


def test_the_page_has_all_and_nothing_else():
    titles = [f"## {each.title}" for each in mistakes.MISTAKES]
    assert [line for line in PAGE.splitlines() if line.startswith("## ")] == titles
    assert PAGE.startswith(mistakes.HEAD)
