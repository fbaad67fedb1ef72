"""Privacy-loss distributions, composed by Google's dp-accounting: a check of the accountant.

Nothing is certified by them. `docs/proofs/accounting.md`, "A cross-check", has their proof.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.kernel.accounting.events import Parts

# Rounding errors of the Fourier transforms, as an additive delta per composed step. The tests
# measure errors a hundred times smaller against exact sums.
FFT_DELTA_PER_STEP = 1e-14

# Grid points per standard deviation of the total loss: at least so many, and this many times the
# root of the number of steps. Rounding a step to the grid adds at most (interval/2)^2 to its
# variance, so the standard deviation of the whole grows by at most 1 part in 80,000.
_RESOLUTION = 2000.0
_RESOLUTION_PER_ROOT_STEP = 100.0


class LossDistributionCurve:
    """The (epsilon, delta) curve by privacy-loss distributions, rounded up throughout."""

    method = "pld"

    def __init__(self, parts: Parts) -> None:
        _, steps = _spread_and_steps(parts)
        self._fft_delta = FFT_DELTA_PER_STEP * steps
        self._distribution = _compose(parts)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf where it cannot tell."""
        if delta <= self._fft_delta:
            return math.inf
        return float(self._distribution.get_epsilon_for_delta(delta - self._fft_delta))

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""
        return float(self._distribution.get_delta_for_epsilon(epsilon)) + self._fft_delta


def _compose(parts: Parts) -> Any:
    """Return dp-accounting's privacy-loss distribution of the dominating pair."""
    from dp_accounting.pld import privacy_loss_distribution as library

    spread, steps = _spread_and_steps(parts)
    interval = spread / max(_RESOLUTION, _RESOLUTION_PER_ROOT_STEP * math.sqrt(steps))
    total = library.identity(interval)
    if parts.gaussian:
        # The default relation there, add-or-remove, uses the sensitivity as it is given. Its
        # replace-one relation would double mu, which already is the replace-one one.
        total = library.from_gaussian_mechanism(
            1 / parts.gaussian, value_discretization_interval=interval
        )
    groups = [(_pure_masses, group) for group in parts.pure]
    groups += [(_bounded_range_masses, group) for group in parts.bounded_range]
    for masses, (radius, count) in groups:
        cells = math.ceil(radius / interval)
        edges = interval * np.arange(-cells, cells + 1, dtype=np.float64)
        pmf = dict(enumerate(_on_grid(masses(radius, edges), edges), start=-cells))
        step = library.PrivacyLossDistribution.create_from_rounded_probability(pmf, 0.0, interval)
        total = total.compose(step.self_compose(count))
    return total


def _pure_masses(radius: float, edges: FloatArray) -> FloatArray:
    """Return each cell's mass of the loss of randomised response: two atoms."""
    masses = np.zeros(len(edges) - 1)
    masses[-1] = 1 / (1 + math.exp(-radius))
    masses[0] += 1 / (1 + math.exp(radius))
    return masses


def _bounded_range_masses(radius: float, edges: FloatArray) -> FloatArray:
    """Return each cell's mass of the loss of the pair that dominates bounded-range steps."""
    inside = np.clip(edges, -radius, radius)
    weights = np.exp((inside[:-1] - radius) / 2) * np.expm1(np.diff(inside) / 2)
    return weights / -math.expm1(-radius)


def _on_grid(masses: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the law on the edges that dominates the law with these masses in the cells.

    Each cell's mass moves to its two edges such that the mass under both distributions of the
    pair is kept. Under the second one a cell has the mass of its mirror image: both pairs used
    here are symmetric.
    """
    low, high = edges[:-1], edges[1:]
    # (second - first e^-high) / (e^-low - e^-high), with e^-high taken out of both.
    to_low = (masses[::-1] * np.exp(high) - masses) / np.expm1(high - low)
    to_low = np.clip(to_low, 0.0, masses)
    law = np.zeros(len(edges))
    law[:-1] += to_low
    law[1:] += masses - to_low
    return law


def _spread_and_steps(parts: Parts) -> tuple[float, int]:
    """Return a scale for the standard deviation of the total loss, and the number of steps."""
    groups = parts.pure + parts.bounded_range
    spread = math.hypot(parts.gaussian, *(cost * math.sqrt(count) for cost, count in groups))
    return spread, 1 + sum(count for _, count in groups)
