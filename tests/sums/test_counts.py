"""Counts by octave, by sign and octave, by cell, and by norm: exact at every edge, one a record."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exact_sums import norm_histogram
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.sums.counts import (
    LARGEST_EXPONENT,
    N_BINS,
    SMALLEST_EXPONENT,
    cell_counts,
    log2_histogram,
    signed_octaves,
)
from hushcov.tables.sources import ArrayRecords, open_records

LARGEST = np.finfo(np.float64).max
TINY = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0), 1e-300, -1e-300]
HOSTILE = [*TINY, 2.0**-64, -(2.0**-64), 0.25, -0.75, 1.0, 2.0**40, 2.0**63, 2.0**64]
numbers = st.sampled_from([*HOSTILE, LARGEST, -LARGEST]) | st.floats(-9, 9)
numbers |= st.floats(-LARGEST, LARGEST)
tables = st.tuples(st.integers(1, 7), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=numbers)
)


def grid_for(d, radius=4.0, half_width=1000):
    return FeatureGrid(np.linspace(0.5, 2.0, d), radius, half_width)


# Counts of records of d features, and of how many rows one record is counted in.
COUNTS = {
    "octaves": lambda r, d: log2_histogram(r),
    "signed octaves": lambda r, d: signed_octaves(
        r, np.full(d, 0.5), np.full(d, 0.25), np.arange(d)
    ),
    "cells": lambda r, d: cell_counts(
        r, np.arange(d), np.zeros(d), np.full(d, 0.5), np.full(d, -10), 20
    ),
    "norms": lambda r, d: norm_histogram(r, grid_for(d), (0, 10**3, 10**6))[None],
}


@pytest.mark.parametrize("name", COUNTS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), X=tables, missing=st.booleans())
def test_replacing_a_record_moves_each_row_by_one_count(name, data, X, missing):
    d, count = X.shape[1], COUNTS[name]
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, d, elements=numbers))
    if missing and name in ("signed octaves", "cells"):  # others count incomplete ones as zeros
        neighbour[row, 0] = np.nan
    before, after = (
        count(CompleteRecords(open_records(table).with_gaps()), d) for table in (X, neighbour)
    )
    assert (np.abs(after - before).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("name", COUNTS)
def test_the_sensitivity_is_attained(name):
    rows = np.ones((3, 4))
    neighbour = rows.copy()
    neighbour[1] = -5.0
    change = COUNTS[name](ArrayRecords(neighbour), 4) - COUNTS[name](ArrayRecords(rows), 4)
    assert np.sum(change**2) == 2 * len(change)


# Octaves.


def bins_of(values):
    """The bin of each value, given as features of one record."""
    counts = log2_histogram(ArrayRecords(np.array([values], dtype=np.float64)))
    assert (counts.sum(axis=1) == 1).all()
    return counts.argmax(axis=1).tolist()


@given(X=tables)
def test_octaves_equal_fractions(X):
    edges = [Fraction(2) ** e for e in range(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1)]
    expected = np.zeros((X.shape[1], N_BINS), dtype=np.int64)
    for record in X.tolist():
        for i, x in enumerate(record):
            expected[i, sum(abs(Fraction(x)) >= edge for edge in edges)] += 1
    np.testing.assert_array_equal(log2_histogram(ArrayRecords(X)), expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_octaves_at_and_beside_every_edge(sign):
    edges = np.ldexp(1.0, np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1))
    below, above = np.nextafter(edges, 0), np.nextafter(edges, np.inf)
    assert bins_of(sign * below) == list(range(len(edges)))
    assert bins_of(sign * edges) == bins_of(sign * above) == list(range(1, len(edges) + 1))
    assert edges[0] == 2.0**-64  # bin k is from 2^(k - 65) on
    assert bins_of(TINY) == [0] * len(TINY)
    assert bins_of([2.0**64, 1e300, -1e300, LARGEST]) == [N_BINS - 1] * 4


# Signs and octaves about a centre.

NOTHING_BIN = 256


def signed_bin(y, nothing):
    """The bin of a difference, by comparisons of fractions."""
    if abs(y) <= nothing or abs(y) < 2.0**-64:
        return NOTHING_BIN
    if math.isinf(y):
        k = 63
    else:
        k = sum(abs(Fraction(y)) >= Fraction(2) ** e for e in range(-63, 64)) - 64
    return k + 64 + (128 if y > 0 else 0)


def signed_bins_of(values, centre=0.0, nothing=0.0):
    m = len(values)
    records = ArrayRecords(np.array([values], dtype=np.float64))
    found = signed_octaves(records, np.full(m, centre), np.full(m, nothing), np.arange(m))
    assert (found.sum(axis=1) == 1).all()
    return found.argmax(axis=1).tolist()


@settings(deadline=None)  # the first call compiles
@given(data=st.data(), X=tables)
def test_signed_octaves_equal_fractions(data, X):
    columns = data.draw(st.lists(st.integers(0, X.shape[1] - 1), max_size=5))
    m = len(columns)
    centre = data.draw(hnp.arrays(np.float64, m, elements=numbers))
    reaches = st.sampled_from([0.0, 1.0, np.inf]) | st.floats(0, 1e9)
    nothing = data.draw(hnp.arrays(np.float64, m, elements=reaches))
    expected = np.zeros((m, 257), dtype=np.int64)
    for row in X.tolist():
        for i, column in enumerate(columns):
            expected[i, signed_bin(row[column] - float(centre[i]), nothing[i])] += 1
    index = np.array(columns, dtype=np.int64)
    for records in (ArrayRecords(X), open_records(torch.from_numpy(X), block_rows=2)):
        found = signed_octaves(records, centre, nothing, index)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("side", [0, 128])
def test_signed_octaves_at_and_beside_every_edge(side):
    sign = 1.0 if side else -1.0
    edges = np.ldexp(1.0, np.arange(-64, 64))
    octaves = list(range(side, side + 128))
    assert signed_bins_of(sign * edges) == octaves
    assert signed_bins_of(sign * np.nextafter(edges, np.inf)) == octaves
    assert signed_bins_of(sign * np.nextafter(edges, 0)) == [NOTHING_BIN, *octaves[:-1]]
    assert signed_bins_of(sign * np.array([2.0**64, 1e300, LARGEST])) == [octaves[-1]] * 3
    assert signed_bins_of(TINY) == [NOTHING_BIN] * len(TINY)


def test_signed_octaves_about_centres_far_away_and_beyond_what_is_nothing():
    assert signed_bins_of([-LARGEST], centre=LARGEST) == [127]
    assert signed_bins_of([LARGEST], centre=-LARGEST) == [255]
    assert signed_bins_of([LARGEST], centre=-LARGEST, nothing=np.inf) == [NOTHING_BIN]
    beyond = np.nextafter(3.0, 4.0)
    found = signed_bins_of([3.0, -3.0, 2.5, beyond, -beyond], nothing=3.0)
    assert found == [256, 256, 256, 193, 65]
    assert signed_bins_of([10.0, 13.0, 6.5], centre=10.0, nothing=3.0) == [256, 256, 65]
    assert signed_bins_of([1e9, 1e9 + 1, 1e9 - 3], centre=1e9) == [256, 192, 65]


# Cells of a grid.

widths = st.sampled_from([5e-324, 0.25, 1.0, 2.0**-20, LARGEST]) | st.floats(1e-3, 1e3)
firsts = st.integers(-9, 9) | st.sampled_from([2**40, -(2**40), 2**52, -(2**52)])


def literal_cells(X, columns, starts, widths, firsts, n_cells):
    """The formula, by NumPy; of cells far outside it needs not tell which."""
    expected = np.zeros((len(columns), n_cells), dtype=np.int64)
    for i, column in enumerate(columns):
        with np.errstate(over="ignore"):
            cells = np.floor((X[:, column] - starts[i]) / widths[i])
        for cell in [int(cell) - int(firsts[i]) for cell in cells if np.isfinite(cell)]:
            if 0 <= cell < n_cells:
                expected[i, cell] += 1
    return expected


@settings(deadline=None, max_examples=200)  # the first call compiles
@given(data=st.data(), X=tables, n_cells=st.integers(1, 12))
def test_cells_equal_the_formula(data, X, n_cells):
    drawn = data.draw(st.lists(st.integers(0, X.shape[1] - 1), max_size=5))
    columns = np.array(drawn, dtype=np.int64)
    kinds = ((np.float64, numbers), (np.float64, widths), (np.int64, firsts))
    grid = [data.draw(hnp.arrays(dtype, len(columns), elements=each)) for dtype, each in kinds]
    expected = literal_cells(X, columns, *grid, n_cells)
    for records in (ArrayRecords(X), open_records(torch.from_numpy(X), block_rows=2)):
        found = cell_counts(records, columns, *grid, n_cells)
        assert found.dtype == np.int64
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def cells_of(values, start, width, first, n_cells):
    """The cell of each value, None for one that counts nowhere."""
    m = len(values)
    grid = np.full(m, start), np.full(m, width), np.full(m, first)
    found = cell_counts(ArrayRecords(np.array([values])), np.arange(m), *grid, n_cells)
    assert (found.sum(axis=1) <= 1).all()
    return [int(row.argmax()) if row.any() else None for row in found]


def test_cells_at_edges_zeros_far_away_and_where_differences_overflow():
    below = [np.nextafter(x, -1.0) for x in (1.0, 1.5, 2.0, 3.0)]
    assert cells_of([1.0, 1.5, 2.0, 3.0], 1.0, 0.5, 0, 4) == [0, 1, 2, None]
    assert cells_of(below, 1.0, 0.5, 0, 4) == [None, 0, 1, 3]
    assert cells_of(below, 1.0, 0.5, -1, 4) == [0, 1, 2, None]
    assert cells_of([0.0, -0.0, 5e-324, -5e-324], 0.0, 1.0, -1, 3) == [1, 1, 1, 0]
    first = 2**40  # as of a timestamp in cells of a second
    values = [float(first), first + 0.5, first + 7.0, first - 0.5, first + 8.0, LARGEST, -LARGEST]
    assert cells_of(values, 0.0, 1.0, first, 8) == [0, 0, 7, None, None, None, None]
    values = [-float(first), 0.5 - first, 7.75 - first, -0.25 - first]
    assert cells_of(values, 0.0, 1.0, -first, 8) == [0, 0, 7, None]
    assert cells_of([LARGEST, -LARGEST], -LARGEST, LARGEST, 0, 9) == [None, 0]
    assert cells_of([LARGEST, -LARGEST], LARGEST, 1e300, -9, 20) == [9, None]


# Norms.


def norms_of(X, grid, edges):
    return norm_histogram(open_records(X), grid, edges).tolist()


@settings(deadline=None, max_examples=60)
@given(
    X=tables,
    edges=st.lists(st.integers(0, 10**9), max_size=6, unique=True).map(lambda e: tuple(sorted(e))),
    half_width=st.integers(1, 2**20),
)
def test_norms_equal_python_integers(X, edges, half_width):
    grid = grid_for(X.shape[1], half_width=half_width)
    expected = [0] * (len(edges) + 1)
    for record in X.tolist():
        scaled = [float(x) * float(m) for x, m in zip(record, grid.multipliers, strict=True)]
        square = sum(round(min(max(x, -half_width), half_width)) ** 2 for x in scaled)
        expected[sum(edge < square for edge in edges)] += 1
    assert norms_of(X, grid, edges) == expected


def test_norms_at_edges_and_up_to_the_largest_squares():
    """An edge belongs to the bin below; neighbouring integers near 2^53 are told apart."""
    grid = FeatureGrid(np.ones(2), 10.0, 10)
    X = np.array([[3.0, 4.0], [5.0, 0.0], [5.0, 1.0], [0.0, 0.0], [1e300, -1e300]])
    assert norms_of(X, grid, (0, 25, 199)) == [1, 2, 1, 1]
    assert norms_of(X, grid, (24, 200)) == [1, 4, 0]
    assert norms_of(X, grid, ()) == [5]
    half_width = 2**20
    grid = FeatureGrid(np.ones(8191), 1.0, half_width)
    X = np.ones((2, 8191))
    X[1, 0] = 1 / half_width  # a coordinate of 1
    full = 8191 * half_width**2
    less = full - half_width**2 + 1
    assert full < 2**53
    assert norms_of(X, grid, (less - 1, less, full - 1)) == [0, 1, 0, 1]
    assert norms_of(X, grid, (full,)) == [2, 0]


# Refusals.

ABOUT = {"centre": np.zeros(3), "dead_zone": np.zeros(3), "columns": np.arange(3)}
CELLS = {"columns": np.arange(3), "starts": np.zeros(3), "widths": np.ones(3)}
CELLS |= {"firsts": np.zeros(3), "n_cells": 4}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("centre", [np.zeros(2), np.array([0, np.inf, 0])]),
        ("dead_zone", [np.array([0, -1, 0]), np.array([0, np.nan, 0])]),
        ("columns", [np.array([0, 1, 5]), np.array([0, 1, -1]), np.array([0.0, 1.0, 2.0])]),
        ("columns", [np.zeros((3, 1), dtype=int)]),
        ("starts", [np.zeros(2), np.full(3, np.nan)]),
        ("widths", [np.array([1.0, each, 1.0]) for each in (0.0, -1.0, np.inf)]),
        ("firsts", [np.array([0, 0.5, 1]), np.array([0, 0, 2**53])]),
        ("n_cells", [0, 2.5]),
        ("squared_edges", [(3, 3), (4, 1), (-1, 5), (2**53,)]),
    ],
)
def test_bad_arguments_are_refused(name, values):
    records, grid = ArrayRecords(np.ones((4, 5))), {"grid": grid_for(5), "squared_edges": (1,)}
    counts = ((signed_octaves, ABOUT), (cell_counts, CELLS), (norm_histogram, grid))
    for value in values:
        for count, arguments in counts:
            if name in arguments:
                with pytest.raises(ParameterError, match=f"{name} must"):
                    count(records, **arguments | {name: value})


def test_norms_that_are_not_exact_are_refused():
    with pytest.raises(CapacityError, match="half_width"):
        norms_of(np.ones((1, 2**13)), FeatureGrid(np.ones(2**13), 1.0, 2**20), (1,))
