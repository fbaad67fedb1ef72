"""Files about the project agree with each other: versions, Pythons, locked packages, formats."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from distribution.building import DISTRIBUTIONS, ROOT
from distribution.environment import PROJECTS
from hushcov import __version__, _sums_file
from hushcov.kernel.accounting import ledger
from hushcov.release import schema as release_schema
from hushcov.release import signature as release_signature

PROJECT = PROJECTS["hushcov"]
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]
LOCK = (ROOT / "requirements" / "dev.txt").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())


def environment(python: str, system: str) -> dict[str, str]:
    """What markers of requirements look at, on another Python and system."""
    names = {"linux": "Linux", "darwin": "Darwin"}
    return {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "platform_system": names[system],
        "extra": "",
    }


def wanted(extra: str) -> list[Requirement]:
    """What an extra asks for, with the extras it names and the core."""
    found = [Requirement(each) for each in PROJECT["optional-dependencies"][extra]]
    for own in [each for each in found if each.name == "hushcov"]:
        found.remove(own)
        found += [each for name in own.extras for each in wanted(name)]
    return found


def test_the_citation_has_the_version_and_the_authors():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    for project in PROJECTS.values():
        own = [each for each in project["dependencies"] if each.startswith("hushcov")]
        assert project.get("version", __version__) == __version__
        assert {each.partition("==")[2] for each in own} <= {__version__}
    assert citation["keywords"] == PROJECT["keywords"]


def test_the_paper_is_named_with_what_is_its_own_and_what_is_ours():
    (paper,) = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    (author,) = paper["authors"]
    name = f"{author['given-names']} {author['family-names']}"
    for page in ("README.md", "docs/mechanisms.md", "src/hushcov/cli/demo.py"):
        text = " ".join(re.sub(r'"\s+"', "", (ROOT / page).read_text()).split())
        for words in (name, paper["title"], f"({paper['year']})", "1e9"):
            assert words in text, (page, words)
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "The default is an adaptive mechanism of our own" in readme


@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_one_version_of_everything_that_is_asked_for(python, system):
    where = environment(python, system)
    pins: dict[str, str] = {}
    for line in LOCK.splitlines():
        if line.startswith("#"):
            continue
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        if requirement.marker is None or requirement.marker.evaluate(where):
            assert canonicalize_name(requirement.name) not in pins
            pins[canonicalize_name(requirement.name)] = pin.version
    for requirement in [*wanted("dev"), *map(Requirement, PROJECT["dependencies"])]:
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), str(requirement)


def test_the_lock_names_no_registry():
    assert not re.search(r"://|^\s*-|@", LOCK, re.MULTILINE)


def test_the_workflow_covers_what_the_package_says_it_supports():
    matrix = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos"}


def test_the_workflow_may_only_read_and_calls_the_makefile():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    assert all(
        re.fullmatch(r"actions/[\w-]+@v\d+\.\d+\.\d+", step["uses"])
        for step in steps
        if "uses" in step
    )
    assert {step["run"].partition(" LOCK")[0] for step in steps if "run" in step} == {
        "make test",
        "make lowest",
        "make ${{ matrix.target }}",
    }
    assert WORKFLOW["jobs"]["slow"]["strategy"]["matrix"]["target"] == ["slow", "coverage"]
    cached = [step["with"].get("cache") for step in steps if "setup-python" in step.get("uses", "")]
    assert cached == ["pip"] * len(WORKFLOW["jobs"])
    assert not any("permissions" in job for job in WORKFLOW["jobs"].values())


def test_the_workflow_takes_the_build_of_torch_for_processors():
    # A variable of the repository: the project names no package index.
    assert WORKFLOW["env"]["PIP_EXTRA_INDEX_URL"] == "${{ vars.TORCH_CPU_INDEX }}"
    assert WORKFLOW["env"]["UV_TORCH_BACKEND"] == "cpu"


def test_addresses_are_placeholders_until_there_is_one():
    """Nobody invents a host: what is commented out names none, and is a table of urls."""
    text = (ROOT / "pyproject.toml").read_text()
    commented = re.findall(r"^# (\[project\.urls\]|\w+ = \"https.*)$", text, re.MULTILINE)
    urls = tomllib.loads("\n".join(commented))["project"]["urls"]
    assert {"Documentation", "Source", "Issues", "Changelog"} == set(urls)
    assert all(url.startswith("https://ADDRESS-OF-THE-") for url in urls.values())
    assert "[INSERT A CONTACT]" in (ROOT / "CODE_OF_CONDUCT.md").read_text()


def make(folder, *targets: str, **environment: str) -> str:
    """What make says in a folder that has what its targets depend on."""
    projects = [f"{each}/pyproject.toml" for each in DISTRIBUTIONS.values()]
    for name in ("Makefile", *projects, "requirements/dev.txt", "src/hushcov/_version.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    command = [shutil.which("make"), "--no-print-directory", *targets]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_demo_installs_what_it_needs_and_nothing_again(tmp_path):
    assert "'.[files,report]'" in make(tmp_path, "--dry-run", "demo")
    for order in (("demo", "install"), ("install",)):
        (tmp_path / ".venv").mkdir()
        for target in order:
            told = make(tmp_path, "--dry-run", target)
            assert "'.[dev]' --editable genotypes --editable lab" in told or target == "demo"
            assert told.count("pip ") == 1
            for stamp in re.findall(r"^touch (.+)$", told, re.MULTILINE)[0].split():
                (tmp_path / stamp).touch()
        assert "pip " not in make(tmp_path, "--dry-run", "demo", "install")
        shutil.rmtree(tmp_path / ".venv")


def test_targets_name_tests_that_are_there():
    """Folders of tests move, and pytest of a folder that is gone runs nothing."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lowest = re.findall(r"^LOWEST_TESTS := (.+)$", text, re.MULTILINE)[0].split()
    uncompiled = re.findall(r"^UNCOMPILED := (.+)$", text, re.MULTILINE)[0].split()
    files = [*lowest, *(f"sums/test_{name}.py" for name in uncompiled)]
    assert [each for each in files if not (ROOT / "tests" / each).exists()] == []
    folders = {path.parent.name for path in ROOT.glob("tests/*/test_*.py")}
    elsewhere = {"browser", "distribution", "docs", "examples", "fuzz", "golden", "mutation"}
    assert folders - {*lowest} == elsewhere | {"paper", "r"}


def test_what_cannot_be_installed_stops_nothing(tmp_path):
    """Neither root nor apt nor sudo: a folder of the few programs that make itself needs."""
    for name in ("sh", "id", "test", "echo"):
        (tmp_path / name).symlink_to(shutil.which(name))
    said = make(tmp_path, "browser", "rclients", PATH=str(tmp_path))
    assert said.count("cannot be installed here: its tests are skipped") == 2


def test_hooks_come_from_no_other_host():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repository["repo"] for repository in hooks["repos"]} == {"local"}


def test_the_policy_has_the_formats_that_are_written_and_read():
    page = (ROOT / "docs" / "compatibility.md").read_text()
    rows = re.findall(r"^\| ([\w ]+) \|[^|]+\| (\d+) \| ([\d, ]+) \|$", page, re.MULTILINE)
    signature = int(re.findall(rb"version (\d+)", release_signature.PREFIX)[0])
    formats = {
        "release folder": release_schema.FORMAT,
        "signature of a release": signature,
        "ledger": ledger.SCHEMA_VERSION,
        "statistics of a site": _sums_file.FORMAT,
    }
    assert {name: int(written) for name, written, _ in rows} == formats
    assert all(int(written) in map(int, read.split(",")) for _, written, read in rows)


def test_the_commits_that_mended_past_defects_are_there():
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("the history is not here")
    table = (ROOT / "SECURITY.md").read_text().partition("## Past privacy defects")[2]
    named = re.findall(r"\b[0-9a-f]{8}\b", table)
    assert len(named) > 20
    assert [each for each in named if git("cat-file", "-e", each).returncode] == []
