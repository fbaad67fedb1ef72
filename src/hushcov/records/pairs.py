"""Records without their mean: differences of successive rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hushcov.exceptions import DataError
from hushcov.records.arrays import namespace
from hushcov.records.source import Records, check_finite
from hushcov.records.wrapped import View, WrappedRecords

_LARGEST = 1e300


class PairDifferences(WrappedRecords):
    """The records (x_1 - x_2)/sqrt(2), (x_3 - x_4)/sqrt(2), ...: mean zero, same covariance.

    The number of records halves, and an odd last one is left out. The rows should be in an order
    that has nothing to do with their values; if they are sorted, shuffle them by fresh secret
    randomness.

    Privacy
    -------
    One original record enters one pair, so neighbours of the original records are
    neighbours of the pairs, and a guarantee for the pairs holds for the records.
    """

    rows_each = 2

    def __init__(self, records: Records) -> None:
        if records.n_records < 2:
            raise DataError(
                "pair differences need at least 2 records, got n_samples = 1: add records, or "
                "pass assume_centered=True if their mean is known to be zero."
            )
        super().__init__(records)
        self.n_records = records.n_records // 2

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        waiting = None
        for block in self._records._blocks():
            check_finite(block, gaps=self.gaps, names=self.feature_names)
            xp = namespace(block)
            # Nothing that large is left after clipping, and the differences stay finite.
            rows = xp.clip(block, -_LARGEST, _LARGEST)
            if waiting is not None:
                rows = xp.concatenate([waiting, rows])
            even = len(rows) - len(rows) % 2
            waiting = rows[even:]
            if even:
                yield (rows[0:even:2] - rows[1:even:2]) * math.sqrt(0.5)

    def _view(self) -> View:
        return PairDifferences


def is_paired(records: Records) -> bool:
    """Whether these are differences of successive rows, whatever was made of them since."""
    while isinstance(records, WrappedRecords):
        if isinstance(records, PairDifferences):
            return True
        records = records._records
    return False
