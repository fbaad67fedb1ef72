"""Hard thresholding, and a threshold that zero entries seldom pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushcov.exceptions import DataError, ParameterError
from hushcov.postprocess import hard_threshold, universal_threshold

MATRIX = np.array([[0.1, 0.5, -0.3], [0.5, 2.0, 0.2], [-0.3, 0.2, -1.0]])


def test_small_entries_go_and_the_diagonal_stays():
    assert hard_threshold(MATRIX, 0.3).tolist() == [[0.1, 0.5, 0], [0.5, 2.0, 0], [0, 0, -1.0]]
    assert hard_threshold(MATRIX, math.inf).tolist() == np.diag(np.diag(MATRIX)).tolist()
    np.testing.assert_array_equal(hard_threshold(MATRIX, 0.0), MATRIX)


def test_thresholds_may_differ_by_entry():
    levels = np.array([[9.0, 0.6, 0.1], [0.6, 9.0, 0.1], [0.1, 0.1, 9.0]])
    assert hard_threshold(MATRIX, levels).tolist() == [
        [0.1, 0, -0.3],
        [0, 2.0, 0.2],
        [-0.3, 0.2, -1],
    ]


def test_rounding_never_breaks_the_symmetry():
    """Two triangles that differ in the last bit, just around the threshold."""
    matrix = np.array([[1.0, 0.3], [np.nextafter(0.3, 1), 1.0]])
    for levels in (0.3, np.array([[1.0, np.nextafter(0.3, 0)], [0.3, 1.0]])):
        kept = hard_threshold(matrix, levels)
        np.testing.assert_array_equal(kept, kept.T)


def test_the_input_is_left_alone():
    before = MATRIX.copy()
    hard_threshold(MATRIX, 0.3)
    np.testing.assert_array_equal(MATRIX, before)


@pytest.mark.parametrize(
    ("matrix", "threshold", "error"),
    [
        (np.ones((2, 3)), 0.1, DataError),
        (np.ones(3), 0.1, DataError),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), 0.1, DataError),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 0.1, DataError),
        (MATRIX, -0.1, ParameterError),
        (MATRIX, math.nan, ParameterError),
        (MATRIX, np.ones(3), ParameterError),
        (MATRIX, np.arange(9.0).reshape(3, 3), ParameterError),
    ],
)
def test_refusals(matrix, threshold, error):
    with pytest.raises(error):
        hard_threshold(matrix, threshold)


def test_the_universal_threshold_is_its_formula():
    expected = math.sqrt(0.03**2 + 1 / 400) * math.sqrt(2 * math.log(100 * 99 / 2))
    assert universal_threshold(0.03, 400, 100) == pytest.approx(expected, rel=1e-15, abs=0)
    assert universal_threshold(0, 400, 100) < expected


@pytest.mark.parametrize("n_features", [1, 2])
def test_one_entry_has_no_maximum_to_guard_against(n_features):
    assert universal_threshold(0.5, 10, n_features) == 0


def test_few_zero_entries_pass():
    """0.18 in a matrix are expected to; 0, or 100 and more in 200 matrices, have chance 1e-15."""
    limit = universal_threshold(0.1, 50, 100)
    deviation = math.hypot(0.1, 50**-0.5)
    draws = deviation * np.random.default_rng(0).standard_normal((200, 4950))
    assert 0 < np.count_nonzero(np.abs(draws) > limit) < 100


@pytest.mark.parametrize("changes", [(-1.0, 5, 5), (math.inf, 5, 5), (1.0, 0, 5), (1.0, 5, 0)])
def test_bad_numbers_are_refused(changes):
    with pytest.raises(ParameterError):
        universal_threshold(*changes)
