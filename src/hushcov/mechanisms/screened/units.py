"""Norms of contributions, of records or of units: where to bound them, and values of units."""

from __future__ import annotations

import math

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import WITHIN, Budget, Neighbours
from hushcov.mechanisms.screened.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    widest_norm,
)
from hushcov.mechanisms.screened.values import Values, product_map, release_values
from hushcov.noise import Entropy
from hushcov.steps.norms import Mass, release_counts
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import Records

_LARGEST_MEAN = RADIUS**2 / 4  # of a product, in squared scales; more would be no help
_REPLACED, _REMOVED = 2.04, 1.07  # what sums move by over the norm bound, and what is beside them
# Of what values spend, where units are bounded as one: histograms of norms, and a first look.
_NORMS, _FIRST = 0.01, 0.1
_LAST = 1 - _FIRST - 2 * _NORMS


def sum_movement(neighbours: Neighbours) -> float:
    """About how far one record moves the sums of products, over the bound on norms."""
    return neighbours.moved(replaced=_REPLACED, removed=_REMOVED)


def root_square(n_pairs: int, n_features: int) -> float:
    """The typical norm of weighted products of a record, in squared scales."""
    return math.sqrt(PAIR_WEIGHT**2 * n_pairs + DIAGONAL_WEIGHT**2 * 2 * n_features)


def mean_products(pairs: FloatArray, diagonal: FloatArray, products: ProductMap) -> IntArray:
    """About the mean products of a record, from released values: units are shorter without."""
    unit = (products.grid.half_width / RADIUS) ** 2
    pairs = np.clip(pairs, -_LARGEST_MEAN, _LARGEST_MEAN)
    diagonal = np.clip(diagonal, 0.0, _LARGEST_MEAN)
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
    several = products.rows_per_unit > 1
    mass = (Mass.with_tail if several else Mass.of)(counts, sigma, middle)
    if mass is None:
        usual = unit * root_square(len(products.rows), d) * math.sqrt(products.rows_per_unit)
        return max(1, int(usual))
    rows = 2 * math.sqrt(2 * max(size[0], d / 4) / d + 1)
    noise = rows / (PAIR_WEIGHT * n_records * unit * mu)
    return max(1, int(mass.best(noise, max(1.0, size[1]), several=several)[0]))


def release_unit_values(
    records: Records,
    grid: FeatureGrid,
    places: tuple[IntArray, IntArray],
    size: tuple[float, float],
    neighbours: Neighbours,
    budget: Budget,
    entropy: Entropy,
) -> Values:
    """Values of units that are bounded as one: a first look is taken off before the second.

    `size` is about how many pairs are real, and the norm of the matrix.

    Privacy
    -------
    Neighbours: as given; no precondition. Two histograms and two looks, each Gaussian, of which
    each follows from what the ones before released, and is spent before it is drawn:
    `docs/proofs/screened.md`, step 11.
    """
    together = neighbours.together
    mu = budget.mu_left * WITHIN
    parts = [mu * math.sqrt(each) for each in (_NORMS, _FIRST, _NORMS, _LAST)]

    def look(means: IntArray | None, for_norms: float, for_values: float) -> Values:
        widest = int(together * widest_norm(len(places[0]), grid.n_features) * grid.half_width**2)
        products = product_map(grid, *places, widest, together, means)
        counts = products.norm_histogram(records)
        noisy = release_counts(counts, for_norms, neighbours, budget, entropy)  # proof: step 11
        moved = for_values * together / sum_movement(neighbours)
        bound = chosen_bound(*noisy, products, records.n_records, size, moved)
        products = product_map(grid, *places, bound, together, means)
        budget.gaussian(for_values)
        args = (records, products, for_values, neighbours, entropy)
        return release_values(*args)  # proof: step 11

    first = look(None, parts[0], parts[1])
    means = mean_products(*first.in_scales, product_map(grid, *places, 1, together))
    return look(means, parts[2], parts[3])
