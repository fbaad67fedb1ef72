"""Several sums in one reading of the records: each row is looked at by all while it is near."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov.sums.bounded import BoundedSums, FourthSums, shorten_row
from hushcov.sums.counts import NormCounts, add_signs
from hushcov.sums.grids import INSIDE
from hushcov.sums.products import EXACT_ROWS, Contributions
from hushcov.sums.protocol import Progress, Records
from hushcov.sums.rows import About, CentringSums, centre_row, exact_reduction, round_row
from hushcov.sums.views import hands_out_arrays, layers_of

_EARLY_BYTES = 2**27  # most bytes of signs that are packed before anybody asks for them
# Values that all sums look at before the next ones: they stay in the second cache.
_VALUES_NEAR = 2**18


@dataclass(frozen=True, eq=False)
class Together(CentringSums):
    """Several sums in one reading of the records, one after the other in a row."""

    sums: tuple[CentringSums, ...]

    def centred(self, about: About) -> Self:
        """The same sums of centred rows."""
        return replace(self, sums=tuple(each.centred(about) for each in self.sums), about=about)

    def split(self, total: IntArray, n_features: int) -> list[IntArray]:
        """The sums, each in its shape."""
        shapes = [each.shape(n_features) for each in self.sums]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        parts = np.split(total, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (sum(math.prod(each.shape(n_features)) for each in self.sums),)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`."""
        own, finite = self.split(total, rows.shape[1]), True
        step = max(1, _VALUES_NEAR // rows.shape[1])
        for start in range(0, len(rows), step):
            near = rows[start : start + step]
            for each, part in zip(self.sums, own, strict=True):
                finite &= each.add_rows(near, part)
        return finite

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`."""
        from hushcov.sums import tensor_kernels

        return tensor_kernels.joined(*(each.of_tensor(block).reshape(-1) for each in self.sums))


@dataclass(frozen=True, eq=False)
class _BlockByBlock(Together):
    """Sums that take a block as a whole, on all cores, one after the other."""

    def begin(self, n_features: int) -> Any:
        """See `RowSums`."""
        return [each.begin(n_features) for each in self.sums]

    def add(self, block: FloatArray, sums: Any) -> bool:
        """See `RowSums`."""
        return all(each.add(block, own) for each, own in zip(self.sums, sums, strict=True))

    def total(self, sums: Any) -> IntArray:
        """See `RowSums`."""
        own = [each.total(part).ravel() for each, part in zip(self.sums, sums, strict=True)]
        return np.concatenate(own)


@dataclass(frozen=True, eq=False)
class NormsAndFourths(Together):
    """Counts by norm, and fourth powers, on the same grid."""

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`; rows are centred and rounded once for both."""
        norms, powers = self.sums
        assert isinstance(norms, NormCounts)
        assert isinstance(powers, FourthSums)
        counts, fourths = self.split(total, rows.shape[1])
        signs = rows.shape[1] * norms.signs
        grid = (norms.multipliers, norms.half_width, norms.edges)
        limits = (powers.most, powers.unit, powers.bound)
        sums = (counts[:signs], counts[signs:], fourths)
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, *limits, *sums)
        return _add_norms_and_fourths(*arguments)


@compiled
def _add_norms_and_fourths(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    edges: FloatArray,
    most: float,
    unit: float,
    bound: float,
    signs: IntArray,
    counts: IntArray,
    fourths: IntArray,
) -> bool:
    finite, y = True, np.empty(block.shape[1])
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        add_signs(y[: len(signs)], signs)
        round_row(y, multipliers, half_width)
        square, size = _to_fourths(y, most, 1.0 / unit)
        counts[np.searchsorted(edges, square)] += 1
        shorten_row(y, size, bound)
        for i in range(len(y)):
            fourths[i] += np.int64(y[i])
    return finite


@exact_reduction
def _to_fourths(y: FloatArray, most: float, per_unit: float) -> tuple[float, float]:
    """Make integers their fourth powers as in `FourthSums`; return squared norms, old and new."""
    old = new = 0.0
    for i in range(len(y)):
        square = y[i] * y[i]
        limited = min(square, most)
        power = np.floor(limited * limited * per_unit)
        old += square
        new += power * power
        y[i] = power
    return old, new


@dataclass(frozen=True, eq=False)
class SumsAndSquares(Together):
    """Sums of bounded rows, and contributions without pairs: squares, on another grid."""

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`; rows are centred once for both."""
        bounded, squares = self.sums
        assert isinstance(bounded, BoundedSums)
        assert isinstance(squares, Contributions)
        grid = (bounded.rows.multipliers, float(bounded.rows.half_width), bounded.rows.bound)
        multipliers, half_width, _, _, weights, bounds = squares.arguments
        others = (multipliers, half_width, weights, bounds)
        sums = self.split(total, rows.shape[1])
        arguments: Any = (rows, *self.taken_off(rows.shape[1]), *grid, *others, *sums)
        return _add_sums_and_squares(*arguments)


@compiled
def _add_sums_and_squares(
    block: FloatArray,
    centre: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    square_multipliers: FloatArray,
    square_half_width: float,
    weights: FloatArray,
    bounds: IntArray,
    sums: IntArray,
    total: IntArray,
) -> bool:
    norm_bound, factor_range, size_range, size_cap = bounds
    finite, n_features = True, block.shape[1]
    y, z, squares = np.empty(n_features), np.empty(n_features), np.zeros(n_features)
    for a in range(block.shape[0]):
        finite &= centre_row(block[a], centre, reach, y)
        size, square = _fill_squares(y, square_multipliers, square_half_width, weights, z)
        total[n_features + 1] += min(int(size), size_cap) * size_range // size_cap
        if square <= float(norm_bound) * float(norm_bound):
            total[n_features] += factor_range
        else:
            factor = norm_bound / math.sqrt(square) * INSIDE
            total[n_features] += int(factor * factor_range)
            for i in range(n_features):
                z[i] = np.trunc(z[i] * factor)
        long = _round_and_square(y, multipliers, half_width)
        if bound < np.inf:
            shorten_row(y, long, bound)
        for i in range(n_features):
            squares[i] += z[i]
            sums[i] += np.int64(y[i])
        if a % EXACT_ROWS == EXACT_ROWS - 1 or a == block.shape[0] - 1:
            for i in range(n_features):
                total[i] += int(squares[i])
                squares[i] = 0.0
    return finite


@exact_reduction
def _fill_squares(
    y: FloatArray, multipliers: FloatArray, half_width: float, weights: FloatArray, z: FloatArray
) -> tuple[float, float]:
    """Fill in the z of `ProductMap` without pairs; return the squared norms of integers and z."""
    size = square = 0.0
    weight, middle = weights[1], weights[2]
    for i in range(len(y)):
        integer = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))
        own = integer * integer
        z[i] = weight * (own - middle)
        size += own
        square += z[i] * z[i]
    return size, square


@exact_reduction
def _round_and_square(y: FloatArray, multipliers: FloatArray, half_width: float) -> float:
    """As `round_row`; return the squared norm."""
    square = 0.0
    for i in range(len(y)):
        y[i] = np.rint(min(max(y[i] * multipliers[i], -half_width), half_width))
        square += y[i] * y[i]
    return square


def joined(sums: Sequence[CentringSums]) -> Together:
    """The sums as one, which looks at a row once for all of them where that can be."""
    match sums:
        case [NormCounts() as norms, FourthSums() as powers] if (
            norms.half_width == powers.rows.half_width
            and np.array_equal(norms.multipliers, powers.rows.multipliers)
        ):
            return NormsAndFourths((norms, powers))
        case [BoundedSums() as bounded, Contributions() as squares] if not squares.n_pairs:
            return SumsAndSquares((bounded, squares))
        case _:
            return Together(tuple(sums))


def sum_together(
    records: Records, sums: Sequence[CentringSums], *, progress: Progress | None = None
) -> list[IntArray]:
    """Return several sums over the records, which are read once for all of them.

    Privacy
    -------
    Nothing here is private by itself; each sum is what it is alone.
    """
    together = joined(sums)
    total = records.map_sum(together, progress=progress)
    return together.split(total, records.n_features)


def early_signs(n_records: int, n_features: int) -> int:
    """Most bytes of signs that `sum_and_keep_signs` keeps; 0 where it keeps none."""
    size = -(-2 * n_records * n_features // 8)
    return size if size <= _EARLY_BYTES else 0


def sum_and_keep_signs(
    records: Records, sums: Sequence[CentringSums], *, keep: bool = True
) -> list[IntArray]:
    """As `sum_together`, and where it spares a reading, keep signs for `sign_scores` of `records`.

    That is where the records themselves are read for each sum: no compact copy of them is kept.

    Privacy
    -------
    As `sum_together` and `PackedSigns`: what is kept is in the memory of this process, until the
    signs are scored.
    """
    from hushcov.sums.signs import KeptSigns, PackedSigns

    copied = any(layer.keeps_copy for layer in layers_of(records))
    size = early_signs(records.n_rows, records.n_features)
    if not keep or copied or not size or not hands_out_arrays(records):
        return sum_together(records, sums)
    found: list[IntArray] = []

    def read(packing: CentringSums) -> IntArray:
        both = _BlockByBlock((joined(sums), packing))
        others, signs = both.split(records.map_sum(both), records.n_features)
        found.extend(joined(sums).split(others, records.n_features))
        return signs

    records.kept_signs = KeptSigns(PackedSigns(records, read=read), weakref.ref(records))
    return found
