"""Queries of published mechanisms refuse fields for which their sensitivity would not hold.

`tests/kernel/test_queries.py` attacks the sensitivities themselves.
"""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import UnitGram
from hushcov_lab.peers.queries import (
    EntriesAndSquares,
    PairEntry,
    RoundedEigenvalues,
    RowScores,
    Surprises,
    clipped_gram,
)

GRID = FeatureGrid(np.ones(3), 1.0, 40)
GRAM, OF_UNITS = clipped_gram(GRID), UnitGram(GRID, 70, 2)
ENTRIES = np.array([0, 1]), np.array([1, 2])


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (RowScores, (0,)),
        (Surprises, (np.zeros(3, dtype=np.int64),)),
        (PairEntry, (0, 1)),
        (EntriesAndSquares, (ENTRIES,)),
        (RoundedEigenvalues, (10,)),
    ],
)
def test_matrices_with_other_bounds_are_refused(kind, fields):
    assert kind(GRAM, *fields).source is GRAM
    with pytest.raises(PrivacyConditionError, match="source must be a Gram"):
        kind(OF_UNITS, *fields)


@pytest.mark.parametrize(
    ("rows", "columns"), [([0, 0], [1, 1]), ([0, 1], [1, 0]), ([0, 2], [1, 2]), ([0, -1], [1, 2])]
)
def test_entries_that_are_there_twice_are_refused(rows, columns):
    with pytest.raises(PrivacyConditionError, match="each of them once"):
        EntriesAndSquares(GRAM, (np.array(rows), np.array(columns)))


@pytest.mark.parametrize("expected", [[2**62, 0, 0], [0, -(2**63), 0], [0.5, 0.0, 0.0]])
def test_expected_sums_that_differences_overflow_by_are_refused(expected):
    with pytest.raises(PrivacyConditionError, match="at most"):
        Surprises(GRAM, np.array(expected))
