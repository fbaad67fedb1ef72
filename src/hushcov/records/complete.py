"""Records with gaps: those that are missing count as zero, and how many are there is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushcov.records.arrays import namespace
from hushcov.records.source import Progress, Records, check_finite
from hushcov.records.wrapped import View, WrappedRecords


class CompleteRecords(WrappedRecords):
    """The records with zeros for every record that misses a value.

    The number of records stays what it was, which is public. Sums over complete records are then
    sums over all of them; averages are too small by the share of complete records.

    Privacy
    -------
    Each record is mapped on its own, so neighbours stay neighbours. Dropping records instead
    would make the number of records depend on the data.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.gaps = False

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        for block in self._records._blocks():
            check_finite(block, gaps=True, names=self.feature_names)
            xp = namespace(block)
            yield xp.where(xp.isnan(block).any(1)[:, None], 0.0, block)

    def with_gaps(self) -> Self:
        """Themselves: nothing is missing here."""
        return self

    def _view(self) -> View:
        return CompleteRecords


def count_complete(records: Records, *, progress: Progress | None = None) -> int:
    """Return how many records miss no value.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves the count by at most 1.
    """
    return int(records.map_sum(_CountComplete(), progress=progress)[0])


class _CountComplete:
    """Complete records of a block; it travels to where the rows are."""

    takes_gaps = True

    def __call__(self, block: NDArray[np.float64]) -> NDArray[np.int64]:
        complete = ~namespace(block).isnan(block).any(1)
        return np.array([int(complete.sum())], dtype=np.int64)
