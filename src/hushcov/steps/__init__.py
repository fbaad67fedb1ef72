"""Private steps that mechanisms share: each with its parameters, event, proof and words."""

from hushcov.steps.complete import CompleteParameters, complete_parameters
from hushcov.steps.norms import NormBound
from hushcov.steps.scales import ScaleParameters, scale_parameters
from hushcov.steps.stage import Prepared, Stage

__all__ = [
    "CompleteParameters",
    "NormBound",
    "Prepared",
    "ScaleParameters",
    "Stage",
    "complete_parameters",
    "scale_parameters",
]
