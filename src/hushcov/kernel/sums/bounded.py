"""Records and units as integers of bounded norm, and their exact sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray, IntArray
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.kernel.grids import INSIDE, FeatureGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.rows import (
    FOURTHS,
    INTEGERS,
    Multipliers,
    RowSums,
    add_bounded,
    grid_integers,
    scaled,
    shortened,
    shortening,
    square_norms,
    whole,
)

#: Numbers that a unit may have: sums of their squares are then within 2**-40 of what they are.
MOST_PRODUCTS = 2**23
# Squares that are added up before their sum is added: few roundings after each other.
_SQUARES_TOGETHER = 2**12


def bounded_rows(grid: FeatureGrid, norm_bound: int | None) -> tuple[Multipliers, float]:
    """Return what makes rows integers z on a grid, none of them longer than a norm bound.

    With y the integers of a row, z is y where ||y|| <= `norm_bound`. A longer y is multiplied by
    norm_bound / ||y||, less 2^-40 of it, and rounded towards zero. No z is longer than the bound:
    step 1 of `docs/proofs/gaussian.md`. The bound is infinite where none is given, or none that can
    bind.
    """
    bound = np.inf
    if norm_bound is not None:
        grid.check_squared_norms()
        given = _check_norm_bound(norm_bound)
        if given**2 < grid.n_features * grid.half_width**2:
            bound = float(given)
    return grid.numbers, bound


def bounded_integers(rows: Any, grid: Multipliers, bound: float) -> Any:
    """Return the integers z of `bounded_rows`, as doubles."""
    return shortened(grid_integers(rows, grid), bound)


def _check_norm_bound(norm_bound: object) -> int:
    cure = "it is a public bound on the norm of a record, in steps of the grid."
    return check_integer("norm_bound", norm_bound, at_least=1, cure=cure)


def bounded_sums_of(records: Records, grid: FeatureGrid, norm_bound: int) -> RowSums:
    """Return the sums over records of z_i for each feature i, with z as in `bounded_rows`."""
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)  # None would be no bound
    if records.n_rows * grid.half_width > LARGEST_SUM:
        raise CapacityError(
            f"half_width must keep n_records * half_width within 2**62, got {grid.half_width} for "
            f"{records.n_records} records: use a smaller one."
        )
    return RowSums(sum_rows, bounded_rows(grid, bound), (grid.n_features,))


def sum_rows(rows: Any, grid: Multipliers, bound: float, total: Any) -> None:
    """Add bounded rows up in int64: no block is too long for it."""
    add_bounded(rows, grid, (INTEGERS, 0.0, 0.0), bound, total)


def fourth_sums_of(records: Records, grid: FeatureGrid, unit_bits: int, norm_bound: int) -> RowSums:
    """Return the sums of fourth powers over records, for each feature, in units of 2^`unit_bits`.

    With y a record's integers on `grid`, the powers are floor(y_i^4 / 2^unit_bits), none above
    `norm_bound`; where their Euclidean norm is more, they are scaled down to it and rounded towards
    zero. None is negative.
    """
    grid.check_features(records.n_features)
    bound = _check_norm_bound(norm_bound)
    unit = 2 ** check_integer("unit_bits", unit_bits, at_least=0, at_most=52, cure="use 30.")
    too_large = max(bound * unit, bound**2 * records.n_features) >= LARGEST_EXACT_FLOAT
    if too_large or records.n_rows * bound > LARGEST_SUM:
        raise CapacityError(
            f"norm_bound must keep sums of powers and of their squares exact, got {bound} for "
            f"{records.n_records} records: use a smaller one."
        )
    # Squares beyond `most` have powers beyond the bound, and no exact products.
    most = float(np.floor(np.sqrt(float(unit) * float(bound))))
    return RowSums(sum_fourths, (grid.numbers, most, float(unit), float(bound)), (grid.n_features,))


def sum_fourths(
    rows: Any, grid: Multipliers, most: float, unit: float, bound: float, total: Any
) -> None:
    """Add fourth powers up."""
    add_bounded(rows, grid, (FOURTHS, most, 1 / unit), bound, total)  # by a power of two: exact


def unit_means(
    records: Records, grid: FeatureGrid, bound: int, factor_range: int, most_rows: int
) -> IntArray:
    """Return the sums over units of their rows' integers, each at most `bound` long, and a number.

    With v the sum of the integers of the m rows of a unit, it adds trunc(f v), of norm at most
    `bound`, and trunc(f * floor(`factor_range` m / `most_rows`)), from 0 to `factor_range`, with
    f = min(1, `bound` / ||v||): `docs/proofs/preparation.md`, step 10.
    """
    grid.check_features(records.n_features)
    largest = max(records.n_rows * grid.half_width, factor_range * most_rows)
    if largest > LARGEST_SUM or grid.n_features > MOST_PRODUCTS:
        raise CapacityError(
            f"half_width must keep sums within 2**62, got {grid.half_width}: use a smaller one."
        )
    arguments = (grid.numbers, float(bound), factor_range, most_rows)
    return records.map_sum(RowSums(add_means, arguments, (grid.n_features + 1,), most_rows))


def add_means(
    rows: FloatArray,
    starts: IntArray,
    grid: Multipliers,
    bound: float,
    factor_range: int,
    most_rows: int,
    total: IntArray,
) -> None:
    """Add bounded sums of the rows of units."""
    v = np.add.reduceat(grid_integers(rows, grid), starts[:-1])
    add_units(v, bound, factor_shares(starts, factor_range, most_rows), total)


def factor_shares(starts: IntArray, factor_range: int, most_rows: int) -> IntArray:
    """Return the share of a range that units have by their numbers of rows."""
    return factor_range * np.minimum(np.diff(starts), most_rows) // most_rows


def near_square_norms(v: FloatArray) -> FloatArray:
    """Return squared norms of integers, too small or too large by less than 2**-40 of them."""
    total = np.zeros(len(v))
    for left in range(0, v.shape[1], _SQUARES_TOGETHER):
        total += square_norms(v[:, left : left + _SQUARES_TOGETHER])
    return total


def add_units(v: FloatArray, bound: float, shares: IntArray, total: IntArray) -> None:
    """Add the integers of units, scaled down to the bound, and so much of their `shares`."""
    factor = shortening(near_square_norms(v), bound, longest=bound * bound * INSIDE)
    n = v.shape[1]
    total[:n] += whole(scaled(v, factor)).sum(0)
    total[n] += np.where(factor < 1, whole(factor * shares), shares).sum()
