"""Peak memory of a process; used by other scripts."""

from __future__ import annotations

import resource
from pathlib import Path


def peak() -> int:
    """Return the most bytes this process has had in memory.

    What Linux tells of resources used counts the process that started this one as well.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
