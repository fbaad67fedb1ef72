"""The second routes themselves, held against other references."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from hushcov.paper.parameters import gate_correction, theorem_parameters
from hushcov.paper.verification import simulation as numerics
from hushcov.paper.verification.simulation import (
    at_most,
    correction_by_moments,
    draw_ideal,
    fired_length,
    fired_length_by_thresholds,
    ideal_moments,
    make_setting,
    mean_formula,
    read_again,
)


@pytest.mark.parametrize("r", [1e-6, 1e-3, 0.02, 0.3])
def test_correction_two_ways(r: float) -> None:
    assert math.isclose(correction_by_moments(r, 0.25), gate_correction(r, 0.25), rel_tol=1e-13)


@pytest.mark.parametrize("r", [1e-3, 0.02, 0.3])
@pytest.mark.parametrize("a", [0.76, 0.9, 1.0, 1.3, 1.9, 2.6])
def test_fired_length_against_quadrature_over_thresholds(r: float, a: float) -> None:
    def gate(t: float) -> float:
        y = 1 - a / t
        return float(y < 0.25) * (1.0 if y < -0.25 else 0.5 * special.erfc(y / (r * math.sqrt(2))))

    kinks = (a, a / 1.25, a / 0.75, *(a + j * r for j in (-15, -5, 5, 15)))
    edges = sorted({1.0, 2.0, *(x for x in kinks if 1 < x < 2)})
    expected = sum(
        integrate.quad(gate, low, high, epsabs=1e-13, limit=200)[0] for low, high in pairwise(edges)
    )
    drawn = fired_length(np.array([a]), 1.0, 2.0, r, 0.25)[0]
    assert math.isclose(drawn, expected, rel_tol=1e-8, abs_tol=1e-12)


@pytest.mark.parametrize("r", [1e-7, 1e-3, 0.1, 0.9])
def test_scalar_identity_both_ways(r: float) -> None:
    kappa = correction_by_moments(r, 0.25)
    assert math.isclose(fired_length_by_thresholds(2.5, r, 0.25), 2.5 * kappa, rel_tol=1e-12)
    by_noise = fired_length(np.array([2.5]), 0.0, math.inf, r, 0.25)[0]
    assert math.isclose(by_noise, 2.5 * kappa, rel_tol=1e-12)


def test_levels_add_up_to_the_formula() -> None:
    setting = make_setting("random", 30, 4)
    S = setting.draw_covariance(1)
    moments = ideal_moments(S, setting.parameters)
    np.testing.assert_allclose(moments.mean, mean_formula(S, setting.parameters), rtol=1e-9, atol=0)


def test_exact_variance_is_the_variance_of_draws() -> None:
    sample = draw_ideal(make_setting("block", 6, 2), seed=4)
    ratio = sample.variance / sample.exact.variance
    # 9 entries with over 6,000 draws each: a standard error is about 0.018.
    np.testing.assert_allclose(ratio, 1, atol=0.1)


@pytest.mark.parametrize(("count", "p", "limit"), [(50, 0.3, 20), (1000, 0.9, 950), (40, 0.5, 39)])
def test_binomial_tail(count: int, p: float, limit: int) -> None:
    exact = stats.binom.logsf(limit, count, p)
    bound = numerics.log_binomial_above(limit, count, p, 1 - p)
    assert exact <= bound <= exact + 0.5


def test_binomial_tail_at_its_ends() -> None:
    assert numerics.log_binomial_above(10, 10, 0.5, 0.5) == -math.inf
    assert numerics.log_binomial_above(4, 10, 0.5, 0.5) == 0.0


@pytest.mark.parametrize("x", [1.0, 8.0, 40.0, 3e4])
def test_gaussian_tail_two_ways(x: float) -> None:
    direct, integrated = numerics.log_two_sided(x), numerics.log_two_sided_by_quadrature(x)
    assert math.isclose(direct, integrated, rel_tol=1e-9)


def test_any_of_many() -> None:
    assert math.isclose(numerics.log_any(math.log(0.1), 3), math.log(1 - 0.9**3))
    assert math.isclose(numerics.log_any(-200, 1e10), math.log(1e10) - 200)
    assert math.isclose(numerics.log_any(-31, 1e20), 0.0, abs_tol=1e-9)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5])
def test_product_deviation_bounds_the_tail(correlation: float) -> None:
    generator = np.random.default_rng(5)
    n, draws, tau = 40, 50_000, 0.35
    x, z = generator.standard_normal((2, draws, n))
    y = correlation * x + math.sqrt(1 - correlation**2) * z
    hits = np.sum(np.abs(np.mean(x * y, axis=1) - correlation) > tau)
    law = np.array([correlation]), np.ones(1), tau, n
    assert hits / draws <= math.exp(numerics.log_product_deviation(*law)[0])
    sharp = math.exp(numerics.log_product_deviation(*law, sharp=True)[0])
    # Five standard errors (false alarm 6e-7), and 1 % for the approximation at n = 40.
    assert abs(hits - draws * sharp) <= 5 * math.sqrt(draws * sharp) + 0.01 * draws * sharp


def test_product_deviation_of_a_square_is_chi_square() -> None:
    n, tau = 10**6, 0.005
    exact = stats.chi2.sf(n * (1 + tau), n) + stats.chi2.cdf(n * (1 - tau), n)
    bound = numerics.log_product_deviation(np.ones(1), np.ones(1), tau, n)[0]
    assert exact <= math.exp(bound) <= 30 * exact
    sharp = numerics.log_product_deviation(np.ones(1), np.ones(1), tau, n, sharp=True)[0]
    assert math.isclose(math.exp(sharp), exact, rel_tol=1e-4)


def test_clopper_pearson() -> None:
    assert math.isclose(numerics.clopper_pearson(30, 30), 0.05 ** (1 / 30))
    assert numerics.clopper_pearson(0, 30) == 0.0
    assert numerics.clopper_pearson(29, 30) < numerics.clopper_pearson(30, 30)


@pytest.mark.parametrize(
    ("features", "sparsity", "alpha", "scale"),
    [(20, 2, 0.25, 1.0), (100, 5, 0.25, 3.0), (400, 40, 1 / 64, 0.01)],
)
def test_the_second_reading_agrees_with_the_first(
    features: int, sparsity: int, alpha: float, scale: float
) -> None:
    setting = make_setting("block", features, sparsity, target_error=alpha, scale=scale)
    parameters = theorem_parameters(setting.parameters.inputs)
    again = read_again(parameters.inputs)
    pairs = [
        (again.gate_noise, parameters.gate_noise),
        (again.union_log, parameters.union_log),
        (again.log_clipping_slack, parameters.log_clipping_slack),
        (float(again.query_budget), parameters.query_budget),
        (again.sensitivity, parameters.entry_sensitivity),
        *zip(again.selection_scales, [b or 0.0 for b in parameters.selection_scales], strict=True),
    ]
    for second, first in pairs:
        assert math.isclose(second, first, rel_tol=1e-10)


def test_a_claim_that_broke_down_does_not_hold() -> None:
    claim = at_most("name", "source", "statement", bound=1.0, measured=math.nan, second=0.0)
    assert claim.holds is False
