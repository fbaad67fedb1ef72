"""What error to expect, and which public numbers to run with, before any data is touched."""

from hushcov.planning.cautions import (
    Caution,
    hopeless,
    hopeless_because,
    large_delta,
    noisy_scales,
)
from hushcov.planning.comparison import Comparison, compare, smallest_n
from hushcov.planning.gaussian import predict_gaussian
from hushcov.planning.memory import total_memory
from hushcov.planning.multiscale import MultiscalePlan, plan_multiscale
from hushcov.planning.reference import REFERENCE_MODELS, Reference, reference
from hushcov.planning.registry import (
    COMPARED_MODELS,
    MECHANISMS,
    NINE_OF_TEN,
    Forecast,
    Mechanism,
    check_memory,
    fit_memory,
    forecast,
    multiscale_inputs,
)
from hushcov.planning.runs import Run, gaussian_run, screened_run
from hushcov.planning.screened import ScreenedPlan, plan_screened

__all__ = [
    "COMPARED_MODELS",
    "MECHANISMS",
    "NINE_OF_TEN",
    "REFERENCE_MODELS",
    "Caution",
    "Comparison",
    "Forecast",
    "Mechanism",
    "MultiscalePlan",
    "Reference",
    "Run",
    "ScreenedPlan",
    "check_memory",
    "compare",
    "fit_memory",
    "forecast",
    "gaussian_run",
    "hopeless",
    "hopeless_because",
    "large_delta",
    "multiscale_inputs",
    "noisy_scales",
    "plan_multiscale",
    "plan_screened",
    "predict_gaussian",
    "reference",
    "screened_run",
    "smallest_n",
    "total_memory",
]
