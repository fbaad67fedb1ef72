"""Private scales of features whose standard deviations nobody knows.

The records are counted by octave, normal noise goes on every count, and the scales are read off
the noisy counts. Octaves are as fine as bins should be: the noise of a count does not depend on
the width of its bin, and half as wide bins tell the scale with 1.3 times the error.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, Float32Array, FloatArray, IntArray
from hushcov._validation import check_integer
from hushcov.fit.mechanism import Prepared, Stage, StageCost
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours
from hushcov.kernel.queries import (
    LARGEST_EXPONENT,
    LARGEST_SIGMA,
    SMALLEST_EXPONENT,
    ScaleCounts,
)
from hushcov.kernel.session import Session

# The laws that counts are compared with: eight to an octave, and these shares of values that are
# not zero. Scales stay clear of bin 0, so that a small scale is not mistaken for a constant.
_STEPS_PER_OCTAVE = 8
_SMALLEST_LOG2 = SMALLEST_EXPONENT + 8
_LARGEST_LOG2 = LARGEST_EXPONENT + 2
_NONZERO_SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
_HEAVY_DEGREES = 4  # Student's t, for heavy tails
_ROWS = 256  # features summarised at a time


@dataclass(frozen=True)
class ScaleRules:
    """Laws that counts are compared with, and how common they are at first.

    The numbers were chosen by `benchmarks/studies/proof_tables.py`.
    """

    # A count is off its law by the noise, by chance (at most n/4; n/10 in the bins that matter),
    # and by this share of n because no law is exact.
    chance: float = 0.1
    misfit: float = 0.005
    # Before anything is learnt: scales around 1, give or take some octaves, and a few constants,
    # which count as so many features.
    usual_octaves: int = 4
    constant_share: float = 0.15
    start_weight: float = 2.0
    # Rounds of the EM algorithm, and the probability below which a scale is uncertain.
    rounds: int = 50
    likely: float = 0.9
    # Noise of a count over the number of records, from which on scales are lost: their logarithm to
    # the base 2 is off by about 2.4 times as much, if all goes well.
    largest_noise: float = 0.1


RULES = ScaleRules()


@dataclass(frozen=True)
class ScaleParameters(Stage):
    """The stage that finds scales; it costs `mu` of a Gaussian mechanism."""

    released: ClassVar[str] = "scales of the features"
    unknown: ClassVar[str] = "the features' scales"

    n_records: int
    n_features: int
    mu: float
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        cure = "give the scales a larger share of the budget."
        check_integer("sigma", self.sigma, at_least=1, at_most=LARGEST_SIGMA, cure=cure)

    @property
    def sigma(self) -> int:
        """The noise of each count."""
        return ScaleCounts(self.n_features).deviations(self.mu, self.neighbours)[0]  # proof: step 1

    def cost(self) -> StageCost:
        """See `Stage.cost`."""
        drowns = self.sigma > RULES.largest_noise * self.n_records
        return StageCost(self.mu, self.mu, drowns=drowns)

    def run(self, prepared: Prepared) -> Prepared:
        """Release the scales, and hand them on.

        No uncertain one is larger than the largest certain one, or than the median where all are
        uncertain. It may be off by many orders of magnitude, and the noise of a feature grows with
        its scale: one that is far too large would drown all others. One that is too small clips
        the feature.
        """
        found = release_scales(prepared.session, self)
        scale, certain = found.scale, ~found.uncertain
        if certain.any():
            largest = scale[certain].max()
        else:
            largest = np.median(scale[scale > 0]) if scale.any() else 0.0
        scale = np.where(certain, scale, np.minimum(scale, largest))
        # The zeros of records that miss a value made scales smaller than complete ones have.
        scale = scale / math.sqrt(prepared.share)
        making = {**prepared.making, "scales": "released"}
        return replace(prepared, feature_scale=scale, making=making)


@dataclass(frozen=True, eq=False)
class FeatureScales:
    """Released scales, and the noisy counts they were read off.

    `scale` is about the standard deviation of each feature, and 0 for a feature found constant.
    `uncertain` marks features whose scale could be off by more than a factor of 2, or whose
    being constant is in doubt, with a probability of more than 10 %.
    """

    scale: FloatArray
    uncertain: BoolArray
    noisy_counts: IntArray = field(repr=False)


def release_scales(session: Session, parameters: ScaleParameters) -> FeatureScales:
    """Release the scale of every feature of records whose mean is zero.

    The noisy counts of a feature are compared with those that a normal law would have, with any
    standard deviation and with part of its values zero, or a law with heavy tails, or a constant.
    How common each law is among the features is learnt from all noisy counts together. The scale
    is the median standard deviation over the laws, weighted by how well they fit this feature and
    by how common they are among the others, averaged within a factor of 2. So a feature whose
    counts drown in noise gets a scale that is usual among the others. A feature is constant if
    that is more likely than not; values below 2^-64 count as zeros, and no scale is beyond 2^66.

    Privacy
    -------
    Neighbours: those of the session; no precondition. The noisy counts are the rounding of a
    Gaussian mechanism with l2 sensitivity over deviation at most `parameters.mu`, in exact integer
    arithmetic, and the scales are computed from them: `parameters.mu` is all that is spent.
    See `docs/proofs/scales.md`.
    """
    query = ScaleCounts(session.n_features)
    noisy = session.measure(query, parameters.mu, parameters.released)  # proof: step 2
    found = estimate_scales(noisy.integers, session.n_records, noisy.sd)  # proof: step 3
    return FeatureScales(*found, noisy.integers)


def estimate_scales(
    noisy_counts: IntArray, n_records: int, sigma: int, *, fast: bool = False
) -> tuple[FloatArray, BoolArray]:
    """Return scales and which of them are uncertain, from noisy counts and public numbers alone.

    `fast` leaves out laws that no feature can have. Sums have another order then, so scales differ
    from those without it, in their last digits.
    """
    shares, log2_scale = _laws()
    likelihood = _likelihood(noisy_counts, shares, n_records, sigma)
    common = 1 / (1 + (log2_scale / RULES.usual_octaves) ** 2)  # before any feature is seen
    common *= (1 - RULES.constant_share) / common.sum()
    common[0] = RULES.constant_share
    if fast:
        possible = likelihood.max(axis=0) > 0
        possible[0] = True  # the constant
        likelihood = np.ascontiguousarray(likelihood[:, possible])
        log2_scale, common = log2_scale[possible], common[possible]
    # Empirical Bayes by the EM algorithm: a law's new weight is the mean probability that a feature
    # has it, with the starting weights counting as `start_weight` features.
    start = common.astype(np.float32)
    total = weights = start
    for done in range(RULES.rounds + 1):
        if done:
            weights = total / np.float32(len(likelihood) + RULES.start_weight)
        evidence = 1 / (likelihood @ weights)
        total = weights * (evidence @ likelihood) + np.float32(RULES.start_weight) * start
    scale = np.empty(len(noisy_counts))
    uncertain = np.empty(len(noisy_counts), dtype=np.bool_)
    for first in range(0, len(noisy_counts), _ROWS):
        rows = slice(first, first + _ROWS)
        posterior = likelihood[rows] * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        # A feature must not count as one of those that make its own scale common.
        posterior = likelihood[rows] * np.maximum(total - posterior, 0)
        posterior /= posterior.sum(axis=1, keepdims=True)
        scale[rows], uncertain[rows] = _summary(posterior, log2_scale)
    return scale, uncertain


@functools.cache
def _laws() -> tuple[FloatArray, FloatArray]:
    """Shares of the bins under each law (rows), and log2 of its deviation, in its order.

    The first law is the constant, with log2 -inf.
    """
    n_steps = (_LARGEST_LOG2 - _SMALLEST_LOG2) * _STEPS_PER_OCTAVE
    position = _SMALLEST_LOG2 + np.arange(n_steps + 1) / _STEPS_PER_OCTAVE
    edges = np.exp2(np.arange(SMALLEST_EXPONENT, LARGEST_EXPONENT + 1) - position[:, None])
    heavy = 1 - 2 * special.stdtr(_HEAVY_DEGREES, -edges)
    heavy_sd = math.sqrt(_HEAVY_DEGREES / (_HEAVY_DEGREES - 2))
    shares = [np.eye(1, edges.shape[1] + 1), np.diff(heavy, axis=1, prepend=0, append=1)]
    log2_scale = [np.array([-np.inf]), position + math.log2(heavy_sd)]
    normal = np.diff(special.erf(edges / math.sqrt(2)), axis=1, prepend=0, append=1)
    for nonzero in _NONZERO_SHARES:
        shares.append(nonzero * normal + (1 - nonzero) * shares[0])
        log2_scale.append(position + math.log2(nonzero) / 2)
    order = np.argsort(np.concatenate(log2_scale), kind="stable")
    return np.concatenate(shares)[order], np.concatenate(log2_scale)[order]


def _likelihood(noisy_counts: IntArray, shares: FloatArray, n: int, sigma: int) -> Float32Array:
    """Likelihood of each law (columns) for each feature (rows), over the largest of its row."""
    variance = float(sigma) ** 2 + RULES.chance * n + (RULES.misfit * n) ** 2
    # |counts - n shares|^2 / (2 variance), less what is the same for all laws. Single precision
    # halves the memory, and is wrong by 0.01 at most because n^2 / variance <= 40,000.
    expected = (shares * (n / variance)).astype(np.float32)
    half_square = (0.5 * n * n / variance * np.sum(shares**2, axis=1)).astype(np.float32)
    log_likelihood: Float32Array = noisy_counts.astype(np.float32) @ expected.T
    log_likelihood -= half_square
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    np.exp(log_likelihood, out=log_likelihood)
    return log_likelihood


def _summary(posterior: Float32Array, log2_scale: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Scale of each feature (rows), and whether it is uncertain."""
    constant, posterior, log2_scale = posterior[:, 0], posterior[:, 1:], log2_scale[1:]
    cumulative = np.cumsum(posterior, axis=1)
    median = log2_scale[np.argmax(cumulative >= cumulative[:, -1:] / 2, axis=1)]
    near = np.where(np.abs(log2_scale - median[:, None]) <= 1, posterior, 0)
    mass = near.sum(axis=1)
    scale = np.exp2(near @ log2_scale / np.maximum(mass, np.finfo(np.float32).tiny))
    found_constant = constant > 0.5
    certainty = np.where(found_constant, constant, mass)
    return np.where(found_constant, 0.0, scale), certainty < RULES.likely
