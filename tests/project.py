"""Where the sources of the three distributions are."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The folder of each distribution, and of the package in it.
FOLDERS = {"hushcov": "", "hushcov-lab": "lab/", "hushcov-genotypes": "genotypes/"}
PACKAGES = {
    name.replace("-", "_"): ROOT / f"{folder}src" / name.replace("-", "_")
    for name, folder in FOLDERS.items()
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its name, `__init__` included, and its file."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            yield ".".join((package, *path.relative_to(folder).with_suffix("").parts)), path
