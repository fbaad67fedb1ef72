"""Published private methods for principal components, as rivals of a release of the covariance.

They are for measurements on public or simulated records: noise comes from a NumPy generator, so
that nothing here may be released. What each one spends is certified all the same.

Records are units: an array of shape (n, rows, d), where unit i is the matrix A_i, the sum of x x'
over its rows. With one row per unit these are records as usual. Methods look for the first
eigenvectors of the mean of the A_i; means of rows are taken to be zero.

Privacy
-------
Neighbours: one unit is added or removed. Every function states what it spends; sums of Gaussian
steps compose exactly, since their mu add up in squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IntArray
from hushcov.calibration import calibrate_gaussian

_PER_OCTAVE, _LOWEST, _HIGHEST = 4, -60, 60  # bins of sizes: quarters of octaves
_BOUND_SHARE = 0.05  # of the budget, for a bound that is not told
_KEPT = 0.9  # of the units are shorter than a bound that is not told
_EVIDENCE = 3.0  # deviations of noise that a count must exceed


@dataclass(frozen=True)
class LengthBounds:
    """Public bounds: the norm of a row of a unit, and of its projection on any k directions.

    `norm` squared bounds the Frobenius norm of every A_i.
    """

    norm: float
    projection: float


def found_bound(sizes: FloatArray, mu: float, generator: np.random.Generator) -> float:
    """Return a size that about nine of ten are below, by noisy counts; it spends a Gaussian of mu.

    A unit adds 1 to one count.
    """
    logs = np.log2(np.maximum(sizes, 2.0**_LOWEST))
    bins = np.clip(np.ceil((logs - _LOWEST) * _PER_OCTAVE), 0, (_HIGHEST - _LOWEST) * _PER_OCTAVE)
    counts = np.bincount(bins.astype(int), minlength=(_HIGHEST - _LOWEST) * _PER_OCTAVE + 1)
    noisy = counts + generator.standard_normal(len(counts)) / mu
    noisy[noisy < _EVIDENCE / mu] = 0.0
    above = np.searchsorted(np.cumsum(noisy), _KEPT * noisy.sum())
    return float(2.0 ** (_LOWEST + above / _PER_OCTAVE))


def _shares(mu: float, bound: object) -> tuple[float, float]:
    """Divide a budget between a bound, where none is told, and what it bounds."""
    share = 0.0 if bound is not None else _BOUND_SHARE
    return mu * math.sqrt(share), mu * math.sqrt(1 - share)


def _shrink(sizes: FloatArray, bound: float) -> FloatArray:
    """Return the factors that bring sizes down to a bound."""
    return np.asarray(np.minimum(1.0, bound / np.maximum(sizes, 1e-300)))


def _grams(units: FloatArray) -> FloatArray:
    """Inner products of the rows of each unit."""
    return np.asarray(np.einsum("nad,nbd->nab", units, units, optimize=True))


def clipped_moments(units: FloatArray, norm: float) -> FloatArray:
    """Sum the A_i, each scaled down to a Frobenius norm of `norm` squared.

    Adding a unit moves the sum by at most that, in Frobenius norm.
    """
    weights = _shrink(np.linalg.norm(_grams(units), axis=(1, 2)), norm**2)
    rows = (units * np.sqrt(weights)[:, None, None]).reshape(-1, units.shape[2])
    return np.asarray(rows.T @ rows)


def analyze_gauss(
    units: FloatArray,
    k: int,
    budget: tuple[float, float],
    bounds: LengthBounds | None,
    generator: np.random.Generator,
) -> FloatArray:
    """Return eigenvectors of the noisy sum of the A_i (Dwork, Talwar, Thakurta and Zhang 2014).

    Noise has the same law in all directions of symmetric matrices by Frobenius norm. It spends one
    Gaussian, and one for a bound on norms where none is told.
    """
    mu_bound, mu = _shares(calibrate_gaussian(*budget), bounds)
    if bounds is None:
        sizes = np.sqrt(np.linalg.norm(_grams(units), axis=(1, 2)))
        norm = found_bound(sizes, mu_bound, generator)
    else:
        norm = bounds.norm
    return top_eigenvectors(noisy_moments(units, norm, mu, generator), k)


def noisy_moments(
    units: FloatArray, norm: float, mu: float, generator: np.random.Generator
) -> FloatArray:
    """Sum the A_i with symmetric noise; it spends a Gaussian of mu.

    Deviations are norm^2 / mu on the diagonal, and smaller by sqrt(2) beside it, where each entry
    is there twice.
    """
    drawn = norm**2 / mu * generator.standard_normal((units.shape[2],) * 2)
    return np.asarray(clipped_moments(units, norm) + (drawn + drawn.T) / 2)


def top_eigenvectors(matrix: FloatArray, k: int) -> FloatArray:
    """Return the eigenvectors of the k largest eigenvalues, as columns."""
    return np.asarray(np.linalg.eigh(matrix)[1][:, ::-1][:, :k])


def clipped_products(units: FloatArray, directions: FloatArray, bound: float) -> FloatArray:
    """Sum A_i Q over the units, each scaled down to a Frobenius norm of `bound`."""
    along = units @ directions
    weights = _shrink(_product_sizes(units, along), bound)
    return np.asarray(
        np.einsum("nad,nak->dk", units, along * weights[:, None, None], optimize=True)
    )


def noisy_products(
    units: FloatArray,
    directions: FloatArray,
    bound: float,
    mu: float,
    generator: np.random.Generator,
) -> FloatArray:
    """Sum A_i Q with noise; it spends a Gaussian of mu."""
    product = clipped_products(units, directions, bound)
    return product + bound / mu * generator.standard_normal(product.shape)


def _product_sizes(units: FloatArray, along: FloatArray) -> FloatArray:
    """Frobenius norms of A_i Q, where `along` are the rows of units times Q."""
    squares = np.einsum("nab,nak,nbk->n", _grams(units), along, along, optimize=True)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def noisy_power_method(
    units: FloatArray,
    k: int,
    budget: tuple[float, float],
    bounds: LengthBounds | None,
    generator: np.random.Generator,
    steps: int = 3,
) -> FloatArray:
    """Multiply by the sum of the A_i with noise, and orthonormalise (Hardt and Price 2014).

    A unit moves a product by at most the norm times the projection. It spends `steps` equal
    Gaussians, each with its own bound where none is told.
    """
    mu_bound, mu = _shares(calibrate_gaussian(*budget) / math.sqrt(steps), bounds)
    found = np.linalg.qr(generator.standard_normal((units.shape[2], k)))[0]
    for _ in range(steps):
        if bounds is None:
            bound = found_bound(_product_sizes(units, units @ found), mu_bound, generator)
        else:
            bound = bounds.norm * bounds.projection
        found = np.linalg.qr(noisy_products(units, found, bound, mu, generator))[0]
    return np.asarray(found)


# k-DP-PCA. Shares of the budget of the part of a batch that the mean is taken of.
_BINS, _COUNT = 0.3, 0.05
_SPURIOUS = 0.1  # of delta: that a bin shows which one record alone is in
_BIN_WIDTH = 2.0  # bins of a coordinate, in deviations of the direction that varies most
_HALF = 1.5  # bins: how far from the middle of the fullest one values may be
_GROUPS = 48


def k_dp_pca(
    units: FloatArray,
    k: int,
    budget: tuple[float, float],
    bounds: LengthBounds | None,
    generator: np.random.Generator,
    steps: int = 4,
) -> FloatArray:
    """Return components one after the other by Oja's iteration with private means of gradients.

    After the description of Duengler and Sanyal (arXiv 2508.10879), which builds on Liu, Kong, Jain
    and Oh (2205.13709). Each unit belongs, at random, to one component, step and half of a batch,
    so that every part has the whole budget. The first half tells how much gradients A_i w vary in
    any direction: a private histogram of the largest eigenvalues of groups. The second half finds
    each coordinate's fullest bin of that width, and takes a noisy mean of values near it. No bound
    is needed, and none is used. Constants are guessed, and smaller than those of the proofs.
    """
    d, n = units.shape[2], len(units)
    part = generator.integers(2 * k * steps, size=n)
    found = np.zeros((d, 0))
    for component in range(k):
        w = _away(found, generator.standard_normal((d,)))
        for step in range(steps):
            first = 2 * (component * steps + step)
            spread = largest_variance(
                _gradients(units[part == first], w, found), budget[0], generator
            )
            mean = private_mean(
                _gradients(units[part == first + 1], w, found), spread, budget, generator
            )
            size = float(np.linalg.norm(mean)) or 1.0
            # Large steps at first, as of a power method; then gradients are averaged.
            kept = max(0, step + 1 - (steps + 1) // 2)
            w = _away(found, kept * w + mean / size)
        found = np.column_stack([found, w])
    return found


def _away(found: FloatArray, vector: FloatArray) -> FloatArray:
    """Return the direction of a vector beside those found."""
    for _ in range(2):
        vector = vector - found @ (found.T @ vector)
    return np.asarray(vector / (float(np.linalg.norm(vector)) or 1.0))


def _gradients(units: FloatArray, w: FloatArray, found: FloatArray) -> FloatArray:
    along = units @ w
    gradients = np.einsum("nad,na->nd", units, along, optimize=True)
    return np.asarray(gradients - (gradients @ found) @ found.T)


def largest_variance(vectors: FloatArray, epsilon: float, generator: np.random.Generator) -> float:
    """Return about the largest eigenvalue of a covariance; it spends a pure epsilon.

    Vectors belong to groups at random. One of them changes one group, so that the count of no bin
    moves by more than 1, and the fullest bin is chosen by Gumbel noise.
    """
    counts = variance_counts(vectors, generator.integers(_GROUPS, size=len(vectors)))
    return float(2.0 ** (_LOWEST + fullest_bin(counts, epsilon, generator) / 2))


def fullest_bin(counts: FloatArray, epsilon: float, generator: np.random.Generator) -> int:
    """Choose about the largest count, where one moves by at most 1; it spends a pure epsilon."""
    return int(np.argmax(counts + generator.gumbel(size=len(counts)) * 2 / epsilon))


def variance_counts(vectors: FloatArray, groups: IntArray) -> FloatArray:
    """Count groups by the largest eigenvalue of their covariances, in half octaves."""
    counts = np.zeros((_HIGHEST - _LOWEST) * 2 + 1)
    for group in range(_GROUPS):
        inside = vectors[groups == group]
        if len(inside) > 1:
            centred = inside - inside.mean(axis=0)
            top = float(np.linalg.eigvalsh(centred @ centred.T)[-1]) / (len(inside) - 1)
            place = math.ceil((math.log2(max(top, 2.0**_LOWEST)) - _LOWEST) * 2)
            counts[min(place, len(counts) - 1)] += 1
    return counts


def private_mean(
    vectors: FloatArray,
    variance: float,
    budget: tuple[float, float],
    generator: np.random.Generator,
) -> FloatArray:
    """Return a noisy mean of vectors that lie near each other in every coordinate.

    Privacy. Counts of bins, of all coordinates together, move by at most sqrt(d), the number by 1,
    and the sum of what is near the fullest bins by `_HALF` bins times sqrt(d): three Gaussians. Of
    bins that one vector alone is in, a coordinate has one at most, and any shows with a probability
    of at most `_SPURIOUS` delta, which is taken off delta beforehand.
    """
    epsilon, delta = budget
    n, d = vectors.shape
    mu = calibrate_gaussian(epsilon, (1 - _SPURIOUS) * delta)
    width = _BIN_WIDTH * math.sqrt(variance)
    deviation = math.sqrt(d) / (mu * math.sqrt(_BINS))
    shown = 1 - deviation * float(special.ndtri(_SPURIOUS * delta / d))
    places = np.floor(vectors / width)
    middle = np.zeros(d)
    for j in range(d):
        values, counts = np.unique(places[:, j], return_counts=True)
        noisy = counts + deviation * generator.standard_normal(len(counts))
        if len(noisy) and noisy.max() > shown:
            middle[j] = (values[noisy.argmax()] + 0.5) * width
    count = n + generator.standard_normal() / (mu * math.sqrt(_COUNT))
    moved = _HALF * width * math.sqrt(d) / (mu * math.sqrt(1 - _BINS - _COUNT))
    noisy = near_sum(vectors, middle, width) + moved * generator.standard_normal(d)
    return np.asarray(middle + noisy / max(count, 1.0))


def near_sum(vectors: FloatArray, middle: FloatArray, width: float) -> FloatArray:
    """Sum what vectors have beyond the middle, each coordinate at most `_HALF` bins away."""
    return np.asarray(np.clip(vectors - middle, -_HALF * width, _HALF * width).sum(axis=0))


# Spiked models, bounds that hold for them, and what errors are.


def spiked_units(
    model: str,
    n: int,
    basis: FloatArray,
    spikes: FloatArray,
    sigma: float,
    generator: np.random.Generator,
) -> FloatArray:
    """Draw units of a spiked model: "normal" or "fixed".

    "normal": one row, normal with covariance V diag(spikes) V' + sigma^2 I. "fixed": a row for
    each spike, sqrt(spike) times its direction with a random sign, and normal noise of deviation
    sigma: the A_i differ by the noise alone.
    """
    d, k = basis.shape
    rows = {"normal": 1, "fixed": k}[model]
    units = sigma * generator.standard_normal((n, rows, d))
    if model == "normal":
        units[:, 0] += (generator.standard_normal((n, k)) * np.sqrt(spikes)) @ basis.T
    else:
        signs: IntArray = generator.choice([-1, 1], size=(n, k))
        units += (signs * np.sqrt(spikes))[:, :, None] * basis.T
    return np.asarray(units)


def spiked_bounds(
    model: str, n: int, d: int, spikes: FloatArray, sigma: float, miss: float = 0.05
) -> LengthBounds:
    """Return bounds that all n units keep but with a probability of about `miss`."""
    t = math.log(n / miss)
    if model == "fixed":
        far = sigma * (math.sqrt(d) + math.sqrt(2 * t))
        rows = np.sqrt(spikes) + far
        across = far * float(rows.sum()) * math.sqrt(2.0)  # products of two rows
        norm = math.sqrt(math.hypot(float(np.linalg.norm(rows**2)), across))
        return LengthBounds(norm, norm)

    def longest(variances: FloatArray) -> float:  # Chernoff's bound, at its best rate
        rates = np.linspace(0.01, 0.99, 99) / (2 * float(variances.max()))
        moments = -np.log1p(-2 * np.multiply.outer(rates, variances)).sum(axis=1) / 2
        return math.sqrt(float(((t + moments) / rates).min()))

    others = np.full(d - len(spikes), sigma**2)
    return LengthBounds(
        longest(np.concatenate([spikes + sigma**2, others])), longest(spikes + sigma**2)
    )


def subspace_error(found: FloatArray, basis: FloatArray) -> float:
    """Return |U U' - V V'| in Frobenius norm over its largest value, sqrt(2 k): from 0 to 1."""
    k = basis.shape[1]
    inside = float(np.linalg.norm(found.T @ basis)) ** 2
    if k - inside > 1e-6 * k:
        return math.sqrt(max(0.0, 1 - inside / k))
    return float(np.linalg.norm(basis - found @ (found.T @ basis))) / math.sqrt(k)


def lost_share(found: FloatArray, basis: FloatArray, spikes: FloatArray, sigma: float) -> float:
    """Return which part of the variance of the best directions was not captured."""
    best = float(spikes.sum()) + len(spikes) * sigma**2
    captured = float(((found.T @ basis) ** 2 @ spikes).sum()) + found.shape[1] * sigma**2
    return float(1 - captured / best)
