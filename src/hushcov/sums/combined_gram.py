"""Gram matrices of units: the rows of each are scaled down together, to a norm of their matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, threads
from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError
from hushcov.sums.combined import UnitStream, UnitSums
from hushcov.sums.gram import GramSums
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.grouped import on_processor
from hushcov.sums.products import ROOT_HALF
from hushcov.sums.protocol import Progress, Records
from hushcov.sums.rows import centre_row, exact_reduction, round_row

# Sums of squares are within 2**-31 of what they are, for units of up to 2**20 rows.
_INSIDE = 1.0 - 2.0**-30
_AGAIN = 0.99  # of a factor for which truncated rows came out too long


def unit_bounded_gram(
    records: Records,
    grid: FeatureGrid,
    bound: int,
    most_rows: int,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over units of Z'Z, an exact integer matrix.

    Y are the integers of the rows of a unit on `grid`. Z is Y where the Frobenius norm of Y'Y is
    at most `bound`; else all its numbers are multiplied by one factor and rounded towards zero,
    and the factor is made smaller until Z'Z is within the bound.

    Privacy
    -------
    Nothing here is private by itself. Each unit is mapped on its own to a matrix of norm at most
    `bound` without negative eigenvalues: `docs/proofs/gaussian.md`, step 7.
    """
    cure = "it is a public bound on the norm of what a unit adds, in squared steps of the grid."
    check_integer("bound", bound, at_least=1, cure=cure)
    _check(records, grid)
    sums = _UnitGram(_arguments(grid), most_rows, 0, float(bound), grid.half_width)
    return on_processor(records).map_sum(sums, progress=progress)


def unit_norm_histogram(
    records: Records, grid: FeatureGrid, most_rows: int, *, progress: Progress | None = None
) -> IntArray:
    """Return how many units have the Frobenius norm of Y'Y in each of its quarter octaves.

    Bin b has norms of 2^((b - 2) / 4) up to 2^((b - 1) / 4).

    Privacy
    -------
    Nothing here is private by itself. Replacing one unit moves one count from one bin to another.
    """
    _check(records, grid)
    n_bins = 4 * (54 + most_rows.bit_length())
    counts = _UnitGramNorms(_arguments(grid), most_rows, n_bins)
    return on_processor(records).map_sum(counts, progress=progress)


def _check(records: Records, grid: FeatureGrid) -> None:
    grid.check_features(records.n_features)
    grid.check_squared_norms()
    if records.n_rows * grid.half_width**2 >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use a smaller one."
        )


def _arguments(grid: FeatureGrid) -> tuple[Any, ...]:
    return grid.multipliers, float(grid.half_width)


class _GramStream(UnitStream):
    """The matrix so far, and bounded rows of each thread that are still to be added."""

    def __init__(self, n_features: int, half_width: int) -> None:
        super().__init__([[] for _ in range(threads())])
        self.gram = GramSums(n_features, half_width)


@dataclass(frozen=True, eq=False)
class _UnitGram(UnitSums):
    bound: float
    half_width: int

    def shape(self, n_features: int) -> tuple[int, ...]:
        return n_features, n_features

    def begin(self, n_features: int) -> Any:
        return _GramStream(n_features, self.half_width)

    def add(self, block: FloatArray, sums: Any) -> bool:
        finite = super().add(block, sums)
        for waiting in sums.totals:
            for integers in waiting:
                sums.gram.add(integers)
            waiting.clear()
        return finite

    def add_units(self, rows: FloatArray, starts: IntArray, total: Any) -> bool:
        """See `UnitSums`."""
        integers = np.empty((starts[-1] - starts[0], rows.shape[1]))
        about = self.taken_off(rows.shape[1])
        arguments: Any = (rows, starts, *about, *self.arguments, self.bound, integers)
        total.append(integers)
        return _bound_units(*arguments)

    def total(self, sums: Any) -> IntArray:
        self.check_all_seen(sums)
        return np.asarray(sums.gram.total())


@dataclass(frozen=True, eq=False)
class _UnitGramNorms(UnitSums):
    def add_units(self, rows: FloatArray, starts: IntArray, total: Any) -> bool:
        """See `UnitSums`."""
        about = self.taken_off(rows.shape[1])
        arguments: Any = (rows, starts, *about, *self.arguments, total)
        return _count_units(*arguments)


@compiled
def _fill_rows(
    block: FloatArray,
    first: int,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    integers: FloatArray,
) -> bool:
    """Fill in the integers of successive rows; False if a number is not finite."""
    for a in range(len(integers)):
        if not centre_row(block[first + a], taken, reach, integers[a]):
            return False
        round_row(integers[a], multipliers, half_width)
    return True


@exact_reduction
def _dot(x: FloatArray, y: FloatArray) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@compiled
def _square_of(rows: FloatArray) -> float:
    """The squared Frobenius norm of Y'Y, and of YY'; whichever has fewer entries is made."""
    if len(rows) > rows.shape[1]:
        rows = np.ascontiguousarray(rows.T)
    total = 0.0
    for a in range(len(rows)):
        part = 0.0
        for b in range(a):
            product = _dot(rows[a], rows[b])
            part += product * product
        own = _dot(rows[a], rows[a])
        total += 2.0 * part + own * own
    return total


@compiled
def _bound_units(
    block: FloatArray,
    starts: IntArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    bound: float,
    integers: FloatArray,
) -> bool:
    largest = bound * bound * _INSIDE
    for u in range(len(starts) - 1):
        first, stop = starts[u], starts[u + 1]
        own = integers[first - starts[0] : stop - starts[0]]
        if not _fill_rows(block, first, taken, reach, multipliers, half_width, own):
            return False
        square = _square_of(own)
        if square <= largest:
            continue
        whole, factor = own.copy(), math.sqrt(bound / math.sqrt(square))
        while square > largest:
            for a in range(len(own)):
                for i in range(own.shape[1]):
                    own[a, i] = np.trunc(whole[a, i] * factor)
            square = _square_of(own)
            factor *= _AGAIN
    return True


@compiled
def _count_units(
    block: FloatArray,
    starts: IntArray,
    taken: FloatArray,
    reach: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    total: IntArray,
) -> bool:
    longest = 1
    for u in range(len(starts) - 1):
        longest = max(longest, starts[u + 1] - starts[u])
    room = np.empty((longest, block.shape[1]))
    for u in range(len(starts) - 1):
        own = room[: starts[u + 1] - starts[u]]
        if not _fill_rows(block, starts[u], taken, reach, multipliers, half_width, own):
            return False
        mantissa, exponent = math.frexp(_square_of(own))
        place = 2 * exponent + (1 if mantissa >= ROOT_HALF else 0)
        total[min(place, len(total) - 1)] += 1
    return True
