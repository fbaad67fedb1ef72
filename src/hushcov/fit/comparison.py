"""Predicted errors side by side: by mechanism, and by what the covariance may be like."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hushcov._arrays import root
from hushcov.exceptions import HushcovError
from hushcov.fit.mechanism import COMPARED_MODELS, DENSE, FACTOR, Forecast
from hushcov.fit.registry import comparable, default_mechanism, forecast
from hushcov.inputs import ReleaseInputs

_ROUGH_MARGIN = 4.0  # the search improves on a rough prediction by less than this factor
_SMALLEST_N, _LARGEST_N = 10, 10**12
_NEAR = math.log(1.02) / math.log(_LARGEST_N)  # numbers of records within 2 % are alike


@dataclass(frozen=True)
class Comparison:
    """Predicted errors of several mechanisms for the same public inputs, best first.

    `refusals` says why other mechanisms cannot be planned for these inputs.
    """

    inputs: ReleaseInputs
    forecasts: tuple[Forecast, ...]
    refusals: Mapping[str, HushcovError] = field(default_factory=dict, compare=False)

    @property
    def best(self) -> Forecast:
        """The smallest error; a rough figure does not make a mechanism the best."""
        if not self.forecasts:
            raise next(iter(self.refusals.values()))
        return next((each for each in self.forecasts if not each.rough), self.forecasts[0])

    def find(self, mechanism: str) -> Forecast | None:
        """Return the forecast of a mechanism, if there is one."""
        return next((each for each in self.forecasts if each.mechanism == mechanism), None)

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
            lines.append(f"  {each.mechanism:<19} {errors}{' (rough)' * each.rough}")
        return "\n".join(lines)


def compare(
    inputs: ReleaseInputs,
    mechanisms: Iterable[str] = (),
    *,
    refine: bool | None = None,
    adaptive_width: bool = False,
) -> Comparison:
    """Predict the errors of mechanisms for these public inputs, best first.

    Parameters
    ----------
    inputs : ReleaseInputs
        Size and budget. With candidate pairs only mechanisms that accept them are compared.
    mechanisms : iterable of str
        The mechanisms; all whose error is predicted by default.
    refine : bool, optional
        Whether to run searches that take seconds. By default they run only where a rough
        prediction is within a factor of 4 of the best other mechanism.
    adaptive_width : bool
        Whether the bandwidth is a maximum.
    """
    able, best = comparable(inputs.candidates), math.inf
    forecasts: list[Forecast] = []
    refusals: dict[str, HushcovError] = {}
    for name in sorted(mechanisms or able, key=lambda name: able[name].slow):
        rough = able[name].slow and not refine
        try:
            found = forecast(inputs, name, rough=rough, adaptive_width=adaptive_width)
            if rough and refine is None and found.typical_error < _ROUGH_MARGIN * best < math.inf:
                found = forecast(inputs, name) if best < 1 else found
            forecasts.append(found)
            best = min(best, found.typical_error)
        except HushcovError as error:
            refusals[name] = error
    forecasts.sort(key=lambda each: each.typical_error)
    return Comparison(inputs, tuple(forecasts), refusals)


def smallest_n(
    inputs: ReleaseInputs | Callable[[int], ReleaseInputs],
    mechanism: str,
    model: str,
    target: float,
    *,
    rough: bool = False,
    adaptive_width: bool = False,
    tried: Iterable[int] = (),
) -> int | None:
    """Find the fewest records, to within 2 %, that reach a target error on a model.

    Returns None where 1e12 records do not. `inputs` is a function of the number of records where
    the shares of the budget depend on it. `tried` is as in `smallest_error`.
    """

    def error(n: int) -> float:
        at = inputs(n) if callable(inputs) else inputs.changed(n_records=n)
        found = forecast(at, mechanism, rough=rough, adaptive_width=adaptive_width)
        return found.predicted_error[model]

    return smallest_error(error, target, tried)


def smallest_error(
    error: Callable[[int], float], target: float, tried: Iterable[int] = ()
) -> int | None:
    """Find the fewest records, to within 2 %, whose error is at most a target; None beyond 1e12.

    The search starts from numbers that were `tried` before, whose errors are known.
    """
    known: dict[int, float] = {}

    def excess(log_n: float) -> float:
        n = round(math.exp(log_n))
        if n not in known:
            known[n] = math.log(max(error(n), 1e-300) / target)
        return known[n]

    start = sorted(n for n in {*tried} if _SMALLEST_N <= n <= _LARGEST_N)
    high = next((n for n in start if excess(math.log(n)) <= 0), _LARGEST_N)
    low = max((n for n in start if n < high), default=_SMALLEST_N)
    if excess(math.log(high)) > 0:
        return None
    if excess(math.log(low)) > 0:
        last = round(math.exp(root(excess, math.log(low), math.log(high), relative=_NEAR)))
        low = last if known[last] <= 0 else min(n for n in known if n > last and known[n] <= 0)
    return low


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
    """Predicted errors of the default mechanism by kind of covariance."""

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
    """Return the kinds of covariance that so many features can have."""
    if n_features == 1:
        return (Family("k = 1", "no partners", 1),)
    few = (k for k in SPARSITIES if k <= n_features)
    return (
        *(Family(f"k = {k}", f"{k - 1} partners of each feature", k) for k in few),
        *(Family("k = 1", "no partners", 1) for _ in range(n_features < SPARSITIES[0])),
        Family(FACTOR, "one factor, a third of the variance"),
        Family(DENSE, "all pairs related, a little"),
    )


def _default(inputs: ReleaseInputs, row_sparsity: int | None = None) -> Forecast:
    k = min(USUAL_SPARSITY, inputs.n_features) if row_sparsity is None else row_sparsity
    return forecast(inputs.changed(row_sparsity=k), default_mechanism().name)


def family_error(inputs: ReleaseInputs, family: Family) -> float:
    """Predict the error of the default mechanism; the row sparsity of `inputs` does not matter."""
    found = _default(inputs, family.row_sparsity)
    return found.typical_error if family.row_sparsity else found.predicted_error[family.name]


def forecast_families(inputs: ReleaseInputs) -> Families:
    """Predict the error of the default mechanism for each kind of covariance.

    The row sparsity of `inputs` does not matter.
    """
    errors = {each: family_error(inputs, each) for each in families(inputs.n_features)}
    return Families(inputs, errors, _default(inputs))
