"""Screening scores: how strongly each pair of features moves together, in integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import LARGEST_EXACT_FLOAT32, Float32Array, FloatArray, IntArray
from hushcov._compiled import compiled
from hushcov.exceptions import CapacityError
from hushcov.records.grids import FeatureGrid
from hushcov.records.protocol import Progress, Records, is_tensor

#: Sums of products of features start..stop-1 (rows) with features from start on (columns).
Panel = Callable[[int, int], IntArray]

PANEL_BYTES = 2**30  # bytes of sums held in one pass over the records
STRIP = 2048  # rows of a matrix product converted to integers at a time


def sign_gram(
    records: Records, start: int = 0, stop: int | None = None, *, progress: Progress | None = None
) -> IntArray:
    """Return the sum over records of sgn(x_i) sgn(x_j), an integer matrix; sgn(0) is 0.

    Its rows are features `start` to `stop` - 1, its columns features from `start` on. Entries
    below the diagonal may be left out, as zeros.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry by at most 2,
    whatever the values: a product of two signs lies in [-1, 1].
    """
    panel = _SignPanel(start, records.n_features if stop is None else stop)
    return records.map_sum(panel, progress=progress)


def clipped_gram(
    records: Records,
    grid: FeatureGrid,
    start: int = 0,
    stop: int | None = None,
    *,
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum over records of y_i y_j for coordinates y on a coarse grid, as `sign_gram`.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry by at most
    2 half_width^2.
    """
    if grid.half_width**2 > LARGEST_EXACT_FLOAT32:
        raise CapacityError(
            f"half_width must be at most 4096 for exact sums, got {grid.half_width}: use a coarser "
            "grid."
        )
    grid.check_features(records.n_features)
    stop = records.n_features if stop is None else stop
    panel = _ClippedPanel(start, stop, grid.multipliers, grid.half_width)
    return records.map_sum(panel, progress=progress)


def pair_scores(panel: Panel, n_features: int, largest: int) -> NDArray[Any]:
    """Absolute sums of all pairs i < j, row by row, from panels that fit in memory.

    `largest` bounds them; if it is below 2^31 they take four bytes each. Up to 11,585 features
    there is one pass over the records, beyond about (n_features / 11,585)^2 / 2.
    """
    d = n_features
    scores = np.empty(d * (d - 1) // 2, dtype=np.int32 if largest < 2**31 else np.int64)
    start = filled = 0
    while start < d - 1:
        stop = min(d, start + max(1, PANEL_BYTES // (8 * (d - start))))
        sums = panel(start, stop)
        for i in range(stop - start):
            row = sums[i, i + 1 :]
            np.abs(row, out=scores[filled : filled + len(row)], casting="unsafe")
            filled += len(row)
        start = stop
    return scores


@dataclass(frozen=True, eq=False)
class _SignPanel:
    """Sums of products of signs in a block. Picklable, as all block functions."""

    start: int
    stop: int

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            from hushcov.records.sums import tensor_kernels

            return tensor_kernels.sign_gram(block[:, self.start :], self.stop - self.start)
        signs = np.empty((len(block), block.shape[1] - self.start), dtype=np.float32)
        _fill_signs(block[:, self.start :], signs)
        return _exact_panel(signs, self.stop - self.start, 1)


@dataclass(frozen=True, eq=False)
class _ClippedPanel:
    """Sums of products on a grid in a block. Picklable, as all block functions."""

    start: int
    stop: int
    multipliers: FloatArray
    half_width: int

    def __call__(self, block: Any) -> Any:
        width, n_rows = float(self.half_width), self.stop - self.start
        multipliers, block = self.multipliers[self.start :], block[:, self.start :]
        if is_tensor(block):
            from hushcov.records.sums import tensor_kernels as kernels

            on_grid = kernels.integers_on_grid(block, multipliers, width)
            return kernels.exact_panel(on_grid, n_rows, self.half_width**2)
        integers = np.empty(block.shape, dtype=np.float32)
        _fill_integers(block, multipliers, width, integers)
        return _exact_panel(integers, n_rows, self.half_width**2)


def _exact_panel(integers: Float32Array, n_rows: int, largest_product: int) -> IntArray:
    """The first rows of a Gram matrix of small integers, in float32: half the time of float64.

    Products are taken of so many records at a time that partial sums are exact.
    """
    exact_rows = LARGEST_EXACT_FLOAT32 // largest_product
    d = integers.shape[1]
    panel = np.zeros((n_rows, d), dtype=np.int64)
    for first in range(0, len(integers), exact_rows):
        part = integers[first : first + exact_rows]
        for top in range(0, n_rows, STRIP):
            left = part[:, top : min(top + STRIP, n_rows)]
            # If all fits in one strip, the product is symmetric and BLAS computes half of it.
            right = part if left.shape[1] == d else part[:, top:]
            panel[top : top + left.shape[1], d - right.shape[1] :] += (left.T @ right).astype(
                np.int64
            )
    return panel


@compiled
def _fill_signs(block: FloatArray, signs: Float32Array) -> None:
    for a in range(block.shape[0]):
        for i in range(block.shape[1]):
            signs[a, i] = np.float32(block[a, i] > 0.0) - np.float32(block[a, i] < 0.0)


@compiled
def _fill_integers(
    block: FloatArray,
    multipliers: FloatArray,
    half_width: float,
    integers: Float32Array,
) -> None:
    for a in range(block.shape[0]):
        for i in range(block.shape[1]):
            scaled = block[a, i] * multipliers[i]
            integers[a, i] = np.rint(min(max(scaled, -half_width), half_width))
