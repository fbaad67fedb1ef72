"""Counts by octave, by sign and octave, by cell, and by norm: exact at every edge, one a record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exact_sums import norm_histogram
from hushcov.exceptions import ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums.counts import (
    LARGEST_EXPONENT,
    SMALLEST_EXPONENT,
    cell_counts,
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


# Octaves.

NOTHING_BIN = 256


def bins_of(values):
    """The bin of each value, given as features of one record."""
    d, zeros = len(values), np.zeros(len(values))
    records = ArrayRecords(np.array([values], dtype=np.float64))
    counts = signed_octaves(records, zeros, zeros, np.arange(d))
    assert (counts.sum(axis=1) == 1).all()
    return counts.argmax(axis=1).tolist()


@pytest.mark.parametrize("sign", [1, -1])
def test_octaves_at_and_beside_every_edge(sign):
    edges = np.ldexp(1.0, np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1))
    below, above = np.nextafter(edges, 0), np.nextafter(edges, np.inf)
    octaves = [128 * (sign > 0) + k for k in range(128)]
    assert bins_of(sign * below) == [NOTHING_BIN, *octaves]
    assert bins_of(sign * edges) == bins_of(sign * above) == [*octaves, octaves[-1]]
    assert edges[0] == 2.0**-64  # the first octave is from 2^-64 on
    assert bins_of(TINY) == [NOTHING_BIN] * len(TINY)
    assert bins_of([2.0**64, 1e300, -1e300, LARGEST]) == [255, 255, 127, 255]


# Signs and octaves about a centre.


def signed_bins_of(values, centre=0.0, dead_zone=0.0):
    m = len(values)
    records = ArrayRecords(np.array([values], dtype=np.float64))
    found = signed_octaves(records, np.full(m, centre), np.full(m, dead_zone), np.arange(m))
    assert (found.sum(axis=1) == 1).all()
    return found.argmax(axis=1).tolist()


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
    assert signed_bins_of([LARGEST], centre=-LARGEST, dead_zone=np.inf) == [NOTHING_BIN]
    beyond = np.nextafter(3.0, 4.0)
    found = signed_bins_of([3.0, -3.0, 2.5, beyond, -beyond], dead_zone=3.0)
    assert found == [256, 256, 256, 193, 65]
    assert signed_bins_of([10.0, 13.0, 6.5], centre=10.0, dead_zone=3.0) == [256, 256, 65]
    assert signed_bins_of([1e9, 1e9 + 1, 1e9 - 3], centre=1e9) == [256, 192, 65]


# Cells of a grid.

widths = st.sampled_from([5e-324, 0.25, 1.0, 2.0**-20, LARGEST]) | st.floats(1e-3, 1e3)
firsts = st.integers(-9, 9) | st.sampled_from([2**40, -(2**40), 2**52, -(2**52)])


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
