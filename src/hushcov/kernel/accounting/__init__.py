"""Privacy accounting: events, their composition, and the guarantee they support.

The ledger of a dataset's budget is `hushcov.kernel.accounting.ledger`.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.kernel.accounting.composition import (
    Bound,
    all_bounds,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    smallest_sigma,
)
from hushcov.kernel.accounting.events import (
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
from hushcov.kernel.accounting.guarantee import Guarantee
from hushcov.kernel.accounting.neighbours import (
    ADD_REMOVE,
    ONE_REMOVED,
    ONE_REPLACED,
    RELATIONS,
    REPLACE,
    UP,
    Neighbours,
    for_group,
    is_counted,
)
from hushcov.promise import RECORD

if TYPE_CHECKING:
    from hushcov.kernel.accounting.budget import EXACT, UNSPENT, WITHIN, Budget

__getattr__ = lazy(__name__, budget="EXACT UNSPENT WITHIN Budget")
