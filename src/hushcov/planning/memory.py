"""How much memory a fit takes, from its size alone: it depends on few records only.

What is counted is the process with everything in it, apart from records that are held in memory:
those read from files pass through in blocks, and a compact copy of them is kept where it is small.
`docs/scale.md` sets measurements beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

#: Features up to which an estimate is a dense matrix where nothing else is asked for.
LARGEST_DENSE = 10_000
# Python, NumPy, SciPy, scikit-learn and compiled code, before any fit.
_PROCESS = 280 * 10**6
# What pyarrow adds to it.
_ARROW = 20 * 10**6
# Blocks of rows that are there at the same time: of files of columns one being read, one waiting
# and one in use, of others one.
_BLOCKS_READ, _BLOCKS = 3, 1
# Working arrays whose size depends on nothing.
_FIXED = 50 * 10**6
#: What a command takes beside its fit, to draw the heat map and to write the report.
PICTURES = 65 * 10**6
#: What compiling takes, the first time that a fit runs on a computer.
COMPILING = 80 * 10**6
# Linux: what a container may use. "max" in the file says that there is no limit.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def process_memory(n_features: int, rows: int, *, reader: int = 0) -> int:
    """Bytes of the process and of the blocks of rows that are there at the same time.

    `reader` is what reading files takes beside them.
    """
    block = _BLOCKS * rows * n_features * 8
    return _PROCESS + _FIXED + block + reader_memory(n_features, rows, reader)


def reader_memory(n_features: int, rows: int, reader: int) -> int:
    """Bytes that reading files adds: pyarrow, what it holds, and blocks that are there early."""
    early = (_BLOCKS_READ - _BLOCKS) * rows * n_features * 8
    return _ARROW + reader + early if reader else 0


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
