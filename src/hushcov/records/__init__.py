"""Records and their integer statistics: the only layer that touches data.

`open_records` turns an array or a `.npy` file into `Records`, whose one operation is a sum of
integers over blocks of rows. `IntegerGrid` clips and rounds coordinates to integers, and
`second_moments` sums their products exactly; `Statistics` of several sites add up. Nothing in this
layer is private by itself: mechanisms add the noise.
"""

from hushcov.records.complete import CompleteRecords, count_complete
from hushcov.records.device import DeviceRecords
from hushcov.records.feature_grid import FeatureGrid, check_feature_scale
from hushcov.records.files import FileRecords
from hushcov.records.grid import IntegerGrid
from hushcov.records.histogram import log2_histogram
from hushcov.records.moments import record_statistics, second_moments
from hushcov.records.opening import open_records
from hushcov.records.pairs import PairDifferences
from hushcov.records.products import ProductMap, finest_half_width
from hushcov.records.record_map import RecordMap
from hushcov.records.rows import row_bounded_gram
from hushcov.records.scaled import ScaledRecords
from hushcov.records.scores import clipped_gram, pair_scores, sign_gram
from hushcov.records.source import (
    ArrayRecords,
    BlockFunction,
    NpyRecords,
    PartitionedRecords,
    Progress,
    Records,
)
from hushcov.records.statistics import Statistics
from hushcov.records.transformed import TransformedRecords
from hushcov.records.wrapped import WatchedRecords, WrappedRecords

__all__ = [
    "ArrayRecords",
    "BlockFunction",
    "CompleteRecords",
    "DeviceRecords",
    "FeatureGrid",
    "FileRecords",
    "IntegerGrid",
    "NpyRecords",
    "PairDifferences",
    "PartitionedRecords",
    "ProductMap",
    "Progress",
    "RecordMap",
    "Records",
    "ScaledRecords",
    "Statistics",
    "TransformedRecords",
    "WatchedRecords",
    "WrappedRecords",
    "check_feature_scale",
    "clipped_gram",
    "count_complete",
    "finest_half_width",
    "log2_histogram",
    "open_records",
    "pair_scores",
    "record_statistics",
    "row_bounded_gram",
    "second_moments",
    "sign_gram",
]
