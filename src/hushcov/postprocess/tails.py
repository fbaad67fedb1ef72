"""Estimates of what lies beyond a bound, from noisy counts, and of the error of a release.

A generalized Pareto tail is fitted to the last counts, and everything is averaged over the fits
that are about as good. So what the counts do not tell is part of the answer's deviation.

The error of an estimate is the norm of the difference between the correlation matrices, in standard
deviations of the features, over the norm of that of the table. Noise and what is hidden below it
are known; what bounds took off long tails is guessed. Features that do not vary, or that were not
found, are left out of both. The constants are fitted to tables of many kinds by
`benchmarks/studies/error_estimate.py`.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, Matrix
from hushcov.postprocess.matrices import is_sparse
from hushcov.postprocess.structure import largest_of

# Shapes and scales (in units of where the tail begins) that are tried.
_SHAPES = np.linspace(-0.3, 0.9, 25)
_SCALES = np.exp2(np.arange(-24, 17) / 8)


@dataclass(frozen=True)
class TailRules:
    """Tails that are fitted, and weights of the parts of an error.

    All are fitted to tables of many kinds by `benchmarks/studies/error_estimate.py`.
    """

    # Deviations of noise that the counts of a tail add up to, tried in this order until the squared
    # residuals over their number are small enough.
    depths: tuple[float, ...] = (60.0, 40.0, 20.0)
    most_misfit: float = 1.5
    # Share of the mass that a tail has at most.
    largest_tail: float = 0.4
    # Deviations at which a count ends the range, and is counted in its body.
    seen: float = 4.0
    counted: float = 1.0
    # Weight of sampling errors, and error for each of what records lie farther out than normal
    # ones.
    sampling: float = 0.023
    long_records: float = 0.13
    # Chance correlations of the table that a threshold takes away count where features are few for
    # the records; where they are many, nobody wants them back.
    few_features: float = 20.0
    # Half the width of an interval, as a logarithm: it covers nine times out of ten.
    half_width: float = 0.89
    # Deviations of noise that a variance counts with at least.
    least_variance: float = 3.0


RULES = TailRules()


@dataclass(frozen=True, eq=False)
class _Fits:
    """Every tail that was tried: its mass, its likelihood, and the squared misfit of the best."""

    start: float
    body: float
    mass: FloatArray
    weight: FloatArray
    misfit: float

    def excess(self, bound: float) -> FloatArray:
        """Return the sum of what lies beyond a bound, for every tail."""
        far = max(bound / self.start - 1, 0.0)
        shape, scale = _SHAPES[None, :], _SCALES[:, None]
        beyond = np.maximum(scale + shape * far, 0.0) / (1 - shape)
        return self.mass * self.start * _survival(np.array([far]))[..., 0] * beyond


def lost_beyond(
    counts: FloatArray, sigma: float, edges: FloatArray, middle: FloatArray, bound: float
) -> tuple[float, float]:
    """Return which share of a total lies beyond a bound on each summand, and the deviation of that.

    `counts` are noisy numbers of summands between successive `edges`, with noise of deviation
    `sigma`, and `middle` is about the mean of each bin. Summands are cut to the size of `bound`.
    """
    ends = np.flatnonzero(counts > RULES.seen * sigma)
    if not len(ends) or not np.any(edges <= bound):
        return 0.0, 0.0
    mass = np.where(counts > RULES.counted * sigma, counts, 0.0)
    mass[ends[-1] + 1 :] = 0.0
    fits = [_fit(counts, sigma, edges, (mass, middle), RULES.depths[0])]
    for depth in RULES.depths[1:]:
        if fits[-1].misfit > RULES.most_misfit:
            fits.append(_fit(counts, sigma, edges, (mass, middle), depth))
    chosen = min(fits, key=lambda fit: max(fit.misfit, RULES.most_misfit))
    lost = chosen.excess(bound)
    total = chosen.body + chosen.mass * chosen.start + chosen.excess(0.0)
    share = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)  # 0 for noise alone
    mean = float(np.sum(chosen.weight * share))
    return mean, float(np.sqrt(np.sum(chosen.weight * (share - mean) ** 2)))


def _fit(
    counts: FloatArray,
    sigma: float,
    edges: FloatArray,
    seen: tuple[FloatArray, FloatArray],
    depth: float,
) -> _Fits:
    """Return all tails beyond the edge after which the counts add up to `depth` deviations."""
    mass, middle = seen
    total = float(mass.sum())
    share = np.cumsum(mass) / total
    last = int(np.flatnonzero(mass)[-1])
    first = int(np.searchsorted(share, max(1 - RULES.largest_tail, 1 - depth * sigma / total)))
    first = max(1, min(first, last, len(edges) - 1))
    start = float(edges[first - 1])
    survival = _survival(np.concatenate([edges[first - 1 :] / start - 1, [np.inf]]))
    parts = survival[..., :-1] - survival[..., 1:]
    tail = counts[first:]
    precision = 1 / (sigma**2 + np.maximum(tail, 0.0))
    amount = np.sum(parts * precision * tail, axis=-1) / np.sum(parts**2 * precision, axis=-1)
    amount = np.maximum(amount, 0.0)
    cost = np.sum((tail - amount[..., None] * parts) ** 2 * precision, axis=-1)
    misfit = float(cost.min()) / len(tail)
    weight = np.exp(-0.5 * (cost - cost.min()) / max(1.0, misfit))
    body = float(mass[:first] @ middle[:first])
    return _Fits(start, body, amount, weight / weight.sum(), misfit)


def _survival(sizes: FloatArray) -> FloatArray:
    """Return the share of each tail beyond these sizes; scales, shapes and sizes are the axes."""
    scaled = sizes / _SCALES[:, None, None]
    shape = _SHAPES[None, :, None]
    even = np.abs(shape) < 1e-9
    exponent = -1 / np.where(even, 1.0, shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        powers = np.maximum(1 + shape * scaled, 0.0) ** exponent
        found = np.where(even, np.exp(-scaled), powers)
    found[..., np.isinf(sizes)] = 0.0
    return np.asarray(found)


# How far off an estimate is.

#: The error that nothing exceeds: that of zeros is 1, and estimates are hardly ever worse.
LARGEST_ERROR = 1.05


@dataclass(frozen=True)
class KnownErrors:
    """Norms of what a mechanism knows to be wrong, over the norm of its estimate.

    `noise` is that of the noise, `hidden` of what it may hide, and `sampling` of sampling errors.
    """

    noise: float
    hidden: float = 0.0
    sampling: float = 0.0


def estimate_error(
    matrix: Matrix,
    noise_sd: float,
    n_records: int,
    known: KnownErrors,
    *,
    tail: FloatArray | None,
    long: float = 0.0,
    doubt: float = 0.0,
    kept: float = 1.0,
    known_zeros: bool = False,
) -> tuple[float, float, float]:
    """Return an error and the ends of an interval for it.

    `matrix` is the estimate in units of the scales, and `noise_sd` the deviation of the noise of a
    variance. Features whose variance is exactly 0 in `matrix` do not count. `tail` has about the
    logarithm of what each variance is larger by than was released; None where nothing is known of
    tails. `long` is by how much records lie farther out than normal ones, and `doubt` an error that
    counts of norms do not rule out, which the interval includes. The estimate was multiplied by
    `kept`. `known_zeros` says that it was public which pairs are zero.
    """
    variance, d = np.asarray(matrix.diagonal(), dtype=np.float64), matrix.shape[0]
    floored = np.maximum(variance, RULES.least_variance * noise_sd)
    there = np.flatnonzero((variance != 0) & (floored > 0))
    if not len(there):
        return 1.0, 1.0, LARGEST_ERROR
    factors = np.zeros(d)
    factors[there] = 1 / np.sqrt(floored[there])
    own = np.where(factors > 0, 1.0, 0.0) - variance * factors**2

    def correlations(x: FloatArray) -> FloatArray:
        """Multiply by the correlation matrix."""
        return np.asarray(factors * (matrix @ (factors * x)) + own * x)

    if not np.isfinite(correlations(np.ones(d))).all():
        return math.nan, math.nan, math.nan
    norm = largest_of(correlations, d)
    tails = chance = 0.0
    if tail is not None and tail.any():
        root = np.exp(-tail / 2)
        tails = largest_of(lambda x: correlations(x) - root * correlations(root * x), d) / norm
    if is_sparse(matrix) and not known_zeros:
        left_out = (len(there) - int(np.diff(matrix.indptr)[there].min())) / n_records
        chance = (
            2
            * math.sqrt(max(left_out, 0.0))
            * math.exp(-RULES.few_features * max(left_out, 0.0))
            / norm
        )
    sampling, wide = RULES.sampling * known.sampling, math.exp(RULES.half_width)
    error = math.hypot(
        known.noise, known.hidden, sampling, chance, tails, RULES.long_records * long
    )
    ends = error, error / wide, max(error * wide, doubt)
    error, least, most = (1 - kept + kept * each for each in ends)
    return min(1.0, error), min(1.0, least), min(LARGEST_ERROR, most)
