"""Exponents of n and d in the cost of statistics, samplers and memory; a part of `scale.py`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hushcov import GaussianCovariance, ScreenedCovariance
from hushcov.inputs import PublicInputs
from hushcov.noise import entropy_source, gumbel_top, rounded_normal
from hushcov.paper.parameters import theorem_parameters
from hushcov.paper.samplers import sample_exact
from hushcov.simulate import sparse_covariance, wishart_moments
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.products import ProductMap
from hushcov.sums.signs import sign_gram
from hushcov.tables.sources import ArrayRecords

REPEATS = 3
SHORTEST = 0.1  # seconds of a measurement; shorter actions are repeated
ROW_SPARSITY = 5
# What is measured against what, over which range, and the exponent that is expected there.
RANGES: dict[str, tuple[list[int], float]] = {
    "Gram against n": ([2**e for e in range(13, 18)], 1),
    "signs against n": ([2**e for e in range(13, 18)], 1),
    "products against n": ([2**e for e in range(13, 18)], 1),
    "Gram against d": ([2**e for e in range(6, 13)], 2),
    "signs against d": ([2**e for e in range(6, 13)], 2),
    "products against d": ([2**e for e in range(6, 13)], 1),
    "Gumbel selection against d": ([250, 500, 1000, 2000, 4000], 2),
    "rounded normal noise against d": ([250, 500, 1000, 2000, 4000], 2),
    "multiscale draw against d": ([200, 283, 400, 566, 800], 2),
    "memory of a Gaussian fit against d": ([1000, 2000, 4000, 6000], 2),
    "memory of a screened fit against d": ([1000, 2000, 4000, 6000], 2),
}
FIXED_D, FIXED_N = 256, 8192
MEMORY_RECORDS = 256
# Slopes between neighbours from which on the expected exponent is reached, give or take this.
NEAR = 0.25


def measure(journal: Callable[[str, Callable[[], Any]], Any], step: Callable[..., None]) -> None:
    step("", len(RANGES))
    for name, (sizes, _) in RANGES.items():
        step(name)
        journal(f"exponents/{name}", lambda n=name, s=sizes: measure_range(n, s))


def measure_range(name: str, sizes: list[int]) -> dict[str, float]:
    """Cost at each size; a peak of memory is that of a process, so each needs its own."""
    parts = [[size] for size in sizes] if "memory" in name else [sizes]
    found: dict[str, float] = {}
    for part in parts:
        found |= in_a_process(name, part)
    return found


def in_a_process(name: str, sizes: list[int]) -> dict[str, float]:
    """Processor seconds of one thread, or bytes."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1") | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, name, *map(str, sizes)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)


def print_table(journal: Any) -> None:
    """Exponent over the whole range, over its upper half, and from where on it is as expected."""
    if not journal.under("exponents/"):
        return
    print("\nExponents by least squares: expected, whole range, upper half; reached from")
    for name, (_, expected) in RANGES.items():
        found = journal.cells.get(f"exponents/{name}", {})
        if not found:
            continue
        sizes = np.array(sorted(int(size) for size in found))
        values = np.array([found[str(size)] for size in sizes])
        upper = len(sizes) // 2
        print(
            f"  {name:36s} {expected:g}  {slope(sizes, values):5.2f}  "
            f"{slope(sizes[upper:], values[upper:]):5.2f}  {reached(sizes, values, expected)}"
        )


def slope(sizes: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def reached(sizes: np.ndarray, values: np.ndarray, expected: float) -> str:
    """The smallest size from which on all slopes between neighbours are near the expected one."""
    slopes = np.diff(np.log(values)) / np.diff(np.log(sizes))
    far = np.flatnonzero(np.abs(slopes - expected) > NEAR)
    first = 0 if not len(far) else int(far[-1]) + 1
    return f"{sizes[first]:,}" if first < len(slopes) else "not in this range"


# In a process of its own


def action(name: str, size: int) -> Callable[[], object]:
    """What is timed, with all it needs made beforehand."""
    what, _, against = name.partition(" against ")
    if what in ("Gram", "signs", "products"):
        n, d = (size, FIXED_D) if against == "n" else (FIXED_N, size)
        records = ArrayRecords(np.random.default_rng(0).standard_normal((n, d)))
        grid = FeatureGrid(np.ones(d), 6.0, 2**14)
        products = product_map(d)
        return {
            "Gram": lambda: row_bounded_gram(records, grid, None),
            "signs": lambda: sign_gram(records),
            "products": lambda: products.sum(records),
        }[what]
    generator = entropy_source().generator
    pairs = size * (size - 1) // 2
    if what == "Gumbel selection":
        scores = np.arange(pairs, dtype=np.int64) % 1000
        return lambda: gumbel_top(generator, scores, 0.01, (ROW_SPARSITY - 1) * size // 2)
    if what == "rounded normal noise":
        return lambda: rounded_normal(generator, 10**6, pairs + size)
    # With one nonzero a row all levels select from 140 features on; levels that keep all are cheap.
    known = {"n_features": size, "row_sparsity": 1, "target_error": 0.25, "scale": 1.0}
    known |= {"epsilon": 1.0, "delta": 1e-6, "failure_probability": 0.1}
    n = theorem_parameters(PublicInputs(n_records=1, **known)).smallest_accurate_n
    schedule = theorem_parameters(PublicInputs(n_records=n, **known)).schedule
    S = wishart_moments(sparse_covariance("block", size, 1), n).covariance
    statistic = S[np.triu_indices(size)] / schedule.base_threshold
    return lambda: sample_exact(statistic, schedule, generator)


def product_map(d: int) -> ProductMap:
    """As many pairs as a screened release selects: the number of products grows like d."""
    rows = np.repeat(np.arange(d), (ROW_SPARSITY - 1) // 2)
    return ProductMap(
        grid=FeatureGrid(np.ones(d), 8.0, 256),
        rows=rows,
        columns=(rows + 1) % d,
        pair_weight=4,
        diagonal_weight=3,
        centre=1024,
        norm_bound=10_000,
        factor_range=5_000,
        size_range=5_000,
        size_cap=4 * 1024 * d,
    )


def processor_seconds(name: str, size: int) -> float:
    """Of one call: the median of a few measurements, after one that loads compiled code."""
    work = action(name, size)
    work()
    times: list[float] = []
    for _ in range(REPEATS):
        start, calls = time.process_time(), 0
        while (passed := time.process_time() - start) < SHORTEST or not calls:
            work()
            calls += 1
        times.append(passed / calls)
    return median(times)


def memory(name: str, d: int) -> int:
    """Peak bytes of a fit beyond those of a tiny one, which loads and compiles."""
    budget = {"epsilon": 1.0, "delta": 1e-6, "feature_scale": 1.0, "assume_centered": True}
    kind = GaussianCovariance if "Gaussian" in name else ScreenedCovariance
    fit = kind(**budget, row_sparsity=ROW_SPARSITY, store_precision=False).fit
    fit(np.ones((100, 10)))
    X = np.random.default_rng(0).standard_normal((MEMORY_RECORDS, d))
    before = peak()
    fit(X)
    return peak() - before


def peak() -> int:
    """Most bytes this process has had in memory.

    What Linux tells of resources used counts the process that started this one as well.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    what, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
    cost = memory if "memory" in what else processor_seconds
    print(json.dumps({size: cost(what, size) for size in sizes}))
