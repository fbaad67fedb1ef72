"""Theorem 1 and its lemmas, claim by claim, each measured in two ways.

Clipping alters nothing and S is close to Sigma, rounded too (Lemmas 1 and 6); mean, bias and
support of the ideal estimator (2); its fluctuation (3). Selection drops no test that could fire, so
actual equals ideal (4 and 5); what one record can move, selection, gate noise, and the budgets (7
to 12). `verify_setting` checks all claims for one setting.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, special, stats

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting import OneShotLaplace, compose, gaussian_delta
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.sums.gram import second_moments
from hushcov.paper.kernels import gate_masses
from hushcov.paper.mechanism import certify, grid_for
from hushcov.paper.parameters import ROUNDING_SHARE, Level, rounding_inflation
from hushcov.paper.samplers import sample_exact
from hushcov.paper.verification.simulation import (
    FALSE_ALARM,
    LOG10,
    Check,
    Claim,
    IdealSample,
    Numbers,
    Progress,
    Run,
    Sampler,
    Setting,
    agree,
    claim,
    clopper_pearson,
    correction_by_moments,
    draw_ideal,
    fire_probability,
    fired_length,
    ideal_schedule,
    log_any,
    log_binomial_above,
    log_poisson_chernoff,
    log_product_deviation,
    log_sum,
    log_two_sided,
    log_two_sided_by_quadrature,
    mean_formula,
    simulate_runs,
    unwatched,
)
from hushcov.tables.sources import open_records

# With E exp(|X|/K) <= 2 every moment has E|X|^p <= p! K^p, and Bernstein's inequality then holds
# with this constant c: t^2 / (4 n K^2 + 2 K t) >= min(t^2/(n K^2), t/K) / 6.
BERNSTEIN = 1 / 6
_LAW_DRAWS = 4
_CUTS = 400  # candidate cuts between "irrelevant" and "able to fire"
_PAIRS = 40
_ROWS = 6  # records of a random dataset: only the replaced one moves the sums
_MOST_COLUMNS = 50


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
    """Return log of a union bound on P(||S - Sigma||_max > deviation), S before rounding.

    The deviation is usually t_0/16 less what rounding may add to it.
    """
    tau = (1 / 16 - ROUNDING_SHARE) * setting.base_threshold if deviation is None else deviation
    (covariances, variances), counts = setting.entry_laws
    n = setting.inputs.n_records
    logs = log_product_deviation(covariances, variances, tau, n)
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
    detail = (
        f"{int(np.sum(ratios <= 1))} of {len(ratios)} draws, largest {ratios.max():.3g}; "
        "second: radius at which the union of entry tails is beta/20, and rounding"
    )
    rounded = setting.parameters.rounding_error / radius
    return Numbers(1.0, quantile, math.exp(log_factor) + rounded, detail)


@claim(
    "integer grid",
    "ours",
    "rounding moves no entry of S by more than t_0/1024 on E_cov; unit t_0/1024",
)
def integer_grid(setting: Setting) -> Numbers:
    parameters, inputs, grid = setting.parameters, setting.inputs, grid_for(setting.parameters)
    # Coordinates of about sigma, half a step above a point of the grid, which all go down to it.
    below = 2 * int(inputs.scale / grid.step / 2)
    row = np.full((1, inputs.n_features), (below + 0.5) * grid.step)
    gram = second_moments(open_records(row), grid).gram
    exact, step = Fraction(row[0, 0]) ** 2, Fraction(grid.radius) / grid.half_width
    moved = max(abs(int(entry) * step**2 - exact) for entry in gram.flat)
    unit = ROUNDING_SHARE * setting.base_threshold
    detail = (
        f"{grid.half_width:,} steps from 0 to R; coordinates halfway between two grid points, in "
        "rationals; second: the bound for every dataset"
    )
    return Numbers(1.0, float(moved) / unit, parameters.rounding_error / unit, detail)


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
    half = n / 2
    chernoff = math.log(2) - half * (tau - math.log1p(tau))
    exact = special.gammaincc(half, half * (1 + tau)) + special.gammainc(half, half * (1 - tau))
    measured = math.log(exact) if exact > 0 else -math.inf
    detail = f"tau = t_0/16, K = {K:.4f}; exact chi-square tail; second: Chernoff"
    return Numbers(bound, measured, chernoff, detail, also=measured <= chernoff)


def _centred_square_norm() -> float:
    """Return the psi_1 norm of g^2 - 1: the s with E exp(|g^2 - 1|/s) = 2."""

    def excess(s: float) -> float:
        def integrand(x: float) -> float:
            return math.exp(abs(x * x - 1) / s - x * x / 2)

        inner, outer = integrate.quad(integrand, 0, 1)[0], integrate.quad(integrand, 1, np.inf)[0]
        return float(math.sqrt(2 / math.pi) * (inner + outer) - 2)

    return float(optimize.brentq(excess, 2.2, 8.0, xtol=1e-10))


@claim(
    "gate correction",
    "Lemma 2",
    "1 <= kappa <= 4/3, and (1/kappa) int_0^inf E psi(a/t + Z) dt = a",
)
def gate_correction(setting: Setting) -> Numbers:
    schedule, sizes = setting.parameters.schedule, np.ones(1)
    by_moments = correction_by_moments(schedule.gate_noise, schedule.gate_clip)
    # The integral is in proportion to a.
    integral = fired_length(sizes, 0.0, math.inf, schedule.gate_noise, schedule.gate_clip)[0]
    kappa = schedule.gate_correction
    detail = f"kappa - 1 = {kappa - 1:.3g}; second: sum of the moments of Z"
    also = kappa >= 1 - 1e-15 and agree(kappa, by_moments, 1e-12)
    return Numbers(4 / 3, kappa, by_moments, detail, also and agree(integral, kappa, 1e-12))


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


@claim(
    "bias",
    "Lemma 2",
    "||E[Sigma_id | S] - S||_max <= t_0, as 4/3 |S_e| < 2 sigma^2 <= t_L < 4 sigma^2; unit t_0",
)
def bias(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Numbers:
    schedule, t_0 = setting.parameters.schedule, setting.base_threshold
    # The omitted integral itself: no difference of nearly equal numbers is taken.
    omitted = fired_length(
        np.abs(sample.statistic), 0.0, t_0, schedule.gate_noise, schedule.gate_clip
    )
    # In the second route such a difference is taken, so it may be off by a few roundings of S.
    largest, top = max(run.largest_entry for run in runs), setting.inputs.scale**2
    rounding, t_L = 2.0**-50 * largest, setting.parameters.thresholds[-1]
    covered = 4 / 3 * largest < 2 * top <= t_L * (1 + 1e-12) and t_L < 4 * top
    return Numbers(
        1.0,
        float(omitted.max()) / schedule.gate_correction / t_0,
        (max(run.bias for run in runs) - rounding) / t_0,
        "the omitted integral over [0, t_0]; t_0/kappa is attained at every entry above "
        f"5 t_0/4; second: formula minus S, largest over {len(runs)} draws",
        also=covered,
    )


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
    """Return the bound kL/rho of Lemma 3."""
    parameters = setting.parameters
    return parameters.inputs.row_sparsity * parameters.n_levels / parameters.test_rate


def exact_variance(setting: Setting, sample: IdealSample) -> float:
    """Return v: the largest row sum of entry variances, because every B_e^2 is diagonal."""
    return largest_row_sum(setting, sample, sample.exact.variance)


def largest_row_sum(setting: Setting, sample: IdealSample, values: FloatArray) -> float:
    """Return the largest sum of a row, of values at the entries that can fire."""
    upper = np.zeros(len(sample.statistic))
    upper[sample.able] = values
    return float(setting.symmetric(upper).sum(axis=1).max())


def bernstein_radius(setting: Setting, variance: float) -> float:
    """Return sqrt(2 v u) + 2 B u / 3 with B = 2/(rho t_0), u = log(40 d / beta)."""
    parameters, inputs = setting.parameters, setting.inputs
    u = math.log(40 * inputs.n_features / inputs.failure_probability)
    envelope = 2 / (parameters.test_rate * setting.base_threshold)
    return math.sqrt(2 * variance * u) + 2 * envelope * u / 3


def log_bernstein_failure(setting: Setting, variance: float) -> float:
    """Return log of matrix Bernstein's bound on P(||Sigma_id - mean||_op > alpha sigma^2 / 2)."""
    parameters = setting.parameters
    x = setting.target / 2
    envelope = 2 / (parameters.test_rate * setting.base_threshold)
    exponent = -(x**2) / (2 * (variance + envelope * x / 3))
    return min(0.0, math.log(2 * parameters.inputs.n_features) + exponent)


@claim(
    "matrix concentration",
    "Lemma 3",
    "||Sigma_id - mean||_op <= sqrt(2kLu/rho) + 4u/(3 rho t_0) <= alpha sigma^2 / 2; "
    "unit alpha sigma^2",
)
def matrix_concentration(setting: Setting, runs: Sequence[Run], sample: IdealSample) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    u = math.log(40 * inputs.n_features / inputs.failure_probability)
    H, L = parameters.log_factor, parameters.n_levels
    simplified = math.sqrt(2 * u / (4096 * H)) + 1024 * u / (3 * 4096 * L * H)
    radius = bernstein_radius(setting, proved_variance(setting)) / setting.target
    exact = bernstein_radius(setting, exact_variance(setting, sample)) / setting.target
    fluctuations = np.array([run.fluctuation for run in runs]) / setting.target
    quantile = 1 - inputs.failure_probability / 20
    measured = np.quantile(fluctuations, quantile, method="inverted_cdf")
    detail = (
        f"radius {radius:.4g}, with the exact variance {exact:.4g}; (1 - beta/20)-quantile of "
        f"{len(runs)} runs {measured:.4g}; u = {u:.2f} <= H = {H:.2f}, L = {L} >= 11; second: the "
        "paper's simplified form"
    )
    also = agree(radius, simplified) and u <= H and L >= 11 and measured <= exact <= radius
    return Numbers(0.5, radius, simplified, detail, bool(also))


def _largest_group(setting: Setting, level: Level) -> int:
    """Return the most tests that B_l can count for any Sigma of the model class: |K_l| m_l."""
    inputs = setting.inputs
    per_row = min(inputs.row_sparsity, 4 * inputs.scale**4 / level.threshold**2)
    entries = math.floor(inputs.n_features * per_row * (1 + 1e-12))
    return min(entries, level.candidates // level.repetitions) * level.repetitions


def log_quota_failure(setting: Setting) -> float:
    """Return log P(some B_l > s_l) for the worst Sigma, by binomial numerics."""
    return log_sum(
        log_binomial_above(lv.quota, _largest_group(setting, lv), lv.activation, lv.inactivation)
        for lv in setting.parameters.schedule.levels
    )


@claim("quota event", "Lemma 4", "P(some B_l > s_l) <= L e^-H <= beta/40", logarithmic=True)
def quota_event(setting: Setting) -> Numbers:
    markov = log_sum(
        (math.e - 1) * _largest_group(setting, level) * level.activation - level.quota
        for level, _ in setting.selecting
    )
    most = setting.inputs.failure_probability / 40
    detail = "binomial tail for the worst Sigma; second: the paper's exponential Markov bound"
    also = setting.parameters.n_levels * math.exp(-setting.parameters.log_factor) <= most
    return Numbers(math.log(most), log_quota_failure(setting), markov, detail, also)


def log_noise_failure(setting: Setting) -> float:
    """Return log P(some selection noise passes 1/32), over all candidates of levels that select."""
    return log_sum(log_any(-1 / (32 * b), level.candidates) for level, b in setting.selecting)


@claim(
    "selection noise",
    "Lemma 5",
    "b_l <= 1/(64 Gamma), so that P(some |zeta_c| > 1/32) <= M e^(-2 Gamma) <= beta/40",
)
def selection_noise(setting: Setting) -> Numbers:
    parameters, again = setting.parameters, setting.again
    scales = [b or 0.0 for b in parameters.selection_scales]
    passes, most = log_noise_failure(setting), math.log(setting.inputs.failure_probability / 40)
    total = math.log(sum(parameters.candidates)) - 2 * parameters.union_log
    same = all(map(agree, scales, again.selection_scales))
    detail = (
        f"{len(setting.selecting)} of {len(scales)} levels select; P = 10^{passes / LOG10:.1f}, "
        f"M e^(-2 Gamma) = 10^{total / LOG10:.1f}; second: 80-digit decimals"
    )
    also = same and agree(parameters.union_log, again.union_log) and max(passes, total) <= most
    measured, second = max(scales), max(again.selection_scales)
    bound, empty = 1 / (64 * parameters.union_log), not setting.selecting
    return Numbers(bound, measured, second, detail, also, empty)


def log_dropped(level: Level, b: float, entries: FloatArray, clip: float) -> float:
    """Return log of a bound on P(a level drops a test that could fire), given S and its noise b.

    For any cut x: either a test with query above 1 - clip has its noisy score below x, or more
    than s tests have theirs above x. The first is a union bound, the second Chernoff's, and the
    best cut counts. Scores are shifted by one: a test of entry e has at most |S_e|/t + zeta.
    """
    alpha = np.sort(np.abs(entries) / level.threshold)
    loud = len(alpha) - int(np.searchsorted(alpha, 1 - clip, side="right"))
    if loud == 0:
        return -math.inf
    log_loud = math.log(loud * level.repetitions)
    # log of the sum of exp(alpha/b) over the smallest entries, for every number of them.
    log_bulk = np.append(-math.inf, np.logaddexp.accumulate(alpha / b))
    best = 0.0
    for x in np.linspace(0, 1 - clip, _CUTS, endpoint=False):
        smaller = int(np.searchsorted(alpha, x))
        below = log_loud - math.log(2) - (1 - clip - x) / b
        above_for_sure = (len(alpha) - smaller) * level.repetitions
        mean = 0.5 * level.repetitions * math.exp(log_bulk[smaller] - x / b)
        above = log_poisson_chernoff(level.quota + 1 - above_for_sure, mean)
        best = min(best, log_sum([below, above]))
    return best


def log_coupling_failure(setting: Setting, entries: FloatArray) -> float:
    """Return log of a bound on P(actual != ideal | S)."""
    clip = setting.parameters.schedule.gate_clip
    return log_sum(log_dropped(level, b, entries, clip) for level, b in setting.selecting)


def loudest(setting: Setting, seed: int) -> FloatArray:
    """Return S for Sigma = sigma^2 I, which opens the most gates at the levels that select."""
    inputs = setting.inputs
    return setting.draw_covariance(seed, inputs.scale**2 * np.eye(inputs.n_features))


@claim("coupling", "Lemma 4", "P(Sigma_hat != Sigma_id) <= beta/20 on E_cov", logarithmic=True)
def coupling(setting: Setting, *, seed: int = 0) -> Numbers:
    S, mild = loudest(setting, seed), setting.draw_covariance(seed)
    measured = max(log_coupling_failure(setting, entries) for entries in (S, mild))
    bound = math.log(setting.inputs.failure_probability / 20)
    paper = log_sum([log_quota_failure(setting), log_noise_failure(setting)])
    empty = "; no test can fire at a level that selects" * math.isinf(measured)
    detail = f"Sigma = sigma^2 I and the model{empty}; second: the paper's quota and noise events"
    return Numbers(bound, measured, paper, detail, vacuous=math.isinf(measured))


@claim(
    "coupling in law",
    "Lemma 4",
    "gates drawn with selection follow Binomial(m_l, p_l g); standard errors",
)
def coupling_in_law(setting: Setting, *, seed: int = 0, sampler: Sampler = sample_exact) -> Numbers:
    schedule, S = setting.parameters.schedule, loudest(setting, seed)
    generator = np.random.default_rng(seed)
    deviations, controls = [0.0], [0.0]
    tested = 0
    for level, _ in setting.selecting:
        alone = replace(schedule, levels=(level,))
        q = fire_probability(np.abs(S), level, schedule)
        tested += int(np.count_nonzero(q))
        for tests, scores in ((alone, deviations), (ideal_schedule(alone), controls)):
            drawn = [sampler(S / level.threshold, tests, generator)[0] for _ in range(_LAW_DRAWS)]
            scores.append(_deviation(sum(drawn), _LAW_DRAWS * level.repetitions, q))
    # Two sides, and two samples that must both pass.
    bound = float(-special.ndtri(FALSE_ALARM / (4 * max(1, tested))))
    detail = (
        f"Sigma = sigma^2 I, {_LAW_DRAWS} draws of {tested} counts at {len(deviations) - 1} "
        "levels that select, false alarm 1e-6; second: drawn without selection"
    )
    return Numbers(bound, max(deviations), max(controls), detail, vacuous=tested == 0)


def _deviation(gates: IntArray, tests: int, q: FloatArray) -> float:
    """Return the largest surprise among binomial counts, as a normal deviate."""
    if np.any(gates[q == 0]):
        return math.inf
    counts, q = np.abs(gates[q > 0]), q[q > 0]
    tail = np.minimum(stats.binom.cdf(counts, tests, q), stats.binom.sf(counts - 1, tests, q))
    return float(np.max(-special.ndtri(np.minimum(tail, 0.5)), initial=0.0))


@claim("entry sensitivity", "Lemma 7", "|S_e(D) - S_e(D')| <= Delta = 2 R^2/n")
def entry_sensitivity(setting: Setting, *, seed: int = 0) -> Numbers:
    parameters = setting.parameters
    grid = grid_for(parameters)
    columns = min(parameters.inputs.n_features, _MOST_COLUMNS)
    generator = np.random.default_rng(seed)
    moved = 0
    for pair in range(_PAIRS):
        # Inside the radius, at it, and absurdly far outside.
        size = generator.choice([0.3, 1.0, 1e3, 1e250], size=(_ROWS, 1))
        rows = grid.radius * size * generator.standard_normal((_ROWS, columns))
        if pair == 0:
            rows[0] = grid.radius
            rows[1] = grid.radius * np.where(np.arange(columns) % 2, -1, 1)
        moved = max(moved, int(np.abs(_gram_change(rows, grid)).max()))
    # In units of S an integer step weighs (R/h)^2 / n, an exact rational.
    unit = (Fraction(parameters.clip_radius) / grid.half_width) ** 2 / parameters.inputs.n_records
    bound, again = parameters.entry_sensitivity, setting.again.sensitivity
    detail = (
        f"integer Gram of {_PAIRS} neighbouring pairs; (R, R) against (R, -R) attains it; "
        "second: 80-digit decimals"
    )
    also = moved == 2 * grid.half_width**2 and agree(bound, again)
    return Numbers(bound, float(moved * unit), again, detail, also)


def _gram_change(rows: FloatArray, grid: IntegerGrid) -> NDArray[Any]:
    """Return the Gram matrix without the second row less that without the first: neighbours."""
    one = second_moments(open_records(np.delete(rows, 1, axis=0)), grid).gram
    other = second_moments(open_records(np.delete(rows, 0, axis=0)), grid).gram
    return np.asarray(one - other)


@claim(
    "selection budget",
    "Lemma 7",
    "each J_l is (eps/(8L), delta/(32L))-private: b_l is large enough, eps/(8L) <= 0.2, "
    "delta/(32L) <= 0.05, M_l >= 2; unit eps/(8L)",
)
def selection_calibration(setting: Setting) -> Numbers:
    parameters, inputs, L = setting.parameters, setting.inputs, setting.parameters.n_levels
    spent, again = [0.0], [0.0]
    for level, b in setting.selecting:
        gap, delta = parameters.entry_sensitivity / level.threshold, inputs.delta / (32 * L)
        event = OneShotLaplace(gap, b, level.quota, level.candidates, delta)
        spent.append(event.certified_epsilon or math.inf)
        log_term = math.log(level.candidates) + math.log(32 * L / inputs.delta)
        again.append(8 * gap * math.sqrt(level.quota * log_term) / b)
    detail = (
        f"{len(spent) - 1} levels select; the accountant's reading of Qiao, Su and Zhang, "
        "Theorem 2.2; second: formula inverted"
    )
    measured, second = (max(each) * 8 * L / inputs.epsilon for each in (spent, again))
    # The ranges for which the selection theorem is stated.
    stated = L >= 11 and inputs.delta <= 0.05 * 32 * L and inputs.epsilon <= 0.2 * 8 * L
    also = stated and min(parameters.candidates) >= 2
    return Numbers(1.0, measured, second, detail, also, vacuous=len(spent) == 1)


@claim(
    "query sensitivity",
    "Lemma 8",
    "||F_j(D) - F_j(D')||_2 <= Delta sqrt(A), A = sum s_l/t_l^2; unit Delta sqrt(A)",
)
def query_sensitivity(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    # Every entry that this pair moves by Delta is queried as often as the quota allows.
    # These are (h, h, ...) and (h, -h, h, ...).
    grid = grid_for(parameters)
    rows = np.full((2, inputs.n_features), grid.radius)
    rows[1, 1::2] *= -1
    change = np.triu(_gram_change(rows, grid))
    moved = int(np.count_nonzero(np.abs(change) == 2 * grid.half_width**2))
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * inputs.row_sparsity)

    def spent(counts: Iterable[int]) -> Fraction:
        """Return the sum of counts / t_l^2, exactly."""
        return sum((n / (t_0 * 2**ell) ** 2 for ell, n in enumerate(counts)), Fraction(0))

    exact = spent(parameters.quotas)
    attained = spent(map(min, parameters.quotas, (moved * m for m in parameters.repetitions)))
    Delta = parameters.entry_sensitivity
    unit = Delta * math.sqrt(parameters.query_budget)
    detail = (
        f"attained by alternating signs ({moved} entries move by Delta), thresholds at t_l; "
        "second: s_l/t_l^2 summed in rationals"
    )
    measured, second = (Delta * math.sqrt(each) / unit for each in (attained, exact))
    return Numbers(1.0, measured, second, detail, also=exact == setting.again.query_budget)


@claim(
    "gate noise",
    "Lemma 11",
    "r <= 1/(8 sqrt(Gamma)), where A <= 65 d rho k L + 260 H/(3 t_0^2)",
)
def gate_noise(setting: Setting) -> Numbers:
    parameters, inputs, again = setting.parameters, setting.inputs, setting.again
    L, H, gamma = parameters.n_levels, parameters.log_factor, parameters.union_log
    most = 65 * inputs.n_features * parameters.test_rate * inputs.row_sparsity * L
    most += 260 * H / (3 * setting.base_threshold**2)
    r, A = parameters.gate_noise, parameters.query_budget
    detail = f"A = {A:.6g}, at most {most:.6g}; second: 80-digit decimals"
    also = agree(r, again.gate_noise) and agree(gamma, again.union_log)
    also = also and most >= A and again.query_budget <= most
    return Numbers(1 / (8 * math.sqrt(gamma)), r, again.gate_noise, detail, also)


@claim(
    "Gaussian protection",
    "Lemma 12",
    "F_j + N(0, r^2 I) is (eps/4, delta/16)-private; its exact delta, unit delta/16",
)
def gaussian_protection(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    mu = parameters.entry_sensitivity * math.sqrt(parameters.query_budget) / parameters.gate_noise
    epsilon, unit = inputs.epsilon / 4, inputs.delta / 16
    detail = f"mu = {mu:.4g}; exact curve of the Gaussian mechanism; second: hockey-stick integral"
    measured, second = gaussian_delta(mu, epsilon), _hockey_stick(mu, epsilon)
    return Numbers(1.0, measured / unit, second / unit, detail)


def _hockey_stick(mu: float, epsilon: float) -> float:
    """Return int (phi(x - mu) - e^eps phi(x))_+ dx, the delta of Gaussian noise."""
    start = epsilon / mu + mu / 2

    def integrand(v: float) -> float:
        x = start + v
        density = math.exp(-0.5 * (x - mu) ** 2) / math.sqrt(2 * math.pi)
        return -density * math.expm1(-mu * v)  # the loss mu x - mu^2/2 is epsilon at start

    return float(integrate.quad(integrand, 0, max(0.0, mu - start) + 20, epsabs=0, limit=200)[0])


@claim(
    "noise clipping",
    "Lemma 9",
    "TV = P(some |G_a| > 1/4) <= eta = 2 S_star exp(-1/(32 r^2))",
    logarithmic=True,
)
def noise_clipping(setting: Setting) -> Numbers:
    parameters = setting.parameters
    edge = parameters.schedule.gate_clip / parameters.gate_noise
    measured = log_any(log_two_sided(edge), parameters.total_quota)
    # Mills' ratio: P(g > x) < phi(x)/x.
    mills = math.log(2 * parameters.total_quota / edge) - 0.5 * edge * edge
    second = min(0.0, mills - 0.5 * math.log(2 * math.pi))
    detail = "exact probability over S_star independent Gaussians; second: Mills' ratio"
    return Numbers(parameters.log_clipping_slack, measured, second, detail)


@claim("eta condition", "Lemma 11", "(1 + e^(eps/4)) eta <= delta/16", logarithmic=True)
def eta_condition(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    factor = math.log1p(math.exp(inputs.epsilon / 4))
    measured = factor + parameters.log_clipping_slack
    again = factor + setting.again.log_clipping_slack
    detail = f"holds from n = {parameters.smallest_private_n:,} on; second: 80-digit decimals"
    bound = math.log(inputs.delta / 16)
    return Numbers(bound, measured, again, detail, also=agree(measured, again))


@claim(
    "transcript budget",
    "Lemma 10",
    "(J, V) is (3 eps/8, 5 delta/32)-private, and with the numerical delta within delta; the "
    "larger share",
)
def transcript_budget(setting: Setting) -> Numbers:
    inputs, L = setting.inputs, setting.parameters.n_levels
    epsilon, delta = Fraction(inputs.epsilon), Fraction(inputs.delta)
    exact = (L * (epsilon / (8 * L)) + epsilon / 4, L * (delta / (32 * L)) + delta / 8)
    claimed = (Fraction(3, 8) * epsilon, Fraction(5, 32) * delta)
    try:
        guarantee = certify(setting.parameters, private=False, exact_statistic=True)
        spent = (guarantee.transcript_epsilon, guarantee.transcript_delta)
        bound = compose(guarantee.events)
        composed = (bound.epsilon, bound.delta)
        numerical = guarantee.numerical_delta
    except PrivacyConditionError:
        spent = composed = (math.inf, math.inf)
        numerical = math.inf
    first, second = np.array([spent, composed]) / np.array([float(value) for value in claimed])
    read = 1 + rounding_inflation(inputs.n_records)
    detail = (
        "what a release certifies; in rationals eps/8 + eps/4 and delta/32 + delta/8 are "
        f"exactly that; numerical delta {numerical:.3g}; second: the accountant. Reading sums of "
        f"records in doubles takes {read:.3g} times that epsilon"
        + (", so a fit is refused" if 3 * read > 8 else "")
    )
    also = exact == claimed and spent[1] + numerical <= inputs.delta
    return Numbers(1.0, first.max(), second.max(), detail, also)


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


def verify_setting(
    setting: Setting, runs: int, progress: Progress = unwatched, *, seed: int = 0
) -> Verification:
    """Check Theorem 1 and its lemmas on simulated runs; report each run and claim to `progress`."""
    simulated = simulate_runs(setting, runs, seed=seed, progress=progress)
    sample = draw_ideal(setting, seed=seed)
    known = {"setting": setting, "runs": simulated, "sample": sample, "seed": seed}
    claims = []
    for check in CHECKS:
        taken = inspect.signature(check.measure).parameters.keys() & known.keys()
        claims.append(check(**{name: known[name] for name in taken}))
        progress()
    return Verification(setting, simulated, tuple(claims))


#: Every claim, in the order in which they are printed.
CHECKS = tuple(found for found in globals().values() if isinstance(found, Check))
N_CLAIMS = len(CHECKS)
