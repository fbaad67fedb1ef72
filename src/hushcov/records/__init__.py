"""Records and their integer statistics: the only layer that touches data.

- `protocol`: what all records are. Their one operation is a sum of integers over blocks of rows.
- Where rows come from: `sources` (`open_records`, memory, devices), `files` and their `formats`,
  `cluster`, and `codebook`, by which categories are one-hot columns.
- `genotypes`: two bits each, by variants, from tables and PLINK files (`bed`), with their own sums
  (`genotype_kernels`).
- `knowledge`: public bounds of columns.
- `views`: the same rows centred, clipped, scaled, multiplied, without gaps, on a device, or
  watched.
- `rows`: rows checked, centred and summed by compiled loops, in one reading.
- `compact`: rows as integers of two bytes, of which a copy may be kept.
- `grids`: how coordinates are clipped and rounded to integers.
- Exact sums of these integers: `gram`, `signs` (bits, by `popcount`), `products`, `bounded`,
  `counts` (`tensor_kernels` on a device), of units that are bounded as one (`grouped`, `combined`,
  `combined_gram`), several of them `together`, and `statistics`, which of
  several sites add up and have a `statistics_file`.

Nothing in this layer is private by itself: mechanisms add the noise.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.records.bounded import bounded_sums, bounded_sums_of, fourth_sums, fourth_sums_of
from hushcov.records.counts import (
    LARGEST_EXPONENT,
    SMALLEST_EXPONENT,
    cell_counts,
    count_complete,
    log2_histogram,
    norm_counts_of,
    norm_histogram,
    sign_sums,
    signed_octaves,
    signs_and_norms,
)
from hushcov.records.grids import FeatureGrid, IntegerGrid, check_feature_scale
from hushcov.records.knowledge import Bounds, check_bounds
from hushcov.records.products import ProductMap, finest_half_width
from hushcov.records.protocol import (
    BlockFunction,
    PartitionedRecords,
    Progress,
    Records,
    default_block_rows,
    is_tensor,
)
from hushcov.records.rows import CentringSums
from hushcov.records.sources import ArrayRecords, NpyRecords, TensorRecords, open_records
from hushcov.records.views import (
    CentredRecords,
    ClippedRecords,
    CompleteRecords,
    CountedRecords,
    DeviceRecords,
    ScaledRecords,
    TransformedRecords,
    WatchedRecords,
    WrappedRecords,
    source_of,
)

if TYPE_CHECKING:
    from hushcov.records.bed import write_bed
    from hushcov.records.cluster import DaskRecords
    from hushcov.records.codebook import Codebook, CodebookColumn, CodedRecords, read_codebook
    from hushcov.records.combined import unit_means
    from hushcov.records.combined_gram import unit_bounded_gram, unit_norm_histogram
    from hushcov.records.compact import CompactRecords
    from hushcov.records.files import FileRecords
    from hushcov.records.genotypes import GenotypeBlock, GenotypeRecords, open_genotypes
    from hushcov.records.gram import (
        PANEL_BYTES,
        pair_sums,
        record_statistics,
        row_bounded_gram,
        second_moments,
    )
    from hushcov.records.identifiers import split_columns
    from hushcov.records.signs import (
        PACKED_PANEL_BYTES,
        TILE_BYTES,
        TILE_ROWS,
        PackedSigns,
        candidate_sign_sums,
        sign_gram,
        sign_gram_and_sums,
        sign_scores,
        signs_kept,
    )
    from hushcov.records.statistics import RecordMap, Statistics
    from hushcov.records.together import sum_and_keep_signs, sum_together
    from hushcov.records.units import WEIGHT_LEVELS, Units, weighted

__all__ = [
    "LARGEST_EXPONENT",
    "PACKED_PANEL_BYTES",
    "PANEL_BYTES",
    "SMALLEST_EXPONENT",
    "TILE_BYTES",
    "TILE_ROWS",
    "WEIGHT_LEVELS",
    "ArrayRecords",
    "BlockFunction",
    "Bounds",
    "CentredRecords",
    "CentringSums",
    "ClippedRecords",
    "Codebook",
    "CodebookColumn",
    "CodedRecords",
    "CompactRecords",
    "CompleteRecords",
    "CountedRecords",
    "DaskRecords",
    "DeviceRecords",
    "FeatureGrid",
    "FileRecords",
    "GenotypeBlock",
    "GenotypeRecords",
    "IntegerGrid",
    "NpyRecords",
    "PackedSigns",
    "PartitionedRecords",
    "ProductMap",
    "Progress",
    "RecordMap",
    "Records",
    "ScaledRecords",
    "Statistics",
    "TensorRecords",
    "TransformedRecords",
    "Units",
    "WatchedRecords",
    "WrappedRecords",
    "bounded_sums",
    "bounded_sums_of",
    "candidate_sign_sums",
    "cell_counts",
    "check_bounds",
    "check_feature_scale",
    "count_complete",
    "default_block_rows",
    "finest_half_width",
    "fourth_sums",
    "fourth_sums_of",
    "is_tensor",
    "log2_histogram",
    "norm_counts_of",
    "norm_histogram",
    "open_genotypes",
    "open_records",
    "pair_sums",
    "read_codebook",
    "record_statistics",
    "row_bounded_gram",
    "second_moments",
    "sign_gram",
    "sign_gram_and_sums",
    "sign_scores",
    "sign_sums",
    "signed_octaves",
    "signs_and_norms",
    "signs_kept",
    "source_of",
    "split_columns",
    "sum_and_keep_signs",
    "sum_together",
    "unit_bounded_gram",
    "unit_means",
    "unit_norm_histogram",
    "weighted",
    "write_bed",
]

__getattr__ = lazy(
    __name__,
    bed="write_bed",
    cluster="DaskRecords",
    codebook="Codebook CodebookColumn CodedRecords read_codebook",
    combined="unit_means",
    combined_gram="unit_bounded_gram unit_norm_histogram",
    compact="CompactRecords",
    files="FileRecords",
    genotypes="GenotypeBlock GenotypeRecords open_genotypes",
    gram="PANEL_BYTES pair_sums record_statistics row_bounded_gram second_moments",
    identifiers="split_columns",
    signs="PACKED_PANEL_BYTES TILE_BYTES TILE_ROWS PackedSigns candidate_sign_sums "
    "sign_gram sign_gram_and_sums sign_scores signs_kept",
    statistics="RecordMap Statistics",
    together="sum_and_keep_signs sum_together",
    units="WEIGHT_LEVELS Units weighted",
)
