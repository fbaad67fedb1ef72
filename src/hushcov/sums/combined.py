"""Sums in which the rows of a unit are put together, and bounded as one contribution."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_SUM, FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads
from hushcov.exceptions import CapacityError
from hushcov.sums.grids import INSIDE, FeatureGrid
from hushcov.sums.grouped import grouped_layer, on_processor
from hushcov.sums.products import MOST_PRODUCTS, ROOT_HALF
from hushcov.sums.protocol import Records
from hushcov.sums.rows import CentringSums, centre_row, round_row

# Squares that are added up before their sum is added: few roundings after each other.
_TOGETHER = 2**12


@dataclass(frozen=True, eq=False)
class UnitSums(CentringSums):
    """What units add to sums, each of whole units, wherever blocks end.

    `most_rows` is how many rows a unit has at most; `starts` are those of `GroupedRecords`.
    """

    arguments: Any
    most_rows: int
    size: int
    starts: IntArray | None = field(default=None, kw_only=True)

    def over(self, records: Any) -> UnitSums:
        """See `RowSums`; refuses records that do not come unit by unit."""
        return replace(self, starts=grouped_layer(records, self.most_rows).unit_starts)

    def shape(self, n_features: int) -> tuple[int, ...]:
        """See `RowSums`."""
        return (self.size,)

    def begin(self, n_features: int) -> Any:
        """See `RowSums`."""
        return UnitStream(np.zeros((threads(), self.size), dtype=np.int64))

    def add(self, block: FloatArray, sums: Any) -> bool:
        """See `RowSums`; rows of a unit that goes on in the next block wait for it."""
        assert self.starts is not None
        low, high = sums.position, sums.position + len(block)
        sums.position = high
        first, last = np.searchsorted(self.starts, low), np.searchsorted(self.starts, high, "right")
        inside = self.starts[first:last] - low
        finite = True
        if not len(inside):
            return bool(sums.wait(block))
        if sums.waiting:
            rows = np.concatenate([*sums.waiting, block[: inside[0]]])
            sums.waiting = []
            finite = self.add_units(rows, np.array([0, len(rows)]), sums.totals[0])
        elif inside[0] > 0:
            raise AssertionError("rows of a unit were left out")
        parts = [part for part in _unit_parts(inside, len(sums.totals)) if len(part) > 1]
        jobs = [(block, part, own) for part, own in zip(parts, sums.totals, strict=False)]
        finite &= all(run_parts(self.add_units, jobs)) if jobs else True
        return bool(sums.wait(block[inside[-1] :]) and finite)

    def total(self, sums: Any) -> IntArray:
        """See `RowSums`."""
        self.check_all_seen(sums)
        return np.asarray(sums.totals.sum(axis=0))

    def check_all_seen(self, sums: Any) -> None:
        """Refuse rows that are not as many as those of all units: they may not be theirs."""
        assert self.starts is not None
        if sums.waiting or sums.position != self.starts[-1]:
            raise AssertionError("rows must be as many as those of all units")

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        """See `RowSums`; rows do not say whose they are."""
        raise NotImplementedError("units are added with their starts")

    @abstractmethod
    def add_units(self, rows: FloatArray, starts: IntArray, total: IntArray) -> bool:
        """Add whole units, in one thread; False if a number is not finite."""

    def of_tensor(self, block: Any) -> Any:
        """See `RowSums`; units are put together on the processor."""
        raise NotImplementedError("use on_processor")


@dataclass(frozen=True, eq=False)
class UnitContributions(UnitSums):
    """Contributions of units: see `ProductMap`."""

    bounds: IntArray

    def add_units(self, rows: FloatArray, starts: IntArray, total: IntArray) -> bool:
        """See `UnitSums`."""
        about = self.taken_off(rows.shape[1])
        arguments: Any = (rows, starts, *about, *self.arguments, self.bounds, self.most_rows, total)
        return _add_contributions(*arguments)


@dataclass(frozen=True, eq=False)
class UnitNorms(UnitSums):
    """How many units have the norm of what they add up to in each bin."""

    def add_units(self, rows: FloatArray, starts: IntArray, total: IntArray) -> bool:
        """See `UnitSums`."""
        about = self.taken_off(rows.shape[1])
        arguments: Any = (rows, starts, *about, *self.arguments, total)
        return _count_norms(*arguments)


@dataclass(frozen=True, eq=False)
class _UnitMeans(UnitSums):
    """Sums of the rows of units, and how far those were shrunk."""

    bound: int
    factor_range: int

    def add_units(self, rows: FloatArray, starts: IntArray, total: IntArray) -> bool:
        """See `UnitSums`."""
        about = self.taken_off(rows.shape[1])
        bounds = (float(self.bound), self.factor_range, self.most_rows)
        arguments: Any = (rows, starts, *about, *self.arguments, *bounds, total)
        return _add_means(*arguments)


def unit_means(
    records: Records, grid: FeatureGrid, bound: int, factor_range: int, most_rows: int
) -> IntArray:
    """Return the sums over units of their rows' integers, each at most `bound` long, and a number.

    With v the sum of the integers of the m rows of a unit, it adds trunc(f v) and
    trunc(f * floor(`factor_range` m / `most_rows`)), with f = min(1, `bound` / ||v||).

    Privacy
    -------
    Nothing here is private by itself. Whatever a unit is, what it adds has norm at most `bound`,
    beside a number from 0 to `factor_range`: `docs/proofs/unit_centre.md`.
    """
    grid.check_features(records.n_features)
    largest = max(records.n_rows * grid.half_width, factor_range * most_rows)
    if largest > LARGEST_SUM or grid.n_features > MOST_PRODUCTS:
        raise CapacityError(
            f"half_width must keep sums within 2**62, got {grid.half_width}: use a smaller one."
        )
    size, arguments = grid.n_features + 1, (grid.multipliers, float(grid.half_width))
    sums = _UnitMeans(arguments, most_rows, size, bound, factor_range)
    return on_processor(records).map_sum(sums)


class UnitStream:
    """Sums by thread, how many rows were seen, and those of a unit that goes on."""

    def __init__(self, totals: Any) -> None:
        self.totals, self.position = totals, 0
        self.waiting: list[Any] = []

    def wait(self, rows: FloatArray) -> bool:
        """Keep rows of a unit that goes on; False if a number is not finite."""
        if len(rows):
            self.waiting.append(rows.copy())
        return rows.dtype != np.float64 or bool(np.isfinite(rows).all())


def _unit_parts(starts: IntArray, most: int) -> list[IntArray]:
    """Starts of whole units for each thread, with the end of the last one."""
    cuts = np.linspace(starts[0], starts[-1], most + 1)[1:-1]
    ends = [0, *np.searchsorted(starts, cuts), len(starts) - 1]
    return [starts[low : high + 1] for low, high in itertools.pairwise(ends)]


@compiled
def _fill_unit(
    block: FloatArray,
    first: int,
    stop: int,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    means: FloatArray,
    y: FloatArray,
    v: FloatArray,
) -> float:
    """Fill v with the sum of the products of a unit's rows, less the means of as many rows.

    Returns the sum of their squared integers; -1 if a number is not finite.
    """
    size, n_pairs = 0.0, len(rows)
    v[:] = 0.0
    for a in range(first, stop):
        if not centre_row(block[a], taken, reach, y):
            return -1.0
        round_row(y, multipliers, half_width)
        for e in range(n_pairs):
            v[e] += y[rows[e]] * y[columns[e]]
        for i in range(len(y)):
            own = y[i] * y[i]
            v[n_pairs + i] += own
            size += own
    pair_weight, diagonal_weight, centre = weights
    number = float(stop - first)
    for e in range(n_pairs):
        v[e] = pair_weight * v[e] - number * means[e]
    for e in range(n_pairs, len(v)):
        v[e] = diagonal_weight * (v[e] - number * centre) - number * means[e]
    return size


@compiled
def _square(v: FloatArray) -> float:
    """The squared norm of integers, too small or too large by less than 2**-40 of it."""
    total = 0.0
    for left in range(0, len(v), _TOGETHER):
        part = 0.0
        for e in range(left, min(len(v), left + _TOGETHER)):
            part += v[e] * v[e]
        total += part
    return total


@compiled
def _add_contributions(
    block: FloatArray,
    starts: IntArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    means: FloatArray,
    bounds: IntArray,
    most_rows: int,
    total: IntArray,
) -> bool:
    norm_bound, factor_range, size_range, size_cap = bounds
    n_products = len(rows) + block.shape[1]
    y, v = np.empty(block.shape[1]), np.empty(n_products)
    most_size = float(size_cap) * most_rows
    inside = float(norm_bound) * float(norm_bound) * INSIDE
    for u in range(len(starts) - 1):
        first, stop = starts[u], starts[u + 1]
        grid = (multipliers, half_width, rows, columns, weights, means)
        size = _fill_unit(block, first, stop, taken, reach, *grid, y, v)
        if size < 0.0:
            return False
        square = _square(v)
        whole = factor_range * min(stop - first, most_rows) // most_rows
        if square <= inside:
            total[n_products] += whole
            for e in range(n_products):
                total[e] += np.int64(v[e])
        else:
            factor = norm_bound / math.sqrt(square) * INSIDE
            total[n_products] += np.int64(factor * whole)
            for e in range(n_products):
                total[e] += np.int64(v[e] * factor)
        share = min(size, most_size) / most_size
        total[n_products + 1] += min(np.int64(share * size_range), size_range)
    return True


@compiled
def _count_norms(
    block: FloatArray,
    starts: IntArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    rows: IntArray,
    columns: IntArray,
    weights: FloatArray,
    means: FloatArray,
    total: IntArray,
) -> bool:
    """Add one for each unit to the bin of its norm: half octaves of the square."""
    y, v = np.empty(block.shape[1]), np.empty(len(rows) + block.shape[1])
    for u in range(len(starts) - 1):
        grid = (multipliers, half_width, rows, columns, weights, means)
        if _fill_unit(block, starts[u], starts[u + 1], taken, reach, *grid, y, v) < 0.0:
            return False
        mantissa, exponent = math.frexp(_square(v))
        place = 2 * exponent + (1 if mantissa >= ROOT_HALF else 0)
        total[min(place, len(total) - 1)] += 1
    return True


@compiled
def _add_means(
    block: FloatArray,
    starts: IntArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    factor_range: int,
    most_rows: int,
    total: IntArray,
) -> bool:
    d = block.shape[1]
    y, v = np.empty(d), np.empty(d)
    for u in range(len(starts) - 1):
        first, stop = starts[u], starts[u + 1]
        v[:] = 0.0
        for a in range(first, stop):
            if not centre_row(block[a], taken, reach, y):
                return False
            round_row(y, multipliers, half_width)
            for i in range(d):
                v[i] += y[i]
        square, factor = _square(v), 1.0
        if square > bound * bound * INSIDE:
            factor = bound / math.sqrt(square) * INSIDE
        for i in range(d):
            total[i] += np.int64(v[i] * factor)
        whole = factor_range * min(stop - first, most_rows) // most_rows
        total[d] += np.int64(factor * whole)
    return True
