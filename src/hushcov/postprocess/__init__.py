"""What can be done with a release without touching records: nothing here costs privacy."""

from hushcov.postprocess.components import sparse_components
from hushcov.postprocess.correlations import is_noise, released_correlations
from hushcov.postprocess.intervals import (
    detection_deviation,
    normal_interval,
    sampling_sd,
    thresholded_interval,
)
from hushcov.postprocess.matrices import (
    Matrix,
    is_sparse,
    multiply_outer,
    symmetric_sparse,
    upper_pairs,
    values_at,
)
from hushcov.postprocess.psd import project_psd
from hushcov.postprocess.rules import (
    adaptive_lasso_threshold,
    scad_threshold,
    soft_threshold,
)
from hushcov.postprocess.threshold import hard_threshold, universal_threshold

__all__ = [
    "Matrix",
    "adaptive_lasso_threshold",
    "detection_deviation",
    "hard_threshold",
    "is_noise",
    "is_sparse",
    "multiply_outer",
    "normal_interval",
    "project_psd",
    "released_correlations",
    "sampling_sd",
    "scad_threshold",
    "soft_threshold",
    "sparse_components",
    "symmetric_sparse",
    "thresholded_interval",
    "universal_threshold",
    "upper_pairs",
    "values_at",
]
