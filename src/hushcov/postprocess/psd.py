"""The nearest positive semidefinite matrix."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.exceptions import DataError
from hushcov.postprocess.matrices import row_blocks


def project_psd(matrix: FloatArray) -> FloatArray:
    """Return the positive semidefinite matrix that is nearest in Frobenius norm.

    Negative eigenvalues become zero (Higham 1988, Theorem 2.1); a matrix without any is returned
    as it is. The answer is exactly symmetric; its eigenvalues are nonnegative up to rounding.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    matrix = check_symmetric(matrix)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0:
        return matrix
    kept = values > 0
    root = vectors[:, kept] * np.sqrt(values[kept])
    return np.asarray(root @ root.T)  # one matrix times its own transpose: exactly symmetric


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
    if not np.isfinite(array).all() or not is_symmetric(array):
        raise DataError("matrix must be finite and symmetric: pass (matrix + matrix.T) / 2.")
    mean = array + array.T
    mean /= 2
    return mean


def is_symmetric(array: FloatArray) -> bool:
    """Whether a matrix is symmetric up to a few roundings; a number is."""
    if array.ndim != 2:
        return True
    return all(
        np.allclose(array[rows], array[:, rows].T, rtol=1e-12, atol=0)
        for rows in row_blocks(len(array))
    )
