"""Studies: what one is, which there are, and their results as rows.

A study is a list of cells, a function that measures one in a worker process, and a figure of all
rows. `hushcov bench STUDY` runs it: finished cells are kept in `STUDY.jsonl`, so that the same
command goes on where a run was stopped.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from hushcov._version import __version__
from hushcov.answers.files import write_table
from hushcov_lab.benchmark.cells import Journal
from hushcov_lab.benchmark.work import Task, run_tasks

_STUDIES = ("regression", "components", "correlations", "covariance")
_LONGEST = 48  # characters of what stands beside a progress bar


@dataclass(frozen=True)
class Summary:
    """A line for each method: medians of `metric` for each value of `across`, in rows `where`."""

    across: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)

    def lines(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[float], int]]:
        """Return each method, its medians in ascending order, and how many there could be."""
        taken = [row for row in rows if all(row.get(k) == v for k, v in self.where.items())]
        found: dict[str, dict[Any, list[float]]] = {}
        for row in taken:
            values = found.setdefault(row["method"], {}).setdefault(row[self.across], [])
            if row.get(self.metric) is not None and not np.isnan(row[self.metric]):
                values.append(row[self.metric])
        return [
            (method, sorted(map(statistics.median, filter(None, groups.values()))), len(groups))
            for method, groups in found.items()
        ]


@dataclass(frozen=True)
class Study:
    """A comparison that can be run again.

    Parameters
    ----------
    name, title : str
    cells : callable
        The parameters of every cell as plain data, a seed among them, of a preset ("quick" or
        "full") and a folder of tables or None.
    measure : callable
        One cell to rows: one for each method, with "method" and metrics as plain numbers, None
        where there is none. A function of a module, since it runs in a worker process.
    draw : callable
        All rows to a matplotlib figure.
    caption : str
        What to see in the figure.
    summary : Summary, optional
        What `hushcov bench` prints at the end.
    """

    name: str
    title: str
    cells: Callable[[str, Path | None], list[dict[str, Any]]]
    measure: Callable[[dict[str, Any]], list[dict[str, Any]]]
    draw: Callable[[list[dict[str, Any]]], Any]
    caption: str
    summary: Summary | None = None


def installed_studies() -> list[str]:
    """Return the names of the studies; none of them is imported."""
    return [name for name in _STUDIES if find_spec(_module(name)) is not None]


def find_study(name: str) -> Study:
    """Import the module of a study, and return it."""
    study: Study = importlib.import_module(_module(name)).STUDY
    return study


def _module(name: str) -> str:
    return f"{__package__}.{name}_study"


@dataclass(frozen=True)
class MeasuredCell:
    """The parameters of a cell and its rows, as a line of the journal."""

    cell: dict[str, Any]
    rows: list[dict[str, Any]]

    def __str__(self) -> str:
        known = (f"{k} {v}" for k, v in self.cell.items() if k not in ("seed", "folder"))
        return ", ".join(known)[:_LONGEST]

    def to_line(self) -> str:
        """Return a line of JSON; numbers of numpy become plain ones."""
        return json.dumps(vars(self), default=lambda value: value.item()) + "\n"

    @classmethod
    def from_line(cls, line: bytes) -> MeasuredCell:
        """Read `to_line` back; ValueError or TypeError for anything else."""
        found = cls(**json.loads(line))
        if not isinstance(found.cell, dict) or not isinstance(found.rows, list):
            raise ValueError("not a cell")
        return found


@dataclass(frozen=True)
class StudyRun:
    """A study at a preset, with a folder of tables or none."""

    study: Study
    preset: str
    tables: Path | None
    cells: list[dict[str, Any]]

    @property
    def files(self) -> tuple[str, str, str]:
        """Names of the journal, the table of results and the figure."""
        name = self.study.name
        return f"{name}.jsonl", f"{name}.parquet", f"{name}.png"

    def journal(self, folder: Path) -> Journal:
        """Open the finished cells of a folder."""
        design = hashlib.sha256(json.dumps(self.cells, sort_keys=True).encode()).hexdigest()
        identity: dict[str, object] = {
            "version": __version__,
            "study": self.study.name,
            "preset": self.preset,
            "design": design,
        }
        read, write = MeasuredCell.from_line, MeasuredCell.to_line
        return Journal(folder, identity, self.files[0], read=read, write=write)

    def missing(self, done: Sequence[MeasuredCell]) -> list[dict[str, Any]]:
        """Return the cells that are not finished."""
        finished = [each.cell for each in done]
        return [cell for cell in self.cells if cell not in finished]

    def run(
        self, left: Sequence[dict[str, Any]], workers: int, keep: Callable[[Any], object]
    ) -> None:
        """Measure cells in worker processes, and `keep` each as it comes."""
        run_tasks([Task(_measure, (self.study.measure, cell)) for cell in left], workers, keep)

    def rows(self, done: Sequence[MeasuredCell]) -> list[dict[str, Any]]:
        """Return all rows in the order of the cells, with what made them."""
        command = f"hushcov bench {self.study.name} --preset {self.preset}"
        made = {
            "hushcov": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
            "preset": self.preset,
            "command": command + (f" --tables {self.tables}" if self.tables else ""),
        }
        found = sorted(done, key=lambda each: self.cells.index(each.cell))
        return [each.cell | row | made for each in found for row in each.rows]


def _measure(
    measure: Callable[[dict[str, Any]], list[dict[str, Any]]], cell: dict[str, Any]
) -> Iterator[MeasuredCell]:
    yield MeasuredCell(cell, measure(cell))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet: whole, or not at all. A column that a row lacks is null there."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name) for row in rows], dtype=object) for name in names}
    return write_table(columns, path.with_stem(f".{path.stem}")).replace(path)


def prepare(name: str, preset: str, tables: Path | None) -> StudyRun:
    """Find a study and its cells; tables are read here, so that a bad one is refused at once."""
    study = find_study(name)
    cells = json.loads(json.dumps(study.cells(preset, tables)))  # as the journal has them
    return StudyRun(study, preset, tables, cells)
