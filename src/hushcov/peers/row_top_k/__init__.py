"""Row-wise top-k selection: a sound release, and the one that its authors print."""

from hushcov.peers.row_top_k.mechanism import (
    RowTopKParameters,
    certify_row_top_k,
    release_row_top_k,
    row_top_k_parameters,
)
from hushcov.peers.row_top_k.room import ROW_TOP_K

__all__ = [
    "ROW_TOP_K",
    "RowTopKParameters",
    "certify_row_top_k",
    "release_row_top_k",
    "row_top_k_parameters",
]
