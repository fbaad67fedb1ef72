"""Records and their integer statistics: the only layer that touches data.

- `protocol`: what all records are. Their one operation is a sum of integers over blocks of rows.
- `sources`: where rows come from: memory, files, a cluster, a device. `open_records` opens them.
- `views`: the same rows paired, scaled, multiplied, without gaps, or watched.
- `grids`: how coordinates are clipped and rounded to integers.
- `sums`: exact sums of these integers; `Statistics` of several sites add up.

Nothing in this layer is private by itself: mechanisms add the noise.
"""

from hushcov.records.grids import FeatureGrid, IntegerGrid, check_feature_scale
from hushcov.records.protocol import BlockFunction, PartitionedRecords, Progress, Records
from hushcov.records.sources.cluster import DaskRecords
from hushcov.records.sources.device import DeviceRecords, TensorRecords
from hushcov.records.sources.files import FileRecords
from hushcov.records.sources.memory import ArrayRecords, NpyRecords
from hushcov.records.sources.opening import open_records
from hushcov.records.sums.counts import count_complete, log2_histogram, norm_histogram
from hushcov.records.sums.gram import record_statistics, row_bounded_gram, second_moments
from hushcov.records.sums.products import ProductMap, finest_half_width
from hushcov.records.sums.scores import clipped_gram, pair_scores, sign_gram
from hushcov.records.sums.statistics import RecordMap, Statistics
from hushcov.records.views import (
    CompleteRecords,
    PairDifferences,
    ScaledRecords,
    TransformedRecords,
    WatchedRecords,
    WrappedRecords,
)

__all__ = [
    "ArrayRecords",
    "BlockFunction",
    "CompleteRecords",
    "DaskRecords",
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
    "TensorRecords",
    "TransformedRecords",
    "WatchedRecords",
    "WrappedRecords",
    "check_feature_scale",
    "clipped_gram",
    "count_complete",
    "finest_half_width",
    "log2_histogram",
    "norm_histogram",
    "open_records",
    "pair_scores",
    "record_statistics",
    "row_bounded_gram",
    "second_moments",
    "sign_gram",
]
