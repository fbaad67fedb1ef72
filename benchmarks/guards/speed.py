"""A private fit over not being private: `X.T @ X`, or reading a file and that.

    python benchmarks/guards/speed.py
    python benchmarks/guards/speed.py --before OLDER_TREE
    python benchmarks/guards/speed.py --parts arrays --features 100 5000 10000

arrays: n d = 1e8 values in memory, n = 100,000 at d = 1,000. In every turn `X.T @ X` in doubles is
taken, then each fit, and their ratio; and which part of a dense fit is its structure (eigenvalues,
thresholds, error estimates). Beside it the arithmetic of this machine: what products of matrices in
doubles and counts of bits it makes, and how long the signs of a screen take at that.

files: a Parquet file of 1,000,000 records of 500 features, in groups of 65,536 rows. Each fit, and
reading with pyarrow plus `X.T @ X` block by block, is a process of its own, in turn. Peak memory.

cluster: the same file on Dask clusters of two workers and of one, of one thread each, in turn.

planning: processor seconds of plans and commands at d = 1,000, of one thread, in new processes.

Medians of five turns with their ranges, and what is over its limit. With `--before` everything is
measured by another tree as well, part by part in turn, and both stand side by side. Limits are for
the sizes above on two idle cores. An accelerator has `device.py`, exponents `growth.py`.
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
from typing import Any

import numpy as np

import hushcov.fit.adaptive.mechanism as adaptive
import planning
import scale
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.kernel.sums.signs import PackedSigns
from hushcov.simulate import gaussian_records, structured_covariance
from hushcov.tables.sources import ArrayRecords, open_records
from peak import peak

CELLS = 10**8
SPARSE, DENSE = "block", "factor-blocks"
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn", "on_large_delta": "warn"}
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
SCREENED = {"row_sparsity": 5, **KNOWN}
TURNS_OUT_DENSE = "default, turns out dense"
#: Structure of the records, estimator, and the most that it may take over `X.T @ X` at d = 1,000.
ARRAYS = {
    "screened, everything known": (SPARSE, lambda: ScreenedCovariance(**BUDGET, **SCREENED), 0.3),
    "default, sparse": (SPARSE, lambda: PrivateSparseCovariance(**BUDGET), 0.6),
    TURNS_OUT_DENSE: (DENSE, lambda: PrivateSparseCovariance(**BUDGET), 1.4),
    "Gaussian, everything known": (SPARSE, lambda: GaussianCovariance(**BUDGET, **KNOWN), 1.05),
}
MOST_STRUCTURE = 0.2
REST = 0.3  # seconds in which threads of BLAS, which wait for more to do, go to sleep
BASELINE = "pyarrow + X.T @ X"
KEPT = "default, compact rows in memory"
FILES: dict[str, Callable[[str], object]] = {
    BASELINE: scale.multiply,
    "default": lambda path: PrivateSparseCovariance(**BUDGET).fit(path),
    KEPT: lambda path: PrivateSparseCovariance(**BUDGET).fit(open_records(path, memory=1.1)),
    "default, scratch file": lambda path: PrivateSparseCovariance(**BUDGET).fit(
        open_records(path, scratch=Path(path).parent)
    ),
    "Gaussian, everything known": lambda path: GaussianCovariance(**BUDGET, **KNOWN).fit(path),
}
FILE_LIMITS = {
    "default": 1.5,
    KEPT: 1.2,
    "default, scratch file": 1.2,
    "Gaussian, everything known": 1.1,
}
MOST_MEMORY = 0.6  # GB, but for rows that are kept on demand
LEAST_SPEEDUP = 1.8  # of two workers over one
PARTS = ("arrays", "files", "cluster", "planning")
#: Each row has a name, what was found in the turns, a unit, and the most or least that it may be.
Row = dict[str, Any]


def main() -> None:
    arguments = parse_arguments()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    if arguments.child:
        print(json.dumps(of_child(*arguments.child)))
        return
    trees = {"": Path(__file__).parents[2]}
    if arguments.before is not None:
        trees = {"before": arguments.before.resolve(), "now": trees[""]}
    tables: dict[str, list[Row]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for part in arguments.parts:
            for name, tree in trees.items():
                rows = MEASURES[part](arguments, folder, tree)
                for each in rows:
                    print(f"{name:7s}{line(each)}", flush=True)
                tables[name] += rows
    load = os.getloadavg()[0]
    if arguments.json:
        arguments.json.write_text(json.dumps({"load": load, "rows": tables}, indent=1))
    over = [each["what"] for each in [*tables.values()][-1] if each["over"]]
    print(f"load of the last minute {load:.1f}; over the limit: {'; '.join(over) or 'none'}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--features", type=int, nargs="+", default=[1000])
    parser.add_argument("--cells", type=int, default=CELLS, help="n d of records in memory")
    parser.add_argument("--file", type=int, nargs=2, default=[10**6, 500], metavar=("N", "D"))
    parser.add_argument("--data", type=Path, help="folder to keep the file for a rerun")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another tree of hushcov to measure as well")
    parser.add_argument("--json", type=Path, help="file to write everything to")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def row(
    what: str,
    found: list[float],
    limit: float | None = None,
    *,
    unit: str = "",
    least: float | None = None,
) -> Row:
    middle = median(found)
    over = (limit is not None and middle > limit) or (least is not None and middle < least)
    ends = [min(found), max(found)]
    return {
        "what": what,
        "median": middle,
        "range": ends,
        "unit": unit,
        "limit": limit,
        "least": least,
        "over": over,
    }


def line(each: Row) -> str:
    low, high = each["range"]
    text = f"{each['what']:62s} {each['median']:9.3g} ({low:.3g} to {high:.3g}) {each['unit']}"
    if each["limit"] is not None:
        text += f" at most {each['limit']}"
    if each["least"] is not None:
        text += f" at least {each['least']}"
    return text + (", MISSED" if each["over"] else "")


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_process(tree: Path, *words: object) -> Any:
    """Return what a child of this script found, with the code of a tree."""
    command = [sys.executable, __file__, "--child", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    return json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    )


def of_child(kind: str, *words: str) -> Any:
    if kind == "arrays":
        return of_arrays(*map(int, words))
    if kind == "planning":
        return dict(planning.measure(int(words[0])))
    name, path = words
    fit = FILES[name]
    try:
        fit(str(Path(path).with_name(scale.WARM_UP)))
    except TypeError:  # an older tree has no such option
        return None
    wall = seconds(lambda: fit(path))
    return {"wall": wall, "peak": peak()}


def measure_arrays(arguments: argparse.Namespace, folder: Path, tree: Path) -> list[Row]:
    del folder
    rows: list[Row] = []
    for d in arguments.features:
        rows += in_process(tree, "arrays", arguments.cells // d, d, arguments.turns)
    return rows


def of_arrays(n: int, d: int, turns: int) -> list[Row]:
    """Ratios to `X.T @ X`, and the arithmetic limit."""
    found: dict[str, list[float]] = {name: [] for name in ARRAYS}
    base, signs, structure = [], [], []
    for family in (SPARSE, DENSE):  # after each other: one of them is in memory
        X = gaussian_records(structured_covariance(family, d), n)
        ours = {name: make for name, (own, make, _) in ARRAYS.items() if own == family}
        for turn in range(turns + 1):
            product = seconds(partial(np.matmul, X.T, X))
            time.sleep(REST)
            times = {name: seconds(partial(make().fit, X)) for name, make in ours.items()}
            if turn == 0:
                continue  # the first one compiles
            base.append(product)
            for name, taken in times.items():
                found[name].append(taken / product)
            signs.append(seconds(PackedSigns(ArrayRecords(X)).gram) / product)
        if family == DENSE:
            structure = [structure_share(X) for _ in range(turns)]
        del X
    size = f"n = {n:,}, d = {d:,}"
    limited = (n, d) == (CELLS // 1000, 1000)
    rows = [row(f"X.T @ X, {size}", base, unit="s")]
    rows += [
        row(f"{name}, {size}", found[name], limit if limited else None)
        for name, (_, _, limit) in ARRAYS.items()
    ]
    limit = MOST_STRUCTURE if limited else None
    rows.append(row(f"structure over a dense fit, {size}", structure, limit))
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


def structure_share(X: np.ndarray) -> float:
    """Part of a fit that goes into what it calls of `hushcov.postprocess`."""
    spent, inside = [0.0], [0]

    def timed(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            start, outer = time.perf_counter(), not inside[0]
            inside[0] += 1
            try:
                return function(*args, **kwargs)
            finally:
                inside[0] -= 1
                spent[0] += (time.perf_counter() - start) * outer

        return call

    own = {
        name: value
        for name, value in vars(adaptive).items()
        if callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", "").startswith("hushcov.postprocess")
    }
    vars(adaptive).update({name: timed(value) for name, value in own.items()})
    try:
        whole = seconds(lambda: PrivateSparseCovariance(**BUDGET).fit(X))
    finally:
        vars(adaptive).update(own)
    return spent[0] / whole


def measure_files(arguments: argparse.Namespace, folder: Path, tree: Path) -> list[Row]:
    """Ratios to the yardstick, and peak memory, of processes in turn."""
    n, d = arguments.file
    runs: dict[str, list[Any]] = {name: [] for name in FILES}
    scale.write_file(folder / scale.WARM_UP, 3_000, 50)
    path = scale.write_file(folder / f"{n}x{d}.parquet", n, d)
    for _ in range(arguments.turns):
        for name, own in runs.items():
            own.append(in_process(tree, "file", name, path))
    size, limited = f"Parquet, n = {n:,}, d = {d:,}", (n, d) == (10**6, 500)
    rows = []
    for name, own in runs.items():
        if None in own:
            continue
        ratios = [a["wall"] / b["wall"] for a, b in zip(own, runs[BASELINE], strict=True)]
        if name == BASELINE:
            rows.append(row(f"{name}, {size}", [each["wall"] for each in own], unit="s"))
        else:
            limit = FILE_LIMITS[name] if limited else None
            rows.append(row(f"{name}, {size}", ratios, limit))
        peaks = [each["peak"] / 1e9 for each in own]
        limit = None if name in (BASELINE, KEPT) else MOST_MEMORY
        rows.append(row(f"{name}, {size}, peak", peaks, limit, unit="GB"))
    return rows


def measure_cluster(arguments: argparse.Namespace, folder: Path, tree: Path) -> list[Row]:
    n, d = arguments.file
    command = [sys.executable, str(Path(__file__).with_name("scale.py")), "--parts", "cluster"]
    command += ["--records", n, "--features", d, "--rounds", arguments.turns, "--data", folder]
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary, "cluster.json")
        environment = os.environ | {"PYTHONPATH": str(tree / "src")}
        subprocess.run(
            [*map(str, command), "--fresh", "--output", str(output)],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        cells = json.loads(output.read_text())["cells"]
    found: dict[str, list[float]] = {}
    for cell, taken in cells.items():
        part, _, name, workers, turn = cell.split("/")
        if part == "cluster" and workers == "1":
            two = cells["/".join([part, str(n), name, "2", turn])]
            found.setdefault(name, []).append(taken / two)
    return [
        row(f"two workers over one, {name}", ratios, least=LEAST_SPEEDUP)
        for name, ratios in found.items()
    ]


def measure_planning(arguments: argparse.Namespace, folder: Path, tree: Path) -> list[Row]:
    del folder
    found = in_process(tree, "planning", arguments.turns)
    limits = planning.LIMITS
    return [row(name, each, limits.get(name), unit="s") for name, each in found.items()]


MEASURES = dict(
    zip(PARTS, (measure_arrays, measure_files, measure_cluster, measure_planning), strict=True)
)

if __name__ == "__main__":
    main()
