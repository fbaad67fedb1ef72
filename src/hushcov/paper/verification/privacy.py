"""Lemmas 4, 5 and 7 to 12: selection, its coupling with the ideal, and what is spent.

Selection drops no test that could fire, so actual equals ideal (4 and 5); what one record can move,
selection, gate noise, and the budgets (7 to 12).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import integrate, special, stats

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import OneShotLaplace, compose, gaussian_delta
from hushcov.exceptions import PrivacyConditionError
from hushcov.paper.mechanism import certify
from hushcov.paper.parameters import Level, TheoremParameters
from hushcov.paper.samplers import sample_exact
from hushcov.paper.verification.simulation import (
    FALSE_ALARM,
    LOG10,
    Claim,
    Sampler,
    Setting,
    agree,
    at_most,
    fire_probability,
    ideal_schedule,
    log_any,
    log_binomial_above,
    log_poisson_chernoff,
    log_sum,
    log_two_sided,
    read_again,
)
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.tables.sources import open_records

_QUOTA_DRAWS = 100
_LAW_DRAWS = 4
_CUTS = 400  # candidate cuts between "irrelevant" and "able to fire"


def quota_use(setting: Setting, *, seed: int = 0) -> Claim:
    """Check that the active tests of the large entries fit the quota of their level."""
    generator = np.random.default_rng(seed)
    truth = np.abs(setting.truth[setting.upper])
    drawn = worst = 0.0
    for level in setting.parameters.schedule.levels:
        tests = int(np.count_nonzero(truth >= level.threshold / 2)) * level.repetitions
        B = generator.binomial(tests, level.activation, size=_QUOTA_DRAWS)
        drawn = max(drawn, float(B.max()) / level.quota)
        worst = max(worst, _largest_group(setting, level) / level.quota)
    return at_most(
        "quota use",
        "Lemma 4",
        "B_l <= s_l at every level, B_l the active tests of entries >= t_l/2; unit s_l",
        bound=1.0,
        measured=drawn,
        second=worst,
        detail=f"largest of {_QUOTA_DRAWS} draws; second: every test of the most entries any "
        "k-sparse Sigma can have, active or not",
    )


def _largest_group(setting: Setting, level: Level) -> int:
    """Most tests that B_l can count for any Sigma of the model class: |K_l| m_l."""
    inputs = setting.inputs
    per_row = min(inputs.row_sparsity, 4 * inputs.scale**4 / level.threshold**2)
    entries = min(
        math.floor(inputs.n_features * per_row * (1 + 1e-12)), level.candidates // level.repetitions
    )
    return entries * level.repetitions


def log_quota_failure(setting: Setting) -> float:
    """log P(some B_l > s_l) for the worst Sigma, by binomial numerics."""
    return log_sum(
        [
            log_binomial_above(
                level.quota, _largest_group(setting, level), level.activation, level.inactivation
            )
            for level in setting.parameters.schedule.levels
        ]
    )


def quota_event(setting: Setting) -> Claim:
    """Check that the quota event fails with probability at most L e^-H = beta/(80 d) <= beta/40."""
    inputs, schedule = setting.inputs, setting.parameters.schedule
    markov = log_sum(
        [
            (math.e - 1) * _largest_group(setting, level) * level.activation - level.quota
            for level in schedule.levels
            if level.selection_scale is not None
        ]
    )
    return at_most(
        "quota event",
        "Lemma 4",
        "P(some B_l > s_l) <= L e^-H <= beta/40",
        bound=math.log10(inputs.failure_probability / 40),
        measured=log_quota_failure(setting) / LOG10,
        second=markov / LOG10,
        also=setting.parameters.n_levels * math.exp(-setting.parameters.log_factor)
        <= inputs.failure_probability / 40,
        detail="binomial tail for the worst Sigma; second: the paper's exponential Markov bound",
        logarithmic=True,
    )


def selection_noise(setting: Setting) -> Claim:
    """Every selection noise scale is at most 1/(64 Gamma)."""
    parameters = setting.parameters
    again = read_again(parameters.inputs)
    scales = [b or 0.0 for b in parameters.selection_scales]
    selecting = sum(b > 0 for b in scales)
    return at_most(
        "selection noise",
        "Lemma 5",
        "b_l <= 1/(64 Gamma) at every level that selects",
        bound=1 / (64 * parameters.union_log),
        measured=max(scales),
        second=max(again.selection_scales),
        also=len(scales) == len(again.selection_scales)
        and all(agree(*pair) for pair in zip(scales, again.selection_scales, strict=True))
        and agree(parameters.union_log, again.union_log),
        detail=f"{selecting} of {len(scales)} levels select; second: 80-digit decimals",
        vacuous=selecting == 0,
    )


def log_noise_failure(setting: Setting) -> float:
    """log P(some selection noise passes 1/32), over all candidates of levels that select."""
    return log_sum(
        [
            log_any(-1 / (32 * level.selection_scale), level.candidates)
            for level in setting.parameters.schedule.levels
            if level.selection_scale is not None
        ]
    )


def noise_event(setting: Setting) -> Claim:
    """Some selection noise passes 1/32 with probability at most M e^(-2 Gamma) <= beta/40."""
    parameters = setting.parameters
    bound = math.log(parameters.inputs.failure_probability / 40)
    total = math.log(sum(parameters.candidates)) - 2 * parameters.union_log
    union = log_sum(
        [
            math.log(level.candidates) - 1 / (32 * level.selection_scale)
            for level in parameters.schedule.levels
            if level.selection_scale is not None
        ]
    )
    return at_most(
        "noise event",
        "Lemma 4",
        "P(some |zeta_c| > 1/32) <= M e^(-2 Gamma) <= beta/40",
        bound=bound / LOG10,
        measured=log_noise_failure(setting) / LOG10,
        second=union / LOG10,
        also=total <= bound,
        detail=f"M e^(-2 Gamma) = 10^{total / LOG10:.1f}; second: union bound",
        logarithmic=True,
        vacuous=math.isinf(union),
    )


def log_dropped(level: Level, entries: FloatArray, clip: float, factor: float = 1.0) -> float:
    """Log of a bound on P(a level drops a test that could fire), given S.

    For any cut x: either a test with query above 1 - clip has its noisy score below x, or more
    than s tests have theirs above x. The first is a union bound, the second Chernoff's, and the
    best cut counts. Scores are shifted by one: a test of entry e has at most |S_e|/t + zeta.
    """
    b = level.selection_scale
    if b is None:
        return -math.inf
    b *= factor
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
    schedule = setting.parameters.schedule
    return log_sum(
        [log_dropped(level, entries, schedule.gate_clip, factor) for level in schedule.levels]
    )


def loudest(setting: Setting, seed: int) -> FloatArray:
    """S for Sigma = sigma^2 I, which opens the most gates at the levels that select."""
    inputs = setting.inputs
    return setting.draw_covariance(seed, inputs.scale**2 * np.eye(inputs.n_features))


def coupling(setting: Setting, *, seed: int = 0) -> Claim:
    """Actual and ideal output differ with probability at most beta/20."""
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
        factor = math.exp(low)
        detail = f"Sigma = sigma^2 I and the model; would hold up to {factor:.3g} b_l"
    return at_most(
        "coupling",
        "Lemma 4",
        "P(Sigma_hat != Sigma_id) <= beta/20 on E_cov",
        bound=bound / LOG10,
        measured=measured / LOG10,
        second=paper / LOG10,
        detail=detail + "; second: the paper's quota and noise events",
        logarithmic=True,
        vacuous=math.isinf(measured),
    )


def coupling_in_law(setting: Setting, *, seed: int = 0, sampler: Sampler = sample_exact) -> Claim:
    """At levels that select, drawn gate counts follow the law without selection."""
    schedule = setting.parameters.schedule
    S = loudest(setting, seed)
    generator = np.random.default_rng(seed)
    deviations: list[float] = []
    controls: list[float] = []
    tested = 0
    for level in schedule.levels:
        if level.selection_scale is None:
            continue
        alone = replace(schedule, levels=(level,))
        kept = ideal_schedule(alone)
        q = fire_probability(np.abs(S), level, schedule)
        tested += int(np.count_nonzero(q))
        for tests, scores in ((alone, deviations), (kept, controls)):
            total = sum(
                sampler(S / level.threshold, tests, generator)[0] for _ in range(_LAW_DRAWS)
            )
            scores.append(_deviation(np.asarray(total), _LAW_DRAWS * level.repetitions, q))
    return at_most(
        "coupling in law",
        "Lemma 4",
        "gates drawn with selection follow Binomial(m_l, p_l g); standard errors",
        # Two sides, and two samples that must both pass.
        bound=float(-special.ndtri(FALSE_ALARM / (4 * max(1, tested)))),
        measured=max(deviations, default=0.0),
        second=max(controls, default=0.0),
        detail=f"Sigma = sigma^2 I, {_LAW_DRAWS} draws of {tested} counts at {len(deviations)} "
        "levels that select, false alarm 1e-6; second: drawn without selection",
        vacuous=tested == 0,
    )


def _deviation(gates: IntArray, tests: int, q: FloatArray) -> float:
    """The largest surprise among binomial counts, as a normal deviate; inf for the impossible."""
    if np.any(gates[q == 0]):
        return math.inf
    counts, q = np.abs(gates[q > 0]), q[q > 0]
    tail = np.minimum(stats.binom.cdf(counts, tests, q), stats.binom.sf(counts - 1, tests, q))
    return float(np.max(-special.ndtri(np.minimum(tail, 0.5)), initial=0.0))


_PAIRS = 40
_ROWS = 6  # records of a random dataset: only the replaced one moves the sums
_MOST_COLUMNS = 50


def entry_sensitivity(setting: Setting, *, seed: int = 0) -> Claim:
    """Replacing one record moves an entry of S by at most Delta = 2 R^2 / n."""
    parameters = setting.parameters
    grid = _grid(parameters)
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
    again = read_again(parameters.inputs).sensitivity
    return at_most(
        "entry sensitivity",
        "Lemma 7",
        "|S_e(D) - S_e(D')| <= Delta = 2 R^2/n",
        bound=parameters.entry_sensitivity,
        measured=float(moved * unit),
        second=again,
        also=moved == 2 * grid.half_width**2 and agree(parameters.entry_sensitivity, again),
        detail=f"integer Gram of {_PAIRS} neighbouring pairs; (R, R) against (R, -R) attains it; "
        "second: 80-digit decimals",
    )


def query_sensitivity(setting: Setting) -> Claim:
    """Check that the selected queries together move by at most Delta sqrt(A) in l2."""
    parameters = setting.parameters
    exact = _budget(parameters, parameters.quotas)
    again = read_again(parameters.inputs).query_budget
    # Every entry that this pair moves by Delta is queried as often as the quota allows.
    # These are (h, h, ...) and (h, -h, h, ...).
    grid = _grid(parameters)
    rows = np.full((2, parameters.inputs.n_features), grid.radius)
    rows[1, 1::2] *= -1
    change = np.triu(_gram_change(rows, grid))
    moved = int(np.count_nonzero(np.abs(change) == 2 * grid.half_width**2))
    counts = [
        min(s_ell, moved * m_ell)
        for s_ell, m_ell in zip(parameters.quotas, parameters.repetitions, strict=True)
    ]
    attained = _budget(parameters, counts)
    bound = parameters.entry_sensitivity * math.sqrt(parameters.query_budget)
    return at_most(
        "query sensitivity",
        "Lemma 8",
        "||F_j(D) - F_j(D')||_2 <= Delta sqrt(A), A = sum s_l/t_l^2; unit Delta sqrt(A)",
        bound=1.0,
        measured=parameters.entry_sensitivity * math.sqrt(attained) / bound,
        second=parameters.entry_sensitivity * math.sqrt(exact) / bound,
        also=exact == again,
        detail=f"attained by alternating signs ({moved} entries move by Delta), thresholds at t_l; "
        "second: s_l/t_l^2 summed in rationals",
    )


def budget_size(setting: Setting) -> Claim:
    """Check that A is at most 65 d rho k L + 260 H / (3 t_0^2)."""
    parameters, inputs = setting.parameters, setting.inputs
    bound = (
        65 * inputs.n_features * parameters.test_rate * inputs.row_sparsity * parameters.n_levels
        + 260 * parameters.log_factor / (3 * setting.base_threshold**2)
    )
    return at_most(
        "query budget",
        "Lemma 11",
        "A <= 65 d rho k L + 260 H/(3 t_0^2); unit the right side",
        bound=1.0,
        measured=parameters.query_budget / bound,
        second=float(read_again(inputs).query_budget) / bound,
        detail=f"A = {parameters.query_budget:.6g}; second: exact rationals",
    )


def _grid(parameters: TheoremParameters) -> IntegerGrid:
    return IntegerGrid(parameters.clip_radius, IntegerGrid.largest_half_width)


def _budget(parameters: TheoremParameters, counts: tuple[int, ...] | list[int]) -> Fraction:
    """Sum of counts / t_l^2, exactly: t_0 is a rational of the inputs."""
    inputs = parameters.inputs
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * inputs.row_sparsity)
    terms = (count / (t_0 * 2**ell) ** 2 for ell, count in enumerate(counts))
    return sum(terms, Fraction(0))


def _gram_change(rows: FloatArray, grid: IntegerGrid) -> IntArray:
    """Gram of all rows but the second, minus Gram of all rows but the first: neighbours."""
    one = second_moments(open_records(np.delete(rows, 1, axis=0)), grid).gram
    other = second_moments(open_records(np.delete(rows, 0, axis=0)), grid).gram
    return np.asarray(one - other)


def selection_range(setting: Setting) -> Claim:
    """Check that the one-shot Laplace theorem covers the budgets and sizes it is used with."""
    parameters, inputs = setting.parameters, setting.inputs
    L = parameters.n_levels
    delta = inputs.delta / (32 * L)
    fewest = min(parameters.candidates)
    return at_most(
        "selection range",
        "Lemma 7",
        "eps' = eps/(8L) <= 0.2, delta' = delta/(32L) <= 0.05, M_l >= 2",
        bound=0.2,
        measured=inputs.epsilon / (8 * L),
        second=1 / 88,
        also=L >= 11 and delta <= 0.05 and fewest >= 2,
        detail=f"L = {L} >= 11, delta' = {delta:.3g}, smallest M_l = {fewest:,}; "
        "second: 1/88, the largest eps' the theorem's ranges allow",
    )


def selection_calibration(setting: Setting) -> Claim:
    """Check that the accountant certifies each selecting level at (eps/(8L), delta/(32L))."""
    parameters, inputs = setting.parameters, setting.inputs
    L = parameters.n_levels
    spent, again = [0.0], [0.0]
    for level in parameters.schedule.levels:
        if level.selection_scale is None:
            continue
        gap = parameters.entry_sensitivity / level.threshold
        event = OneShotLaplace(
            gap, level.selection_scale, level.quota, level.candidates, inputs.delta / (32 * L)
        )
        spent.append(event.certified_epsilon or math.inf)
        log_term = math.log(level.candidates) + math.log(32 * L / inputs.delta)
        again.append(8 * gap * math.sqrt(level.quota * log_term) / level.selection_scale)
    return at_most(
        "selection budget",
        "Lemma 7",
        "each J_l is (eps/(8L), delta/(32L))-private: b_l is large enough; unit eps/(8L)",
        bound=1.0,
        measured=max(spent) * 8 * L / inputs.epsilon,
        second=max(again) * 8 * L / inputs.epsilon,
        detail=f"{len(spent) - 1} levels select; the accountant's reading of Qiao, Su and Zhang, "
        "Theorem 2.2; second: formula inverted",
        vacuous=len(spent) == 1,
    )


def gate_noise(setting: Setting) -> Claim:
    """r is at most 1/(8 sqrt(Gamma))."""
    parameters, inputs = setting.parameters, setting.inputs
    again = read_again(inputs)
    L, H, gamma = parameters.n_levels, parameters.log_factor, parameters.union_log
    rate = inputs.row_sparsity * math.sqrt(inputs.n_features) / inputs.target_error / inputs.epsilon
    log_nd = math.log(80.0 * inputs.n_records * inputs.n_features / inputs.failure_probability)
    constant = inputs.n_records / (rate * log_nd * L**1.5 * math.sqrt(H) * gamma**1.5)
    return at_most(
        "gate noise",
        "Lemma 11",
        "r <= 1/(8 sqrt(Gamma))",
        bound=1 / (8 * math.sqrt(gamma)),
        measured=parameters.gate_noise,
        second=again.gate_noise,
        also=agree(parameters.gate_noise, again.gate_noise) and agree(gamma, again.union_log),
        detail=f"n is {constant:.3g} times the privacy term of the theorem's sample size; "
        "second: 80-digit decimals",
    )


def gaussian_protection(setting: Setting) -> Claim:
    """Gaussian gate noise of scale r is (eps/4, delta/16)-private."""
    parameters, inputs = setting.parameters, setting.inputs
    mu = parameters.entry_sensitivity * math.sqrt(parameters.query_budget) / parameters.gate_noise
    return at_most(
        "Gaussian protection",
        "Lemma 12",
        "F_j + N(0, r^2 I) is (eps/4, delta/16)-private; its exact delta, unit delta/16",
        bound=1.0,
        measured=gaussian_delta(mu, inputs.epsilon / 4) / (inputs.delta / 16),
        second=_hockey_stick(mu, inputs.epsilon / 4) / (inputs.delta / 16),
        detail=f"mu = {mu:.4g}; exact curve of the Gaussian mechanism; second: hockey-stick "
        "integral",
    )


def _hockey_stick(mu: float, epsilon: float) -> float:
    """int (phi(x - mu) - e^eps phi(x))_+ dx, the delta of the Gaussian mechanism by definition."""
    start = epsilon / mu + mu / 2

    def integrand(v: float) -> float:
        x = start + v
        density = math.exp(-0.5 * (x - mu) ** 2) / math.sqrt(2 * math.pi)
        return -density * math.expm1(-mu * v)  # the loss mu x - mu^2/2 is epsilon at start

    return float(integrate.quad(integrand, 0, max(0.0, mu - start) + 20, epsabs=0, limit=200)[0])


def noise_clipping(setting: Setting) -> Claim:
    """Clipping the gate noise at 1/4 costs at most eta in total variation."""
    parameters = setting.parameters
    edge = parameters.schedule.gate_clip / parameters.gate_noise
    measured = log_any(log_two_sided(edge), parameters.total_quota)
    # Mills' ratio: P(g > x) < phi(x)/x.
    mills = math.log(2 * parameters.total_quota / edge) - 0.5 * edge * edge
    second = min(0.0, mills - 0.5 * math.log(2 * math.pi))
    return at_most(
        "noise clipping",
        "Lemma 9",
        "TV = P(some |G_a| > 1/4) <= eta = 2 S_star exp(-1/(32 r^2))",
        bound=parameters.log_clipping_slack / LOG10,
        measured=measured / LOG10,
        second=second / LOG10,
        detail="exact probability over S_star independent Gaussians; second: Mills' ratio",
        logarithmic=True,
    )


def eta_condition(setting: Setting) -> Claim:
    """(1 + e^(eps/4)) eta is at most delta/16: the precondition of the privacy proof."""
    parameters, inputs = setting.parameters, setting.inputs
    factor = math.log1p(math.exp(inputs.epsilon / 4))
    measured = factor + parameters.log_clipping_slack
    again = factor + read_again(inputs).log_clipping_slack
    return at_most(
        "eta condition",
        "Lemma 11",
        "(1 + e^(eps/4)) eta <= delta/16",
        bound=math.log10(inputs.delta / 16),
        measured=measured / LOG10,
        second=again / LOG10,
        also=agree(measured, again),
        detail=f"holds from n = {parameters.smallest_private_n:,} on; second: 80-digit decimals",
        logarithmic=True,
    )


def transcript_budget(setting: Setting) -> Claim:
    """Check that the transcript spends (3 eps/8, 5 delta/32)."""
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
    ratios = np.array([spent, composed]) / np.array([float(value) for value in claimed])
    return at_most(
        "transcript budget",
        "Lemma 10",
        "(J, V) is (3 eps/8, 5 delta/32)-private; the larger share",
        bound=1.0,
        measured=float(ratios[0].max()),
        second=float(ratios[1].max()),
        also=exact == claimed,
        detail="what a release certifies; in rationals eps/8 + eps/4 and delta/32 + delta/8 are "
        "exactly that; second: the accountant",
    )


def total_delta(setting: Setting) -> Claim:
    """Check that the transcript and the sampler's finite precision together stay within delta."""
    inputs = setting.inputs
    try:
        guarantee = certify(setting.parameters, private=False, exact_statistic=True)
        numerical = guarantee.numerical_delta
        stated = guarantee.transcript_delta + numerical
    except PrivacyConditionError:
        numerical = stated = math.inf
    exact = Fraction(5, 32) * Fraction(inputs.delta)
    return at_most(
        "total delta",
        "Theorem 1",
        "5 delta/32 + numerical delta <= delta; unit delta",
        bound=1.0,
        measured=(float(exact) + numerical) / inputs.delta,
        second=stated / inputs.delta,
        detail=f"numerical delta {numerical:.3g}; second: the guarantee of a release",
    )
