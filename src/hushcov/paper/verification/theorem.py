"""Theorem 1 and all claims of the paper, checked for one setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from hushcov.paper.verification import accuracy, numerics, privacy, selection
from hushcov.paper.verification.accuracy import (
    bernstein_radius,
    exact_variance,
    log_bernstein_failure,
    log_covariance_failure,
)
from hushcov.paper.verification.selection import log_coupling_failure, loudest
from hushcov.paper.verification.simulation import (
    LOG10,
    Claim,
    IdealSample,
    Progress,
    Run,
    Setting,
    Sweep,
    at_most,
    draw_ideal,
    simulate_runs,
)

Check = Callable[[], Claim]

N_CLAIMS = 32
DEFAULT_RUNS = 30  # 30 successes put the 95 % lower confidence bound above 0.9


def final_error(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Claim:
    """The released matrix is within alpha sigma^2 of Sigma with frequency at least 1 - beta."""
    beta = setting.inputs.failure_probability
    ratios = np.array([run.error for run in runs]) / setting.target
    within = int(np.sum(ratios <= 1))
    proved = 17 / 16 * setting.inputs.row_sparsity * setting.base_threshold
    proved += bernstein_radius(setting, exact_variance(setting, sample))
    return at_most(
        "final error",
        "Theorem 1",
        "||Sigma_hat - Sigma||_op <= alpha sigma^2 with frequency >= 1 - beta; unit alpha sigma^2",
        bound=1.0,
        measured=float(np.quantile(ratios, 1 - beta, method="inverted_cdf")),
        second=proved / setting.target,
        detail=f"{within} of {len(ratios)} runs, largest {ratios.max():.4g}; 95 % Clopper-Pearson: "
        f"frequency >= {numerics.clopper_pearson(within, len(ratios)):.3f}; "
        "second: 17/16 k t_0 plus Bernstein's radius",
    )


def failure_probability(setting: Setting, sample: IdealSample, *, seed: int = 0) -> Claim:
    """Everything that can go wrong, added up, stays below beta/5."""
    inputs = setting.inputs
    beta = inputs.failure_probability
    parts = {
        "clipping": numerics.log_any(
            numerics.log_two_sided(setting.parameters.clip_radius / inputs.scale),
            float(inputs.n_records) * inputs.n_features,
        ),
        "covariance": min(0.0, log_covariance_failure(setting)),
        "coupling": log_coupling_failure(setting, loudest(setting, seed)),
        "concentration": log_bernstein_failure(setting, exact_variance(setting, sample)),
    }
    total = min(0.0, numerics.log_sum(list(parts.values())))
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


@dataclass(frozen=True)
class Verification:
    """A setting, the runs simulated for it, and its claims."""

    setting: Setting
    runs: tuple[Run, ...]
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    @property
    def relative_errors(self) -> list[float]:
        """Error of each run over the target alpha sigma^2."""
        return [run.error / self.setting.target for run in self.runs]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data."""
        inputs = self.setting.inputs
        return {
            "model": self.setting.model,
            "inputs": asdict(inputs),
            "holds": self.holds,
            "claims": [claim.to_dict() for claim in self.claims],
            "relative_errors": self.relative_errors,
        }


def to_dict(
    verifications: Sequence[Verification], sweeps: Sequence[Sweep] = ()
) -> dict[str, object]:
    """Return JSON-ready data of several settings, with the sweeps of the same settings if any."""
    settings = [item.to_dict() for item in verifications]
    for item, sweep in zip(settings, sweeps, strict=False):
        item["against_records"] = [
            {"n_records": n, "relative_errors": list(errors)}
            for n, errors in zip(sweep.records, sweep.relative_errors, strict=True)
        ]
    return {"holds": all(item.holds for item in verifications), "settings": settings}


def verify_setting(
    setting: Setting, runs: int = DEFAULT_RUNS, progress: Progress | None = None, *, seed: int = 0
) -> Verification:
    """Check Theorem 1 and its lemmas on simulated runs; `progress` hears of each run and claim."""
    simulated = simulate_runs(setting, runs, seed=seed, progress=progress)
    claims = []
    for check in (*_accuracy(setting, simulated, seed), *_privacy(setting, seed)):
        claims.append(check())
        if progress is not None:
            progress(1)
    return Verification(setting, simulated, tuple(claims))


def _accuracy(setting: Setting, runs: Sequence[Run], seed: int) -> list[Check]:
    sample = draw_ideal(setting, seed=seed)
    return [
        lambda: final_error(setting, runs, sample),
        lambda: failure_probability(setting, sample, seed=seed),
        lambda: accuracy.clipping(setting),
        lambda: accuracy.covariance_event(setting, runs),
        lambda: accuracy.scalar_bernstein(setting),
        lambda: accuracy.gate_correction(setting),
        lambda: accuracy.scalar_identity(setting),
        lambda: accuracy.conditional_mean(setting, sample),
        lambda: accuracy.bias(setting, runs, sample),
        lambda: accuracy.top_threshold(setting, runs),
        lambda: accuracy.off_support(setting, runs),
        lambda: accuracy.mean_error(setting, runs),
        lambda: accuracy.matrix_variance(setting, sample),
        lambda: accuracy.matrix_concentration(setting, runs, sample),
        lambda: accuracy.concentration_radius(setting),
        lambda: selection.quota_use(setting, seed=seed),
        lambda: selection.quota_event(setting),
        lambda: selection.selection_noise(setting),
        lambda: selection.noise_event(setting),
        lambda: selection.coupling(setting, seed=seed),
        lambda: selection.coupling_in_law(setting, seed=seed),
    ]


def _privacy(setting: Setting, seed: int) -> list[Check]:
    return [
        lambda: privacy.entry_sensitivity(setting, seed=seed),
        lambda: privacy.selection_range(setting),
        lambda: privacy.selection_calibration(setting),
        lambda: privacy.query_sensitivity(setting),
        lambda: privacy.budget_size(setting),
        lambda: privacy.gate_noise(setting),
        lambda: privacy.gaussian_protection(setting),
        lambda: privacy.noise_clipping(setting),
        lambda: privacy.eta_condition(setting),
        lambda: privacy.transcript_budget(setting),
        lambda: privacy.total_delta(setting),
    ]
