"""Row-wise top-k selection: a sound release, and the one that its authors print."""

from hushcov.mechanisms.peers.row_top_k.mechanism import certify_row_top_k, release_row_top_k
from hushcov.mechanisms.peers.row_top_k.parameters import RowTopKParameters, row_top_k_parameters
from hushcov.mechanisms.peers.row_top_k.printed import (
    PrintedParameters,
    claim_printed,
    printed_laplace_scale,
    printed_parameters,
    printed_radius,
    release_printed,
)

__all__ = [
    "PrintedParameters",
    "RowTopKParameters",
    "certify_row_top_k",
    "claim_printed",
    "printed_laplace_scale",
    "printed_parameters",
    "printed_radius",
    "release_printed",
    "release_row_top_k",
    "row_top_k_parameters",
]
