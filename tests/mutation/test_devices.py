"""Sums on a device: what planted faults change, with tensors of the processor."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exact_sums import bounded_sums
from hushcov.engines import device
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.compact import to_integers
from hushcov.kernel.scores import PairScores
from hushcov.kernel.sums.bounded import fourth_sums_of, sum_rows
from hushcov.kernel.sums.counts import (
    cell_counts,
    count_cells,
    edge_counts,
    log2_histogram,
    norm_counts_of,
    signed_octaves,
    sum_signs,
)
from hushcov.kernel.sums.gram import add_gram
from hushcov.kernel.sums.rows import MISSING, Centring, RowSums, joined
from hushcov.kernel.sums.signs import candidate_sign_sums, sign_gram_and_sums
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


def test_every_octave_is_counted_in_its_bin():
    both(HOSTILE, log2_histogram)
    near = np.array([0.0, 4.0]), np.array([2.0**-40, 0.5]), np.array([1, 0])
    both(HOSTILE, lambda r: signed_octaves(r, np.zeros(2), np.zeros(2), np.arange(2)))
    both(HOSTILE, lambda r: signed_octaves(r, *near))
    both(HOSTILE, lambda r: signed_octaves(r, *(each[:0] for each in near)))


def test_counts_between_edges_of_cells_and_of_norms():
    table = np.arange(-20.0, 20.0).reshape(-1, 2) / 4
    for first in (-3, 0, 2):
        cells = np.array([1, 0]), [0.25, -1.0], [0.5, 0.75], [first, first - 1]
        for n_cells in (1, 3):
            both(table, lambda r, c=cells, n=n_cells: cell_counts(r, *c, n))
    edges = np.array([[-1.0, 0.0, 0.0, 2.0], [-8.0, -0.5, 0.25, 1e300]])
    both(HOSTILE, lambda r: edge_counts(r, np.array([0, 1]), edges))
    both(HOSTILE, lambda r: edge_counts(r, np.array([1]), edges[1:]))
    block = np.array([[0.0, 1.0], [1.0, 1.0], [9.0, -9.0], [0.4, 0.0]])
    grid = FeatureGrid(np.ones(2), 8.0, 8)
    for signs in (False, True):
        found = both(
            block,
            lambda r, s=signs: r.map_sum(norm_counts_of(r, grid, (0, 1, 127, 128, 500), signs=s)),
        )
        assert found.tolist() == [*[3, 1][: 2 * signs], 1, 1, 1, 1, 0, 0]


def test_sums_of_fourth_powers_and_bounded_rows():
    grid = FeatureGrid(np.ones(2), 4.0, 60)
    both(HOSTILE, lambda r: r.map_sum(fourth_sums_of(r, grid, 20, 2**12)))
    both(HOSTILE, lambda r: bounded_sums(r, grid, 40))


def test_products_of_signs_are_those_of_a_loop():
    X = np.random.default_rng(0).integers(-1, 2, (37, 41)) * 0.5
    records, signs = TensorRecords(torch.tensor(X)), np.sign(X).astype(int)
    for start, stop in ((0, 41), (3, 4), (30, 41), (1, 40)):
        found, sums = sign_gram_and_sums(records, start, stop)
        assert sums.tolist() == signs[:, start:].sum(axis=0).tolist()
        assert found.tolist() == (signs[:, start:stop].T @ signs[:, start:]).tolist()
    for rows, columns in (([0, 3, 40], [1, 3, 2]), ([], [])):
        pairs = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
        found, sums = candidate_sign_sums(records, *pairs)
        assert found.tolist() == (signs[:, pairs[0]] * signs[:, pairs[1]]).sum(axis=0).tolist()
        assert sums.tolist() == signs.sum(axis=0).tolist()


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
    assert not device.has_room("cpu", 1)
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "memory_reserved", lambda name: 1000)
    monkeypatch.setattr(cuda, "memory_allocated", lambda name: 900)
    monkeypatch.setattr(cuda, "mem_get_info", lambda name: (2**32 + 50, 2**40))
    assert device.has_room("cuda", 150)
    assert not device.has_room("cuda", 151)
