"""A fit of the command line plans once: nothing is divided or checked again on the way."""

import sys
from collections import Counter

import numpy as np

from hushcov import inputs
from hushcov.fit import Request

BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def calls(functions, action):
    """Count calls of functions, however deep below the action they are."""
    codes, found = {function.__code__: name for name, function in functions.items()}, Counter()

    def watch(frame, event, _):
        if event == "call" and frame.f_code in codes:
            found[codes[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def test_a_fit_divides_its_budget_once_and_checks_its_inputs_at_most_twice(run):
    """The second check is that of the report, which is written from the release alone."""
    rows = np.random.default_rng(0).standard_normal((4_000, 12))
    names = ",".join(f"c{i}" for i in range(12))
    np.savetxt("x.csv", rows, delimiter=",", header=names, comments="")
    functions = {"divisions": Request.divide, "checks": inputs._check}
    results = []
    found = calls(functions, lambda: results.append(run("fit", "x.csv", *BUDGET, "-o", "out")))
    assert results[0].exit_code == 0, results[0].stderr
    assert found["divisions"] == 1
    assert 1 <= found["checks"] <= 2
