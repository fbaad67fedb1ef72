"""The walk-through really adds a mechanism: its files are made, imported, proved and attacked."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import PurePosixPath

import pytest

import hushcov
from docs.pages import DOCS, blocks
from test_proofs import docstring_problems, steps_in_code, steps_in_page

PAGE = blocks((DOCS / "add-a-mechanism.md").read_text())
FOLDERS = ("mechanisms", "estimators", "lab/audit")


def named_files():
    """Python blocks that begin with the path of their file."""
    for block in PAGE:
        first = block.text.splitlines()[0]
        if block.language == "python" and first.startswith("# "):
            yield first.removeprefix("# "), block.text


@pytest.fixture
def tree(tmp_path):
    """A tree with the new files."""
    for name, text in named_files():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def added(tree, monkeypatch):
    """The new files, which the installed package takes for its own."""
    for folder in FOLDERS:
        package = importlib.import_module("hushcov." + folder.replace("/", "."))
        new = str(tree / "src" / "hushcov" / folder)
        monkeypatch.setattr(package, "__path__", [*package.__path__, new])
        monkeypatch.setattr(package, "variances", None, raising=False)  # undone in the end
    yield tree
    for folder in FOLDERS:
        del sys.modules[f"hushcov.{folder.replace('/', '.')}.variances"]


def test_the_new_mechanism_works(added, monkeypatch, capsys):
    """Everything on the page is run; among it that half the noise is caught by the audit."""
    (use,) = [b.text for b in PAGE if b.language == "python" and not b.text.startswith("# ")]
    namespace = {}
    exec(use, namespace)
    assert "(1, 1e-06)-differential privacy" in capsys.readouterr().out
    assert namespace["est"].release_.write(added / "release").exists()
    tests = {}
    exec((added / "tests/variances/test_variances.py").read_text(), tests)
    functions = [each for name, each in tests.items() if name.startswith("test_")]
    assert len(functions) == 4
    for function in functions:
        wanted = inspect.signature(function).parameters
        with monkeypatch.context() as patch:
            function(**({"monkeypatch": patch} if wanted else {}))


def test_its_proof_has_the_steps_that_its_code_names(tree):
    (proof,) = [block.text for block in PAGE if block.language == "markdown"]
    (tree / "variances.md").write_text(proof)
    named, unreadable = steps_in_code(tree / "src" / "hushcov" / "mechanisms" / "variances.py")
    assert not unreadable
    proved, unreadable = steps_in_page(tree / "variances.md")
    assert not unreadable
    assert proved == [1, 2, 3]
    assert named == set(proved)
    assert docstring_problems(tree) == []


def test_it_is_written_as_the_house_asks(tree):
    """The linter's rules, and lines as the formatter makes them."""
    (tree / "pyproject.toml").write_text((DOCS.parent / "pyproject.toml").read_text())
    ours = "lint.isort.known-first-party=['hushcov']"
    for arguments in (["check", "--config", ours], ["format", "--diff"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."]
        done = subprocess.run(command, cwd=tree, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_lands_where_the_package_keeps_such_things():
    source = PurePosixPath("src/hushcov")
    names = [PurePosixPath(name) for name, _ in named_files()]
    inside = [name.relative_to(source) for name in names if name.is_relative_to(source)]
    assert sorted(map(str, inside)) == sorted(f"{folder}/variances.py" for folder in FOLDERS)
    for name in inside:
        assert (DOCS.parent / source / name.parent).is_dir()
        assert not hasattr(hushcov, name.stem)
