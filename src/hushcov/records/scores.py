"""Screening scores: how strongly each pair of features moves together, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._compiled import compiled
from hushcov.exceptions import CapacityError
from hushcov.records.arrays import is_tensor
from hushcov.records.feature_grid import FeatureGrid
from hushcov.records.source import Progress, Records

# float32 holds every integer up to this size, and its matrix products take half the time.
_LARGEST_EXACT_FLOAT32 = 2**24


def sign_gram(records: Records, *, progress: Progress | None = None) -> npt.NDArray[np.int64]:
    """Return the sum over records of sgn(x_i) sgn(x_j), an integer matrix; sgn(0) is 0.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry by at most 2,
    whatever the values: a product of two signs lies in [-1, 1].
    """
    return records.map_sum(_sign_gram, progress=progress)


def clipped_gram(
    records: Records, grid: FeatureGrid, *, progress: Progress | None = None
) -> npt.NDArray[np.int64]:
    """Return the sum over records of y_i y_j for coordinates y on a coarse grid.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry by at most
    2 half_width^2.
    """
    if grid.half_width**2 > _LARGEST_EXACT_FLOAT32:
        raise CapacityError(
            f"half_width must be at most 4096 for exact sums, got {grid.half_width}: use a coarser "
            "grid."
        )
    grid.check_features(records.n_features)
    block_gram = _ClippedGram(grid.multipliers, grid.half_width)
    return records.map_sum(block_gram, progress=progress)


def _sign_gram(block: Any) -> Any:
    if is_tensor(block):
        from hushcov.records import tensor_kernels

        return tensor_kernels.sign_gram(block)
    signs = np.empty(block.shape, dtype=np.float32)
    _fill_signs(block, signs)
    return _exact_gram(signs, 1)


@dataclass(frozen=True, eq=False)
class _ClippedGram:
    """The Gram matrix of a block on a grid; it travels to where the rows are."""

    multipliers: npt.NDArray[np.float64]
    half_width: int

    def __call__(self, block: Any) -> Any:
        if is_tensor(block):
            from hushcov.records import tensor_kernels as kernels

            on_grid = kernels.integers_on_grid(block, self.multipliers, float(self.half_width))
            return kernels.exact_gram(on_grid, self.half_width**2)
        integers = np.empty(block.shape, dtype=np.float32)
        _fill_integers(block, self.multipliers, float(self.half_width), integers)
        return _exact_gram(integers, self.half_width**2)


def _exact_gram(integers: npt.NDArray[np.float32], largest_product: int) -> npt.NDArray[np.int64]:
    """Gram matrix of rows of small integers: every partial sum stays exact in float32."""
    exact_rows = _LARGEST_EXACT_FLOAT32 // largest_product
    gram = (integers[:exact_rows].T @ integers[:exact_rows]).astype(np.int64)
    for start in range(exact_rows, len(integers), exact_rows):
        part = integers[start : start + exact_rows]
        gram += (part.T @ part).astype(np.int64)
    return gram


@compiled
def _fill_signs(block: npt.NDArray[np.float64], signs: npt.NDArray[np.float32]) -> None:
    for a in range(block.shape[0]):
        for i in range(block.shape[1]):
            signs[a, i] = np.float32(block[a, i] > 0.0) - np.float32(block[a, i] < 0.0)


@compiled
def _fill_integers(
    block: npt.NDArray[np.float64],
    multipliers: npt.NDArray[np.float64],
    half_width: float,
    integers: npt.NDArray[np.float32],
) -> None:
    for a in range(block.shape[0]):
        for i in range(block.shape[1]):
            scaled = block[a, i] * multipliers[i]
            integers[a, i] = np.rint(min(max(scaled, -half_width), half_width))
