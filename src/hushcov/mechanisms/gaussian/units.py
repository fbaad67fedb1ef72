"""Where units are bounded as one: from a noisy histogram of the norms of what they add."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Neighbours, smallest_sigma
from hushcov.inputs import ReleaseInputs
from hushcov.noise import Entropy, rounded_normal
from hushcov.postprocess import lost_beyond
from hushcov.steps.stage import with_tail
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import Records

_TOP_EVIDENCE, _BIN_EVIDENCE = 4.0, 1.0  # deviations of noise that counts must exceed
_BINS_BEYOND = 2  # that go on beyond the last one seen; measured
_LEAST_BOUND = 0.5  # of the median norm
_USUAL = 3.0  # the norm of a covariance, over a typical variance


@dataclass(frozen=True)
class Mass:
    """How norms are spread, from noisy counts: shares of bins that noise did not make."""

    middle: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, counts: IntArray, sigma: int, middle: FloatArray) -> Mass | None:
        """None where nothing is seen."""
        seen = np.flatnonzero(counts > _TOP_EVIDENCE * sigma)
        if not len(seen):
            return None
        mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0).astype(np.float64)
        mass[seen[-1] + 1 :] = 0.0
        return cls(middle, mass / mass.sum())

    @classmethod
    def with_tail(cls, counts: IntArray, sigma: int, middle: FloatArray) -> Mass | None:
        """The same where it goes on beyond the last bin that is seen, in noise, as it fell."""
        last = _last_seen(counts, sigma)
        if last is None:
            return None
        mass = np.where(counts > _BIN_EVIDENCE * sigma, counts, 0).astype(np.float64)
        mass[last + 1 :] = 0.0
        found = with_tail(mass / mass.sum(), last, _BINS_BEYOND)
        return cls(middle[: len(found)], found)

    def best(self, noise: float, norm: float, *, several: bool) -> tuple[float, float]:
        """The bound at which noise and what shrinking leaves of a bias are least; mean shrinkage.

        `noise` is that of a bound of 1, and what is beyond the bound counts `norm` times. Long
        units have many records, which count alike: with `several`, shrinkage is the mean over them.
        """
        middle, mass = self.middle, self.shares
        median = middle[int(np.searchsorted(np.cumsum(mass), 0.5))]
        bounds = median * _LEAST_BOUND * 2.0 ** (np.arange(48) / 8)
        factor = np.minimum(1.0, bounds[:, None] / middle)
        mean = factor @ (mass * middle / (mass @ middle) if several else mass)
        lost = 1 - (factor * middle**2) @ mass / (mean * float(middle**2 @ mass))
        best = int(np.argmin(noise * bounds / mean + np.maximum(lost, 0.0) * norm))
        return float(bounds[best]), float(mean[best])


def _last_seen(counts: IntArray, sigma: int) -> int | None:
    """The last bin that stands out, alone or with its neighbour."""
    both = counts[:-1] + counts[1:]
    last = [int(each) for each in np.flatnonzero(counts > _TOP_EVIDENCE * sigma)[-1:]]
    for first in np.flatnonzero(both > _TOP_EVIDENCE * math.sqrt(2) * sigma)[-1:]:
        last.append(int(first) + int(counts[first + 1] > _BIN_EVIDENCE * sigma))
    return max(last, default=None)


@dataclass(frozen=True)
class UnitBound:
    """A bound on the Frobenius norm of the matrix of a unit, in squared scales.

    `cut` is about which share of all matrices is beyond it, and was put back; `lost` the same by a
    tail through the counts, with its deviation.
    """

    norm: float
    cut: float
    lost: tuple[float, float] = (0.0, 0.0)

    @property
    def doubt(self) -> float:
        """About which share may still be missing, or be too much."""
        mean, deviation = self.lost
        return abs(mean - self.cut) + deviation

    def alike(self, row: float, together: int) -> float:
        """How many records of a unit are worth one that is independent, at most.

        `row` is the usual norm of the matrix of one record. Matrices of alike records are as long
        as all of them after each other; those of independent ones as the root of that, or longer.
        """
        return min(float(together), max(1.0, (self.norm / row) ** 2 / together))


def count_sigma(mu: float, neighbours: Neighbours) -> int:
    """The noise of counts of which every unit, or record, is in one."""
    square = neighbours.shared(neighbours.moved(replaced=2, removed=1))
    return smallest_sigma(square, mu)  # proof: step 7


def unit_sigmas(bound: int, mu: float, neighbours: Neighbours) -> tuple[int, int]:
    """The least noise off and on the diagonal for matrices of units within a Frobenius norm."""
    moved = neighbours.moved(replaced=Fraction(bound**2), removed=Fraction(bound**2, 2))
    sigma = smallest_sigma(neighbours.shared(moved), mu)  # proof: step 7
    return sigma, math.isqrt(2 * sigma**2) + 1


def release_unit_bound(
    records: Records,
    grid: FeatureGrid,
    inputs: ReleaseInputs,
    typical: float,
    mu: float,
    mu_left: float,
    entropy: Entropy,
) -> UnitBound:
    """A bound on what a unit adds to the matrix; `typical` is about the variance of a feature.

    `mu` is what this costs, and `mu_left` about what is left for the matrix.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. A unit is in one bin of the histogram. All
    else follows from noisy counts.
    """
    from hushcov.sums.gram import unit_norm_histogram

    d, together = inputs.n_features, inputs.neighbours.together
    sigma = count_sigma(mu, inputs.neighbours)  # proof: step 7
    counts = unit_norm_histogram(records, grid, together)
    counts = counts + rounded_normal(entropy.generator, sigma, len(counts))
    middle = grid.step**2 * 2.0 ** ((np.arange(len(counts)) - 1.5) / 4)
    mass = Mass.with_tail(counts, sigma, middle)
    if mass is None:
        return UnitBound(typical * d * math.sqrt(together), 0.0)
    noise = 2 * math.sqrt(d) * inputs.neighbours.outer_product
    noise /= inputs.n_records * together * mu_left
    norm, mean = mass.best(noise, _USUAL * typical, several=True)
    edges = grid.step**2 * 2.0 ** ((np.arange(len(counts) - 1) - 1) / 4)
    lost = lost_beyond(counts.astype(np.float64), sigma, edges, middle, norm)
    return UnitBound(min(norm, together * d * grid.radius**2), min(0.5, 1 - mean), lost)
