"""Lemma 3: the ideal estimator concentrates around its conditional mean in operator norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov.lab.verification.claim import FALSE_ALARM, Claim, at_most
from hushcov.lab.verification.setting import Setting
from hushcov.lab.verification.simulation import IdealSample, Run

FloatArray = npt.NDArray[np.float64]

SOURCE = "Lemma 3"


def matrix_variance(setting: Setting, sample: IdealSample) -> Claim:
    """The matrix variance v of the ideal estimator is at most kL/rho."""
    parameters = setting.parameters
    bound = parameters.inputs.row_sparsity * parameters.n_levels / parameters.test_rate
    exact = exact_variance(setting, sample)
    drawn = _largest_row_sum(setting, sample, sample.variance)
    # Sampling spread of the total: Var(s^2) = (fourth cumulant + 2 variance^2) / draws.
    moments = sample.exact
    total = float(moments.variance.sum())
    spread = math.sqrt(
        float(np.sum(moments.fourth_cumulant + 2 * moments.variance**2)) / sample.draws
    )
    deviation = abs(float(sample.variance.sum()) - total) / spread if spread else 0.0
    return at_most(
        "matrix variance",
        SOURCE,
        "v = ||sum_c E[W_c^2 | S]||_op <= kL/rho, centred; unit kL/rho",
        bound=1.0,
        measured=exact / bound,
        second=drawn / bound,
        also=deviation <= float(-special.ndtri(FALSE_ALARM / 2)),
        detail="exact binomial variances; second: sample variances of the drawn estimators, "
        f"whose total is {deviation:.2f} standard errors off",
    )


def exact_variance(setting: Setting, sample: IdealSample) -> float:
    """v: the largest row sum of entry variances, because every B_e^2 is diagonal."""
    return _largest_row_sum(setting, sample, sample.exact.variance)


def _largest_row_sum(setting: Setting, sample: IdealSample, values: FloatArray) -> float:
    upper = np.zeros(len(sample.statistic))
    upper[sample.able] = values
    return float(setting.symmetric(upper).sum(axis=1).max())


def bernstein_radius(setting: Setting, variance: float) -> float:
    """sqrt(2 v u) + 2 B u / 3 with B = 2/(rho t_0), u = log(40 d / beta)."""
    parameters = setting.parameters
    inputs = parameters.inputs
    u = math.log(40 * inputs.n_features / inputs.failure_probability)
    envelope = 2 / (parameters.test_rate * setting.base_threshold)
    return math.sqrt(2 * variance * u) + 2 * envelope * u / 3


def log_bernstein_failure(setting: Setting, variance: float) -> float:
    """Log of matrix Bernstein's bound on P(||Sigma_id - mean||_op > alpha sigma^2 / 2)."""
    parameters = setting.parameters
    x = setting.target / 2
    envelope = 2 / (parameters.test_rate * setting.base_threshold)
    exponent = -(x**2) / (2 * (variance + envelope * x / 3))
    return min(0.0, math.log(2 * parameters.inputs.n_features) + exponent)


def matrix_concentration(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Claim:
    """The fluctuation stays below the lemma's radius, except with probability beta/20."""
    parameters = setting.parameters
    beta = parameters.inputs.failure_probability
    variance = parameters.inputs.row_sparsity * parameters.n_levels / parameters.test_rate
    fluctuations = np.array([run.fluctuation for run in runs])
    measured = np.quantile(fluctuations, 1 - beta / 20, method="inverted_cdf")
    return at_most(
        "matrix concentration",
        SOURCE,
        "||Sigma_id - mean||_op <= sqrt(2kLu/rho) + 4u/(3 rho t_0); unit alpha sigma^2",
        bound=bernstein_radius(setting, variance) / setting.target,
        measured=float(measured) / setting.target,
        second=bernstein_radius(setting, exact_variance(setting, sample)) / setting.target,
        also=measured <= bernstein_radius(setting, exact_variance(setting, sample)),
        detail=f"(1 - beta/20)-quantile of {len(runs)} runs, u = log(40d/beta); "
        "second: the same radius with the exact variance",
    )


def concentration_radius(setting: Setting) -> Claim:
    """The lemma's radius is at most half the target."""
    parameters = setting.parameters
    inputs = parameters.inputs
    variance = inputs.row_sparsity * parameters.n_levels / parameters.test_rate
    u = math.log(40 * inputs.n_features / inputs.failure_probability)
    H, L = parameters.log_factor, parameters.n_levels
    simplified = math.sqrt(2 * u / (4096 * H)) + 1024 * u / (3 * 4096 * L * H)
    measured = bernstein_radius(setting, variance) / setting.target
    return at_most(
        "radius",
        SOURCE,
        "sqrt(2kLu/rho) + 4u/(3 rho t_0) <= alpha sigma^2 / 2; unit alpha sigma^2",
        bound=0.5,
        measured=measured,
        second=simplified,
        also=math.isclose(measured, simplified, rel_tol=1e-9) and u <= H and L >= 11,
        detail=f"u = {u:.2f} <= H = {H:.2f}, L = {L} >= 11; second: the paper's simplified form",
    )
