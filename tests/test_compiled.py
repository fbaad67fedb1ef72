"""Compiled functions are made when they are first called, with what they call."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np

from hushcov.records import rows

HEAVY = ("numba", "scipy.optimize")
NOT_FOR_PLANS = ("sklearn", "pandas", "pyarrow", "matplotlib", "jinja2", "torch", "dask")


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_an_estimator_loads_no_compiler():
    assert "numba" not in loaded("from hushcov import PrivateSparseCovariance")


def test_plans_and_releases_are_shown_without_what_fits_need():
    for command in ("plan", "show"):
        found = loaded(f"import hushcov.cli.{command}")
        assert found.isdisjoint({*HEAVY, *NOT_FOR_PLANS}), command


def test_a_plan_needs_no_compiler_and_no_scikit_learn():
    code = (
        "from hushcov.planning import Request, forecast_families\n"
        "request = Request(row_sparsity=5, epsilon=1.0, delta=1e-6)\n"
        "forecast_families(request, 10_000, 50)"
    )
    assert loaded(code).isdisjoint({*HEAVY, *NOT_FOR_PLANS})


def test_functions_that_call_others_work_and_are_pickled_by_name():
    row, y = np.array([1.0, 2.0]), np.empty(2)
    assert rows.centre_row(row, np.ones(2), np.full(2, 9.0), y)  # calls finite_row
    np.testing.assert_array_equal(y, [0.0, 1.0])
    assert pickle.loads(pickle.dumps(rows.centre_row)) is rows.centre_row
    assert rows.centre_row.__doc__ is not None
