"""Row-wise views that a session can take: each maps one row on its own, by public numbers.

Everything given here is public or was released. Neighbours stay neighbours under every view, and
one property test shows that a changed record changes no other row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushcov._arrays import FloatArray
from hushcov.kernel.records.base import CentredRecords, CompleteRecords, Records
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.transforms import RANK, Transform, Transforms


@dataclass(frozen=True, eq=False)
class RowView:
    """A way to map rows one by one, with its public arguments."""

    kind: Any
    arguments: tuple[Any, ...] = ()

    def __call__(self, records: Records) -> Records:
        """Return the records seen through the view."""
        made: Records = self.kind(records, *self.arguments)
        return made


def complete() -> RowView:
    """Make every record zeros that misses a value."""
    return RowView(CompleteRecords)


def centred(centre: FloatArray, reach: FloatArray) -> RowView:
    """Take a centre off the features, and clip them to their reach about it."""
    return RowView(CentredRecords, (centre, reach))


def compact(centre: FloatArray, reach: FloatArray, scale: FloatArray) -> RowView:
    """Round the features to 1/512 of their scales about a centre; later sums are faster."""
    return RowView(CompactRecords, (centre, reach, scale))


def transformed(transforms: Transforms) -> RowView:
    """Map each column by its transform."""
    return RowView(_transformed, (transforms,))


def _transformed(records: Records, transforms: Transforms) -> Records:
    return transforms.view(records)
