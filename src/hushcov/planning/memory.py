"""How much memory a fit takes, from its size alone: it does not depend on the number of records.

What is counted is the process with everything in it, apart from records that are held in memory:
those read from files pass through in blocks. `docs/scale.md` sets measurements beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from hushcov.records import PANEL_BYTES, STRIP

# Python, NumPy, SciPy, scikit-learn and compiled code, before any fit.
_PROCESS = 300 * 10**6
# Blocks of rows that are there at the same time: one being read, one waiting, one in use.
_BLOCKS = 3
# Measured: what pyarrow keeps of a Parquet file, and pyarrow itself.
_PYARROW = 500 * 10**6
# Working arrays whose size depends on nothing.
_FIXED = 50 * 10**6
# A release in integers, its estimate, and the estimate while it is made symmetric.
_DENSE = 3 * 8
# Bytes for a pair of features, measured: levels, exact moments, and four arrays of the sampler.
_MULTISCALE = 65
# Linux: what a container may use. "max" in the file says that there is no limit.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def process_memory(n_features: int, rows: int, *, files: bool) -> int:
    """Bytes of the process and of the blocks of rows that are there at the same time."""
    blocks = _BLOCKS * rows * n_features * 8
    return _PROCESS + _FIXED + _PYARROW * files + blocks


def screened_work(n_records: int, n_features: int, rows: int, sparse: bool) -> int:
    """Sums of a panel and of a block of it, a strip of the product, signs of a block, scores."""
    d = n_features
    panel = min(8 * d * d, PANEL_BYTES)
    strip = min(STRIP, d) * d * (4 + 8)
    scores = (4 if n_records < 2**31 else 8) * d * (d - 1) // 2
    return max(2 * panel + strip + rows * d * 4 + scores, 0 if sparse else _DENSE * d * d)


def multiscale_work(n_records: int, n_features: int, rows: int, sparse: bool) -> int:
    """Levels, exact moments, and arrays of the sampler."""
    return _MULTISCALE * n_features**2


def all_pairs_work(n_records: int, n_features: int, rows: int, sparse: bool) -> int:
    """The sum, a block's sum as doubles and as integers, and the block on its grid."""
    return _DENSE * n_features**2 + rows * n_features * 8


def total_memory() -> int | None:
    """Bytes of memory that this process may use; None where the system does not say."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = int(_CONTAINER_LIMIT.read_text())
    except (OSError, ValueError):
        limit = physical
    return min(physical, limit)
