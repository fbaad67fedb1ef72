"""Screened release: which pairs, by a private selection; their values, by a norm-clipped sum."""

from hushcov.mechanisms.screened.mechanism import (
    pair_of,
    release_screened,
    select_pairs,
)
from hushcov.mechanisms.screened.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    ScreenedDesign,
    ScreenedParameters,
    ScreenLevel,
    candidate_pairs,
    check_exact,
    level_sizes,
    possible_pairs,
    product_half_width,
    screened_parameters,
    usual_of_units,
    widest_norm,
)
from hushcov.mechanisms.screened.planner import (
    ScreenedPlan,
    plan_screened,
    predicted_errors,
)
from hushcov.mechanisms.screened.room import SCREENED, PlannedScreened
from hushcov.mechanisms.screened.screens import (
    TO_CORRELATION,
    CentredSigns,
    SignScreen,
)
from hushcov.mechanisms.screened.units import (
    chosen_bound,
    mean_products,
    root_square,
    sum_movement,
)
from hushcov.mechanisms.screened.values import Values, product_map, release_values

__all__ = [
    "DIAGONAL_WEIGHT",
    "PAIR_WEIGHT",
    "RADIUS",
    "SCREENED",
    "TO_CORRELATION",
    "CentredSigns",
    "PlannedScreened",
    "ScreenLevel",
    "ScreenedDesign",
    "ScreenedParameters",
    "ScreenedPlan",
    "SignScreen",
    "Values",
    "candidate_pairs",
    "check_exact",
    "chosen_bound",
    "level_sizes",
    "mean_products",
    "pair_of",
    "plan_screened",
    "possible_pairs",
    "predicted_errors",
    "product_half_width",
    "product_map",
    "release_screened",
    "release_values",
    "root_square",
    "screened_parameters",
    "select_pairs",
    "sum_movement",
    "usual_of_units",
    "widest_norm",
]
