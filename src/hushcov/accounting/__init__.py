"""Privacy accounting: events, their composition, calibration, and the guarantee they support.

The ledger of a dataset's budget is `hushcov.accounting.ledger`.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.accounting.composition import (
    Bound,
    all_bounds,
    calibrate,
    calibrate_gaussian,
    calibrate_near,
    calibrate_zcdp,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    smallest_sigma,
)
from hushcov.accounting.events import (
    Approximate,
    BoundedRange,
    Clocked,
    DiscreteGaussian,
    Event,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
    event_to_dict,
)
from hushcov.accounting.guarantee import Guarantee
from hushcov.accounting.neighbours import (
    ADD_REMOVE,
    ONE_REPLACED,
    RECORD,
    RELATIONS,
    REPLACE,
    UP,
    Neighbours,
    for_group,
)

if TYPE_CHECKING:
    from hushcov.accounting.budget import EXACT, UNSPENT, WITHIN, Budget, largest_mu

__all__ = [
    "ADD_REMOVE",
    "EXACT",
    "ONE_REPLACED",
    "RECORD",
    "RELATIONS",
    "REPLACE",
    "UNSPENT",
    "UP",
    "WITHIN",
    "Approximate",
    "Bound",
    "BoundedRange",
    "Budget",
    "Clocked",
    "DiscreteGaussian",
    "Event",
    "Gaussian",
    "Guarantee",
    "Neighbours",
    "OneShotLaplace",
    "Pure",
    "TotalVariation",
    "all_bounds",
    "calibrate",
    "calibrate_gaussian",
    "calibrate_near",
    "calibrate_zcdp",
    "compose",
    "event_to_dict",
    "for_group",
    "gaussian_delta",
    "gaussian_epsilon",
    "largest_mu",
    "smallest_sigma",
]

__getattr__ = lazy(__name__, budget="EXACT UNSPENT WITHIN Budget largest_mu")
