"""The paper's mechanism: public parameters, two samplers of Algorithm 1, and its release."""

from hushcov.inputs import CalibratedInputs, PublicInputs
from hushcov.paper.calibrated import (
    CalibratedParameters,
    Design,
    calibrated_parameters,
    draft_schedule,
)
from hushcov.paper.mechanism import (
    Moments,
    Parameters,
    certify,
    check_moments,
    grid_for,
    release_multiscale,
)
from hushcov.paper.parameters import (
    TheoremParameters,
    theorem_parameters,
    too_few_records,
)
from hushcov.paper.planner import MultiscalePlan, plan_multiscale
from hushcov.paper.room import MULTISCALE, multiscale_inputs
from hushcov.paper.samplers import sample_exact, sample_literal
from hushcov.paper.schedule import Level, Schedule, gate_correction
from hushcov.paper.transcript import RECONSTRUCTIONS, Transcript, sample_transcript

__all__ = [
    "MULTISCALE",
    "RECONSTRUCTIONS",
    "CalibratedInputs",
    "CalibratedParameters",
    "Design",
    "Level",
    "Moments",
    "MultiscalePlan",
    "Parameters",
    "PublicInputs",
    "Schedule",
    "TheoremParameters",
    "Transcript",
    "calibrated_parameters",
    "certify",
    "check_moments",
    "draft_schedule",
    "gate_correction",
    "grid_for",
    "multiscale_inputs",
    "plan_multiscale",
    "release_multiscale",
    "sample_exact",
    "sample_literal",
    "sample_transcript",
    "theorem_parameters",
    "too_few_records",
]
