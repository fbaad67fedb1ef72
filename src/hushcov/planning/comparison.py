"""Every mechanism's predicted error beside the others', before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hushcov.exceptions import PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.planning.registry import comparable, forecast
from hushcov.predicting import COMPARED_MODELS, Forecast

_ROUGH_MARGIN = 4.0  # the search improves on a rough prediction by less than this factor
_SMALLEST_N, _LARGEST_N = 10, 10**12
_SMALLEST_ERROR = 1e-300
_NEAR = 1.02  # two numbers of records that need not be told apart


@dataclass(frozen=True)
class Comparison:
    """All forecasts for the same public inputs, the best one first."""

    inputs: ReleaseInputs
    forecasts: tuple[Forecast, ...]

    @property
    def best(self) -> Forecast:
        """The mechanism with the smallest predicted error."""
        return self.forecasts[0]

    def __str__(self) -> str:
        inputs = self.inputs
        known = "" if inputs.candidates is None else f", {inputs.candidates.words}"
        lines = [
            f"predicted error relative to ||Sigma||, n = {inputs.n_records:,}, "
            f"d = {inputs.n_features:,}, k = {inputs.row_sparsity}, epsilon = {inputs.epsilon:g}, "
            f"delta = {inputs.delta:g}{known}:"
        ]
        for each in self.forecasts:
            errors = ", ".join(f"{m} {each.predicted_error[m]:.3g}" for m in COMPARED_MODELS)
            note = " (rough)" if each.rough else ""
            lines.append(f"  {each.mechanism:<19} {errors}{note}")
        return "\n".join(lines)


def compare(inputs: ReleaseInputs, *, refine: bool = True) -> Comparison:
    """Predict every mechanism's error for these public inputs, best first.

    Where a mechanism's own search takes seconds, it runs only if a quick prediction is within a
    factor of the best other mechanism, and not at all without `refine`. A mechanism that cannot be
    certified for these inputs is left out. Where candidate pairs are known, only mechanisms that
    can be told are compared.
    """
    able = comparable(inputs.candidates)
    forecasts = [forecast(inputs, name) for name, each in able.items() if not each.slow]
    best = min(each.typical_error for each in forecasts)
    for name in (name for name, each in able.items() if each.slow):
        try:
            found = forecast(inputs, name, rough=True)
            if refine and best < 1 and found.typical_error < _ROUGH_MARGIN * best:
                found = forecast(inputs, name)
            forecasts.append(found)
        except PrivacyConditionError:
            pass  # delta is below what the finite precision of its samplers costs
    return Comparison(inputs, tuple(sorted(forecasts, key=lambda each: each.typical_error)))


def smallest_n(
    inputs: ReleaseInputs | Callable[[int], ReleaseInputs],
    mechanism: str,
    model: str,
    target: float,
    *,
    rough: bool = False,
    adaptive_width: bool = False,
    tried: set[int] | None = None,
) -> int | None:
    """The fewest records, to within 2 %, that reach a target error on a model; None beyond 1e12.

    `tried` is as in `smallest_error`. Where other inputs depend on the number of records, as the
    share of the budget for scales does, `inputs` is a function of it.
    """

    def error(n_records: int) -> float:
        at = inputs(n_records) if callable(inputs) else replace(inputs, n_records=n_records)
        more = {"adaptive_width": True} if adaptive_width else {}
        return forecast(at, mechanism, rough=rough, **more).predicted_error[model]

    return smallest_error(error, target, tried)


def smallest_error(
    error: Callable[[int], float], target: float, tried: set[int] | None = None
) -> int | None:
    """The fewest records, to within 2 %, whose error is at most a target; None beyond 1e12.

    `tried` are numbers whose error is known already, and costs nothing: those tried here join
    them. Between two numbers the logarithms of errors are nearly a line, which is followed.
    """
    tried = set() if tried is None else tried

    def excess(n_records: int) -> float:
        tried.add(n_records)
        return math.log(max(error(n_records), _SMALLEST_ERROR) / target)

    known = {n: excess(n) for n in sorted(tried | {_LARGEST_N}) if _SMALLEST_N <= n <= _LARGEST_N}
    if known[_LARGEST_N] > 0:
        return None
    low = max((n for n in known if known[n] > 0), default=_SMALLEST_N)
    high = min(n for n in known if n > low and known[n] <= 0)
    at_low, at_high, half = known[low] if low in known else excess(low), known[high], False
    while high > _NEAR * low and high > low + 1:  # between neighbours nothing is left
        share = 0.5 if half or at_low <= 0 else at_low / (at_low - at_high)
        middle = _between(low, high, share)
        at, wide = excess(middle), high / low
        if at > 0:
            low, at_low = middle, at
        else:
            high, at_high = middle, at
        half = high / low > math.sqrt(wide)  # a line that helps little is left for once
    return high


def _between(low: int, high: int, share: float) -> int:
    """A number that divides the way by `share` in logarithms, not much nearer an end than 2 %."""
    least = min(0.5, 0.9 * math.log(_NEAR) / math.log(high / low))
    share = min(max(share, least), 1 - least)
    return min(max(round(low * math.exp(share * math.log(high / low))), low + 1), high - 1)
