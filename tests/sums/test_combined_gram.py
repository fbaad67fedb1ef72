"""Matrices of units, whose rows are scaled down together: against Python's integers."""

import math

import numpy as np
import pytest

from hushcov.accounting import ADD_REMOVE, REPLACE, Neighbours
from hushcov.exceptions import DataError, ParameterError, PrivacyConditionError
from hushcov.mechanisms.gaussian.mechanism import unit_sigmas
from hushcov.sums.gram import unit_bounded_gram, unit_norm_histogram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import CentredRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import Units


def table(rng):
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d)) * 2 ** rng.uniform(-2, 3)
    return X, rng.integers(0, rng.integers(1, n + 1), n)


def square_of(Y):
    """The squared Frobenius norm of Y'Y, in Python's integers."""
    gram = Y.T.astype(object) @ Y.astype(object)
    return int((gram * gram).sum())


def literal(X, identifiers, grid, bound):
    """Rows of units by a dictionary, and what is left of them."""
    units = {}
    for row, identifier in zip(X, identifiers, strict=True):
        units.setdefault(identifier, []).append(row)
    width = grid.half_width
    total = np.zeros((X.shape[1],) * 2, dtype=object)
    for rows in units.values():
        Y = np.rint(np.clip(np.array(rows) * grid.multipliers, -width, width))
        whole, square = Y, square_of(Y)
        factor = math.sqrt(bound / math.sqrt(square)) if square else 1.0
        while square_of(Y) > bound**2 * (1 - 2.0**-30):
            Y, factor = np.trunc(whole * factor), factor * 0.99
        assert square_of(Y) <= bound**2
        total += Y.T.astype(object) @ Y.astype(object)
    return total


def test_matrices_are_those_of_a_dictionary():
    rng = np.random.default_rng(1)
    for _ in range(300):
        X, identifiers = table(rng)
        grid = FeatureGrid(np.ones(X.shape[1]), 6.0, int(rng.integers(1, 2000)))
        bound = int(2 ** rng.uniform(0, 24))
        most = int(np.bincount(identifiers).max()) + 1
        source = ArrayRecords(X, block_rows=int(rng.integers(1, 9)))
        records = Units.of(identifiers, len(X)).bounded(source, most)
        expected = literal(X, identifiers, grid, bound)
        for each in (records, CentredRecords(records, np.zeros(X.shape[1]))):
            found = unit_bounded_gram(each, grid, bound, most)
            assert found.tolist() == expected.tolist()
        counts = unit_norm_histogram(records, grid, most)
        assert counts.sum() == len(set(identifiers.tolist()))


def test_bins_hold_the_norms_that_they_say():
    rng = np.random.default_rng(2)
    for _ in range(100):
        X, _ = table(rng)
        grid = FeatureGrid(np.ones(X.shape[1]), 6.0, 300)
        records = Units.of(np.zeros(len(X)), len(X)).bounded(ArrayRecords(X), 64)
        place = int(np.flatnonzero(unit_norm_histogram(records, grid, 64))[0])
        norm = math.sqrt(square_of(np.rint(np.clip(X * 50, -300, 300))))
        assert norm == 0 or 2 ** ((place - 2) / 4) <= norm * 1.0001
        assert norm <= 2 ** ((place - 1) / 4) * 1.0001


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
def test_no_unit_moves_the_matrix_by_more_than_is_charged(relation):
    rng = np.random.default_rng(3)
    neighbours, mu, worst = Neighbours(relation, 40, combined=True), 0.1, 0.0
    for _ in range(400):
        d, bound = int(rng.integers(1, 5)), int(2 ** rng.uniform(4, 20))
        grid, most = FeatureGrid(np.ones(d), 6.0, 500), 40
        sigmas = unit_sigmas(bound, mu, neighbours)
        sides = []
        for _ in range(2):
            rows = rng.standard_normal((int(rng.integers(1, 41)), d)) * 10
            rows[:, rng.random(d) < 0.5] = 0
            records = Units.of(np.zeros(len(rows)), len(rows)).bounded(ArrayRecords(rows), most)
            sides.append(unit_bounded_gram(records, grid, bound, most))
        moved = sides[0] - (sides[1] if relation == REPLACE else 0)
        upper = np.triu(moved, 1) / sigmas[0] + np.diag(np.diag(moved)) / sigmas[1]
        worst = max(worst, float(np.linalg.norm(upper)))
    assert 0.6 * 40 * mu < worst <= 40 * mu


def test_what_is_not_in_order_or_not_finite_is_refused():
    X = np.ones((6, 2))
    grid = FeatureGrid(np.ones(2), 6.0, 100)
    with pytest.raises(PrivacyConditionError, match="unit by unit"):
        unit_bounded_gram(ArrayRecords(X), grid, 100, 3)
    records = Units.of([0, 0, 0, 1, 1, 1], 6).bounded(ArrayRecords(X), 3)
    with pytest.raises(ParameterError, match="bound"):
        unit_bounded_gram(records, grid, 0, 3)
    X[4, 1] = np.nan
    with pytest.raises(DataError, match="finite"):
        unit_bounded_gram(Units.of([0, 0, 0, 1, 1, 1], 6).bounded(ArrayRecords(X), 3), grid, 9, 3)
