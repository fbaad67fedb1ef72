"""A private fit over not being private: `X.T @ X`, or reading a file and that.

    python benchmarks/guards/speed.py
    python benchmarks/guards/speed.py --parts arrays --features 100 5000 10000

arrays: n d = 1e8 values in memory, n = 100,000 at d = 1,000. In every turn `X.T @ X` in doubles is
taken, then each fit, and their ratio. Beside it the arithmetic of this machine: what products of
matrices in doubles and counts of bits it makes, and how long the signs of a screen take at that.

files: a Parquet file of 1,000,000 records of 500 features, in groups of 65,536 rows. Each fit, and
reading with pyarrow plus `X.T @ X` block by block, is a process of its own, in turn. Peak memory.

small: seconds of a fit of 200 x 1,500, in a new process, without loading.

Medians of five turns with their ranges, and what is over its limit. Limits are for the sizes above
on two idle cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import scale
import scale_costs
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.simulate import gaussian_records, structured_covariance
from hushcov.sums.signs import PackedSigns
from hushcov.tables.sources import ArrayRecords, open_records

CELLS = 10**8
SPARSE, DENSE = "block", "factor-blocks"
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn", "on_large_delta": "warn"}
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
SCREENED = {"row_sparsity": 5, **KNOWN}
#: Structure of the records, estimator, and the most that it may take over `X.T @ X` at d = 1,000.
ARRAYS = {
    "screened, everything known": (SPARSE, lambda: ScreenedCovariance(**BUDGET, **SCREENED), 0.5),
    "default, sparse": (SPARSE, lambda: PrivateSparseCovariance(**BUDGET), 0.8),
    "default, turns out dense": (DENSE, lambda: PrivateSparseCovariance(**BUDGET), 1.6),
    "Gaussian, everything known": (SPARSE, lambda: GaussianCovariance(**BUDGET, **KNOWN), 1.1),
}
BASELINE = "pyarrow + X.T @ X"
FILES: dict[str, Callable[[str], object]] = {
    BASELINE: scale.multiply,
    "default": lambda path: PrivateSparseCovariance(**BUDGET).fit(path),
    "default, all compact rows in memory": lambda path: PrivateSparseCovariance(**BUDGET).fit(
        open_records(path, memory=1.1)
    ),
    "default, scratch file": lambda path: PrivateSparseCovariance(**BUDGET).fit(
        open_records(path, scratch=Path(path).parent)
    ),
    "Gaussian, everything known": lambda path: GaussianCovariance(**BUDGET, **KNOWN).fit(path),
}
FILE_LIMITS = {
    "default": 1.5,
    "default, all compact rows in memory": 1.2,
    "default, scratch file": 1.3,
    "Gaussian, everything known": 1.1,
}
MOST_MEMORY = 0.6  # GB
SMALL, SMALL_LIMIT = "200 x 1,500", 3.0  # seconds


def main() -> None:
    arguments = parse_arguments()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    if arguments.child:
        print(json.dumps(of_child(*arguments.child)))
        return
    rows: list[dict] = []
    if "arrays" in arguments.parts:
        for d in arguments.features:
            rows += arrays(arguments.cells // d, d, arguments.turns)
    if "files" in arguments.parts:
        rows += files(*arguments.file, arguments.turns, arguments.data)
    if "small" in arguments.parts:
        found = [in_process("small", "")["wall"] for _ in range(arguments.turns + 1)][1:]
        rows.append(row(f"fit of {SMALL}", found, SMALL_LIMIT, unit="s"))
    load = os.getloadavg()[0]
    if arguments.json:
        print(json.dumps({"benchmark": "speed", "load": load, "rows": rows}, indent=1))
        return
    for each in rows:
        print(line(each))
    over = [each["what"] for each in rows if each["over"]]
    print(f"load of the last minute {load:.1f}; over the limit: {'; '.join(over) or 'none'}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = ("arrays", "files", "small")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--features", type=int, nargs="+", default=[1000])
    parser.add_argument("--cells", type=int, default=CELLS, help="n d of records in memory")
    parser.add_argument("--file", type=int, nargs=2, default=[10**6, 500], metavar=("N", "D"))
    parser.add_argument("--data", type=Path, help="folder to keep the file for a rerun")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def row(what: str, found: list[float], limit: float | None = None, *, unit: str = "") -> dict:
    middle = median(found)
    return {
        "what": what,
        "median": middle,
        "range": [min(found), max(found)],
        "unit": unit,
        "limit": limit,
        "over": limit is not None and middle > limit,
    }


def line(each: dict) -> str:
    low, high = each["range"]
    text = f"{each['what']:58s} {each['median']:9.3g} ({low:.3g} to {high:.3g}) {each['unit']}"
    if each["limit"] is None:
        return text
    return f"{text} at most {each['limit']}{', OVER' if each['over'] else ''}"


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def arrays(n: int, d: int, turns: int) -> list[dict]:
    """Ratios to `X.T @ X`, and the arithmetic limit."""
    found: dict[str, list[float]] = {name: [] for name in ARRAYS}
    base, signs = [], []
    for family in (SPARSE, DENSE):  # after each other: one of them is in memory
        X = gaussian_records(structured_covariance(family, d), n)
        ours = {name: make for name, (own, make, _) in ARRAYS.items() if own == family}
        for turn in range(turns + 1):
            product = seconds(partial(np.matmul, X.T, X))
            times = {name: seconds(partial(make().fit, X)) for name, make in ours.items()}
            if turn == 0:
                continue  # the first one compiles
            base.append(product)
            for name, taken in times.items():
                found[name].append(taken / product)
            signs.append(seconds(PackedSigns(ArrayRecords(X)).gram) / product)
        del X
    size = f"n = {n:,}, d = {d:,}"
    limited = (n, d) == (CELLS // 1000, 1000)
    rows = [row(f"X.T @ X, {size}", base, unit="s")]
    rows += [
        row(f"{name}, {size}", found[name], limit if limited else None)
        for name, (_, _, limit) in ARRAYS.items()
    ]
    rows.append(row(f"products of packed signs alone, {size}", signs))
    counted = [n / 64 * d * (d + 1) / 2 / (a * b) / 1e9 for a, b in zip(signs, base, strict=True)]
    rows.append(row(f"words of signs met, {size}", counted, unit="1e9/s"))
    A = np.random.default_rng(0).standard_normal((min(3000, n), min(3000, n)))
    B = A.copy()  # of an array with itself NumPy makes half of the products
    flops = [2 * len(A) ** 3 / seconds(lambda: A @ B) / 1e9 for _ in range(turns + 1)][1:]
    rows.append(row("products of matrices in doubles (dgemm)", flops, unit="GFLOP/s"))
    limits = [n * d * d / (each * 1e9) / median(base) for each in flops]
    rows.append(row(f"X.T @ X at that rate, {size}", limits))
    return rows


def files(n: int, d: int, turns: int, folder: Path | None) -> list[dict]:
    """Ratios to the yardstick, and peak memory, of processes in turn."""
    runs: dict[str, list[dict]] = {name: [] for name in FILES}
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        scale.write_file(folder / scale.WARM_UP, 3_000, 50)
        path = scale.write_file(folder / f"{n}x{d}.parquet", n, d)
        for _ in range(turns):
            for name, own in runs.items():
                own.append(in_process(name, str(path)))
    size, limited = f"Parquet, n = {n:,}, d = {d:,}", (n, d) == (10**6, 500)
    rows = []
    for name, own in runs.items():
        ratios = [a["wall"] / b["wall"] for a, b in zip(own, runs[BASELINE], strict=True)]
        if name == BASELINE:
            rows.append(row(f"{name}, {size}", [each["wall"] for each in own], unit="s"))
        else:
            limit = FILE_LIMITS[name] if limited else None
            rows.append(row(f"{name}, {size}", ratios, limit))
        peaks = [each["peak"] / 1e9 for each in own]
        limit = MOST_MEMORY if name in FILE_LIMITS and "in memory" not in name else None
        rows.append(row(f"{name}, {size}, peak", peaks, limit, unit="GB"))
    return rows


def in_process(name: str, path: str) -> dict:
    command = [sys.executable, __file__, "--child", name, path]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def of_child(name: str, path: str) -> dict[str, float]:
    """In a process of its own: seconds after compiling, and peak memory."""
    if name == "small":
        X = np.random.default_rng(0).standard_normal((200, 1500))
        return {"wall": seconds(lambda: PrivateSparseCovariance(**BUDGET).fit(X))}
    fit = FILES[name]
    fit(str(Path(path).with_name(scale.WARM_UP)))
    wall = seconds(lambda: fit(path))
    return {"wall": wall, "peak": scale_costs.peak()}


if __name__ == "__main__":
    main()
