"""Which pairs of features may covary, where that is public: a band, windows, groups or a list.

All other covariances are taken for zero. Nothing here is ever read from records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushcov._arrays import IntArray
from hushcov._validation import check_integer
from hushcov.exceptions import ParameterError

_BAND_CURE = "it is how many columns apart two features can be that covary."


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs i < j of features, row by row: those of feature i are `columns[starts[i]:starts[i+1]]`.

    `bandwidth` is given where they are all pairs that many columns apart or less; such pairs take
    no memory until they are asked for. Make them by `band`, `of_pairs`, or `read_candidates` from
    what people pass.
    """

    n_features: int
    bandwidth: int | None = None
    _starts: IntArray | None = None
    _columns: IntArray | None = None

    @classmethod
    def band(cls, n_features: int, bandwidth: object) -> Candidates:
        """All pairs at most so many columns apart."""
        width = check_integer("bandwidth", bandwidth, at_least=0, cure=_BAND_CURE)
        made = cls(n_features, min(width, max(0, n_features - 1)))
        return made._checked()

    @classmethod
    def of_pairs(cls, n_features: int, rows: IntArray, columns: IntArray) -> Candidates:
        """These pairs, in any order; pairs that are named twice count once."""
        from hushcov._listed_pairs import check_pairs

        check_pairs(rows, columns, n_features)
        flat = np.minimum(rows, columns).astype(np.int64)
        flat *= n_features
        flat += np.maximum(rows, columns).astype(np.int64)
        if not np.all(flat[1:] > flat[:-1]):
            flat.sort()  # several times quicker than np.unique
            flat = flat[np.append(True, flat[1:] != flat[:-1])]
        counts = np.bincount(flat // n_features, minlength=n_features)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(n_features, None, starts, (flat % n_features).astype(np.int64))._checked()

    @classmethod
    def windows(cls, ends: IntArray) -> Candidates:
        """Each feature with all later ones before its end, which never comes earlier again."""
        from hushcov._listed_pairs import check_most

        d = len(ends)
        counts = np.maximum(ends - np.arange(d) - 1, 0)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        check_most(int(starts[-1]))
        rows = np.repeat(np.arange(d), counts)
        columns = rows + 1 + np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return cls(d, None, starts, columns)

    def _checked(self) -> Candidates:
        from hushcov._listed_pairs import check_most

        check_most(self.n_pairs)
        return self

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        if self.bandwidth is None:
            assert self._columns is not None
            return len(self._columns)
        d, w = self.n_features, self.bandwidth
        return d * w - w * (w + 1) // 2

    @cached_property
    def starts(self) -> IntArray:
        """Where the pairs of each feature with later ones begin; one number more than features."""
        if self._starts is not None:
            return self._starts
        assert self.bandwidth is not None
        counts = np.minimum(self.bandwidth, np.arange(self.n_features - 1, -1, -1))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @property
    def ends(self) -> IntArray:
        """For windows: the feature after the last one that each feature is paired with."""
        if not self.contiguous:
            raise ParameterError("candidate pairs must be windows of columns: use a bandwidth.")
        return np.asarray(np.arange(self.n_features) + 1 + np.diff(self.starts))

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of all pairs, i < j, row by row; made anew each time."""
        counts = np.diff(self.starts)
        rows = np.repeat(np.arange(self.n_features), counts)
        if self._columns is not None:
            return rows, self._columns
        within = np.arange(self.n_pairs) - np.repeat(self.starts[:-1], counts)
        return rows, rows + 1 + within

    def pairs_at(self, places: IntArray) -> tuple[IntArray, IntArray]:
        """Rows and columns of the pairs at these positions in `pairs`."""
        rows = np.searchsorted(self.starts, places, side="right") - 1
        if self._columns is not None:
            return rows, self._columns[places]
        return rows, rows + 1 + (places - self.starts[rows])

    @cached_property
    def reach(self) -> int:
        """How many columns apart the two features of a pair are at most."""
        if self.bandwidth is not None:
            return self.bandwidth
        rows, columns = self.pairs
        return int((columns - rows).max(initial=0))

    @cached_property
    def contiguous(self) -> bool:
        """Whether each feature is paired with all later ones up to some other: a window."""
        if self.bandwidth is not None:
            return True
        rows, columns = self.pairs
        expected = rows + 1 + np.arange(len(rows)) - np.repeat(self.starts[:-1], self._counts)
        return bool(np.array_equal(columns, expected))

    @property
    def _counts(self) -> IntArray:
        return np.diff(self.starts)

    @cached_property
    def degrees(self) -> IntArray:
        """In how many pairs each feature is."""
        if self.bandwidth is not None:
            place, d = np.arange(self.n_features), self.n_features
            w = self.bandwidth
            return np.minimum(place, w) + np.minimum(d - 1 - place, w)
        assert self._columns is not None
        later = np.bincount(self._columns, minlength=self.n_features)
        return np.asarray(self._counts + later)

    @property
    def row_sparsity(self) -> int:
        """Most entries of a row that may be nonzero, the diagonal included."""
        return 1 + int(self.degrees.max(initial=0))

    @property
    def typical_row_sparsity(self) -> int:
        """The same on average, rounded up: no fewer rows than this times half of it hold them."""
        return 1 - (-2 * self.n_pairs // max(1, self.n_features))

    def row_sparsity_of(self, declared: object) -> int:
        """What a declared row sparsity means here: their own on average, or less."""
        own = max(1, min(self.n_features, self.typical_row_sparsity))
        if declared is None:
            return own
        cure = f"it counts the nonzeros of a row, the diagonal included; these pairs have {own}."
        given = check_integer(
            "row_sparsity", declared, at_least=1, at_most=self.n_features, cure=cure
        )
        return min(given, own)

    def to_dict(self) -> dict[str, Any]:
        """What a release says of them: the band, or how many with their fingerprint."""
        if self.bandwidth is not None:
            return {"bandwidth": self.bandwidth}
        return {"candidate_pairs": self.n_pairs, "fingerprint": self.fingerprint}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pairs, so that two lists can be told apart."""
        rows, columns = self.pairs
        return hashlib.sha256(np.stack([rows, columns]).astype("<i8").tobytes()).hexdigest()

    @property
    def words(self) -> str:
        """What they are, in a few words."""
        if self.bandwidth is not None:
            return f"pairs at most {self.bandwidth:,} columns apart"
        return f"{self.n_pairs:,} pairs that were named"

    def __eq__(self, other: object) -> bool:
        """Whether these are the same pairs."""
        if not isinstance(other, Candidates):
            return NotImplemented
        if self.n_features != other.n_features or self.n_pairs != other.n_pairs:
            return False
        if self.bandwidth is not None and self.bandwidth == other.bandwidth:
            return True
        return all(map(np.array_equal, self.pairs, other.pairs))

    def __hash__(self) -> int:
        return hash((self.n_features, self.n_pairs))


def read_candidates(
    n_features: int,
    *,
    bandwidth: object = None,
    candidate_pairs: Any = None,
    names: Sequence[str] | None = None,
) -> Candidates | None:
    """The pairs that people say may covary; None where they say nothing.

    `candidate_pairs` is a square sparse matrix or boolean array whose nonzeros are pairs; integers
    with a pair in each row; pairs or groups of columns, by name or position, of which all pairs
    within a group count; a mapping whose values are such groups; or the path of a file with one of
    them (`.npz` of a sparse matrix, `.npy`, or text or Parquet with a pair or a group in each row).
    """
    if bandwidth is None and candidate_pairs is None:
        return None
    if bandwidth is not None and candidate_pairs is not None:
        raise ParameterError(
            "bandwidth and candidate_pairs must not be given both: each says which pairs may "
            "covary. Give one of them."
        )
    if bandwidth is not None:
        return Candidates.band(n_features, bandwidth)
    if isinstance(candidate_pairs, Candidates):
        return _same_size(candidate_pairs, n_features)
    from hushcov._listed_pairs import listed_pairs

    pairs = listed_pairs(candidate_pairs, n_features, names)
    return Candidates.of_pairs(n_features, *pairs)


def _same_size(given: Candidates, n_features: int) -> Candidates:
    if given.n_features != n_features:
        raise ParameterError(
            f"candidate_pairs must be of {n_features:,} features, got {given.n_features:,}: make "
            "them for the columns of this table."
        )
    return given
