"""Privacy accounting: events, their composition, calibration, and the guarantee they support."""

from hushcov.accounting.calibration import (
    calibrate,
    calibrate_gaussian,
    calibrate_zcdp,
    smallest_sigma,
)
from hushcov.accounting.composition import Bound, all_bounds, compose
from hushcov.accounting.events import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
)
from hushcov.accounting.guarantee import NOT_CERTIFIED, Guarantee

__all__ = [
    "NOT_CERTIFIED",
    "Approximate",
    "Bound",
    "BoundedRange",
    "DiscreteGaussian",
    "Event",
    "Gaussian",
    "Guarantee",
    "OneShotLaplace",
    "Pure",
    "TotalVariation",
    "all_bounds",
    "calibrate",
    "calibrate_gaussian",
    "calibrate_zcdp",
    "compose",
    "smallest_sigma",
]
