"""The nearest positive semidefinite matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushcov.exceptions import DataError

FloatArray = npt.NDArray[np.float64]


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
        return matrix.copy()
    kept = values > 0
    root = vectors[:, kept] * np.sqrt(values[kept])
    return np.asarray(root @ root.T)  # one matrix times its own transpose: exactly symmetric


def check_symmetric(matrix: FloatArray) -> FloatArray:
    """Return `matrix` as doubles, or raise if it is not square, finite and exactly symmetric."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise DataError(
            f"matrix must be square with at least one feature, got shape {array.shape}: "
            "pass Release.covariance()."
        )
    if not np.isfinite(array).all() or not np.array_equal(array, array.T):
        raise DataError("matrix must be finite and exactly symmetric: symmetrise it.")
    return array
