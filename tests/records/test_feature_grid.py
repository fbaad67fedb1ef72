"""The grid of features with scales of their own: every finite number has its place on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hushcov.records.feature_grid import LARGEST_SCALE, SMALLEST_SCALE
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.exceptions import ParameterError
from hushcov.records import ArrayRecords, FeatureGrid, ProductMap, check_feature_scale

scales = st.just(0.0) | st.floats(SMALLEST_SCALE, LARGEST_SCALE) | st.floats(0.1, 10)
finite = st.floats(allow_nan=False, allow_infinity=False)


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
    with pytest.raises(ParameterError, match="feature_scale must be a number or"):
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
