"""Settings for every test: one thread of linear algebra for each of the suite's processes."""

from __future__ import annotations

import os

# Two processes share the cores already: more threads in each would only wait for one another.
# Set before NumPy is loaded, here and in the processes that the suite starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Two processes that compile one kernel for two types at a time may write one file for both, which
# neither can use then: each has a cache of its own, which is kept for the next run.
if "PYTEST_XDIST_WORKER" in os.environ:
    worker = os.environ["PYTEST_XDIST_WORKER"]
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "build", "kernels", worker)
    os.environ.setdefault("NUMBA_CACHE_DIR", folder)

import pytest
from hypothesis import settings

import tolerances
from chromium import browser, open_page

pytest.approx = tolerances.approx
# No test depends on the clock: other work may share the computer.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")

__all__ = ["browser", "open_page"]
