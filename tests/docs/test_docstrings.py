"""Every example in a docstring is run, and the examples of the reference are among them."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import hushcov

SOURCE = Path(hushcov.__file__).parent
MODULES = sorted(
    ".".join(("hushcov", *path.relative_to(SOURCE).with_suffix("").parts))
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0


def test_every_estimator_has_an_example():
    estimators = [name for name in hushcov.__all__ if name.endswith("Covariance")]
    assert len(estimators) >= 9
    for name in estimators:
        assert ">>> " in getattr(hushcov, name).__doc__, name
