"""Time of a fit with nothing known over that of one with mean and scales known.

    python benchmarks/guards/nothing_known.py

n = 100,000, d = 200 and 1,000, data in memory. Both fits are taken in turn, planned and compiled
before. Medians and ranges of the ratios. Where other work shares the machine, CPU time of one
thread tells more: `OMP_NUM_THREADS=1` and `--cpu`.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

from hushcov import GaussianCovariance, ScreenedCovariance
from hushcov.simulate import gaussian_records, sparse_covariance

BUDGET = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "on_hopeless": "warn",
    "on_large_delta": "warn",
}
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
UNKNOWN: dict[str, object] = {}
ESTIMATORS = {
    "screened": (ScreenedCovariance, {"row_sparsity": 5}),
    "Gaussian": (GaussianCovariance, {}),
}


def seconds(fit, X, clock) -> float:
    """How long it takes, without planning."""
    fit._fit_plan(*X.shape)  # later found in the cache
    start = clock()
    fit.fit(X)
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--features", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of time that passes")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    clock = time.process_time if asked.cpu else time.perf_counter
    for d in asked.features:
        X = gaussian_records(sparse_covariance("random", d, 5), asked.records)
        for name, (kind, options) in ESTIMATORS.items():
            times: dict[str, list[float]] = {"known": [], "unknown": []}
            for number in range(asked.rounds + 1):
                for what, how in (("known", KNOWN), ("unknown", UNKNOWN)):
                    fit = kind(**BUDGET, **options, **how)
                    taken = seconds(fit, X, clock)
                    if number:  # the first one compiles
                        times[what].append(taken)
            ratios = [b / a for a, b in zip(times["known"], times["unknown"], strict=True)]
            middle = {what: statistics.median(each) for what, each in times.items()}
            print(
                f"{name}, d = {d}: known {middle['known']:.3f} s, "
                f"unknown {middle['unknown']:.3f} s, "
                f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
