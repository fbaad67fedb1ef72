"""Hard thresholding of a released matrix, and the threshold that its noise calls for."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer, check_real
from hushcov.exceptions import ParameterError
from hushcov.postprocess.matrices import Matrix, is_sparse, row_blocks
from hushcov.postprocess.psd import check_symmetric, is_symmetric


def hard_threshold(matrix: Matrix, threshold: float | FloatArray) -> Matrix:
    """Return the matrix with off-diagonal entries of at most their threshold set to zero.

    `threshold` is one number or, for a dense matrix, a symmetric matrix of them. The diagonal is
    kept. A sparse matrix is returned without the entries that are set to zero.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    if not is_sparse(matrix):
        matrix = check_symmetric(matrix)
    levels = np.asarray(threshold, dtype=np.float64)
    shapes: tuple[tuple[int, ...], ...] = ((),) if is_sparse(matrix) else ((), matrix.shape)
    if levels.shape not in shapes:
        raise ParameterError(
            "threshold must be a number or have the shape of a dense matrix, here "
            f"{matrix.shape}, got shape {levels.shape}: pass one of the two."
        )
    if not (levels >= 0).all() or not is_symmetric(levels):
        raise ParameterError("threshold must be nonnegative and symmetric: pass such a threshold.")
    if is_sparse(matrix):
        return _sparse_threshold(matrix, float(levels))
    diagonal = matrix.diagonal().copy()
    for rows in row_blocks(len(matrix)):
        level = levels if levels.ndim == 0 else np.maximum(levels[rows], levels[:, rows].T)
        matrix[rows][np.abs(matrix[rows]) <= level] = 0.0
    np.fill_diagonal(matrix, diagonal)
    return matrix


def _sparse_threshold(matrix: Matrix, level: float) -> Matrix:
    entries = matrix.tocoo()
    kept = (np.abs(entries.data) > level) | (entries.row == entries.col)
    where = entries.row[kept], entries.col[kept]
    return sparse.csr_array((entries.data[kept], where), shape=matrix.shape)


def universal_threshold(noise_sd: float, n_records: int, n_features: int) -> float:
    """Return a threshold that almost no entry passes by chance, in units of scale^2.

    An entry whose true value is zero has deviation s = sqrt(noise_sd^2 + 1/n) for features of
    scale 1, noise and sampling together. The largest of M = d (d - 1)/2 such entries is about
    s sqrt(2 log M), which is the answer: on average 1 / sqrt(pi log M) entries pass by chance, one
    in about five matrices of 100 features.

    Wang and Xu (arXiv 1901.06413) threshold at gamma sqrt(log p/n) plus
    4 sqrt(2 log(1.25/delta) log p)/(n epsilon), in our words gamma sqrt(log p/n) + 4 noise_sd
    sqrt(log p). The rate is the same, and both parts are there; but gamma is left to the user, the
    parts are added where variances add up, and the 4 is twice what the noise needs, so that twice
    as large entries are lost.
    """
    noise_sd = float(noise_sd)
    if noise_sd != 0:
        cure = "pass the noise_sd of a release; 0 is allowed too."
        noise_sd = check_real("noise_sd", noise_sd, above=0, cure=cure)
    n = check_integer("n_records", n_records, at_least=1, cure="give the number of records.")
    d = check_integer("n_features", n_features, at_least=1, cure="give the number of columns.")
    entries = max(1, d * (d - 1) // 2)
    return math.sqrt(noise_sd**2 + 1 / n) * math.sqrt(2 * math.log(entries))
