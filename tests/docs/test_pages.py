"""What the pages show is run: Python, examples with a prompt, and command lines."""

from __future__ import annotations

import pytest

from docs.pages import DOCS, Block, blocks, commands, is_shown, run_console, run_examples, run_page

ELSEWHERE = {"add-a-mechanism.md"}  # run by a test of its own
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if {"python", "console"} & {block.language for block in blocks(path.read_text())}
    and path.name not in ELSEWHERE
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("page", PAGES)
def test_code_on_pages_runs(page):
    assert run_page(DOCS / page) > 0


def test_the_pages_for_newcomers_are_among_them():
    assert {"index.md", "start.md", "parameters.md", "guarantee.md"} <= set(PAGES)


# The checks themselves.


def test_blocks_are_found_with_their_lines():
    page = "# Title\n\n```python\na = 1\n```\n\n    indented\n\n```console\n$ b\n```\n"
    assert blocks(page) == [Block("python", "a = 1\n", 4), Block("console", "$ b\n", 10)]


def test_commands_go_on_over_lines():
    assert commands("$ a b \\\n    c\nout\nmore\n$ d\n") == [("a b c", "out\nmore\n"), ("d", "")]


@pytest.mark.parametrize(
    ("shown", "noisy", "same"),
    [
        ("error 0.12\n  of 3", False, True),
        ("error  0.12 of 3", False, True),
        ("... of 3", False, True),
        ("error ...", False, True),
        ("error 0.13 of 3", False, False),
        ("error 0.13 of 3", True, True),
        ("error -7.5e-3 of 1,000", True, True),
        ("mistake 0.12 of 3", True, False),
        ("error 0.12", False, False),
    ],
)
def test_output_is_compared(shown, noisy, same):
    assert is_shown(shown, "error 0.12 of\n3\n", noisy=noisy) == same


def test_a_wrong_example_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="three"):
        run_examples(Block("python", ">>> 'two'\n'three'\n", 1), tmp_path, {})


@pytest.mark.parametrize(
    "text",
    [
        "$ hushcov plan --features 3\n",  # refused, and the page does not say so
        "$ hushcov --version\nhushcov: error: ...\n",  # the other way round
        "$ hushcov --version\nhushcov 99\n",
        "$ rm -r .\n",
    ],
)
def test_a_wrong_command_line_is_noticed(text):
    with pytest.raises(AssertionError):
        run_console(text)
