"""Neighbouring datasets through the maps of certified parameters: no sensitivity is exceeded.

Everything is compared in integers; no tolerance is involved.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.accounting import ONE_REPLACED
from hushcov.mechanisms.screened import mechanism
from hushcov.mechanisms.screened.values import (
    RADIUS,
    CentredSigns,
    SignScreen,
    squared_sum_sensitivity,
)
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.signs import sign_gram
from hushcov.tables.sources import ArrayRecords
from mechanisms.screened.settings import parameters_of

SCALE = np.array([1.0, 1e-100, 3.0, 0.0, 1e100, 0.5])
# Zeros, the two clips, what lies beyond them, and everything else a double can be.
coordinates = (
    st.sampled_from([0.0, -0.0, 5e-324, 1.5, -1.5, 8.0, -8.0, 8.1, 1e-99, 1e101, 1e308, -1e308])
    | st.floats(-10, 10)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@st.composite
def neighbours(draw):
    """Two tables that differ in one record, and a scale for each feature."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 6)))
    first = draw(hnp.arrays(np.float64, shape, elements=coordinates))
    second = first.copy()
    row = draw(st.integers(0, shape[0] - 1))
    second[row] = draw(hnp.arrays(np.float64, shape[1], elements=coordinates))
    scale = draw(st.sampled_from([np.ones(6), SCALE]))[: shape[1]]
    return ArrayRecords(first), ArrayRecords(second), scale


@functools.cache
def all_pairs_of(d, factor):
    return parameters_of(10, d, d, n_levels=0, norm_factor=factor)


@settings(deadline=None, max_examples=60)
@given(tables=neighbours())
def test_scores(tables):
    first, second, _ = tables
    moved = np.abs(sign_gram(first)) - np.abs(sign_gram(second))
    assert np.abs(moved).max() <= parameters_of(100, 20, 3).score_sensitivity


@settings(deadline=None, max_examples=50)
@given(
    tables=neighbours(),
    factor=st.sampled_from([0.05, 1.0, 4.0, 1e3]),
    bound=st.none() | st.integers(1, 2**26),
    keep=st.integers(0, 15),
)
def test_sums(tables, factor, bound, keep):
    """For the bounds of parameters, and for any other."""
    first, second, scale = tables
    d = len(scale)
    parameters = all_pairs_of(d, factor)
    bound = parameters.norm_bound if bound is None else bound
    pairs = list(itertools.combinations(range(d), 2))[:keep]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    grid = FeatureGrid(scale, RADIUS, parameters.half_width)
    products = mechanism.product_map(grid, rows, columns, bound)
    moved = products.sum(first) - products.sum(second)
    assert sum(int(number) ** 2 for number in moved) <= squared_sum_sensitivity(bound, ONE_REPLACED)
    counts = products.norm_histogram(first) - products.norm_histogram(second)
    assert int((counts**2).sum()) in (0, 2)


@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("factor", [0.05, 1.0, 4.0])
def test_records_at_the_corners(d, factor):
    """All replacements of one corner of the clip by another, at the bound and one beside it."""
    parameters = all_pairs_of(d, factor)
    rows, columns = np.triu_indices(d, 1)
    grid = FeatureGrid(np.ones(d), RADIUS, parameters.half_width)
    corners = [np.zeros(d), np.full(d, 1.0), np.full(d, 8.0), np.full(d, -1e308)]
    corners.append(np.where(np.arange(d) % 2, 8.0, -8.0))
    corners.append(np.where(np.arange(d) % 2, 0.0, 1e308))
    for bound in (parameters.norm_bound - 1, parameters.norm_bound, parameters.norm_bound + 1):
        products = mechanism.product_map(grid, rows, columns, bound)
        sums = [products.sum(ArrayRecords(corner[None, :])) for corner in corners]
        for first, second in itertools.combinations(sums, 2):
            moved = sum(int(number) ** 2 for number in first - second)
            assert moved <= squared_sum_sensitivity(bound, ONE_REPLACED)


@pytest.mark.parametrize("tilt", [0, 300, -1023, 1023])
def test_centred_signs_move_by_no_more_than_their_sensitivity(tilt):
    """Whatever the tilts are; and nearly as much, at the worst records."""
    d, largest = 5, 0
    screen = CentredSigns((tilt,) * d)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        one, other = (rng.choice([-1.0, 0.0, 1.0], size=(9, d)) for _ in range(2))
        other[1:] = one[1:]
        scores = [screen.scores(ArrayRecords(X)).astype(int) for X in (one, other)]
        largest = max(largest, int(np.abs(scores[1] - scores[0]).max()))
    most = screen.sensitivity(ONE_REPLACED)
    assert 0.4 * most < largest <= most


def test_centred_signs_are_the_sums_that_they_say():
    rng = np.random.default_rng(3)
    X = (rng.random((500, 6)) < 0.1) - 0.05
    tilt = tuple(int(t) for t in np.rint(1024 * np.sign(X).mean(axis=0)))
    m = np.array(tilt) / 1024
    centred = (np.sign(X) - m) / (1 + np.abs(m))
    exact = np.abs(centred.T @ centred)[np.triu_indices(6, 1)]
    scores = CentredSigns(tilt).scores(ArrayRecords(X))
    np.testing.assert_array_equal(scores, np.floor(64 * exact + 1e-9))
    plain = SignScreen().scores(ArrayRecords(X))
    assert plain.mean() > 5 * scores.mean() / 64  # rare features agree by themselves
