"""Correlations of a release, as they are: noise is not cut to fit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray
from hushcov.postprocess.matrices import Matrix, is_sparse, multiply_outer, row_blocks

_ROUNDING = 1e-9  # beyond 1 by less than this is no noise


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


def is_noise(correlation: FloatArray) -> npt.NDArray[np.bool_]:
    """Where a released correlation is beyond 1, or there is none: noise drowns the truth there."""
    return ~(np.abs(correlation) <= 1 + _ROUNDING)
