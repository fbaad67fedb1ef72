"""Post-processing of a release: nothing here sees records or costs privacy."""

from hushcov._arrays import Matrix
from hushcov.postprocess.guard import Guarded, guarded, lost_features, noise_norm, sure_level
from hushcov.postprocess.matrices import (
    RULES,
    adaptive_lasso_threshold,
    detection_deviation,
    hard_threshold,
    is_noise,
    is_sparse,
    multiply_outer,
    normal_interval,
    over_rows,
    project_psd,
    pseudo_inverse,
    released_correlations,
    row_blocks,
    sampling_sd,
    scad_threshold,
    shrink,
    soft_threshold,
    sparse_components,
    stored_above,
    symmetric_sparse,
    thresholded_interval,
    universal_threshold,
    upper_pairs,
    values_at,
)
