"""Records that two theorems ask for: the derivation, its terms, and the slopes of the rates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushcov.exceptions import CapacityError, ParameterError
from hushcov.inputs import PublicInputs
from hushcov.kernel.accounting import Pure, compose
from hushcov.paper.parameters import theorem_parameters
from hushcov_lab.benchmark.results import (
    fitted_slope,
    kumar_smallest_n,
    multiscale_smallest_n,
    printed_laplace_scale,
)

BUDGET = {"target_error": 0.25, "epsilon": 1.0, "delta": 1e-6, "failure_probability": 0.1}


def kumar(d, k, **changes):
    return kumar_smallest_n(d, k, **{**BUDGET, **changes})


def multiscale(d, k, **changes):
    return multiscale_smallest_n(d, k, **{**BUDGET, **changes})


def kumar_error(n, d, k, epsilon=1.0, delta=1e-6, beta=0.1):
    """3 k (tau + lambda) written out once more, all in one."""
    square = 2 * math.log(6 * n * d / beta)
    laplace = 16 * math.sqrt(2 * d * math.log(2 / delta)) * square / (n * epsilon)
    laplace *= math.sqrt(k * math.log(2 * d**2 / delta))
    sampling = 8 * math.sqrt(math.log(6 * d * (d + 1) / beta) / n)
    return 3 * k * (sampling + laplace * math.log(6 * d**2 / beta))


@pytest.mark.parametrize(("d", "k"), [(2, 1), (100, 5), (10_000, 5), (10_000, 300), (10**7, 2)])
def test_the_bound_reaches_the_target_at_this_n_and_not_before(d, k):
    n = kumar(d, k)
    assert kumar_error(n, d, k) <= 0.25 < kumar_error(n - 1, d, k)


def test_multiscale_is_the_theorem_both_private_and_accurate():
    n = multiscale(1000, 5)
    parameters = theorem_parameters(PublicInputs(n, 1000, 5, 0.25, 1.0, 1e-6, 0.1, 1.0))
    assert parameters.private
    assert parameters.accurate
    assert n == max(parameters.smallest_private_n, parameters.smallest_accurate_n)
    fewer = theorem_parameters(PublicInputs(n - 1, 1000, 5, 0.25, 1.0, 1e-6, 0.1, 1.0))
    assert not (fewer.private and fewer.accurate)


# Slopes. Logarithms move them: the exponent of log(x) to the power p is p/log(x) and falls slowly.


def test_slopes_are_those_of_power_laws():
    x = [1, 2, 5, 100]
    assert fitted_slope(x, [3 * value**1.5 for value in x]) == pytest.approx(1.5)
    assert fitted_slope(x, [10**400 * value**2 for value in x]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("x", "y"), [([1], [1]), ([1, 1], [1, 2]), ([1, 2], [1]), ([1, 2], [0, 1]), ([-1, 2], [1, 1])]
)
def test_points_without_a_slope_are_refused(x, y):
    with pytest.raises(ParameterError, match="x and y"):
        fitted_slope(x, y)


@pytest.mark.parametrize("theorem", [kumar, multiscale])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"target_error": 0.5}, "target_error"), ({"epsilon": 2.0}, "epsilon")),
        *(({"delta": 0.0}, "delta"), ({"failure_probability": 0.5}, "failure_probability")),
    ],
)
def test_inputs_outside_the_theorems_are_refused(theorem, changes, words):
    with pytest.raises(ParameterError, match=words):
        theorem(1000, 5, **changes)
    for d, k in ((1, 1), (10, 11), (10, 0)):
        with pytest.raises(ParameterError):
            theorem(d, k)


def test_targets_that_no_n_reaches_are_refused():
    with pytest.raises(CapacityError, match="1e100"):
        kumar(1000, 5, epsilon=1e-95)


# What docs/proofs/row_top_k.md says of the printed argument


@pytest.mark.parametrize("d", [10, 1000])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_with_the_constant_of_the_theorem_the_supports_alone_are_over_the_budget(d, delta):
    """8 where 2 is printed, and advanced composition over rows at what is left of delta."""
    k, epsilon = 5, 1.0
    b = printed_laplace_scale(1.0, d, k, epsilon, delta)
    a_row = 8 * math.sqrt(k * math.log(d / (delta / (2 * d)))) / b
    assert a_row <= 0.2  # where the theorem holds
    total = math.sqrt(2 * d * math.log(2 / delta)) * a_row + d * a_row * math.expm1(a_row)
    assert total > epsilon + epsilon**2 / (2 * math.log(2 / delta))


@pytest.mark.parametrize(("d", "k", "part"), [(50, 5, 0.09), (50, 50, 0.29), (200, 200, 0.6)])
def test_another_argument_covers_the_printed_noise_for_moderate_sparsity(d, k, part):
    """Sets are (2 k Delta/b)-DP, values and the diagonal (Delta/b)-DP each."""
    b = printed_laplace_scale(1.0, d, k, 1.0, 1e-6)
    events = (Pure(2 * k / b),) * d + (Pure(1 / b),) * (d * (k + 1))
    assert compose(events, delta=1e-6).epsilon < part


def probability_of_leaving_out_the_last(row, b):
    """That the last entry has the smallest |entry + Laplace noise|, by quadrature."""
    noise = np.linspace(-40 * b, 40 * b, 20_001)
    density = np.exp(-np.abs(noise) / b) / (2 * b)
    level = np.abs(row[-1] + noise)

    def beyond(x):
        """P(|x + w| > level): either tail of the Laplace law."""
        above, below = level - x, level + x
        upper = np.where(above > 0, np.exp(-np.abs(above) / b) / 2, 1 - np.exp(above / b) / 2)
        lower = np.where(below > 0, np.exp(-np.abs(below) / b) / 2, 1 - np.exp(below / b) / 2)
        return upper + lower

    joint = density * np.prod([beyond(x) for x in row[:-1]], axis=0)
    return float(np.sum(joint) * (noise[1] - noise[0]))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_sets_of_noisy_absolute_values_are_as_private_as_the_other_argument_says(k):
    """No neighbour moves the probability of a set by more than e^(2 k Delta/b), Delta = 1."""
    b, losses = 2.0, []
    for row in ([0.0, 0, 0, 0], [5.0, 5, 5, 5], [9.0, -9, 9, 0], [1.0, -2, 3, 8]):
        first = np.array(row[-k - 1 :])
        law = probability_of_leaving_out_the_last(first, b)
        for change in itertools.product((-1, 1), repeat=k + 1):
            other = probability_of_leaving_out_the_last(first + np.array(change), b)
            losses.append(abs(math.log(law / other)))
    assert max(losses) <= 2 * k / b
    assert max(losses) > 0.6 * k / b  # the bound is of the right order
