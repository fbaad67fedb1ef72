"""Settings for every test: one thread of linear algebra for each of the suite's processes."""

from __future__ import annotations

import os

# Two processes share the cores already: more threads in each would only wait for one another.
# Set before NumPy is loaded, here and in the processes that the suite starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

import tolerances
from chromium import browser, open_page

pytest.approx = tolerances.approx

__all__ = ["browser", "open_page"]
