"""Screened release: which pairs, by a private selection; their values, by a norm-clipped sum."""

from hushcov.mechanisms.screened.mechanism import (
    certify_screened,
    release_screened,
    select_pairs,
)
from hushcov.mechanisms.screened.parameters import (
    NORM_RULES,
    ScreenedDesign,
    ScreenedParameters,
    ScreenLevel,
    candidate_pairs,
    level_sizes,
    possible_pairs,
    screened_parameters,
)
from hushcov.mechanisms.screened.planner import ScreenedPlan, plan_screened
from hushcov.mechanisms.screened.room import SCREENED, PlannedScreened
from hushcov.mechanisms.screened.screens import SCREENS, Screen

__all__ = [
    "NORM_RULES",
    "SCREENED",
    "SCREENS",
    "PlannedScreened",
    "Screen",
    "ScreenLevel",
    "ScreenedDesign",
    "ScreenedParameters",
    "ScreenedPlan",
    "candidate_pairs",
    "certify_screened",
    "level_sizes",
    "plan_screened",
    "possible_pairs",
    "release_screened",
    "screened_parameters",
    "select_pairs",
]
