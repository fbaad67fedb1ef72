"""All claims of the paper, checked for one setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from hushcov.lab.verification import (
    concentration,
    covariance,
    privacy,
    reconstruction,
    selection,
    sensitivity,
    theorem,
)
from hushcov.lab.verification.claim import Claim
from hushcov.lab.verification.setting import Setting
from hushcov.lab.verification.simulation import Progress, Run, Sweep, draw_ideal, simulate_runs

Check = Callable[[], Claim]

N_CLAIMS = 32
DEFAULT_RUNS = 30  # 30 successes put the 95 % lower confidence bound above 0.9


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
        inputs = self.setting.parameters.inputs
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


def verify(
    setting: Setting, runs: int = DEFAULT_RUNS, progress: Progress | None = None, *, seed: int = 0
) -> list[Claim]:
    """Check Theorem 1 and its lemmas; `progress` hears of `runs + N_CLAIMS` steps."""
    return list(verify_setting(setting, runs, progress, seed=seed).claims)


def verify_setting(
    setting: Setting, runs: int = DEFAULT_RUNS, progress: Progress | None = None, *, seed: int = 0
) -> Verification:
    """Check Theorem 1 and its lemmas, and keep the runs they were judged on."""
    simulated = simulate_runs(setting, runs, seed=seed, progress=progress)
    claims = check_claims(setting, simulated, progress, seed=seed)
    return Verification(setting, simulated, tuple(claims))


def check_claims(
    setting: Setting,
    runs: Sequence[Run],
    progress: Progress | None = None,
    *,
    seed: int = 0,
) -> list[Claim]:
    """Check every claim against runs that were simulated before."""
    claims = []
    for check in (*_accuracy(setting, runs, seed), *_privacy(setting, seed)):
        claims.append(check())
        if progress is not None:
            progress(1)
    return claims


def _accuracy(setting: Setting, runs: Sequence[Run], seed: int) -> list[Check]:
    sample = draw_ideal(setting, seed=seed)
    return [
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
    ]


def _privacy(setting: Setting, seed: int) -> list[Check]:
    return [
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
