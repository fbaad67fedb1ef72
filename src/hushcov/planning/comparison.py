"""Every mechanism's predicted error beside the others', before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from hushcov.exceptions import PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.screened.plan import plan_screened, predicted_errors
from hushcov.planning.plan import Request
from hushcov.planning.registry import comparable, default_mechanism, forecast, with_missing
from hushcov.predicting import COMPARED_MODELS, DENSE, FACTOR, Forecast

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

    known = {n: excess(n) for n in sorted(tried) if _SMALLEST_N <= n <= _LARGEST_N}
    low = max((n for n in known if known[n] > 0), default=_SMALLEST_N)
    if max(known, default=0) <= low:  # none that reaches it is known
        known[_LARGEST_N] = excess(_LARGEST_N)
        if known[_LARGEST_N] > 0:
            return None
    high = min(n for n in known if n > low)
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


# Expected errors where the structure is unknown: one figure for each family.


#: Nonzeros of a row, the diagonal included, for which errors are predicted.
SPARSITIES = (3, 5, 10, 20)
#: The one that is assumed where nothing depends on it.
USUAL_SPARSITY = 5


@dataclass(frozen=True)
class Family:
    """One kind of covariance: few partners of each feature, one strong factor, or dense.

    `row_sparsity` is the number of nonzeros of a row where there are few.
    """

    name: str
    words: str
    row_sparsity: int | None = None


@dataclass(frozen=True)
class Families:
    """Predicted errors of the default for one number of records, by family of structure."""

    inputs: ReleaseInputs
    errors: dict[Family, float]
    usual: Forecast  # at the usual sparsity

    def to_dict(self) -> list[dict[str, object]]:
        """Return everything as plain, JSON-ready data."""
        return [
            {"family": each.name, "row_sparsity": each.row_sparsity, "predicted_error": error}
            for each, error in self.errors.items()
        ]


def families(n_features: int) -> tuple[Family, ...]:
    """The families there can be among so many features."""
    few = tuple(
        Family(f"k = {k}", f"{k - 1} partners of each feature", k)
        for k in SPARSITIES
        if k <= n_features
    )
    few = few or (Family("k = 1", "no partners", 1),)
    others = (
        Family(FACTOR, "one factor, a third of the variance"),
        Family(DENSE, "all pairs related, a little"),
    )
    return (*few, *(others if n_features > 1 else ()))


def forecast_families(request: Request, n_records: int, n_features: int) -> Families:
    """Predict the error of the default for each family, from public inputs alone.

    The sparsity of the request does not matter.
    """
    usual = min(USUAL_SPARSITY, n_features)
    errors = {
        each: family_error(request, n_records, n_features, each) for each in families(n_features)
    }
    inputs = _inputs(request, n_records, n_features, usual)
    return Families(inputs, errors, forecast(inputs, default_mechanism().name))


def family_error(request: Request, n_records: int, n_features: int, family: Family) -> float:
    """Forecast the error of one family."""
    k = min(USUAL_SPARSITY, n_features) if family.row_sparsity is None else family.row_sparsity
    found = forecast(_inputs(request, n_records, n_features, k), default_mechanism().name)
    if family.row_sparsity is None:
        return found.predicted_error[family.name]
    return found.typical_error


def smallest_for(
    request: Request, n_features: int, family: Family, target: float, tried: set[int] | None = None
) -> int | None:
    """The fewest records that reach a target error in a family; None beyond 1e12.

    `tried` are numbers of records that were planned before.
    """
    return smallest_error(lambda n: family_error(request, n, n_features, family), target, tried)


def _inputs(request: Request, n_records: int, n_features: int, k: int) -> ReleaseInputs:
    return replace(request, row_sparsity=k).inputs(n_records, n_features)


@lru_cache(maxsize=256)
def guess_error(inputs: ReleaseInputs, guess: int) -> float:
    """The error of a screened release that is told `guess` instead of the sparsity of `inputs`."""
    told = plan_screened(replace(inputs, row_sparsity=guess), short=True)
    errors = told.predicted_error
    if guess != inputs.row_sparsity:
        errors = predicted_errors(replace(told.parameters, inputs=inputs), COMPARED_MODELS)
    return with_missing(Forecast("screened", errors, None), inputs).typical_error


def guesses(request: Request, n_records: int, n_features: int) -> dict[int, dict[int, float]]:
    """Errors of screened releases by the true sparsity and by what they were told."""
    known = [each.row_sparsity for each in families(n_features) if each.row_sparsity]
    inputs = {true: _inputs(request, n_records, n_features, true) for true in known}
    return {true: {told: guess_error(inputs[true], told) for told in known} for true in known}
