"""The fixture itself: it opens pages, and tells what they complain of."""

import pytest


@pytest.mark.parametrize(
    "fault",
    [
        "<script>console.error('x')</script>",
        "<script>throw new Error('x')</script>",
        "<img src='http://example.invalid/a.png'>",
    ],
)
def test_faults_are_noticed(browser, tmp_path, fault):
    from chromium import open_page as fixture

    (tmp_path / "a.html").write_text(f"<!doctype html><title>t</title>{fault}")
    steps = fixture.__wrapped__(browser)
    next(steps)(tmp_path / "a.html")
    with pytest.raises(AssertionError):
        next(steps)


def test_without_a_browser_tests_are_skipped_but_not_in_the_workflow(monkeypatch):
    from chromium import browser as fixture

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    for workflow, outcome in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", workflow)
        with pytest.raises(outcome, match="no Chromium"):
            next(fixture.__wrapped__())
