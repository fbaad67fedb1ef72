"""Settings for every test: one thread of linear algebra for each of the suite's processes."""

import inspect
import math
import os
import random
import re
from functools import partial
from types import SimpleNamespace

# Two processes share the cores already: more threads in each would only wait for one another.
# Set before NumPy is loaded, here and in the processes that the suite starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Dask waits for busy computers, and does not complain about them.
os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "600s")
os.environ.setdefault("DASK_DISTRIBUTED__ADMIN__TICK__LIMIT", "1h")

import pytest
from click import testing
from hypothesis import HealthCheck, settings

# Before click 8.2 standard error was either not kept apart or not in `output`.
if "mix_stderr" in inspect.signature(testing.CliRunner).parameters:
    testing.CliRunner = partial(testing.CliRunner, mix_stderr=False)
    testing.Result.output = property(lambda result: result.stdout + result.stderr)

import tolerances
from chromium import browser, open_page
from hushcov.cli import output
from hushcov.exceptions import ForeignError
from hushcov.kernel.noise import entropy

pytest.approx = tolerances.approx
# No test depends on the clock or on luck. `make slow` searches for new examples.
_slow_computers = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("search", **_slow_computers)
settings.register_profile("fixed", derandomize=True, **_slow_computers)
settings.load_profile("fixed")
output._EVERY = math.inf  # lines of progress, which come by the clock

__all__ = ["browser", "open_page"]

# Keys of private noise are the same in every run, in whatever order and process tests run.
_keys = random.Random(0)
entropy.secrets = SimpleNamespace(randbits=_keys.getrandbits)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _keys.seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Seed what several tests share by its own name: any of them may be the first to ask for it."""
    if fixturedef.scope == "function":
        return (yield)
    before = _keys.getstate()
    _keys.seed(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', None)!r}")
    try:
        return (yield)
    finally:
        _keys.setstate(before)


if os.environ.get("NUMBA_DISABLE_JIT"):  # for coverage, see the Makefile

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(item):
        try:
            return (yield)
        except (NotImplementedError, ForeignError) as error:  # of numba, for single instructions
            if not re.search("pure-python|type NotImplementedError", str(error)):
                raise
        pytest.skip("needs the compiler")


def pytest_collectstart(collector):
    _keys.seed(collector.nodeid)  # for what is made when a module is imported


@pytest.fixture
def no_search(monkeypatch):
    """Plans without the multiscale search, which takes seconds at each size; any plan will do."""
    from estimators.settings import skip_search

    skip_search(monkeypatch)
