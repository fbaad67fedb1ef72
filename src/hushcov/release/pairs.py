"""Pairs of features of a matrix with their values, and the strongest of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IndexArray, IntArray
from hushcov.postprocess import Matrix, is_sparse, row_blocks, stored_above, upper_pairs, values_at


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of two features, row before column, each with a value."""

    rows: IntArray
    columns: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, chosen: IndexArray | BoolArray | slice) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.rows[chosen], self.columns[chosen], self.values[chosen])

    def strongest_first(self) -> Pairs:
        """All pairs by the size of their values; equal ones stay in order."""
        return self.at(np.argsort(-np.abs(self.values), kind="stable"))

    def likely_first(self) -> Pairs:
        """The same of correlations; those that only noise puts beyond 1 come last."""
        sizes = np.abs(self.values)
        return self.at(np.lexsort((-sizes, sizes > 1)))

    @property
    def places(self) -> list[tuple[int, int]]:
        """Row and column of each pair."""
        return list(zip(self.rows.tolist(), self.columns.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Scan:
    """The strongest pairs of a matrix, row by row.

    `total` counts those that were looked for, and no pair that was left out is larger than
    `cutoff`, which is None if none was.
    """

    pairs: Pairs
    total: int
    cutoff: float | None


def scan(matrix: Matrix, factors: FloatArray, *, most: int, above: float = 0.0) -> Scan:
    """The `most` strongest entries above the diagonal, of those whose size is more than `above`.

    Entries are multiplied by the factors of their two features. What is not a finite number then
    is left out. Of a dense matrix only some rows are looked at at a time.
    """
    if is_sparse(matrix):
        rows, columns, values = upper_pairs(matrix)
        values = values * (factors[rows] * factors[columns])
        found = Pairs(rows, columns, values)
        there = np.isfinite(values) & (np.abs(values) > above)
        found = found if there.all() else found.at(there)
        kept = strongest(found, most)
        return Scan(kept, len(found), _cutoff(found, kept))
    return _scan_dense(matrix, factors, most, above)


def _scan_dense(matrix: FloatArray, factors: FloatArray, most: int, above: float) -> Scan:
    nowhere = np.empty(0, dtype=np.int64)
    held, total, left_out = Pairs(nowhere, nowhere, np.empty(0)), 0, 0.0
    for block in row_blocks(len(factors)):
        values = matrix[block] * np.multiply.outer(factors[block], factors)
        sizes = np.triu(np.abs(values), block.start + 1)
        sizes[~np.isfinite(sizes)] = 0.0
        total += int(np.count_nonzero(sizes > above))
        rows, columns = np.nonzero(sizes > max(above, left_out))
        fresh = Pairs(rows + block.start, columns, values[rows, columns])
        together = Pairs(
            np.concatenate([held.rows, fresh.rows]),
            np.concatenate([held.columns, fresh.columns]),
            np.concatenate([held.values, fresh.values]),
        )
        held = strongest(together, most)
        left_out = max(left_out, _cutoff(together, held) or 0.0)
    return Scan(held, total, left_out or None)


def strongest(pairs: Pairs, most: int) -> Pairs:
    """At most so many pairs, in their order."""
    if len(pairs) <= most:
        return pairs
    kept = np.argpartition(np.abs(pairs.values), len(pairs) - most)[len(pairs) - most :]
    return pairs.at(np.sort(kept))


def _cutoff(pairs: Pairs, kept: Pairs) -> float | None:
    """The size that no pair left out exceeds."""
    return None if len(kept) == len(pairs) else float(np.abs(kept.values).min(initial=np.inf))


def ordered(selected: IntArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of pairs, the smaller one first, in the order of rows."""
    rows, columns = selected.min(axis=0), selected.max(axis=0)
    order = np.lexsort((columns, rows))
    return rows[order], columns[order]


def released_places(integers: Matrix, selected: IntArray) -> tuple[IntArray, IntArray]:
    """The same of the pairs of a release; its sparse matrix has them in order."""
    if is_sparse(integers):
        rows, columns, _ = stored_above(integers)
        return rows, columns
    return ordered(selected)


def pairs_at(matrix: Matrix, places: tuple[IntArray, IntArray], factors: FloatArray) -> Pairs:
    """The entries at these places, times the factors of their features."""
    rows, columns = places
    values = values_at(matrix, rows, columns) * (factors[rows] * factors[columns])
    return Pairs(rows, columns, np.asarray(values, dtype=np.float64))
