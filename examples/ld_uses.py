"""What LD matrices are for, from summary statistics alone: fine-mapping and polygenic scores.

A study of n people publishes a z-score for each variant: its own regression. Variants that
correlate share their scores, so which of them acts is read off with the LD matrix only. All of this
is post-processing: nothing here sees a person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from hushcov.postprocess import project_psd

EFFECTS = 5  # that a locus is searched for
COVERAGE, PURITY = 0.95, 0.5  # of a credible set: its probability, its least correlation
ROUNDS, SETTLED = 50, 1e-3
START = 50.0  # prior variance of an effect's z-score
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FineMapping:
    """How likely each variant acts, and sets of variants one of which does."""

    inclusion: Matrix
    sets: list[npt.NDArray[np.int64]]


def usable(window: Matrix) -> Matrix:
    """LD that methods take: no negative eigenvalues, ones on the diagonal."""
    mended = project_psd(np.nan_to_num(window).clip(-1, 1))
    unit = np.sqrt(np.maximum(np.diag(mended), 1e-9))
    return mended / np.multiply.outer(unit, unit)


def fine_map(z: Matrix, ld: Matrix, noise: float = 0.0) -> FineMapping:
    """Sum of single effects (SuSiE; Wang et al. 2020, Zou et al. 2022) from z-scores and LD.

    `noise` is the deviation of an error of the LD matrix. What is expected of a z-score is then off
    by so much for each effect of size 1, which counts as further residual variance.
    """
    d = len(z)
    chances, means = np.full((EFFECTS, d), 1 / d), np.zeros((EFFECTS, d))
    priors = np.full(EFFECTS, START)
    for _ in range(ROUNDS):
        before = chances.copy()
        fitted = ld @ (chances * means).sum(axis=0)
        for each in range(EFFECTS):
            own = ld @ (chances[each] * means[each])
            residual = 1 + noise**2 * (chances * means**2).sum()
            rest, prior = z - (fitted - own), priors[each]
            shrunk = prior / (prior + residual)
            evidence = 0.5 * rest**2 * shrunk / residual
            total = logsumexp(evidence)
            chances[each] = np.exp(evidence - total)
            means[each] = shrunk * rest
            priors[each] = (chances[each] * (means[each] ** 2 + shrunk * residual)).sum()
            # An effect that explains no more than none at all is switched off.
            if total - np.log(d) < 0.5 * np.log1p(prior / residual):
                means[each] = 0.0
            fitted += ld @ (chances[each] * means[each]) - own
        if np.abs(chances - before).max() < SETTLED:
            break
    acting = [each for each in range(EFFECTS) if np.any(means[each] != 0)]
    inclusion = 1 - np.prod(1 - chances[acting], axis=0) if acting else np.zeros(d)
    return FineMapping(inclusion, _sets(chances[acting], ld))


def _sets(chances: Matrix, ld: Matrix) -> list[npt.NDArray[np.int64]]:
    """The smallest sets that hold an effect with 95 %; sets of unrelated variants say nothing."""
    found: list[npt.NDArray[np.int64]] = []
    for each in chances:
        order = np.argsort(-each, kind="stable")
        size = int(np.searchsorted(np.cumsum(each[order]), COVERAGE)) + 1
        held = np.sort(order[:size])
        pure = np.abs(ld[np.ix_(held, held)]).min() >= PURITY
        if pure and not any(np.array_equal(held, other) for other in found):
            found.append(held)
    return found


def draw_z(ld: Matrix, effects: Matrix, generator: np.random.Generator) -> Matrix:
    """z-scores of a study of the people whose LD this is; effects are in units of z.

    Given genotypes, they are normal with this mean and with the LD matrix as covariance.
    """
    values, vectors = np.linalg.eigh(ld)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(ld @ effects + root @ generator.standard_normal(len(ld)))


def polygenic_weights(z: Matrix, blocks: list[Matrix], signal: float, noise: float) -> Matrix:
    """Weights of a score: the best linear ones for many small effects (LDpred-inf), by blocks.

    `signal` is the variance of an effect in units of z. Noise of the LD matrix counts as further
    ridge: about the largest eigenvalue that noise alone has.
    """
    weights, start = [], 0
    for block in blocks:
        stop = start + len(block)
        ridge = 1 / signal + noise * np.sqrt(len(block))
        weights.append(np.linalg.solve(block + ridge * np.eye(len(block)), z[start:stop]))
        start = stop
    return np.concatenate(weights)


def score_accuracy(weights: Matrix, effects: Matrix, ld: Matrix) -> float:
    """Correlation of the score and the true genetic value, in people with this LD."""
    norm = np.sqrt((weights @ ld @ weights) * (effects @ ld @ effects))
    return float(weights @ ld @ effects / norm) if norm > 0 else 0.0
