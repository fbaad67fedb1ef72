"""Compare the errors of the default with those of an older tree, on the same records and seeds.

    git worktree add build/before COMMIT
    python benchmarks/guards/accuracy.py --before build/before --seeds 5 --jobs 2
    python benchmarks/guards/accuracy.py --before build/before --tables data/*.npz

Families have scales over two decades and offsets, and nothing is known. A table is a `.npz` file
with `X` and `y`. Errors are operator norms in units of the standard deviations. The noise of both
trees is seeded alike, so a ratio other than 1 means that behaviour changed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[2]
CELLS = "25,100000;50,30000;200,30000"
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn"}
Matrix = npt.NDArray[np.float64]


def family(name: str, d: int, n: int, seed: int) -> tuple[Matrix, Matrix]:
    """Draw records of a family; return them with the true covariance."""
    from hushcov.simulate import gaussian_records, structured_covariance

    correlation = structured_covariance(name, d, random_state=7)
    scale = np.geomspace(1, 100, d)
    offset = 3 * np.random.default_rng(d).standard_normal(d) * scale
    records = gaussian_records(correlation, n, random_state=seed) * scale + offset
    return records, correlation * np.multiply.outer(scale, scale)


def table(path: str) -> tuple[Matrix, Matrix]:
    """Read a table; return its records with their covariance."""
    stored = np.load(path)
    records = np.column_stack([stored["X"], stored["y"]]).astype(np.float64)
    return records, np.cov(records, rowvar=False)


def error(records: Matrix, truth: Matrix, seed: int) -> float:
    """Fit the default with seeded noise, and return its relative error."""
    from hushcov import PrivateSparseCovariance
    from hushcov.metrics import operator_norm

    deviations = np.sqrt(truth.diagonal())
    deviations = np.where(deviations > 0, deviations, 1.0)
    units = np.multiply.outer(deviations, deviations)
    fitted = PrivateSparseCovariance(**BUDGET, random_state=seed).fit(records)
    return float(
        operator_norm(fitted.covariance_ / units - truth / units) / operator_norm(truth / units)
    )


def measure(case: list[Any]) -> float:
    """Return the error of one case, in the process and tree that runs this."""
    warnings.simplefilter("ignore")
    name, *rest, seed = case
    return error(*(family(name, *rest, seed) if rest else table(name)), seed)


def measured_in(tree: Path, case: list[Any]) -> float:
    """Measure a case in another process that imports hushcov from `tree`."""
    found = [str(tree / "src")] + [p for p in os.environ.get("PYTHONPATH", "").split(":") if p]
    environment = os.environ | {"PYTHONPATH": ":".join(found), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    return float(subprocess.check_output(command, env=environment, text=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, default=ROOT, help="the root of the older tree")
    parser.add_argument("--cells", default=CELLS, help="d,n;d,n;...")
    parser.add_argument("--tables", nargs="*", default=[], help=".npz files, instead of families")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(measure(asked.case))
        return
    from hushcov.simulate import FAMILIES

    sizes = [[int(each) for each in cell.split(",")] for cell in asked.cells.split(";")]
    cells = [[name, *size] for size in sizes for name in FAMILIES]
    cells = [[path] for path in asked.tables] or cells
    trees = [asked.before.resolve(), ROOT]
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = [
            [
                [pool.submit(measured_in, tree, [*cell, seed]) for seed in range(asked.seeds)]
                for tree in trees
            ]
            for cell in cells
        ]
        ratios = []
        for cell, both in zip(cells, waiting, strict=True):
            before, now = (np.array([each.result() for each in runs]) for runs in both)
            ratios.append(np.median(now) / np.median(before))
            print(
                f"{' '.join(map(str, cell)):40s} before {np.median(before):.4f}  "
                f"now {np.median(now):.4f}  ratio {ratios[-1]:.3f}",
                flush=True,
            )
    mean = np.exp(np.log(ratios).mean())
    print(f"{len(ratios)} cells: geometric mean {mean:.4f}, largest {max(ratios):.3f}")


if __name__ == "__main__":
    main()
