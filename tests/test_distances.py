"""Pairs of features whose public positions are close."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from hushcov import GaussianCovariance, pairs_within
from hushcov.candidates import Candidates, read_candidates
from hushcov.exceptions import CapacityError, ParameterError

rng = np.random.default_rng(5)


def dense(found: Candidates) -> np.ndarray:
    there = np.zeros((found.n_features, found.n_features), dtype=bool)
    there[found.pairs] = True
    return there


def expected(where: np.ndarray, distance: float, groups: np.ndarray) -> np.ndarray:
    where = where.reshape(len(where), -1)
    near = (cdist(where, where) <= distance) & np.equal.outer(groups, groups)
    return np.triu(near, 1)


@pytest.mark.parametrize("coordinates", [None, 1, 2, 3])
@pytest.mark.parametrize("distance", [0.0, 0.07, 0.4, 5.0])
@pytest.mark.parametrize("in_groups", [False, True])
def test_all_pairs_that_are_close_and_no_other(coordinates, distance, in_groups):
    shape = (60,) if coordinates is None else (60, coordinates)
    where = rng.uniform(size=shape).round(2)  # some at the same place
    groups = rng.choice(["a", "b", "c"], 60) if in_groups else np.zeros(60)
    found = pairs_within(where, distance, groups=groups if in_groups else None)
    slack = 1e-12  # of decimals
    assert np.array_equal(dense(found), expected(where, distance + slack, groups))


def test_sorted_positions_give_windows_of_columns():
    where = np.sort(rng.uniform(0, 1e6, 200))
    groups = np.repeat(["1", "2", "X"], [50, 100, 50])
    found = pairs_within(where, 3e4, groups=groups)
    assert found.contiguous
    assert found.ends.max() == 200
    assert found.ends[49] == 50
    assert found.ends[149] == 150


def test_evenly_spaced_positions_are_a_band():
    minutes = 30 * np.arange(48)
    assert pairs_within(minutes, 120) == Candidates.band(48, 4)
    # 0.7 + 0.1 is not 0.8 in floating point.
    assert pairs_within(np.arange(20) / 10, 0.1) == Candidates.band(20, 1)
    assert pairs_within(np.arange(20) / 10, 0.0999).n_pairs == 0


def test_order_of_columns_is_that_of_positions():
    found = pairs_within([30.0, 10.0, 20.0], 10)
    assert [(int(i), int(j)) for i, j in zip(*found.pairs, strict=True)] == [(0, 2), (1, 2)]


def test_groups_of_mixed_kinds():
    found = pairs_within([1, 1, 1, 1], 0, groups=np.array([1, "X", 1, None], dtype=object))
    assert [(int(i), int(j)) for i, j in zip(*found.pairs, strict=True)] == [(0, 2)]


@pytest.mark.parametrize("where", [[], [7.0], [[1.0, 2.0]]])
def test_few_features(where):
    found = pairs_within(where, 10)
    assert (found.n_features, found.n_pairs) == (len(where), 0)


def test_estimators_take_them():
    made = pairs_within(np.arange(10), 2)
    assert read_candidates(10, candidate_pairs=made) is made
    inputs = GaussianCovariance(epsilon=1.0, delta=1e-6, candidate_pairs=made)
    assert inputs.request(10).candidates == Candidates.band(10, 2)


@pytest.mark.parametrize(
    ("positions", "options", "words"),
    [
        ([1, 2], {"distance": -1}, "distance must be above 0"),
        ([1, 2], {"distance": np.nan}, "distance must be"),
        ([1, 2], {"distance": None}, "distance is required"),
        (["a", "b"], {"distance": 1}, "positions must be numbers"),
        ([1, np.nan], {"distance": 1}, "positions must be finite"),
        (np.zeros((2, 2, 2)), {"distance": 1}, "positions must be numbers"),
        ([[1, 2], [3]], {"distance": 1}, "positions must be an array"),
        ([1, 2], {"distance": 1, "groups": ["a"]}, "groups must have one"),
    ],
)
def test_what_is_no_position_is_refused(positions, options, words):
    with pytest.raises(ParameterError, match=words):
        pairs_within(positions, **options)


@pytest.mark.parametrize("where", [np.zeros(70_000), np.zeros((70_000, 2))])
def test_too_many_pairs_are_refused_before_they_are_listed(where):
    with pytest.raises(CapacityError, match="smaller bandwidth or distance"):
        pairs_within(where, 1.0)
