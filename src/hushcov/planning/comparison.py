"""Every mechanism's predicted error beside the others', before any data is touched."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from hushcov.exceptions import PrivacyConditionError
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.mechanisms.gaussian import gaussian_parameters
from hushcov.planning.gaussian import predict_gaussian
from hushcov.planning.multiscale import plan_multiscale, rough_multiscale
from hushcov.planning.reference import reference
from hushcov.planning.screened import plan_screened
from hushcov.postprocess import detection_deviation, universal_threshold

MECHANISMS = ("screened", "gaussian-threshold", "gaussian", "multiscale")
COMPARED_MODELS = ("block", "banded", "random")
_ROUGH_MARGIN = 4.0  # the search improves on a rough prediction by less than this factor
_HOPELESS = 0.99  # a predicted error at which the zero matrix, whose error is 1, does as well
_NINE_OF_TEN = 1.2815515655446004  # normal quantile of 0.9
_SMALLEST_N, _LARGEST_N = 10, 10**12
_REFERENCE = 100  # features of the references for norms of correlation matrices


@dataclass(frozen=True)
class Forecast:
    """What to expect of one mechanism.

    `predicted_error` is per reference model and relative to the operator norm of the covariance,
    so that 1 is the error of the zero matrix. `rough` says that the mechanism's own search was
    not run, because a quick prediction was far behind; it would improve the figures somewhat.
    """

    mechanism: str
    predicted_error: dict[str, float]
    detection_limit: float | None
    rough: bool = False

    @property
    def typical_error(self) -> float:
        """Geometric mean over the block, banded and random models."""
        logs = (math.log(max(self.predicted_error[m], 1e-300)) for m in COMPARED_MODELS)
        return math.exp(statistics.fmean(logs))

    @property
    def hopeless(self) -> bool:
        """Whether releasing nothing, the zero matrix, is expected to do as well."""
        return self.typical_error >= _HOPELESS


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
        lines = [
            f"predicted error relative to ||Sigma||, n = {inputs.n_records:,}, "
            f"d = {inputs.n_features:,}, k = {inputs.row_sparsity}, epsilon = {inputs.epsilon:g}, "
            f"delta = {inputs.delta:g}:"
        ]
        for forecast in self.forecasts:
            errors = ", ".join(f"{m} {forecast.predicted_error[m]:.3g}" for m in COMPARED_MODELS)
            note = " (rough)" if forecast.rough else ""
            lines.append(f"  {forecast.mechanism:<19} {errors}{note}")
        return "\n".join(lines)


def compare(inputs: ReleaseInputs, *, refine: bool = True) -> Comparison:
    """Predict every mechanism's error for these public inputs, best first.

    The multiscale search takes seconds; it runs only where a quick prediction is within a factor
    of the best other mechanism, and not at all without `refine`. A mechanism that cannot be
    certified for these inputs is left out.
    """
    forecasts = [forecast(inputs, name) for name in MECHANISMS if name != "multiscale"]
    best = min(each.typical_error for each in forecasts)
    try:
        multiscale = forecast(inputs, "multiscale", rough=True)
        if refine and best < 1 and multiscale.typical_error < _ROUGH_MARGIN * best:
            multiscale = forecast(inputs, "multiscale")
        forecasts.append(multiscale)
    except PrivacyConditionError:
        pass  # delta is below what the finite precision of its samplers costs
    return Comparison(inputs, tuple(sorted(forecasts, key=lambda each: each.typical_error)))


@lru_cache(maxsize=4096)
def forecast(inputs: ReleaseInputs, mechanism: str, *, rough: bool = False) -> Forecast:
    """Predict one mechanism's error."""
    return _FORECASTS[mechanism](inputs, rough)


def _screened(inputs: ReleaseInputs, rough: bool) -> Forecast:
    plan = plan_screened(inputs)
    limit = plan.detection_limit if plan.parameters.n_pairs else None  # no pair is looked for
    return Forecast("screened", plan.predicted_error, limit)


def _gaussian(inputs: ReleaseInputs, rough: bool) -> Forecast:
    return Forecast("gaussian", predict_gaussian(inputs, threshold=False), None)


def _thresholded(inputs: ReleaseInputs, rough: bool) -> Forecast:
    errors = predict_gaussian(inputs, threshold=True)
    parameters = gaussian_parameters(inputs)
    limit = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    limit += _NINE_OF_TEN * detection_deviation(parameters.noise_sd, inputs.n_records)
    limit = min(1.0, limit)
    return Forecast("gaussian-threshold", errors, limit if inputs.n_features > 1 else None)


def _multiscale(inputs: ReleaseInputs, rough: bool) -> Forecast:
    calibrated = multiscale_inputs(inputs)
    if rough:
        return Forecast("multiscale", rough_multiscale(calibrated), None, rough=True)
    return Forecast("multiscale", plan_multiscale(calibrated, "value").predicted_error, None)


_FORECASTS: dict[str, Callable[[ReleaseInputs, bool], Forecast]] = {
    "screened": _screened,
    "gaussian-threshold": _thresholded,
    "gaussian": _gaussian,
    "multiscale": _multiscale,
}


def multiscale_inputs(inputs: ReleaseInputs) -> CalibratedInputs:
    """The same release for the multiscale mechanism, on features at scale 1.

    Its scale bounds the standard deviation in every direction: the root of the norm of the
    correlation matrix, taken from the reference models.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    norms = [1 / reference(model, d, k, _REFERENCE).variance for model in COMPARED_MODELS]
    return CalibratedInputs(
        n_records=inputs.n_records,
        n_features=d,
        row_sparsity=k,
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        scale=math.sqrt(statistics.fmean(norms)),
        spent=inputs.spent,
    )


def smallest_n(
    inputs: ReleaseInputs | Callable[[int], ReleaseInputs],
    mechanism: str,
    model: str,
    target: float,
    *,
    rough: bool = False,
) -> int | None:
    """The fewest records, to within 2 %, that reach a target error on a model; None beyond 1e12.

    Where other inputs depend on the number of records, as the share of the budget for scales
    does, `inputs` is a function of it.
    """
    low, high = _SMALLEST_N, _LARGEST_N

    def error(n_records: int) -> float:
        at = inputs(n_records) if callable(inputs) else replace(inputs, n_records=n_records)
        return forecast(at, mechanism, rough=rough).predicted_error[model]

    if error(high) > target:
        return None
    while high > 1.02 * low and high > low + 1:  # between neighbours nothing is left
        middle = round(math.sqrt(low * high))
        low, high = (middle, high) if error(middle) > target else (low, middle)
    return high
