"""All claims of the paper, checked for one setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hushcov.verification import (
    concentration,
    covariance,
    privacy,
    reconstruction,
    selection,
    sensitivity,
    theorem,
)
from hushcov.verification.claim import Claim
from hushcov.verification.setting import Setting
from hushcov.verification.simulation import Progress, Run, draw_ideal, simulate_runs

N_CLAIMS = 32


def verify(
    setting: Setting, runs: int = 40, progress: Progress | None = None, *, seed: int = 0
) -> list[Claim]:
    """Check Theorem 1 and its lemmas; `progress` hears of `runs + N_CLAIMS` steps."""
    simulated = simulate_runs(setting, runs, seed=seed, progress=progress)
    return check_claims(setting, simulated, progress, seed=seed)


def check_claims(
    setting: Setting,
    runs: Sequence[Run],
    progress: Progress | None = None,
    *,
    seed: int = 0,
) -> list[Claim]:
    """Check every claim against runs that were simulated before."""
    sample = draw_ideal(setting, seed=seed)
    checks: list[Callable[[], Claim]] = [
        lambda: theorem.final_error(setting, runs, sample),
        lambda: theorem.failure_probability(setting, sample, seed=seed),
        lambda: covariance.clipping(setting),
        lambda: covariance.covariance_event(setting, runs),
        lambda: covariance.scalar_bernstein(setting),
        lambda: reconstruction.gate_correction(setting),
        lambda: reconstruction.scalar_identity(setting),
        lambda: reconstruction.conditional_mean(setting, sample),
        lambda: reconstruction.bias(setting, runs, sample),
        lambda: reconstruction.top_threshold(setting, runs),
        lambda: reconstruction.off_support(setting, runs),
        lambda: reconstruction.mean_error(setting, runs),
        lambda: concentration.matrix_variance(setting, sample),
        lambda: concentration.matrix_concentration(setting, runs, sample),
        lambda: concentration.concentration_radius(setting),
        lambda: selection.quota_use(setting, seed=seed),
        lambda: selection.quota_event(setting),
        lambda: selection.selection_noise(setting),
        lambda: selection.noise_event(setting),
        lambda: selection.coupling(setting, seed=seed),
        lambda: selection.coupling_in_law(setting, seed=seed),
        lambda: sensitivity.entry_sensitivity(setting, seed=seed),
        lambda: privacy.selection_range(setting),
        lambda: privacy.selection_calibration(setting),
        lambda: sensitivity.query_sensitivity(setting),
        lambda: sensitivity.budget_size(setting),
        lambda: privacy.gate_noise(setting),
        lambda: privacy.gaussian_protection(setting),
        lambda: privacy.noise_clipping(setting),
        lambda: privacy.eta_condition(setting),
        lambda: privacy.transcript_budget(setting),
        lambda: privacy.total_delta(setting),
    ]
    claims = []
    for check in checks:
        claims.append(check())
        if progress is not None:
            progress(1)
    return claims
