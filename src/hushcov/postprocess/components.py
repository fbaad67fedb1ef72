"""Sparse principal components: directions of large variance in which few features take part."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer
from hushcov.postprocess.psd import check_symmetric

_CONVERGED = 1e-13  # growth of the variance in a step, relative, at which iterations end


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
