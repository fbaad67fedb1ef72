"""The exact privacy curve of the Gaussian mechanism, in logs.

Balle and Wang (2018), Theorem 8: a Gaussian mechanism with mu = sensitivity / sd is
(epsilon, delta)-DP if and only if
delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
"""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

# proof: step 19
# Added to every delta, relative to it (and growing with mu, whose size limits the accuracy of
# epsilon/mu - mu/2), so that double rounding never claims too much. The tests measure errors
# ten times smaller against 60-digit arithmetic.
ROUNDING = 1e-11

# Below this mu the two terms are so close that their difference is integrated instead.
_SMALL_MU = 0.5
# Beyond this, epsilon/mu - mu/2 has too few digits left to certify anything.
_LARGEST_MU = 1e4
# Beyond this, delta is below the smallest double by any account.
_LARGEST_NEAR = 1e5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which mu is epsilon-private, rounded up."""
    # proof: step 8
    log_delta = gaussian_log_delta(mu, epsilon) + math.log1p(ROUNDING * (1 + mu))
    # A positive delta must not underflow to 0, which would claim pure privacy.
    return max(math.exp(min(log_delta, 0.0)), sys.float_info.min)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which mu is delta-private, rounded up; inf at delta = 0."""
    if delta <= sys.float_info.min:
        return math.inf
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # zCDP already proves this much privacy (Bun and Steinke 2016, Proposition 1.3).
    upper = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    goal = math.log(delta) - math.log1p(ROUNDING * (1 + mu))
    upper *= 1 + 1e-9
    if gaussian_log_delta(mu, upper) > goal:
        return math.inf
    epsilon = brentq(lambda x: gaussian_log_delta(mu, x) - goal, 0.0, upper, rtol=1e-14)
    step = 1e-15
    while gaussian_delta(mu, epsilon) > delta:
        epsilon *= 1 + step
        step *= 2
    return float(epsilon)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon), to a relative error in delta far below `ROUNDING` (1 + mu)."""
    if mu > _LARGEST_MU:
        return 0.0
    near = epsilon / mu - mu / 2
    if near > _LARGEST_NEAR:
        return -math.inf
    far = epsilon / mu + mu / 2
    # e^epsilon phi(far) = phi(near), so delta = phi(near) (mills(near) - mills(far)), where
    # mills(x) = Phi(-x) / phi(x).
    if mu < _SMALL_MU:
        return _log_density(near) + _log_mills_drop(near, mu)
    ratio = math.exp(_log_mills(far) - _log_mills(near))
    return float(log_ndtr(-near)) + math.log1p(-ratio)


def _log_mills_drop(start: float, width: float) -> float:
    """Return log(mills(start) - mills(start + width)), by integrating 1 - x mills = -mills'."""
    x = start + width * (_NODES + 1) / 2
    slope = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    # Far out the difference above loses its digits; its upper bound 1/(1 + x^2) does not.
    slope = np.where(x > 50, 1 / (1 + x * x), slope)
    return math.log(float(_WEIGHTS @ slope)) + math.log(width / 2)


def _log_mills(x: float) -> float:
    if x > 0:
        return 0.5 * math.log(math.pi / 2) + math.log(erfcx(x / math.sqrt(2)))
    return float(log_ndtr(-x)) - _log_density(x)


def _log_density(x: float) -> float:
    return -x * x / 2 - 0.5 * math.log(2 * math.pi)
