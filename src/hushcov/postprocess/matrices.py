"""Symmetric matrices, dense or sparse: the few operations that releases need on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from hushcov._arrays import FloatArray, IntArray

#: A NumPy array, or a sparse array whose stored entries, zeros too, are those that were released.
Matrix = Any

_BLOCK = 2**20  # entries of a dense matrix worked on at a time


def is_sparse(matrix: object) -> bool:
    """Whether this is a sparse matrix."""
    return bool(sparse.issparse(matrix))


def symmetric_sparse(
    pairs: tuple[IntArray, IntArray], values: npt.NDArray[Any], diagonal: npt.NDArray[Any]
) -> Matrix:
    """The sparse matrix with these values at `pairs`, mirrored, and on the diagonal.

    A pair is given once, in either order. Zeros are stored like other values.
    """
    d = len(diagonal)
    # Positions take four bytes each where that is enough, in all of the arrays below.
    every = np.arange(d, dtype=np.int32 if d < 2**31 else np.int64)
    rows, columns = (np.asarray(side, dtype=every.dtype) for side in pairs)
    where = np.concatenate([rows, columns, every]), np.concatenate([columns, rows, every])
    matrix = sparse.csr_array((np.concatenate([values, values, diagonal]), where), shape=(d, d))
    matrix.sort_indices()
    return matrix


def upper_pairs(matrix: Matrix) -> tuple[IntArray, IntArray, npt.NDArray[Any]]:
    """Rows, columns and values of the entries above the diagonal that are not zero."""
    if is_sparse(matrix):
        entries = matrix.tocoo()
        shown = (entries.row < entries.col) & (entries.data != 0)
        rows, columns, values = (part[shown] for part in (entries.row, entries.col, entries.data))
        return rows.astype(np.int64), columns.astype(np.int64), values
    rows, columns = np.nonzero(np.triu(matrix != 0, 1))
    return rows, columns, matrix[rows, columns]


def values_at(matrix: Matrix, rows: IntArray, columns: IntArray) -> npt.NDArray[Any]:
    """The entries at these places."""
    if len(rows) == 0:
        return np.empty(0, dtype=matrix.dtype)  # a sparse matrix would answer with another
    return np.asarray(matrix[rows, columns])


def multiply_outer(matrix: Matrix, factors: FloatArray) -> None:
    """Multiply every entry by the factors of its row and column, in place.

    The two make one factor first, which is the same above and below the diagonal.
    """
    if is_sparse(matrix):
        of_rows = np.repeat(factors, np.diff(matrix.indptr))
        matrix.data *= of_rows * factors[matrix.indices]
        return
    for rows in row_blocks(len(matrix)):
        matrix[rows] *= np.multiply.outer(factors[rows], factors)


def row_blocks(n_features: int) -> list[slice]:
    """Rows of a square matrix, so few at a time that temporary arrays of them are small."""
    height = max(1, _BLOCK // n_features)
    return [slice(start, start + height) for start in range(0, n_features, height)]
