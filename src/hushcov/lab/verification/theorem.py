"""Theorem 1: the error is within target, and the failure probabilities add up to less than beta."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushcov.lab.verification import tails
from hushcov.lab.verification.claim import LOG10, Claim, at_most
from hushcov.lab.verification.concentration import (
    bernstein_radius,
    exact_variance,
    log_bernstein_failure,
)
from hushcov.lab.verification.covariance import log_covariance_failure
from hushcov.lab.verification.selection import log_coupling_failure, loudest
from hushcov.lab.verification.setting import Setting
from hushcov.lab.verification.simulation import IdealSample, Run


def final_error(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Claim:
    """The released matrix is within alpha sigma^2 of Sigma with frequency at least 1 - beta."""
    beta = setting.parameters.inputs.failure_probability
    ratios = np.array([run.error for run in runs]) / setting.target
    within = int(np.sum(ratios <= 1))
    proved = 17 / 16 * setting.parameters.inputs.row_sparsity * setting.base_threshold
    proved += bernstein_radius(setting, exact_variance(setting, sample))
    return at_most(
        "final error",
        "Theorem 1",
        "||Sigma_hat - Sigma||_op <= alpha sigma^2 with frequency >= 1 - beta; unit alpha sigma^2",
        bound=1.0,
        measured=float(np.quantile(ratios, 1 - beta, method="inverted_cdf")),
        second=proved / setting.target,
        detail=f"{within} of {len(ratios)} runs, largest {ratios.max():.4g}; 95 % Clopper-Pearson: "
        f"frequency >= {tails.clopper_pearson(within, len(ratios)):.3f}; "
        "second: 17/16 k t_0 plus Bernstein's radius",
    )


def failure_probability(setting: Setting, sample: IdealSample, *, seed: int = 0) -> Claim:
    """Everything that can go wrong, added up, stays below beta/5."""
    inputs = setting.parameters.inputs
    beta = inputs.failure_probability
    parts = {
        "clipping": tails.log_any(
            tails.log_two_sided(setting.parameters.clip_radius / inputs.scale),
            float(inputs.n_records) * inputs.n_features,
        ),
        "covariance": min(0.0, log_covariance_failure(setting)),
        "coupling": log_coupling_failure(setting, loudest(setting, seed)),
        "concentration": log_bernstein_failure(setting, exact_variance(setting, sample)),
    }
    total = min(0.0, tails.log_sum(list(parts.values())))
    largest = max(parts, key=lambda name: parts[name])
    return at_most(
        "failure probability",
        "Theorem 1",
        "P(error > alpha sigma^2) <= beta/10 + beta/20 + beta/20 = beta/5 < beta",
        bound=math.log10(beta / 5),
        measured=total / LOG10,
        second=math.log10(beta / 10 + beta / 20 + beta / 20),
        detail=f"sum of the computed parts, led by {largest}; second: the paper's sum",
        logarithmic=True,
    )
