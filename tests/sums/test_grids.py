"""Grids: nearest grid point inside the radius, the radius outside, for any float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov._validation import LARGEST_SCALE, SMALLEST_SCALE, check_feature_scale
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import grid_integers
from hushcov.tables.sources import ArrayRecords

finite = st.floats(allow_nan=False, allow_infinity=False)
grids = st.builds(
    IntegerGrid,
    radius=st.floats(min_value=2e-100, max_value=1e100),
    half_width=st.integers(1, IntegerGrid.largest_half_width),
)


def quantise(grid, block):
    """The integers of rows on the grid, as the loop fills them in that Gram matrices are of."""
    rows = np.atleast_2d(block)
    multipliers = np.full(rows.shape[1], grid.multiplier)
    with np.errstate(over="ignore"):
        integers = grid_integers(rows, (multipliers, float(grid.half_width)))
    return integers.reshape(np.shape(block))


@given(grid=grids, value=finite)
def test_rounds_to_the_nearest_grid_point_of_the_clipped_value(grid, value):
    (integer,) = quantise(grid, np.array([value]))
    assert integer == int(integer)
    assert abs(integer) <= grid.half_width
    radius = Fraction(grid.radius)
    exact = max(-radius, min(radius, Fraction(value))) * grid.half_width / radius
    # Two roundings of the scaled value may decide a near-tie; they never move it further.
    assert abs(Fraction(integer) - exact) <= Fraction(1, 2) + Fraction(1, 2**35)


@pytest.mark.parametrize(
    ("make", "values", "words"),
    [
        (
            lambda radius: IntegerGrid(radius, 10),
            [0, -1.0, np.nan, np.inf, 1e-320, 1e101, None, "1", True],
            "radius .*never inferred",
        ),
        (
            lambda half_width: IntegerGrid(1.0, half_width),
            [0, -3, (32767 << 30) + 1, 2.0, None, True],
            r"half_width .*IntegerGrid\.for_records",
        ),
        (lambda n: IntegerGrid.for_records(1.0, n), [0, -1, 1.5, None], "n_records"),
    ],
)
def test_bad_grids_are_refused(make, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=words):
            make(value)
    with pytest.raises(CapacityError, match=r"2\*\*62.*disjoint parts"):
        IntegerGrid.for_records(1.0, 2**62 + 1)


# One scale for each feature

scales = st.just(0.0) | st.floats(SMALLEST_SCALE, LARGEST_SCALE) | st.floats(0.1, 10)


def squares_on(grid, row):
    """y_i^2 for the grid's integers y of one record, through a map that only squares."""
    none = np.empty(0, np.int64)
    squares = ProductMap(grid, none, none, 0, 1, 0, 2**26, 0, 0, 1)
    return squares.sum(ArrayRecords(np.array([row])))[: grid.n_features].tolist()


@settings(deadline=None)
@given(
    x=finite,
    scale=scales,
    radius=st.sampled_from([1.1e-6, 1.5, 8.0, 1e6]),
    half_width=st.sampled_from([1, 15, 637, 2047]),
)
def test_every_finite_number_becomes_an_integer_within_the_half_width(x, scale, radius, half_width):
    grid = FeatureGrid(np.array([scale]), radius, half_width)
    multiplier = float(grid.multipliers[0])
    assert math.isfinite(multiplier)
    y = round(min(max(x * multiplier, -half_width), half_width))  # to even, as IEEE does
    assert squares_on(grid, [x]) == [y * y]
    assert -half_width <= y <= half_width


def test_rounds_to_even_and_clips():
    ends = [(np.nextafter(8.0, 9.0), 8), (-1e308, -8), (np.finfo(float).max, 8), (8.0, 8)]
    near = [(0.0, 0), (-0.0, 0), (5e-324, 0), (0.5, 0), (1.5, 2), (-2.5, -2), (7.49, 7), (7.5, 8)]
    for x, y in (*near, *ends):
        assert squares_on(FeatureGrid(np.ones(1), 8.0, 8), [x]) == [y * y]


@pytest.mark.parametrize(
    "scale",
    [
        *([1.0, each] for each in (-1.0, math.nan, math.inf, 1e-101, 1e101, "a")),
        *("a", object(), [[1.0, 2.0]], [1.0, 2.0, 3.0]),
    ],
)
def test_scales_out_of_range_or_of_another_shape_are_refused(scale):
    with pytest.raises(ParameterError, match="feature_scale must"):
        check_feature_scale(scale, 2)
