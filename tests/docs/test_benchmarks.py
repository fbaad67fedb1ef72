"""Scripts and documentation know each other: every table of numbers names what makes it."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import DOCS
from hushcov.cli.main import COMMANDS
from project import PACKAGES

ROOT = DOCS.parent
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.rglob("*.py"))
# Where scripts are named by their path, generated pages and results aside.
TEXTS = sorted(
    path
    for top in (
        *("README.md", "CONTRIBUTING.md", "benchmarks", "docs", "examples", "src", "tests"),
        *("lab", "genotypes"),
    )
    for path in ((ROOT / top).rglob("*") if (ROOT / top).is_dir() else [ROOT / top])
    if path.suffix in (".md", ".py") and path != Path(__file__).resolve()
)
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
SCRIPT = re.compile(r"\b(?:benchmarks|examples)/[\w/]*\w\.py\b")
# Text in which a command is one: fenced, indented, or between backticks.
_CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.DOTALL | re.MULTILINE)
# What a table of numbers may come from.
ORIGIN = re.compile(
    r"\b(?:benchmarks|examples|(?:lab/|genotypes/)?tests)/[\w/]*\w\.py\b|\bhushcov [a-z]+\b"
)
_RULE = re.compile(r"^\s*\|[\s:|-]*---[\s:|-]*\|$")
_NUMBER = re.compile(r"^\W*\d")


def sections(page: str) -> list[str]:
    """The page cut before every heading of the second level; the first part is its introduction."""
    return re.split(r"^(?=## )", page, flags=re.MULTILINE)


def tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Heads of the tables in a text, and the cells of their other lines."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if not _RULE.match(line):
            continue
        rows = []
        for row in lines[at + 1 :]:
            if not row.lstrip().startswith("|"):
                break
            rows.append([cell.strip() for cell in row.strip().strip("|").split("|")])
        yield lines[at - 1].strip(), rows


def is_measured(rows: list[list[str]]) -> bool:
    """Whether most cells beside the first of each line begin with a number."""
    cells = [cell for row in rows for cell in row[1:] if cell]
    return 2 * sum(bool(_NUMBER.match(cell)) for cell in cells) > len(cells)


def origins(text: str) -> set[str]:
    code = "\n".join(_CODE.findall(text))
    return {name for name in ORIGIN.findall(code) if is_there(name)}


def is_there(origin: str) -> bool:
    """Whether a script is in the tree, or a command among those of hushcov."""
    _, _, command = origin.partition("hushcov ")
    return command in COMMANDS if command else (ROOT / origin).is_file()


def without_origin(page: str) -> list[str]:
    """Heads of tables of numbers that come from nothing which their section names."""
    return [
        head
        for part in sections(page)
        for head, rows in tables(part)
        if is_measured(rows) and not origins(part)
    ]


def imported(script: Path) -> Iterator[tuple[str, str | None]]:
    """Modules of hushcov that a script imports, and the name it takes from each."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, None) for alias in node.names if alias.name.startswith("hushcov")
            )


def test_every_script_that_is_named_is_there():
    assert len(SCRIPTS) > 15
    assert {path.parent.name for path in SCRIPTS} == {"guards", "figures", "studies"}
    named = {(path, name) for path in TEXTS for name in SCRIPT.findall(path.read_text())}
    assert len(named) > 20
    missing = {(str(path), name) for path, name in named if not (ROOT / name).exists()}
    assert not missing


@pytest.mark.parametrize("folder", ["guards", "figures", "studies"])
def test_the_list_of_a_folder_is_what_is_in_it(folder):
    listed = re.findall(r"^\| `(\w+\.py)`", (BENCHMARKS / folder / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in (BENCHMARKS / folder).glob("*.py"))


def test_every_figure_has_a_maker_and_is_on_a_page():
    lists = " ".join(path.read_text() for path in BENCHMARKS.rglob("README.md"))
    assert not [path.name for path in (DOCS / "figures").iterdir() if f"`{path.name}`" not in lists]
    pages = " ".join((DOCS / page).read_text() for page in PAGES)
    figures = {path.name for path in (DOCS / "figures").glob("*.png")}
    assert {name for name in figures if f"figures/{name})" not in pages} == set()


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_tables_of_numbers_name_what_makes_them(page):
    """A script or a command, in the section of the table. Tables of words need none."""
    assert without_origin((DOCS / page).read_text()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(script):
    for module, name in imported(script):
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "guards/gram.py --records 2000 --features 20 --repeats 1",
        "guards/entropy.py --size 20000 --repeats 1",
        "guards/fit.py --records 2000 --features 20 --rounds 1",
        "guards/device.py --device cpu --records 3000 --features 30 --rounds 1 "
        "--fit-records 3000 --fit-features 50",
        "guards/scale.py --parts files --records 3000 --features 10 --rounds 1",
        *("guards/sampler.py --repeats 1", "figures/intervals.py --repetitions 2"),
        "figures/all.py --only sizes.png bands.png example-survey.png tutorial.png",
        *("studies/coinpress.py --runs 10", "studies/cai_liu.py --runs 2"),
        "studies/components.py --cells 6,10000 --families chain --repetitions 1",
        "studies/unknown_structure.py --cells 10,5000 --families block,wishart --repetitions 1",
        "studies/unknown_structure.py --tables breast-cancer,genotypes --repetitions 1",
        "studies/questions.py --runs 1 --sources blocks --cells 6,2000",
        "studies/aggregated_privacy.py --part selection",
        "studies/wrong_numbers.py --bounds --releases 1",
        "studies/proof_tables.py scales",
        "studies/means.py --tables wine --records 5000 --runs 2 --associations",
        "studies/ridge.py . --tables patients --runs 1",
        "studies/odds.py --tables fair --rows 20000 --runs 1",
    ],
    ids=lambda command: command.partition(" ")[0],
)
def test_a_script_runs_at_a_small_size(command, tmp_path):
    script, *options = command.split()
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
