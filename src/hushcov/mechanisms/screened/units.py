"""Norms of contributions, of records or of units: where to bound them, and values of units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.accounting import ADD_REMOVE, REPLACE, Neighbours, smallest_sigma
from hushcov.mechanisms.gaussian import WITHIN
from hushcov.mechanisms.screened.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    widest_norm,
)
from hushcov.mechanisms.screened.values import Values, product_map, release_values
from hushcov.noise import Entropy, rounded_normal
from hushcov.records import FeatureGrid, ProductMap, Progress, Records

_TOP_EVIDENCE, _BIN_EVIDENCE = 4.0, 1.0  # deviations of noise that counts must exceed
_LEAST_BOUND = 0.5  # of the median norm
_LARGEST_MEAN = RADIUS**2 / 4  # of a product, in squared scales; more would be no help
_REPLACED, _REMOVED = 2.04, 1.07  # what sums move by over the norm bound, and what is beside them
# Of what values spend, where units are bounded as one: histograms of norms, and a first look.
_NORMS, _FIRST = 0.01, 0.15
_LAST = 1 - _FIRST - 2 * _NORMS


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


def count_sigma(mu: float, neighbours: Neighbours) -> int:
    """The noise of counts of which every unit, or record, is in one."""
    square = neighbours.shared(neighbours.moved(replaced=2, removed=1))
    return smallest_sigma(square, mu)  # proof: step 4


def sum_movement(neighbours: Neighbours) -> float:
    """About how far one record moves the sums of products, over the bound on norms."""
    return {REPLACE: _REPLACED, ADD_REMOVE: _REMOVED}[neighbours.relation]


def root_square(n_pairs: int, n_features: int) -> float:
    """The typical norm of weighted products of a record, in squared scales."""
    return math.sqrt(PAIR_WEIGHT**2 * n_pairs + DIAGONAL_WEIGHT**2 * 2 * n_features)


def mean_products(first: Values, products: ProductMap, kept: BoolArray) -> IntArray:
    """About the mean products of a record, from released values: units are shorter without."""
    unit = (products.grid.half_width / RADIUS) ** 2
    pairs = np.clip(first.pairs[kept] * first.unit, -_LARGEST_MEAN, _LARGEST_MEAN)
    diagonal = np.clip(first.diagonal * first.unit, 0.0, _LARGEST_MEAN)
    weighted = [
        products.pair_weight * unit * pairs,
        products.diagonal_weight * (unit * diagonal - products.centre),
    ]
    return np.asarray(np.rint(np.concatenate(weighted)).astype(np.int64))


def chosen_bound(
    counts: IntArray,
    sigma: int,
    products: ProductMap,
    n_records: int,
    size: tuple[float, float],
    mu: float,
) -> int:
    """The bound at which the noise of values and what shrinking leaves of a bias are least.

    `counts` are noisy; `size` is about how many pairs are real, and the norm of the matrix.
    """
    d = products.grid.n_features
    middle = np.array([products.norm_of_bin(each, 1.0) for each in range(len(counts))])
    unit = (products.grid.half_width / RADIUS) ** 2
    mass = Mass.of(counts, sigma, middle)
    if mass is None:
        usual = unit * root_square(len(products.rows), d) * math.sqrt(products.rows_per_unit)
        return max(1, int(usual))
    rows = 2 * math.sqrt(2 * max(size[0], d / 4) / d + 1)
    noise = rows / (PAIR_WEIGHT * n_records * unit * mu)
    several = products.rows_per_unit > 1
    return max(1, int(mass.best(noise, max(1.0, size[1]), several=several)[0]))


def release_unit_values(
    records: Records,
    grid: FeatureGrid,
    places: tuple[IntArray, IntArray],
    size: tuple[float, float],
    mu: float,
    neighbours: Neighbours,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> Values:
    """Values of units that are bounded as one: a first look is taken off before the second.

    `size` is about how many pairs are real, and the norm of the matrix.

    Privacy
    -------
    Neighbours: as given; no precondition. Two histograms and two looks, each Gaussian, of which
    each follows from what the ones before released; the squares of their mu add up to less than
    that of `mu`: `docs/proofs/screened.md`, step 12.
    """
    together = neighbours.together
    parts = [mu * WITHIN * math.sqrt(each) for each in (_NORMS, _FIRST, _NORMS, _LAST)]

    def look(means: IntArray | None, for_norms: float, for_values: float) -> Values:
        widest = int(together * widest_norm(len(places[0]), grid.n_features) * grid.half_width**2)
        products = product_map(grid, *places, widest, together, means)
        counts = products.norm_histogram(records, progress=progress)
        sigma = count_sigma(for_norms, neighbours)  # proof: step 12
        counts = counts + rounded_normal(entropy.generator, sigma, len(counts))
        moved = for_values * together / sum_movement(neighbours)
        bound = chosen_bound(counts, sigma, products, records.n_records, size, moved)
        products = product_map(grid, *places, bound, together, means)
        args = (records, products, for_values, neighbours, entropy)
        return release_values(*args, progress=progress)  # proof: step 12

    first = look(None, parts[0], parts[1])
    every = np.ones(len(places[0]), dtype=bool)
    means = mean_products(first, product_map(grid, *places, 1, together), every)
    return look(means, parts[2], parts[3])
