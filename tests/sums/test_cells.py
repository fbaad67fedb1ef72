"""Counts by cell of a grid: as the formula says, at most one for each record and column."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import ParameterError
from hushcov.sums.counts import cell_counts
from hushcov.sums.records import CompleteRecords
from hushcov.tables.sources import ArrayRecords, open_records

LARGEST = np.finfo(np.float64).max
HOSTILE = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 0.25, -0.75, 1.0, 2.0**40, LARGEST, -LARGEST]
numbers = st.sampled_from(HOSTILE) | st.floats(-9, 9) | st.floats(-LARGEST, LARGEST)
widths = st.sampled_from([5e-324, 0.25, 1.0, 2.0**-20, LARGEST]) | st.floats(1e-3, 1e3)
firsts = st.integers(-9, 9) | st.sampled_from([2**40, -(2**40), 2**52, -(2**52)])
tables = st.tuples(st.integers(1, 7), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=numbers)
)


def literal(X, columns, starts, widths, firsts, n_cells):
    """The formula, by NumPy; of cells far outside it needs not tell which."""
    expected = np.zeros((len(columns), n_cells), dtype=np.int64)
    for i, column in enumerate(columns):
        with np.errstate(over="ignore"):
            cells = np.floor((X[:, column] - starts[i]) / widths[i])
        near = [int(cell) - int(firsts[i]) for cell in cells if np.isfinite(cell)]
        for cell in near:
            if 0 <= cell < n_cells:
                expected[i, cell] += 1
    return expected


@settings(deadline=None, max_examples=200)  # the first call compiles
@given(data=st.data(), X=tables, n_cells=st.integers(1, 12))
def test_equals_the_formula(data, X, n_cells):
    columns = np.array(
        data.draw(st.lists(st.integers(0, X.shape[1] - 1), max_size=5)), dtype=np.int64
    )
    m = len(columns)
    grid = (
        data.draw(hnp.arrays(np.float64, m, elements=numbers)),
        data.draw(hnp.arrays(np.float64, m, elements=widths)),
        data.draw(hnp.arrays(np.int64, m, elements=firsts)),
    )
    expected = literal(X, columns, *grid, n_cells)
    for records in (ArrayRecords(X), open_records(torch.from_numpy(X), block_rows=2)):
        found = cell_counts(records, columns, *grid, n_cells)
        assert found.dtype == np.int64
        assert found.shape == (m, n_cells)
        np.testing.assert_array_equal(found, expected)


def cells_of(values, start, width, first, n_cells):
    """The cell of each value, None for one that counts nowhere."""
    m = len(values)
    found = cell_counts(
        ArrayRecords(np.array([values])),
        np.arange(m),
        np.full(m, start),
        np.full(m, width),
        np.full(m, first),
        n_cells,
    )
    assert (found.sum(axis=1) <= 1).all()
    return [int(row.argmax()) if row.any() else None for row in found]


def test_edges_belong_to_the_cell_above():
    below = [np.nextafter(x, -1.0) for x in (1.0, 1.5, 2.0, 3.0)]
    assert cells_of([1.0, 1.5, 2.0, 3.0], 1.0, 0.5, 0, 4) == [0, 1, 2, None]
    assert cells_of(below, 1.0, 0.5, 0, 4) == [None, 0, 1, 3]
    assert cells_of(below, 1.0, 0.5, -1, 4) == [0, 1, 2, None]


def test_zeros_of_both_signs_are_one_number():
    assert cells_of([0.0, -0.0, 5e-324, -5e-324], 0.0, 1.0, -1, 3) == [1, 1, 1, 0]


def test_cells_far_from_the_start():
    """A timestamp in cells of a second, counted from 2^40 cells on."""
    first = 2**40
    values = [float(first), first + 0.5, first + 7.0, first - 0.5, first + 8.0, LARGEST, -LARGEST]
    assert cells_of(values, 0.0, 1.0, first, 8) == [0, 0, 7, None, None, None, None]
    values = [-float(first), 0.5 - first, 7.75 - first, -0.25 - first]
    assert cells_of(values, 0.0, 1.0, -first, 8) == [0, 0, 7, None]


def test_a_difference_that_overflows_counts_nowhere():
    assert cells_of([LARGEST, -LARGEST], -LARGEST, LARGEST, 0, 9) == [None, 0]
    assert cells_of([LARGEST, -LARGEST], LARGEST, 1e300, -9, 20) == [9, None]


X = np.random.default_rng(0).normal(3.0, 2.0, (301, 5))
COLUMNS, N_CELLS = np.array([2, 0, 3]), 30
GRID = np.array([0.0, 3.3, -8.0]), np.array([0.25, 0.7, 2.0**-3]), np.array([-4, -15, 70])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), X=tables, missing=st.booleans())
def test_replacing_a_record_moves_each_row_by_one_count(data, X, missing):
    d = X.shape[1]
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, d, elements=numbers))
    if missing:
        neighbour[row, 0] = np.nan
    arguments = np.arange(d), np.zeros(d), np.full(d, 0.5), np.full(d, -10), 20
    before, after = (
        cell_counts(CompleteRecords(open_records(table, drop_nulls=True)), *arguments)
        for table in (X, neighbour)
    )
    change = after - before
    assert (np.abs(change).sum(axis=1) <= 2).all()
    assert np.sum(change**2) <= 2 * d


def test_the_sensitivity_is_attained():
    rows = np.ones((3, 4))
    neighbour = rows.copy()
    neighbour[1] = 5.0
    arguments = np.arange(4), np.zeros(4), np.ones(4), np.zeros(4), 8
    change = cell_counts(ArrayRecords(neighbour), *arguments) - cell_counts(
        ArrayRecords(rows), *arguments
    )
    assert np.sum(change**2) == 2 * 4


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"columns": np.array([0, 1, 5])}, "columns"),
        ({"starts": np.zeros(2)}, "starts"),
        ({"starts": np.full(3, np.nan)}, "starts"),
        ({"widths": np.array([1.0, 0.0, 1.0])}, "widths"),
        ({"widths": np.array([1.0, -1.0, 1.0])}, "widths"),
        ({"widths": np.array([1.0, np.inf, 1.0])}, "widths"),
        ({"firsts": np.array([0, 0.5, 1])}, "firsts"),
        ({"firsts": np.array([0, 0, 2**53])}, "firsts"),
        ({"n_cells": 0}, "n_cells"),
        ({"n_cells": 2.5}, "n_cells"),
    ],
)
def test_bad_arguments_are_refused(change, name):
    arguments = {
        "columns": np.arange(3),
        "starts": np.zeros(3),
        "widths": np.ones(3),
        "firsts": np.zeros(3),
        "n_cells": 4,
    }
    with pytest.raises(ParameterError, match=f"{name} must be"):
        cell_counts(ArrayRecords(X), **arguments | change)
