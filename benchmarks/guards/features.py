"""Many features on one computer: peak memory of a fit against what `hushcov plan` predicts.

    python benchmarks/guards/features.py --output results/features.json

Every fit runs in a process of its own, on records that are read from a `.npy` file in blocks:
groups of five features with correlations of a half, as bytes. 10,000 features are released as a
dense matrix, 50,000 as a sparse one. With few records the estimates are worth nothing; memory and
time of the statistics do not depend on that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from rich.progress import track

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import AccuracyWarning, PrivacyWarning
from hushcov.fit import fit_memory
from peak import peak

# Mechanism, features, records.
CELLS = (
    ("screened", 10_000, 4_000),
    ("gaussian-threshold", 10_000, 4_000),
    ("multiscale", 5_000, 4_000),
    ("screened", 50_000, 2_000),
)
GROUP = 5
LEVELS_PER_DEVIATION = 30  # bytes hold four standard deviations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results/features.json"))
    parser.add_argument("--fit", nargs=3, metavar=("FILE", "MECHANISM", "D"), help="for itself")
    arguments = parser.parse_args()
    if arguments.fit:
        path, mechanism, features = arguments.fit
        print(json.dumps(fit(path, mechanism, int(features))))
        return
    results = [measure(*cell) for cell in track(CELLS, "fitting")]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    for each in results:
        print(
            f"{each['mechanism']:>18} d={each['n_features']:,} n={each['n_records']:,}: peak "
            f"{each['peak'] / 1e9:.2f} GB, predicted {each['predicted'] / 1e9:.2f} GB, output "
            f"{each['output']}, {each['seconds']:.0f} s"
        )


def measure(mechanism: str, n_features: int, n_records: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        write_records(path, n_records, n_features)
        command = [sys.executable, __file__, "--fit", str(path), mechanism, str(n_features)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"mechanism": mechanism, "n_records": n_records} | json.loads(done.stdout)


def fit(path: str, mechanism: str, n_features: int) -> dict[str, object]:
    for category in (AccuracyWarning, PrivacyWarning):
        warnings.simplefilter("ignore", category)
    estimator = PrivateSparseCovariance(
        epsilon=1.0,
        delta=1e-6,
        on_hopeless="warn",
        on_large_delta="warn",
        row_sparsity=GROUP,
        feature_scale=float(LEVELS_PER_DEVIATION),
        mechanism=mechanism,
        assume_centered=True,
    )
    start = time.perf_counter()
    estimator.fit(path)
    seconds = time.perf_counter() - start
    sparse = not isinstance(estimator.covariance_, np.ndarray)
    n = estimator.n_records_
    return {
        "n_features": n_features,
        "output": "sparse" if sparse else "dense",
        "seconds": seconds,
        "peak": peak(),
        "predicted": fit_memory(mechanism, n, n_features, sparse=sparse),
    }


def write_records(path: Path, n_records: int, n_features: int) -> None:
    """Groups of features that share half of their variance, a few rows at a time."""
    generator = np.random.default_rng(0)
    rows = npy.open_memmap(path, "w+", dtype=np.int8, shape=(n_records, n_features))
    for start in range(0, n_records, 500):
        size = min(500, n_records - start)
        shared = generator.standard_normal((size, n_features // GROUP), dtype=np.float32)
        own = generator.standard_normal((size, n_features), dtype=np.float32)
        values = (np.repeat(shared, GROUP, axis=1) + own) * np.sqrt(0.5, dtype=np.float32)
        levels = np.rint(values * LEVELS_PER_DEVIATION)
        rows[start : start + size] = np.clip(levels, -127, 127)
    rows.flush()


if __name__ == "__main__":
    main()
