"""Lemmas 7 to 12: what one record can move, selection, gate noise, and what is spent."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import integrate

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import OneShotLaplace, compose, gaussian_delta
from hushcov.exceptions import PrivacyConditionError
from hushcov.paper import TheoremParameters, certify
from hushcov.paper.verification import numerics
from hushcov.paper.verification.numerics import read_again
from hushcov.paper.verification.simulation import LOG10, Claim, Setting, agree, at_most
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import IntegerGrid
from hushcov.tables.sources import open_records

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
        rows = _wild_rows(generator, (_ROWS, columns), grid.radius)
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
    """The selected queries together move by at most Delta sqrt(A) in l2."""
    parameters = setting.parameters
    exact = _budget(parameters, parameters.quotas)
    again = read_again(parameters.inputs).query_budget
    # Every entry that this pair moves by Delta is queried as often as the quota allows.
    moved = _most_moved_entries(parameters)
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
    """A is at most 65 d rho k L + 260 H / (3 t_0^2)."""
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


def _most_moved_entries(parameters: TheoremParameters) -> int:
    """Entries that move by the full sensitivity between (h, h, ...) and (h, -h, h, ...)."""
    grid = _grid(parameters)
    d = parameters.inputs.n_features
    rows = np.full((2, d), grid.radius)
    rows[1, 1::2] *= -1
    change = np.triu(_gram_change(rows, grid))
    return int(np.count_nonzero(np.abs(change) == 2 * grid.half_width**2))


def _gram_change(rows: FloatArray, grid: IntegerGrid) -> IntArray:
    """Gram of all rows but the second, minus Gram of all rows but the first: neighbours."""
    one = second_moments(open_records(np.delete(rows, 1, axis=0)), grid).gram
    other = second_moments(open_records(np.delete(rows, 0, axis=0)), grid).gram
    return np.asarray(one - other)


def _wild_rows(generator: np.random.Generator, shape: tuple[int, int], radius: float) -> FloatArray:
    """Rows inside the radius, at it, and absurdly far outside."""
    size = generator.choice([0.3, 1.0, 1e3, 1e250], size=(shape[0], 1))
    return np.asarray(radius * size * generator.standard_normal(shape))


def selection_range(setting: Setting) -> Claim:
    """The one-shot Laplace theorem covers the budgets and sizes it is used with."""
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
    """The accountant certifies each selecting level at (eps/(8L), delta/(32L))."""
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
    measured = numerics.log_any(numerics.log_two_sided(edge), parameters.total_quota)
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
    """The transcript spends (3 eps/8, 5 delta/32)."""
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
    """The transcript and the sampler's finite precision together stay within delta."""
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
