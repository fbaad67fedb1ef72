"""Pairs of features that may covary, where that is public: a band, windows, groups or a list.

All other covariances are taken for zero. Nothing here is ever read from records. Pairs are given by
how far apart columns are, by public positions of features (`pairs_within`), or as people list them:
matrices, arrays, pairs, groups, and files of these (`read_candidates`).
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._files import os_errors
from hushcov._validation import check_integer, check_real, listed, meant, nearest, shown
from hushcov.exceptions import CapacityError, MissingPackageError, ParameterError

#: Pairs that may be given, so that positions and sums of them fit into memory and integers.
MOST_CANDIDATES = 2**31
_CURE = (
    "pass a sparse matrix, pairs or groups of columns by name or position, or the path of a file "
    "with them."
)
_LEAST_ROOM = 1_000_000  # numbers or words that a file may always have
# Of a number of a sparse matrix: its value and two places. Of all headers of its arrays together.
_BYTES, _MOST_HEADERS = 32, 2**16
_MOST_DIGITS = 20
_SIGNS = ("\t", ",", ";")  # between the words of a line; blanks where there is none

_BAND_CURE = "it is how many columns apart two features can be that covary."
_DISTANCE_CURE = "it is how far apart two features can be that covary, in the unit of positions."
_POSITIONS_CURE = "give one for each column, or a row of coordinates, in the order of the columns."
_ROUNDINGS = 4

Pairs = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs i < j of features, row by row: those of feature i are `columns[starts[i]:starts[i+1]]`.

    `bandwidth` is given where they are all pairs that many columns apart or less. Pairs without
    columns are windows: each feature is paired with those that follow it. Bands and windows take no
    memory for pairs until they are asked for. Make them by `band`, `windows`, `of_pairs`, or
    `read_candidates` from what people pass.
    """

    n_features: int
    bandwidth: int | None = None
    _starts: IntArray | None = None
    _columns: IntArray | None = None

    @classmethod
    def band(cls, n_features: int, bandwidth: object) -> Candidates:
        """Return all pairs at most so many columns apart."""
        width = check_integer("bandwidth", bandwidth, at_least=0, cure=_BAND_CURE)
        return cls(n_features, min(width, max(0, n_features - 1)))

    @classmethod
    def of_pairs(cls, n_features: int, rows: IntArray, columns: IntArray) -> Candidates:
        """Return these pairs, given in any order; pairs that are named twice count once."""
        if len(rows):
            low, high = min(rows.min(), columns.min()), max(rows.max(), columns.max())
            if low < 0 or high >= n_features:
                raise ParameterError(
                    f"candidate_pairs must have positions from 0 to {n_features - 1}, got others: "
                    "columns are counted from 0. Give pairs, no table of records."
                )
        if np.any(rows == columns):
            raise ParameterError(
                "candidate_pairs must be of two features each, got a feature with itself: leave "
                "such pairs out. Variances are always released."
            )
        flat = np.minimum(rows, columns).astype(np.int64)
        flat *= n_features
        flat += np.maximum(rows, columns).astype(np.int64)
        if not np.all(flat[1:] > flat[:-1]):
            flat.sort()  # several times quicker than np.unique
            flat = flat[np.append(True, flat[1:] != flat[:-1])]
        counts = np.bincount(flat // n_features, minlength=n_features)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(n_features, None, starts, (flat % n_features).astype(np.int64))

    @classmethod
    def windows(cls, ends: IntArray) -> Candidates:
        """Pair each feature with all later ones before its end, which never comes earlier again."""
        d = len(ends)
        counts = np.maximum(ends - np.arange(d) - 1, 0)
        return cls(d, None, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def __post_init__(self) -> None:
        check_most(self.n_pairs)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        if self.bandwidth is None:
            return int(self.starts[-1])
        d, w = self.n_features, self.bandwidth
        return d * w - w * (w + 1) // 2

    @cached_property
    def starts(self) -> IntArray:
        """First place of the pairs of each feature with later ones, and the end of the last."""
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
        """Most columns between the two features of a pair."""
        if self.bandwidth is not None:
            return self.bandwidth
        rows, columns = self.pairs
        return int((columns - rows).max(initial=0))

    @cached_property
    def contiguous(self) -> bool:
        """True if each feature is paired with all later ones up to some other: a window."""
        if self._columns is None:
            return True
        windows = Candidates(self.n_features, None, self.starts)
        return bool(np.array_equal(self._columns, windows.pairs[1]))

    @cached_property
    def degrees(self) -> IntArray:
        """Number of pairs of each feature."""
        later = np.diff(self.starts)
        if self.bandwidth is not None:
            return np.asarray(later + later[::-1])
        return np.asarray(later + np.bincount(self.pairs[1], minlength=self.n_features))

    @property
    def row_sparsity(self) -> int:
        """Most entries of a row that may be nonzero, the diagonal included."""
        return 1 + int(self.degrees.max(initial=0))

    @property
    def typical_row_sparsity(self) -> int:
        """Entries of a row on average, the diagonal included, rounded up."""
        return 1 - (-2 * self.n_pairs // max(1, self.n_features))

    def row_sparsity_of(self, declared: object) -> int:
        """Return the row sparsity that a declared one means here: that on average, or less."""
        own = max(1, min(self.n_features, self.typical_row_sparsity))
        if declared is None:
            return own
        cure = f"it counts the nonzeros of a row, the diagonal included; these pairs have {own}."
        given = check_integer(
            "row_sparsity", declared, at_least=1, at_most=self.n_features, cure=cure
        )
        return min(given, own)

    def to_dict(self) -> dict[str, Any]:
        """Return the words of a release: the band, or how many with their fingerprint."""
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
        """A description in a few words."""
        if self.bandwidth is not None:
            return f"pairs at most {self.bandwidth:,} columns apart"
        return f"{self.n_pairs:,} pairs that were named"

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same pairs."""
        if not isinstance(other, Candidates):
            return NotImplemented
        if (self.n_features, self.n_pairs) != (other.n_features, other.n_pairs):
            return False
        same_band = self.bandwidth is not None and self.bandwidth == other.bandwidth
        return same_band or all(map(np.array_equal, self.pairs, other.pairs))

    def __hash__(self) -> int:
        return hash((self.n_features, self.n_pairs))


def read_candidates(
    n_features: int,
    *,
    bandwidth: object = None,
    candidate_pairs: Any = None,
    names: Sequence[str] | None = None,
) -> Candidates | None:
    """Return the pairs that people say may covary; None where they say nothing.

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
    if not isinstance(candidate_pairs, Candidates):
        pairs = _listed_pairs(candidate_pairs, n_features, names)
        return Candidates.of_pairs(n_features, *pairs)
    if candidate_pairs.n_features != n_features:
        raise ParameterError(
            f"candidate_pairs must be of {n_features:,} features, got "
            f"{candidate_pairs.n_features:,}: make them for the columns of this table."
        )
    return candidate_pairs


def _listed_pairs(given: Any, n_features: int, names: Sequence[str] | None) -> Pairs:
    """Return both features of each pair that was given, in any form; see `read_candidates`."""
    if isinstance(given, str | os.PathLike):
        return _of_file(Path(given), n_features, names)
    if hasattr(given, "tocoo"):
        return _of_matrix(given, n_features)
    if hasattr(given, "itertuples"):  # a data frame
        whole = given.to_numpy()
        given = whole if whole.dtype.kind in "biu" else list(given.itertuples(index=False))
    if isinstance(given, np.ndarray):
        return _of_array(given, n_features, names)
    if isinstance(given, Mapping):
        groups = [_group(each) for each in given.values()]
        return _of_groups([each for each in groups if len(each) != 1], n_features, names)
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise ParameterError(f"candidate_pairs must be pairs, got {shown(given)}: {_CURE}")
    return _of_groups([_group(each) for each in given], n_features, names)


def check_most(n_pairs: int) -> None:
    """Refuse more pairs than fit into memory and integers."""
    if n_pairs > MOST_CANDIDATES:
        raise CapacityError(
            f"candidate pairs must be at most 2**31, got {n_pairs:,}: use a smaller bandwidth "
            "or distance, fewer pairs or smaller groups."
        )


def _of_matrix(matrix: Any, n_features: int) -> Pairs:
    """The nonzeros of a square matrix, above or below its diagonal, or both."""
    if tuple(matrix.shape) != (n_features, n_features):
        raise ParameterError(
            f"candidate_pairs must have {n_features:,} rows and columns, got shape "
            f"{tuple(matrix.shape)}: give one for each feature, in the order of the columns."
        )
    found = matrix.tocoo()
    rows, columns = (np.asarray(each) for each in (found.row, found.col))
    there: BoolArray = (rows != columns) & (np.asarray(found.data) != 0)
    return rows[there], columns[there]


def _of_array(given: Any, n_features: int, names: Sequence[str] | None) -> Pairs:
    """A square boolean matrix, integers with a pair in each row, or names in rows."""
    if given.ndim == 2 and given.dtype == bool:
        from scipy import sparse

        return _of_matrix(sparse.coo_array(given), n_features)
    if given.ndim == 2 and given.dtype.kind in "UO":
        return _of_groups([_group(each) for each in given.tolist()], n_features, names)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        kind = "fields with names" if given.dtype.names else given.dtype
        raise ParameterError(
            f"candidate_pairs must be a square array of booleans or integers with two columns, got "
            f"{kind} of shape {given.shape}: {_CURE}"
        )
    return given[:, 0], given[:, 1]


def _group(given: Any) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ParameterError(
            f"candidate_pairs must be a list of pairs or groups, got {shown(given)} in it: {_CURE}"
        )
    return [each.item() if isinstance(each, np.generic) else each for each in given]


def _of_groups(
    groups: Sequence[Sequence[Any]], n_features: int, names: Sequence[str] | None
) -> Pairs:
    """All pairs within each group of columns."""
    check_most(sum(len(group) * (len(group) - 1) // 2 for group in groups))
    place = _places({each for group in groups for each in group}, n_features, names)
    pairs = np.array(
        [[place[each] for each in group] for group in groups if len(group) == 2], dtype=np.int64
    ).reshape(-1, 2)
    rows, columns = [pairs[:, 0]], [pairs[:, 1]]
    for group in groups:
        if len(group) != 2:
            found = np.unique([place[each] for each in group])
            i, j = np.triu_indices(len(found), 1)
            rows.append(found[i])
            columns.append(found[j])
        if len(group) < 2 or len({place[each] for each in group}) != len(group):
            raise ParameterError(
                "candidate_pairs must be of two or more different features each, got "
                f"{listed([str(each) for each in group]) or 'none'}: leave it out. Variances are "
                "always released."
            )
    return np.concatenate(rows), np.concatenate(columns)


def _places(wanted: set[Any], n_features: int, names: Sequence[str] | None) -> dict[Any, int]:
    """Return places of columns that were named or counted from 0; unknown ones are said at once."""
    known = {} if names is None else {name: i for i, name in enumerate(names)}
    found: dict[Any, int] = {}
    unknown: list[Any] = []
    for each in wanted:
        name = meant(each, known) if isinstance(each, str) else None
        if name is not None:
            found[each] = known[name]
        elif isinstance(each, int) and not isinstance(each, bool) and 0 <= each < n_features:
            found[each] = each
        else:
            unknown.append(each)
    if not unknown:
        return found
    words = sorted(str(each) for each in unknown)
    if any(map(_is_fraction, words)):
        raise ParameterError(
            "candidate_pairs must name features, got numbers with a fraction: give pairs, no table "
            "of records, and leave weights out."
        )
    close = nearest(words[:3], known)
    hint = f"did you mean {', '.join(map(shown, close))}?" if close else _CURE
    counted = any(isinstance(each, int) for each in unknown)
    why = f" (positions are from 0 to {n_features - 1})" if counted else ""
    if names is None and any(isinstance(each, str) for each in unknown):
        why = " (the columns have no names: give positions)"
    raise ParameterError(
        f"candidate_pairs must name features, got unknown {listed(words)}{why}: {hint}"
    )


def _is_fraction(word: str) -> bool:
    """Return whether a word may be a value of a record, which no message quotes."""
    try:
        float(word)
    except ValueError:
        return False
    return not word.lstrip("-").isdecimal()


def _of_file(path: Path, n_features: int, names: Sequence[str] | None) -> Pairs:
    """Read a file: a sparse matrix, or a pair or group in each row."""
    kind = path.suffix.lower()
    with os_errors(path, "read", ParameterError), path.open("rb"):
        pass
    most = max(_LEAST_ROOM, 2 * n_features**2)  # numbers or words: each pair twice, and room
    try:
        if kind == ".npz":
            return _of_matrix(_stored_matrix(path, most), n_features)
        if kind == ".npy":
            found = np.load(path, mmap_mode="r", allow_pickle=False)  # no longer than the file
            _check_room(path, found.size, most)
            return _of_array(np.array(found), n_features, names)
        counted = not any(map(str.isdecimal, names or ()))  # no number is a name
        parquet = kind == ".parquet"
        rows = _parquet_rows(path, most) if parquet else _text_rows(path, counted=counted)
    except (ParameterError, CapacityError, MissingPackageError, MemoryError):
        raise
    except Exception as error:  # readers let errors of many types through
        raise ParameterError(
            f"candidate_pairs must be a file of pairs, {path} cannot be read as "
            f"{kind[1:] or 'text'} ({type(error).__name__}): write a sparse matrix by "
            "scipy.sparse.save_npz, or text in UTF-8 or Parquet with a pair or group in each row."
        ) from None
    if isinstance(rows, np.ndarray):
        return _of_array(rows, n_features, names)
    if not rows:
        raise ParameterError(
            f"candidate_pairs must be a file of pairs, {path} has none: write a pair or a group of "
            "columns in each line."
        )
    return _of_groups(_read_words(rows, names), n_features, names)


def _check_room(path: Path, size: int, most: int) -> None:
    """Refuse a file that says it holds more than pairs of so many features can be."""
    if size > most:
        raise CapacityError(
            f"candidate_pairs must be at most {most:,} numbers or names for the features of this "
            f"table, {path} holds more: list each pair once."
        )


def _stored_matrix(path: Path, most: int) -> Any:
    """The sparse matrix of a .npz file; its table of contents is believed, and no more is read."""
    import zipfile

    from scipy import sparse

    with path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            sizes = [each.file_size for each in archive.infolist()]
        _check_room(path, (sum(sizes) - _MOST_HEADERS) // _BYTES, most)
        file.seek(0)
        return sparse.load_npz(file)


def _parquet_rows(path: Path, most: int) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingPackageError("Parquet files", "pyarrow", "files") from None
    about = parquet.read_metadata(path)
    _check_room(path, about.num_rows * about.num_columns, most)
    table = parquet.read_table(path).columns
    columns = [column.to_numpy() for column in table]
    if len(columns) == 2 and all(each.dtype.kind in "iu" for each in columns):
        return np.stack(columns, axis=1)
    found = zip(*(each.to_pylist() for each in table), strict=True)  # nulls make no integer a float
    return [[each for each in row if each is not None] for row in found]


def _text_rows(path: Path, *, counted: bool) -> Any:
    """The words of each line; an array where there are only pairs of numbers, `counted` ones."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        first = next(_lines(lines), "")
        sign = next((sign for sign in _SIGNS if sign in first), None)
        words = _words([first], sign)[:1]
        if counted and words and len(words[0]) == 2 and all(map(str.isdecimal, words[0])):
            lines.seek(0)
            try:
                return np.loadtxt(lines, np.int64, delimiter=sign, ndmin=2)
            except ValueError:
                pass  # the slow way says what is wrong, or takes groups
        lines.seek(0)
        return _words(_lines(lines), sign)


def _lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are not empty and no remarks."""
    return (line for line in lines if line.strip() and not line.startswith("#"))


def _words(lines: Iterable[str], sign: str | None) -> list[list[str]]:
    split = (line.split() for line in lines) if sign is None else csv.reader(lines, delimiter=sign)
    found = ([word.strip() for word in row] for row in split)
    return [[word for word in row if word] for row in found if any(row)]


def _read_words(rows: list[list[Any]], names: Sequence[str] | None) -> list[list[Any]]:
    """Rows of a file, with integers for words that are positions, and without a line of titles.

    Words are names where one of them is; then a number is a name, too, or refused: a third column
    with weights is no position. The first line is titles if no word of it is or resembles a name,
    and it is no position.
    """
    known = set(names or ())

    def is_title(word: Any) -> bool:
        if not isinstance(word, str) or word in known or word.isdecimal():
            return False
        return not difflib.get_close_matches(word, known, 1, 0.8)

    def is_position(word: Any) -> bool:
        return isinstance(word, str) and word.isdecimal() and len(word) <= _MOST_DIGITS

    texts = {each for row in rows for each in row if isinstance(each, str)}
    if len(rows) > 1 and all(map(is_title, rows[0])):
        rows, texts = rows[1:], texts - set(rows[0])
    if texts & known:
        return rows
    return [[int(each) if is_position(each) else each for each in row] for row in rows]


def pairs_within(
    positions: npt.ArrayLike, distance: float, *, groups: npt.ArrayLike | None = None
) -> Candidates:
    """Return all pairs of features at most so far apart, for `candidate_pairs=`.

    Parameters
    ----------
    positions : array-like of shape (n_features,) or (n_features, n_coordinates)
        Where each feature is, in the order of the columns: base pairs of variants, minutes of a
        day, metres along a chain; or coordinates, as those of sensors on a map. Distances between
        coordinates are Euclidean. They need not be sorted, and must be public.
    distance : float
        Pairs that are exactly this far apart count.
    groups : array-like of shape (n_features,), optional
        Pairs are within a group only: the chromosome of each variant, the building of each sensor.

    Returns
    -------
    Candidates
        Sorted positions on a line give windows of columns.

    Privacy
    -------
    Positions, distance and groups are taken for public, and no record is read.

    Examples
    --------
    >>> from hushcov import pairs_within
    >>> found = pairs_within([100, 180, 900, 950], 100)
    >>> [(int(i), int(j)) for i, j in zip(*found.pairs)]
    [(0, 1), (2, 3)]
    >>> pairs_within([[0, 0], [3, 4], [30, 40]], 5).n_pairs
    1
    """
    reach = check_real("distance", distance, above=0, or_zero=True, cure=_DISTANCE_CURE)
    found = _as_array("positions", positions)
    if found.ndim not in (1, 2) or found.dtype.kind not in "iuf":
        raise ParameterError(
            "positions must be numbers, or rows of coordinates, got "
            f"{found.dtype} of shape {found.shape}: {_POSITIONS_CURE}"
        )
    where = found.astype(np.float64)
    if not np.isfinite(where).all():
        raise ParameterError(
            "positions must be finite: give one for each column, or leave the column out."
        )
    # Decimals are rounded, and 0.7 and 0.8 are to be 0.1 apart.
    reach += _ROUNDINGS * float(np.spacing(np.abs(where).max(initial=0.0) + reach))
    members = _members(groups, len(where))
    order = np.lexsort((where, members)) if where.ndim == 1 else np.argsort(members, kind="stable")
    borders = np.searchsorted(members[order], np.arange(members.max(initial=-1) + 2))
    pair_up = _on_a_line if where.ndim == 1 else _in_space
    return pair_up(where, reach, order, list(itertools.pairwise(borders.tolist())))


def _members(given: npt.ArrayLike | None, n_features: int) -> IntArray:
    """The group of each feature, as a number."""
    if given is None:
        return np.zeros(n_features, dtype=np.int64)
    found = _as_array("groups", given)
    if found.shape != (n_features,):
        raise ParameterError(
            f"groups must have one for each of {n_features:,} positions, got shape {found.shape}: "
            "name the group of every feature."
        )
    # Of objects of several kinds there is no order, but they have texts.
    named = found.astype(str) if found.dtype.kind == "O" else found
    return np.unique(named, return_inverse=True)[1].astype(np.int64)


def _as_array(name: str, given: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:
        raise ParameterError(
            f"{name} must be an array, got rows of different lengths: {_POSITIONS_CURE}"
        ) from None


def _on_a_line(
    where: FloatArray, reach: float, order: IntArray, borders: Sequence[tuple[int, int]]
) -> Candidates:
    """Pair each feature, sorted within its group, with those that follow until one is too far."""
    d = len(where)
    ends = np.empty(d, dtype=np.int64)
    for start, stop in borders:
        line = where[order[start:stop]]
        ends[start:stop] = start + np.searchsorted(line, line + reach, side="right")
    windows = Candidates.windows(ends)
    if np.array_equal(order, np.arange(d)):
        return windows
    rows, columns = windows.pairs
    return Candidates.of_pairs(d, order[rows], order[columns])


def _in_space(
    where: FloatArray, reach: float, order: IntArray, borders: Sequence[tuple[int, int]]
) -> Candidates:
    """Pair features by a tree for each group; pairs are counted before any is listed."""
    from scipy.spatial import cKDTree

    found, total = [np.empty((0, 2), dtype=np.int64)], 0
    for start, stop in borders:
        group = order[start:stop]
        tree = cKDTree(where[group])
        total += (int(tree.count_neighbors(tree, reach)) - len(group)) // 2
        check_most(total)
        found.append(group[tree.query_pairs(reach, output_type="ndarray")])
    return Candidates.of_pairs(len(where), *np.concatenate(found).T)
