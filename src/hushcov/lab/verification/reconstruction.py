"""Lemma 2: the conditional mean of the ideal estimator, its bias and its support."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov.lab.verification.claim import FALSE_ALARM, Claim, agree, at_most
from hushcov.lab.verification.integrals import (
    correction_by_moments,
    fired_length,
    fired_length_by_thresholds,
    mean_formula,
)
from hushcov.lab.verification.setting import Setting
from hushcov.lab.verification.simulation import IdealSample, Run
from hushcov.mechanisms.multiscale import kernels

FloatArray = npt.NDArray[np.float64]

SOURCE = "Lemma 2"
_IDENTITY_TOLERANCE = 1e-9  # far above quadrature error (1e-13), far below kappa - 1 at default


def gate_correction(setting: Setting) -> Claim:
    """kappa = E[1/(1-Z)] lies in [1, 4/3]."""
    schedule = setting.parameters.schedule
    second = correction_by_moments(schedule.gate_noise, schedule.gate_clip)
    kappa = schedule.gate_correction
    return at_most(
        "gate correction",
        SOURCE,
        "1 <= kappa <= 4/3",
        bound=4 / 3,
        measured=kappa,
        second=second,
        also=kappa >= 1 - 1e-15 and agree(kappa, second, 1e-12),
        detail=f"kappa - 1 = {kappa - 1:.3g}; second: sum of the moments of Z",
    )


def scalar_identity(setting: Setting) -> Claim:
    """(1/kappa) int_0^inf E psi(a/t + Z) dt = a."""
    schedule = setting.parameters.schedule
    r, clip = schedule.gate_noise, schedule.gate_clip
    top = setting.parameters.inputs.scale**2
    sizes = np.array([0.5, 1.0, 3.3]) * setting.base_threshold
    sizes = np.append(sizes, [top / 7, top])
    by_thresholds = np.array([fired_length_by_thresholds(float(a), r, clip) for a in sizes])
    by_noise = fired_length(sizes, 0.0, math.inf, r, clip)
    residuals = np.abs(np.stack([by_thresholds, by_noise]) / (sizes * schedule.gate_correction) - 1)
    return at_most(
        "scalar identity",
        SOURCE,
        "(1/kappa) int_0^inf E psi(a/t + Z) dt = a; relative residual",
        bound=_IDENTITY_TOLERANCE,
        measured=float(residuals[0].max()),
        second=float(residuals[1].max()),
        detail=f"{len(sizes)} values of a from t_0/2 to sigma^2; integrated over t, then over Z",
    )


def conditional_mean(setting: Setting, sample: IdealSample) -> Claim:
    """The sampler's average is the paper's integral, entry by entry."""
    entries = sample.statistic[sample.able]
    formula = mean_formula(entries, setting.parameters)
    error = np.sqrt(sample.exact.variance / sample.draws)
    limit = float(-special.ndtri(FALSE_ALARM / (2 * max(1, len(entries)))))
    return at_most(
        "conditional mean",
        SOURCE,
        "E[Sigma_id | S] = (1/kappa) int_{t_0}^{t_L} E psi(S_e/t + Z) dt; standard errors",
        bound=limit,
        measured=float(np.max(np.abs(sample.average - formula) / error, initial=0.0)),
        second=float(np.max(np.abs(kernel_mean(setting, entries) - formula) / error, initial=0.0)),
        detail=f"{sample.draws} draws of {len(entries)} entries, false alarm 1e-6; resolves "
        f"{limit * error.max(initial=0.0) / setting.base_threshold:.2g} t_0; "
        "second: the sampler's own probabilities",
    )


def kernel_mean(setting: Setting, entries: FloatArray) -> FloatArray:
    """The mean that the sampler's binomial probabilities imply."""
    schedule = setting.parameters.schedule
    total = np.zeros(len(entries))
    for level in schedule.levels:
        fired = [
            kernels.gate_masses(
                float(alpha), -math.inf, math.inf, 1.0, schedule.gate_noise, schedule.gate_clip
            )[0]
            for alpha in np.abs(entries) / level.threshold
        ]
        expected = level.repetitions * level.activation * np.array(fired)
        total += expected / (schedule.gate_correction * schedule.test_rate * level.threshold)
    return np.asarray(np.sign(entries) * total)


def bias(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Claim:
    """The conditional mean misses S by at most t_0 in every entry."""
    schedule, t_0 = setting.parameters.schedule, setting.base_threshold
    # The omitted integral itself: no difference of nearly equal numbers is taken.
    omitted = fired_length(
        np.abs(sample.statistic), 0.0, t_0, schedule.gate_noise, schedule.gate_clip
    )
    # In the second route such a difference is taken, so it may be off by a few roundings of S.
    rounding = 2.0**-50 * max(run.largest_entry for run in runs)
    return at_most(
        "bias",
        SOURCE,
        "||E[Sigma_id | S] - S||_max <= t_0; unit t_0",
        bound=1.0,
        measured=float(omitted.max()) / schedule.gate_correction / t_0,
        second=(max(run.bias for run in runs) - rounding) / t_0,
        detail="the omitted integral over [0, t_0]; t_0/kappa is attained at every entry above "
        f"5 t_0/4; second: formula minus S, largest over {len(runs)} draws",
    )


def top_threshold(setting: Setting, runs: Sequence[Run]) -> Claim:
    """No gate can open above t_L, so nothing is cut off at the top."""
    scale2 = setting.parameters.inputs.scale**2
    t_L = setting.parameters.thresholds[-1]
    return at_most(
        "top threshold",
        SOURCE,
        "4/3 |S_e| < 2 sigma^2 <= t_L < 4 sigma^2; unit sigma^2",
        bound=t_L / scale2,
        measured=4 / 3 * max(run.largest_entry for run in runs) / scale2,
        second=4 / 3 * (1 + setting.base_threshold / 16 / scale2),
        also=2 * scale2 <= t_L * (1 + 1e-12) and t_L < 4 * scale2,
        detail="second: the largest S_e possible on E_cov",
    )


def off_support(setting: Setting, runs: Sequence[Run]) -> Claim:
    """Where Sigma is zero no gate opens, so the output is exactly zero there."""
    noise = setting.parameters.schedule.gate_clip
    nonzero = sum(run.false_entries for run in runs)
    quiet = max(run.quiet_entry for run in runs) / setting.base_threshold
    return at_most(
        "off the support",
        SOURCE,
        "|S_e/T + Z| <= 1/16 + 1/4 < 1 where Sigma_e = 0, so the output there is 0",
        bound=1 / 16 + noise,
        measured=quiet + noise,
        second=quiet + noise if nonzero == 0 else math.inf,
        also=1 / 16 + noise < 1,
        detail=f"{nonzero} nonzero outputs off the support in {len(runs)} runs",
    )


def mean_error(setting: Setting, runs: Sequence[Run]) -> Claim:
    """The conditional mean misses Sigma by at most 17/16 k t_0 in operator norm."""
    k = setting.parameters.inputs.row_sparsity
    unit = k * setting.base_threshold
    return at_most(
        "error of the mean",
        SOURCE,
        "||E[Sigma_id | S] - Sigma||_op <= 17/16 k t_0 = 17/4096 alpha sigma^2; unit k t_0",
        bound=17 / 16,
        measured=max(run.mean_error for run in runs) / unit,
        second=max(run.bias + run.deviation for run in runs) / setting.base_threshold,
        also=agree(17 / 16 * unit, 17 / 4096 * setting.target, 1e-12),
        detail="second: row sums, k (||mean - S||_max + ||S - Sigma||_max)",
    )
