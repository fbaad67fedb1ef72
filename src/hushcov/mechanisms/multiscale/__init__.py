"""The paper's mechanism: public parameters, two samplers of Algorithm 1, and its release."""

from hushcov.mechanisms.multiscale.exact import sample_exact
from hushcov.mechanisms.multiscale.literal import sample_literal
from hushcov.mechanisms.multiscale.mechanism import (
    Moments,
    certify,
    grid_for,
    release_multiscale,
)
from hushcov.mechanisms.multiscale.parameters import (
    PublicInputs,
    TheoremParameters,
    theorem_parameters,
)
from hushcov.mechanisms.multiscale.schedule import Level, Schedule, gate_correction

__all__ = [
    "Level",
    "Moments",
    "PublicInputs",
    "Schedule",
    "TheoremParameters",
    "certify",
    "gate_correction",
    "grid_for",
    "release_multiscale",
    "sample_exact",
    "sample_literal",
    "theorem_parameters",
]
