"""What error to expect, and which public numbers to run with, before any data is touched."""

from hushcov.planning.multiscale import MultiscalePlan, plan_multiscale
from hushcov.planning.reference import REFERENCE_MODELS, Reference, reference

__all__ = [
    "REFERENCE_MODELS",
    "MultiscalePlan",
    "Reference",
    "plan_multiscale",
    "reference",
]
