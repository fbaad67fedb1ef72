"""Thresholds for a released matrix, and intervals for its entries that stay honest after one.

All rules set the off-diagonal entries of at most their threshold to zero and keep the diagonal.
Soft thresholding, SCAD and the adaptive lasso also shrink the entries they keep: they are the
generalized thresholding operators of Rothman, Levina and Zhu (2009).

Privacy
-------
Applied to a release they are post-processing, and covered by its guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import sparse, special

from hushcov._arrays import FloatArray, Matrix
from hushcov._validation import check_integer, check_real
from hushcov.exceptions import ParameterError
from hushcov.postprocess.matrices import check_symmetric, is_sparse, is_symmetric, over_rows

_SCAD_A = 3.7  # Fan and Li (2001), by a Bayes risk argument; customary since
_ETA = 4  # the exponent of Cai and Liu (2011), and one that Rothman, Levina and Zhu compare
_HALVINGS = 60
_REACH = 12.0  # standard deviations within which the ends of an interval are looked for


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

    def threshold_rows(rows: slice) -> None:
        level = levels if levels.ndim == 0 else np.maximum(levels[rows], levels[:, rows].T)
        matrix[rows][np.abs(matrix[rows]) <= level] = 0.0

    over_rows(threshold_rows, len(matrix))
    np.fill_diagonal(matrix, diagonal)
    return matrix


def _sparse_threshold(matrix: Matrix, level: float) -> Matrix:
    matrix = matrix.tocsr()
    lengths = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(lengths), dtype=matrix.indices.dtype), lengths)
    kept = (np.abs(matrix.data) > level) | (matrix.indices == rows)
    counts = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    parts = matrix.data[kept], matrix.indices[kept], counts.astype(matrix.indptr.dtype)
    return sparse.csr_array(parts, shape=matrix.shape)


def universal_threshold(
    noise_sd: float, n_records: int, n_features: int, n_pairs: int | None = None
) -> float:
    """Return a threshold that almost no entry passes by chance, in units of scale^2.

    `n_pairs` is the number of pairs where it is not that of all.

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
    cure = "pass the noise_sd of a release; 0 is allowed too."
    noise_sd = check_real("noise_sd", noise_sd, above=0, or_zero=True, cure=cure)
    n = check_integer("n_records", n_records, at_least=1, cure="give the number of records.")
    d = check_integer("n_features", n_features, at_least=1, cure="give the number of columns.")
    entries = max(1, d * (d - 1) // 2 if n_pairs is None else n_pairs)
    return math.sqrt(noise_sd**2 + 1 / n) * math.sqrt(2 * math.log(entries))


def soft_threshold(matrix: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """Return the matrix with off-diagonal entries moved towards zero by their threshold.

    `threshold` is one number or a symmetric matrix of them. An entry z with threshold l becomes
    sign(z) max(|z| - l, 0).
    """
    return _threshold("soft", matrix, threshold)


def scad_threshold(matrix: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """Return the matrix with off-diagonal entries thresholded by SCAD, a = 3.7.

    `threshold` is one number or a symmetric matrix of them. Up to 2 l this is soft thresholding,
    from a l on an entry is kept as it is, and between the two the rule is linear:
    ((a - 1) z - sign(z) a l) / (a - 2).
    """
    return _threshold("scad", matrix, threshold)


def adaptive_lasso_threshold(matrix: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """Return the matrix with off-diagonal entries thresholded by the adaptive lasso, eta = 4.

    `threshold` is one number or a symmetric matrix of them. An entry z with threshold l becomes
    z max(1 - |l/z|^eta, 0).
    """
    return _threshold("adaptive_lasso", matrix, threshold)


RULES: dict[str, Callable[[FloatArray, float | FloatArray], FloatArray]] = {
    "hard": hard_threshold,
    "soft": soft_threshold,
    "scad": scad_threshold,
    "adaptive_lasso": adaptive_lasso_threshold,
}


def shrink(rule: str, entries: FloatArray, levels: FloatArray) -> FloatArray:
    """Apply a rule to entries with thresholds of the same shape, unchecked and to every one."""
    sizes = np.abs(entries)
    kept = sizes > levels
    shrunk = np.zeros_like(entries)
    sizes = _SIZES[rule](sizes[kept], levels[kept])
    shrunk[kept] = np.copysign(sizes, entries[kept])
    return shrunk


def _threshold(rule: str, matrix: FloatArray, threshold: float | FloatArray) -> FloatArray:
    kept = hard_threshold(matrix, threshold)
    levels = np.broadcast_to(np.asarray(threshold, dtype=np.float64), kept.shape)
    # Thresholds may differ from their transpose by roundings, of which hard_threshold takes the
    # larger: the same one here keeps the answer exactly symmetric.
    shrunk = shrink(rule, kept, np.maximum(levels, levels.T))
    np.fill_diagonal(shrunk, np.diag(kept))
    return shrunk


def _soft(sizes: FloatArray, levels: FloatArray) -> FloatArray:
    return sizes - levels


def _scad(sizes: FloatArray, levels: FloatArray) -> FloatArray:
    middle = ((_SCAD_A - 1) * sizes - _SCAD_A * levels) / (_SCAD_A - 2)
    inner = np.where(sizes <= 2 * levels, sizes - levels, middle)
    return np.where(sizes <= _SCAD_A * levels, inner, sizes)


def _adaptive_lasso(sizes: FloatArray, levels: FloatArray) -> FloatArray:
    return sizes * (1 - (levels / sizes) ** _ETA)


# What becomes of the size of an entry that exceeds its threshold.
_SIZES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "hard": lambda sizes, _: sizes,
    "soft": _soft,
    "scad": _scad,
    "adaptive_lasso": _adaptive_lasso,
}


def sampling_sd(
    covariance: FloatArray, variances: tuple[FloatArray, FloatArray], n_records: float
) -> FloatArray:
    """Standard deviation of entries of an empirical covariance of Gaussian records.

    `variances` are those of the two features of each entry.
    """
    one, other = (np.sqrt(np.maximum(variance, 0.0)) for variance in variances)
    return np.asarray(np.hypot(one * other, covariance) / math.sqrt(n_records))


def normal_interval(
    estimate: FloatArray, deviation: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of the usual interval around a normal estimate."""
    reach = float(special.ndtri(0.5 + level / 2)) * deviation
    return estimate - reach, estimate + reach


def thresholded_interval(
    estimate: FloatArray, deviation: FloatArray, threshold: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval for entries that are shown because they exceed a threshold.

    Showing only large estimates favours those that noise made larger. The interval is therefore
    the set of true values for which the estimate is not extreme among normal estimates beyond
    the threshold: it covers with probability `level` given that the entry is shown. An estimate
    within a few hundredths of a standard deviation of the threshold lies outside its interval,
    which then is closer to zero.
    """
    size, sign = np.abs(estimate), np.sign(estimate)
    tail = (1 - level) / 2
    low, high = normal_interval(size, deviation, level)
    # The others are surely shown, and what passes a threshold of zero was shown whatever it is.
    near = ~(size - threshold > _REACH * deviation) & (threshold > 0)
    low[near] = _solve(size[near], deviation[near], threshold[near], 1 - tail)
    high[near] = _solve(size[near], deviation[near], threshold[near], tail)
    return np.where(sign < 0, -high, low), np.where(sign < 0, -low, high)


def _solve(
    size: FloatArray, deviation: FloatArray, threshold: FloatArray, probability: float
) -> FloatArray:
    """The true value at which an estimate is at most `size` with this probability."""
    # An estimate just beyond the threshold may be that of any value down to one on the other side.
    high = size + _REACH * deviation
    low = -high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = _below(size, middle, deviation, threshold) > probability
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)


def _below(
    size: FloatArray, mean: FloatArray, deviation: FloatArray, threshold: FloatArray
) -> FloatArray:
    """P(estimate <= size | |estimate| > threshold) for a normal estimate; size > threshold.

    By tails, so that it stays accurate where both the condition and the event are rare.
    """
    negative = special.log_ndtr((-threshold - mean) / deviation)
    positive = special.log_ndtr((mean - threshold) / deviation)
    beyond = special.log_ndtr((mean - size) / deviation)
    return 1 - np.exp(np.minimum(beyond - np.logaddexp(negative, positive), 0.0))


def detection_deviation(noise_sd: float, n_records: int) -> float:
    """Noise and sampling error of a pair without covariance, in units of its scales."""
    return math.hypot(noise_sd, 1 / math.sqrt(n_records))
