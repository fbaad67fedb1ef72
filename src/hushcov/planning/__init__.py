"""What to run and what to expect of it, before any data is touched."""

from hushcov.planning.cautions import Caution, hopeless_because, large_delta
from hushcov.planning.comparison import Comparison, compare, smallest_n
from hushcov.planning.memory import total_memory
from hushcov.planning.plan import Plan, Request
from hushcov.planning.registry import (
    check_memory,
    default_mechanism,
    fit_memory,
    forecast,
    mechanisms,
    predicted,
)
from hushcov.predicting import COMPARED_MODELS, REFERENCE_MODELS, Forecast

__all__ = [
    "COMPARED_MODELS",
    "REFERENCE_MODELS",
    "Caution",
    "Comparison",
    "Forecast",
    "Plan",
    "Request",
    "check_memory",
    "compare",
    "default_mechanism",
    "fit_memory",
    "forecast",
    "hopeless_because",
    "large_delta",
    "mechanisms",
    "predicted",
    "smallest_n",
    "total_memory",
]
