"""Sums on a device: what planted faults change, with tensors of the processor."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hushcov.engines import device
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.compact import ToIntegers
from hushcov.kernel.sums.bounded import bounded_sums, fourth_sums_of
from hushcov.kernel.sums.counts import cell_counts, edge_counts, log2_histogram, signed_octaves
from hushcov.kernel.sums.products import N_NORM_BINS
from hushcov.kernel.sums.rows import MISSING, ROOT_HALF, About
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
    grid = torch.ones(2, dtype=torch.float64), 8.0
    block = torch.tensor([[0.0, 1.0], [1.0, 1.0], [9.0, -9.0], [0.4, 0.0]], dtype=torch.float64)
    for n_signs in (0, 2):
        found = device.count_norms(block, grid, np.array([0.0, 1.0, 127.0, 128.0, 500.0]), n_signs)
        assert found.tolist() == [*[3, 1][:n_signs], 1, 1, 1, 1, 0, 0]


def test_sums_of_fourth_powers_and_bounded_rows():
    assert device.count_rows(torch.ones((5, 2))).tolist() == [5]
    grid = FeatureGrid(np.ones(2), 4.0, 60)
    both(HOSTILE, lambda r: r.map_sum(fourth_sums_of(r, grid, 20, 2**12)))
    both(HOSTILE, lambda r: bounded_sums(r, grid, 40))


def test_products_of_signs_are_those_of_a_loop():
    block = torch.tensor(np.random.default_rng(0).integers(-1, 2, (37, 41)) * 0.5)
    signs = np.sign(block.numpy()).astype(int)
    for start, stop in ((0, 41), (3, 4), (30, 41), (1, 40)):
        found = device.add_panel(block, start, stop)
        assert found[0].tolist() == signs[:, start:].sum(axis=0).tolist()
        expected = signs[:, start:stop].T @ signs[:, start:]
        assert found[1:].tolist() == expected.tolist()
    for rows, columns in (([0, 3, 40], [1, 3, 2]), ([], [])):
        pairs = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
        found = device.add_pairs(block, *pairs).tolist()
        expected = (signs[:, pairs[0]] * signs[:, pairs[1]]).sum(axis=0).tolist()
        assert found == expected + signs.sum(axis=0).tolist()


def test_sizes_of_integer_products_are_those_that_devices_take(monkeypatch):
    for size in range(200):
        expected = max(32, size if size % 8 == 0 else size + 8 - size % 8)
        assert device._tiled(size) == expected
    monkeypatch.setattr(device, "_LARGEST_INT32", 40)
    assert device.add_panel(torch.ones((40, 1)), 0, 1).tolist() == [[40], [40]]
    with pytest.raises(AssertionError):
        device.add_panel(torch.ones((41, 1)), 0, 1)


def test_scores_of_pairs_are_those_of_the_definition():
    random, n, d, unit, resolution = np.random.default_rng(1), 50, 6, 1024, 64
    signs = random.integers(-1, 2, (n, d))
    tilt = np.array([0, 1024, -1024, 300, -7, 512])
    most, products = unit + abs(tilt), signs.T @ signs
    found = device.score_pairs(
        torch.tensor(products[:4]),
        torch.tensor(signs.sum(axis=0)),
        tilt,
        most,
        unit,
        (n, resolution),
    )
    assert found.dtype == torch.int64
    for i in range(4):
        for j in range(d):
            terms = [int(unit * s[i] - tilt[i]) * int(unit * s[j] - tilt[j]) for s in signs]
            size = resolution * abs(sum(terms)) // int(most[i] * most[j])
            assert found[i, j].item() == math.copysign(size, sum(terms))
    above = device.pairs_above(torch.tensor(products), 100)
    assert above.tolist() == products[np.triu_indices(d, 1)].tolist()
    for largest, kind in ((2**31 - 1, torch.int32), (2**31, torch.int64)):
        assert device.pairs_above(torch.tensor([[0, largest]]), largest).dtype == kind
        assert device.pairs_above(torch.tensor([[0, largest]]), largest).tolist() == [largest]


def test_products_of_the_largest_integers_are_exact():
    width = 2**26 - 1  # two squares are below 2**53, three are not
    block = torch.full((7, 2), float(width), dtype=torch.float64)
    block[:, 1] -= torch.arange(7)
    grid = torch.ones(2, dtype=torch.float64), float(width)
    integers = [[int(value) for value in row] for row in block]
    expected = [[sum(row[i] * row[j] for row in integers) for j in range(2)] for i in range(2)]
    assert device.fill_rows(block, grid, math.inf).tolist() == expected


def test_norms_exactly_between_two_bins_are_in_the_upper_one():
    pairs = [(p / 64, (ROOT_HALF - (p / 64) ** 2) ** 0.5) for p in range(1, 50)]
    p, z = next((p, z) for p, z in pairs if p * p + z * z == ROOT_HALF)
    for pair, diagonal in ((p, z), (512 * p, 512 * z), (p, z - 2.0**-50), (3.0, 0.0)):
        one = torch.ones((1, 1), dtype=torch.float64)
        given = one, (one[0], 1.0), [0], [0], (pair, diagonal, 0.0), []
        mantissa, exponent = math.frexp(pair * pair + diagonal * diagonal)
        found = device.add_contributions(*given)
        assert len(found) == N_NORM_BINS
        assert found.nonzero().tolist() == [[2 * exponent + (mantissa >= ROOT_HALF)]]


def test_compact_rows_of_a_device_are_those_of_the_processor():
    table = np.concatenate([HOSTILE, [[np.nan, 1.0], [1.0, np.nan], [np.nan, np.nan]]])
    public = np.array([0.1, -2.0]), np.array([3.0, 60.0]), np.array([1000.0, 512.0])
    expected = ToIntegers(*public, gaps=True).of_rows(table)
    found = device.compact(torch.tensor(table), *public, whole=False)
    assert found.dtype == torch.int16
    np.testing.assert_array_equal(found.T, expected)
    for d in (1, 2):
        about = About(np.array([0.5, 0.1])[:d], np.array([2.0, 1.0])[:d], np.array([0.01, 3])[:d])
        rows = expected[:, :d] * about.unit - about.centre
        rows = np.clip(rows, -about.reach, about.reach)
        rows[expected[:, 0] == MISSING] = 0.0
        np.testing.assert_array_equal(about.of_tensor(found.T[:, :d]), rows)


# Which kernels of a device are used: those of Triton where they are there and work.


def test_kernels_that_read_once_are_used_where_they_work(monkeypatch):
    rows = torch.tensor(X)
    integers = (rows * 100).to(torch.int16)
    names = ("count_signed_octaves", "count_cells", "sum_rows", "CompactRows", "compact")
    for works in (True, False):
        fused = SimpleNamespace(**{name: lambda *_, n=name: n for name in names})
        fused.works = lambda name, w=works: w and name == "cpu"
        monkeypatch.setattr(device, "fused", fused)
        for name in names[:3]:
            assert device.kernel_for(name, SimpleNamespace()) is getattr(fused, name)
            for block, counted in ((rows, True), (integers, False)):
                there = fused if works and counted and name != "sum_rows" else device
                assert device.kernel_for(name, block) is getattr(there, name)
        for whole in (True, False):
            found = device.compact(rows, np.zeros(3), np.ones(3), np.ones(3), whole=whole)
            assert (found == "compact") is (works and whole)
        about = About(np.zeros(3), np.ones(3), np.ones(3))
        for kernels in (["sum_rows"], ["sum_rows", "sum_signs"], ["sum_signs"]):
            own = [SimpleNamespace(kernel=SimpleNamespace(__name__=each)) for each in kernels]
            sums = SimpleNamespace(about=about, sums=own, of_tensor=lambda block: block)
            assert (device.sums_of(sums, integers) is "CompactRows") == (  # noqa: F632
                works and kernels == ["sum_rows"]
            )
    monkeypatch.setattr(device, "fused", None)
    assert device.kernel_for("count_cells", rows) is device.count_cells
    assert device.to_host(rows).tolist() == X.tolist()


def test_a_device_has_room_for_a_copy_and_blocks_beside_it(monkeypatch):
    assert not device.has_room("cpu", 1)
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "memory_reserved", lambda name: 1000)
    monkeypatch.setattr(cuda, "memory_allocated", lambda name: 900)
    monkeypatch.setattr(cuda, "mem_get_info", lambda name: (2**32 + 50, 2**40))
    assert device.has_room("cuda", 150)
    assert not device.has_room("cuda", 151)


def test_no_more_rows_are_added_up_in_doubles_than_are_exact(monkeypatch):
    seen, products = [], device._products
    monkeypatch.setattr(device, "EXACT_ROWS", 5)
    monkeypatch.setattr(
        device, "_products", lambda y, *given: seen.append(len(y)) or products(y, *given)
    )
    one, none = torch.ones((12, 1), dtype=torch.float64), np.zeros(0, dtype=np.int64)
    given = (one[0], 1.0), none, none, (1, 2, 0), (4, 8, 6, 3)
    found = device.add_contributions(one, *given)
    assert seen == [5, 5, 2]
    assert found.tolist() == [12 * 2, 12 * 8, 12 * 2]
