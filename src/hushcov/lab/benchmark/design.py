"""What is measured: sweeps around a base point, and a grid of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

DELTA = 1e-6
#: Axes of the sweeps, by the field of a point that varies.
AXES = ("n_records", "n_features", "row_sparsity", "epsilon")


@dataclass(frozen=True, order=True)
class Point:
    """A size, a budget and a covariance model."""

    model: str
    n_records: int
    n_features: int
    row_sparsity: int
    epsilon: float

    def __str__(self) -> str:
        return (
            f"{self.model}, n = {self.n_records:,}, d = {self.n_features:,}, "
            f"k = {self.row_sparsity}, epsilon = {self.epsilon:g}"
        )

    @property
    def size(self) -> str:
        """The size alone, short enough to stand beside a progress bar."""
        return f"n = {self.n_records:,}, d = {self.n_features:,}"

    @property
    def work(self) -> float:
        """Multiplications of one Gram matrix, by which tasks are ordered and split."""
        return float(self.n_records) * self.n_features**2


@dataclass(frozen=True)
class Ladder:
    """Numbers from `first` to `last` in equal ratios, rounded to whole ones."""

    first: int
    last: int
    steps: int

    def values(self) -> tuple[int, ...]:
        """Return the numbers, smallest first."""
        ratio = math.log(self.last / self.first) / (self.steps - 1)
        return tuple(round(self.first * math.exp(ratio * step)) for step in range(self.steps))


@dataclass(frozen=True)
class Preset:
    """All that is measured and predicted.

    The sweeps vary one field of `base` at a time, on every model of `models`. The grid of sizes is
    for the model of `base` alone, at each of `grid_sparsities`; `map_features` and `map_records`
    are the sizes of the predicted map.
    """

    name: str
    base: Point
    models: tuple[str, ...]
    n_records: tuple[int, ...]
    n_features: tuple[int, ...]
    row_sparsity: tuple[int, ...]
    epsilon: tuple[float, ...]
    seeds: int
    grid_features: tuple[int, ...]
    grid_records: tuple[int, ...]
    grid_sparsities: tuple[int, ...]
    grid_seeds: int
    grid_entries: int  # records times features, at most: the size of the data in memory
    map_features: Ladder
    map_records: Ladder

    def sweep(self, axis: str, model: str) -> list[Point]:
        """Points along one axis, through the base point."""
        start = replace(self.base, model=model)
        return [replace(start, **{axis: value}) for value in getattr(self, axis)]

    def grid(self, row_sparsity: int) -> list[Point]:
        """Points of the grid of sizes, without those whose data would be too large."""
        start = replace(self.base, row_sparsity=row_sparsity)
        return [
            replace(start, n_records=n, n_features=d)
            for d in self.grid_features
            for n in self.grid_records
            if n * d <= self.grid_entries
        ]

    def map(self, row_sparsity: int) -> list[Point]:
        """Points of the predicted map."""
        start = replace(self.base, row_sparsity=row_sparsity)
        return [
            replace(start, n_records=n, n_features=d)
            for d in self.map_features.values()
            for n in self.map_records.values()
        ]

    def measured(self) -> dict[Point, int]:
        """Every point that is measured, with its number of seeds; those of most work first."""
        seeds = dict.fromkeys(self._grids(), self.grid_seeds)
        seeds |= dict.fromkeys(self._sweeps(), self.seeds)
        return dict(sorted(seeds.items(), key=lambda item: (-item[0].work, item[0])))

    def predicted(self) -> list[Point]:
        """Every point at which mechanisms are predicted."""
        maps = [point for k in self.grid_sparsities for point in self.map(k)]
        return list(dict.fromkeys([*self._grids(), *maps]))

    def _sweeps(self) -> Iterator[Point]:
        for model in self.models:
            for axis in AXES:
                yield from self.sweep(axis, model)

    def _grids(self) -> Iterator[Point]:
        for k in self.grid_sparsities:
            yield from self.grid(k)


PRESETS = {
    "quick": Preset(
        name="quick",
        base=Point("random", 30_000, 100, 5, 1.0),
        models=("random",),
        n_records=(3_000, 10_000, 30_000, 100_000),
        n_features=(25, 50, 100, 200),
        row_sparsity=(2, 5, 20),
        epsilon=(0.25, 1.0, 4.0),
        seeds=2,
        grid_features=(50, 200),
        grid_records=(3_000, 30_000),
        grid_sparsities=(5, 20),
        grid_seeds=1,
        grid_entries=20_000_000,
        map_features=Ladder(25, 400, 5),
        map_records=Ladder(300, 100_000, 6),
    ),
    "full": Preset(
        name="full",
        base=Point("random", 100_000, 200, 5, 1.0),
        models=("random", "block", "banded"),
        n_records=(3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        n_features=(25, 50, 100, 200, 500, 1_000),
        row_sparsity=(2, 3, 5, 10, 20),
        epsilon=(0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
        seeds=5,
        grid_features=(50, 100, 200, 500, 1_000),
        grid_records=(3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        grid_sparsities=(5, 20),
        grid_seeds=3,
        grid_entries=300_000_000,
        map_features=Ladder(25, 2_000, 14),
        map_records=Ladder(1_000, 1_000_000, 19),
    ),
}
