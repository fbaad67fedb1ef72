"""Views of genotypes that a session takes, and queries that it answers, by `docs/proofs/genotypes`.

A record is one person.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hushcov._arrays import LARGEST_SUM, BoolArray, IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting import Neighbours
from hushcov.kernel.queries import Query, histograms
from hushcov_genotypes.reading import GenotypeBlock, GenotypeRecords

#: How much more exact a pair is than a variance: correlations hardly feel the noise of the latter.
PAIR_WEIGHT, DIAGONAL_WEIGHT = 2, 1


def streamed(records: GenotypeRecords, n_variants: int, reach: int) -> Iterator[GenotypeBlock]:
    """Return a stream of blocks of variants; see `GenotypeRecords.blocks`."""
    return records.blocks(n_variants, reach)


def next_block(blocks: Iterator[GenotypeBlock], span: tuple[int, int, int]) -> GenotypeBlock:
    """Return the next block of a stream, which has its start, stop and end where it is expected."""
    block = next(blocks, None)
    if block is None or (block.start, block.stop, block.end) != span:
        start, stop, end = span
        raise PrivacyConditionError(  # proof: step 6
            f"the next block must be of variants {start:,} to {stop:,} with those up to {end:,}: "
            "noise was divided among such blocks."
        )
    return block


@dataclass(eq=False)
class ScaledBlock:
    """A block whose genotypes are integers: slope * copies - offset, and 0 for a missing call."""

    block: GenotypeBlock
    slopes: IntArray
    offsets: IntArray
    ends: IntArray

    @cached_property
    def squared_norms(self) -> IntArray:
        """At least the squared norm of what each record adds to weighted products and squares."""
        integers = self.slopes, self.offsets, self.ends
        return self.block.squared_norms(*integers, PAIR_WEIGHT, DIAGONAL_WEIGHT)

    def products(self, kept: BoolArray) -> tuple[IntArray, IntArray]:
        """Return sums of products in windows, and of squares, over the records that are kept."""
        return self.block.products(kept, self.slopes, self.offsets, self.ends)


@dataclass(frozen=True, eq=False)
class CallCounts(Query):
    """Counts of calls of variants of a block, from the `first` on, and then of their alleles."""

    first: int
    n_variants: int
    alleles: bool

    def exact(self, records: GenotypeBlock) -> IntArray:
        part = slice(self.first, self.first + self.n_variants)
        alleles, calls = (each[part] for each in records.counts())
        return np.concatenate([calls, alleles] if self.alleles else [calls])

    def squared_distance(self, relation: Neighbours) -> int | Fraction:
        each = relation.moved(replaced=4, removed=2) if self.alleles else 1
        return each * self.n_variants  # proof: step 1


@dataclass(frozen=True, eq=False)
class BlockNormCounts(Query):
    """Counts of records by squared norm in a scaled block, between `edges` and beyond the last."""

    edges: IntArray

    def exact(self, records: ScaledBlock) -> IntArray:
        bins = np.searchsorted(self.edges, records.squared_norms)
        return np.bincount(bins, minlength=len(self.edges) + 1)

    def squared_distance(self, relation: Neighbours) -> int | Fraction:
        return histograms(1, relation)  # proof: step 3


@dataclass(frozen=True, eq=False)
class KeptProducts(Query):
    """Sums of products and of squares of records up to `bound`, and `weight` times their number."""

    bound: int
    weight: int

    def exact(self, records: ScaledBlock) -> IntArray:
        kept = records.squared_norms <= min(self.bound**2, LARGEST_SUM)  # proof: step 4
        pairs, squares = records.products(kept)
        number = [self.weight * int(kept.sum())]
        return np.concatenate([PAIR_WEIGHT * pairs, DIAGONAL_WEIGHT * squares, number])

    def squared_distance(self, relation: Neighbours) -> int | Fraction:
        one = self.bound**2 + self.weight**2  # a record that is kept, beside one that is not
        both = 4 * self.bound**2
        return relation.moved(replaced=max(both, one), removed=one)  # proof: step 5
