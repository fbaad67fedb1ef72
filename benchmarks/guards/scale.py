"""What size costs: files against plain pyarrow, one worker against two; `growth.py` has exponents.

    python benchmarks/guards/scale.py --parts files,cluster

files: n = 1,000,000 records of 500 features in a Parquet file, in groups of 65,536 rows and without
dictionaries. Each fit, and reading the file with pyarrow plus X.T @ X on its blocks, is a process
of its own; they take turns. Peak memory at a quarter of n too, and of files in other layouts.

cluster: the same file on Dask clusters with one and two workers of one thread, in turn: ratios of
the clock in every round, and their range. First what the machine allows at most: pyarrow and
X.T @ X on shares of the groups of rows, one share for each worker, without hushcov. `--rounds 5`.

What was measured is kept in the output file and skipped on a rerun; `--fresh` forgets it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance, __version__
from hushcov.cli.main import cli
from hushcov.fit.screened.plan import plan_screened
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.signs import sign_gram_and_sums
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.files import FileRecords
from peak import peak

PARTS = ("files", "cluster")
ROW_SPARSITY = 5
GROUP_ROWS = 2**16
LAYOUT_RECORDS = 2**18  # for layouts in which a group of rows is the whole file
LAYOUTS: dict[str, dict[str, Any]] = {
    "one group, no dictionaries": {"use_dictionary": False},
    "one group, pages of 1 MB": {"use_dictionary": False, "max_rows_per_page": 2**17},
    "one group, dictionaries (pyarrow's default)": {},
}
BASELINE = "pyarrow + X.T @ X"
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": ROW_SPARSITY}
BUDGET |= {"on_hopeless": "warn", "on_large_delta": "warn"}  # of public sizes, not of people
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
WARM_UP = "warm-up.parquet"
CEILING = "the machine, without hushcov"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    arguments = parse_arguments()
    if arguments.child:
        name, path = arguments.child
        print(json.dumps(measure_fit(name, path)))
        return
    journal = Journal(arguments.output, fresh=arguments.fresh)
    with tempfile.TemporaryDirectory() as temporary, bar() as step:
        folder = arguments.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if "files" in arguments.parts:
            measure_files(journal, folder, arguments, step)
        if "cluster" in arguments.parts:
            measure_cluster(journal, folder, arguments, step)
    print_files(journal)
    print_cluster(journal)
    print(f"written to {arguments.output}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="folder to keep 6 GB of files for a rerun")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--output", type=Path, default=Path("results/scale.json"))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"--parts must be some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    return arguments


class Journal:
    """What has been measured, on disk after every measurement."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._path = path
        old = json.loads(path.read_text()) if path.exists() and not fresh else {}
        self.cells: dict[str, Any] = old.get("cells", {})

    def __call__(self, cell: str, measure: Callable[[], Any]) -> Any:
        """What this cell was measured as, now or before."""
        if cell not in self.cells:
            self.cells[cell] = measure()
            machine = {"cores": os.cpu_count(), "python": platform.python_version()}
            versions = {"hushcov": __version__, "numpy": np.__version__, "pyarrow": pa.__version__}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            document = {"benchmark": "scale", **machine, **versions, "cells": self.cells}
            self._path.write_text(json.dumps(document, indent=1) + "\n")
        return self.cells[cell]

    def under(self, prefix: str) -> dict[str, Any]:
        """Cells whose names begin with this, without it."""
        return {k.removeprefix(prefix): v for k, v in self.cells.items() if k.startswith(prefix)}


@contextmanager
def bar() -> Iterator[Callable[[str, int], None]]:
    """Yield a function to call before each measurement with what it is and how many will follow."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("", total=0)

        def step(description: str, more: int = 0) -> None:
            total = (progress.tasks[0].total or 0) + more
            progress.update(task, description=description, total=total, advance=0 if more else 1)

        yield step


# Files


def read(
    path: str, use: Callable[[pa.RecordBatch], object], groups: list[int] | None = None
) -> None:
    """As hushcov reads too; with its defaults pyarrow takes several times the time and memory."""
    with parquet.ParquetFile(path, buffer_size=2**14, pre_buffer=False) as file:
        for batch in file.iter_batches(2**14, row_groups=groups):
            use(batch)


def multiply(path: str, groups: list[int] | None = None) -> np.ndarray:
    """X.T @ X over the batches; columns as rows of an array are X.T, without transposing."""
    d = parquet.ParquetFile(path).metadata.num_columns
    total = np.zeros((d, d))

    def add(batch: pa.RecordBatch) -> None:
        transposed = np.stack([column.to_numpy() for column in batch.columns])
        total.__iadd__(transposed @ transposed.T)

    read(path, add, groups)
    return total


def run_command(path: str) -> None:
    """`hushcov fit`, with everything unknown."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        options = ["--epsilon=1", "--delta=1e-6", f"--row-sparsity={ROW_SPARSITY}", "-o", folder]
        options += ["--allow", "hopeless", "--allow", "large-delta"]
        with suppress(SystemExit):
            cli(["fit", path, *options])
        if not Path(folder, "release.json").exists():
            raise RuntimeError("hushcov fit failed: see above.")


FITS: dict[str, Callable[[str], object]] = {
    "pyarrow, reading alone": lambda path: read(path, lambda _: None),
    BASELINE: multiply,
    "Gaussian, known": lambda path: GaussianCovariance(**BUDGET, **KNOWN).fit(path),
    "screened, known": lambda path: ScreenedCovariance(**BUDGET, **KNOWN).fit(path),
    "auto, unknown": lambda path: PrivateSparseCovariance(**BUDGET).fit(path),
    "hushcov fit (command)": run_command,
}


def measure_fit(name: str, path: str) -> dict[str, float]:
    """In a process of its own: compile on a small file, then time and memory."""
    FITS[name](str(Path(path).with_name(WARM_UP)))
    wall, processor = time.perf_counter(), time.process_time()
    FITS[name](path)
    times = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return times | {"peak": peak()}


def of_fit(name: str, path: Path) -> Callable[[], dict[str, float]]:
    command = [sys.executable, __file__, "--child", name, str(path)]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}  # of the small first fit

    def run() -> dict[str, float]:
        done = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(done.stdout)

    return run


def write_file(path: Path, n_records: int, n_features: int, seed: int = 0) -> Path:
    """Records in groups of rows, a group at a time; what is there is kept."""
    if path.exists():
        return path
    truth = sparse_covariance("block", n_features, ROW_SPARSITY)
    scale = 1 / np.sqrt(np.diag(truth))
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(n_features)])
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, n_records, GROUP_ROWS):
            rows = min(GROUP_ROWS, n_records - start)
            X = gaussian_records(truth, rows, random_state=seed + start) * scale
            columns = [pa.array(column) for column in np.ascontiguousarray(X.T)]
            writer.write_table(pa.table(columns, schema=schema))
    return path


def write_layout(path: Path, n_features: int, options: dict[str, Any]) -> Path:
    """All records in one group of rows."""
    Z = np.random.default_rng(0).standard_normal((n_features, LAYOUT_RECORDS))
    parquet.write_table(pa.table([*Z], names=[f"x{i}" for i in range(n_features)]), path, **options)
    return path


def measure_files(
    journal: Journal, folder: Path, arguments: argparse.Namespace, step: Callable[..., None]
) -> None:
    n, d = arguments.records, arguments.features
    step("", (arguments.rounds + 1) * len(FITS) + len(LAYOUTS))
    write_file(folder / WARM_UP, 3_000, 50)
    step("writing records")
    path = write_file(folder / f"{n}x{d}.parquet", n, d)
    for turn, name in itertools.product(range(arguments.rounds), FITS):
        step(f"{name}, n = {n:,}")
        journal(f"files/{n}/{name}/{turn}", of_fit(name, path))
    for name in FITS:
        step(f"{name}, n = {n // 4:,}")
        small = write_file(folder / f"{n // 4}x{d}.parquet", n // 4, d)
        journal(f"files/{n // 4}/{name}/0", of_fit(name, small))
    for layout, options in LAYOUTS.items():
        step(layout)
        cell = f"layouts/{layout}"
        if cell not in journal.cells:
            odd = write_layout(folder / "layout.parquet", d, options)
            journal(cell, of_fit("Gaussian, known", odd))


def print_files(journal: Journal) -> None:
    cells = journal.under("files/")
    for n in sorted({int(cell.split("/")[0]) for cell in cells}):
        found = journal.under(f"files/{n}/")
        print(f"\nParquet file, n = {n:,}: seconds, processor seconds, ratios to {BASELINE}; peak")
        base = turns(found, BASELINE)
        for name in dict.fromkeys(cell.rpartition("/")[0] for cell in found):
            runs = turns(found, name)
            line = f"  {name:24s}"
            for what in ("wall", "processor"):
                line += f" {median(run[what] for run in runs):7.2f} s"
            for what in ("wall", "processor"):
                pairs = zip(runs, base, strict=True)
                line += f"  {median(run[what] / other[what] for run, other in pairs):5.2f}"
            print(f"{line} {max(run['peak'] for run in runs) / 1e9:6.2f} GB")
    if layouts := journal.under("layouts/"):
        print(f"\nGaussian fit of {LAYOUT_RECORDS:,} records in other layouts")
        for name, run in layouts.items():
            print(f"  {name:45s} {run['wall']:6.2f} s {run['peak'] / 1e9:5.2f} GB")


def turns(found: dict[str, Any], name: str) -> list[dict[str, float]]:
    return [run for cell, run in found.items() if cell.rpartition("/")[0] == name]


# Clusters


def stages(path: str, d: int) -> dict[str, Callable[[], object]]:
    """Statistics alone, and whole fits; `DaskRecords` computes on the current client."""
    records = DaskRecords(FileRecords(path))
    grid = FeatureGrid(np.ones(d), 6.0, 2**14)
    return {
        CEILING: lambda: multiply_shares(path),
        "Gram statistics": lambda: row_bounded_gram(records, grid, None),
        "sign statistics": lambda: sign_gram_and_sums(records)[0],
        "Gaussian fit, known": lambda: GaussianCovariance(**BUDGET, **KNOWN).fit(records),
        "screened fit, known": lambda: ScreenedCovariance(**BUDGET, **KNOWN).fit(records),
        "default fit, unknown": lambda: PrivateSparseCovariance(**BUDGET).fit(records),
    }


def multiply_shares(path: str) -> object:
    """X.T @ X of the groups of rows, every second one on every second worker."""
    from distributed import get_client

    client = get_client()
    workers, groups = client.ncores(), range(parquet.ParquetFile(path).metadata.num_row_groups)
    shares = [groups[i :: len(workers)] for i in range(len(workers))]
    how = zip(shares, workers, strict=True)
    return client.gather(
        [client.submit(multiply, path, list(own), workers=[name], pure=False) for own, name in how]
    )


def measure_cluster(
    journal: Journal, folder: Path, arguments: argparse.Namespace, step: Callable[..., None]
) -> None:
    from distributed import Client, LocalCluster

    n, d = arguments.records, arguments.features
    kept: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    kept |= {"env": ONE_THREAD, "memory_limit": "6 GB"}
    step("", 2 * arguments.rounds)
    warm = write_file(folder / WARM_UP, 3_000, 50)
    path = write_file(folder / f"{n}x{d}.parquet", n, d)
    # No worker helps to plan, and only the first fit would pay for it.
    plan_screened(ScreenedCovariance(**BUDGET, **KNOWN)._public_inputs(n, d))
    with (
        LocalCluster(n_workers=1, **kept, silence_logs=50) as one,
        LocalCluster(n_workers=2, **kept, silence_logs=50) as two,
    ):
        clients = {1: Client(one, set_as_default=False), 2: Client(two, set_as_default=False)}
        for turn, workers in itertools.product(range(arguments.rounds), clients):
            step(f"workers: {workers}")
            with clients[workers].as_current():
                for stage in stages(str(warm), 50).values() if not turn else ():
                    stage()
                for name, stage in stages(str(path), d).items():
                    journal(f"cluster/{n}/{name}/{workers}/{turn}", lambda s=stage: seconds(s))
        for client in clients.values():
            client.close()


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def print_cluster(journal: Journal) -> None:
    cells = journal.under("cluster/")
    for n, name in dict.fromkeys(tuple(cell.split("/")[:2]) for cell in cells):
        found = journal.under(f"cluster/{n}/{name}/")
        times = {w: [v for cell, v in found.items() if cell.startswith(f"{w}/")] for w in (1, 2)}
        ratios = sorted(a / b for a, b in zip(times[1], times[2], strict=True))
        if name == CEILING:
            print(f"\nDask, n = {int(n):,}: seconds on one worker and on two; ratios, at least 1.8")
        line = f"  {name:28s} {median(times[1]):7.2f} s {median(times[2]):7.2f} s"
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{line}  {median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}: {each})")


if __name__ == "__main__":
    main()
