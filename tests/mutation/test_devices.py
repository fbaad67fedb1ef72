"""Sums on a device: what planted faults change, with tensors of the processor."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hushcov.engines import device
from hushcov.kernel.records.compact import to_integers
from hushcov.kernel.scores import PairScores
from hushcov.kernel.sums.bounded import sum_rows
from hushcov.kernel.sums.counts import (
    count_cells,
    sum_signs,
)
from hushcov.kernel.sums.gram import add_gram
from hushcov.kernel.sums.rows import MISSING, Centring, RowSums, joined
from hushcov.tables.sources import ArrayRecords, TensorRecords

X = np.random.default_rng(3).standard_normal((46, 3)).round(6)

# Sums on a device: the integers of the processor, and of literal loops.

POWERS = np.ldexp(1.0, np.arange(-1074, 1024))
HOSTILE = np.column_stack(
    [np.concatenate([POWERS, [0.0, -0.0, 3.0]]), np.concatenate([-POWERS[::-1], [1.5, -0.0, 0.0]])]
)


def both(table, sums):
    found, expected = sums(TensorRecords(torch.tensor(table))), sums(ArrayRecords(table))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    return expected


def test_sizes_of_integer_products_are_those_that_devices_take(monkeypatch):
    for size in range(200):
        expected = max(32, size if size % 8 == 0 else size + 8 - size % 8)
        assert device._tiled(size) == expected
    monkeypatch.setattr(device, "_LARGEST_INT32", 40)
    total = torch.zeros((2, 1), dtype=torch.int64)
    device._add_panel(torch.ones((40, 1)), 0, 1, total)
    assert total.tolist() == [[40], [40]]
    with pytest.raises(AssertionError):
        device._add_panel(torch.ones((41, 1)), 0, 1, total)


@pytest.mark.parametrize("tilt", [None, (0, 1024, -1024, 300, -7, 512)])
def test_scores_of_pairs_are_those_of_the_definition(tilt):
    random, n, d, unit = np.random.default_rng(1), 50, 6, 1024
    signs = random.integers(-1, 2, (n, d)).astype(np.float64)
    means, resolution = (0,) * d if tilt is None else tilt, 1 if tilt is None else 64
    expected = []
    for i, j in zip(*np.triu_indices(d, 1), strict=True):
        terms = [int(unit * s[i] - means[i]) * int(unit * s[j] - means[j]) for s in signs]
        size = resolution * abs(sum(terms)) // ((unit + abs(means[i])) * (unit + abs(means[j])))
        expected.append(math.copysign(size, sum(terms)))
    exact = PairScores(d, tilt).exact
    assert both(signs, lambda r: exact(r).astype(np.int64)).tolist() == expected
    above = np.arange(d * d).reshape(d, d)
    found = device.pairs_above(torch.tensor(above), 100)
    assert found.tolist() == above[np.triu_indices(d, 1)].tolist()
    for largest, kind in ((2**31 - 1, torch.int32), (2**31, torch.int64)):
        assert device.pairs_above(torch.tensor([[0, largest]]), largest).dtype == kind
        assert device.pairs_above(torch.tensor([[0, largest]]), largest).tolist() == [largest]


def test_products_of_the_largest_integers_are_exact():
    width = 2**26 - 1  # two squares are below 2**53, three are not
    block = torch.full((7, 2), float(width), dtype=torch.float64)
    block[:, 1] -= torch.arange(7)
    integers = [[int(value) for value in row] for row in block]
    expected = [[sum(row[i] * row[j] for row in integers) for j in range(2)] for i in range(2)]
    total = torch.zeros((2, 2), dtype=torch.int64)
    add_gram(block, (np.ones(2), float(width)), math.inf, total)
    assert total.tolist() == expected


def test_compact_rows_of_a_device_are_those_of_the_processor():
    table = np.concatenate([HOSTILE, [[np.nan, 1.0], [1.0, np.nan], [np.nan, np.nan]]])
    about = Centring(np.array([0.1, -2.0]), np.array([3.0, 60.0]))
    per_unit, expected = np.array([1000.0, 512.0]), np.empty(table.shape, np.int16)
    to_integers(table, about, per_unit, expected)
    assert (expected[-3:, 0] == MISSING).all()
    found = device.compact(torch.tensor(table), about, per_unit, whole=False)
    assert found.dtype == torch.int16
    np.testing.assert_array_equal(found.T, expected)
    for d in (1, 2):
        own = Centring(np.array([0.5, 0.1])[:d], np.array([2.0, 1.0])[:d], np.array([0.01, 3])[:d])
        rows = np.clip(expected[:, :d] * own.unit - own.centre, -own.reach, own.reach)
        rows[expected[:, 0] == MISSING] = 0.0
        np.testing.assert_array_equal(own.of(found.T[:, :d]), rows)
        np.testing.assert_array_equal(own.of(expected[:, :d]), rows)


# Which kernels of a device are used: those of Triton where they are there and work.


def test_kernels_that_read_once_are_used_where_they_work(monkeypatch):
    rows, compact = torch.tensor(X), Centring(np.zeros(3), np.ones(3), np.ones(3))
    integers, grid = (rows * 100).to(torch.int16), (np.ones(3), 4.0)
    names = ("count_cells", "sum_rows", "compact")
    bounded, signs = RowSums(sum_rows, (grid, 2.0), (3,)), RowSums(sum_signs, (), (3,))
    cells = np.arange(3), np.zeros(3), np.ones(3), np.zeros(3), 2
    counted = RowSums(count_cells, cells, (3, 2), centring=False)
    for works in (True, False):
        made = {name: lambda *_: torch.full((3,), 77) for name in names}
        fused = SimpleNamespace(CompactRows=lambda *_: None, **made)
        fused.works = lambda name, w=works: w and name == "cpu"
        monkeypatch.setattr(device, "fused", fused)
        for sums, block, read_once in (
            (counted, rows, True),
            (bounded, rows, False),
            (bounded.centred(compact), integers, True),
            (joined([bounded]).centred(compact), integers, True),
            (joined([bounded, signs]).centred(compact), integers, False),
        ):
            assert bool((sums(block) == 77).all()) == (works and read_once)
        for whole in (True, False):
            found = device.compact(rows, compact, np.ones(3), whole=whole)
            assert bool((found == 77).all()) == (works and whole)
    monkeypatch.setattr(device, "fused", None)
    assert device.to_host(counted(rows)).tolist() == counted(X).tolist()


def test_a_device_has_room_for_a_copy_and_blocks_beside_it(monkeypatch):
    assert not device.is_free("cpu", 1)
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "memory_reserved", lambda name: 1000)
    monkeypatch.setattr(cuda, "memory_allocated", lambda name: 900)
    monkeypatch.setattr(cuda, "mem_get_info", lambda name: (2**32 + 50, 2**40))
    assert device.is_free("cuda", 150)
    assert not device.is_free("cuda", 151)
