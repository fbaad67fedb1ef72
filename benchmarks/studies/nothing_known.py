"""Errors with nothing known, over those with means and scales known: `docs/mechanisms.md`.

python benchmarks/studies/nothing_known.py --runs 3
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from rich.progress import track

from hushcov import ScreenedCovariance
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance

CELLS = (
    ("random", 200, 10_000),
    ("random", 200, 30_000),
    ("random", 200, 100_000),
    ("block", 200, 30_000),
    ("banded", 200, 30_000),
    ("block", 1000, 30_000),
    ("random", 1000, 60_000),
)
BUDGET = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "row_sparsity": 5,
    "on_hopeless": "warn",
    "on_large_delta": "warn",
}
OFFSETS = (10.0, 1e3, 1e6)  # in standard deviations


def measure(model: str, d: int, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Error and seconds of each way to fit the same records."""
    truth = sparse_covariance(model, d, 5, random_state=seed)
    rows = gaussian_records(truth, n, random_state=100 + seed)
    deviation = np.sqrt(np.diag(truth))
    ways = {
        "known": ({"assume_centered": True, "feature_scale": deviation}, 0.0),
        "private": ({}, 0.0),
    }
    ways |= {f"offset {offset:g}": ({}, offset) for offset in OFFSETS}
    found = {}
    for name, (options, offset) in ways.items():
        estimator = ScreenedCovariance(**BUDGET, **options, random_state=seed)
        moved = rows + offset * deviation
        start = time.perf_counter()
        error = operator_norm_error(estimator.fit(moved).covariance_, truth)
        found[name] = (error, time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    for model, d, n in CELLS:
        name = f"{model} {d}, n = {n:,}"
        if asked.only not in name:
            continue
        runs = [measure(model, d, n, seed) for seed in track(range(asked.runs), name)]
        error = {way: float(np.median([run[way][0] for run in runs])) for way in runs[0]}
        seconds = {way: float(np.median([run[way][1] for run in runs])) for way in runs[0]}
        ratios = (f"{way} {error[way] / error['known']:.2f}" for way in error if way != "known")
        times = seconds["private"] / seconds["known"]
        print(f"{name}: known {error['known']:.4f}; over it: {', '.join(ratios)}; time {times:.1f}")


if __name__ == "__main__":
    main()
