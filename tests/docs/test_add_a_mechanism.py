"""The walk-through really adds a mechanism: a copy of the package with its files knows it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from docs.pages import DOCS, blocks
from test_proofs import docstring_problems, steps_in_code, steps_in_page

ROOT = DOCS.parent
PAGE = blocks((DOCS / "add-a-mechanism.md").read_text())
LIST = "src/hushcov/fit/registry.py"
LAST = '    "multiscale = paper.plan:MULTISCALE",\n'
PUBLIC = ("--epsilon", "1", "--delta", "1e-6", "--row-sparsity", "1")


AT_THE_END = "# at the end of "


def named_files() -> dict[str, str]:
    found = {}
    for block in PAGE:
        first = block.text.splitlines()[0]
        if block.language == "python" and first.startswith("# ") and AT_THE_END not in first:
            found[first.removeprefix("# ")] = block.text
    return found


def query() -> tuple[str, str]:
    """The file that gets the query, and the query."""
    (text,) = [block.text for block in PAGE if block.text.startswith(AT_THE_END)]
    first, _, rest = text.partition("\n")
    return first.removeprefix(AT_THE_END), rest


def lines_of_use() -> tuple[str, str]:
    """The line of registration, and the lines that use the mechanism."""
    (line,) = [block.text for block in PAGE if block.language == "text"]
    python = [block.text for block in PAGE if block.language == "python"]
    (use,) = [text for text in python if not text.startswith("# ")]
    return line.strip() + "\n", use


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the package with the files of the page, and its one line."""
    tree = tmp_path_factory.mktemp("tree")
    # With compiled kernels; those that another process is just writing have other names.
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.tmp.*"))
    for name, text in named_files().items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place, text = query()
    (tree / place).write_text((tree / place).read_text() + "\n\n" + text)
    listed = (tree / LIST).read_text()
    assert listed.count(LAST) == 1
    line, _ = lines_of_use()
    (tree / LIST).write_text(listed.replace(LAST, f"{LAST}    {line}"))
    return tree


@pytest.fixture(scope="module")
def run(tree):
    paths = (tree / "src", ROOT / "tests")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "COLUMNS": "100"}

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def test_three_files_and_a_line(tree):
    assert sorted(named_files()) == [
        "src/hushcov/fit/variances.py",
        "tests/fit/test_variances.py",
    ]  # the third is the proof
    assert lines_of_use()[0] == '"variances = fit.variances:VARIANCES",\n'
    assert all((ROOT / name).parent.is_dir() for name in named_files())


@pytest.mark.slow
def test_its_own_test_passes(run):
    """Among it that a third of the noise is caught by the audit."""
    found = run(
        "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/fit/test_variances.py"
    )
    assert "4 passed" in found


def test_its_query_is_attacked_by_itself(run):
    attack = str(ROOT / "tests" / "kernel" / "test_queries.py")
    found = run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", attack, "-k", "SquaredS")
    assert "9 passed" in found


def test_it_is_used_as_the_page_says(run):
    assert "(1, 1e-6)-differential privacy" in run("-c", lines_of_use()[1])


# One process for all commands: loading the package takes longer than any of them.
COMMANDS = """
import sys
from click.testing import CliRunner
from hushcov.cli.main import cli
from hushcov_lab.benchmark.contenders import CONTENDERS
for line in sys.argv[1:]:
    done = CliRunner().invoke(cli, line.split())
    assert done.exit_code == 0, done.output
    print(done.output, end="== end of a command ==")
print(*CONTENDERS)
"""


@pytest.mark.slow
def test_every_command_knows_it(run, tree):
    np.save(tree / "x.npy", np.random.default_rng(0).normal(size=(9000, 4)))
    public = " ".join(PUBLIC)
    said = run(
        "-c",
        COMMANDS,
        f"plan --features 4 {public} --records 20000",
        f"fit x.npy {public} --mechanism variances -o out",
        "show out",
        "audit --list",
    )
    plan, _, show, audit, contenders = said.split("== end of a command ==")
    assert [line for line in plan.splitlines() if line.split()[:1] == ["variances"]]
    assert "variances of all features" in (tree / "out" / "report.html").read_text()
    assert "variances" in show
    assert [line for line in audit.splitlines() if "variances" in line]
    assert "variances" in contenders.split()


def test_its_proof_has_the_steps_that_its_code_names(tree):
    (proof,) = [block.text for block in PAGE if block.language == "markdown"]
    (tree / "variances.md").write_text(proof)
    named, unreadable = steps_in_code([tree / "src" / "hushcov" / "fit" / "variances.py"])
    assert not unreadable
    assert "# proof: variances, step 1\n" in query()[1]
    named.add(1)  # in the kernel
    proved, unreadable = steps_in_page(tree / "variances.md")
    assert not unreadable
    assert proved == [1, 2, 3]
    assert named == set(proved)
    assert docstring_problems(tree) == []


def test_it_is_written_as_the_house_asks(tree):
    """The linter's rules, and lines as the formatter makes them."""
    (tree / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    ours = "lint.isort.known-first-party=['hushcov','hushcov_lab','sessions']"
    files = [str(Path(name)) for name in named_files()]
    for arguments in (["check", "--config", ours], ["format", "--diff"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", *files]
        done = subprocess.run(command, cwd=tree, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
