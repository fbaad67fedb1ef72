"""Wheel and sdist: what is in them, what they say of themselves, and that they work installed."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from command_line import PATIENCE
from distribution.building import DISTRIBUTIONS, FILES, FOLDERS, NOT_SOURCE, ROOT, build
from distribution.environment import PROJECTS, core_environment, needed, requirements_of
from hushcov import __version__
from hushcov._plugins import PROVIDERS

PROJECT = PROJECTS["hushcov"]
OTHERS = [name for name in DISTRIBUTIONS if name != "hushcov"]
PAGE_PARTS = (".css", ".j2", ".js")
LEFTOVER = re.compile(r"\.py[co]$|__pycache__|(^|/)results/")
# Of this machine: no business of those who unpack an archive.
PLACES = [f"{place}/".encode() for place in (ROOT, Path.home(), sys.prefix)]


def source(*folders: str) -> set[str]:
    """Paths of the files in these folders, less what is not source."""
    found = set()
    for top in folders:
        for folder, inner, files in os.walk(ROOT / top):
            skipped = NOT_SOURCE(folder, [*inner, *files])
            inner[:] = [name for name in inner if name not in skipped]
            kept = [Path(folder, name) for name in files if name not in skipped]
            found |= {str(path.relative_to(ROOT)) for path in kept}
    return found


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Every file of wheel and sdist of the core by its path, and the wheel."""
    return archives_of("hushcov", tmp_path_factory.mktemp("dist"))


def archives_of(name, folder):
    wheel, sdist = build(folder, name)
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(sdist) as opened:
        members = {member.name.partition("/")[2]: member for member in opened if member.isfile()}
        in_sdist = {name: opened.extractfile(member).read() for name, member in members.items()}
    return wheel, in_wheel, in_sdist


def test_the_wheel_holds_the_package_and_nothing_else(archives):
    wheel, held, _ = archives
    assert wheel.name == f"hushcov-{__version__}-py3-none-any.whl"
    information = {name for name in held if name.startswith(f"hushcov-{__version__}.dist-info/")}
    assert any(name.endswith("/licenses/LICENSE") for name in information)
    expected = {name.removeprefix("src/") for name in source("src")}
    assert set(held) - information == expected
    assert "hushcov/py.typed" in expected
    assert {Path(name).suffix for name in expected} >= set(PAGE_PARTS)


def test_the_sdist_holds_what_the_tests_need(archives):
    *_, held = archives
    missing = source(*FOLDERS) - set(held)
    assert not missing
    for name in FILES:
        assert held[name] == (ROOT / name).read_bytes()
    assert {name.partition("/")[0] for name in held} <= {*FOLDERS, *FILES, "PKG-INFO", "setup.cfg"}


def test_no_archive_holds_leftovers_or_places_of_one_machine(archives):
    _, wheel, sdist = archives
    for held in (wheel, sdist):
        assert not [name for name in held if LEFTOVER.search(name)]
    for text in wheel.values():
        assert not any(place in text for place in PLACES)


def test_what_the_wheel_says_of_itself(archives):
    _, held, _ = archives
    metadata = email.message_from_bytes(held[f"hushcov-{__version__}.dist-info/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("hushcov", __version__)
    assert metadata["Author"] == PROJECT["authors"][0]["name"] == "hushcov developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert (
        metadata.get_payload(decode=True).decode().strip()
        == (ROOT / "README.md").read_text().strip()
    )
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    required = metadata.get_all("Requires-Dist")
    core = [each for each in required if "extra ==" not in each]
    assert {re.sub(r"\s", "", each) for each in core} == set(PROJECT["dependencies"])
    program = held[f"hushcov-{__version__}.dist-info/entry_points.txt"].decode()
    assert "hushcov = hushcov.cli.main:main" in program


def test_the_core_needs_no_optional_package():
    extras = {
        "pandas",
        "jinja2",
        "matplotlib",
        "torch",
        "dask",
        "distributed",
        "pyarrow",
        "dp-accounting",
    }
    assert not needed(PROJECT["dependencies"]) & extras


@pytest.mark.parametrize("name", OTHERS)
def test_another_distribution_holds_its_package_and_says_what_it_adds(name, tmp_path):
    wheel, held, in_sdist = archives_of(name, tmp_path)
    folder, stem = DISTRIBUTIONS[name], name.replace("-", "_")
    assert wheel.name == f"{stem}-{__version__}-py3-none-any.whl"
    information = {each for each in held if each.startswith(f"{stem}-{__version__}.dist-info/")}
    assert any(each.endswith("/licenses/LICENSE") for each in information)
    package = {each.removeprefix(f"{folder}/src/") for each in source(f"{folder}/src")}
    assert set(held) - information == package
    assert f"{stem}/py.typed" in package
    assert {f"src/{each}" for each in package} <= set(in_sdist)
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    metadata = email.message_from_bytes(held[f"{stem}-{__version__}.dist-info/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == (name, __version__)
    same = ("requires-python", "authors", "license")
    assert [PROJECTS[name][each] for each in same] == [PROJECT[each] for each in same]
    assert f"hushcov=={__version__}" in metadata.get_all("Requires-Dist")


def test_errors_name_what_the_other_distributions_add():
    """What is said of a plug-in that is missing is what the distributions register."""
    found = {
        group: {
            each: name
            for name in OTHERS
            for each in PROJECTS[name]["entry-points"].get(f"hushcov.{group}", {})
        }
        for group in PROVIDERS
    }
    assert found == PROVIDERS


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["hushcov", "hushcov-lab"])
def test_it_works_with_what_it_depends_on_alone(wanted, tmp_path):
    """The core, and all distributions."""
    ours, others = requirements_of(wanted)
    wheels = [build(tmp_path / "dist", name)[0] for name in ours]
    programs = core_environment(tmp_path / "environment", wheels, others)
    everything = ["--all"] if wanted == "hushcov-lab" else []
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [programs / "python", Path(__file__).with_name("smoke.py"), *everything],
        cwd=tmp_path,
        env={**kept, "PATH": os.defpath, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("hushcov works")


# What is loaded when: `import hushcov` at once, optional packages never before they are used.


CODE = """
import sys

def top():
    return {name.partition(".")[0] for name in sys.modules}

before = top()
import hushcov
assert {"Ledger", "PrivateSparseCovariance"} <= set(dir(hushcov))
print(*sorted(top() - before))
import sklearn.covariance
before = top()
from hushcov import *
print(*sorted(top() - before))
"""
OPTIONAL = {
    "dask",
    "distributed",
    "dp_accounting",
    "fsspec",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "torch",
}


def test_what_importing_hushcov_loads():
    """Itself and nothing else; its classes add the core dependencies to those of scikit-learn."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    package, classes = (set(line.split()) for line in done.stdout.splitlines())
    assert package - set(sys.stdlib_module_names) == {"hushcov"}
    assert "randomgen" in classes
    assert not classes & (OPTIONAL | {"numba"})  # the compiler is loaded when something is compiled
