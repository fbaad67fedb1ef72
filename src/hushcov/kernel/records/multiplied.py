"""Records multiplied by a public matrix of integers, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, like
from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import MappedRecords, Records


class MultipliedRecords(MappedRecords):
    """The rows y M + c, where y are a record's integers on a grid; M and c are integers.

    Rows and matrix are small enough for every partial sum of a product to be an integer that
    float64 holds exactly. So the rows are the same whatever the block size, the order of the
    records and the library that multiplies. A row of zeros, such as one that misses a value, stays
    zeros. With `by_last` every integer is multiplied by the last of its row, which is left out: one
    rounding at most, the same everywhere.

    Parameters
    ----------
    records : Records
        What is transformed.
    grid : FeatureGrid
        How a record is clipped and rounded to integers.
    matrix : ndarray of shape (n_features, n_columns)
        Public integers, as float64 or int64, small enough to keep
        n_features * half_width * max |matrix| below 2**53.
    constant : ndarray of shape (n_columns,), optional
        Public integers; they count as one more feature of half width 1. Zeros if left out.

    Privacy
    -------
    Nothing here is private by itself. Each row is mapped on its own, so neighbours stay
    neighbours; the matrix must be public, or released before.
    """

    def __init__(
        self,
        records: Records,
        grid: FeatureGrid,
        matrix: FloatArray,
        constant: FloatArray | None = None,
        by_last: bool = False,
    ) -> None:
        grid.check_features(records.n_features)
        if matrix.ndim != 2 or matrix.shape[0] != grid.n_features or matrix.shape[1] == 0:
            raise DataError(
                f"matrix must have a row for each of the {grid.n_features} features and at least "
                f"one column, got shape {matrix.shape}: pass the matrix that multiplies a record "
                "from the right."
            )
        added = np.zeros(matrix.shape[1]) if constant is None else constant
        both = np.vstack([matrix, added])
        if not np.array_equal(both, np.rint(both)) or not np.isfinite(both).all():
            raise ParameterError(
                "matrix must hold integers, got other numbers: round it to a public step."
            )
        # In Python's integers: in int64, the absolute value of the smallest one overflows.
        largest = max(abs(int(both.max())), abs(int(both.min())))
        terms = grid.n_features * grid.half_width + (constant is not None)
        if terms * largest >= LARGEST_EXACT_FLOAT:
            raise CapacityError(
                "matrix must keep n_features * half_width * its largest entry below 2**53, got "
                f"{grid.n_features} features and half_width {grid.half_width}: products are not "
                "exact beyond that; use a coarser step for the matrix or for the records."
            )
        super().__init__(records)
        self.n_features, self.feature_names = int(matrix.shape[1]) - by_last, None
        self._grid, self._by_last = grid, by_last
        self._matrix, self._constant = np.asarray(matrix, np.float64), np.asarray(added, np.float64)
        self._public = {"grid": grid, "matrix": matrix, "constant": constant, "by_last": by_last}

    def _mapped(self, block: Any, xp: Any) -> Any:
        half_width = float(self._grid.half_width)
        integers = xp.clip(block * like(self._grid.multipliers, block), -half_width, half_width)
        integers = xp.round(integers)
        there = (integers != 0).any(1)[:, None]
        rows = integers @ like(self._matrix, block) + there * like(self._constant, block)
        return rows[:, :-1] * rows[:, -1:] if self._by_last else rows
