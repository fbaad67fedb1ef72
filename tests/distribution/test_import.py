"""What is loaded when: `import hushcov` at once, optional packages never before they are used."""

from __future__ import annotations

import subprocess
import sys

from command_line import PATIENCE

CODE = """
import sys

def top():
    return {name.partition(".")[0] for name in sys.modules}

before = top()
import hushcov
assert {"Ledger", "PrivateSparseCovariance"} <= set(dir(hushcov))
print(*sorted(top() - before))
import sklearn.covariance
before = top()
from hushcov import *
print(*sorted(top() - before))
"""
OPTIONAL = {
    "dask",
    "distributed",
    "dp_accounting",
    "fsspec",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "torch",
}


def test_what_importing_hushcov_loads():
    """Itself and nothing else; its classes add the core dependencies to those of scikit-learn."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    package, classes = (set(line.split()) for line in done.stdout.splitlines())
    assert package - set(sys.stdlib_module_names) == {"hushcov"}
    assert "randomgen" in classes
    assert not classes & (OPTIONAL | {"numba"})  # the compiler is loaded when something is compiled
