"""How far an estimate is from the truth."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

FloatArray = npt.NDArray[np.float64]

_DENSE = 600  # above this the extreme eigenvalues come from Lanczos iterations


def operator_norm(matrix: FloatArray) -> float:
    """Largest absolute eigenvalue of a symmetric matrix."""
    if not np.any(matrix):
        return 0.0
    return float(np.max(np.abs(_extreme_eigenvalues(matrix))))


def _extreme_eigenvalues(matrix: FloatArray) -> FloatArray:
    """The largest and the smallest eigenvalue, among others perhaps."""
    if len(matrix) > _DENSE:
        # Lanczos iterations may stall, for instance where many eigenvalues are the same.
        with suppress(ArpackNoConvergence):
            return np.asarray(eigsh(matrix, k=2, which="BE", return_eigenvectors=False, tol=1e-8))
    return np.asarray(np.linalg.eigvalsh(matrix))


def operator_norm_error(estimate: FloatArray, truth: FloatArray) -> float:
    """Operator norm of estimate - truth, the loss everything in hushcov is judged by."""
    return operator_norm(np.asarray(estimate) - np.asarray(truth))


def support_recovery(estimate: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Share of true off-diagonal nonzeros found, and share of found ones that are true.

    Both are 1 when there is nothing to find, or nothing was found.
    """
    off_diagonal = np.triu_indices(len(truth), 1)
    found = np.asarray(estimate)[off_diagonal] != 0
    present = np.asarray(truth)[off_diagonal] != 0
    both = int(np.count_nonzero(found & present))
    n_present, n_found = int(np.count_nonzero(present)), int(np.count_nonzero(found))
    return both / n_present if n_present else 1.0, both / n_found if n_found else 1.0
