"""Correlations of a Gaussian copula from counts of records on the same side of two medians.

After Wang, Feldman and Reiter, "Differentially Private Bayesian Inference for Gaussian Copula
Correlations" (arXiv 2601.03497). For measurements on public or simulated records alone: noise comes
from a NumPy generator.

With the correlation r, two features lie on the same side of their medians with the probability
1/2 + asin(r) / pi, whatever increasing maps were applied to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import ParameterError

_GRID = 4001  # correlations at which a posterior is computed


@dataclass(frozen=True, eq=False)
class Correlations:
    """Correlations of all pairs, row by row above the diagonal, with intervals of 95 %."""

    values: FloatArray
    lower: FloatArray
    upper: FloatArray


def highs(X: FloatArray, medians: FloatArray | None = None) -> BoolArray:
    """Say which values are in the upper half, by the medians of the sample if None are public.

    Ties are broken by the order of the records, so that all columns have the same number of them.
    """
    if medians is not None:
        return np.asarray(np.asarray(X) > medians)
    ranks = np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(ranks >= len(X) // 2)


def same_sides(high: BoolArray) -> IntArray:
    """Count records on the same side of both medians, for each pair."""
    signs = 2.0 * high - 1.0
    pairs = np.triu_indices(high.shape[1], 1)
    return np.asarray(np.rint((len(high) + (signs.T @ signs)[pairs]) / 2), dtype=np.int64)


def median_split(
    X: FloatArray,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
    medians: FloatArray | None = None,
) -> Correlations:
    """Return posterior means and intervals of the correlations of all pairs.

    With `delta` 0 counts get Laplace noise, epsilon divided among pairs, as published (there it is
    rounded to integers); else Gaussian noise, calibrated for all pairs together. The prior of a
    correlation is that of a matrix drawn uniformly among all correlation matrices; that matrices
    must be positive semi-definite is used for the prior alone, and not for all pairs together.

    Privacy. Neighbours: one record is replaced; the number of records is public. With public
    medians a count moves by at most 1. With those of the sample it moves by at most 2: the count of
    records above both moves by 1, since in each column one other record changes sides at most.
    """
    if not epsilon > 0 or not 0 <= delta < 1:
        raise ParameterError(f"epsilon must be above 0 and delta in [0, 1), got {epsilon, delta}.")
    n, p = np.shape(X)
    counts = same_sides(highs(X, medians))
    deviation, scale = noise_of(len(counts), epsilon, delta, public=medians is not None)
    noisy = with_noise(counts, deviation, scale, generator)
    grid = np.sin(np.linspace(-np.pi / 2, np.pi / 2, _GRID + 2)[1:-1])
    together = 0.5 + np.arcsin(grid) / np.pi
    spread = np.sqrt(n * together * (1 - together) + deviation**2)
    away = noisy[:, None] - n * together
    log_posterior = _log_density(away, spread, scale) + p / 2 * np.log1p(-(grid**2))
    # The prior is Beta(p / 2, p / 2); the grid is even in the arc sine, whose density is a half.
    log_posterior -= np.log1p(-(grid**2)) / 2
    weights = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    below = np.cumsum(weights, axis=1)
    ends = [grid[np.argmax(below >= level, axis=1)] for level in (0.025, 0.975)]
    return Correlations(weights @ grid, *ends)


def noise_of(n_pairs: int, epsilon: float, delta: float, *, public: bool) -> tuple[float, float]:
    """Return the deviation of normal noise and the scale of Laplace noise; one of them is 0."""
    moved = 1 if public else 2
    if delta == 0:
        return 0.0, moved * n_pairs / epsilon
    return moved * math.sqrt(n_pairs) / calibrate_gaussian(epsilon, delta), 0.0


def with_noise(
    counts: IntArray, deviation: float, scale: float, generator: np.random.Generator
) -> FloatArray:
    """Add normal noise and Laplace noise to counts."""
    drawn = deviation * generator.standard_normal(len(counts))
    return np.asarray(counts + drawn + scale * generator.laplace(size=len(counts)))


def _log_density(away: FloatArray, spread: FloatArray, scale: float) -> FloatArray:
    """Return log densities of a normal, plus Laplace noise where it has a scale."""
    z = away / spread
    if scale == 0:
        return np.asarray(-(z**2) / 2 - np.log(spread))
    ratio = spread / scale
    left = -z * ratio + special.log_ndtr(z - ratio)
    right = z * ratio + special.log_ndtr(-z - ratio)
    return np.asarray(ratio**2 / 2 + np.logaddexp(left, right))
