"""Values of selected pairs and of all variances: bounded products, summed, with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Neighbours
from hushcov.exceptions import PrivacyConditionError
from hushcov.mechanisms.screened.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    ranges,
    shrinking_bias,
    size_cap,
    sum_sigma,
)
from hushcov.noise import Entropy, rounded_normal
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.records import Records

_SURE = 4.0  # standard deviations beyond which the size of the records corrects the estimate


@dataclass(frozen=True, eq=False)
class Values:
    """Released values: integers times `unit`, in units of the scales of the two features.

    `shrinkage` is the mean one of the records, `correction` what their size corrected besides.
    """

    rows: IntArray
    columns: IntArray
    pairs: IntArray
    diagonal: IntArray
    unit: float
    noise_sd: tuple[float, float]
    shrinkage: float
    correction: float
    feature_scale: FloatArray

    @property
    def in_scales(self) -> tuple[FloatArray, FloatArray]:
        """Pairs and variances as numbers."""
        return np.asarray(self.pairs * self.unit), np.asarray(self.diagonal * self.unit)


def product_map(
    grid: FeatureGrid,
    rows: IntArray,
    columns: IntArray,
    norm_bound: int,
    rows_per_unit: int = 1,
    means: IntArray | None = None,
) -> ProductMap:
    """What each record, or each unit, contributes to the sums, bounded in norm."""
    factor_range, size_range = ranges(norm_bound)  # proof: step 5
    d, unit = grid.n_features, _integers_per_square(grid)
    return ProductMap(
        grid=grid,
        rows=rows,
        columns=columns,
        pair_weight=PAIR_WEIGHT,
        diagonal_weight=DIAGONAL_WEIGHT,
        centre=round(unit),
        norm_bound=norm_bound,
        factor_range=factor_range,
        size_range=size_range,
        size_cap=math.ceil(size_cap(d) * d * unit),
        rows_per_unit=rows_per_unit,
        means=means,
    )


def release_values(
    records: Records,
    products: ProductMap,
    mu: float,
    neighbours: Neighbours,
    entropy: Entropy,
) -> Values:
    """Sum the bounded products, add noise, and undo weights, centre and shrinkage.

    Privacy
    -------
    Neighbours: as given; no precondition. The noise makes the most that the sums move
    `mu` deviations; all else is post-processing. `docs/proofs/screened.md`.
    """
    if products.rows_per_unit != neighbours.together:
        raise PrivacyConditionError(  # proof: step 11
            f"products must bound {neighbours.together} records as one, which noise is for, got "
            f"{products.rows_per_unit}: make them for these neighbours."
        )
    n, d = records.n_records, records.n_features
    sigma = sum_sigma(products.norm_bound, mu, neighbours)  # proof: step 6
    sums = products.sum(records)  # proof: step 4
    sums += rounded_normal(entropy.generator, sigma, len(sums))  # proof: step 6
    unit = n * _integers_per_square(products.grid)
    n_pairs = len(products.rows)
    unshrunk = sums[-2] / (n * products.factor_range) * products.rows_per_unit
    shrinkage = min(1.0, max(unshrunk, 1e-3))
    if products.means is not None:  # of as many records as were not shrunk away
        sums[:-2] += np.rint(products.means * (n * shrinkage)).astype(np.int64)
    # One unit for all: pairs are multiples of 1 / PAIR_WEIGHT, the diagonal of 1 / DIAGONAL_WEIGHT.
    off_diagonal = sums[:n_pairs] * DIAGONAL_WEIGHT
    weight = PAIR_WEIGHT * DIAGONAL_WEIGHT
    centre = round(products.centre * n * weight * shrinkage)
    diagonal = sums[n_pairs : n_pairs + d] * PAIR_WEIGHT + centre
    value = 1 / (weight * unit * shrinkage)
    if products.rows_per_unit == 1:  # what sums of several lose does not depend on their size
        value *= 1 + shrinking_bias(shrinkage, d)
    trace = float(diagonal.sum(dtype=np.float64)) * value
    trace_sd = math.sqrt(d) * sigma * PAIR_WEIGHT * value
    correction = _size_correction(sums, products, sigma, (trace, trace_sd), n)
    value *= correction
    return Values(
        products.rows,
        products.columns,
        off_diagonal,
        diagonal,
        value,
        (sigma * DIAGONAL_WEIGHT * value, sigma * PAIR_WEIGHT * value),
        shrinkage,
        correction,
        products.grid.feature_scale,
    )


def _integers_per_square(grid: FeatureGrid) -> float:
    """Grid units of a product of two coordinates at scale 1."""
    return (grid.half_width / RADIUS) ** 2


def _size_correction(
    sums: IntArray,
    products: ProductMap,
    sigma: int,
    trace: tuple[float, float],
    n_records: int,
) -> float:
    """The released mean size of the records over the trace, where they differ beyond doubt.

    Heavy-tailed records lose more to shrinking than their mean shrinkage says, all entries alike.
    """
    per_record = products.size_cap / products.size_range * products.grid.step**2 / n_records
    per_record *= products.rows_per_unit
    size, deviation = float(sums[-1]) * per_record, math.hypot(sigma * per_record, trace[1])
    # Beyond half of what is counted, many records are beyond all of it, and the mean says little.
    saturated = float(sums[-1]) > n_records / products.rows_per_unit * products.size_range / 2
    if saturated or trace[0] <= 0 or abs(size - trace[0]) < _SURE * deviation:
        return 1.0
    return min(4.0, max(0.25, size / trace[0]))
