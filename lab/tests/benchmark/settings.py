"""A benchmark of a few seconds, and one that is finished without measuring anything."""

from __future__ import annotations

import math

from hushcov.fit import mechanisms
from hushcov_lab.benchmark.cells import Cell, Cost, Fit, Point, PredictedErrors, Preset, SizeLadder
from hushcov_lab.benchmark.contenders import CONTENDERS
from hushcov_lab.benchmark.results import Results
from hushcov_lab.benchmark.work import Benchmark

TINY = Preset(
    name="tiny",
    base=Point("random", 400, 6, 2, 1.0),
    models=("random", "block"),
    n_records=(100, 400),
    n_features=(4, 6),
    row_sparsity=(2, 3),
    epsilon=(1.0, 2.0),
    seeds=2,
    grid_features=(4, 8),
    grid_records=(100, 400),
    grid_sparsities=(2,),
    grid_seeds=1,
    grid_entries=1_600,
    map_features=SizeLadder(4, 8, 2),
    map_records=SizeLadder(100, 400, 2),
)
#: Contenders that take no time.
CHEAP = ("gaussian", "empirical", "zero")
_LIMITED = "eigen-sampling"


def finished(contenders: tuple[str, ...] = tuple(CONTENDERS), preset: Preset = TINY) -> Results:
    """Results made up: errors rise with the place in the registry and fall with the records.

    The pure contender is skipped above 4 features.
    """
    benchmark = Benchmark(preset, contenders)
    return Results(benchmark, [_made_up(key) for key in benchmark.cell_keys()])


def made_up_error(point: Point, contender: str, seed: int = 0) -> float:
    """What `finished` says was measured."""
    if contender == "zero":
        return 1.0
    place = list(CONTENDERS).index(contender)
    return (1 + place) * (1 + 0.2 * seed) * math.sqrt(point.n_features / point.n_records)


def _made_up(key: tuple[object, ...]) -> Cell:
    kind, point, *rest = key
    assert isinstance(point, Point)
    if kind == "prediction":
        scale = math.sqrt(point.n_features / point.n_records)
        return PredictedErrors(
            point, {name: (2 + i) * scale for i, name in enumerate(mechanisms())}
        )
    name = str(rest[-1])
    skipped = "too many features." if name == _LIMITED and point.n_features > 4 else None
    if kind == "cost":
        return Cost(point, name, skipped=skipped) if skipped else Cost(point, name, 1.5, 20.0)
    seed = int(str(rest[0]))
    if skipped:
        return Fit(point, seed, name, skipped=skipped)
    return Fit(point, seed, name, made_up_error(point, name, seed), 0.9, 0.8, 0.1)
