"""Cost of the exact sampler at the paper's constants, against the number of candidate tests.

    python benchmarks/guards/sampler.py --output results/sampler.json

Measured: time and memory at d=1000, k=10 (2.7e14 candidates) and d=100, k=5 (1.1e12), S given;
and, at fixed d, what going from target error 1/4 to 1/64 costs (hundreds of times more
candidates) beside what the extra levels alone would cost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import time
from pathlib import Path

import numpy as np

from hushcov import __version__
from hushcov.inputs import PublicInputs
from hushcov.kernel.noise import entropy_source
from hushcov.paper.parameters import theorem_parameters
from hushcov.paper.samplers import sample_exact
from hushcov.simulate import sparse_covariance, wishart_moments


def measure(n_features: int, row_sparsity: int, target_error: float, repeats: int) -> dict:
    base = PublicInputs(1, n_features, row_sparsity, target_error, 1.0, 1e-6, 0.1, 1.0)
    n_records = theorem_parameters(base).smallest_accurate_n
    inputs = PublicInputs(n_records, n_features, row_sparsity, target_error, 1.0, 1e-6, 0.1, 1.0)
    parameters = theorem_parameters(inputs)
    truth = sparse_covariance("block", n_features, row_sparsity)
    S = wishart_moments(truth, n_records).covariance
    statistic = S[np.triu_indices(n_features)] / parameters.schedule.base_threshold
    generator = entropy_source().generator
    seconds = []
    for _ in range(repeats + 1):  # the first run also loads the compiled code
        start = time.perf_counter()
        sample_exact(statistic, parameters.schedule, generator)
        seconds.append(time.perf_counter() - start)
    return {
        "n_records": n_records,
        "n_features": n_features,
        "row_sparsity": row_sparsity,
        "target_error": target_error,
        "candidates": sum(parameters.candidates),
        "levels": parameters.n_levels,
        "selecting_levels": sum(b is not None for b in parameters.selection_scales),
        "seconds": seconds,
        "median_seconds": statistics.median(seconds[1:]),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("results/sampler.json"))
    arguments = parser.parse_args()
    settings = [(100, 5, 1 / 4), (100, 5, 1 / 64), (1000, 10, 1 / 4), (1000, 10, 1 / 64)]
    cells = []
    for n_features, row_sparsity, target_error in settings:
        cell = measure(n_features, row_sparsity, target_error, arguments.repeats)
        cells.append(cell)
        print(
            f"d={n_features:5d} k={row_sparsity:3d} target={target_error:8.5f} "
            f"candidates={cell['candidates']:.2g} levels={cell['levels']} "
            f"(selecting {cell['selecting_levels']}) median {cell['median_seconds']:.3f} s, "
            f"peak memory so far {cell['peak_memory_mb']:.0f} MB"
        )
    for coarse, fine in zip(cells[::2], cells[1::2], strict=True):
        print(
            f"d={coarse['n_features']}: {fine['candidates'] / coarse['candidates']:.0f} times the "
            f"candidates, {fine['levels'] / coarse['levels']:.2f} times the levels, "
            f"{fine['median_seconds'] / coarse['median_seconds']:.2f} times the time"
        )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "hushcov": __version__}
    arguments.output.write_text(json.dumps({"machine": machine, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
