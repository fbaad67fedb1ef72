"""Lemmas 4 and 5: selection drops no test that could fire, so actual equals ideal."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import special, stats

from hushcov._arrays import FloatArray, IntArray
from hushcov.paper import Level, sample_exact
from hushcov.paper.verification import numerics
from hushcov.paper.verification.numerics import fire_probability, read_again
from hushcov.paper.verification.simulation import (
    FALSE_ALARM,
    LOG10,
    Claim,
    Sampler,
    Setting,
    agree,
    at_most,
    ideal_schedule,
)

_QUOTA_DRAWS = 100
_LAW_DRAWS = 4
_CUTS = 400  # candidate cuts between "irrelevant" and "able to fire"


def quota_use(setting: Setting, *, seed: int = 0) -> Claim:
    """The active tests of the large entries fit the quota of their level."""
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
    return numerics.log_sum(
        [
            numerics.log_binomial_above(
                level.quota, _largest_group(setting, level), level.activation, level.inactivation
            )
            for level in setting.parameters.schedule.levels
        ]
    )


def quota_event(setting: Setting) -> Claim:
    """The quota event fails with probability at most L e^-H = beta/(80 d) <= beta/40."""
    inputs, schedule = setting.inputs, setting.parameters.schedule
    markov = numerics.log_sum(
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
    return numerics.log_sum(
        [
            numerics.log_any(-1 / (32 * level.selection_scale), level.candidates)
            for level in setting.parameters.schedule.levels
            if level.selection_scale is not None
        ]
    )


def noise_event(setting: Setting) -> Claim:
    """Some selection noise passes 1/32 with probability at most M e^(-2 Gamma) <= beta/40."""
    parameters = setting.parameters
    bound = math.log(parameters.inputs.failure_probability / 40)
    total = math.log(sum(parameters.candidates)) - 2 * parameters.union_log
    union = numerics.log_sum(
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
        above = numerics.log_poisson_chernoff(level.quota + 1 - above_for_sure, mean)
        best = min(best, numerics.log_sum([below, above]))
    return best


def log_coupling_failure(setting: Setting, entries: FloatArray, factor: float = 1.0) -> float:
    """Log of a bound on P(actual != ideal | S), every selection noise multiplied by `factor`."""
    schedule = setting.parameters.schedule
    return numerics.log_sum(
        [log_dropped(level, entries, schedule.gate_clip, factor) for level in schedule.levels]
    )


def loudest(setting: Setting, seed: int) -> FloatArray:
    """S for Sigma = sigma^2 I, which opens the most gates at the levels that select."""
    inputs = setting.inputs
    return setting.draw_covariance(seed, inputs.scale**2 * np.eye(inputs.n_features))


def _largest_factor(setting: Setting, entries: FloatArray, bound: float) -> float:
    """How much larger every selection noise could be before the coupling bound is lost."""
    low, high = -10.0, 15.0  # of the natural logarithm
    for _ in range(20):
        middle = (low + high) / 2
        kept = log_coupling_failure(setting, entries, math.exp(middle)) <= bound
        low, high = (middle, high) if kept else (low, middle)
    return math.exp(low)


def coupling(setting: Setting, *, seed: int = 0) -> Claim:
    """Actual and ideal output differ with probability at most beta/20."""
    S, mild = loudest(setting, seed), setting.draw_covariance(seed)
    measured = max(log_coupling_failure(setting, entries) for entries in (S, mild))
    bound = math.log(setting.inputs.failure_probability / 20)
    paper = numerics.log_sum([log_quota_failure(setting), log_noise_failure(setting)])
    if math.isinf(measured):
        detail = "no test can fire at a level that selects"
    else:
        factor = _largest_factor(setting, S, bound)
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
