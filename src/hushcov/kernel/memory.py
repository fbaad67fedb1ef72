"""Sizes of what sums and copies of records keep in memory, from public numbers alone."""

from hushcov.kernel.records.base import default_block_rows
from hushcov.kernel.records.compact import copy_bytes
from hushcov.kernel.sums.bounded import MOST_PRODUCTS
from hushcov.kernel.sums.gram import PANEL_BYTES
from hushcov.kernel.sums.signs import PACKED_PANEL_BYTES, TILE_BYTES, TILE_ROWS, signs_kept
