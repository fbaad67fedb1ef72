"""What error to expect, and which public numbers to run with, before any data is touched."""

from hushcov.planning.multiscale import MultiscalePlan, plan_multiscale
from hushcov.planning.reference import REFERENCE_MODELS, Reference, reference
from hushcov.planning.screened import ScreenedPlan, plan_screened

__all__ = [
    "REFERENCE_MODELS",
    "MultiscalePlan",
    "Reference",
    "ScreenedPlan",
    "plan_multiscale",
    "plan_screened",
    "reference",
]
