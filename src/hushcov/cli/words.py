"""Guarantees and conditions as sentences, for people who have not read the paper."""

from __future__ import annotations

import math

from hushcov.cli.output import exact, number
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.planning import MultiscalePlan


def privacy_promise(epsilon: float, delta: float) -> str:
    """Say what (epsilon, delta)-differential privacy means."""
    return (
        f"({number(epsilon)}, {number(delta)})-differential privacy: replacing any one record "
        f"changes the probability of any outcome by at most a factor e^epsilon = "
        f"{math.exp(epsilon):.3g}, plus delta = {number(delta)}."
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


def expected_errors(plan: MultiscalePlan) -> str:
    """Return the predicted error of each reference model, with what it is measured against."""
    scale = plan.parameters.inputs.scale
    errors = ", ".join(f"{model} {number(e, 2)}" for model, e in plan.predicted_error.items())
    unit = "" if scale == 1 else f" times scale^2 = {number(scale**2)}"
    return (
        f"{errors}{unit} in operator norm, if the covariance is like one of these models; the "
        "zero matrix has at most 1."
    )
