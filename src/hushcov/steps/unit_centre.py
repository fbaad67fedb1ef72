"""Means of records whose units are bounded as one: what a unit's records add up to is shorter."""

from __future__ import annotations

import math

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.accounting import Neighbours, smallest_sigma
from hushcov.noise import Entropy, rounded_normal
from hushcov.sums.bounded import unit_means
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import Records

_FACTOR_PART = 4  # norm bound over the range of the number that says how far a unit was shrunk
_LEAST_KEPT = 0.02


def release_unit_centre(
    records: Records,
    grid: FeatureGrid,
    row_bound: int,
    mu: float,
    neighbours: Neighbours,
    entropy: Entropy,
) -> tuple[FloatArray, float]:
    """Means of records, and their noise in units of the scales.

    `row_bound` is what the norm of one record is bounded by elsewhere, in steps of the grid.

    The bound is what independent records add up to. Those of a unit that are alike are shrunk, and
    means divided by what the mean record is shrunk by, so that they have the noise of one record.

    Privacy
    -------
    Neighbours: as given; no precondition. A unit adds integers of norm at most B, and a number of
    a smaller range: `docs/proofs/unit_centre.md`.
    """
    n, together = records.n_records, neighbours.together
    bound = max(_FACTOR_PART, math.floor(row_bound * math.sqrt(together)))
    factor_range = bound // _FACTOR_PART
    sums = unit_means(records, grid, bound, factor_range, together)  # proof: step 1
    square = neighbours.moved(replaced=4 * bound**2, removed=bound**2) + factor_range**2
    sigma = smallest_sigma(neighbours.shared(square), mu)  # proof: step 2
    noisy = sums + rounded_normal(entropy.generator, sigma, len(sums))
    kept = min(1.0, max(_LEAST_KEPT, noisy[-1] * together / (n * factor_range)))
    step = grid.step / (n * kept)
    return np.asarray(noisy[:-1] * step * grid.feature_scale), sigma * step
