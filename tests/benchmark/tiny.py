"""The command line with a preset of a few seconds: `python -m tests.benchmark.tiny bench`.

It draws no figures.
"""

from __future__ import annotations

from hushcov.benchmark import design
from hushcov.cli import bench
from hushcov.cli.main import main

from .settings import TINY

if __name__ == "__main__":
    design.PRESETS["quick"] = TINY
    bench.write_figures = lambda folder, results: []
    main()
