"""Soft, SCAD and adaptive-lasso thresholding: their formulas, limits and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcov.exceptions import DataError, ParameterError
from hushcov.postprocess import RULES, universal_threshold

A, ETA = 3.7, 4


def by_hand(rule, z, level):
    """One entry, from the definitions of the papers."""
    size, sign = abs(z), math.copysign(1, z)
    if size <= level:
        return 0.0
    if rule == "hard":
        return z
    if rule == "adaptive_lasso":
        return z * (1 - abs(level / z) ** ETA)
    if rule == "soft" or size <= 2 * level:
        return sign * (size - level)
    return ((A - 1) * z - sign * A * level) / (A - 2) if size <= A * level else z


def symmetric(seed, d=12):
    matrix = np.random.default_rng(seed).standard_normal((d, d))
    return matrix + matrix.T


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["number", "matrix"])
def test_every_entry_follows_the_definition(rule, kind):
    matrix = symmetric(0)
    threshold = 0.4 if kind == "number" else np.abs(symmetric(1)) / 2
    levels = np.broadcast_to(threshold, matrix.shape)
    expected = [
        [z if i == j else by_hand(rule, z, levels[i, j]) for j, z in enumerate(row)]
        for i, row in enumerate(matrix)
    ]
    np.testing.assert_allclose(RULES[rule](matrix, threshold), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("rule", RULES)
def test_rounding_never_breaks_the_symmetry(rule):
    """Triangles that differ in the last bit, in the matrix and in the thresholds."""
    matrix, levels = symmetric(5), np.abs(symmetric(6)) / 3
    matrix, levels = np.triu(matrix), np.triu(levels)
    matrix += np.nextafter(np.triu(matrix, 1), 9).T
    levels += np.nextafter(np.triu(levels, 1), 9).T
    before = matrix.copy(), levels.copy()
    answer = RULES[rule](matrix, levels)
    np.testing.assert_array_equal(answer, answer.T)
    np.testing.assert_array_equal((matrix, levels), before)  # the input is left alone


@given(
    st.sampled_from(sorted(RULES)), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(1e-3, 1e3)
)
def test_a_rule_shrinks_by_at_most_the_threshold_and_follows_units(rule, z, level, unit):
    """Conditions (i) to (iii) of generalized thresholding (Rothman, Levina and Zhu)."""
    matrix = np.array([[1.0, z], [z, 1.0]])
    answer = RULES[rule](matrix, level)[0, 1]
    rounding = 1e-12 * (1 + abs(z))
    assert abs(answer) <= abs(z) + rounding
    assert answer * z >= 0
    assert abs(z - answer) <= level + rounding
    assert answer == 0 or abs(z) > level
    assert RULES[rule](-matrix, level)[0, 1] == -answer
    if abs(abs(z) - level) > rounding:  # or the unit's rounding decides
        scaled = RULES[rule](unit * matrix, unit * level)[0, 1]
        assert scaled == pytest.approx(unit * answer, rel=1e-9, abs=unit * rounding)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("matrix", "threshold", "error"),
    [
        *((np.ones((2, 3)), 0.1, DataError), (np.array([[1.0, 2.0], [0.0, 1.0]]), 0.1, DataError)),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 0.1, DataError),
        *((np.eye(3), -0.1, ParameterError), (np.eye(3), math.nan, ParameterError)),
        (np.eye(3), np.ones(3), ParameterError),
        (np.eye(3), np.arange(9.0).reshape(3, 3), ParameterError),
    ],
)
def test_refusals(rule, matrix, threshold, error):
    with pytest.raises(error):
        RULES[rule](matrix, threshold)


def test_the_universal_threshold_is_its_formula():
    expected = math.sqrt(0.03**2 + 1 / 400) * math.sqrt(2 * math.log(100 * 99 / 2))
    assert universal_threshold(0.03, 400, 100) == pytest.approx(expected, rel=1e-15, abs=0)
    assert universal_threshold(0.5, 10, 2) == universal_threshold(0.5, 10, 1) == 0


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
