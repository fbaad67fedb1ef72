"""From a preset to tasks: what is still to be done, and in which order."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from hushcov._version import __version__
from hushcov.cli.workers import Task, run_tasks
from hushcov.lab.benchmark.cells import Cell, Cost, Fit, Prediction
from hushcov.lab.benchmark.design import Point, Preset
from hushcov.lab.benchmark.measure import measure, measure_cost, predict

_SEED_BY_SEED = 5e9  # from this much work on the seeds of a point are tasks of their own
# Processes whose time is taken run two at a time at most: more would wait for one memory.
_MOST_TIMED = 2


@dataclass(frozen=True)
class Benchmark:
    """A preset and the names of the contenders that are measured."""

    preset: Preset
    contenders: tuple[str, ...]

    def identity(self) -> dict[str, object]:
        """What cells must have in common to be held against each other."""
        design = json.dumps(self.preset.to_dict(), sort_keys=True)
        return {
            "version": __version__,
            "preset": self.preset.name,
            "contenders": list(self.contenders),
            "design": hashlib.sha256(design.encode()).hexdigest(),
        }

    def cell_keys(self) -> list[tuple[object, ...]]:
        """Every cell, in the order of results."""
        points = self.preset.measured().items()
        fits = [
            Fit(point, seed, name).key
            for point, seeds in points
            for name in self.contenders
            for seed in range(seeds)
        ]
        predictions = [Prediction(point, {}).key for point in self.preset.predicted()]
        return fits + predictions + [Cost(self.preset.base, name).key for name in self.contenders]


@dataclass(frozen=True)
class Work:
    """Tasks that are left: those that share workers, and those with processes of their own."""

    n_cells: int
    shared: tuple[Task, ...]
    alone: tuple[Task, ...]

    def run(self, workers: int, keep: Callable[[Cell], object]) -> None:
        """Do it all; time is taken when the rest is done."""
        run_tasks(self.shared, workers, keep)
        run_tasks(self.alone, min(workers, _MOST_TIMED), keep, fresh=True)


def missing_work(benchmark: Benchmark, cells: Iterable[Cell]) -> Work:
    """What is not among the finished cells."""
    done = {cell.key for cell in cells}
    left = [key for key in benchmark.cell_keys() if key not in done]
    base = benchmark.preset.base
    costs = [name for name in benchmark.contenders if Cost(base, name).key not in done]
    return Work(
        n_cells=len(left),
        shared=(*_fits(benchmark, done), *_predictions(benchmark.preset, done)),
        alone=tuple(Task(measure_cost, (base, name)) for name in costs),
    )


def _fits(benchmark: Benchmark, done: Collection[tuple[object, ...]]) -> list[Task]:
    tasks = []
    for point, seeds in benchmark.preset.measured().items():
        left = []
        for seed in range(seeds):
            names = tuple(n for n in benchmark.contenders if Fit(point, seed, n).key not in done)
            if names:
                left.append((seed, names))
        tasks += [Task(measure, (point, part)) for part in _parts(point, left)]
    return tasks


def _parts(
    point: Point, left: Sequence[tuple[int, tuple[str, ...]]]
) -> list[Sequence[tuple[int, tuple[str, ...]]]]:
    """Seeds that share a plan stay together, unless each is a lot of work by itself."""
    if not left:
        return []
    return [[each] for each in left] if point.work > _SEED_BY_SEED else [left]


def _predictions(preset: Preset, done: Collection[tuple[object, ...]]) -> list[Task]:
    """One task for each number of features: predictions at one share what is computed first."""
    left = [point for point in preset.predicted() if Prediction(point, {}).key not in done]
    left.sort(key=_columns)
    groups = itertools.groupby(left, key=_columns)
    return [Task(predict, (list(points),)) for _, points in groups]


def _columns(point: Point) -> tuple[int, int]:
    return (point.row_sparsity, point.n_features)
