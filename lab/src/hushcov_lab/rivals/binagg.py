"""BinAgg (Lin, Slavkovic and Bhoomireddy 2025): regression on noisy sums of bins."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from hushcov._arrays import FloatArray, IndexArray
from hushcov.calibration import calibrate_gaussian
from hushcov.kernel.accounting import WITHIN, Pure
from hushcov_lab.rivals.bounds import ColumnBounds, release_scaling, standardise, total_mu
from hushcov_lab.rivals.coefficients import Coefficients, RivalSilent

_BINNING_SHARE = 1 / 28  # of mu^2; as published, 1 : 3 : 3 : 3 with the three sums
_REACH = 3.0  # deviations of a column to which its values are clipped
_DEEPEST = 40  # splits of one bin, so that copies of a record come to an end
# Records of a bin that is kept, in deviations of the noise of counts: fewer, as published, where
# there are too few bins. Counts that noise alone has raised bias the coefficients.
_FEWEST, _PUBLISHED_FEWEST = 5.0, 2.0
_COVERAGE = 0.95
_CERTAIN = 2.0  # sums must vary this many times as much as their noise for it to be corrected for


class Bins(NamedTuple):
    """Boxes that partition the cube, and the number of the box of each record."""

    lower: FloatArray
    upper: FloatArray
    place: IndexArray


def grow_bins(rows: FloatArray, epsilon: float, rng: np.random.Generator) -> Bins:
    """Split the cube [-1, 1]^d by PrivTree (Zhang, Xiao and Xie 2016), which is epsilon-DP.

    A box is halved along its widest side where its count, less a penalty that grows with its depth,
    exceeds zero with Laplace noise. Boxes are halved further, the largest first, until there are
    more of them than unknowns.
    """
    length = rows.shape[1]
    lower, upper = -np.ones(length), np.ones(length)
    queue = [(lower, upper, np.arange(len(rows)), 0)]
    leaves: list[tuple[FloatArray, FloatArray, IndexArray]] = []
    while queue:
        lower, upper, mine, depth = queue.pop()
        score, noise = score_bin(len(mine), depth, epsilon)
        if score + rng.laplace(scale=noise) > 0 and depth < _DEEPEST:
            queue += [(*part, depth + 1) for part in _halve(rows, lower, upper, mine)]
        else:
            leaves.append((lower, upper, mine))
    while len(leaves) < length + 3:
        largest = int(np.argmax([np.sum(np.log(high - low)) for low, high, _ in leaves]))
        leaves += _halve(rows, *leaves.pop(largest))
    place = np.empty(len(rows), dtype=np.intp)
    for number, (_, _, mine) in enumerate(leaves):
        place[mine] = number
    return Bins(
        np.array([leaf[0] for leaf in leaves]), np.array([leaf[1] for leaf in leaves]), place
    )


def score_bin(count: int, depth: int, epsilon: float) -> tuple[float, float]:
    """Return PrivTree's score of a bin, and the scale of its Laplace noise."""
    noise = 3 / epsilon
    penalty = noise * math.log(2)
    return max(count - penalty * depth, -penalty), noise


def _halve(
    rows: FloatArray, lower: FloatArray, upper: FloatArray, mine: IndexArray
) -> list[tuple[FloatArray, FloatArray, IndexArray]]:
    side = int(np.argmax(upper - lower))
    middle = (lower[side] + upper[side]) / 2
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[side] = right_lower[side] = middle
    left = rows[mine, side] < middle
    return [(lower, left_upper, mine[left]), (right_lower, upper, mine[~left])]


def sum_bins(
    rows: FloatArray, target: FloatArray, bins: Bins
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return counts, sums of rows about the middle of their bin in its half-widths, and targets.

    One record moves these, in l2, by at most 1, by the root of the number of columns, and by 1.
    """
    middle, half = (bins.lower + bins.upper) / 2, (bins.upper - bins.lower) / 2
    scaled = (rows - middle[bins.place]) / half[bins.place]
    n_bins = len(middle)
    sums = np.zeros((n_bins, rows.shape[1]))
    np.add.at(sums, bins.place, scaled)
    counts = np.bincount(bins.place, minlength=n_bins).astype(np.float64)
    targets = np.bincount(bins.place, weights=target, minlength=n_bins).astype(np.float64)
    return counts, sums, targets


def fit_binagg(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
) -> Coefficients:
    """Fit BinAgg: weighted least squares on sums of bins, corrected for their noise.

    Sums of rows are taken about the middle of each bin, whose half-widths are their sensitivity;
    the publication takes them about zero. Intervals are its sandwich with Student's quantiles.

    Privacy
    -------
    (epsilon, delta) for one record added or removed: a pure step for the bins, and Gaussian steps
    for the scaling and the three sums. Published noise of a sum of rows is for a sensitivity of one
    coordinate, and misses the root of their number; counts are rescaled to the number of records,
    which is not public here.
    """
    whole = total_mu(epsilon, delta)
    binning = Pure(whole * math.sqrt(_BINNING_SHARE))
    mu = calibrate_gaussian(epsilon, delta, (binning,)) * WITHIN
    if bounds is not None:
        clipped = bounds.clip(np.column_stack([X, y]))
        X, y = clipped[:, :-1], clipped[:, -1]
    scaling = release_scaling(X, y, bounds, mu, rng)
    part = scaling.mu_left / math.sqrt(3)
    rows = standardise(X, scaling.centre, _REACH * scaling.scale, 1.0)
    target = standardise(y, scaling.target_centre, _REACH * scaling.target_scale, 1.0)
    bins = grow_bins(rows, binning.epsilon, rng)
    counts, sums, targets = sum_bins(rows, target, bins)
    noise = math.sqrt(rows.shape[1]) / part
    counts = counts + rng.standard_normal(counts.shape) / part
    sums = sums + rng.standard_normal(sums.shape) * noise
    targets = targets + rng.standard_normal(targets.shape) / part
    kept = counts >= max(0.5, _FEWEST / part)
    if np.sum(kept) < 2 * rows.shape[1] + 2:
        kept = counts >= _PUBLISHED_FEWEST
    if np.sum(kept) <= rows.shape[1] + 1:
        raise RivalSilent("BinAgg has fewer bins with records than unknowns: more are needed.")
    lower, upper = bins.lower[kept], bins.upper[kept]
    found, deviation = solve_bins(counts[kept], lower, upper, sums[kept], targets[kept], noise)
    factor = scaling.target_scale / scaling.scale
    slopes = found[1:] * factor
    reach = student.ppf((1 + _COVERAGE) / 2, np.sum(kept) - len(found)) * deviation[1:] * factor
    intercept = scaling.target_centre + _REACH * scaling.target_scale * found[0]
    return Coefficients(
        float(intercept - slopes @ scaling.centre), slopes, slopes - reach, slopes + reach
    )


def solve_bins(
    counts: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    sums: FloatArray,
    targets: FloatArray,
    noise: float,
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of (1, x) and their standard errors from noisy sums of bins.

    Weights are 1/count, so that noise of counts leaves the normal equations unbiased. Noise of the
    sums of rows, of deviation noise times half-width, adds a diagonal that is taken off, unless
    that makes the matrix nearly singular.
    """
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    design = np.column_stack([counts, middle * counts[:, np.newaxis] + half * sums])
    added = np.column_stack([np.zeros(len(counts)), (noise * half) ** 2]) / counts[:, np.newaxis]
    weighted = design / counts[:, np.newaxis]
    matrix = design.T @ weighted
    total = np.sum(added, axis=0)
    root = np.sqrt(np.maximum(total[1:], 1e-300))
    # What is left of x after the constant, in units of its noise.
    partial = matrix[1:, 1:] - np.outer(matrix[1:, 0], matrix[0, 1:]) / matrix[0, 0]
    if np.linalg.eigvalsh(partial / np.outer(root, root))[0] >= _CERTAIN:
        matrix = matrix - np.diag(total)
    else:
        added = np.zeros_like(added)
    inverse = np.linalg.pinv(matrix)
    solution = inverse @ (weighted.T @ targets)
    scores = weighted * (targets - design @ solution)[:, np.newaxis] + added * solution
    n_bins, length = design.shape
    spread = scores.T @ scores * (n_bins / (n_bins - length))
    return solution, np.sqrt(np.maximum(np.diag(inverse @ spread @ inverse), 0))
