"""Rows times a matrix of integers, beside Python's own integers, and what is refused."""

import numpy as np
import pytest

from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov.tables.sources import open_records

GRID = FeatureGrid(np.array([1.0, 2.0, 0.5]), 4.0, 8)
ROWS = np.array([[0.3, -9.0, 0.26], [0.0, 0.1, 0.0], [-0.75, 0.5, 1.0], [4.1, 1.0, -0.3]])
MATRIX = np.array([[1.0, -2.0, 5.0], [3.0, 0.0, -1.0], [0.0, 7.0, 2.0]])
ONES = np.array([11.0, -13.0, 17.0])


def literal(constant, by_last):
    """Return the rows by Python's integers; halves are rounded to the even one."""
    found = []
    for row in ROWS:
        y = [
            round(max(-8, min(8, x * 2 / s))) for x, s in zip(row, GRID.feature_scale, strict=True)
        ]
        z = [sum(a * int(b) for a, b in zip(y, column, strict=True)) for column in MATRIX.T]
        if any(y):
            z = [each + int(more) for each, more in zip(z, constant, strict=True)]
        found.append([each * z[-1] for each in z[:-1]] if by_last else z)
    return np.array(found)


@pytest.mark.parametrize("by_last", [False, True])
@pytest.mark.parametrize("constant", [None, ONES])
def test_rows_are_those_of_whole_numbers(constant, by_last):
    records = MultipliedRecords(open_records(ROWS), GRID, MATRIX, constant, by_last=by_last)
    found = np.concatenate(list(records._blocks()))
    assert np.array_equal(found, literal([0, 0, 0] if constant is None else constant, by_last))
    assert records.n_features == 3 - by_last
    assert (found[1] == 0).all()  # all of its integers are zero


def test_the_largest_entry_leaves_room_for_every_sum():
    """Three features of 8 steps, and for a constant one more step."""
    most = (2**53 - 1) // 24
    records = open_records(ROWS)
    MultipliedRecords(records, GRID, np.full((3, 3), float(most)))
    with_ones = (2**53 - 1) // 25
    for sign in (1.0, -1.0):
        MultipliedRecords(records, GRID, np.full((3, 3), sign * with_ones), np.zeros(3))
        MultipliedRecords(records, GRID, np.zeros((3, 3)), np.full(3, sign * with_ones))
        with pytest.raises(CapacityError, match=r"2\*\*53"):
            MultipliedRecords(records, GRID, np.full((3, 3), sign * (most + 1)))
        with pytest.raises(CapacityError, match=r"2\*\*53"):
            MultipliedRecords(records, GRID, np.full((3, 3), sign * (with_ones + 1)), np.zeros(3))
        with pytest.raises(CapacityError, match=r"2\*\*53"):
            MultipliedRecords(records, GRID, np.zeros((3, 3)), np.full(3, sign * (with_ones + 1)))


@pytest.mark.parametrize("place", ["matrix", "constant"])
@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
def test_other_numbers_are_refused(place, value):
    wrong = {"matrix": MATRIX.copy(), "constant": ONES.copy()}
    wrong[place][..., 0] = value
    with pytest.raises(ParameterError, match="must hold integers"):
        MultipliedRecords(open_records(ROWS), GRID, **wrong)


@pytest.mark.parametrize("matrix", [np.eye(2), np.ones(3), np.ones((3, 0))])
def test_a_matrix_of_another_shape_is_refused(matrix):
    with pytest.raises(DataError, match="matrix must have a row for each"):
        MultipliedRecords(open_records(ROWS), GRID, matrix)
