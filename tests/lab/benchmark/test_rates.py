"""Records that two theorems ask for: the derivation, its terms, and the slopes of the rates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushcov.accounting import Pure, compose
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.inputs import PublicInputs
from hushcov.lab.benchmark.results import (
    fitted_slope,
    kumar_smallest_n,
    multiscale_smallest_n,
    printed_laplace_scale,
)
from hushcov.paper.parameters import theorem_parameters
from hushcov.simulate import gaussian_records, sparse_covariance

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


def test_both_terms_are_there():
    """1/(alpha epsilon) for errors that are easy to reach, 1/alpha^2 for those that are not."""
    easy, hard = [0.25, 0.2, 0.15], [1e-9, 1e-10, 1e-11]
    for errors, slope in ((easy, -1), (hard, -2)):
        found = fitted_slope(errors, [kumar(1000, 5, target_error=error) for error in errors])
        assert found == pytest.approx(slope, abs=0.07)
    alone = (24 * 5 / 1e-11) ** 2 * math.log(6 * 1000 * 1001 / 0.1)
    assert alone < kumar(1000, 5, target_error=1e-11) < 1.01 * alone


@pytest.mark.parametrize("model", ["block", "random"])
def test_the_sampling_part_of_the_bound_holds_for_gaussian_records(model):
    """All entries within tau with probability 1 - beta/3; it is generous, so always here."""
    d, n, beta = 40, 2000, 0.1
    tau = 8 * math.sqrt(math.log(6 * d * (d + 1) / beta) / n)
    truth = sparse_covariance(model, d, 5)
    for seed in range(20):
        X = gaussian_records(truth, n, random_state=seed)
        assert np.max(np.abs(X.T @ X / n - truth)) < tau


@pytest.mark.parametrize("law", ["normal", "sign", "sparse"])
def test_squares_have_the_moments_that_the_derivation_uses(law):
    """E exp(s (Y - EY)) <= exp(16 s^2) for s <= 1/4, in closed form."""
    for s in (*np.linspace(0.01, 0.25, 25), -0.25, -1.0, -5.0):
        if law == "normal":  # Y = Z^2
            log_moment = -0.5 * math.log(1 - 2 * s) - s
        elif law == "sign":  # Y = 1
            log_moment = 0.0
        else:  # +-2 with probability 1/16 each, else 0: the variance is 1/2, the proxy below 1
            log_moment = math.log(7 / 8 + math.exp(4 * s) / 8) - s / 2
        assert log_moment <= 16 * s**2


def test_multiscale_is_the_theorem_both_private_and_accurate():
    n = multiscale(1000, 5)
    parameters = theorem_parameters(PublicInputs(n, 1000, 5, 0.25, 1.0, 1e-6, 0.1, 1.0))
    assert parameters.private
    assert parameters.accurate
    assert n == max(parameters.smallest_private_n, parameters.smallest_accurate_n)
    fewer = theorem_parameters(PublicInputs(n - 1, 1000, 5, 0.25, 1.0, 1e-6, 0.1, 1.0))
    assert not (fewer.private and fewer.accurate)


def test_the_condition_on_sampling_that_has_no_number_would_not_bind():
    """With the constant of the derivation for the other theorem it is far below, at these sizes."""
    for d in (10**3, 10**6):
        for k in (2, 256):
            assert multiscale(d, k) > 1000 * (24 * k / 0.25) ** 2 * math.log(80 * d / 0.1)


# Slopes. Logarithms move them: the exponent of log(x) to the power p is p/log(x) and falls slowly.

SPARSITIES = [2**power for power in range(1, 9)]


@pytest.mark.parametrize("d", [10**4, 10**6])
def test_slopes_in_the_sparsity(d):
    """k = 2 .. 256: 1.5 and 0.03 to 0.05 of logarithms; 1 and 0.14 to 0.19 of logarithms.

    The multiscale bound has a power of its number of levels, log2(512 k/alpha), among its factors.
    """
    of_kumar = fitted_slope(SPARSITIES, [kumar(d, k) for k in SPARSITIES])
    of_multiscale = fitted_slope(SPARSITIES, [multiscale(d, k) for k in SPARSITIES])
    assert 1.52 < of_kumar < 1.56
    assert 1.13 < of_multiscale < 1.20
    assert 0.3 < of_kumar - of_multiscale < 0.45


def test_slopes_in_the_sparsity_without_logarithms():
    """Divided by the factors that both theorems name, 1.5 and 1 are left, within 0.03."""
    d, inputs = 10**6, (0.25, 1.0, 1e-6, 0.1, 1.0)
    left_of_kumar, left_of_multiscale = [], []
    for k in SPARSITIES:
        n = kumar(d, k)
        left_of_kumar.append(n / math.log(6 * n * d / 0.1))
        n = multiscale(d, k)
        p = theorem_parameters(PublicInputs(n, d, k, *inputs))
        logs = math.log(40 * n * d / 0.1) * p.n_levels**1.5 * math.sqrt(p.log_factor)
        left_of_multiscale.append(n / (logs * p.union_log**1.5))
    assert fitted_slope(SPARSITIES, left_of_kumar) == pytest.approx(1.5, abs=0.03)
    assert fitted_slope(SPARSITIES, left_of_multiscale) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("powers", "lowest", "highest"),
    [
        (range(7, 21), 0.62, 0.75),  # d = 128 .. 1e6: 0.66 and 0.70
        (range(20, 40), 0.56, 0.61),  # 0.59 and 0.58
        (range(60, 80), 0.54, 0.55),  # 0.545 and 0.544
    ],
)
def test_slopes_in_the_number_of_features(powers, lowest, highest):
    """1/2, and logarithms that fade: by 0.2, then 0.1, then less than 0.05."""
    features = [2**power for power in powers]
    for theorem in (kumar, multiscale):
        slope = fitted_slope(features, [theorem(d, 5) for d in features])
        assert lowest < slope < highest


def test_small_sizes_are_outside_the_rate_of_the_multiscale_theorem():
    """Its quotas are capped by the number of tests, and n grows like d^2 until they are not."""
    features = [2**power for power in range(5, 9)]
    assert fitted_slope(features, [multiscale(d, 5) for d in features]) > 1.5
    assert fitted_slope(features, [kumar(d, 5) for d in features]) < 0.8


@pytest.mark.parametrize("theorem", [kumar, multiscale])
def test_more_is_asked_for_more(theorem):
    n = theorem(1000, 5)
    assert theorem(1000, 5, epsilon=0.5) > 1.9 * n
    assert theorem(1000, 5, target_error=0.125) > 1.9 * n
    assert theorem(1000, 5, delta=1e-9) > n
    assert theorem(1000, 5, failure_probability=0.01) > n


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
        ({"target_error": 0.5}, "target_error"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"failure_probability": 0.5}, "failure_probability"),
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
