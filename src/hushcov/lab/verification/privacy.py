"""Lemmas 7 and 9 to 12: selection, gate noise and what the transcript spends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import integrate

from hushcov.accounting import OneShotLaplace, compose
from hushcov.accounting.gaussian import gaussian_delta
from hushcov.exceptions import PrivacyConditionError
from hushcov.lab.verification import tails
from hushcov.lab.verification.claim import LOG10, Claim, agree, at_most
from hushcov.lab.verification.second_reading import read_again
from hushcov.lab.verification.setting import Setting
from hushcov.mechanisms.multiscale import certify


def selection_range(setting: Setting) -> Claim:
    """The one-shot Laplace theorem covers the budgets and sizes it is used with."""
    parameters = setting.parameters
    inputs, L = parameters.inputs, parameters.n_levels
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
    parameters = setting.parameters
    inputs, L = parameters.inputs, parameters.n_levels
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
    parameters = setting.parameters
    inputs = parameters.inputs
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
    parameters = setting.parameters
    inputs = parameters.inputs
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
    measured = tails.log_any(tails.log_two_sided(edge), parameters.total_quota)
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
    parameters = setting.parameters
    inputs = parameters.inputs
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
    inputs, L = setting.parameters.inputs, setting.parameters.n_levels
    epsilon, delta = Fraction(inputs.epsilon), Fraction(inputs.delta)
    exact = (L * (epsilon / (8 * L)) + epsilon / 4, L * (delta / (32 * L)) + delta / 8)
    claimed = (Fraction(3, 8) * epsilon, Fraction(5, 32) * delta)
    try:
        guarantee = certify(setting.parameters, private=False, exact_statistic=True)
        spent = (guarantee.transcript_epsilon, guarantee.transcript_delta)
        bound = compose(guarantee.events, pld=False)
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
    inputs = setting.parameters.inputs
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
