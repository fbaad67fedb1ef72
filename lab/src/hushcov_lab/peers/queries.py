"""Statistics of published mechanisms, with how far neighbouring datasets can differ in them.

All are computed from the exact matrix of second moments, which a session reads once. They are
queries as those in `hushcov.kernel.queries` are, and the same test attacks every class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import LARGEST_SCORE
from hushcov.kernel.queries import Gram, Query, ScoreQuery, squared_sensitivity

# LAPACK's error of an eigenvalue and that of turning integers into doubles, together, in units of
# 2^-53 n_features times the norm of the matrix.
EIGENSOLVER = 16


def clipped_gram(grid: FeatureGrid) -> Gram:
    """Return the matrix of rows that are clipped on a grid: none is as long as this norm bound."""
    # proof: row_top_k, step 1
    # proof: pace, step 1
    return Gram(grid, math.isqrt(grid.n_features * grid.half_width**2) + 1)


def entry_sensitivity(half_width: int, neighbours: Neighbours) -> int:
    """Return the most that one record moves an entry off the diagonal."""
    most = half_width**2
    # proof: row_top_k, step 2
    return neighbours.moved(replaced=2 * most, removed=most)  # proof: pace, step 2


class _OfMatrix:
    """Numbers computed from a matrix; others than `Gram` bound their entries in other ways."""

    source: Gram

    def __post_init__(self) -> None:
        _check(type(self.source) is Gram, "source must be a Gram")


def _check(good: bool, words: str) -> None:
    """Refuse fields for which neighbours could be further apart than the query says."""
    if not good:
        raise PrivacyConditionError(
            f"{words}: this is a mistake in the mechanism, and nothing was released."
        )


# Scores.


@dataclass(frozen=True, eq=False)
class RowScores(_OfMatrix, ScoreQuery):
    """Sizes of the entries of one row, without the one on the diagonal."""

    source: Gram
    row: int

    def derived(self, sums: IntArray) -> IntArray:
        return np.asarray(np.abs(np.delete(sums[self.row], self.row)))

    def score_distance(self, relation: Neighbours) -> int:
        return entry_sensitivity(self.source.grid.half_width, relation)


@dataclass(frozen=True, eq=False)
class Surprises(_OfMatrix, ScoreQuery):
    """How far the entries above the diagonal are from what is expected of them, row by row."""

    source: Gram
    expected: IntArray  # computed from released numbers

    def __post_init__(self) -> None:
        super().__post_init__()
        given, most = self.expected, LARGEST_SCORE
        inside = given.dtype == np.int64 and bool(((given >= -most) & (given <= most)).all())
        _check(inside, "expected must be integers of at most 2**53 in size")

    def derived(self, sums: IntArray) -> IntArray:
        exact = sums[np.triu_indices(len(sums), 1)]
        return np.asarray(np.minimum(np.abs(exact - self.expected), LARGEST_SCORE))

    def score_distance(self, relation: Neighbours) -> int:
        return entry_sensitivity(self.source.grid.half_width, relation)


# Values.


@dataclass(frozen=True, eq=False)
class PairEntry(_OfMatrix, Query):
    """One entry off the diagonal."""

    source: Gram
    row: int
    column: int

    def derived(self, sums: IntArray) -> IntArray:
        return sums[[self.row], [self.column]]

    def squared_distance(self, relation: Neighbours) -> int:
        moved = entry_sensitivity(self.source.grid.half_width, relation)
        return moved**2  # proof: pace, step 5


@dataclass(frozen=True, eq=False)
class EntriesAndSquares(_OfMatrix, Query):
    """Entries above the diagonal, given by their rows and columns, then the whole diagonal."""

    source: Gram
    entries: tuple[IntArray, IntArray]

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = self.entries
        once = len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows)
        above = once and bool((rows >= 0).all()) and bool((rows < columns).all())
        _check(above, "entries must be above the diagonal, each of them once")

    def derived(self, sums: IntArray) -> IntArray:
        return np.concatenate([sums[self.entries], np.diag(sums)])

    def squared_distance(self, relation: Neighbours) -> int:
        grid, (rows, columns) = self.source.grid, self.entries
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        # proof: row_top_k, step 5
        # proof: pace, step 4
        return values_squared_sensitivity(grid.n_features, grid.half_width, pairs, relation)


def values_squared_sensitivity(
    n_features: int,
    half_width: int,
    pairs: Iterable[tuple[int, int]],
    neighbours: Neighbours = ONE_REPLACED,
) -> int:
    """Return the most that one record moves pair products and all squares, squared.

    For integer records with coordinates of at most `half_width`. A record that is removed moves
    each by its size. Where one is replaced, the pairs are split into groups of features in which
    every pair was selected; a group moves as a whole Gram matrix does, its squares included. A
    feature without a pair moves by its square alone.
    """
    pairs = tuple(pairs)
    # proof: row_top_k, step 5
    removed = half_width**4 * (len(pairs) + n_features)

    def whole(size: int) -> int:
        """Return the squared sensitivity of all products of so many clipped coordinates."""
        return int(squared_sensitivity(size, half_width, None, 1, 1))

    alone = n_features - len({feature for pair in pairs for feature in pair})
    replaced = sum(whole(len(group)) for group in complete_groups(pairs)) + alone * whole(1)
    return neighbours.moved(replaced=replaced, removed=removed)


def complete_groups(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Groups of features such that each pair lies in exactly one of them, and no other pair does.

    Greedy, in a fixed order: each group starts from a pair that is left and takes in every feature
    whose pairs with all of its members are left. Any such groups give a valid bound, larger
    groups a smaller one.
    """
    left: dict[int, set[int]] = {}
    for i, j in pairs:
        left.setdefault(i, set()).add(j)
        left.setdefault(j, set()).add(i)
    groups = []
    for first in sorted(left):
        while left[first]:
            group, candidates = [first], left[first]
            while candidates:
                member = min(candidates)
                group.append(member)
                candidates = candidates & left[member]
            for member in group:
                left[member] = left[member].difference(group)
            groups.append(group)
    return groups


@dataclass(frozen=True, eq=False)
class RoundedEigenvalues(_OfMatrix, Query):
    """The eigenvalues in increasing order, computed in doubles and rounded to integers."""

    source: Gram
    n_records: int

    def derived(self, sums: IntArray) -> IntArray:
        values = np.linalg.eigvalsh(sums.astype(np.float64))  # proof: separate, step 4
        return np.rint(values).astype(np.int64)

    def squared_distance(self, relation: Neighbours) -> int:
        size = self.n_records, self.source.grid.n_features
        return eigenvalue_sensitivity(*size, self.source.bound, relation) ** 2


def eigenvalue_sensitivity(
    n_records: int, n_features: int, norm_bound: int, neighbours: Neighbours = ONE_REPLACED
) -> int:
    """Return the most that one record moves the rounded, computed, sorted eigenvalues, in l2.

    Of the Gram matrix of integer records of norm at most `norm_bound`, rounded up.
    """
    square = norm_bound**4
    square = neighbours.moved(replaced=2 * square, removed=square)  # proof: separate, step 3
    exact = math.isqrt(square - 1) + 1
    # proof: separate, step 4
    largest = neighbours.allowed_for(n_records) * norm_bound**2
    error = Fraction(EIGENSOLVER * n_features * largest, LARGEST_EXACT_FLOAT) + Fraction(1, 2)
    return exact + math.isqrt(math.ceil(4 * n_features * error**2)) + 1
