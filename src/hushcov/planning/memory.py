"""How much memory a fit takes, from its size alone: it does not depend on the number of records.

What is counted is the process with everything in it, apart from records that are held in memory:
those read from files pass through in blocks. `docs/scale.md` sets measurements beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from hushcov.exceptions import CapacityError
from hushcov.records.protocol import default_block_rows
from hushcov.records.sums.scores import PANEL_BYTES, STRIP

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


def fit_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    files: bool = False,
) -> int:
    """Bytes that a process needs to fit so many features, without records held in memory.

    `files` says that they are read through pyarrow, which has buffers of its own.
    """
    d = n_features
    rows = default_block_rows(d)
    blocks = _BLOCKS * rows * d * 8
    if mechanism == "screened":
        # Sums of a panel and of a block of it, a strip of the product, signs of a block, scores.
        panel = min(8 * d * d, PANEL_BYTES)
        strip = min(STRIP, d) * d * (4 + 8)
        scores = (4 if n_records < 2**31 else 8) * d * (d - 1) // 2
        work = max(2 * panel + strip + rows * d * 4 + scores, 0 if sparse else _DENSE * d * d)
    elif mechanism == "multiscale":
        work = _MULTISCALE * d * d
    else:
        # The sum, a block's sum as doubles and as integers, and the block on its grid.
        work = _DENSE * d * d + rows * d * 8
    return _PROCESS + _FIXED + _PYARROW * files + blocks + work


def check_memory(mechanism: str, n_records: int, n_features: int, *, sparse: bool = False) -> None:
    """Refuse a fit that this computer cannot hold, before anything is spent on it."""
    needed, there = fit_memory(mechanism, n_records, n_features, sparse=sparse), total_memory()
    if there is None or needed <= there:
        return
    cure = (
        "use fewer features or a larger computer."
        if sparse
        else "use a screened release with sparse output, fewer features, or a larger computer."
    )
    raise CapacityError(
        f"{n_features:,} features need about {needed / 1e9:.3g} GB of memory for the {mechanism} "
        f"mechanism, and {there / 1e9:.3g} GB are there: {cure} Nothing was spent."
    )


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
