"""The strongest pairs of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IndexArray, IntArray, Matrix
from hushcov.postprocess.matrices import is_sparse, row_blocks, upper_pairs


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of two features, row before column, each with a value."""

    rows: IntArray
    columns: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, chosen: IndexArray | BoolArray | slice) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.rows[chosen], self.columns[chosen], self.values[chosen])

    def strongest(self, most: int) -> Pairs:
        """Return at most so many pairs, in their order."""
        if len(self) <= most:
            return self
        kept = np.argpartition(np.abs(self.values), len(self) - most)[len(self) - most :]
        return self.at(np.sort(kept))

    def strongest_first(self) -> Pairs:
        """Return all pairs by the size of their values; equal ones stay in order."""
        return self.at(np.argsort(-np.abs(self.values), kind="stable"))

    @property
    def places(self) -> list[tuple[int, int]]:
        """Row and column of each pair."""
        return list(zip(self.rows.tolist(), self.columns.tolist(), strict=True))


class Scan(NamedTuple):
    """The strongest pairs of a matrix, row by row, and how many were looked for."""

    pairs: Pairs
    total: int


def scan(matrix: Matrix, factors: FloatArray, *, most: int, above: float = 0.0) -> Scan:
    """Return the `most` strongest entries above the diagonal whose size is more than `above`.

    Entries are multiplied by the factors of their two features. What is not a finite number then
    is left out. Of a dense matrix only some rows are looked at at a time.
    """
    if is_sparse(matrix):
        rows, columns, values = upper_pairs(matrix)
        values = values * (factors[rows] * factors[columns])
        found = Pairs(rows, columns, values)
        there = np.isfinite(values) & (np.abs(values) > above)
        found = found if there.all() else found.at(there)
        return Scan(found.strongest(most), len(found))
    nowhere = np.empty(0, dtype=np.int64)
    held, total, left_out = Pairs(nowhere, nowhere, np.empty(0)), 0, 0.0
    for block in row_blocks(len(factors)):
        values = matrix[block] * np.multiply.outer(factors[block], factors)
        sizes = np.triu(np.abs(values), block.start + 1)
        sizes[~np.isfinite(sizes)] = 0.0
        total += int(np.count_nonzero(sizes > above))
        rows, columns = np.nonzero(sizes > max(above, left_out))
        together = Pairs(
            np.concatenate([held.rows, rows + block.start]),
            np.concatenate([held.columns, columns]),
            np.concatenate([held.values, values[rows, columns]]),
        )
        held = together.strongest(most)
        if len(held) < len(together):  # no pair left out is larger than this
            left_out = max(left_out, float(np.abs(held.values).min(initial=np.inf)))
    return Scan(held, total)
