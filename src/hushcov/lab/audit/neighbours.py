"""Neighbouring datasets that are as hard to keep apart as a mechanism's proof allows.

The first record is the one that is replaced. What is around it decides how much it shows. `KINDS`
make other neighbours of such a pair: without that record, or with several of one unit in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import hadamard

from hushcov._arrays import FloatArray
from hushcov.accounting import ADD_REMOVE, ONE_REPLACED, REPLACE, Neighbours
from hushcov.exceptions import ParameterError
from hushcov.simulate import gaussian_records, sparse_covariance

HUGE = 1e9  # beyond every clipping radius
UNITS = "units"
_ROWS = 3  # of the unit that changes


@dataclass(frozen=True, eq=False)
class Pair:
    """Two datasets that differ in their first record, and what is special about them.

    They differ in the first records of both, as many as one unit has, where `neighbours` are not
    the usual ones.
    """

    name: str
    first: FloatArray
    second: FloatArray
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        most = self.neighbours.most_rows
        left = most if self.neighbours.relation == REPLACE else 0
        there = len(self.first) - most == len(self.second) - left >= 0
        if not there or not np.array_equal(self.first[most:], self.second[left:]):
            raise ParameterError(
                "second must equal first but for the first record: neighbours differ in one."
            )

    @property
    def n_records(self) -> int:
        """The number of records that a release is planned for."""
        return len(self.first)

    @property
    def before(self) -> FloatArray:
        """A record of the unit that changes."""
        return np.asarray(self.first[0])

    @property
    def after(self) -> FloatArray:
        """Return the record after the change; zeros where it is removed."""
        gone = self.neighbours.relation == ADD_REMOVE
        return np.zeros_like(self.first[0]) if gone else np.asarray(self.second[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.first.shape[1])


def replacement(name: str, before: FloatArray, after: FloatArray, others: FloatArray) -> Pair:
    """A record replaced by another one, in front of records that stay."""
    return Pair(name, np.vstack([before, others]), np.vstack([after, others]))


#: Other neighbours of a pair.
Turn = Callable[[Pair], Pair]


def replaced(pair: Pair) -> Pair:
    """The pair itself."""
    return pair


def removed(pair: Pair) -> Pair:
    """The first record is there, or it is not."""
    return replace(pair, second=pair.first[1:], neighbours=Neighbours(ADD_REMOVE))


def of_unit(pair: Pair) -> Pair:
    """Three records of one unit, all of them replaced."""
    first, second = (
        np.vstack([np.tile(rows[0], (_ROWS, 1)), rows[1:]]) for rows in (pair.first, pair.second)
    )
    return replace(pair, first=first, second=second, neighbours=Neighbours(REPLACE, _ROWS, "unit"))


def unit_removed(pair: Pair) -> Pair:
    """Three records of one unit are there, or they are not."""
    first = of_unit(pair).first
    gone = Neighbours(ADD_REMOVE, _ROWS, "unit")
    return replace(pair, first=first, second=first[_ROWS:], neighbours=gone)


#: Kinds of neighbours that mechanisms are attacked on.
KINDS: dict[str, Turn] = {
    REPLACE: replaced,
    ADD_REMOVE: removed,
    UNITS: of_unit,
    f"{UNITS}-removed": unit_removed,
}


def _alone(name: str, before: FloatArray, after: FloatArray, n_records: int) -> Pair:
    """Return the pair of datasets in which all other records are zero."""
    return replacement(name, before, after, np.zeros((n_records - 1, len(before))))


def opposite(n_records: int, n_features: int, size: float) -> Pair:
    """(R, .., R) against (-R, .., -R), all other records zero: sums move as far as they can."""
    return _alone("opposite", np.full(n_features, size), np.full(n_features, -size), n_records)


def sign_flips(n_records: int, n_features: int, size: float) -> Pair:
    """(R, .., R) against (R, -R, R, -R, ..), all other records zero.

    Half of the products change sign, each by as much as clipped coordinates allow.
    """
    flipped = np.where(np.arange(n_features) % 2 == 0, size, -size)
    return _alone("sign flips", np.full(n_features, size), flipped, n_records)


def sign_flips_among_others(n_records: int, n_features: int, size: float) -> Pair:
    """Flip signs among Gaussian records with correlated features."""
    lone = sign_flips(n_records, n_features, size)
    others = gaussian_records(sparse_covariance("block", n_features, 2), n_records - 1)
    return replacement("flips among others", lone.first[0], lone.second[0], others)


def axes(n_records: int, n_features: int, size: float) -> Pair:
    """A record along one axis against one along another: only squares change."""
    return _alone("axes", size * np.eye(n_features)[0], size * np.eye(n_features)[-1], n_records)


def disjoint(n_records: int, n_features: int, size: float) -> Pair:
    """A record on the first half of the features against one on the second half."""
    before = np.where(np.arange(n_features) < n_features // 2, size, 0.0)
    return _alone("disjoint halves", before, size - before, n_records)


def huge_or_zero(n_records: int, n_features: int) -> Pair:
    """A record far beyond every bound against one of zeros, all others zero."""
    return _alone("huge or zero", np.full(n_features, HUGE), np.zeros(n_features), n_records)


def octaves(n_records: int, n_features: int) -> Pair:
    """A record whose every coordinate is doubled, which moves it to the next bin; others zero."""
    return _alone("octaves", np.ones(n_features), np.full(n_features, 2.0), n_records)


def edge_of_selection(n_features: int, size: float, height: int, lag: int) -> Pair:
    """(R, .., R) against the same with the later half of the signs flipped, at tied scores.

    Pairs (i, j) with i in the first half of the features and j in the second change sign. Records
    with two nonzero coordinates give each of them a score of its own: about `height` and positive
    where i + j is even, so that the first record raises the score and its replacement lowers
    it; about `height + lag` and negative elsewhere, so that it is the other way round.
    """
    half = (n_features + 1) // 2
    before, after = np.full(n_features, size), np.full(n_features, size)
    after[half:] = -size
    others = []
    for i, j in changing_pairs(n_features):
        favoured = (i + j) % 2 == 0
        record = np.zeros(n_features)
        record[i], record[j] = size, size if favoured else -size
        others += [record] * (height if favoured else height + lag)
    return replacement("edge of selection", before, after, np.array(others))


def tied_few(n_records: int, n_features: int) -> Pair:
    """Tie the scores of all pairs: all other records are (1, -1, 1, -1, ..)."""
    pair = edge_of_selection(n_features, 1.0, 1, 0)
    others = np.tile(_alternating(n_features), (n_records - 1, 1))
    return replacement("tied, few records", pair.first[0], pair.second[0], others)


def tied(side: int, height: int) -> Pair:
    """Tie scores of features in two halves of side^2: only pairs that change have scores.

    The scores of pairs across the halves are tied at side * height, with the signs of a Hadamard
    matrix; those within a half are 0. No records of signs have higher scores with that: theirs
    are shifts of a bent function in one half, and rows of the matrix in the other.
    """
    size = side**2
    rows, bent = hadamard(size).astype(np.float64), hadamard(side).astype(np.float64).ravel()
    shifts = bent[np.arange(size)[:, None] ^ np.arange(size)]
    others = np.tile(np.hstack([shifts, rows * (rows @ bent) / side]), (height, 1))
    before, after = np.ones(2 * size), np.repeat([1.0, -1.0], size)
    return replacement("tied pairs", before, after, others)


def raised(n_records: int, n_features: int) -> Pair:
    """One more of (1, -1, 1, -1, ..) against zeros: the scores of all pairs move alike."""
    same = _alternating(n_features)
    others = np.tile(same, (n_records - 1, 1))
    return replacement("all scores", same, np.zeros(n_features), others)


def _alternating(n_features: int) -> FloatArray:
    return np.where(np.arange(n_features) % 2 == 0, 1.0, -1.0)


def changing_pairs(n_features: int) -> list[tuple[int, int]]:
    """The pairs of features whose product changes sign in `edge_of_selection`."""
    half = (n_features + 1) // 2
    return [(i, j) for i in range(half) for j in range(half, n_features)]
