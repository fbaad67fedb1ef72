"""Symmetric matrices, dense or sparse: what releases need on both, and what is computed from them.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._compiled import run_parts, threads
from hushcov._validation import check_integer
from hushcov.exceptions import DataError

Result = TypeVar("Result")

_BLOCK = 2**20  # entries of a dense matrix worked on at a time
_ROUNDING = 1e-9  # a correlation beyond 1 by less than this is no noise
_CONVERGED = 1e-13  # growth of the variance in a step, relative, at which iterations end


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


def stored_above(matrix: Matrix) -> tuple[IntArray, IntArray, npt.NDArray[Any]]:
    """Rows, columns and values that a sparse matrix stores above its diagonal, zeros too."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    above = np.flatnonzero(matrix.indices > rows)
    return rows[above].astype(np.int64), matrix.indices[above].astype(np.int64), matrix.data[above]


def upper_pairs(matrix: Matrix) -> tuple[IntArray, IntArray, npt.NDArray[Any]]:
    """Rows, columns and values of the entries above the diagonal that are not zero."""
    if is_sparse(matrix):
        rows, columns, values = stored_above(matrix.tocsr())
        there = values != 0
        return (
            (rows, columns, values) if there.all() else (rows[there], columns[there], values[there])
        )
    found = over_rows(lambda rows: _above(matrix, rows), len(matrix))
    rows, columns = np.concatenate(found, axis=1)
    return rows, columns, matrix[rows, columns]


def _above(matrix: Matrix, block: slice) -> IntArray:
    """Places above the diagonal that are not zero, in some rows."""
    rows, columns = np.nonzero(matrix[block])
    above = columns > rows + block.start
    return np.stack([rows[above] + block.start, columns[above]])


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

    def multiply(rows: slice) -> None:
        matrix[rows] *= np.multiply.outer(factors[rows], factors)

    over_rows(multiply, len(matrix))


def row_blocks(n_features: int) -> list[slice]:
    """Rows of a square matrix, so few at a time that temporary arrays of them are small."""
    height = max(1, _BLOCK // n_features)
    return [slice(start, start + height) for start in range(0, n_features, height)]


def over_rows(work: Callable[[slice], Result], n_features: int) -> list[Result]:
    """Call a function with all `row_blocks`, in threads; numpy works without the interpreter."""
    blocks = row_blocks(n_features)
    waiting, found = iter(list(enumerate(blocks))), {}

    def take() -> None:
        for place, rows in waiting:
            found[place] = work(rows)

    run_parts(take, [()] * max(1, min(threads(), len(blocks))))
    return [found[place] for place in range(len(blocks))]


def project_psd(matrix: FloatArray) -> FloatArray:
    """Return the positive semidefinite matrix that is nearest in Frobenius norm.

    Negative eigenvalues become zero (Higham 1988, Theorem 2.1); a matrix without any is returned
    as it is. The answer is exactly symmetric; its eigenvalues are nonnegative up to rounding.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    matrix = check_symmetric(matrix)
    if _is_definite(matrix):
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0:
        return matrix
    kept = values > 0
    root = vectors[:, kept] * np.sqrt(values[kept])
    return np.asarray(root @ root.T)  # one matrix times its own transpose: exactly symmetric


def _is_definite(matrix: FloatArray) -> bool:
    """Whether all eigenvalues are positive, in a tenth of the time that it takes to find them."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def check_symmetric(matrix: FloatArray) -> FloatArray:
    """Return a fresh exactly symmetric matrix of doubles, or raise if this is not one.

    Differences of a few roundings, as products of scales have them, are evened out.
    """
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise DataError(
            f"matrix must be square with at least one feature, got shape {array.shape}: "
            "pass Release.covariance()."
        )
    if not all(over_rows(lambda rows: np.isfinite(array[rows]).all(), len(array))):
        raise DataError("matrix must be finite and symmetric: pass (matrix + matrix.T) / 2.")
    if not is_symmetric(array):
        raise DataError("matrix must be finite and symmetric: pass (matrix + matrix.T) / 2.")
    mean = np.empty(array.shape)

    def even_out(rows: slice) -> None:
        np.add(array[rows], array[:, rows].T, out=mean[rows])
        mean[rows] /= 2

    over_rows(even_out, len(array))
    return mean


def is_symmetric(array: FloatArray) -> bool:
    """Whether a matrix is symmetric up to a few roundings; a number is."""
    if array.ndim != 2:
        return True

    def same(rows: slice) -> bool:
        one, other = array[rows], array[:, rows].T
        return np.array_equal(one, other) or np.allclose(one, other, rtol=1e-12, atol=0)

    return all(over_rows(same, len(array)))


def released_correlations(covariance: Matrix) -> Matrix:
    """Return a released covariance over released standard deviations: `covariance_` without units.

    Nothing is cut. A value beyond 1 says that noise is as large as what it was added to. A feature
    whose released variance is not positive, which noise alone does, has no standard deviation: NaN
    are its correlations with features to which it is related. Entries that are zero stay zero.
    `is_noise` tells which are such.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    variance = covariance.diagonal()
    deviation = np.sqrt(np.where(variance > 0, variance, np.nan))
    correlation = covariance.astype(np.float64)  # a copy
    with np.errstate(over="ignore", invalid="ignore"):
        multiply_outer(correlation, 1 / deviation)
    if is_sparse(covariance):
        correlation.data[covariance.data == 0] = 0.0
        return correlation
    for rows in row_blocks(len(covariance)):
        correlation[rows][covariance[rows] == 0] = 0.0
    return correlation


def is_noise(correlation: FloatArray) -> BoolArray:
    """Where a released correlation is beyond 1, or there is none: noise drowns the truth there."""
    return ~(np.abs(correlation) <= 1 + _ROUNDING)


def sparse_components(
    covariance: FloatArray, n_components: int, n_nonzero: int
) -> tuple[FloatArray, FloatArray]:
    """Return sparse leading directions, one a row, and the variance along each.

    Truncated power iterations (Yuan and Zhang, JMLR 14, 2013): multiply by the matrix, keep the
    `n_nonzero` largest entries, and again until the variance grows no more. What a direction
    explains is then projected out of the matrix (Mackey, NIPS 2008) before the next one is looked
    for, so that directions are nearly orthogonal. Features of large variance come first: pass
    correlations if units should not matter. The matrix need not be positive semidefinite.

    Each direction has length 1, and its largest entry is positive. The answer is a local optimum,
    reached from the best of the matrix's columns.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    covariance = check_symmetric(covariance)
    d = len(covariance)
    cure = f"there are {d} features."
    r = check_integer("n_components", n_components, at_least=1, at_most=d, cure=cure)
    k = check_integer("n_nonzero", n_nonzero, at_least=1, at_most=d, cure=cure)
    unit = float(np.abs(covariance).max()) or 1.0  # in which no product overflows
    left = covariance / unit
    # Iterations climb where no eigenvalue is negative, which a multiple of the identity ensures.
    shift = max(0.0, -float(np.linalg.eigvalsh(left)[0]))
    components = np.zeros((r, d))
    for index in range(r):
        direction = _sparse_direction(left, shift, k)
        components[index] = direction
        left -= np.multiply.outer(direction, direction @ left)
        left -= np.multiply.outer(left @ direction, direction)
    return components, np.einsum("ri,ij,rj->r", components, covariance, components)


def _sparse_direction(matrix: FloatArray, shift: float, n_nonzero: int) -> FloatArray:
    direction, variance = _start(matrix, n_nonzero), -np.inf
    while True:
        product = matrix @ direction + shift * direction
        growth, variance = float(direction @ product) - variance, float(direction @ product)
        if growth <= _CONVERGED * variance:
            return np.asarray(direction * np.sign(direction[np.argmax(np.abs(direction))]))
        direction = _truncated(product, n_nonzero)


def _start(matrix: FloatArray, n_nonzero: int) -> FloatArray:
    """Among the columns, truncated, the direction of the largest variance."""
    best, largest = matrix[0], -np.inf
    for column in matrix:
        direction = _truncated(column, n_nonzero)
        kept = np.flatnonzero(direction)
        variance = float(direction[kept] @ matrix[np.ix_(kept, kept)] @ direction[kept])
        if variance > largest:
            best, largest = direction, variance
    return np.asarray(best)


def _truncated(vector: FloatArray, n_nonzero: int) -> FloatArray:
    """The largest entries of a vector, at length 1; the first feature where there are none."""
    kept = np.argsort(-np.abs(vector), kind="stable")[:n_nonzero]
    result = np.zeros_like(vector)
    result[kept] = vector[kept]
    if not result.any():
        result[0] = 1.0
    return np.asarray(result / np.linalg.norm(result))


def pseudo_inverse(covariance: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix, with zeros in directions where there is none.

    It is taken in units of the standard deviations, so that features of any scale count alike;
    a pseudo-inverse in the unit of the data takes the smallest features for rounding errors.
    """
    deviation = np.sqrt(np.abs(np.diag(covariance)))
    deviation[deviation == 0] = 1.0
    unit = np.multiply.outer(deviation, deviation)
    return np.asarray(linalg.pinvh(covariance / unit, check_finite=False) / unit)
