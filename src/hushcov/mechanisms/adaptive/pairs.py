"""Values of the pairs that a ladder selected: a first look drops those that are noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.accounting import Budget, Neighbours
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.parameters import (
    DROPPED,
    FIRST_OF_UNITS,
    FIRST_VALUES,
    PRODUCT_NORMS,
)
from hushcov.mechanisms.screened import (
    PAIR_WEIGHT,
    RADIUS,
    Values,
    chosen_bound,
    mean_products,
    product_half_width,
    product_map,
    release_values,
    root_square,
    sum_movement,
    usual_of_units,
    widest_norm,
)
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation
from hushcov.steps.norms import release_counts
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import Records


@dataclass(frozen=True, eq=False)
class PairValues:
    """Values of pairs and of variances in units of the scales, with the noise of each kind.

    `unexplained` is about by which share sizes of records had to correct them.
    """

    rows: IntArray
    columns: IntArray
    pairs: FloatArray
    diagonal: FloatArray
    noise_sd: tuple[float, float]
    unexplained: float

    def only(self, kept: BoolArray) -> PairValues:
        """The same of some of the pairs."""
        places = self.rows[kept], self.columns[kept]
        return replace(self, rows=places[0], columns=places[1], pairs=self.pairs[kept])


def value_noise(
    n_pairs: int, inputs: ReleaseInputs, mu: float, alike: float | None = None
) -> float:
    """About the noise of a pair where so many are released, for records of typical norm.

    `alike` is about how many records of a unit are worth one that is independent; None is unknown.
    """
    moved = 1.1 * sum_movement(inputs.neighbours) * root_square(n_pairs, inputs.n_features)
    together = inputs.neighbours.together
    longer = usual_of_units(inputs.neighbours) if alike is None else math.sqrt(alike * together)
    moved *= longer / together
    return moved / (PAIR_WEIGHT * inputs.n_records * mu)


@dataclass(frozen=True)
class Narrowing:
    """A look at pairs for a share of the time left, and which of them are looked at again.

    `keep` is told what was released so far; `norms` says that the bound on norms is chosen anew.
    """

    share: float
    keep: Callable[[PairValues], BoolArray]
    norms: bool = False


def release_pairs(
    records: Records,
    feature_scale: FloatArray,
    inputs: ReleaseInputs,
    places: tuple[IntArray, IntArray],
    n_real: float,
    norm: float,
    budget: Budget,
    entropy: Entropy,
) -> PairValues:
    """Release the values of pairs, drop what looks like noise, and release the rest once more.

    `n_real` is about how many of them are real, `norm` about that of the matrix.

    Privacy
    -------
    See `release_narrowed`.
    """

    def keep(first: PairValues) -> BoolArray:
        deviation = detection_deviation(first.noise_sd[0], inputs.n_sampled)
        return np.asarray(np.abs(first.pairs) > DROPPED * deviation)

    share = FIRST_VALUES if inputs.neighbours.together == 1 else FIRST_OF_UNITS
    steps, size = [Narrowing(share, keep)], (n_real, norm)
    return release_narrowed(records, feature_scale, inputs, places, steps, size, budget, entropy)


def release_narrowed(
    records: Records,
    feature_scale: FloatArray,
    inputs: ReleaseInputs,
    places: tuple[IntArray, IntArray],
    steps: Sequence[Narrowing],
    size: tuple[float, float],
    budget: Budget,
    entropy: Entropy,
) -> PairValues:
    """Release the values of pairs in looks, each at those that the one before left; averaged.

    The last look takes all the time that is left. `size` is about how many pairs are real, and the
    norm of the matrix.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. The histogram of norms moves by at most
    sqrt(2), the sums by what `release_values` says. Which pairs are dropped, and where records are
    bounded, follows from what was released before.
    """
    rows, columns = places
    together, d = inputs.neighbours.together, inputs.n_features
    share = steps[0].share if steps else 1 - PRODUCT_NORMS
    mu = math.sqrt(share * budget.left)
    half_width = product_half_width(inputs, len(rows), mu)
    grid = FeatureGrid(feature_scale, RADIUS, half_width)
    widest = int(together * widest_norm(len(rows), grid.n_features) * half_width**2)
    products = product_map(grid, rows, columns, widest, together)
    bound = _norm_bound(records, products, size, inputs.neighbours, budget, entropy)
    found: PairValues | None = None
    means = None
    for step in steps:
        # Its share was of what there was before the first bound was chosen.
        mu = mu if found is None else math.sqrt(step.share * budget.left)
        budget.gaussian(mu)  # proof: step 6
        products = product_map(grid, rows, columns, bound, together, means)
        looked = release_values(records, products, mu, inputs.neighbours, entropy)
        found = _averaged(found, looked)
        kept = step.keep(found)
        found, before = found.only(kept), len(rows)
        rows, columns = rows[kept], columns[kept]
        if together > 1:
            means = mean_products(found.pairs, found.diagonal, products)
        if together > 1 or step.norms:
            products = product_map(grid, rows, columns, widest, together, means)
            bound = _norm_bound(records, products, size, inputs.neighbours, budget, entropy)
        else:
            bound = max(1, int(bound * root_square(len(rows), d) / root_square(before, d)))
    mu = budget.mu_left
    budget.gaussian(mu)  # proof: step 6
    products = product_map(grid, rows, columns, bound, together, means)
    return _averaged(found, release_values(records, products, mu, inputs.neighbours, entropy))


def _averaged(found: PairValues | None, looked: Values) -> PairValues:
    """All looks at the pairs that are left, weighted by their precision."""
    fresh, after = looked.in_scales
    unexplained = abs(looked.correction - 1)
    if found is None:
        places = looked.rows, looked.columns
        return PairValues(*places, fresh, after, looked.noise_sd, unexplained)
    noise = np.array([found.noise_sd, looked.noise_sd])
    precision = noise**-2.0
    share = precision[1] / precision.sum(axis=0)
    off, on = 1 / np.sqrt(precision.sum(axis=0))
    return PairValues(
        looked.rows,
        looked.columns,
        found.pairs + share[0] * (fresh - found.pairs),
        found.diagonal + share[1] * (after - found.diagonal),
        (float(off), float(on)),
        unexplained,
    )


def _norm_bound(
    records: Records,
    products: ProductMap,
    size: tuple[float, float],
    neighbours: Neighbours,
    budget: Budget,
    entropy: Entropy,
) -> int:
    """The bound at which the noise of values and what shrinking leaves of a bias are least.

    Records beyond the bound are scaled down, and values divided by the mean shrinkage. What that
    does not restore is the part of the large records beyond their number.
    """
    n = records.n_records
    mu = math.sqrt(PRODUCT_NORMS * budget.left)
    counts = products.norm_histogram(records)
    noisy = release_counts(counts, mu, neighbours, budget, entropy)  # proof: step 6
    moved = sum_movement(neighbours) / neighbours.together
    return chosen_bound(*noisy, products, n, size, budget.mu_left / moved)
