"""Gate probabilities by integrating over the gate noise.

The sampler's kernels integrate over the random threshold with the noise integrated out. Here it is
the other way round: for a > 0 a test at threshold T fires when T < a / (1 - Z), so every
quantity is an expectation of clip(a / (1 - Z)) over Z alone. Nothing is shared with the kernels.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import integrate, special

from hushcov.mechanisms.multiscale import TheoremParameters

FloatArray = npt.NDArray[np.float64]

_REACH = 12.0  # standard deviations; P(|g| > 12) = 4e-33
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_TERMS = 40  # the moment series converges like (clip^2)^j = 16^-j


class Moments(NamedTuple):
    """Mean and variance of the ideal estimator's entries, given S; and the fourth cumulant."""

    mean: FloatArray
    variance: FloatArray
    fourth_cumulant: FloatArray


def fired_length(a: FloatArray, low: float, high: float, r: float, clip: float) -> FloatArray:
    """int_low^high P(Z > 1 - a/t) dt = E[min(max(a/(1-Z), low), high)] - low, for a >= 0."""
    edge = min(clip / r, _REACH)
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
    if clip / r < _REACH:
        atom = special.ndtr(-clip / r)
        for z in (-clip, clip):
            total += atom * (np.clip(a / (1 - z), low, high) - low)
    return total


def fired_length_by_thresholds(a: float, r: float, clip: float) -> float:
    """int_0^inf P(Z > 1 - a/t) dt for a > 0, integrating over t, in y = (1 - a/t) / r."""
    edge = clip / r
    pieces = [-edge, *(y for y in (-_REACH, 0.0, _REACH) if abs(y) < edge), edge]
    total = a / (1 + clip)  # below this t every test fires
    for start, stop in pairwise(pieces):
        total += integrate.quad(
            lambda y: 0.5 * special.erfc(y / math.sqrt(2)) * a * r / (1 - r * y) ** 2,
            start,
            stop,
            epsabs=0.0 if start < _REACH else 1e-30 * a,
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


def ideal_moments(entries: FloatArray, parameters: TheoremParameters) -> Moments:
    """Cumulants of the ideal estimator at each entry of S, level by level."""
    schedule = parameters.schedule
    size, sign = np.abs(entries), np.sign(entries)
    mean, variance, fourth = np.zeros((3, len(entries)))
    for level in schedule.levels:
        t = level.threshold
        able = size > (1 - schedule.gate_clip) * t
        fired = fired_length(size[able], t, 2 * t, schedule.gate_noise, schedule.gate_clip) / t
        q = np.clip(level.activation * fired, 0.0, 1.0)
        weight = 1 / (schedule.gate_correction * schedule.test_rate * t)
        spread = level.repetitions * q * (1 - q)
        mean[able] += weight * level.repetitions * q
        variance[able] += weight**2 * spread
        fourth[able] += weight**4 * spread * (1 - 6 * q * (1 - q))
    return Moments(sign * mean, variance, fourth)


def mean_formula(entries: FloatArray, parameters: TheoremParameters) -> FloatArray:
    """The paper's conditional mean, (1/kappa) int_{t_0}^{t_L} E psi(S_e/t + Z) dt."""
    schedule, t = parameters.schedule, parameters.thresholds
    size = np.abs(entries)
    able = size > (1 - schedule.gate_clip) * t[0]
    length = np.zeros_like(size)
    length[able] = fired_length(size[able], t[0], t[-1], schedule.gate_noise, schedule.gate_clip)
    return np.asarray(np.sign(entries) * length / schedule.gate_correction)
