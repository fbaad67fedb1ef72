"""How large the values of each feature are, as counts of octaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._compiled import compiled
from hushcov.records.arrays import is_tensor
from hushcov.records.source import Progress, Records

IntArray = npt.NDArray[np.int64]

# Values from 2^-64 (5e-20) up to 2^64 (2e19) have bins of their own.
SMALLEST_EXPONENT = -64
LARGEST_EXPONENT = 64
N_BINS = LARGEST_EXPONENT - SMALLEST_EXPONENT + 2

# A double is sign, 11 bits of exponent, 52 bits of fraction. Its size lies in [2^e, 2^(e+1)) for
# e the exponent bits minus 1023; zero and subnormal numbers have exponent bits 0.
_FRACTION_BITS = 52
_EXPONENT_MASK = 0x7FF
_EXPONENT_OF_ONE = 1023
# The exponent bits of the smallest value that is not in bin 0 become 1.
_SHIFT = 1 - (_EXPONENT_OF_ONE + SMALLEST_EXPONENT)


def log2_histogram(records: Records, *, progress: Progress | None = None) -> IntArray:
    """Count for each feature (row) the records whose value lies in each octave (column).

    Column k of the `N_BINS` columns counts |x| in [2^(k-65), 2^(k-64)). Column 0 counts all that is
    smaller, zeros included, and the last column all that is larger. The octave is read off the
    bits of the number, so the counts are the same everywhere.

    Privacy
    -------
    Nothing here is private by itself. A record adds one count to every row, so replacing a
    record moves the counts by at most sqrt(2 n_features) in Euclidean norm.
    """
    return records.map_sum(_block_counts, progress=progress)


def _block_counts(block: Any) -> Any:
    if is_tensor(block):
        from hushcov.records import tensor_kernels

        return tensor_kernels.octave_counts(block, _SHIFT, N_BINS)
    counts = np.zeros((block.shape[1], N_BINS), dtype=np.int64)
    _count(block.view(np.int64), counts)
    return counts


@compiled
def _count(bits: IntArray, counts: IntArray) -> None:
    last = counts.shape[1] - 1
    for a in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            octave = (bits[a, i] >> _FRACTION_BITS & _EXPONENT_MASK) + _SHIFT
            counts[i, min(max(octave, 0), last)] += 1
