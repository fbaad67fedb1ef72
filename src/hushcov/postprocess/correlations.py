"""Correlations of a release."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushcov.postprocess.matrices import Matrix, is_sparse, multiply_outer

FloatArray = npt.NDArray[np.float64]


def released_correlations(covariance: Matrix, feature_scale: FloatArray) -> Matrix:
    """Return a released covariance over released standard deviations: `covariance_` without units.

    `feature_scale` is an estimator's `feature_scale_`. Noise may leave a variance near zero or
    below: no standard deviation is therefore taken as less than a quarter of its scale, and what
    still exceeds 1 is cut there. A constant feature, of scale 0, has correlations 0.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    deviation = np.sqrt(np.maximum(covariance.diagonal(), np.square(feature_scale / 4)))
    deviation[deviation == 0] = np.inf
    correlation = covariance.copy()
    multiply_outer(correlation, 1 / deviation)
    entries = correlation.data if is_sparse(correlation) else correlation
    np.clip(entries, -1.0, 1.0, out=entries)
    return correlation
