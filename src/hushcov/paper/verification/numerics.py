"""The paper's numbers by other routes than the mechanism's.

Tails far below the smallest double are natural logarithms. Gate probabilities are integrated over
the gate noise: the sampler's kernels integrate over the random threshold with the noise integrated
out; here it is the other way round. For a > 0 a test at threshold T fires when T < a / (1 - Z), so
every quantity is an expectation of clip(a / (1 - Z)) over Z alone, and shares nothing with them.

`read_again` is Section 3 transcribed a second time, from the paper and in 80-digit decimals. It
shares no code with `hushcov.paper.parameters`, which the mechanism runs with, so
that a slip in either shows up as a disagreement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np
from scipy import integrate, special

from hushcov._arrays import FloatArray
from hushcov.paper import Level, PublicInputs, Schedule, TheoremParameters

_WIDEST = 12.0  # standard deviations; P(|g| > 12) = 4e-33
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_TERMS = 40  # the moment series converges like (clip^2)^j = 16^-j


def log_two_sided(x: float) -> float:
    """log P(|g| > x) for a standard normal g."""
    return math.log(2) + float(special.log_ndtr(-x))


def log_two_sided_by_quadrature(x: float) -> float:
    """log P(|g| > x), x > 0, by integrating the density: phi(x) / x * int exp(-v - v^2/(2x^2))."""
    integral = integrate.quad(lambda v: math.exp(-v - 0.5 * (v / x) ** 2), 0, 60)[0]
    return math.log(2 * integral / x) - 0.5 * x * x - 0.5 * math.log(2 * math.pi)


def log_any(log_probability: float, count: float) -> float:
    """log(1 - (1 - p)^count): at least one of `count` independent events of probability p."""
    if log_probability < -30:  # then 1 - (1 - p)^count = 1 - exp(-count p) to thirteen digits
        log_mean = log_probability + math.log(count)
        return log_mean if log_mean < -30 else math.log(-math.expm1(-math.exp(log_mean)))
    return math.log(-math.expm1(count * math.log1p(-math.exp(log_probability))))


def log_sum(logs: list[float]) -> float:
    """log of a sum of numbers given by their logs; minus infinity if there are none."""
    largest = max(logs, default=-math.inf)
    if math.isinf(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in logs))


def log_binomial_above(limit: int, count: int, success: float, failure: float) -> float:
    """log P(B > limit) for B binomial, rounded up by less than the first term's share.

    The first term of the tail by Stirling's formula (an upper bound on it), times the geometric
    series that dominates the others. Below the mean the trivial bound 0 is returned.
    """
    k = limit + 1
    if k > count:
        return -math.inf
    if k <= count * success:
        return 0.0
    rest = count - k
    divergence = k * math.log(k / (count * success))
    if rest:
        divergence += rest * math.log(rest / (count * failure))
        spread = 0.5 * math.log(count / (2 * math.pi * k * rest))
    else:
        spread = 0.0
    ratio = rest / (k + 1) * success / failure
    return min(0.0, 1 / (12 * count) + spread - divergence - math.log1p(-ratio))


def log_poisson_chernoff(threshold: float, mean: float) -> float:
    """log of the Chernoff bound on P(sum of independent indicators >= threshold)."""
    if threshold <= mean:
        return 0.0
    if mean == 0:
        return -math.inf
    return threshold - mean - threshold * math.log(threshold / mean)


def log_product_deviation(
    covariance: FloatArray, variances: FloatArray, deviation: float, n: int, *, sharp: bool = False
) -> FloatArray:
    """Log of P(|mean of n products X_i X_j - c| > deviation), X_i and X_j Gaussian.

    `variances` is the product v of the two variances. By default Chernoff's bound for either side;
    `sharp` gives the saddlepoint approximation of Lugannani and Rice, whose relative error is
    of the order 1/n. Both rest on E exp(u X_i X_j) = ((1 - c u)^2 - v u^2)^(-1/2).
    """
    w = np.maximum(variances - covariance**2, 0.0)
    sides = []
    for c in (covariance, -covariance):
        x = c + deviation
        half = 2 * c * x + w
        with np.errstate(invalid="ignore", divide="ignore"):
            u = 2 * deviation / (half + np.sqrt(half**2 + 4 * x * w * deviation))
            D = 1 - 2 * c * u - w * u * u
            rate = u * x + 0.5 * np.log1p(-2 * c * u - w * u * u)
            spread = u * np.sqrt(n * (w / D + 2 * ((c + w * u) / D) ** 2))
            log_side = _log_saddlepoint(n * rate, spread) if sharp else -n * rate
        # Out of reach of the moment generating function nothing is claimed.
        log_side = np.where(np.isfinite(log_side) & (u > 0), log_side, 0.0)
        # A square (w = 0) is never negative.
        sides.append(np.where((w == 0) & (c < 0) & (x >= 0), -np.inf, log_side))
    return np.asarray(np.minimum(np.logaddexp(sides[0], sides[1]), 0.0))


def _log_saddlepoint(exponent: FloatArray, spread: FloatArray) -> FloatArray:
    """log(Phi(-z) + phi(z) (1/spread - 1/z)) with z = sqrt(2 exponent)."""
    z = np.sqrt(2 * exponent)
    mills = math.sqrt(math.pi / 2) * special.erfcx(z / math.sqrt(2))
    log_density = -exponent - 0.5 * math.log(2 * math.pi)
    return np.asarray(log_density + np.log(mills + (z - spread) / (z * spread)))


def clopper_pearson(successes: int, runs: int, confidence: float = 0.95) -> float:
    """Lower confidence bound on a probability after `successes` in `runs`."""
    if successes == 0:
        return 0.0
    return float(special.betaincinv(successes, runs - successes + 1, 1 - confidence))


class Moments(NamedTuple):
    """Mean and variance of the ideal estimator's entries, given S; and the fourth cumulant."""

    mean: FloatArray
    variance: FloatArray
    fourth_cumulant: FloatArray


def fired_length(a: FloatArray, low: float, high: float, r: float, clip: float) -> FloatArray:
    """int_low^high P(Z > 1 - a/t) dt = E[min(max(a/(1-Z), low), high)] - low, for a >= 0."""
    edge = min(clip / r, _WIDEST)
    ends = np.full((2, len(a)), [[-edge], [edge]])
    kinks = [(1 - a / t) / r for t in (low, high) if t > 0]
    bounds = [ends[0], *np.clip(kinks, -edge, edge), ends[1]]
    total = np.zeros_like(a)
    for start, stop in pairwise(bounds):
        half = 0.5 * (stop - start)[:, None]
        w = start[:, None] + half * (1 + _NODES)
        reached = np.clip(a[:, None] / (1 - r * w), low, high) - low
        density = np.exp(-0.5 * w * w) / math.sqrt(2 * math.pi)
        total += np.sum(half * _WEIGHTS * density * reached, axis=1)
    if clip / r < _WIDEST:
        atom = special.ndtr(-clip / r)
        for z in (-clip, clip):
            total += atom * (np.clip(a / (1 - z), low, high) - low)
    return total


def fired_length_by_thresholds(a: float, r: float, clip: float) -> float:
    """int_0^inf P(Z > 1 - a/t) dt for a > 0, integrating over t, in y = (1 - a/t) / r."""
    edge = clip / r
    pieces = [-edge, *(y for y in (-_WIDEST, 0.0, _WIDEST) if abs(y) < edge), edge]
    total = a / (1 + clip)  # below this t every test fires
    for start, stop in pairwise(pieces):
        total += integrate.quad(
            lambda y: 0.5 * special.erfc(y / math.sqrt(2)) * a * r / (1 - r * y) ** 2,
            start,
            stop,
            epsabs=0.0 if start < _WIDEST else 1e-30 * a,
            epsrel=1e-12,
        )[0]
    return float(total)


def correction_by_moments(r: float, clip: float) -> float:
    """kappa = E[1/(1-Z)] = sum of the even moments of the clipped Gaussian Z."""
    j = np.arange(_TERMS)
    edge = clip / r
    log_inside = 2 * j * math.log(r) + j * math.log(2) + special.gammaln(j + 0.5)
    inside = np.exp(log_inside - 0.5 * math.log(math.pi)) * special.gammainc(j + 0.5, edge**2 / 2)
    clipped = clip ** (2.0 * j) * 2 * special.ndtr(-edge)
    return float(np.sum(inside + clipped))


def fire_probability(sizes: FloatArray, level: Level, schedule: Schedule) -> FloatArray:
    """The probability that a test of a level is active and fires, for each |S_e|."""
    q, able = np.zeros(len(sizes)), sizes > (1 - schedule.gate_clip) * level.threshold
    ends = level.threshold, 2 * level.threshold
    fired = fired_length(sizes[able], *ends, schedule.gate_noise, schedule.gate_clip)
    q[able] = level.activation * (fired / level.threshold)
    return q


def ideal_moments(entries: FloatArray, parameters: TheoremParameters) -> Moments:
    """Cumulants of the ideal estimator at each entry of S, level by level."""
    schedule = parameters.schedule
    size, sign = np.abs(entries), np.sign(entries)
    mean, variance, fourth = np.zeros((3, len(entries)))
    for level in schedule.levels:
        q = np.clip(fire_probability(size, level, schedule), 0.0, 1.0)
        weight = 1 / (schedule.gate_correction * schedule.test_rate * level.threshold)
        spread = level.repetitions * q * (1 - q)
        mean += weight * level.repetitions * q
        variance += weight**2 * spread
        fourth += weight**4 * spread * (1 - 6 * q * (1 - q))
    return Moments(sign * mean, variance, fourth)


def mean_formula(entries: FloatArray, parameters: TheoremParameters) -> FloatArray:
    """The paper's conditional mean, (1/kappa) int_{t_0}^{t_L} E psi(S_e/t + Z) dt."""
    schedule, t = parameters.schedule, parameters.thresholds
    size = np.abs(entries)
    able = size > (1 - schedule.gate_clip) * t[0]
    length = np.zeros_like(size)
    length[able] = fired_length(size[able], t[0], t[-1], schedule.gate_noise, schedule.gate_clip)
    return np.asarray(np.sign(entries) * length / schedule.gate_correction)


@dataclass(frozen=True)
class SecondReading:
    """The quantities that the claims compare with the mechanism's own."""

    selection_scales: tuple[float, ...]  # b_ell, 0 where s_ell = M_ell
    query_budget: Fraction  # A, an exact rational
    gate_noise: float  # r
    union_log: float  # Gamma
    log_clipping_slack: float  # log eta
    sensitivity: float  # Delta


def read_again(inputs: PublicInputs) -> SecondReading:
    """Evaluate the formulas of Section 3 as printed."""
    with localcontext(Context(prec=80)):
        return _read(inputs)


def _read(inputs: PublicInputs) -> SecondReading:
    n, d, k = Decimal(inputs.n_records), Decimal(inputs.n_features), Decimal(inputs.row_sparsity)
    alpha, epsilon, delta = map(Decimal, (inputs.target_error, inputs.epsilon, inputs.delta))
    beta, sigma = Decimal(inputs.failure_probability), Decimal(inputs.scale)
    L = next(ell for ell in count(1) if 2**ell >= 512 * k / alpha)
    H = (80 * d * L / beta).ln()
    Delta = 2 * sigma**2 * 2 * (40 * n * d / beta).ln() / n
    t = [alpha * sigma**2 / (256 * k) * 2**ell for ell in range(L)]
    rho = 4096 * L * k * H / (alpha**2 * sigma**4)
    M = [int(d * (d + 1) / 2) * _ceil(rho * t_ell**2) for t_ell in t]
    quotas = [_ceil(64 * (d * rho * min(k * t_ell**2, sigma**4) + H)) for t_ell in t]
    s = [min(pair) for pair in zip(M, quotas, strict=True)]
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * int(k))
    A = sum((s_ell / (t_0 * 2**ell) ** 2 for ell, s_ell in enumerate(s)), Fraction(0))
    root_A = (Decimal(A.numerator) / Decimal(A.denominator)).sqrt()
    r = 8 * Delta * root_A / epsilon * (32 / delta).ln().sqrt()
    b = [
        8 * (Delta / t_ell) * (s_ell * (M_ell / (delta / (32 * L))).ln()).sqrt() * 8 * L / epsilon
        if s_ell < M_ell
        else Decimal(0)
        for t_ell, s_ell, M_ell in zip(t, s, M, strict=True)
    ]
    return SecondReading(
        selection_scales=tuple(float(b_ell) for b_ell in b),
        query_budget=A,
        gate_noise=float(r),
        union_log=float((80 * L * sum(M) / (beta * delta)).ln()),
        log_clipping_slack=float((2 * Decimal(sum(s))).ln() - 1 / (32 * r * r)),
        sensitivity=float(Delta),
    )


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))
