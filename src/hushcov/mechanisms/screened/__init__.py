"""Screened release: which pairs, by a private selection; their values, by a norm-clipped sum."""

from hushcov.mechanisms.screened.design import (
    ScreenedDesign,
    candidate_pairs,
    level_sizes,
    possible_pairs,
)
from hushcov.mechanisms.screened.mechanism import (
    certify_screened,
    release_screened,
    select_pairs,
)
from hushcov.mechanisms.screened.parameters import (
    NORMS,
    ScreenedParameters,
    ScreenLevel,
    screened_parameters,
)
from hushcov.mechanisms.screened.screens import SCREENS, Screen

__all__ = [
    "NORMS",
    "SCREENS",
    "Screen",
    "ScreenLevel",
    "ScreenedDesign",
    "ScreenedParameters",
    "candidate_pairs",
    "certify_screened",
    "level_sizes",
    "possible_pairs",
    "release_screened",
    "screened_parameters",
    "select_pairs",
]
