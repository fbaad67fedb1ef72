"""Names that are loaded when used: all of them are there, and none before."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("noise", "accounting", "postprocess", "release")
LATER = (
    "noise.laplace",
    *("accounting.filter", "accounting.ledger"),
    *("tables.files", "tables.formats", "tables.cluster", "sums.device"),
    *("release.files", "release.schema", "release.signature"),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = import_module(f"hushcov.{package}")
    nodes = ast.walk(ast.parse(Path(module.__file__).read_text()))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = [each.name for node in imports for each in node.names]
    assert all(getattr(module, name) is not None for name in names)


@pytest.mark.parametrize("package", ["noise", "release"])
def test_other_names_are_not(package):
    module = import_module(f"hushcov.{package}")
    with pytest.raises(AttributeError, match=rf"'hushcov\.{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_what_is_rarely_needed_is_not_loaded():
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, {', '.join(f'hushcov.{package}' for package in PACKAGES)}\n"
            "print(*(name for name in sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "hushcov.postprocess.matrices" in loaded
    assert not {f"hushcov.{name}" for name in LATER} & set(loaded)
    assert not {"torch", "dask", "pyarrow", "sqlite3", "cryptography"} & set(loaded)
