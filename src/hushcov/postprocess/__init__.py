"""Post-processing of a release: nothing here sees records or costs privacy."""

from typing import TYPE_CHECKING

from hushcov._arrays import Matrix
from hushcov._lazy import lazy
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

if TYPE_CHECKING:
    from hushcov.postprocess.structure import (
        Candidate,
        Split,
        beside,
        best_candidate,
        coherent_norm,
        entry_deviation,
        largest,
        largest_of,
        leading_direction,
        signal_norm,
        split,
    )
    from hushcov.postprocess.tails import KnownErrors, estimate_error, lost_beyond

__getattr__ = lazy(
    __name__,
    structure="Candidate Split beside best_candidate coherent_norm entry_deviation largest "
    "largest_of leading_direction signal_norm split",
    tails="KnownErrors estimate_error lost_beyond",
)
