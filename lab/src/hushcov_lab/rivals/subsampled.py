"""The noise of DP-SGD: Gaussian steps, each of which sees a random sample of the records.

The losses of all steps are composed by Fourier transforms, as in the accountants of Opacus and
dp-accounting. A record is in the sample of a step with probability `rate`, moves its sum by at most
1, and is added or removed. One Gaussian mechanism may stand beside the steps.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from hushcov._arrays import FloatArray
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import ParameterError
from hushcov.kernel.accounting import WITHIN
from hushcov_lab.pld import FFT_DELTA_PER_STEP

_CELL = 0.05  # of the grid, in deviations of one step's loss: the total's rises by 3 in 10,000
_CUT = 1e-3  # share of delta that losses beyond the grid may have
_FARTHEST = 64.0  # end of the largest grid, in epsilon
_LARGEST_NOISE = 1e6
_CLOSE = 1e-4  # relative error of the noise, which is rounded up
_LARGEST_EXPONENT = 600.0  # exp of it is finite
_CHERNOFF = np.geomspace(0.5, 500, 40)  # exponents, over the end of the grid


def bound_delta(
    epsilon: float, delta: float, *, noise: float, rate: float, steps: int, beside: float = 0.0
) -> float:
    """Return a delta at which all steps together are (epsilon, delta), rounded up.

    Parameters
    ----------
    epsilon : float
    delta : float
        About the value sought, which sets how far the grid reaches.
    noise : float
        Standard deviation of the noise of a step.
    rate : float
        Probability of a record to be in the sample of a step.
    steps : int
    beside : float
        The mu of the Gaussian mechanism beside the steps.
    """
    interval = _CELL * calibrate_gaussian(epsilon, delta) / math.sqrt(steps + 1)
    found = []
    for adds in (False, True):
        end = 2 * epsilon
        while True:
            losses = grid(interval, end)
            parts = [(step_masses(losses, noise, rate, adds), steps)]
            if beside > 0:
                parts.append((step_masses(losses, 1 / beside, 1.0, adds), 1))
            beyond = _beyond(losses, parts)
            if beyond <= _CUT * delta or end >= _FARTHEST * epsilon:
                break
            end *= 2
        over = losses > epsilon
        masses = _compose(parts)[over]
        found.append(beyond - float(masses @ np.expm1(epsilon - losses[over])))
    return max(found) + FFT_DELTA_PER_STEP * (steps + 1)


@lru_cache(maxsize=1024)
def calibrate_steps(
    epsilon: float, delta: float, rate: float, steps: int, beside: float = 0.0
) -> float:
    """Return the least noise at which all steps together are (epsilon, delta), rounded up."""
    unsafe, safe = 1e-3, _LARGEST_NOISE
    while safe / unsafe > 1 + _CLOSE:
        middle = math.sqrt(unsafe * safe)
        spent = bound_delta(epsilon, delta, noise=middle, rate=rate, steps=steps, beside=beside)
        if spent <= delta * WITHIN:
            safe = middle
        else:
            unsafe = middle
    if safe == _LARGEST_NOISE:
        raise ParameterError(
            f"no noise makes these steps ({epsilon:g}, {delta:g}): what is beside them, of mu "
            f"{beside:.3g}, has spent as much."
        )
    return safe


def grid(interval: float, end: float) -> FloatArray:
    """Return multiples of the interval about zero, a power of two of them, to `end` or beyond."""
    half = 1 << math.ceil(math.log2(end / interval))
    return interval * np.arange(-half, half, dtype=np.float64)


def step_masses(losses: FloatArray, noise: float, rate: float, adds: bool) -> FloatArray:
    """Return the law of the loss of one step on a grid; what exceeds the grid is missing.

    P is the law of the output and Q that without the record, or with it where it `adds`. The mass
    of each cell is moved to its ends so that the mean of exp(-loss) stays. The delta of a
    composition is a mean of convex functions of exp(-loss) of one step: it cannot fall.
    """
    # Outputs, over the noise, at which the loss of removing the record is at a point of the grid.
    edges = -losses[::-1] if adds else losses
    with np.errstate(divide="ignore"):
        ratio = np.exp(np.minimum(edges, _LARGEST_EXPONENT)) - (1 - rate)
        log_ratio = np.log(np.maximum(ratio, 0.0)) + np.maximum(edges - _LARGEST_EXPONENT, 0.0)
    outputs = noise * (log_ratio - math.log(rate)) + 0.5 / noise
    without = _cells(outputs)
    sampled = (1 - rate) * without + rate * _cells(outputs - 1 / noise)
    p, q = (without[::-1], sampled[::-1]) if adds else (sampled, without)
    # The first of these cells is below the grid, and the last above it.
    scaled = q[1:-1] * np.exp(np.minimum(losses[:-1], _LARGEST_EXPONENT))
    upper = np.clip((p[1:-1] - scaled) / -np.expm1(losses[:-1] - losses[1:]), 0.0, p[1:-1])
    masses = np.zeros(len(losses))
    masses[0] = p[0]
    masses[:-1] += p[1:-1] - upper
    masses[1:] += upper
    return masses


def _cells(edges: FloatArray) -> FloatArray:
    """Return the normal law's masses below, between and above ascending edges."""
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.where(edges[:-1] > 0, -np.diff(ndtr(-edges)), np.diff(ndtr(edges)))


_Parts = list[tuple[FloatArray, int]]


def _compose(parts: _Parts) -> FloatArray:
    """Return the law of the sum; sums beyond one end of the grid come out at the other."""
    transform = math.prod(np.fft.rfft(np.fft.ifftshift(law)) ** times for law, times in parts)
    total = np.fft.irfft(transform, len(parts[0][0]))
    return np.maximum(np.fft.fftshift(total), 0.0)


def _beyond(losses: FloatArray, parts: _Parts) -> float:
    """Bound the probability that a loss, or their sum, is above the grid; the sum by Chernoff."""
    missing = sum(times * max(0.0, 1 - float(law.sum())) for law, times in parts)
    end = -losses[0]
    logs = [
        sum(times * math.log(law @ np.exp(t / end * losses)) for law, times in parts) - t
        for t in _CHERNOFF
    ]
    return missing + math.exp(min(0.0, *logs))
