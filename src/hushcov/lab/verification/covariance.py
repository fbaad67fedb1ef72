"""Lemmas 1 and 6: clipping alters nothing, and S is close to Sigma entry by entry."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import integrate, optimize, special

from hushcov.lab.verification import numerics
from hushcov.lab.verification.claim import LOG10, Claim, agree, at_most
from hushcov.lab.verification.simulation import Run, Setting

# With E exp(|X|/K) <= 2 every moment has E|X|^p <= p! K^p, and Bernstein's inequality then holds
# with this constant c: t^2 / (4 n K^2 + 2 K t) >= min(t^2/(n K^2), t/K) / 6.
BERNSTEIN = 1 / 6
# psi_1 norm of a centred product of sigma-sub-Gaussian coordinates: 8/3 sigma^2 from
# E exp(x X^2) <= (1 - 2 x sigma^2)^(-1/2), and sigma^2 / ln 2 for its mean.
PRODUCT_NORM = 8 / 3 + 1 / math.log(2)


def clipping(setting: Setting) -> Claim:
    """No coordinate of n Gaussian records passes R, except with probability beta/20."""
    parameters = setting.parameters
    inputs = parameters.inputs
    count = float(inputs.n_records) * inputs.n_features
    radius = parameters.clip_radius / inputs.scale
    union = math.log(2 * count) - radius**2 / 2
    bound = math.log(inputs.failure_probability / 20)
    # Coordinates of a record are dependent; Sidak's inequality makes independence the worst case.
    measured = numerics.log_any(numerics.log_two_sided(radius), count)
    second = numerics.log_any(numerics.log_two_sided_by_quadrature(radius), count)
    return at_most(
        "clipping",
        "Lemma 1",
        "P(a coordinate passes R) <= 2nd exp(-R^2/(2 sigma^2)) <= beta/20",
        bound=bound / LOG10,
        measured=measured / LOG10,
        second=second / LOG10,
        also=union <= bound + 1e-9 and agree(measured, second),
        detail=f"Gaussian coordinates of variance sigma^2; union bound 10^{union / LOG10:.3f}",
        logarithmic=True,
    )


def log_covariance_failure(setting: Setting, deviation: float | None = None) -> float:
    """Log of a union bound on P(||S - Sigma||_max > deviation), by default t_0/16, unclipped."""
    tau = setting.base_threshold / 16 if deviation is None else deviation
    (covariances, variances), counts = setting.entry_laws
    n = setting.parameters.inputs.n_records
    logs = numerics.log_product_deviation(covariances, variances, tau, n, sharp=True)
    return float(special.logsumexp(logs, b=counts))


def covariance_event(setting: Setting, runs: Sequence[Run]) -> Claim:
    """E_cov: every entry of S is within t_0/16 of Sigma, except with probability beta/10."""
    inputs = setting.parameters.inputs
    radius = setting.base_threshold / 16
    ratios = np.array([run.deviation for run in runs]) / radius
    beta = inputs.failure_probability
    quantile = np.quantile(ratios, 1 - beta / 10, method="inverted_cdf")
    goal = math.log(beta / 20)
    log_factor = optimize.brentq(
        lambda x: max(-700.0, log_covariance_failure(setting, radius * math.exp(x))) - goal,
        math.log(1e-9),
        math.log(1e9),
        xtol=1e-6,
    )
    norm = PRODUCT_NORM * inputs.scale**2
    needed = math.log(40 * inputs.n_features**2 / beta) * norm**2 / (BERNSTEIN * radius**2)
    return at_most(
        "covariance event",
        "Lemma 1",
        "||S - Sigma||_max <= t_0/16 with frequency >= 1 - beta/10; unit t_0/16",
        bound=1.0,
        measured=float(quantile),
        second=math.exp(log_factor),
        detail=f"{int(np.sum(ratios <= 1))} of {len(ratios)} draws, largest {ratios.max():.3g}; "
        "second: radius at which the union of entry tails is beta/20; "
        f"every sub-Gaussian law: n >= {needed:.2g} suffices (c = 1/6)",
    )


def scalar_bernstein(setting: Setting) -> Claim:
    """Lemma 6 with an explicit constant, for squares of Gaussians at tau = t_0/16."""
    inputs = setting.parameters.inputs
    n, tau = inputs.n_records, setting.base_threshold / 16 / inputs.scale**2
    K = _centred_square_norm()
    bound = math.log(2) - BERNSTEIN * n * min((tau / K) ** 2, tau / K)
    one = np.ones(1)
    measured = float(numerics.log_product_deviation(one, one, tau, n)[0])
    shape = n / 2
    upper, lower = (
        special.gammaincc(shape, shape * (1 + tau)),
        special.gammainc(shape, shape * (1 - tau)),
    )
    exact = float(upper + lower)
    return at_most(
        "scalar Bernstein",
        "Lemma 6",
        "P(|mean of X^2 - 1| > tau) <= 2 exp(-c n min(tau^2/K^2, tau/K)), c = 1/6",
        bound=bound / LOG10,
        measured=measured / LOG10,
        second=math.log10(exact) if exact > 0 else -math.inf,
        also=exact <= math.exp(measured) * (1 + 1e-6),
        detail=f"tau = t_0/16, K = {K:.4f}; measured: Chernoff; second: exact chi-square tail",
        logarithmic=True,
    )


def _centred_square_norm() -> float:
    """psi_1 norm of g^2 - 1: the s with E exp(|g^2 - 1|/s) = 2."""

    def excess(s: float) -> float:
        def integrand(x: float) -> float:
            return math.exp(abs(x * x - 1) / s - x * x / 2)

        inner, outer = integrate.quad(integrand, 0, 1)[0], integrate.quad(integrand, 1, np.inf)[0]
        return float(math.sqrt(2 / math.pi) * (inner + outer) - 2)

    return float(optimize.brentq(excess, 2.2, 8.0, xtol=1e-10))
