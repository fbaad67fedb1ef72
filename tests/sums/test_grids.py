"""Grids: nearest grid point inside the radius, the radius outside, for any float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.sums.bounded import fill_rows
from hushcov.sums.grids import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    FeatureGrid,
    IntegerGrid,
    check_feature_scale,
)
from hushcov.sums.products import ProductMap
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
    d = rows.shape[1]
    integers, nothing = np.empty(rows.shape), (np.zeros(d), np.full(d, np.finfo(float).max))
    multipliers, half_width = np.full(d, grid.multiplier), float(grid.half_width)
    assert fill_rows(rows, nothing, (multipliers, half_width), np.inf, integers)
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


@given(grid=grids, value=finite)
def test_is_odd_and_depends_on_the_coordinate_alone(grid, value):
    alone = quantise(grid, np.array([[value]]))
    among_others = quantise(grid, np.array([[value, 1.0], [-value, -1e300], [value, 0.0]]))
    np.testing.assert_array_equal(among_others[:, 0], alone[0, 0] * np.array([1, -1, 1]))


@given(grid=grids, multiple=st.integers(1, 10**6))
def test_the_radius_and_beyond_reach_exactly_the_ends(grid, multiple):
    ends = quantise(grid, np.array([grid.radius, -grid.radius, grid.radius * multiple, -1e308]))
    np.testing.assert_array_equal(ends, grid.half_width * np.array([1, -1, 1, -1]))


@given(grid=grids, integer=st.integers(-32767, 32767))
def test_grid_points_stay_where_they_are(grid, integer):
    integer = max(-grid.half_width, min(grid.half_width, integer))
    assert quantise(grid, np.array([integer * grid.step]))[0] == integer


def test_known_values():
    grid = IntegerGrid(radius=2.0, half_width=4)
    assert grid.step == 0.5
    block = np.array([[0.0, 0.24, 0.26, 0.5], [-0.74, -0.76, 1.9, -5.0]])
    np.testing.assert_array_equal(quantise(grid, block), [[0, 0, 1, 1], [-1, -2, 4, -4]])


@pytest.mark.parametrize(
    ("n_records", "half_width"),
    [
        (1, 32767),
        (2**62 // 32767**2, 32767),
        (2**62 // 32767**2 + 1, 32766),
        (2**32, 32767),
        (2**60, 2),
        (2**62, 1),
    ],
)
def test_for_records_is_the_finest_grid_with_room(n_records, half_width):
    grid = IntegerGrid.for_records(3.0, n_records)
    assert grid == IntegerGrid(3.0, half_width)
    assert n_records * half_width**2 <= 2**62
    assert half_width == 32767 or n_records * (half_width + 1) ** 2 > 2**62


def test_for_records_says_when_int64_cannot_hold_the_sums():
    with pytest.raises(CapacityError, match=r"2\*\*62.*disjoint parts"):
        IntegerGrid.for_records(1.0, 2**62 + 1)


@pytest.mark.parametrize("radius", [0, -1.0, np.nan, np.inf, 1e-320, 1e101, None, "1", True])
def test_radius_must_be_a_positive_number(radius):
    with pytest.raises(ParameterError, match=r"radius .*never inferred"):
        IntegerGrid(radius, 10)


@pytest.mark.parametrize("half_width", [0, -3, 32768, 2.0, None, True])
def test_half_width_must_be_a_small_positive_integer(half_width):
    with pytest.raises(ParameterError, match=r"half_width .*IntegerGrid\.for_records"):
        IntegerGrid(1.0, half_width)


@pytest.mark.parametrize("n_records", [0, -1, 1.5, None])
def test_for_records_needs_a_number_of_records(n_records):
    with pytest.raises(ParameterError, match="n_records"):
        IntegerGrid.for_records(1.0, n_records)


def test_parameters_become_plain_numbers_and_stay():
    grid = IntegerGrid(np.float32(2), np.int16(7))
    assert (type(grid.radius), type(grid.half_width)) == (float, int)
    assert hash(grid) == hash(IntegerGrid(2.0, 7))
    with pytest.raises(AttributeError):
        grid.radius = 3.0


# One scale for each feature

scales = st.just(0.0) | st.floats(SMALLEST_SCALE, LARGEST_SCALE) | st.floats(0.1, 10)


def squares_on(grid, row):
    """y_i^2 for the grid's integers y of one record, through a map that only squares."""
    squares = ProductMap(
        grid=grid,
        rows=np.empty(0, np.int64),
        columns=np.empty(0, np.int64),
        pair_weight=0,
        diagonal_weight=1,
        centre=0,
        norm_bound=2**26,
        factor_range=0,
        size_range=0,
        size_cap=1,
    )
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


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (0.0, 0),
        (-0.0, 0),
        (5e-324, 0),
        (0.5, 0),
        (1.5, 2),
        (-2.5, -2),
        (7.49, 7),
        (7.5, 8),
        (8.0, 8),
        (np.nextafter(8.0, 9.0), 8),
        (-1e308, -8),
        (np.finfo(float).max, 8),
    ],
)
def test_rounds_to_even_and_clips(x, y):
    assert squares_on(FeatureGrid(np.ones(1), 8.0, 8), [x]) == [y * y]


def test_a_scale_of_zero_makes_every_coordinate_zero():
    grid = FeatureGrid(np.array([0.0, 1.0]), 8.0, 100)
    assert grid.multipliers.tolist() == [0.0, 12.5]
    assert squares_on(grid, [1e308, 1.0]) == [0, 144]


def test_scales_are_copied_and_cannot_change_later():
    scale = np.ones(3)
    grid = FeatureGrid(scale, 8.0, 10)
    scale[0] = 5
    assert grid.feature_scale.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        grid.feature_scale[0] = 2


def test_one_number_stands_for_all_features():
    assert check_feature_scale(2, 3).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 1e-101, 1e101])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(ParameterError, match="feature_scale must be 0"):
        check_feature_scale([1.0, scale], 2)


@pytest.mark.parametrize("scale", ["a", [1.0, "a"], object(), [[1.0, 2.0]], [1.0, 2.0, 3.0]])
def test_scales_of_another_shape_or_type_are_refused(scale):
    with pytest.raises(ParameterError, match="feature_scale must"):
        check_feature_scale(scale, 2)


@pytest.mark.parametrize(
    ("radius", "half_width", "name"),
    [
        (0.0, 10, "radius"),
        (1e-300, 10, "radius"),  # 1 / (step * scale) would be infinite, and 0 times that is NaN
        (1e7, 10, "radius"),
        (math.nan, 10, "radius"),
        (8.0, 0, "half_width"),
        (8.0, 2**20 + 1, "half_width"),
        (8.0, 1.5, "half_width"),
    ],
)
def test_radius_and_half_width_out_of_range_are_refused(radius, half_width, name):
    with pytest.raises(ParameterError, match=name):
        FeatureGrid(np.full(2, 1e-100), radius, half_width)
