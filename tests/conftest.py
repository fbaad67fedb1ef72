"""Settings for every test: one thread of linear algebra for each of the suite's processes."""

import os

# Two processes share the cores already: more threads in each would only wait for one another.
# Set before NumPy is loaded, here and in the processes that the suite starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

import tolerances
from chromium import browser, open_page

pytest.approx = tolerances.approx
# No test depends on the clock: other work may share the computer.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")

__all__ = ["browser", "open_page"]


@pytest.fixture
def no_search(monkeypatch):
    """Plans without the multiscale search, which takes seconds at each size; any plan will do."""
    from estimators.settings import skip_search

    skip_search(monkeypatch)
