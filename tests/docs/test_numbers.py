"""Numbers on a page are those that the command beside them prints, within the tolerance said here.

Commands run as they are printed, in a process whose noise has a seed. Those that take more than a
minute or two, or need what is not here, are not among them.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import seeded
from docs.pages import DOCS
from docs.test_benchmarks import tables

ROOT = DOCS.parent
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def numbers(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in NUMBER.findall(text)]


def page_table(page: str, head: str) -> list[list[str]]:
    """Return the lines of the table whose first line begins so."""
    (rows,) = (rows for first, rows in tables((DOCS / page).read_text()) if first.startswith(head))
    return rows


@dataclass(frozen=True)
class SameTable:
    """The command prints the lines of the page's table: the same keys, and numbers as close.

    `keys` cells say which line it is; `columns` are those of the printed lines beside them.
    """

    head: str
    keys: int
    columns: tuple[int, ...]
    tolerance: float
    absolute: float = 0.0

    def __call__(self, page: str, printed: str) -> None:
        found = {}
        for line in printed.splitlines():
            cells = [each.strip() for each in re.split(r"\||\s{2,}", line.strip("| ")) if each]
            key = tuple(each for cell in cells[: self.keys] for each in numbers(cell))
            if len(key) == self.keys and len(cells) > max(self.columns):
                found[key] = [cells[column] for column in self.columns]
        for row in page_table(page, self.head):
            key = tuple(each for cell in row[: self.keys] for each in numbers(cell))
            for mine, theirs in zip(row[self.keys :], found[key], strict=True):
                close = {"rel_tol": self.tolerance, "abs_tol": self.absolute}
                assert math.isclose(*numbers(mine), *numbers(theirs), **close), (row, found[key])


@dataclass(frozen=True)
class Said:
    """The page has some words, and the printed numbers after others lie between two ends."""

    words: str
    after: str
    low: float
    high: float

    def __call__(self, page: str, printed: str) -> None:
        assert self.words in " ".join((DOCS / page).read_text().split()), self.words
        printed = " ".join(printed.split())
        assert self.after in printed, printed
        value = numbers(printed.partition(self.after)[2])[0]
        assert self.low <= value <= self.high, (self.after, value)


EXAMPLES, RESEARCH, RIVALS = "examples.md", "research.md", "rivals.md"
#: Page, command as it is there (or its default records), and what must agree.
CHECKED: list[tuple[str, str, list[Callable[[str, str], None]]]] = [
    (
        RESEARCH,
        "python benchmarks/studies/proof_tables.py guard",
        [SameTable("| features | sigma", 3, (3, 4), 0.15)],
    ),
    (
        "proofs/scales.md",
        "python benchmarks/studies/proof_tables.py scales",
        [SameTable("| d | n | share", 3, (3, 5, 7, 8), 0.15, 0.005)],
    ),
    (
        "proofs/eigen_sampling.md",
        "python benchmarks/studies/proof_tables.py eigen",
        [SameTable("| d | n | adaptive", 2, (2, 3, 4), 0.35)],
    ),
    (
        "proofs/coinpress.md",
        "python benchmarks/studies/coinpress.py",
        [SameTable("| n | steps", 2, (2, 3), 0.15)],
    ),
    (
        RESEARCH,
        "python benchmarks/studies/aggregated_privacy.py",
        [Said("save a factor of 10 to 16", "n at equal epsilon", 1 / 16, 1 / 10)],
    ),
    (
        "parameters.md",
        "python benchmarks/studies/wrong_numbers.py --bounds",
        [SameTable("| records | nothing known", 1, (1, 2, 3, 4), 0.3)],
    ),
    (
        "outputs.md",
        "python benchmarks/studies/export_psd.py",
        [
            Said("| | export | 0.32 |", "| 0.02 | export (default) |", 0.27, 0.37),
            Said(
                "| | export, blocks of 100 | 3.00 |", "| 0.02 | export, blocks of 100 |", 2.7, 3.3
            ),
        ],
    ),
    (
        RIVALS,
        "python benchmarks/studies/dpsgd.py accountants",
        [SameTable("| sampling rate | steps", 3, (3, 4, 5), 0.002)],
    ),
    (
        EXAMPLES,
        "python examples/gene_expression.py",
        [
            Said("all 16 modules, all 414 edges", "A graph of", 414, 416),
            Said("all 16 modules, all 414 edges", "edges, with", 414, 414),
            Said("all 16 modules", "Correlations above 0.25 make", 16, 16),
        ],
    ),
    (
        EXAMPLES,
        "python examples/gene_expression.py --records 10000",
        [Said("with 366 to 390 of the 414", "edges, with", 366, 390)],
    ),
    (
        EXAMPLES,
        "python examples/gene_expression.py --records 5000",
        [Said("5,000: finds nothing", "A graph of", 0, 0)],
    ),
    (
        EXAMPLES,
        "python examples/portfolio.py",
        [
            Said("| the release | 1.40 |", "the release", 1.37, 1.43),
            Said("| sample covariance, not private | 1.40 |", "without privacy", 1.385, 1.415),
            Said("| the true covariance | 1.39 |", "the true covariance", 1.375, 1.405),
            Said("| nothing: equal weights | 2.92 |", "with equal weights", 2.90, 2.94),
            Said("are 4 to 7 % too low", "As predicted by the release:", 0.92 * 1.4, 0.97 * 1.4),
        ],
    ),
    (
        EXAMPLES,
        "python examples/survey.py",
        [Said("all 6 scales", "(adjusted Rand index):", 0.97, 1)],
    ),
    (
        EXAMPLES,
        "python examples/survey.py --records 2000",
        [Said("2,000: scales fall apart", "(adjusted Rand index):", 0, 0.5)],
    ),
    (
        EXAMPLES,
        "python examples/outliers.py",
        [
            Said("46 or 47 of 50 odd rows", "distances of the release", 44, 48),
            Said("the true covariance finds 46", "distances of the true covariance", 46, 46),
        ],
    ),
]


def test_every_command_that_is_run_is_on_its_page():
    for page, command, _ in CHECKED:
        text = " ".join((DOCS / page).read_text().split())
        assert command in text or command.split()[1] in text


def test_costs_on_the_page_are_within_the_limits_of_their_guard():
    """The page says what was measured, and its guard must not call that too slow."""
    source = (ROOT / "benchmarks/guards/speed.py").read_text()
    arrays, files = source.partition("ARRAYS = {")[2], source.partition("FILE_LIMITS = {")[2]
    limits = [float(each) for each in re.findall(r"\), ([\d.]+)\),$", arrays, re.M)][:4]
    measured = [numbers(row[1])[0] for row in page_table("cost.md", "| | time over")]
    assert len(limits) == len(measured) == 4
    assert all(map(float.__le__, measured, limits))
    limits = numbers(files.partition("}")[0])
    measured = [numbers(row[1])[0] for row in page_table("cost.md", "| | time | peak memory")]
    assert len(limits) == len(measured) == 4
    assert all(map(float.__le__, measured, limits))


@pytest.mark.parametrize("bounds", ["released", "given"])
def test_counts_of_tables_are_those_of_the_table(bounds):
    """How often a regression of hushcov, with either purpose, is as good as that of every rival."""

    def score(cell: str) -> float:
        value = cell.split(" / ")[-1 if bounds == "given" else 0]
        return -math.inf if value in ("-", "< -1") else float(value)

    rows = page_table(RIVALS, "| table (records, columns) | least squares | hushcov |")
    found = [[score(cell) for cell in row[2:]] for row in rows]
    for_both, for_relations, declared = (
        sum(row[ours] >= max(row[3:]) for row in found) for ours in (0, 1, 2)
    )
    every = "that of every rival" if bounds == "released" else "as good as every rival"
    said = (
        f"{every} on {for_both} of {len(rows)} tables, on {for_relations} with "
        f'`purpose="relations"`, and on {declared} with a declared target'
    )
    assert said in " ".join((DOCS / RIVALS).read_text().split())


def run(command: str, folder: Path) -> str:
    _, script, *options = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / script, *options],
        cwd=folder,
        env=seeded(os.environ, folder / "seed"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "command", "checks"), CHECKED, ids=[command for _, command, _ in CHECKED]
)
def test_a_command_prints_the_numbers_of_its_page(page, command, checks, tmp_path):
    printed = run(command, tmp_path)
    for check in checks:
        check(page, printed)


def test_other_numbers_are_noticed():
    page, same = "proofs/coinpress.md", SameTable("| n | steps", 2, (2, 3), 0.15)
    rows = "".join(f"| {' | '.join(row)} |\n" for row in page_table(page, same.head))
    same(page, rows)
    with pytest.raises(AssertionError):
        same(page, rows.replace("| 1.01 |", "| 1.3 |"))
    with pytest.raises(KeyError):
        same(page, "| 8000 | 1 | 1.340 | 1.01 |")
    with pytest.raises(AssertionError):
        Said("all 6 scales", "index):", 0.97, 1)(EXAMPLES, "index): 0.9 of 1")
