"""What error to expect, and which public numbers to run with, before any data is touched."""

from hushcov.planning.cautions import (
    Caution,
    hopeless,
    hopeless_because,
    large_delta,
    noisy_scales,
)
from hushcov.planning.comparison import (
    COMPARED_MODELS,
    MECHANISMS,
    Comparison,
    Forecast,
    compare,
    forecast,
    multiscale_inputs,
    smallest_n,
)
from hushcov.planning.gaussian import predict_gaussian
from hushcov.planning.memory import check_memory, fit_memory, total_memory
from hushcov.planning.multiscale import MultiscalePlan, plan_multiscale
from hushcov.planning.reference import REFERENCE_MODELS, Reference, reference
from hushcov.planning.screened import ScreenedPlan, plan_screened

__all__ = [
    "COMPARED_MODELS",
    "MECHANISMS",
    "REFERENCE_MODELS",
    "Caution",
    "Comparison",
    "Forecast",
    "MultiscalePlan",
    "Reference",
    "ScreenedPlan",
    "check_memory",
    "compare",
    "fit_memory",
    "forecast",
    "hopeless",
    "hopeless_because",
    "large_delta",
    "multiscale_inputs",
    "noisy_scales",
    "plan_multiscale",
    "plan_screened",
    "predict_gaussian",
    "reference",
    "smallest_n",
    "total_memory",
]
