"""Where units are bounded as one: from a noisy histogram of the norms of what they add."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.accounting import Clock
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.parameters import NORMS
from hushcov.mechanisms.gaussian import exact_half_width
from hushcov.mechanisms.screened import Mass, count_sigma
from hushcov.noise import Entropy, rounded_normal
from hushcov.records import FeatureGrid, Records, unit_norm_histogram

#: Of the clock, for which noise must fit into integers.
LEAST_SHARE = 1e-3
_USUAL = 3.0  # the norm of a covariance, over a typical variance


@dataclass(frozen=True)
class UnitBound:
    """A bound on the Frobenius norm of the matrix of a unit, in squared scales.

    `cut` is about which share of all matrices is beyond it.
    """

    norm: float
    cut: float

    def alike(self, row: float, together: int) -> float:
        """How many records of a unit are worth one that is independent, at most.

        `row` is the usual norm of the matrix of one record. Matrices of alike records are as long
        as all of them after each other; those of independent ones as the root of that, or longer.
        """
        return min(float(together), max(1.0, (self.norm / row) ** 2 / together))


def release_unit_bound(
    records: Records,
    feature_scale: FloatArray,
    inputs: ReleaseInputs,
    radius: float,
    typical: float,
    clock: Clock,
    entropy: Entropy,
) -> UnitBound:
    """A bound on what a unit adds to the matrix; `typical` is about the variance of a feature.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. A unit is in one bin of the histogram. All
    else follows from noisy counts.
    """
    d, together = inputs.n_features, inputs.neighbours.together
    widest = radius * math.sqrt(d)
    half_width = exact_half_width(inputs, radius, widest, math.sqrt(LEAST_SHARE * clock.left))
    grid = FeatureGrid(feature_scale, radius, half_width)
    mu = math.sqrt(NORMS * clock.left)
    clock.gaussian(mu)  # proof: step 8
    sigma = count_sigma(mu, inputs.neighbours)  # proof: step 8
    counts = unit_norm_histogram(records, grid, together)
    counts = counts + rounded_normal(entropy.generator, sigma, len(counts))
    middle = grid.step**2 * 2.0 ** ((np.arange(len(counts)) - 1.5) / 4)
    mass = Mass.of(counts, sigma, middle)
    if mass is None:
        return UnitBound(typical * d * math.sqrt(together), 0.0)
    noise = 2 * math.sqrt(d) * inputs.neighbours.outer_product
    noise /= inputs.n_records * together * clock.mu_left
    norm, mean = mass.best(noise, _USUAL * typical, several=True)
    return UnitBound(min(norm, together * widest**2), min(0.5, 1 - mean))
