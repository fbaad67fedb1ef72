"""Peak memory of fits, each in a process of its own, over what `hushcov plan` predicts.

    python benchmarks/guards/memory.py [--only WORDS]

Arrays in memory and in `.npy` files, and Parquet files in groups of rows and in one giant group.
What is wanted of each is a ratio between 0.85 and 1.15. Records are in groups of five features with
correlations of a half.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from peak import peak

GROUP, GROUP_ROWS = 5, 2**16
ESTIMATORS = ("default", "screened", "gaussian")
# Where the records are, records, features.
PLACES = (
    ("array", 100_000, 200),
    ("array", 100_000, 1_000),
    ("array", 20_000, 3_000),
    ("npy", 100_000, 200),
    ("npy", 200_000, 1_000),
    ("npy", 20_000, 3_000),
    ("parquet", 100_000, 200),
    ("parquet", 262_144, 500),
    ("parquet", 1_000_000, 500),
    ("parquet", 100_000, 1_000),
    ("one group", 262_144, 500),
    ("one group", 1_000_000, 200),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="of places and estimators with this in the name")
    parser.add_argument("--data", type=Path, help="folder to keep files in")
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        place, path, n_records, estimator = arguments.fit
        print(json.dumps(measure(place, path, int(n_records), estimator)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data or Path(temporary)
        for place, n, d in PLACES:
            names = [f"{place} {n}x{d} {estimator}" for estimator in ESTIMATORS]
            wanted = [name for name in names if arguments.only in name]
            path = write(folder, place, n, d) if wanted else Path()
            for name in wanted:
                report(name, run(place, path, n, name.split()[-1]))
            if not arguments.data:
                path.unlink(missing_ok=True)


def report(name: str, found: dict[str, Any]) -> None:
    for who, (measured, predicted) in found.items():
        ratio = measured / predicted
        print(
            f"{name + ' ' + who:45s} measured {measured / 1e9:5.2f} GB, predicted "
            f"{predicted / 1e9:5.2f} GB, ratio {ratio:.2f}{'' if 0.85 <= ratio <= 1.15 else ' !'}",
            flush=True,
        )


def run(place: str, path: Path, n_records: int, estimator: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--fit", place, str(path), str(n_records), estimator]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def blocks(n_records: int, n_features: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for start in range(0, n_records, GROUP_ROWS):
        rows = min(GROUP_ROWS, n_records - start)
        common = rng.standard_normal((rows, -(-n_features // GROUP)))
        block = rng.standard_normal((rows, n_features))
        for i in range(n_features):
            block[:, i] += common[:, i // GROUP]
        yield block / np.sqrt(2)


def write(folder: Path, place: str, n: int, d: int) -> Path:
    name = "one.parquet" if place == "one group" else "npy" if place in ("npy", "array") else None
    path = folder / f"{n}x{d}.{name or 'parquet'}"
    if path.exists():
        return path
    if name == "npy":
        table = npy.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
        filled = 0
        for block in blocks(n, d):
            table[filled : filled + len(block)] = block
            filled += len(block)
        return path
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{i}" for i in range(d)]
    parts = (np.ascontiguousarray(block.T) for block in blocks(n, d))
    if place == "one group":
        table = pa.table([*np.concatenate(list(parts), axis=1)], names=names)
        parquet.write_table(table, path, row_group_size=n, use_dictionary=False)
        return path
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for part in parts:
            writer.write_table(pa.table([*part], schema=schema))
    return path


def measure(place: str, path: str, n_records: int, estimator: str) -> dict[str, Any]:
    """In a process of its own: peak and prediction."""
    warnings.simplefilter("ignore")
    from hushcov.fit import fit_memory
    from hushcov.tables.files import FileRecords, reader_bytes
    from hushcov.tables.sources import open_records

    held, X = 0, None
    if place == "array":
        X = np.load(path)
        held = X.nbytes
    records = open_records(path if X is None else X)
    reader = reader_bytes(records.n_features) if isinstance(records, FileRecords) else 0
    fit(records, estimator)
    d = records.n_features
    predicted = fit_memory(
        mechanism_of(estimator),
        records.n_records,
        d,
        reader=reader,
        prepared=estimator == "default",
    )
    return {"": (peak(), predicted + held)}


def mechanism_of(estimator: str) -> str:
    return {"default": "adaptive"}.get(estimator, estimator)


def fit(records: Any, estimator: str) -> None:
    from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance

    budget = {"epsilon": 1.0, "delta": 1e-6}
    budget |= {"on_hopeless": "warn", "on_large_delta": "warn"}
    known = {"assume_centered": True, "feature_scale": 1.0}
    {
        "default": lambda: PrivateSparseCovariance(**budget),
        "screened": lambda: ScreenedCovariance(**budget, **known, row_sparsity=5),
        "gaussian": lambda: GaussianCovariance(**budget, **known),
    }[estimator]().fit(records)


if __name__ == "__main__":
    main()
