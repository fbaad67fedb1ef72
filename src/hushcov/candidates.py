"""Which pairs of features may covary, where that is public: a band, windows, groups or a list.

All other covariances are taken for zero. Nothing here is ever read from records.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray, IntArray
from hushcov._validation import check_integer, listed, shown
from hushcov.exceptions import CapacityError, ParameterError

#: Pairs that may be given, so that positions and sums of them fit into memory and integers.
MOST_CANDIDATES = 2**31
_BAND_CURE = "it is how many columns apart two features can be that covary."
_CURE = (
    "pass a sparse matrix, pairs or groups of columns by name or position, or the path of a file "
    "with them."
)


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
        low = np.minimum(rows, columns).astype(np.int64)
        high = np.maximum(rows, columns).astype(np.int64)
        flat = np.unique(low * n_features + high)
        counts = np.bincount(flat // n_features, minlength=n_features)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(n_features, None, starts, (flat % n_features).astype(np.int64))._checked()

    @classmethod
    def windows(cls, ends: IntArray) -> Candidates:
        """Each feature with all later ones before `ends[i]`, which is at least i + 1."""
        counts = ends - np.arange(len(ends)) - 1
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        check_number(int(starts[-1]))
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        columns = np.repeat(np.arange(1, len(ends) + 1), counts) + within
        return cls(len(ends), None, starts, columns)

    def _checked(self) -> Candidates:
        check_number(self.n_pairs)
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


def check_number(n_pairs: int) -> None:
    """Refuse more pairs than fit."""
    if n_pairs > MOST_CANDIDATES:
        raise CapacityError(
            f"candidate pairs must be at most 2**31, got {n_pairs:,}: use a smaller bandwidth or "
            "distance, or fewer pairs."
        )


def read_candidates(
    n_features: int,
    *,
    bandwidth: object = None,
    candidate_pairs: Any = None,
    names: Sequence[str] | None = None,
) -> Candidates | None:
    """The pairs that people say may covary; None where they say nothing.

    `candidate_pairs` is a square sparse matrix or boolean array whose nonzeros are pairs; pairs or
    groups of columns, by name or position, of which all pairs within a group count; a mapping whose
    values are such groups; or the path of a file with one of them (`.npz` of a sparse matrix, or
    text or Parquet with a pair or a group in each row).
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
    if isinstance(candidate_pairs, str | Path):
        candidate_pairs = _from_file(Path(candidate_pairs))
    if hasattr(candidate_pairs, "tocoo"):
        return _of_matrix(candidate_pairs, n_features)
    if isinstance(candidate_pairs, np.ndarray):
        return _of_array(candidate_pairs, n_features)
    if isinstance(candidate_pairs, Mapping):
        candidate_pairs = list(candidate_pairs.values())
    if not isinstance(candidate_pairs, Iterable) or isinstance(candidate_pairs, bytes):
        raise ParameterError(
            f"candidate_pairs must be pairs, got {shown(candidate_pairs)}: {_CURE}"
        )
    return _of_groups(candidate_pairs, n_features, names)


def _same_size(given: Candidates, n_features: int) -> Candidates:
    if given.n_features != n_features:
        raise ParameterError(
            f"candidate_pairs must be of {n_features:,} features, got {given.n_features:,}: make "
            "them for the columns of this table."
        )
    return given


def _of_matrix(matrix: Any, n_features: int) -> Candidates:
    """The nonzeros of a square matrix, above or below its diagonal, or both."""
    if matrix.shape != (n_features, n_features):
        raise ParameterError(
            f"candidate_pairs must have {n_features:,} rows and columns, got shape "
            f"{tuple(matrix.shape)}: give one for each feature, in the order of the columns."
        )
    found = matrix.tocoo()
    rows, columns = (np.asarray(each) for each in (found.row, found.col))
    there: BoolArray = (rows != columns) & (np.asarray(found.data) != 0)
    return Candidates.of_pairs(n_features, rows[there], columns[there])


def _of_array(given: Any, n_features: int) -> Candidates:
    """A square boolean matrix, or integers with a pair in each row."""
    if given.ndim == 2 and given.dtype == bool and given.shape[0] == given.shape[1]:
        from scipy import sparse

        return _of_matrix(sparse.coo_array(given), n_features)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise ParameterError(
            f"candidate_pairs must be a square array of booleans or integers with two columns, got "
            f"{given.dtype} of shape {given.shape}: {_CURE}"
        )
    _check_positions(given, n_features)
    if np.any(given[:, 0] == given[:, 1]):
        raise ParameterError(
            "candidate_pairs must be of two features each, got a feature with itself: leave such "
            "pairs out. Variances are always released."
        )
    return Candidates.of_pairs(n_features, given[:, 0], given[:, 1])


def _check_positions(given: IntArray, n_features: int) -> None:
    if given.size and not (given.min() >= 0 and given.max() < n_features):
        raise ParameterError(
            f"candidate_pairs must have positions from 0 to {n_features - 1}, got "
            f"{shown(int(given.max() if given.max() >= n_features else given.min()))}: columns are "
            "counted from 0."
        )


def _of_groups(given: Iterable[Any], n_features: int, names: Sequence[str] | None) -> Candidates:
    """All pairs within each group of columns."""
    groups = [_group(each) for each in given]
    place = _places({each for group in groups for each in group}, n_features, names)
    rows, columns = [], []
    for group in groups:
        found = np.unique([place[each] for each in group])
        if len(found) != len(group) or len(found) < 2:
            raise ParameterError(
                "candidate_pairs must be of two or more different features each, got "
                f"{listed([str(each) for each in group])}: variances are always released."
            )
        i, j = np.triu_indices(len(found), 1)
        rows.append(found[i])
        columns.append(found[j])
    empty = np.empty(0, dtype=np.int64)
    return Candidates.of_pairs(
        n_features, np.concatenate([empty, *rows]), np.concatenate([empty, *columns])
    )


def _group(given: Any) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ParameterError(
            f"candidate_pairs must be a list of pairs or groups, got {shown(given)} in it: {_CURE}"
        )
    return [each.item() if isinstance(each, np.generic) else each for each in given]


def _places(wanted: set[Any], n_features: int, names: Sequence[str] | None) -> dict[Any, int]:
    """Where columns are that were named, or counted from 0; all unknown ones are said at once."""
    known = {} if names is None else {name: i for i, name in enumerate(names)}
    found: dict[Any, int] = {}
    unknown: list[Any] = []
    for each in wanted:
        if isinstance(each, str) and each in known:
            found[each] = known[each]
        elif isinstance(each, int) and not isinstance(each, bool) and 0 <= each < n_features:
            found[each] = each
        else:
            unknown.append(each)
    if unknown:
        unknown.sort(key=str)
        words = [str(each) for each in unknown]
        close = [c for word in words[:3] for c in difflib.get_close_matches(word, known, 1)]
        hint = f"did you mean {', '.join(map(shown, close))}?" if close else _CURE
        nameless = names is None and any(isinstance(each, str) for each in unknown)
        why = " (the columns have no names: give positions)" if nameless else ""
        raise ParameterError(
            f"candidate_pairs must name features, there is no {listed(words)}{why}: {hint}"
        )
    return found


def _from_file(path: Path) -> Any:
    """What a file has: a sparse matrix, or a pair or group in each row."""
    from hushcov._files import os_errors

    with os_errors(path, "read", ParameterError):
        if path.suffix == ".npz":
            from scipy import sparse

            return sparse.load_npz(path)
        if path.suffix == ".parquet":
            from pyarrow import parquet

            table = parquet.read_table(path)
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return _lines(path.read_text(encoding="utf-8"))


def _lines(text: str) -> list[list[Any]]:
    """A pair or group in each line, separated by tabs, commas or blanks."""
    found = []
    for line in text.splitlines():
        sign = next((sign for sign in ("\t", ",") if sign in line), None)
        words = [word.strip() for word in line.split(sign)]
        if any(words) and not line.startswith("#"):
            found.append([int(word) if word.isdecimal() else word for word in words if word])
    return found
