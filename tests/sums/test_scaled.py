"""`ScaledRecords`: each feature over its scale, whatever the two."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import DataError, ParameterError
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.sums.records import ScaledRecords
from hushcov.tables.sources import ArrayRecords

ROWS = np.random.default_rng(0).standard_normal((11, 3))
SCALES = np.array([0.5, 1.0, 8.0])


def rows_of(records):
    return np.concatenate(list(records._blocks()))


@pytest.mark.parametrize("block_rows", [1, 4, 100])
def test_features_are_divided_by_their_scales(block_rows):
    scaled = ScaledRecords(ArrayRecords(ROWS, block_rows=block_rows), SCALES)
    assert (scaled.n_records, scaled.n_features) == (11, 3)
    np.testing.assert_array_equal(rows_of(scaled), ROWS / SCALES)


def test_a_scale_of_zero_makes_zeros():
    X = ROWS.copy()
    X[3, 1] = 1e300
    scaled = rows_of(ScaledRecords(ArrayRecords(X), np.array([1.0, 0.0, 1.0])))
    assert not scaled[:, 1].any()
    np.testing.assert_array_equal(scaled[:, [0, 2]], ROWS[:, [0, 2]])


@pytest.mark.parametrize("size", [1e300, np.finfo(float).max, 5e-324])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_any_size_over_any_scale_is_finite(size, scale):
    """Without a warning, and with the sign it had."""
    X = np.array([[size, -size], [0.0, size]])
    scaled = rows_of(ScaledRecords(ArrayRecords(X), np.full(2, scale)))
    assert np.isfinite(scaled).all()
    if size > 1:
        np.testing.assert_array_equal(np.sign(scaled), np.sign(X))
    second_moments(ScaledRecords(ArrayRecords(X), np.full(2, scale)), IntegerGrid(4.0, 100))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_also_where_the_scale_is_zero(bad):
    X = ROWS.copy()
    X[5, 0] = bad
    with pytest.raises(DataError, match="finite"):
        rows_of(ScaledRecords(ArrayRecords(X), np.array([0.0, 1.0, 1.0])))


@pytest.mark.parametrize("scales", [np.ones(2), np.array([1.0, -1.0, 1.0]), np.full(3, np.nan)])
def test_bad_scales_are_refused(scales):
    with pytest.raises(ParameterError, match="feature_scale"):
        ScaledRecords(ArrayRecords(ROWS), scales)
