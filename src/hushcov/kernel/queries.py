"""Every statistic that is released, with how far neighbouring datasets can differ in it.

A query computes exact integers, and states the largest distance between those of neighbours as a
number, from public inputs alone. `Session` charges for it, draws the noise, and returns the sum.
Each proof is a step of a page in `docs/proofs/`, and one test attacks every class in this module.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting.composition import smallest_sigma
from hushcov.kernel.accounting.neighbours import ONE_REPLACED, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise.gumbel import TAKEN
from hushcov.kernel.noise.normal import LARGEST_SIGMA
from hushcov.kernel.records.base import Records, default_block_rows
from hushcov.kernel.records.compact import copy_bytes
from hushcov.kernel.scores import TILT_UNIT, PairScores
from hushcov.kernel.sums.bounded import MOST_PRODUCTS, bounded_sums_of, fourth_sums_of, unit_means
from hushcov.kernel.sums.counts import (
    LARGEST_EXPONENT,
    N_OCTAVES,
    SMALLEST_EXPONENT,
    cell_counts,
    count_complete,
    edge_counts,
    norm_counts_of,
    sign_sums,
    signed_octaves,
)
from hushcov.kernel.sums.gram import (
    PANEL_BYTES,
    row_bounded_gram,
    unit_bounded_gram,
    unit_norm_histogram,
)
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import RowSums
from hushcov.kernel.sums.signs import PACKED_PANEL_BYTES, TILE_BYTES, TILE_ROWS, signs_kept
from hushcov.kernel.sums.statistics import RecordMap, Statistics


class Query(ABC):
    """A statistic that is released with normal noise.

    Neighbours differ in one record, or in one unit where `rows_per_unit` says that the rows of a
    unit are bounded as one. Noise is charged for a record: a unit costs as many times more.
    """

    #: What it is computed from: the rows of "records", or "statistics" that were summed before.
    reads: ClassVar[str] = "records"
    #: Whether it is a symmetric matrix, whose diagonal may have more noise than the rest.
    symmetric: ClassVar[bool] = False
    #: The power of coordinates on a grid that it sums; 0 of counts.
    power: ClassVar[int] = 0

    @property
    def rows_per_unit(self) -> int:
        """Number of rows of a unit that are bounded as one: `most_rows` of such a query, or 1."""
        return int(getattr(self, "most_rows", 1))

    @property
    def unit(self) -> float:
        """The public value of one integer, in units of the scales."""
        grid: FeatureGrid | None = getattr(self, "grid", None)
        return 1.0 if grid is None else grid.step**self.power

    def exact(self, records: Any) -> IntArray:
        """Return the exact integers, which are not private."""
        source: Query | None = getattr(self, "source", None)
        if source is not None:
            return self.derived(source.exact(records))
        return np.asarray(records.map_sum(self.row_sums(records)))

    def derived(self, sums: IntArray) -> IntArray:
        """Return the exact integers from those of its `source`, another query, where it has one."""
        raise NotImplementedError(f"{type(self).__name__} is computed from records")

    @abstractmethod
    def squared_distance(self, relation: Neighbours) -> int | Fraction:
        """Return the largest squared distance between the integers of neighbours."""

    def row_sums(self, records: Records) -> RowSums:
        """Return the sums over rows that it is, where other sums can be read together with it."""
        raise NotImplementedError(f"{type(self).__name__} is read by itself")

    def charged(self, relation: Neighbours) -> Fraction:
        """Return the part of the squared distance that one record is charged for.

        A unit of M records is charged M times the mu of one. So where its records are bounded as
        one, the squared distance of a unit is divided by M^2.
        """
        square = Fraction(self.squared_distance(relation))
        if self.rows_per_unit == 1:
            return square
        if self.rows_per_unit != relation.together:
            raise PrivacyConditionError(
                f"sums must bound {relation.together} records as one, which noise is for, got "
                f"{self.rows_per_unit}: make them for these neighbours."
            )
        return relation.shared(square)  # proof: gaussian, step 7

    def deviations(self, mu: float, relation: Neighbours) -> tuple[int, ...]:
        """Return the least noise at which neighbours are at most `mu` deviations apart."""
        return (smallest_sigma(self.charged(relation), mu),)

    def loss(self, deviations: tuple[int, ...], relation: Neighbours) -> Fraction:
        """Return the squared distance of neighbours in deviations of this noise, of a record."""
        return self.charged(relation) / deviations[0] ** 2


class ScoreQuery(ABC):
    """Scores of several items, of which a few of the largest are selected."""

    source: Query  # from whose exact integers they are computed

    def exact(self, records: Any) -> IntArray:
        """Return the exact scores, which are not private."""
        return self.derived(self.source.exact(records))

    @abstractmethod
    def derived(self, sums: IntArray) -> IntArray:
        """Return the exact scores from the exact integers of `source`."""

    @abstractmethod
    def score_distance(self, relation: Neighbours) -> int:
        """Return the most that a score moves between neighbours that differ in one record."""


class LaplaceQuery(ABC):
    """A few counts that are released with Laplace noise; neighbours differ in one unit."""

    #: What it is computed from: "records", or the "units" themselves.
    reads: ClassVar[str] = "records"

    @abstractmethod
    def exact(self, source: Any) -> IntArray:
        """Return the exact counts, which are not private."""

    @abstractmethod
    def distance(self, relation: Neighbours) -> int:
        """Return the largest sum of differences between the counts of neighbours."""


# How many records there are.


@dataclass(frozen=True, eq=False)
class RowCount(LaplaceQuery):
    """The number of records, of which one unit has at most `most_rows`."""

    most_rows: int

    def exact(self, source: Any) -> IntArray:
        return np.array([source.n_rows], dtype=np.int64)

    def distance(self, relation: Neighbours) -> int:
        return self.most_rows  # proof: neighbours, step 4


@dataclass(frozen=True, eq=False)
class UnitSizes(LaplaceQuery):
    """Number of units by how many records they have, counted in octaves."""

    n_octaves: int
    reads: ClassVar[str] = "units"

    def exact(self, source: Any) -> IntArray:
        octave = np.frexp(source.sizes.astype(np.float64))[1] - 1
        counts = np.bincount(np.minimum(octave, self.n_octaves - 1), minlength=self.n_octaves)
        return counts.astype(np.int64)

    def distance(self, relation: Neighbours) -> int:
        # A unit is in one bin.
        return relation.moved(replaced=2, removed=1)  # proof: neighbours, step 4


@dataclass(frozen=True, eq=False)
class CompleteRows(Query):
    """The number of records that miss no value; `source` counts them once in every row."""

    source: SignedOctaves | None = None

    def exact(self, records: Any) -> IntArray:
        if self.source is not None:
            return super().exact(records)
        return np.array([count_complete(records.unfilled())], dtype=np.int64)

    def derived(self, sums: IntArray) -> IntArray:
        return np.asarray(sums[:1].sum(axis=1))

    def squared_distance(self, relation: Neighbours) -> int:
        return 1  # proof: complete, step 1


# Counts by octave, by cell and between edges: a record is in one bin of each histogram.


def histograms(number: int, relation: Neighbours) -> int:
    """Return the squared distance where a record is in one bin of each of so many histograms."""
    return relation.moved(replaced=2 * number, removed=number)


@dataclass(frozen=True, eq=False)
class SignedOctaves(Query):
    """Counts of some columns by sign and octave about a centre; see `signed_octaves_of`."""

    centre: FloatArray
    dead_zone: FloatArray
    columns: IntArray

    def exact(self, records: Any) -> IntArray:
        return signed_octaves(records, self.centre, self.dead_zone, self.columns)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(len(self.columns), relation)  # proof: location, step 1


@dataclass(frozen=True, eq=False)
class CellCounts(Query):
    """Counts of some columns in equal cells; see `cell_counts`."""

    columns: IntArray
    starts: FloatArray
    widths: FloatArray
    firsts: IntArray
    n_cells: int

    def exact(self, records: Any) -> IntArray:
        cells = self.starts, self.widths, self.firsts, self.n_cells
        return cell_counts(records, self.columns, *cells)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(len(self.columns), relation)  # proof: location, step 1


@dataclass(frozen=True, eq=False)
class LevelCounts(Query):
    """Counts of some columns between edges, in bins of several sizes side by side."""

    columns: IntArray
    edges: FloatArray
    sizes: tuple[int, ...]

    def exact(self, records: Any) -> IntArray:
        counts = edge_counts(records, self.columns, self.edges)
        levels = [counts.reshape(len(counts), size, -1).sum(axis=2) for size in self.sizes]
        return np.concatenate(levels, axis=1)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(len(self.sizes) * len(self.columns), relation)  # proof: quantiles, step 1


@dataclass(frozen=True, eq=False)
class NormCounts(Query):
    """Counts of records by squared norm, between `edges` in squared steps of the grid."""

    grid: FeatureGrid
    edges: tuple[int, ...]

    def row_sums(self, records: Records, *, signs: bool = False) -> RowSums:
        # `signs` puts sums of signs before the counts.
        return norm_counts_of(records, self.grid, self.edges, signs=signs)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(1, relation)  # proof: norms, step 1


@dataclass(frozen=True, eq=False)
class UnitNormCounts(Query):
    """Counts of units by the norm of their matrix, in quarter octaves."""

    grid: FeatureGrid
    most_rows: int

    def exact(self, records: Any) -> IntArray:
        return unit_norm_histogram(records, self.grid, self.most_rows)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(1, relation)  # proof: norms, step 2


@dataclass(frozen=True, eq=False)
class ProductNormCounts(Query):
    """Counts of records, or of units, by the norm of their products."""

    products: ProductMap

    @property
    def rows_per_unit(self) -> int:
        return self.products.rows_per_unit

    def exact(self, records: Any) -> IntArray:
        return self.products.norm_histogram(records)

    def squared_distance(self, relation: Neighbours) -> int:
        return histograms(1, relation)  # proof: norms, step 1


# Sums of records of bounded norm.


@dataclass(frozen=True, eq=False)
class BoundedSums(Query):
    """Sums of the features on a grid, where no record is longer than `bound` steps."""

    grid: FeatureGrid
    bound: int
    power: ClassVar[int] = 1

    def row_sums(self, records: Records) -> RowSums:
        return bounded_sums_of(records, self.grid, self.bound)

    def squared_distance(self, relation: Neighbours) -> int:
        return relation.moved(
            replaced=4 * self.bound**2, removed=self.bound**2
        )  # proof: preparation, step 2


@dataclass(frozen=True, eq=False)
class UnitSums(Query):
    """Sums of units that are bounded as one, and a number that says how far they were shrunk."""

    grid: FeatureGrid
    bound: int
    factor_range: int
    most_rows: int
    power: ClassVar[int] = 1

    def exact(self, records: Any) -> IntArray:
        return unit_means(records, self.grid, self.bound, self.factor_range, self.most_rows)

    def squared_distance(self, relation: Neighbours) -> int:
        square = relation.moved(replaced=4 * self.bound**2, removed=self.bound**2)
        return square + self.factor_range**2  # proof: preparation, step 11


def bounded_products(norm_bound: int, ranges: tuple[int, int], relation: Neighbours) -> int:
    """Return the squared distance of vectors up to `norm_bound` and two numbers in their ranges."""
    square, beside = norm_bound**2, sum(part**2 for part in ranges)  # proof: preparation, step 8
    return relation.moved(replaced=4 * square, removed=square) + beside  # proof: screened, step 5


@dataclass(frozen=True, eq=False)
class Products(Query):
    """Sums of products of pairs and of squares, with how far records were shrunk; `ProductMap`."""

    products: ProductMap

    @property
    def rows_per_unit(self) -> int:
        return self.products.rows_per_unit

    @property
    def unit(self) -> float:
        return self.products.grid.step**2

    def exact(self, records: Any) -> IntArray:
        return self.products.sum(records)

    def row_sums(self, records: Records) -> RowSums:
        return self.products.sums_of(records)

    def squared_distance(self, relation: Neighbours) -> int:
        ranges = self.products.factor_range, self.products.size_range
        return bounded_products(self.products.norm_bound, ranges, relation)


@dataclass(frozen=True, eq=False)
class SignSums(Query):
    """Sums of the signs of every feature."""

    n_features: int

    def exact(self, records: Any) -> IntArray:
        return sign_sums(records)

    def squared_distance(self, relation: Neighbours) -> int:
        d = self.n_features
        return relation.moved(replaced=4 * d, removed=d)  # proof: preparation, step 5


@dataclass(frozen=True, eq=False)
class FourthPowers(Query):
    """Sums of fourth powers in units of 2^`unit_bits`; no record's are longer than `bound`."""

    grid: FeatureGrid
    unit_bits: int
    bound: int

    @property
    def unit(self) -> float:
        return 2.0**self.unit_bits * self.grid.step**4

    def row_sums(self, records: Records) -> RowSums:
        return fourth_sums_of(records, self.grid, self.unit_bits, self.bound)

    def squared_distance(self, relation: Neighbours) -> int:
        # No number is negative.
        return relation.moved(
            replaced=2 * self.bound**2, removed=self.bound**2
        )  # proof: preparation, step 6


# Whole matrices.

# From this ratio of norm bound to half width on, diagonal noise as small as the rest costs the
# rest 3 % at most. Below it the ratio sqrt(2), which costs nothing, is as good or better.
_EQUAL_NOISE_FROM = 4


def squared_sensitivity(
    n_features: int,
    half_width: int,
    norm_bound: int | None,
    sigma: int,
    diagonal_sigma: int,
    neighbours: Neighbours = ONE_REPLACED,
) -> Fraction:
    """Return the most that one record moves the upper triangle, squared, each entry over its sd.

    For integer records with coordinates of at most `half_width` and norm at most `norm_bound`.
    """
    d, h, B = n_features, half_width, norm_bound
    h = h if B is None else min(h, B)
    # proof: gaussian, step 3
    odd = d % 2 == 1 and d > 1
    moved = neighbours.moved(replaced=d**2 - odd, removed=d * (d + 1) // 2)
    coordinates = Fraction(h**4 * moved, min(sigma, diagonal_sigma) ** 2)
    if B is None:
        return coordinates
    # proof: gaussian, step 2
    excess = max(Fraction(2, diagonal_sigma**2) - Fraction(1, sigma**2), Fraction(0))
    replaced = Fraction(B**4, sigma**2) + h**2 * B**2 * excess
    return min(coordinates, neighbours.moved(replaced=replaced, removed=replaced / 2))


def noise_sigmas(
    n_features: int,
    half_width: int,
    norm_bound: int,
    mu: float,
    neighbours: Neighbours = ONE_REPLACED,
) -> tuple[int, int]:
    """Return the smallest noise off and on the diagonal whose mu is at most the given one."""
    d = n_features
    equal = d == 1 or norm_bound >= _EQUAL_NOISE_FROM * half_width
    square = squared_sensitivity(d, half_width, norm_bound, 1, 1 if equal else 2, neighbours)
    sigma = math.isqrt(math.floor(square / Fraction(mu) ** 2)) + 1
    return sigma, sigma if equal else math.isqrt(2 * sigma**2) + 1


@dataclass(frozen=True, eq=False)
class Gram(Query):
    """The matrix of second moments on a grid, where no record is longer than `bound` steps."""

    grid: FeatureGrid
    bound: int
    symmetric: ClassVar[bool] = True
    power: ClassVar[int] = 2

    def exact(self, records: Any) -> IntArray:
        return row_bounded_gram(records, self.grid, self.bound)

    def squared_distance(self, relation: Neighbours) -> Fraction:
        # Of the upper triangle.
        return self.loss((1, 1), relation)

    def deviations(self, mu: float, relation: Neighbours) -> tuple[int, ...]:
        # Off and on the diagonal.
        return noise_sigmas(*self._size, mu, relation)

    def loss(self, deviations: tuple[int, ...], relation: Neighbours) -> Fraction:
        (d, h, B), (off, on) = self._size, deviations
        return squared_sensitivity(d, h, B, off, on, relation)  # proof: gaussian, step 4

    @property
    def _size(self) -> tuple[int, int, int]:
        return self.grid.n_features, self.grid.half_width, self.bound


@dataclass(frozen=True, eq=False)
class SummedGram(Gram):
    """The matrix of `Gram`, of records that were summed before at one site or at several."""

    reads: ClassVar[str] = "statistics"

    def exact(self, records: Any) -> IntArray:
        # `records` are the statistics, which keep their own.
        return np.array(records.gram)  # proof: gaussian, step 6


@dataclass(frozen=True, eq=False)
class UnitGram(Query):
    """The matrix of second moments, where the matrix of no unit is longer than `bound`."""

    grid: FeatureGrid
    bound: int
    most_rows: int
    symmetric: ClassVar[bool] = True
    power: ClassVar[int] = 2

    def exact(self, records: Any) -> IntArray:
        return unit_bounded_gram(records, self.grid, self.bound, self.most_rows)

    def squared_distance(self, relation: Neighbours) -> Fraction:
        # Of all entries, of which those off the diagonal are there twice.
        square = Fraction(self.bound**2)
        return relation.moved(replaced=square, removed=square / 2)  # proof: gaussian, step 7

    def deviations(self, mu: float, relation: Neighbours) -> tuple[int, ...]:
        """Return the noise off and on the diagonal, where it is larger by the root of two."""
        sigma = smallest_sigma(self.charged(relation), mu)
        return sigma, math.isqrt(2 * sigma**2) + 1

    def loss(self, deviations: tuple[int, ...], relation: Neighbours) -> Fraction:
        off, on = deviations
        square = min(Fraction(off**2), Fraction(on**2, 2))
        return self.charged(relation) / square  # proof: gaussian, step 7


# Agreement of signs.


@dataclass(frozen=True, eq=False)
class PairSigns(PairScores, Query):
    """Sums of products of signs, pair by pair; pairs are selected by their sizes."""

    def squared_distance(self, relation: Neighbours) -> int:
        # The products of a record have a norm of at most the root of their number, those of two
        # records a distance of at most the number of features; rounding moves a sum by less than 1.
        root = math.isqrt(self.n_pairs) + 1
        moved = relation.moved(
            replaced=min(self.n_features, 2 * root), removed=min(self.n_features, root)
        )
        return int(self.resolution * moved + self.rounding * root) ** 2  # proof: adaptive, step 7


@dataclass(frozen=True, eq=False)
class SelectedTotal(Query):
    """The sum of the sizes of selected scores."""

    source: PairSigns
    places: IntArray

    def derived(self, sums: IntArray) -> IntArray:
        return np.asarray(np.abs(sums[self.places]).sum(dtype=np.int64, keepdims=True))

    def squared_distance(self, relation: Neighbours) -> int:
        moved = self.source.score_distance(relation) * len(self.places)
        return moved**2  # proof: adaptive, step 3
