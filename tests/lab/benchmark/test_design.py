"""Presets: what they measure, and how much of it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from hushcov.lab.benchmark.cells import AXES, PRESETS, SizeLadder
from hushcov.lab.benchmark.work import Benchmark, measure, measure_cost, missing_work, predict
from hushcov.simulate import MODELS

from .settings import CHEAP, TINY, finished

_GIBIBYTE = 2**30 / 8


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_are_consistent(preset):
    for model in preset.models:
        for axis in AXES:
            points = preset.sweep(axis, model)
            assert all(point.model == model for point in points)
            others = {
                tuple(getattr(point, name) for name in AXES if name != axis) for point in points
            }
            assert len(others) == 1
            assert getattr(preset.base, axis) in [getattr(point, axis) for point in points]
    assert preset.base.model == preset.models[0]
    measured = preset.measured()
    assert measured[preset.base] == preset.seeds
    assert all(point.row_sparsity <= point.n_features for point in measured)
    assert set(preset.predicted()) >= {p for k in preset.grid_sparsities for p in preset.grid(k)}
    works = [point.work for point in measured]
    assert works == sorted(works, reverse=True)
    json.dumps(asdict(preset))


def test_quick_is_small_and_full_is_not():
    quick, full = (PRESETS[name].measured() for name in ("quick", "full"))
    assert max(point.n_features for point in quick) <= 200
    assert max(quick.values()) <= 2
    assert max(point.n_features for point in full) == 1_000
    assert max(point.row_sparsity for point in full) == 20
    assert max(point.n_records for point in full) == 10**6
    assert {point.epsilon for point in full} >= {0.1, 4.0}
    # Drawing records takes twice their memory, in each of 14 workers.
    assert all(p.n_records * p.n_features < 2.5 * _GIBIBYTE for p in full)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_families_are_measured_at_the_base(preset):
    assert len(preset.families) >= 9
    assert not set(preset.families) & set(MODELS)
    points = [preset.family(name) for name in preset.families]
    assert {(p.n_records, p.n_features) for p in points} == {
        (preset.base.n_records, preset.base.n_features)
    }
    assert {preset.measured()[point] for point in points} == {preset.grid_seeds}


def test_grid_leaves_out_what_is_too_large():
    sizes = [(point.n_features, point.n_records) for point in TINY.grid(2)]
    assert sizes == [(4, 100), (4, 400), (8, 100)]


def test_ladders_have_equal_ratios():
    assert SizeLadder(10, 1_000, 5).values() == (10, 32, 100, 316, 1_000)


def test_points_speak():
    assert str(TINY.base) == "random, n = 400, d = 6, k = 2, epsilon = 1"
    assert TINY.base.size == "n = 400, d = 6"


def test_everything_is_left_at_first_and_nothing_at_the_end():
    benchmark = Benchmark(TINY, CHEAP)
    work = missing_work(benchmark, [])
    keys = benchmark.cell_keys()
    assert len(set(keys)) == len(keys) == work.n_cells
    assert {task.function for task in work.shared} == {measure, predict}
    assert [task.arguments for task in work.alone] == [(TINY.base, name) for name in CHEAP]
    assert all(task.function is measure_cost for task in work.alone)
    done = finished(CHEAP)
    left = missing_work(benchmark, done.cells)
    assert (left.n_cells, left.shared, left.alone) == (0, (), ())


def test_only_what_is_missing_is_done():
    benchmark = Benchmark(TINY, CHEAP)
    cells = finished(CHEAP).cells
    gap = next(cell for cell in cells if cell.key[0] == "fit" and cell.point == TINY.base)
    left = missing_work(benchmark, [cell for cell in cells if cell is not gap])
    assert (left.n_cells, left.alone) == (1, ())
    (task,) = left.shared
    assert task.arguments == (TINY.base, [(gap.seed, (gap.contender,))])


def test_heavy_points_are_split_by_seed():
    benchmark = Benchmark(PRESETS["full"], CHEAP)
    tasks = [task for task in missing_work(benchmark, []).shared if task.function is measure]
    seeds = {}
    for task in tasks:
        point, wanted = task.arguments
        seeds.setdefault(point, []).append(len(wanted))
    assert seeds[PRESETS["full"].base] == [5]
    heaviest = tasks[0].arguments[0]
    assert seeds[heaviest] == [1] * PRESETS["full"].measured()[heaviest]
