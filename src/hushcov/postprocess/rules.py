"""Thresholding rules that also shrink what they keep: soft, SCAD and adaptive lasso.

All of them set the off-diagonal entries of at most their threshold to zero, as hard thresholding
does, and differ in what becomes of the others. They are the generalized thresholding operators of
Rothman, Levina and Zhu (2009), and keep the diagonal.

Privacy
-------
Applied to a release they are post-processing, and covered by its guarantee.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.postprocess.threshold import hard_threshold

_SCAD_A = 3.7  # Fan and Li (2001), by a Bayes risk argument; customary since
_ETA = 4  # the exponent of Cai and Liu (2011), and one that Rothman, Levina and Zhu compare


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
