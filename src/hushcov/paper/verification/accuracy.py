"""Lemmas 1, 2, 3 and 6, how far S and the ideal estimator are from Sigma, and Theorem 1 of all.

Clipping alters nothing and S is close to Sigma, entry by entry (1 and 6); mean, bias and support of
the ideal estimator (2); its fluctuation (3). `verify_theorem` checks all claims for one setting.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import integrate, optimize, special

from hushcov._arrays import FloatArray
from hushcov.paper.kernels import gate_masses
from hushcov.paper.verification import privacy
from hushcov.paper.verification.privacy import log_coupling_failure, loudest
from hushcov.paper.verification.simulation import (
    FALSE_ALARM,
    LOG10,
    Check,
    Claim,
    IdealSample,
    Numbers,
    Progress,
    Run,
    Setting,
    Sweep,
    agree,
    claim,
    clopper_pearson,
    correction_by_moments,
    draw_ideal,
    fired_length,
    fired_length_by_thresholds,
    log_any,
    log_product_deviation,
    log_sum,
    log_two_sided,
    log_two_sided_by_quadrature,
    mean_formula,
    simulate_runs,
    unwatched,
)

# With E exp(|X|/K) <= 2 every moment has E|X|^p <= p! K^p, and Bernstein's inequality then holds
# with this constant c: t^2 / (4 n K^2 + 2 K t) >= min(t^2/(n K^2), t/K) / 6.
BERNSTEIN = 1 / 6
# psi_1 norm of a centred product of sigma-sub-Gaussian coordinates: 8/3 sigma^2 from
# E exp(x X^2) <= (1 - 2 x sigma^2)^(-1/2), and sigma^2 / ln 2 for its mean.
PRODUCT_NORM = 8 / 3 + 1 / math.log(2)
DEFAULT_RUNS = 30  # 30 successes put the 95 % lower confidence bound above 0.9
_IDENTITY_TOLERANCE = 1e-9  # far above quadrature error (1e-13), far below kappa - 1 at default


@claim(
    "final error",
    "Theorem 1",
    "||Sigma_hat - Sigma||_op <= alpha sigma^2 with frequency >= 1 - beta; unit alpha sigma^2",
)
def final_error(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Numbers:
    beta = setting.inputs.failure_probability
    ratios = np.array([run.error for run in runs]) / setting.target
    within = int(np.sum(ratios <= 1))
    proved = 17 / 16 * setting.inputs.row_sparsity * setting.base_threshold
    proved += bernstein_radius(setting, exact_variance(setting, sample))
    detail = (
        f"{within} of {len(ratios)} runs, largest {ratios.max():.4g}; 95 % Clopper-Pearson: "
        f"frequency >= {clopper_pearson(within, len(ratios)):.3f}; "
        "second: 17/16 k t_0 plus Bernstein's radius"
    )
    measured = np.quantile(ratios, 1 - beta, method="inverted_cdf")
    return Numbers(1.0, measured, proved / setting.target, detail)


@claim(
    "failure probability",
    "Theorem 1",
    "P(error > alpha sigma^2) <= beta/10 + beta/20 + beta/20 = beta/5 < beta",
    logarithmic=True,
)
def failure_probability(setting: Setting, sample: IdealSample, *, seed: int = 0) -> Numbers:
    inputs = setting.inputs
    beta = inputs.failure_probability
    parts = {
        "clipping": log_any(
            log_two_sided(setting.parameters.clip_radius / inputs.scale),
            float(inputs.n_records) * inputs.n_features,
        ),
        "covariance": min(0.0, log_covariance_failure(setting)),
        "coupling": log_coupling_failure(setting, loudest(setting, seed)),
        "concentration": log_bernstein_failure(setting, exact_variance(setting, sample)),
    }
    detail = f"sum of the computed parts, led by {max(parts, key=parts.__getitem__)}; "
    total, second = min(0.0, log_sum(parts.values())), beta / 10 + beta / 20 + beta / 20
    bound, second = math.log(beta / 5), math.log(second)
    return Numbers(bound, total, second, detail + "second: the paper's sum")


@claim(
    "clipping",
    "Lemma 1",
    "P(a coordinate passes R) <= 2nd exp(-R^2/(2 sigma^2)) <= beta/20",
    logarithmic=True,
)
def clipping(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    count = float(inputs.n_records) * inputs.n_features
    radius = parameters.clip_radius / inputs.scale
    union = math.log(2 * count) - radius**2 / 2
    bound = math.log(inputs.failure_probability / 20)
    # Coordinates of a record are dependent; Sidak's inequality makes independence the worst case.
    measured = log_any(log_two_sided(radius), count)
    second = log_any(log_two_sided_by_quadrature(radius), count)
    detail = f"Gaussian coordinates of variance sigma^2; union bound 10^{union / LOG10:.3f}"
    also = union <= bound + 1e-9 and agree(measured, second)
    return Numbers(bound, measured, second, detail, also)


def log_covariance_failure(setting: Setting, deviation: float | None = None) -> float:
    """Log of a union bound on P(||S - Sigma||_max > deviation), by default t_0/16, unclipped."""
    tau = setting.base_threshold / 16 if deviation is None else deviation
    (covariances, variances), counts = setting.entry_laws
    n = setting.inputs.n_records
    logs = log_product_deviation(covariances, variances, tau, n, sharp=True)
    return float(special.logsumexp(logs, b=counts))


@claim(
    "covariance event",
    "Lemma 1",
    "||S - Sigma||_max <= t_0/16 with frequency >= 1 - beta/10; unit t_0/16",
)
def covariance_event(setting: Setting, runs: Sequence[Run]) -> Numbers:
    inputs = setting.inputs
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
    detail = (
        f"{int(np.sum(ratios <= 1))} of {len(ratios)} draws, largest {ratios.max():.3g}; "
        "second: radius at which the union of entry tails is beta/20; "
        f"every sub-Gaussian law: n >= {needed:.2g} suffices (c = 1/6)"
    )
    return Numbers(1.0, quantile, math.exp(log_factor), detail)


@claim(
    "scalar Bernstein",
    "Lemma 6",
    "P(|mean of X^2 - 1| > tau) <= 2 exp(-c n min(tau^2/K^2, tau/K)), c = 1/6",
    logarithmic=True,
)
def scalar_bernstein(setting: Setting) -> Numbers:
    inputs = setting.inputs
    n, tau = inputs.n_records, setting.base_threshold / 16 / inputs.scale**2
    K = _centred_square_norm()
    bound = math.log(2) - BERNSTEIN * n * min((tau / K) ** 2, tau / K)
    one, half = np.ones(1), n / 2
    measured = float(log_product_deviation(one, one, tau, n)[0])
    upper = special.gammaincc(half, half * (1 + tau))
    exact = float(upper + special.gammainc(half, half * (1 - tau)))
    second = math.log(exact) if exact > 0 else -math.inf
    detail = f"tau = t_0/16, K = {K:.4f}; measured: Chernoff; second: exact chi-square tail"
    also = exact <= math.exp(measured) * (1 + 1e-6)
    return Numbers(bound, measured, second, detail, also)


def _centred_square_norm() -> float:
    """psi_1 norm of g^2 - 1: the s with E exp(|g^2 - 1|/s) = 2."""

    def excess(s: float) -> float:
        def integrand(x: float) -> float:
            return math.exp(abs(x * x - 1) / s - x * x / 2)

        inner, outer = integrate.quad(integrand, 0, 1)[0], integrate.quad(integrand, 1, np.inf)[0]
        return float(math.sqrt(2 / math.pi) * (inner + outer) - 2)

    return float(optimize.brentq(excess, 2.2, 8.0, xtol=1e-10))


@claim("gate correction", "Lemma 2", "1 <= kappa <= 4/3")
def gate_correction(setting: Setting) -> Numbers:
    schedule = setting.parameters.schedule
    second = correction_by_moments(schedule.gate_noise, schedule.gate_clip)
    kappa = schedule.gate_correction
    detail = f"kappa - 1 = {kappa - 1:.3g}; second: sum of the moments of Z"
    also = kappa >= 1 - 1e-15 and agree(kappa, second, 1e-12)
    return Numbers(4 / 3, kappa, second, detail, also)


@claim("scalar identity", "Lemma 2", "(1/kappa) int_0^inf E psi(a/t + Z) dt = a; relative residual")
def scalar_identity(setting: Setting) -> Numbers:
    schedule = setting.parameters.schedule
    r, clip = schedule.gate_noise, schedule.gate_clip
    top = setting.inputs.scale**2
    sizes = np.append(np.array([0.5, 1.0, 3.3]) * setting.base_threshold, [top / 7, top])
    by_thresholds = np.array([fired_length_by_thresholds(float(a), r, clip) for a in sizes])
    by_noise = fired_length(sizes, 0.0, math.inf, r, clip)
    residuals = np.abs(np.stack([by_thresholds, by_noise]) / (sizes * schedule.gate_correction) - 1)
    detail = f"{len(sizes)} values of a from t_0/2 to sigma^2; integrated over t, then over Z"
    return Numbers(_IDENTITY_TOLERANCE, residuals[0].max(), residuals[1].max(), detail)


@claim(
    "conditional mean",
    "Lemma 2",
    "E[Sigma_id | S] = (1/kappa) int_{t_0}^{t_L} E psi(S_e/t + Z) dt; standard errors",
)
def conditional_mean(setting: Setting, sample: IdealSample) -> Numbers:
    entries = sample.statistic[sample.able]
    formula = mean_formula(entries, setting.parameters)
    error = np.sqrt(sample.exact.variance / sample.draws)
    limit = float(-special.ndtri(FALSE_ALARM / (2 * max(1, len(entries)))))
    measured, second = (
        np.max(np.abs(mean - formula) / error, initial=0.0)
        for mean in (sample.average, kernel_mean(setting, entries))
    )
    detail = (
        f"{sample.draws} draws of {len(entries)} entries, false alarm 1e-6; resolves "
        f"{limit * error.max(initial=0.0) / setting.base_threshold:.2g} t_0; "
        "second: the sampler's own probabilities"
    )
    return Numbers(limit, measured, second, detail)


def kernel_mean(setting: Setting, entries: FloatArray) -> FloatArray:
    """Return the mean that the sampler's binomial probabilities imply."""
    schedule = setting.parameters.schedule
    total = np.zeros(len(entries))
    law = -math.inf, math.inf, 1.0, schedule.gate_noise, schedule.gate_clip
    for level in schedule.levels:
        alphas = np.abs(entries) / level.threshold
        fired = [gate_masses(float(alpha), *law)[0] for alpha in alphas]
        expected = level.repetitions * level.activation * np.array(fired)
        total += expected * schedule.weight(level)
    return np.asarray(np.sign(entries) * total)


@claim("bias", "Lemma 2", "||E[Sigma_id | S] - S||_max <= t_0; unit t_0")
def bias(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Numbers:
    schedule, t_0 = setting.parameters.schedule, setting.base_threshold
    # The omitted integral itself: no difference of nearly equal numbers is taken.
    omitted = fired_length(
        np.abs(sample.statistic), 0.0, t_0, schedule.gate_noise, schedule.gate_clip
    )
    # In the second route such a difference is taken, so it may be off by a few roundings of S.
    rounding = 2.0**-50 * max(run.largest_entry for run in runs)
    return Numbers(
        1.0,
        float(omitted.max()) / schedule.gate_correction / t_0,
        (max(run.bias for run in runs) - rounding) / t_0,
        "the omitted integral over [0, t_0]; t_0/kappa is attained at every entry above "
        f"5 t_0/4; second: formula minus S, largest over {len(runs)} draws",
    )


@claim("top threshold", "Lemma 2", "4/3 |S_e| < 2 sigma^2 <= t_L < 4 sigma^2; unit sigma^2")
def top_threshold(setting: Setting, runs: Sequence[Run]) -> Numbers:
    scale2 = setting.inputs.scale**2
    t_L = setting.parameters.thresholds[-1]
    measured = 4 / 3 * max(run.largest_entry for run in runs) / scale2
    second = 4 / 3 * (1 + setting.base_threshold / 16 / scale2)
    also = 2 * scale2 <= t_L * (1 + 1e-12) and t_L < 4 * scale2
    detail = "second: the largest S_e possible on E_cov"
    return Numbers(t_L / scale2, measured, second, detail, also)


@claim(
    "off the support",
    "Lemma 2",
    "|S_e/T + Z| <= 1/16 + 1/4 < 1 where Sigma_e = 0, so the output there is 0",
)
def off_support(setting: Setting, runs: Sequence[Run]) -> Numbers:
    noise = setting.parameters.schedule.gate_clip
    nonzero = sum(run.false_entries for run in runs)
    quiet = max(run.quiet_entry for run in runs) / setting.base_threshold
    bound, second = 1 / 16 + noise, quiet + noise if nonzero == 0 else math.inf
    detail = f"{nonzero} nonzero outputs off the support in {len(runs)} runs"
    return Numbers(bound, quiet + noise, second, detail, also=bound < 1)


@claim(
    "error of the mean",
    "Lemma 2",
    "||E[Sigma_id | S] - Sigma||_op <= 17/16 k t_0 = 17/4096 alpha sigma^2; unit k t_0",
)
def mean_error(setting: Setting, runs: Sequence[Run]) -> Numbers:
    unit = setting.inputs.row_sparsity * setting.base_threshold
    measured = max(run.mean_error for run in runs) / unit
    second = max(run.bias + run.deviation for run in runs) / setting.base_threshold
    also = agree(17 / 16 * unit, 17 / 4096 * setting.target, 1e-12)
    detail = "second: row sums, k (||mean - S||_max + ||S - Sigma||_max)"
    return Numbers(17 / 16, measured, second, detail, also)


@claim(
    "matrix variance", "Lemma 3", "v = ||sum_c E[W_c^2 | S]||_op <= kL/rho, centred; unit kL/rho"
)
def matrix_variance(setting: Setting, sample: IdealSample) -> Numbers:
    bound = proved_variance(setting)
    exact, drawn = (
        largest_row_sum(setting, sample, each) for each in (sample.exact.variance, sample.variance)
    )
    # Sampling spread of the total: Var(s^2) = (fourth cumulant + 2 variance^2) / draws.
    moments = sample.exact
    total = float(moments.variance.sum())
    spread = math.sqrt(
        float(np.sum(moments.fourth_cumulant + 2 * moments.variance**2)) / sample.draws
    )
    deviation = abs(float(sample.variance.sum()) - total) / spread if spread else 0.0
    detail = (
        "exact binomial variances; second: sample variances of the drawn estimators, "
        f"whose total is {deviation:.2f} standard errors off"
    )
    also = deviation <= float(-special.ndtri(FALSE_ALARM / 2))
    return Numbers(1.0, exact / bound, drawn / bound, detail, also)


def proved_variance(setting: Setting) -> float:
    """kL/rho."""
    parameters = setting.parameters
    return parameters.inputs.row_sparsity * parameters.n_levels / parameters.test_rate


def exact_variance(setting: Setting, sample: IdealSample) -> float:
    """v: the largest row sum of entry variances, because every B_e^2 is diagonal."""
    return largest_row_sum(setting, sample, sample.exact.variance)


def largest_row_sum(setting: Setting, sample: IdealSample, values: FloatArray) -> float:
    """Return the largest sum of a row, of values at the entries that can fire."""
    upper = np.zeros(len(sample.statistic))
    upper[sample.able] = values
    return float(setting.symmetric(upper).sum(axis=1).max())


def bernstein_radius(setting: Setting, variance: float) -> float:
    """sqrt(2 v u) + 2 B u / 3 with B = 2/(rho t_0), u = log(40 d / beta)."""
    parameters, inputs = setting.parameters, setting.inputs
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


@claim(
    "matrix concentration",
    "Lemma 3",
    "||Sigma_id - mean||_op <= sqrt(2kLu/rho) + 4u/(3 rho t_0); unit alpha sigma^2",
)
def matrix_concentration(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Numbers:
    beta, unit = setting.inputs.failure_probability, setting.target
    fluctuations = np.array([run.fluctuation for run in runs])
    measured = np.quantile(fluctuations, 1 - beta / 20, method="inverted_cdf")
    bound = bernstein_radius(setting, proved_variance(setting))
    second = bernstein_radius(setting, exact_variance(setting, sample))
    detail = (
        f"(1 - beta/20)-quantile of {len(runs)} runs, u = log(40d/beta); "
        "second: the same radius with the exact variance"
    )
    return Numbers(bound / unit, measured / unit, second / unit, detail, measured <= second)


@claim(
    "radius", "Lemma 3", "sqrt(2kLu/rho) + 4u/(3 rho t_0) <= alpha sigma^2 / 2; unit alpha sigma^2"
)
def concentration_radius(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    u = math.log(40 * inputs.n_features / inputs.failure_probability)
    H, L = parameters.log_factor, parameters.n_levels
    simplified = math.sqrt(2 * u / (4096 * H)) + 1024 * u / (3 * 4096 * L * H)
    measured = bernstein_radius(setting, proved_variance(setting)) / setting.target
    detail = f"u = {u:.2f} <= H = {H:.2f}, L = {L} >= 11; second: the paper's simplified form"
    also = agree(measured, simplified) and u <= H and L >= 11
    return Numbers(0.5, measured, simplified, detail, also)


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
        return {
            "model": self.setting.model,
            "inputs": asdict(self.setting.inputs),
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
    setting: Setting, runs: int = DEFAULT_RUNS, progress: Progress = unwatched, *, seed: int = 0
) -> Verification:
    """Check Theorem 1 and its lemmas on simulated runs; `progress` hears of each run and claim."""
    simulated = simulate_runs(setting, runs, seed=seed, progress=progress)
    sample = draw_ideal(setting, seed=seed)
    known = {"setting": setting, "runs": simulated, "sample": sample, "seed": seed}
    claims = []
    for check in CHECKS:
        taken = inspect.signature(check.measure).parameters.keys() & known.keys()
        claims.append(check(**{name: known[name] for name in taken}))
        progress(1)
    return Verification(setting, simulated, tuple(claims))


#: Every claim, in the order in which they are printed.
CHECKS = tuple(
    found
    for names in (globals(), vars(privacy))
    for found in names.values()
    if isinstance(found, Check)
)
N_CLAIMS = len(CHECKS)
