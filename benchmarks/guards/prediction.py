"""Predicted against measured error of the calibrated mechanism.

    python benchmarks/guards/prediction.py --output results/prediction.json

For block, banded and random models at d = 200 and 1000 (k=5, epsilon=1, delta=1e-6) and several n,
the prediction of `plan_multiscale` beside the median operator-norm error of `--runs` releases, S
drawn from its Wishart law. The claim: within 30 % wherever the error is below the zero matrix's.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
from rich.progress import Progress

from hushcov.inputs import CalibratedInputs
from hushcov.kernel.noise import Entropy
from hushcov.metrics import operator_norm_error
from hushcov.paper.mechanism import release_multiscale
from hushcov.paper.plan import plan_multiscale
from hushcov.simulate import sparse_covariance, wishart_moments

CELLS = [
    (200, "value", 100_000),
    (200, "value", 300_000),
    (200, "value", 1_000_000),
    (200, "value", 10_000_000),
    (200, "value", 1_000_000_000),
    (200, "gate", 1_000_000),
    (200, "gate", 5_000_000),
    (200, "gate", 1_000_000_000),
    (1000, "value", 500_000),
    (1000, "value", 1_000_000),
    (1000, "value", 5_000_000),
    (1000, "gate", 3_000_000),
    (1000, "gate", 10_000_000),
]


def measure(plan, model: str, runs: int) -> list[float]:
    inputs = plan.parameters.inputs
    truth = sparse_covariance(model, inputs.n_features, inputs.row_sparsity)
    errors = []
    for seed in range(runs):
        moments = wishart_moments(truth, inputs.n_records, random_state=seed)
        entropy = Entropy(np.random.default_rng(1000 + seed), private=False)
        release = release_multiscale(moments, plan.parameters, entropy)
        errors.append(operator_norm_error(release.covariance(), truth))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/prediction.json"))
    arguments = parser.parse_args()
    rows = []
    with Progress() as progress:
        task = progress.add_task("prediction", total=3 * len(CELLS))
        for d, reconstruction, n in CELLS:
            plan = plan_multiscale(CalibratedInputs(n, d, 5, 1.0, 1e-6, 1.0), reconstruction)
            for model in ("block", "banded", "random"):
                errors = measure(plan, model, arguments.runs)
                row = {
                    "n_features": d,
                    "reconstruction": reconstruction,
                    "n_records": n,
                    "model": model,
                    "predicted": plan.predicted_error[model],
                    "median": statistics.median(errors),
                    "errors": errors,
                }
                rows.append(row | {"ratio": row["predicted"] / row["median"]})
                progress.advance(task)
    print("    d what           n model   predicted   median  ratio")
    for row in rows:
        print(
            f"{row['n_features']:5d} {row['reconstruction']:6s} {row['n_records']:9.1e} "
            f"{row['model']:7s} {row['predicted']:9.4f} {row['median']:8.4f} {row['ratio']:6.2f}"
        )
    ratios = [row["ratio"] for row in rows if row["median"] < 1]
    print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} cells below 1")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
