"""Normal noise on symmetric matrices."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import IntArray
from hushcov._triangle import mirror, spread_pairs
from hushcov.kernel.noise.normal import rounded_normal

#: Pairs that get noise at a time.
NOISE_STRIP = 2**22


def symmetric_noise(
    generator: np.random.Generator, n_features: int, sigma: int, diagonal_sigma: int
) -> IntArray:
    """Draw independent rounded normals on the upper triangle, and mirror them."""
    d = n_features
    noise = np.empty((d, d), dtype=np.int64)
    for start in range(0, d * (d - 1) // 2, NOISE_STRIP):
        number = min(NOISE_STRIP, d * (d - 1) // 2 - start)
        spread_pairs(start, rounded_normal(generator, sigma, number), noise)
    mirror(noise)
    np.fill_diagonal(noise, rounded_normal(generator, diagonal_sigma, d))
    return noise
