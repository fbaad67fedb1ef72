"""Row-wise views that a session can take: each maps one row on its own, by public numbers.

Everything given here is public or was released. Neighbours stay neighbours under every view, and
one property test shows that a changed record changes no other row.
"""

from __future__ import annotations

from functools import partial

from hushcov._arrays import FloatArray
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.records.base import CentredRecords, CompleteRecords, View
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov.kernel.transforms import RANK, Transform, Transforms


def complete() -> View:
    """Make every record zeros that misses a value."""
    return CompleteRecords


def centred(centre: FloatArray, reach: FloatArray) -> View:
    """Take a centre off the features, and clip them to their reach about it."""
    return partial(CentredRecords, centre=centre, reach=reach)


def compact(centre: FloatArray, reach: FloatArray, scale: FloatArray) -> View:
    """Round the features to 1/512 of their scales about a centre; later sums are faster."""
    return partial(CompactRecords, centre=centre, reach=reach, scale=scale)


def transformed(transforms: Transforms) -> View:
    """Map each column by its transform."""
    return transforms.view


def multiplied(
    grid: FeatureGrid, matrix: FloatArray, constant: FloatArray | None = None, by_last: bool = False
) -> View:
    """Round the features on a grid; multiply each row by integers, and add a constant one.

    With `by_last` all are multiplied by the last, which is left out.
    """
    return partial(MultipliedRecords, grid=grid, matrix=matrix, constant=constant, by_last=by_last)
