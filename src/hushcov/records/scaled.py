"""Records with each feature divided by its scale."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushcov.records.arrays import like, namespace
from hushcov.records.feature_grid import check_feature_scale
from hushcov.records.source import Records, check_finite
from hushcov.records.wrapped import View, WrappedRecords

_LARGEST = 1e300


class ScaledRecords(WrappedRecords):
    """The records over public scales; a feature of scale 0 becomes zero.

    Privacy
    -------
    Each row is mapped on its own, so neighbours stay neighbours.
    """

    def __init__(self, records: Records, feature_scale: NDArray[np.float64]) -> None:
        super().__init__(records)
        self._scale = check_feature_scale(feature_scale, records.n_features)

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        divisor = np.where(self._scale > 0, self._scale, np.inf)
        for block in self._records._blocks():
            check_finite(block, gaps=self.gaps, names=self.feature_names)
            xp = namespace(block)
            with np.errstate(over="ignore"):
                # Nothing that large is left after clipping, and everything stays finite.
                yield xp.clip(block / like(divisor, block), -_LARGEST, _LARGEST)

    def _view(self) -> View:
        return partial(ScaledRecords, feature_scale=self._scale)
