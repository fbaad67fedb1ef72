"""An environment that holds wheels of ours, what they need and nothing else, in a second.

Installing them afresh takes half a minute. Here the folders of exactly those distributions are
linked into an empty environment; anything else, optional packages above all, cannot be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from distribution.building import DISTRIBUTIONS, ROOT

PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for name, folder in DISTRIBUTIONS.items()
}


def requirements_of(wanted: str) -> tuple[set[str], list[str]]:
    """Our distributions that `hushcov-lab[extras]` brings, and the others that all of them need."""
    own = Requirement(wanted)
    project = PROJECTS[own.name]
    listed = [project["dependencies"], *map(project["optional-dependencies"].get, own.extras)]
    ours, others = {own.name}, list[str]()
    for each in (each for part in listed for each in part):
        if Requirement(each).name in PROJECTS:
            more, needs = requirements_of(each)
            ours, others = ours | more, others + needs
        else:
            others.append(each)
    return ours, others


def needed(requirements: list[str]) -> set[str]:
    """Names of the distributions that these requirements bring in, one through the other."""
    names: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        name = requirement.name.lower()
        if wanted and name not in names:
            names.add(name)
            waiting += [Requirement(each) for each in distribution(name).requires or []]
    return names


def top_level(name: str) -> set[Path]:
    """Files and folders of a distribution beside those of others."""
    found = distribution(name)
    parts = {file.parts[0] for file in found.files or []}
    places = {Path(str(found.locate_file(part))) for part in parts - {"..", "__pycache__"}}
    assert places, f"{name} does not say which files it has"
    return places


def core_environment(folder: Path, wheels: list[Path], requirements: list[str]) -> Path:
    """Make the environment, install the wheels in it, and return the folder of its programs."""
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in needed(requirements):
        for place in top_level(name):
            (packages / place.name).symlink_to(place)
    python = str(folder / "bin" / "python")
    # Offline, pip fails if a wheel asks for anything that is not there.
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    for command in (["install", "--no-index", "--quiet", *map(str, wheels)], ["check"]):
        # Of this environment alone: a checkout on the path would pass for an installed hushcov.
        known = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(
            [*pip, *command], env=known, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"
