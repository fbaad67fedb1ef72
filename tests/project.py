"""Where the sources of the three distributions are."""

from collections.abc import Iterator
from pathlib import Path

from distribution.building import DISTRIBUTIONS, ROOT

#: The folder of each package.
PACKAGES = {
    name.replace("-", "_"): ROOT / folder / "src" / name.replace("-", "_")
    for name, folder in DISTRIBUTIONS.items()
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its name, `__init__` included, and its file."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            yield ".".join((package, *path.relative_to(folder).with_suffix("").parts)), path
