"""Products of integers of two bytes: the same integers as in int64, and no sum overflows."""

from __future__ import annotations

from types import FunctionType

import numba
import numpy as np
import pytest

from hushcov.engines import int16
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.sums import gram
from hushcov.kernel.sums import rows as row_sums
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments, unit_bounded_gram
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of

needs_vectors = pytest.mark.skipif(
    not int16.vector_words(), reason="the processor has no such products"
)
WIDEST = gram.LARGEST_PACKED


def hostile(kind, n, d):
    rng = np.random.default_rng(n * 1000 + d)
    z = np.rint(rng.standard_normal((n, d)) * 5000).clip(-WIDEST, WIDEST)
    match kind:
        case "largest":
            z[:] = WIDEST
        case "signs":
            z = WIDEST * rng.choice([-1.0, 1.0], (n, d))
        case "one column":
            z = np.rint(z / 100)
            z[:, -1] = -WIDEST
        case "zero columns":
            z[:, ::2] = 0.0
        case "zero":
            z[:] = 0.0
        case "small":
            z = rng.integers(-3, 4, (n, d)).astype(np.float64)
    return z


def packed(z):
    words, ends = int16.empty_words(-(-len(z) // int16.STRIP), z.shape[1])
    words[:, : z.shape[1] // 32] = -1  # what was there before
    int16.pack_rows(z, words, ends)
    return words, ends


def product(words, ends, d, add=int16.add_products):
    panels = int16.empty_gram(d)
    add(words, ends, panels)
    return int16.whole(panels, d)


def plain(z):
    return z.astype(np.int64).T @ z.astype(np.int64)


@needs_vectors
@pytest.mark.parametrize("kind", ["largest", "one column", "ordinary"])
def test_a_chunk_that_is_too_long_is_noticed(kind):
    z = hostile(kind, 256, 33)
    words, ends = packed(z)
    ends[0, 0], ends[0, 1:] = ends.max(), 0
    assert np.any(product(words, ends, 33) != plain(z))


@needs_vectors
def test_vectors_of_half_the_size_give_the_same(monkeypatch):
    monkeypatch.setattr(int16, "vector_words", lambda: 8)
    tile = numba.extending.intrinsic(int16._add_tile.__wrapped__)
    python = int16._add_panel.__wrapped__
    add_panel = numba.njit(FunctionType(python.__code__, vars(int16) | {"_add_tile": tile}))

    def add(words, ends, panels):
        for panel in range(len(panels)):
            add_panel(words, ends, panel, panels)

    z = hostile("ordinary", 300, 65)
    np.testing.assert_array_equal(product(*packed(z), 65, add), plain(z))
    assert "ymm" in next(iter(add_panel.inspect_asm().values()))


ROWS = np.random.default_rng(1).standard_normal((1501, 40)) * 2
ROWS[:, 3], ROWS[700:900, 5], ROWS[5], ROWS[6] = 0.0, 1e300, 1e308, -0.0
GRID = FeatureGrid(np.linspace(0.5, 2, 40), 6.0, WIDEST)
SUMS = {
    "rows": lambda r: row_bounded_gram(r, GRID, None),
    "bounded": lambda r: row_bounded_gram(r, GRID, 60_000),
    "moments": lambda r: second_moments(r, IntegerGrid(4.0, 900)).gram,
    "units": lambda r: unit_bounded_gram(r, GRID, 10**9, 3),
}


@needs_vectors
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("block_rows", [7, 600, None])
def test_matrices_are_those_in_doubles(name, block_rows, monkeypatch):
    monkeypatch.setattr(row_sums, "_SMALLEST_PART", 1)
    monkeypatch.setattr(row_sums, "threads", lambda: 3)
    monkeypatch.setattr("hushcov._compiled.threads", lambda: 3)
    records = ArrayRecords(ROWS, block_rows=block_rows)
    if name == "units":
        records = units_of(np.arange(len(ROWS)) // 4, len(ROWS)).bounded(records, 3)
    found = SUMS[name](records)
    monkeypatch.setattr(int16.PackedSoFar, "__init__", gram.GramSoFar.__init__)
    for method in ("take", "total"):
        monkeypatch.setattr(int16.PackedSoFar, method, getattr(gram.GramSoFar, method))
    np.testing.assert_array_equal(found, SUMS[name](records))
    np.testing.assert_array_equal(found, found.T)
    assert found.flags.c_contiguous


@needs_vectors
def test_strips_of_many_chunks_are_summed_in_doubles(monkeypatch):
    seen, add = [], gram.GramSoFar.add
    monkeypatch.setattr(
        gram.GramSoFar, "add", lambda self, z: (seen.append(len(z)), add(self, z))[1]
    )
    X = np.ones((1000, 40))
    X[300:] = 1e-3
    X[:, 1] *= -1
    grid = FeatureGrid(np.ones(40), 1.0, WIDEST)
    expected = plain(np.rint(X * WIDEST))
    np.testing.assert_array_equal(row_bounded_gram(ArrayRecords(X), grid, None), expected)
    assert seen == [256]  # the second strip has fewer chunks
