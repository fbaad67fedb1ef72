"""Plans and forecasts, before any data is touched."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy

if TYPE_CHECKING:
    from hushcov.fit.comparison import (
        Comparison,
        Families,
        Family,
        compare,
        forecast_families,
        smallest_n,
    )
    from hushcov.fit.mechanism import COMPARED_MODELS, REFERENCE_MODELS, Forecast
    from hushcov.fit.plan import Caution, Plan, Request, hopeless_because, large_delta
    from hushcov.fit.registry import (
        candidate_mechanisms,
        check_candidates,
        check_installed,
        check_memory,
        comparable,
        default_mechanism,
        fit_memory,
        forecast,
        mechanisms,
        named,
        predicted,
        total_memory,
    )

__getattr__ = lazy(
    __name__,
    comparison="Comparison Families Family compare forecast_families smallest_n",
    mechanism="COMPARED_MODELS REFERENCE_MODELS Forecast",
    plan="Caution Plan Request hopeless_because large_delta",
    registry="candidate_mechanisms check_candidates check_installed check_memory comparable "
    "default_mechanism fit_memory forecast mechanisms named predicted total_memory",
)
