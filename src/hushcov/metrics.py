"""Distances of an estimate from the truth; both may be dense or sparse."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from hushcov._arrays import FloatArray, Matrix

_DENSE = 600  # above this the extreme eigenvalues come from Lanczos iterations, if they converge
_RESTARTS = 30  # after which they do so slowly if at all
_LARGEST_DENSE = 5000  # above this all eigenvalues take minutes


def operator_norm(matrix: Matrix) -> float:
    """Largest absolute eigenvalue of a symmetric matrix."""
    if not (matrix.count_nonzero() if _is_sparse(matrix) else np.any(matrix)):
        return 0.0
    return float(np.max(np.abs(_extreme_eigenvalues(matrix))))


def _extreme_eigenvalues(matrix: Matrix) -> FloatArray:
    """The largest and the smallest eigenvalue, among others perhaps."""
    ends: dict[str, Any] = {"k": 2, "which": "BE", "return_eigenvectors": False}
    if matrix.shape[0] > _DENSE:
        # Where eigenvalues crowd at an end, as those of a banded matrix do, it takes 200 times as
        # long as all eigenvalues of a thousand features.
        with suppress(ArpackNoConvergence):
            return np.asarray(eigsh(matrix, **ends, tol=1e-8, maxiter=_RESTARTS))
    if matrix.shape[0] > _LARGEST_DENSE:
        return np.asarray(eigsh(matrix, **ends, tol=1e-4))
    return np.asarray(np.linalg.eigvalsh(_dense(matrix)))


def operator_norm_error(estimate: Matrix, truth: Matrix) -> float:
    """Operator norm of estimate - truth, the loss everything in hushcov is judged by."""
    if _is_sparse(estimate) and _is_sparse(truth):
        return operator_norm(estimate - truth)
    return operator_norm(_dense(estimate) - _dense(truth))


def support_recovery(estimate: Matrix, truth: Matrix) -> tuple[float, float]:
    """Share of true off-diagonal nonzeros found, and share of found ones that are true.

    Both are 1 when there is nothing to find, or nothing was found.
    """
    found, present = (_support(each) for each in (estimate, truth))
    both, n_present, n_found = (found * present).nnz, present.nnz, found.nnz
    return both / n_present if n_present else 1.0, both / n_found if n_found else 1.0


def _support(matrix: Matrix) -> Any:
    """Ones where the upper triangle is not zero."""
    upper: Any = sparse.triu(sparse.csr_array(matrix), 1, format="csr")
    upper.eliminate_zeros()
    upper.data = np.ones(len(upper.data), dtype=np.int8)
    return upper


def _dense(matrix: Matrix) -> FloatArray:
    return np.asarray(matrix.toarray() if _is_sparse(matrix) else matrix)


def _is_sparse(matrix: object) -> bool:
    return bool(sparse.issparse(matrix))
