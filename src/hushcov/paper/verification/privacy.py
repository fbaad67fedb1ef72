"""Lemmas 4, 5 and 7 to 12: selection, its coupling with the ideal, and what is spent.

Selection drops no test that could fire, so actual equals ideal (4 and 5); what one record can move,
selection, gate noise, and the budgets (7 to 12).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import integrate, special, stats

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import OneShotLaplace, compose, gaussian_delta
from hushcov.exceptions import PrivacyConditionError
from hushcov.paper.mechanism import certify
from hushcov.paper.parameters import Level
from hushcov.paper.samplers import sample_exact
from hushcov.paper.verification.simulation import (
    FALSE_ALARM,
    LOG10,
    Numbers,
    Sampler,
    Setting,
    agree,
    claim,
    fire_probability,
    ideal_schedule,
    log_any,
    log_binomial_above,
    log_poisson_chernoff,
    log_sum,
    log_two_sided,
)
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.tables.sources import open_records

_QUOTA_DRAWS = 100
_LAW_DRAWS = 4
_CUTS = 400  # candidate cuts between "irrelevant" and "able to fire"
_PAIRS = 40
_ROWS = 6  # records of a random dataset: only the replaced one moves the sums
_MOST_COLUMNS = 50


@claim(
    "quota use",
    "Lemma 4",
    "B_l <= s_l at every level, B_l the active tests of entries >= t_l/2; unit s_l",
)
def quota_use(setting: Setting, *, seed: int = 0) -> Numbers:
    generator = np.random.default_rng(seed)
    truth = np.abs(setting.truth[setting.upper])
    drawn = worst = 0.0
    for level in setting.parameters.schedule.levels:
        tests = int(np.count_nonzero(truth >= level.threshold / 2)) * level.repetitions
        B = generator.binomial(tests, level.activation, size=_QUOTA_DRAWS)
        drawn = max(drawn, float(B.max()) / level.quota)
        worst = max(worst, _largest_group(setting, level) / level.quota)
    detail = f"largest of {_QUOTA_DRAWS} draws; second: every test of the most entries any "
    return Numbers(1.0, drawn, worst, detail + "k-sparse Sigma can have, active or not")


def _largest_group(setting: Setting, level: Level) -> int:
    """Most tests that B_l can count for any Sigma of the model class: |K_l| m_l."""
    inputs = setting.inputs
    per_row = min(inputs.row_sparsity, 4 * inputs.scale**4 / level.threshold**2)
    entries = math.floor(inputs.n_features * per_row * (1 + 1e-12))
    return min(entries, level.candidates // level.repetitions) * level.repetitions


def log_quota_failure(setting: Setting) -> float:
    """log P(some B_l > s_l) for the worst Sigma, by binomial numerics."""
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


@claim("selection noise", "Lemma 5", "b_l <= 1/(64 Gamma) at every level that selects")
def selection_noise(setting: Setting) -> Numbers:
    parameters, again = setting.parameters, setting.again
    scales = [b or 0.0 for b in parameters.selection_scales]
    selecting = sum(b > 0 for b in scales)
    same = len(scales) == len(again.selection_scales)
    same = same and all(map(agree, scales, again.selection_scales))
    return Numbers(
        1 / (64 * parameters.union_log),
        max(scales),
        max(again.selection_scales),
        f"{selecting} of {len(scales)} levels select; second: 80-digit decimals",
        also=same and agree(parameters.union_log, again.union_log),
        vacuous=selecting == 0,
    )


def log_noise_failure(setting: Setting) -> float:
    """log P(some selection noise passes 1/32), over all candidates of levels that select."""
    return log_sum(log_any(-1 / (32 * b), level.candidates) for level, b in setting.selecting)


@claim(
    "noise event",
    "Lemma 4",
    "P(some |zeta_c| > 1/32) <= M e^(-2 Gamma) <= beta/40",
    logarithmic=True,
)
def noise_event(setting: Setting) -> Numbers:
    parameters = setting.parameters
    bound = math.log(parameters.inputs.failure_probability / 40)
    total = math.log(sum(parameters.candidates)) - 2 * parameters.union_log
    union = log_sum(math.log(level.candidates) - 1 / (32 * b) for level, b in setting.selecting)
    detail = f"M e^(-2 Gamma) = 10^{total / LOG10:.1f}; second: union bound"
    measured, empty = log_noise_failure(setting), math.isinf(union)
    return Numbers(bound, measured, union, detail, also=total <= bound, vacuous=empty)


def log_dropped(level: Level, b: float, entries: FloatArray, clip: float) -> float:
    """Log of a bound on P(a level drops a test that could fire), given S and its noise b.

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


def log_coupling_failure(setting: Setting, entries: FloatArray, factor: float = 1.0) -> float:
    """Log of a bound on P(actual != ideal | S), every selection noise multiplied by `factor`."""
    clip = setting.parameters.schedule.gate_clip
    return log_sum(log_dropped(level, b * factor, entries, clip) for level, b in setting.selecting)


def loudest(setting: Setting, seed: int) -> FloatArray:
    """S for Sigma = sigma^2 I, which opens the most gates at the levels that select."""
    inputs = setting.inputs
    return setting.draw_covariance(seed, inputs.scale**2 * np.eye(inputs.n_features))


@claim("coupling", "Lemma 4", "P(Sigma_hat != Sigma_id) <= beta/20 on E_cov", logarithmic=True)
def coupling(setting: Setting, *, seed: int = 0) -> Numbers:
    S, mild = loudest(setting, seed), setting.draw_covariance(seed)
    measured = max(log_coupling_failure(setting, entries) for entries in (S, mild))
    bound = math.log(setting.inputs.failure_probability / 20)
    paper = log_sum([log_quota_failure(setting), log_noise_failure(setting)])
    if math.isinf(measured):
        detail = "no test can fire at a level that selects"
    else:
        low, high = -10.0, 15.0  # natural logarithms of how much larger every noise could be
        for _ in range(20):
            middle = (low + high) / 2
            kept = log_coupling_failure(setting, S, math.exp(middle)) <= bound
            low, high = (middle, high) if kept else (low, middle)
        detail = f"Sigma = sigma^2 I and the model; would hold up to {math.exp(low):.3g} b_l"
    detail += "; second: the paper's quota and noise events"
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
    """The largest surprise among binomial counts, as a normal deviate; inf for the impossible."""
    if np.any(gates[q == 0]):
        return math.inf
    counts, q = np.abs(gates[q > 0]), q[q > 0]
    tail = np.minimum(stats.binom.cdf(counts, tests, q), stats.binom.sf(counts - 1, tests, q))
    return float(np.max(-special.ndtri(np.minimum(tail, 0.5)), initial=0.0))


@claim("entry sensitivity", "Lemma 7", "|S_e(D) - S_e(D')| <= Delta = 2 R^2/n")
def entry_sensitivity(setting: Setting, *, seed: int = 0) -> Numbers:
    parameters = setting.parameters
    grid = IntegerGrid(parameters.clip_radius, IntegerGrid.largest_half_width)
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


def _gram_change(rows: FloatArray, grid: IntegerGrid) -> IntArray:
    """Gram of all rows but the second, minus Gram of all rows but the first: neighbours."""
    one = second_moments(open_records(np.delete(rows, 1, axis=0)), grid).gram
    other = second_moments(open_records(np.delete(rows, 0, axis=0)), grid).gram
    return np.asarray(one - other)


@claim(
    "selection range", "Lemma 7", "eps' = eps/(8L) <= 0.2, delta' = delta/(32L) <= 0.05, M_l >= 2"
)
def selection_range(setting: Setting) -> Numbers:
    parameters, inputs, L = setting.parameters, setting.inputs, setting.parameters.n_levels
    delta, fewest = inputs.delta / (32 * L), min(parameters.candidates)
    detail = (
        f"L = {L} >= 11, delta' = {delta:.3g}, smallest M_l = {fewest:,}; "
        "second: 1/88, the largest eps' the theorem's ranges allow"
    )
    also = L >= 11 and delta <= 0.05 and fewest >= 2
    return Numbers(0.2, inputs.epsilon / (8 * L), 1 / 88, detail, also)


@claim(
    "selection budget",
    "Lemma 7",
    "each J_l is (eps/(8L), delta/(32L))-private: b_l is large enough; unit eps/(8L)",
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
    return Numbers(1.0, measured, second, detail, vacuous=len(spent) == 1)


@claim(
    "query sensitivity",
    "Lemma 8",
    "||F_j(D) - F_j(D')||_2 <= Delta sqrt(A), A = sum s_l/t_l^2; unit Delta sqrt(A)",
)
def query_sensitivity(setting: Setting) -> Numbers:
    parameters, inputs = setting.parameters, setting.inputs
    # Every entry that this pair moves by Delta is queried as often as the quota allows.
    # These are (h, h, ...) and (h, -h, h, ...).
    grid = IntegerGrid(parameters.clip_radius, IntegerGrid.largest_half_width)
    rows = np.full((2, inputs.n_features), grid.radius)
    rows[1, 1::2] *= -1
    change = np.triu(_gram_change(rows, grid))
    moved = int(np.count_nonzero(np.abs(change) == 2 * grid.half_width**2))
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * inputs.row_sparsity)

    def spent(counts: Iterable[int]) -> Fraction:
        """Sum of counts / t_l^2, exactly."""
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


@claim("query budget", "Lemma 11", "A <= 65 d rho k L + 260 H/(3 t_0^2); unit the right side")
def budget_size(setting: Setting) -> Numbers:
    parameters, inputs, A = setting.parameters, setting.inputs, setting.parameters.query_budget
    bound = 65 * inputs.n_features * parameters.test_rate * inputs.row_sparsity
    bound *= parameters.n_levels
    bound += 260 * parameters.log_factor / (3 * setting.base_threshold**2)
    again = float(setting.again.query_budget)
    return Numbers(1.0, A / bound, again / bound, f"A = {A:.6g}; second: exact rationals")


@claim("gate noise", "Lemma 11", "r <= 1/(8 sqrt(Gamma))")
def gate_noise(setting: Setting) -> Numbers:
    parameters, inputs, again = setting.parameters, setting.inputs, setting.again
    L, H, gamma = parameters.n_levels, parameters.log_factor, parameters.union_log
    rate = inputs.row_sparsity * math.sqrt(inputs.n_features) / inputs.target_error / inputs.epsilon
    log_nd = math.log(80.0 * inputs.n_records * inputs.n_features / inputs.failure_probability)
    constant = inputs.n_records / (rate * log_nd * L**1.5 * math.sqrt(H) * gamma**1.5)
    detail = (
        f"n is {constant:.3g} times the privacy term of the theorem's sample size; "
        "second: 80-digit decimals"
    )
    r, bound = parameters.gate_noise, 1 / (8 * math.sqrt(gamma))
    also = agree(r, again.gate_noise) and agree(gamma, again.union_log)
    return Numbers(bound, r, again.gate_noise, detail, also)


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
    """int (phi(x - mu) - e^eps phi(x))_+ dx, the delta of the Gaussian mechanism by definition."""
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


@claim("transcript budget", "Lemma 10", "(J, V) is (3 eps/8, 5 delta/32)-private; the larger share")
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
    except PrivacyConditionError:
        spent = composed = (math.inf, math.inf)
    first, second = np.array([spent, composed]) / np.array([float(value) for value in claimed])
    detail = (
        "what a release certifies; in rationals eps/8 + eps/4 and delta/32 + delta/8 are "
        "exactly that; second: the accountant"
    )
    return Numbers(1.0, first.max(), second.max(), detail, also=exact == claimed)


@claim("total delta", "Theorem 1", "5 delta/32 + numerical delta <= delta; unit delta")
def total_delta(setting: Setting) -> Numbers:
    unit = setting.inputs.delta
    try:
        guarantee = certify(setting.parameters, private=False, exact_statistic=True)
        numerical = guarantee.numerical_delta
        stated = guarantee.transcript_delta + numerical
    except PrivacyConditionError:
        numerical = stated = math.inf
    measured = float(Fraction(5, 32) * Fraction(unit)) + numerical
    detail = f"numerical delta {numerical:.3g}; second: the guarantee of a release"
    return Numbers(1.0, measured / unit, stated / unit, detail)
