"""The integers and the pairs of a release as its files have them, and the checks of both."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from hushcov._arrays import IntArray
from hushcov.exceptions import DamagedReleaseError
from hushcov.postprocess import Matrix, is_sparse, stored_above, symmetric_sparse, values_at
from hushcov.release.columns import read_pairs
from hushcov.release.document import Release

_LARGEST_PLACE = 2**31  # of a feature


def stored_integers(release: Release) -> IntArray:
    """The integers as they are stored: a matrix, or the selected pairs and then the diagonal."""
    if not is_sparse(release.integers):
        return np.asarray(release.integers)
    rows, columns = (
        np.empty((2, 0), dtype=np.int64) if release.selected is None else release.selected
    )
    above = stored_above(release.integers)
    if np.array_equal(above[0], rows) and np.array_equal(above[1], columns):
        pairs = above[2]
    else:
        pairs = values_at(release.integers, rows, columns)
    return np.concatenate([pairs, release.integers.diagonal()])


def is_stored(release: Release) -> bool:
    """Whether the matrix is what reading makes of `stored_integers`; it is not made twice."""
    matrix, selected = release.integers, release.selected
    if not is_sparse(matrix):
        return _is_whole(matrix)
    if selected is None or matrix.format != "csr" or matrix.dtype != np.int64:
        return False
    d = release.n_features
    if matrix.nnz != 2 * selected.shape[1] + d or matrix.shape != (d, d):
        return False
    by_columns = matrix.tocsc()  # of a symmetric matrix the same, sorted
    same = all(
        np.array_equal(getattr(matrix, name), getattr(by_columns, name))
        for name in ("indptr", "indices", "data")
    )
    return same and _are_stored(matrix, selected)


def _are_stored(matrix: Matrix, selected: IntArray) -> bool:
    """Whether these pairs, and no others, are what a sorted matrix stores above its diagonal."""
    rows, columns, _ = stored_above(matrix)
    if np.array_equal(rows, selected[0]) and np.array_equal(columns, selected[1]):
        return True
    d = matrix.shape[0]
    return np.array_equal(
        rows * d + columns, np.sort(selected.min(axis=0) * d + selected.max(axis=0))
    )


def _is_whole(matrix: Matrix) -> bool:
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.dtype == np.int64
    return bool(square and np.array_equal(matrix, matrix.T))


def read_matrix(integers: IntArray, selected: IntArray | None, d: int) -> Matrix:
    """The matrix that was stored, in the kind that it had."""
    if integers.dtype != np.int64:
        raise DamagedReleaseError("integers.npy must hold 64-bit integers")
    if integers.ndim == 1:
        n_pairs = len(integers) - d
        if selected is None or selected.shape[1] != n_pairs:
            wrong("selected", "one pair for each value in integers.npy that is not a variance")
        return symmetric_sparse((selected[0], selected[1]), integers[:n_pairs], integers[n_pairs:])
    if integers.shape != (d, d):
        wrong("n_features", "the number of rows and of columns of integers.npy")
    if not np.array_equal(integers, integers.T):
        raise DamagedReleaseError("integers.npy must hold a symmetric matrix")
    return integers


def read_selected(pairs: object, d: int, most: int) -> IntArray | None:
    """Rows and columns of the pairs that a document selects, at most so many; None for all."""
    if pairs is None:
        return None
    if isinstance(pairs, dict):
        found = read_pairs(pairs, d, most)
        if found is None:
            wrong("selected", "a bandwidth or windows of the features in integers.npy")
        return found
    if isinstance(pairs, list):
        pairs = _listed_pairs(pairs)
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.shape[:-1] != (2,):
        wrong("selected", "null or two lists, rows and columns")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < d:
        wrong("selected", "made of features, counted from 0")
    flat = np.sort(pairs.min(axis=0) * d + pairs.max(axis=0))
    if np.any(flat[1:] == flat[:-1]) or np.any(pairs[0] == pairs[1]):
        wrong("selected", "pairs of two features, each pair once")
    return pairs


def _listed_pairs(pairs: list[Any]) -> IntArray:
    if len(pairs) != 2 or not all(type(p) is list for p in pairs):
        wrong("selected", "null or two lists, rows and columns")
    if len(pairs[0]) != len(pairs[1]):
        wrong("selected", "two lists of one length")
    if not all(type(i) is int and 0 <= i <= _LARGEST_PLACE for i in (*pairs[0], *pairs[1])):
        wrong("selected", "made of features, counted from 0")
    return np.array(pairs, dtype=np.int64).reshape(2, -1)


def wrong(field: str, constraint: str) -> NoReturn:
    """Refuse a document for one of its fields."""
    raise DamagedReleaseError(f"{field} of release.json must be {constraint}, and is not")
