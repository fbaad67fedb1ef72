"""Rivals that solve noisy normal equations: AdaSSP, Boosted AdaSSP, iterative Hessian mixing.

All three sum the rows of `bounds.scale_rows`, whose norms are at most 1. One record moves the Gram
matrix by at most 1 in Frobenius norm, its smallest eigenvalue by at most 1, and products with
targets that are clipped at c by at most c. Every part is a Gaussian mechanism: mu^2 adds up.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import chi2

from hushcov._arrays import FloatArray
from hushcov.kernel.accounting import WITHIN
from hushcov_lab.rivals.bounds import ColumnBounds, ScaledRows, scale_rows, total_mu
from hushcov_lab.rivals.coefficients import Coefficients

_UNLIKELY = 0.05  # a Gram matrix may be indefinite this often, as in the publication of AdaSSP
# Shares of the mu^2 that scaling leaves: of the Gram matrix, products, and smallest eigenvalue.
_ADASSP_SHARES = (0.45, 0.45, 0.1)
_BOOSTED_SHARES = (0.3, 0.6, 0.1)
_MIXING_SHARES = (0.4, 0.5, 0.1)
_ADASSP_CLIP, _RESIDUAL_CLIP = 3.0, 1.5  # in deviations of the target
_ROUNDS = 5
_SKETCH_ROWS = 6  # of each sketch, for every unknown
_EIGENVALUE_DELTA = 0.01  # share of delta: the bound on the smallest eigenvalue fails
_MIXING_CELLS = 20_000


def symmetric_noise(n_rows: int, deviation: float, rng: np.random.Generator) -> FloatArray:
    """Draw noise of a symmetric matrix whose Frobenius sensitivity over deviation is mu.

    Off the diagonal its variance is half of that on it: each entry counts twice in the norm.
    """
    drawn = rng.standard_normal((n_rows, n_rows))
    noise: FloatArray = deviation * (drawn + drawn.T) / 2
    return noise


def release_smallest(
    gram: FloatArray, mu: float, failure: float, rng: np.random.Generator
) -> float:
    """Release a bound that the smallest eigenvalue is below with this probability, or zero."""
    smallest = float(np.linalg.eigvalsh(gram)[0])
    return max(0.0, smallest + (float(rng.standard_normal()) + float(ndtri(failure))) / mu)


def release_gram(
    gram: FloatArray, mu: float, eigenvalue_mu: float, rng: np.random.Generator
) -> FloatArray:
    """Release a Gram matrix, with a ridge unless its smallest eigenvalue exceeds the noise.

    The ridge is what the norm of the noise exceeds with a probability of 0.05, less a lower bound
    on the smallest eigenvalue. Wang (2018) has a looser bound on that norm.
    """
    length, deviation = len(gram), 1 / mu
    norm = deviation * (math.sqrt(2 * length) + math.sqrt(-2 * math.log(_UNLIKELY)))
    ridge = max(0.0, norm - release_smallest(gram, eigenvalue_mu, _UNLIKELY, rng))
    released: FloatArray = gram + symmetric_noise(length, deviation, rng) + ridge * np.eye(length)
    return released


def release_products(
    rows: FloatArray, target: FloatArray, clip: float, mu: float, rng: np.random.Generator
) -> FloatArray:
    """Release the products of rows, of norm at most 1, and targets that are clipped."""
    products = rows.T @ np.clip(target, -clip, clip)
    noise: FloatArray = rng.standard_normal(len(products)) * (clip / mu)
    return products + noise


def divide(mu: float, shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the mu of parts that have these shares of mu^2."""
    return tuple(mu * math.sqrt(share) for share in shares)


def fit_adassp(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
) -> Coefficients:
    """Fit AdaSSP (Wang 2018, Algorithm 2): least squares from noisy sufficient statistics.

    Privacy
    -------
    (epsilon, delta) for one record added or removed: Gaussian steps, whose mu^2 add up to that of
    one Gaussian mechanism. The publication divides epsilon and delta by three, bounds each part by
    sqrt(log(6/delta)), and takes bounds on the norm of x and on y as public.
    """
    scaled = scale_rows(X, y, bounds, total_mu(epsilon, delta), rng)
    of_gram, of_products, of_eigenvalue = divide(scaled.scaling.mu_left, _ADASSP_SHARES)
    gram = release_gram(scaled.rows.T @ scaled.rows, of_gram, of_eigenvalue, rng)
    products = release_products(scaled.rows, scaled.target, _ADASSP_CLIP, of_products, rng)
    return scaled.to_coefficients(np.asarray(np.linalg.solve(gram, products), dtype=np.float64))


def fit_boosted(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
) -> Coefficients:
    """Fit Boosted AdaSSP (Tang et al. 2023): AdaSSP again and again on clipped residuals.

    The Gram matrix is released once. Five rounds did better than the hundred of the publication.

    Privacy
    -------
    As AdaSSP; rounds share their part equally. The published code takes for the deviation of the
    noise the mu that it computes, in place of 1/mu, and does not divide it among the parts.
    """
    scaled = scale_rows(X, y, bounds, total_mu(epsilon, delta), rng)
    of_gram, of_rounds, of_eigenvalue = divide(scaled.scaling.mu_left, _BOOSTED_SHARES)
    gram = release_gram(scaled.rows.T @ scaled.rows, of_gram, of_eigenvalue, rng)
    return scaled.to_coefficients(_refine(scaled, [gram] * _ROUNDS, of_rounds, rng))


def _refine(
    scaled: ScaledRows, hessians: list[FloatArray], mu: float, rng: np.random.Generator
) -> FloatArray:
    """Take a Newton step with each Hessian, from clipped residuals."""
    solution = np.zeros(scaled.rows.shape[1])
    mu /= math.sqrt(len(hessians))
    for hessian in hessians:
        residual = scaled.target - scaled.rows @ solution
        products = release_products(scaled.rows, residual, _RESIDUAL_CLIP, mu, rng)
        solution += np.linalg.solve(hessian, products)
    return solution


def fit_mixing(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
) -> Coefficients:
    """Fit by iterative Hessian mixing (Lev et al. 2026): Newton steps with sketched Hessians.

    A sketch of rows X is G X + s N with Gaussian G and N: independent rows from a normal law with
    covariance X'X + s^2, which is how they are drawn. s^2 is what a private lower bound on the
    smallest eigenvalue of X'X leaves to be added up to `mixing_level`.

    Privacy
    -------
    (epsilon, delta) for one record added or removed: Gaussian steps, with the sketches by
    `mixing_delta`, but for the probability that the eigenvalue's bound fails. The publication
    composes Renyi bounds with halves of epsilon and delta, and normalises features and the target
    by their own means, deviations and maxima, which is not private.
    """
    mu = total_mu(epsilon, delta)
    scaled = scale_rows(X, y, bounds, mu, rng)
    left = scaled.scaling.mu_left
    of_sketches, of_steps, of_eigenvalue = divide(left, _MIXING_SHARES)
    gram = scaled.rows.T @ scaled.rows
    length = len(gram)
    failure = _EIGENVALUE_DELTA * delta
    n_rows = math.ceil(_SKETCH_ROWS * max(length, math.log(40 * _ROUNDS / delta)))
    other = math.sqrt(mu**2 - of_sketches**2)
    level = mixing_level(epsilon, delta - failure, other, _ROUNDS * n_rows)
    added = max(0.0, level - release_smallest(gram, of_eigenvalue, failure, rng))
    root = np.linalg.cholesky(gram + added * np.eye(length))
    hessians = []
    for _ in range(_ROUNDS):
        sketch = rng.standard_normal((n_rows, length)) @ root.T
        hessians.append(sketch.T @ sketch / n_rows)
    return scaled.to_coefficients(_refine(scaled, hessians, of_steps, rng))


def mixing_delta(epsilon: float, delta: float, mu: float, n_rows: int, level: float) -> float:
    """Bound the delta of sketches with `n_rows` rows in all, beside Gaussian steps of this mu.

    One record with a row of norm at most 1 changes the covariance of a sketch's rows by a matrix of
    rank one. Where the eigenvalues of the larger covariance are at least `level`, the variance in
    that direction falls by at most the factor 1 - 1/level when the record is removed, and nothing
    changes in others. A smaller change is the same with noise added to both, so that the largest is
    the worst. The loss of `n_rows` normal values is linear in a chi-square variable, in both
    directions, and that of the Gaussian steps is normal and independent: delta is an integral over
    the one, which is bounded from above on cells. `delta` sets how far into the tails they reach.
    """
    edges, masses, beyond = _chi_square_cells(n_rows, delta)
    variance = 1 - 1 / level
    constant = n_rows / 2 * math.log(variance)
    removed = constant + edges[1:] * (1 / variance - 1) / 2
    added = -constant - edges[:-1] * (1 - variance) / 2
    found = max(float(masses @ _gaussian_deltas(mu, epsilon - loss)) for loss in (removed, added))
    return found + beyond


@lru_cache(maxsize=64)
def _chi_square_cells(n_rows: int, delta: float) -> tuple[FloatArray, FloatArray, float]:
    """Return edges of cells, their probabilities, and that of being outside of all."""
    law, tail = chi2(n_rows), 1e-4 * delta
    edges = np.linspace(law.ppf(tail), law.isf(tail), _MIXING_CELLS + 1)
    masses = np.where(edges[:-1] > n_rows, -np.diff(law.sf(edges)), np.diff(law.cdf(edges)))
    return edges, masses, 2 * tail


def _gaussian_deltas(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return the Gaussian curve, for negative epsilon too; rounded up."""
    likely = ndtr(mu / 2 - epsilon / mu)
    other = np.exp(np.minimum(0, epsilon + log_ndtr(-mu / 2 - epsilon / mu)))
    curve: FloatArray = np.clip(likely * (1 + 1e-11) - other, 0, 1)
    return curve


@lru_cache(maxsize=256)
def mixing_level(epsilon: float, delta: float, mu: float, n_rows: int) -> float:
    """Return the smallest eigenvalue that makes sketches (epsilon, delta), with mu beside them."""
    unsafe, safe = 1 + 1e-9, 1e12
    while safe / unsafe > 1 + 1e-4:
        middle = math.sqrt(safe * unsafe)
        if mixing_delta(epsilon, delta, mu, n_rows, middle) <= delta * WITHIN:
            safe = middle
        else:
            unsafe = middle
    return safe
