"""Pairs of features as people list them: matrices, arrays, pairs, groups, and files of these."""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray, IntArray
from hushcov._files import os_errors
from hushcov._validation import listed, shown
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

Pairs = tuple[IntArray, IntArray]


def listed_pairs(given: Any, n_features: int, names: Sequence[str] | None) -> Pairs:
    """Both features of each pair that was given, in any form; see `read_candidates`."""
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


def check_pairs(rows: IntArray, columns: IntArray, n_features: int) -> None:
    """Refuse what is no pair of two features."""
    if not len(rows):
        return
    low, high = min(rows.min(), columns.min()), max(rows.max(), columns.max())
    if low < 0 or high >= n_features:
        raise ParameterError(
            f"candidate_pairs must have positions from 0 to {n_features - 1}, got others: columns "
            "are counted from 0. Give pairs, no table of records."
        )
    if np.any(rows == columns):
        raise ParameterError(
            "candidate_pairs must be of two features each, got a feature with itself: leave such "
            "pairs out. Variances are always released."
        )


def _of_matrix(matrix: Any, n_features: int) -> Pairs:
    """The nonzeros of a square matrix, above or below its diagonal, or both."""
    _check_square(matrix.shape, n_features)
    found = matrix.tocoo()
    rows, columns = (np.asarray(each) for each in (found.row, found.col))
    there: BoolArray = (rows != columns) & (np.asarray(found.data) != 0)
    return rows[there], columns[there]


def _of_array(given: Any, n_features: int, names: Sequence[str] | None) -> Pairs:
    """A square boolean matrix, integers with a pair in each row, or names in rows."""
    if given.ndim == 2 and given.dtype == bool:
        from scipy import sparse

        _check_square(given.shape, n_features)
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


def _check_square(shape: tuple[int, ...], n_features: int) -> None:
    if tuple(shape) != (n_features, n_features):
        raise ParameterError(
            f"candidate_pairs must have {n_features:,} rows and columns, got shape "
            f"{tuple(shape)}: give one for each feature, in the order of the columns."
        )


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
    if not unknown:
        return found
    words = sorted(str(each) for each in unknown)
    if any(map(_is_fraction, words)):
        raise ParameterError(
            "candidate_pairs must name features, got numbers with a fraction: give pairs, no table "
            "of records, and leave weights out."
        )
    close = [c for word in words[:3] for c in difflib.get_close_matches(word, known, 1)]
    hint = f"did you mean {', '.join(map(shown, close))}?" if close else _CURE
    counted = any(isinstance(each, int) for each in unknown)
    why = f" (positions are from 0 to {n_features - 1})" if counted else ""
    if names is None and any(isinstance(each, str) for each in unknown):
        why = " (the columns have no names: give positions)"
    raise ParameterError(
        f"candidate_pairs must name features, got unknown {listed(words)}{why}: {hint}"
    )


def _is_fraction(word: str) -> bool:
    """Whether it may be a value of a record, which no message quotes."""
    try:
        float(word)
    except ValueError:
        return False
    return not word.lstrip("-").isdecimal()


def _of_file(path: Path, n_features: int, names: Sequence[str] | None) -> Pairs:
    """What a file has: a sparse matrix, or a pair or group in each row."""
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
        if kind == ".parquet":
            rows = _parquet_rows(path, most)
        else:
            rows = _text_rows(path, counted=counted)
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
    texts = {each for row in rows for each in row if isinstance(each, str)}
    if len(rows) > 1 and all(_is_title(each, known) for each in rows[0]):
        rows, texts = rows[1:], texts - set(rows[0])
    if texts & known:
        return rows
    return [[_position(each) for each in row] for row in rows]


def _position(word: Any) -> Any:
    """The number that a word is, unless it has more digits than any position."""
    counts = isinstance(word, str) and word.isdecimal() and len(word) <= _MOST_DIGITS
    return int(word) if counts else word


def _is_title(word: Any, known: set[str]) -> bool:
    if not isinstance(word, str) or word in known or word.isdecimal():
        return False
    return not difflib.get_close_matches(word, known, 1, 0.8)
