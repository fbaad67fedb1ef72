"""Symmetric matrices, dense or sparse: what releases need on both, and what is computed from them.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse, special

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._compiled import share_out
from hushcov._validation import check_integer, check_real
from hushcov.exceptions import DataError, ParameterError

Result = TypeVar("Result")

_BLOCK = 2**20  # entries of a dense matrix worked on at a time
_ROUNDING = 1e-9  # a correlation beyond 1 by less than this is no noise
_CONVERGED = 1e-13  # growth of the variance in a step, relative, at which iterations end


def is_sparse(matrix: object) -> bool:
    """Return whether this is a sparse matrix."""
    return bool(sparse.issparse(matrix))


def symmetric_sparse(
    pairs: tuple[IntArray, IntArray], values: npt.NDArray[Any], diagonal: npt.NDArray[Any]
) -> Matrix:
    """Return the sparse matrix with these values at `pairs`, mirrored, and on the diagonal.

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
    """Return rows, columns and values that a sparse matrix stores above its diagonal, zeros too."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    above = np.flatnonzero(matrix.indices > rows)
    return rows[above].astype(np.int64), matrix.indices[above].astype(np.int64), matrix.data[above]


def upper_pairs(matrix: Matrix) -> tuple[IntArray, IntArray, npt.NDArray[Any]]:
    """Return rows, columns and values of the entries above the diagonal that are not zero."""
    if is_sparse(matrix):
        rows, columns, values = stored_above(matrix.tocsr())
        there = values != 0
        return (
            (rows, columns, values) if there.all() else (rows[there], columns[there], values[there])
        )

    def above(block: slice) -> IntArray:
        rows, columns = np.nonzero(matrix[block])
        there = columns > rows + block.start
        return np.stack([rows[there] + block.start, columns[there]])

    rows, columns = np.concatenate(over_rows(above, len(matrix)), axis=1)
    return rows, columns, matrix[rows, columns]


def values_at(matrix: Matrix, rows: IntArray, columns: IntArray) -> npt.NDArray[Any]:
    """Return the entries at these places."""
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
    """Return rows of a square matrix, so few at a time that temporary arrays of them are small."""
    height = max(1, _BLOCK // n_features)
    return [slice(start, start + height) for start in range(0, n_features, height)]


def over_rows(work: Callable[[slice], Result], n_features: int) -> list[Result]:
    """Call a function with all `row_blocks`, in threads; numpy works without the interpreter."""
    return share_out(work, row_blocks(n_features))


def project_psd(matrix: FloatArray) -> FloatArray:
    """Return the positive semidefinite matrix that is nearest in Frobenius norm.

    Negative eigenvalues become zero (Higham 1988, Theorem 2.1); a matrix without any is returned
    as it is. The answer is exactly symmetric; its eigenvalues are nonnegative up to rounding.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    matrix = check_symmetric(matrix)
    with suppress(np.linalg.LinAlgError):
        # All eigenvalues are positive: that takes a tenth of the time that it takes to find them.
        np.linalg.cholesky(matrix)
        return matrix
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
    finite = all(over_rows(lambda rows: np.isfinite(array[rows]).all(), len(array)))
    if not finite or not is_symmetric(array):
        raise DataError("matrix must be finite and symmetric: pass (matrix + matrix.T) / 2.")
    mean = np.empty(array.shape)

    def even_out(rows: slice) -> None:
        np.add(array[rows], array[:, rows].T, out=mean[rows])
        mean[rows] /= 2

    over_rows(even_out, len(array))
    return mean


def is_symmetric(array: FloatArray) -> bool:
    """Return whether a matrix is symmetric up to a few roundings; a number is."""
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
    """Return where a released correlation is beyond 1 or missing, which noise alone causes."""
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
        direction, variance = _start(left, k), -np.inf
        while True:
            product = left @ direction + shift * direction
            growth, variance = float(direction @ product) - variance, float(direction @ product)
            if growth <= _CONVERGED * variance:
                break
            direction = _truncated(product, k)
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        components[index] = direction
        left -= np.multiply.outer(direction, direction @ left)
        left -= np.multiply.outer(left @ direction, direction)
    return components, np.einsum("ri,ij,rj->r", components, covariance, components)


def _start(matrix: FloatArray, n_nonzero: int) -> FloatArray:
    """Return the truncated column along which the variance is largest."""
    best, largest = matrix[0], -np.inf
    for column in matrix:
        direction = _truncated(column, n_nonzero)
        kept = np.flatnonzero(direction)
        variance = float(direction[kept] @ matrix[np.ix_(kept, kept)] @ direction[kept])
        if variance > largest:
            best, largest = direction, variance
    return np.asarray(best)


def _truncated(vector: FloatArray, n_nonzero: int) -> FloatArray:
    """Return the largest entries of a vector, at length 1; the first feature where all are 0."""
    kept = np.argsort(-np.abs(vector), kind="stable")[:n_nonzero]
    result = np.zeros_like(vector)
    result[kept] = vector[kept]
    if not result.any():
        result[0] = 1.0
    return np.asarray(result / np.linalg.norm(result))


def pseudo_inverse(covariance: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix, with zeros in directions where there is none.

    It is taken in units of the standard deviations, so that features of any scale count alike;
    a pseudo-inverse in the unit of the data takes the smallest features for rounding errors.
    """
    deviation = np.sqrt(np.abs(np.diag(covariance)))
    deviation[deviation == 0] = 1.0
    unit = np.multiply.outer(deviation, deviation)
    return np.asarray(linalg.pinvh(covariance / unit, check_finite=False) / unit)


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
        matrix = matrix.tocsr()
        lengths = np.diff(matrix.indptr)
        rows = np.repeat(np.arange(len(lengths), dtype=matrix.indices.dtype), lengths)
        kept = (np.abs(matrix.data) > float(levels)) | (matrix.indices == rows)
        counts = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
        parts = matrix.data[kept], matrix.indices[kept], counts.astype(matrix.indptr.dtype)
        return sparse.csr_array(parts, shape=matrix.shape)
    diagonal = matrix.diagonal().copy()

    def threshold_rows(rows: slice) -> None:
        level = levels if levels.ndim == 0 else np.maximum(levels[rows], levels[:, rows].T)
        matrix[rows][np.abs(matrix[rows]) <= level] = 0.0

    over_rows(threshold_rows, len(matrix))
    np.fill_diagonal(matrix, diagonal)
    return matrix


def universal_threshold(
    noise_sd: float, n_records: int, n_features: int, n_pairs: int | None = None
) -> float:
    """Return a threshold that almost no entry passes by chance, in units of scale^2.

    `n_pairs` is the number of pairs where it is not that of all.

    An entry whose true value is zero has deviation s = sqrt(noise_sd^2 + 1/n) for features of
    scale 1, noise and sampling together. The largest of M = d (d - 1)/2 such entries is about
    s sqrt(2 log M), which is the answer: on average 1 / sqrt(pi log M) entries pass by chance, one
    in about five matrices of 100 features.

    Wang and Xu (arXiv 1901.06413) threshold at gamma sqrt(log p/n) + 4 noise_sd sqrt(log p): the
    rate is the same, but gamma is left to the user, the parts are added where variances add up, and
    the 4 is twice what the noise needs.
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


def _scad(sizes: FloatArray, levels: FloatArray) -> FloatArray:
    middle = ((_SCAD_A - 1) * sizes - _SCAD_A * levels) / (_SCAD_A - 2)
    inner = np.where(sizes <= 2 * levels, sizes - levels, middle)
    return np.where(sizes <= _SCAD_A * levels, inner, sizes)


# What becomes of the size of an entry that exceeds its threshold.
_SIZES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "hard": lambda sizes, _: sizes,
    "soft": lambda sizes, levels: sizes - levels,
    "scad": _scad,
    "adaptive_lasso": lambda sizes, levels: sizes * (1 - (levels / sizes) ** _ETA),
}


def sampling_sd(
    covariance: FloatArray, variances: tuple[FloatArray, FloatArray], n_records: float
) -> FloatArray:
    """Return the standard deviation of entries of an empirical covariance of Gaussian records.

    `variances` are those of the two features of each entry.
    """
    one, other = (np.sqrt(np.maximum(variance, 0.0)) for variance in variances)
    return np.asarray(np.hypot(one * other, covariance) / math.sqrt(n_records))


def normal_interval(
    estimate: FloatArray, deviation: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the usual interval around a normal estimate."""
    reach = float(special.ndtri(0.5 + level / 2)) * deviation
    return estimate - reach, estimate + reach


def thresholded_interval(
    estimate: FloatArray, deviation: FloatArray, threshold: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals for entries that are shown because they exceed a threshold.

    A threshold of 0 is for entries that are shown whatever they are: intervals are the usual ones.
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
    """Return the true value at which a normal estimate is at most `size`, given that it is shown.

    With this probability; it is shown beyond the threshold, and `size` is.
    """
    # An estimate just beyond the threshold may be that of any value down to one on the other side.
    high = size + _REACH * deviation
    low = -high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        # By tails, which stay accurate where both the condition and the event are rare.
        negative = special.log_ndtr((-threshold - middle) / deviation)
        positive = special.log_ndtr((middle - threshold) / deviation)
        beyond = special.log_ndtr((middle - size) / deviation) - np.logaddexp(negative, positive)
        above = 1 - np.exp(np.minimum(beyond, 0.0)) > probability
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)


def detection_deviation(noise_sd: float, n_records: int) -> float:
    """Return the noise and sampling error of a pair without covariance, in units of its scales."""
    return math.hypot(noise_sd, 1 / math.sqrt(n_records))
