"""How the cost of a whole fit grows, and what it is bound by (docs/cost.md).

    python benchmarks/guards/growth.py
    python benchmarks/guards/growth.py --only "default, sparse, against d"

Each fit is run at five sizes over two decades, in one process of one thread for each row of the
table. Processor time of one thread: other load on the machine counts little. The time is divided
into reading (blocks from the source), integers (sums over rows), noise and selection, and the rest
(plans, structure, the release), and set beside what this machine needs at least: `X.T @ X` in
doubles at the rate of products of matrices, and going through the records once.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.kernel.records.base import Records
from hushcov.simulate import gaussian_records, structured_covariance
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import ArrayRecords

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
BUDGET |= {"on_hopeless": "warn", "on_large_delta": "warn"}
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
RECORDS = [10_000, 31_623, 100_000, 316_228, 1_000_000]
FEATURES = [20, 63, 200, 632, 2_000]
CANDIDATES = [1_000, 3_162, 10_000, 31_623, 100_000]
UNITS = [1_000, 3_162, 10_000, 31_623, 100_000]
FIXED_N, FIXED_D, ROWS_PER_UNIT = 20_000, 100, 4
SPARSE, DENSE = "block", "factor-blocks"
REPEATS = 3
KINDS = ("reading", "integers", "noise", "rest")


def of_model(family: str, n: int, d: int) -> np.ndarray:
    return gaussian_records(structured_covariance(family, d), n)


def default(family: str, n: int, d: int) -> Callable[[], object]:
    X = of_model(family, n, d)
    return lambda: PrivateSparseCovariance(**BUDGET).fit(X)


def gaussian(n: int, d: int) -> Callable[[], object]:
    X = of_model(SPARSE, n, d)
    return lambda: GaussianCovariance(**BUDGET, **KNOWN).fit(X)


def of_file(n: int, d: int) -> Callable[[], object]:
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "records.parquet")
    columns = dict(zip(map(str, range(d)), of_model(SPARSE, n, d).T, strict=True))
    parquet.write_table(pa.table(columns), path, row_group_size=2**16, use_dictionary=False)

    def fit(folder: object = folder) -> object:  # the folder goes with this function
        return PrivateSparseCovariance(**BUDGET).fit(path)

    return fit


def of_candidates(number: int) -> Callable[[], object]:
    d = 1_000
    X, width = of_model(SPARSE, FIXED_N, d), number // d
    first = np.repeat(np.arange(d), width)
    pairs = np.stack([first, (first + np.tile(np.arange(1, width + 1), d)) % d], axis=1)
    return lambda: PrivateSparseCovariance(**BUDGET, candidate_pairs=pairs).fit(X)


def of_units(number: int) -> Callable[[], object]:
    X = of_model(SPARSE, number * ROWS_PER_UNIT, 50)
    units = np.repeat(np.arange(number), ROWS_PER_UNIT)
    options = {"max_rows_per_unit": ROWS_PER_UNIT}
    return lambda: PrivateSparseCovariance(**BUDGET, **options).fit(X, unit=units)


#: Sizes, the fit of a size, and n and d of a size.
RANGES: dict[str, tuple[list[int], Callable[[int], Callable[[], object]], Any]] = {
    "default, sparse, against n": (
        RECORDS,
        lambda n: default(SPARSE, n, FIXED_D),
        lambda n: (n, FIXED_D),
    ),
    "default, sparse, against d": (
        FEATURES,
        lambda d: default(SPARSE, FIXED_N, d),
        lambda d: (FIXED_N, d),
    ),
    "default, dense, against d": (
        FEATURES,
        lambda d: default(DENSE, FIXED_N, d),
        lambda d: (FIXED_N, d),
    ),
    "Gaussian, against n": (RECORDS, lambda n: gaussian(n, FIXED_D), lambda n: (n, FIXED_D)),
    "Gaussian, against d": (FEATURES, lambda d: gaussian(FIXED_N, d), lambda d: (FIXED_N, d)),
    "default, Parquet, against n": (RECORDS, lambda n: of_file(n, FIXED_D), lambda n: (n, FIXED_D)),
    "candidates, against their number": (CANDIDATES, of_candidates, lambda _: (FIXED_N, 1_000)),
    "units, against their number": (UNITS, of_units, lambda units: (ROWS_PER_UNIT * units, 50)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=RANGES, help="one row of the table")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    if arguments.child:
        print(json.dumps(measure(arguments.child)))
        return
    found = {}
    for name in [arguments.only] if arguments.only else RANGES:
        found[name] = in_a_process(name)
        if not arguments.json:
            print(line(name, found[name]), flush=True)
    if arguments.json:
        print(json.dumps(found, indent=1))


def in_a_process(name: str) -> dict[str, Any]:
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [sys.executable, __file__, "--child", name]
    environment = os.environ | dict.fromkeys(threads, "1")
    return json.loads(
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    )


def line(name: str, found: dict[str, Any]) -> str:
    """Exponents over the whole range and its upper half, and the largest fit in parts."""
    sizes, seconds = np.array(found["sizes"]), np.array(found["seconds"])
    last, upper = found["parts"][-1], len(sizes) // 2
    shares = ", ".join(f"{kind} {last[kind] / seconds[-1]:.2f}" for kind in KINDS)
    return (
        f"| {name} | {sizes[0]:,} to {sizes[-1]:,} | {slope(sizes, seconds):.2f} | "
        f"{slope(sizes[upper:], seconds[upper:]):.2f} | {seconds[-1]:.2f} s | {shares} | "
        f"{seconds[-1] / found['product']:.2f} | {seconds[-1] / found['once']:.1f} |"
    )


def slope(sizes: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def measure(name: str) -> dict[str, Any]:
    """Processor seconds of each size, in parts, and the limits of the machine at the largest."""
    sizes, make, shape = RANGES[name]
    parts = [clocked(make(size)) for size in sizes]
    n, d = shape(sizes[-1])
    A = np.random.default_rng(0).standard_normal((1500, 1500))
    B = A.copy()  # of an array with itself NumPy makes half of the products
    rate = 2 * len(A) ** 3 / min(spent(lambda: A @ B) for _ in range(REPEATS))
    row = np.ones((min(n, 2**27 // d // 8), d))
    pace = row.nbytes / min(spent(row.max) for _ in range(REPEATS))
    return {
        "sizes": sizes,
        "seconds": [sum(part.values()) for part in parts],
        "parts": parts,
        "product": n * d * d / rate,
        "once": 8 * n * d / pace,
    }


def spent(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def clocked(fit: Callable[[], object]) -> dict[str, float]:
    """Medians of the parts of a fit, after one that compiles."""
    fit()
    with_parts = [in_parts(fit) for _ in range(REPEATS)]
    return {kind: median(each[kind] for each in with_parts) for kind in KINDS}


def in_parts(fit: Callable[[], object]) -> dict[str, float]:
    """Processor seconds of one fit by kind: what is inside another counts for the inner one."""
    clock = Clock()
    watched = [
        (ArrayRecords, "_blocks", clock.over("reading", blocks=True)),
        (FileRecords, "_blocks", clock.over("reading", blocks=True)),
        (FileRecords, "_mapped_blocks", clock.over("reading", blocks=True)),
        (Records, "_sum_rows", clock.over("integers")),
        *(
            (module, name, clock.over("noise"))
            for module in list(sys.modules.values())
            if getattr(module, "__name__", "").startswith("hushcov")
            for name in ("rounded_normal", "gumbel_top")
            if callable(getattr(module, name, None))
        ),
    ]
    before = [getattr(owner, name) for owner, name, _ in watched]
    for (owner, name, wrap), own in zip(watched, before, strict=True):
        setattr(owner, name, wrap(own))
    try:
        total = spent(fit)
    finally:
        for (owner, name, _), own in zip(watched, before, strict=True):
            setattr(owner, name, own)
    return clock.spent | {"rest": total - sum(clock.spent.values())}


class Clock:
    """Processor time by kind; time of an inner kind is not that of the outer one."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(KINDS[:-1], 0.0)
        self._running: list[str] = []
        self._since = 0.0

    def _switch(self) -> None:
        now = time.process_time()
        if self._running:
            self.spent[self._running[-1]] += now - self._since
        self._since = now

    def enter(self, kind: str) -> None:
        """Let time count for a kind."""
        self._switch()
        self._running.append(kind)

    def leave(self) -> None:
        """Let time count for the kind outside."""
        self._switch()
        self._running.pop()

    def over(self, kind: str, *, blocks: bool = False) -> Callable[[Any], Any]:
        """Return what makes a function, or a generator of blocks, count for a kind."""

        def wrap(function: Any) -> Any:
            @functools.wraps(function)
            def timed(*args: Any, **kwargs: Any) -> Any:
                self.enter(kind)
                try:
                    return function(*args, **kwargs)
                finally:
                    self.leave()

            @functools.wraps(function)
            def each(*args: Any, **kwargs: Any) -> Iterator[Any]:
                found = iter(function(*args, **kwargs))
                while True:
                    self.enter(kind)
                    try:
                        block = next(found, None)
                    finally:
                        self.leave()
                    if block is None:
                        return
                    yield block

            return each if blocks else timed

        return wrap


if __name__ == "__main__":
    main()
