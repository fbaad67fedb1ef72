"""Guarantees and conditions as sentences, for people who have not read the paper."""

from __future__ import annotations

import math

from hushcov._words import exact, number
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.planning import COMPARED_MODELS, Forecast, mechanisms


def privacy_promise(epsilon: float, delta: float) -> str:
    """Say what (epsilon, delta)-differential privacy means."""
    return (
        f"({number(epsilon)}, {number(delta)})-differential privacy: replacing any one record "
        f"changes the probability of any outcome by at most a factor e^epsilon = "
        f"{math.exp(min(epsilon, 700)):.3g}, plus delta = {number(delta)}."
    )


def privacy_verdict(parameters: TheoremParameters) -> str:
    """Say whether the privacy proof covers this number of records, and from where on it does."""
    n = parameters.inputs.n_records
    needed = exact(parameters.smallest_private_n)
    if parameters.private:
        return f"yes. The proof covers every dataset of {needed} records or more."
    return (
        f"no. The proof needs at least {needed} records, and there are {exact(n)}: the mechanism "
        "refuses to release anything."
    )


def accuracy_verdict(parameters: TheoremParameters) -> str:
    """Say whether the accuracy conditions hold, and from which number of records on they do."""
    inputs = parameters.inputs
    promise = (
        f"error at most {accuracy_target(parameters)} in operator norm with probability at least "
        f"{number(1 - inputs.failure_probability)}"
    )
    needed = exact(parameters.smallest_accurate_n)
    answer, only = ("yes", "") if parameters.accurate else ("no", "only ")
    return (
        f"{answer}. The theorem's conditions on r and b, for {promise}, hold {only}from {needed} "
        "records on."
    )


def accuracy_target(parameters: TheoremParameters) -> str:
    """Return the target error in the unit of the covariance, with how it comes about."""
    inputs = parameters.inputs
    target = number(inputs.target_error * inputs.scale**2)
    if inputs.scale == 1:
        return target
    return f"{target} (target_error {number(inputs.target_error)} times scale^2)"


def typical_error(forecast: Forecast) -> str:
    """Return the predicted error, with what it is measured against."""
    models = ", ".join(
        f"{model} {number(forecast.predicted_error[model], 2)}" for model in COMPARED_MODELS
    )
    return (
        f"about {number(forecast.typical_error, 2)} of the covariance's norm, where features have "
        f"equal scales ({models}); the zero matrix has 1"
    )


def detection(forecast: Forecast) -> str:
    """Say which correlations will be found."""
    limit = forecast.detection_limit
    if limit is None:
        return f"no prediction: {mechanisms()[forecast.mechanism].no_limit}"
    if limit >= 1:
        return "hardly any pair: there are too few records"
    return f"correlations of {number(limit, 2)} or more, nine times out of ten"
