"""Build wheels and sdists from a clean copy of the tree; `python building.py FOLDER` for people.

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
    *("lab", "genotypes"),
)
#: Folders of the distributions.
DISTRIBUTIONS = {"hushcov": ".", "hushcov-genotypes": "genotypes", "hushcov-lab": "lab"}
FILES = (
    *("pyproject.toml", "MANIFEST.in", "Makefile", ".pre-commit-config.yaml", "LICENSE"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"),
    *("CODE_OF_CONDUCT.md", "conftest.py"),
)
NOT_SOURCE = shutil.ignore_patterns("*.egg-info", "__pycache__", "*.py[co]")


def copy_source(target: Path) -> None:
    """Copy what belongs to the project."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=NOT_SOURCE)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)


def build(folder: Path, name: str = "hushcov") -> tuple[Path, Path]:
    """The wheel and the sdist of a distribution, the wheel made from the sdist; offline."""
    with tempfile.TemporaryDirectory() as copy:
        copy_source(Path(copy))
        source = str(Path(copy, DISTRIBUTIONS[name]))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the build failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    stem = name.replace("-", "_")
    (wheel,), (sdist,) = folder.glob(f"{stem}-*.whl"), folder.glob(f"{stem}-*.tar.gz")
    return wheel, sdist


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    for each in DISTRIBUTIONS:
        print(*build(Path(sys.argv[1]), each), sep="\n")
