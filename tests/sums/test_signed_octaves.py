"""Counts by sign and octave about a centre: exact at every edge, at most one for each record."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import ParameterError
from hushcov.sums.counts import signed_octaves
from hushcov.sums.records import CompleteRecords
from hushcov.tables.sources import ArrayRecords, open_records

LARGEST = np.finfo(np.float64).max
NOTHING_BIN = 256
HOSTILE = [
    0.0,
    -0.0,
    5e-324,
    2.0**-1022,
    2.0**-64,
    -(2.0**-64),
    2.0**63,
    2.0**64,
    LARGEST,
    -LARGEST,
]
numbers = st.sampled_from(HOSTILE) | st.floats(-9, 9) | st.floats(-LARGEST, LARGEST)
tables = st.tuples(st.integers(1, 7), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=numbers)
)


def bin_in_fractions(y, nothing):
    """The bin of a difference, by comparisons of fractions."""
    if abs(y) <= nothing or abs(y) < 2.0**-64:
        return NOTHING_BIN
    k = (
        63
        if math.isinf(y)
        else sum(abs(Fraction(y)) >= Fraction(2) ** e for e in range(-63, 64)) - 64
    )
    return k + 64 + (128 if y > 0 else 0)


def counts_in_python(X, centre, nothing, columns):
    expected = np.zeros((len(columns), 257), dtype=np.int64)
    for row in X.tolist():
        for i, column in enumerate(columns):
            expected[i, bin_in_fractions(row[column] - float(centre[i]), nothing[i])] += 1
    return expected


def bins_of(values, centre=0.0, nothing=0.0):
    """The bin of each value, given as features of one record."""
    m = len(values)
    records = ArrayRecords(np.array([values], dtype=np.float64))
    found = signed_octaves(records, np.full(m, centre), np.full(m, nothing), np.arange(m))
    assert (found.sum(axis=1) == 1).all()
    return found.argmax(axis=1).tolist()


@settings(deadline=None)  # the first call compiles
@given(data=st.data(), X=tables)
def test_equals_fractions(data, X):
    columns = data.draw(st.lists(st.integers(0, X.shape[1] - 1), max_size=5))
    m = len(columns)
    centre = data.draw(hnp.arrays(np.float64, m, elements=numbers))
    nothing = data.draw(
        hnp.arrays(np.float64, m, elements=st.sampled_from([0.0, 1.0, np.inf]) | st.floats(0, 1e9))
    )
    expected = counts_in_python(X, centre, nothing, columns)
    index = np.array(columns, dtype=np.int64)
    for records in (ArrayRecords(X), open_records(torch.from_numpy(X), block_rows=2)):
        found = signed_octaves(records, centre, nothing, index)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("side", [0, 128])
def test_at_and_beside_every_edge(side):
    sign = 1.0 if side else -1.0
    edges = np.ldexp(1.0, np.arange(-64, 64))
    octaves = list(range(side, side + 128))
    assert bins_of(sign * edges) == octaves
    assert bins_of(sign * np.nextafter(edges, np.inf)) == octaves
    assert bins_of(sign * np.nextafter(edges, 0)) == [NOTHING_BIN, *octaves[:-1]]
    assert bins_of(sign * np.array([2.0**64, 1e300, LARGEST])) == [octaves[-1]] * 3


@pytest.mark.parametrize("x", [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, -1e-300])
def test_zeros_and_tiny_values_are_nothing(x):
    assert bins_of([x]) == [NOTHING_BIN]


def test_a_difference_that_overflows_is_large():
    assert bins_of([-LARGEST], centre=LARGEST) == [127]
    assert bins_of([LARGEST], centre=-LARGEST) == [255]
    assert bins_of([LARGEST], centre=-LARGEST, nothing=np.inf) == [NOTHING_BIN]


def test_nothing_reaches_to_its_edge_and_no_further():
    beyond = np.nextafter(3.0, 4.0)
    assert bins_of([3.0, -3.0, 2.5, beyond, -beyond], nothing=3.0) == [256, 256, 256, 193, 65]
    assert bins_of([10.0, 13.0, 7.0, 6.5], centre=10.0, nothing=3.0) == [256, 256, 256, 65]


def test_a_centre_may_be_far_from_zero():
    assert bins_of([1e9, 1e9 + 1, 1e9 - 3], centre=1e9) == [256, 192, 65]


X = np.random.default_rng(0).standard_cauchy((301, 5)) * 10.0 ** np.arange(-20, 30, 10)
CENTRE, NOTHING, COLUMNS = np.array([0.5, 0, 3e9]), np.array([0.1, 0, 1e9]), np.array([2, 0, 3])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), X=tables, missing=st.booleans())
def test_replacing_a_record_moves_each_row_by_one_count(data, X, missing):
    d = X.shape[1]
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, d, elements=numbers))
    if missing:
        neighbour[row, 0] = np.nan
    before, after = (
        signed_octaves(
            CompleteRecords(open_records(table, drop_nulls=True)),
            np.full(d, 0.5),
            np.full(d, 0.25),
            np.arange(d),
        )
        for table in (X, neighbour)
    )
    change = after - before
    assert (np.abs(change).sum(axis=1) <= 2).all()
    assert np.sum(change**2) <= 2 * d


def test_the_sensitivity_is_attained():
    rows = np.ones((3, 4))
    neighbour = rows.copy()
    neighbour[1] = -1.0
    arguments = np.zeros(4), np.zeros(4), np.arange(4)
    change = signed_octaves(ArrayRecords(neighbour), *arguments) - signed_octaves(
        ArrayRecords(rows), *arguments
    )
    assert np.sum(change**2) == 2 * 4


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"centre": np.zeros(2)}, "centre"),
        ({"centre": np.array([0, np.inf, 0])}, "centre"),
        ({"nothing": np.array([0, -1, 0])}, "nothing"),
        ({"nothing": np.array([0, np.nan, 0])}, "nothing"),
        ({"columns": np.array([0, 1, 5])}, "columns"),
        ({"columns": np.array([0, 1, -1])}, "columns"),
        ({"columns": np.array([0.0, 1.0, 2.0])}, "columns"),
        ({"columns": np.zeros((3, 1), dtype=int)}, "columns"),
    ],
)
def test_bad_arguments_are_refused(change, name):
    arguments = {"centre": np.zeros(3), "nothing": np.zeros(3), "columns": np.arange(3)} | change
    with pytest.raises(ParameterError, match=f"{name} must be"):
        signed_octaves(ArrayRecords(X), **arguments)
