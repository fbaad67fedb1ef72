"""Exact second moments: one pass over the records, in integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._validation import check_integer
from hushcov.exceptions import CapacityError, DataError, ParameterError
from hushcov.records.arrays import is_tensor
from hushcov.records.grid import IntegerGrid
from hushcov.records.source import Progress, Records

# Every integer up to this size is a float64.
_LARGEST_EXACT_FLOAT = 2**53


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """The integer Gram matrix of records on a grid: gram[i, j] = sum over records of y_i y_j.

    Parameters
    ----------
    gram : ndarray of int64, shape (n_features, n_features)
        Symmetric; stored as a read-only copy, and left out of the repr because it is not private.
    n_records : int
        Number of records summed over.
    grid : IntegerGrid
        Grid on which the records were rounded.

    Privacy
    -------
    Nothing here is private by itself: `gram` and `covariance()` are exact statistics of the
    records and must not be released. Neighbours differ by the replacement of one record. The
    sensitivities below are exact integers that depend on the grid alone.
    """

    gram: NDArray[np.int64] = field(repr=False)
    n_records: int
    grid: IntegerGrid

    def __post_init__(self) -> None:
        n_records = check_integer(
            "n_records", self.n_records, at_least=1, cure="pass the public number of records."
        )
        if not isinstance(self.grid, IntegerGrid):
            raise ParameterError(
                f"grid must be an IntegerGrid, got {type(self.grid).__name__}: "
                "make one with IntegerGrid.for_records."
            )
        _check_gram(self.gram, n_records * self.grid.half_width**2)
        gram = self.gram.copy()
        gram.setflags(write=False)
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "n_records", n_records)

    @property
    def n_features(self) -> int:
        """Number of features d; the Gram matrix is d x d."""
        return len(self.gram)

    @property
    def entry_sensitivity(self) -> int:
        """Most that any entry of `gram` can move when one record is replaced: 2 half_width^2.

        Proof. Only the replaced record's term changes, so gram[i, j] moves by
        y'_i y'_j - y_i y_j. Each coordinate is an integer in [-half_width, half_width], so both
        products lie in [-half_width^2, half_width^2] and differ by at most twice that. Off the
        diagonal, y = (h, h) and y' = (h, -h) with h = half_width attain it.
        """
        return 2 * self.grid.half_width**2

    @property
    def diagonal_sensitivity(self) -> int:
        """Most that a diagonal entry can move when one record is replaced: half_width^2.

        Proof. As for `entry_sensitivity`, but squares lie in [0, half_width^2]; replacing 0 by
        half_width attains it.
        """
        return self.grid.half_width**2

    def covariance(self) -> NDArray[np.float64]:
        """Return S = gram step^2 / n_records, the second moments in the units of the records."""
        return self.gram * np.float64(self.grid.step**2 / self.n_records)


def second_moments(
    records: Records, grid: IntegerGrid, *, progress: Progress | None = None
) -> SecondMoments:
    """Return the exact second moments of `records` on `grid`, in one pass.

    The result is the same bit for bit whatever the block size, the order of the records and
    the number of threads, because no rounding takes place after the grid's.

    Parameters
    ----------
    records : Records
        Where the rows are; see `open_records`.
    grid : IntegerGrid
        Public grid; `IntegerGrid.for_records` makes one that always has room.
    progress : callable, optional
        Called after each block with the number of rows in it.

    Privacy
    -------
    Nothing here is private by itself; see `SecondMoments`.
    """
    largest_product = grid.half_width**2
    if records.n_records * largest_product >= 2**63:
        raise CapacityError(
            f"half_width must keep n_records * half_width**2 below 2**63, got {grid.half_width} "
            f"for {records.n_records} records: use IntegerGrid.for_records."
        )
    gram = records.map_sum(_BlockGram(grid), progress=progress)
    return SecondMoments(gram, records.n_records, grid)


@dataclass(frozen=True)
class _BlockGram:
    """The Gram matrix of a block; it travels to where the rows are."""

    grid: IntegerGrid

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            return self._on_device(block)
        # In a product of this many rows every partial sum, in whatever order BLAS takes them, is
        # an integer of at most 2**53: exact.
        exact_rows = _LARGEST_EXACT_FLOAT // self.grid.half_width**2
        gram = _exact_gram(self.grid.quantise(block[:exact_rows]))
        for start in range(exact_rows, len(block), exact_rows):
            gram += _exact_gram(self.grid.quantise(block[start : start + exact_rows]))
        return gram

    def _on_device(self, block: Any) -> Any:
        from hushcov.records import tensor_kernels as kernels

        grid = self.grid
        integers = block.clamp(-grid.radius, grid.radius).mul_(grid.half_width / grid.radius)
        return kernels.exact_gram(integers.round_(), grid.half_width**2)


def _exact_gram(integers: NDArray[np.float64]) -> NDArray[np.int64]:
    return (integers.T @ integers).astype(np.int64)


def _check_gram(gram: NDArray[np.int64], largest_entry: int) -> None:
    """Refuse anything that cannot be a sum of products on the grid, without quoting entries."""
    if not isinstance(gram, np.ndarray) or gram.dtype != np.int64:
        kind = gram.dtype if isinstance(gram, np.ndarray) else type(gram).__name__
        raise DataError(f"gram must be an int64 array, got {kind}: use second_moments.")
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.size == 0:
        raise DataError(
            f"gram must be square with at least one feature, got shape {gram.shape}: "
            "use second_moments."
        )
    if not np.array_equal(gram, gram.T):
        raise DataError("gram must be symmetric: use second_moments.")
    if gram.diagonal().min() < 0:
        raise DataError("gram must have a nonnegative diagonal: use second_moments.")
    if int(gram.max()) > largest_entry or int(gram.min()) < -largest_entry:
        raise DataError(
            "gram must have entries of at most n_records * half_width**2 in absolute value: pass "
            "the n_records and grid it was summed with."
        )
