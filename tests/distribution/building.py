"""Build wheel and sdist from a clean copy of the tree; `python building.py FOLDER` for people.

A copy, because what setuptools once left in a tree finds its way into later archives.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("src", "tests", "docs", "examples", "benchmarks", "r", "requirements", ".ci", ".github"),
)
FILES = (
    *("pyproject.toml", "MANIFEST.in", "Makefile", ".pre-commit-config.yaml", "LICENSE"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"),
    "CODE_OF_CONDUCT.md",
)
NOT_SOURCE = shutil.ignore_patterns("*.egg-info", "__pycache__", "*.py[co]")


def copy_source(target: Path) -> None:
    """Copy what belongs to the project."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=NOT_SOURCE)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, the wheel made from the sdist; offline."""
    with tempfile.TemporaryDirectory() as copy:
        copy_source(Path(copy))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), copy]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the build failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    print(*build(Path(sys.argv[1])), sep="\n")
