"""Adaptive release: nothing is assumed of the structure, and the budget goes where it helps."""

from hushcov.mechanisms.adaptive.errors import FINE, kept_of, with_errors
from hushcov.mechanisms.adaptive.ladder import Ladder
from hushcov.mechanisms.adaptive.matrix import WholeMatrix
from hushcov.mechanisms.adaptive.mechanism import release_adaptive
from hushcov.mechanisms.adaptive.pairs import (
    Narrowing,
    PairValues,
    release_narrowed,
    release_pairs,
    value_noise,
)
from hushcov.mechanisms.adaptive.parameters import AdaptiveParameters
from hushcov.mechanisms.adaptive.probe import look_at_signs
from hushcov.mechanisms.adaptive.room import ADAPTIVE, PlannedAdaptive

__all__ = [
    "ADAPTIVE",
    "FINE",
    "AdaptiveParameters",
    "Ladder",
    "Narrowing",
    "PairValues",
    "PlannedAdaptive",
    "WholeMatrix",
    "kept_of",
    "look_at_signs",
    "release_adaptive",
    "release_narrowed",
    "release_pairs",
    "value_noise",
    "with_errors",
]
