"""The script that plants faults: it finds lines by a rule, and a fault by a test that sees it."""

import numpy as np
import pytest

import hushcov
import mutation
from hushcov.kernel.accounting.composition import smallest_sigma
from hushcov.kernel.noise.entropy import entropy_source
from hushcov.kernel.noise.laplace import discrete_laplace
from hushcov.kernel.sums.rows import norm_bins

EXAMPLE = '''
import math
_MARGIN = 1.0
_CHUNK = 7
_SHOWN = 8

def shown(x):
    return x + 1

def bounded(x, bound):
    """Return it bounded.

    Privacy
    -------
    At most `bound`.
    """
    if x > bound:
        raise ValueError(f"{x + 1}")
    return _helper(min(abs(x), bound) * _MARGIN, _CHUNK)

def _helper(x, rows):
    return math.floor(x / rows)

def release(neighbours, budget, mu):
    rows = shown(2)
    budget.gaussian(mu)
    square = neighbours.moved(replaced=4, removed=1)
    return rows - square  # proof: step 1
'''


def planted(source=EXAMPLE):
    return {
        (fault.line, fault.kind, fault.old, fault.new)
        for fault in mutation.faults_of("kernel/noise/example.py", source.encode())
    }


def test_lines_are_found_by_what_they_do():
    lines = mutation.lines_of(EXAMPLE)
    found = {line: text for line, text in enumerate(EXAMPLE.splitlines(), 1) if line in lines}
    words = ("_MARGIN = 1.0", "x > bound", "math.floor", "budget.gaussian", "moved(", "proof:")
    assert all(any(word in text for text in found.values()) for word in words)
    assert not {"_CHUNK = 7", "_SHOWN = 8", "    return x + 1"} & set(found.values())
    assert "    rows = shown(2)" not in found.values()


def test_faults_are_those_of_people():
    kinds = {(kind, old, new) for _, kind, old, new in planted()}
    assert {
        ("comparison", ">", ">="),
        ("comparison", ">", "<="),
        ("function", "min", "max"),
        ("function", "abs(x)", "(x)"),
        ("function", "floor", "ceil"),
        ("margin", "min(abs(x), bound) * _MARGIN", "min(abs(x), bound)"),
        ("relation", "4", "1"),
        ("relation", "1", "4"),
        ("deleted", "budget.gaussian(mu)", "pass"),
        ("operator", "-", "+"),
        ("constant", "1.0", "0.9"),
    } <= kinds
    assert not any(old == "+" for _, old, _ in kinds)  # neither words nor what is not of privacy
    fault = mutation.faults_of("kernel/noise/laplace.py")[0]
    assert fault.planted().count(b"\n") == (mutation.SOURCE / fault.path).read_bytes().count(b"\n")


def test_every_package_has_lines_and_every_fault_is_code():
    for name in mutation.PACKAGES:
        faults = [fault for path in mutation.modules([name]) for fault in mutation.faults_of(path)]
        assert faults, name
        for fault in faults[::50]:
            compile(fault.planted(), fault.path, "exec")


def seen_in_sigma():
    return smallest_sigma(4, 1.0) == 2


def seen_in_draws():
    draws = discrete_laplace(entropy_source().generator, 3, 200)
    return min(draws) < 0 < max(draws)


def seen_in_kernel():
    return norm_bins(np.array([0.75]), 50).tolist() == [1]


TESTS = {each.__name__: each for each in (seen_in_sigma, seen_in_draws, seen_in_kernel)}


class Tiny(mutation.Server):
    """Three tests, with no pytest around them."""

    def __init__(self, tmp_path):
        super().__init__([], tmp_path / "found.json", dict.fromkeys(mutation.TIERS, 9.0), 9.0)
        self.process, self.items = mutation.Process(), TESTS
        files = (
            "kernel/accounting/composition.py",
            "kernel/noise/laplace.py",
            "kernel/sums/rows.py",
        )
        for (name, _), path in zip(TESTS.items(), files, strict=True):
            own = {key for key in self.process.functions if key[0] == str(mutation.SOURCE / path)}
            self.known[name] = mutation.Known(mutation.PRIVACY, 0.1, own)

    def run(self, nodeid):
        return TESTS[nodeid]()


def fault_in(path, line, old, new):
    return next(
        each
        for each in mutation.faults_of(path)
        if (each.old, each.new) == (old, new)
        and line in (mutation.SOURCE / path).read_text().splitlines()[each.line - 1]
    )


def test_a_fault_is_found_and_one_that_changes_no_law_is_not(tmp_path):
    assert hushcov.__file__.startswith(str(mutation.SOURCE))
    server = Tiny(tmp_path)
    assert all(test() for test in TESTS.values())
    sigma = server.try_fault(fault_in("kernel/accounting/composition.py", "math.isqrt", "-", "+"))
    assert (sigma["tier"], sigma["by"]) == (mutation.PRIVACY, "seen_in_sigma")
    fair = server.try_fault(fault_in("kernel/noise/laplace.py", "(generator, 2) == 0", "0", "1"))
    assert (fair["tier"], fair["by"]) == (mutation.NONE, None)
    kernel = server.try_fault(fault_in("kernel/sums/rows.py", "2 * whole(exponent)", "+", "-"))
    assert kernel["by"] == "seen_in_kernel"
    last = server.try_fault(fault_in("kernel/sums/rows.py", "n_bins - 1", "-", "+"))
    assert last["by"] is None  # compiled anew, and as good as before for what is asked of it
    assert all(test() for test in TESTS.values())  # nothing is planted here


def test_scores_leave_out_what_changes_nothing():
    faults = [each for each in mutation.faults_of("kernel/noise/laplace.py") if each.line > 40][:9]
    fair = fault_in("kernel/noise/laplace.py", "(generator, 2) == 0", "0", "1")
    results = [{"name": f.name, "path": f.path, "tier": mutation.REPLAY} for f in faults[:8]]
    results.append({"name": fair.name, "path": fair.path, "tier": mutation.NONE})
    said = mutation.report([*faults[:8], fair], results)
    assert "score 1.000" in said
    assert "either half" in said
    low, high = mutation.wilson(98, 100)
    assert low == pytest.approx(0.9300, abs=1e-4)
    assert high == pytest.approx(0.9945, abs=1e-4)
