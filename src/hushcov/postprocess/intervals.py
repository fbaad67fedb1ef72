"""Intervals for released entries: normal ones, and honest ones after a threshold."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray

_STEPS = 60
_REACH = 12.0  # standard deviations within which the ends of an interval are looked for


def sampling_sd(
    covariance: FloatArray, variances: tuple[FloatArray, FloatArray], n_records: float
) -> FloatArray:
    """Standard deviation of entries of an empirical covariance of Gaussian records.

    `variances` are those of the two features of each entry.
    """
    one, other = (np.sqrt(np.maximum(variance, 0.0)) for variance in variances)
    return np.asarray(np.hypot(one * other, covariance) / math.sqrt(n_records))


def normal_interval(
    estimate: FloatArray, deviation: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of the usual interval around a normal estimate."""
    reach = float(special.ndtri(0.5 + level / 2)) * deviation
    return estimate - reach, estimate + reach


def thresholded_interval(
    estimate: FloatArray, deviation: FloatArray, threshold: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval for entries that are shown because they exceed a threshold.

    Showing only large estimates favours those that noise made larger. The interval is therefore
    the set of true values for which the estimate is not extreme among normal estimates beyond
    the threshold: it covers with probability `level` given that the entry is shown. An estimate
    within a few hundredths of a standard deviation of the threshold lies outside its interval,
    which then is closer to zero.
    """
    size, sign = np.abs(estimate), np.sign(estimate)
    tail = (1 - level) / 2
    low = _solve(size, deviation, threshold, 1 - tail)
    high = _solve(size, deviation, threshold, tail)
    return np.where(sign < 0, -high, low), np.where(sign < 0, -low, high)


def _solve(
    size: FloatArray, deviation: FloatArray, threshold: FloatArray, probability: float
) -> FloatArray:
    """The true value at which an estimate is at most `size` with this probability."""
    # An estimate just beyond the threshold may be that of any value down to one on the other side.
    high = size + _REACH * deviation
    low = -high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        above = _below(size, middle, deviation, threshold) > probability
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)


def _below(
    size: FloatArray, mean: FloatArray, deviation: FloatArray, threshold: FloatArray
) -> FloatArray:
    """P(estimate <= size | |estimate| > threshold) for a normal estimate; size > threshold.

    By tails, so that it stays accurate where both the condition and the event are rare.
    """
    negative = special.log_ndtr((-threshold - mean) / deviation)
    positive = special.log_ndtr((mean - threshold) / deviation)
    beyond = special.log_ndtr((mean - size) / deviation)
    return 1 - np.exp(np.minimum(beyond - np.logaddexp(negative, positive), 0.0))


def detection_deviation(noise_sd: float, n_records: int) -> float:
    """Noise and sampling error of a pair without covariance, in units of its scales."""
    return math.hypot(noise_sd, 1 / math.sqrt(n_records))
