"""What can be done with a release without touching records: nothing here costs privacy."""

from typing import TYPE_CHECKING

from hushcov._arrays import Matrix
from hushcov._lazy import lazy
from hushcov.postprocess.guard import (
    Guarded,
    guarded,
    lost_features,
    noise_norm,
    sure_level,
)
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
    from hushcov.postprocess.tails import lost_beyond

__all__ = [
    "RULES",
    "Candidate",
    "Guarded",
    "Matrix",
    "Split",
    "adaptive_lasso_threshold",
    "beside",
    "best_candidate",
    "coherent_norm",
    "detection_deviation",
    "entry_deviation",
    "guarded",
    "hard_threshold",
    "is_noise",
    "is_sparse",
    "largest",
    "largest_of",
    "leading_direction",
    "lost_beyond",
    "lost_features",
    "multiply_outer",
    "noise_norm",
    "normal_interval",
    "over_rows",
    "project_psd",
    "pseudo_inverse",
    "released_correlations",
    "row_blocks",
    "sampling_sd",
    "scad_threshold",
    "shrink",
    "signal_norm",
    "soft_threshold",
    "sparse_components",
    "split",
    "stored_above",
    "sure_level",
    "symmetric_sparse",
    "thresholded_interval",
    "universal_threshold",
    "upper_pairs",
    "values_at",
]

__getattr__ = lazy(
    __name__,
    structure="Candidate Split beside best_candidate coherent_norm entry_deviation largest "
    "largest_of leading_direction signal_norm split",
    tails="lost_beyond",
)
