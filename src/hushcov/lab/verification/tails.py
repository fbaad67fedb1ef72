"""Probabilities far below the smallest double, as natural logarithms."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import integrate, special

FloatArray = npt.NDArray[np.float64]


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
