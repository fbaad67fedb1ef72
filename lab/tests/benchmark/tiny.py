"""The command line with a preset of a few seconds: `python -m benchmark.tiny bench`.

It draws no figures. If the environment says so it waits after some cells, so that a test stops it
in the middle however fast or busy the machine is.
"""

from __future__ import annotations

import math
import os
import time

from hushcov.cli import output
from hushcov.cli.main import main
from hushcov_lab.benchmark import cells
from hushcov_lab.benchmark import command as bench
from hushcov_lab.benchmark.cells import Cell, Journal

from .settings import TINY

WAIT_AFTER = "TINY_BENCHMARK_WAITS_AFTER"


class WaitingJournal(Journal):
    """Writes some cells, and then waits for a signal."""

    def append(self, cell: Cell) -> None:
        super().append(cell)
        if len(self.cells) == int(os.environ[WAIT_AFTER]):
            time.sleep(3600)


if __name__ == "__main__":
    cells.PRESETS["quick"] = TINY
    bench.write_figures = lambda folder, results: []
    output._EVERY = math.inf  # no progress on a slow computer
    if WAIT_AFTER in os.environ:
        bench.Journal = WaitingJournal
    main()
