"""CoinPress against the numbers published with it.

    python benchmarks/studies/coinpress.py --output results/coinpress.json

Setting of the publication: identity covariance, d = 10, eigenvalues declared to lie between 1 and
10 sqrt(d), rho = 0.5 (mu = 1), error ||Sigma^(-1/2) M Sigma^(-1/2) - I||_F, mean of 100 runs
without the 10 % at either end. "measured" is `CoinPressCovariance`, "rerun" are
the published steps in plain NumPy, without integers and
certificates. For three steps the published answer A^-1 Z A^-1 is not symmetric, because A is not,
and its antisymmetric part counts as error; "symmetric part" is the rerun without it. A release of
hushcov is symmetric, so that column is what to compare it with where the two differ.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from hushcov import CoinPressCovariance, __version__
from hushcov.kernel.accounting import gaussian_epsilon
from hushcov_lab.peers.coinpress import budget_shares, row_norm

D, RHO, DELTA = 10, 0.5, 1e-6
HIGH = 10 * math.sqrt(D)
EPSILON = gaussian_epsilon(math.sqrt(2 * RHO), DELTA)
# Published errors by the number of records: not private, then with one, two and three steps.
PUBLISHED = {8000: (0.117, 1.340, 0.160, 0.133), 3000: (0.191, 2.84, 0.557, 0.306)}


def published_steps(X: np.ndarray, n_steps: int, generator: np.random.Generator) -> np.ndarray:
    """The steps as they were published, with their transposes and absolute eigenvalues."""
    n, d = X.shape
    bound, slack = row_norm(d), math.sqrt(d / n) + d / (2 * n)
    A = np.eye(d) / math.sqrt(HIGH)
    for share in budget_shares(n_steps):
        inverse, W = np.linalg.inv(A), X @ A
        W *= np.minimum(1, bound / np.linalg.norm(W, axis=1))[:, None]
        noise = np.triu(generator.standard_normal((d, d)) * bound**2 / (n * math.sqrt(share * RHO)))
        values, vectors = np.linalg.eigh(W.T @ W / n + noise + np.triu(noise, 1).T)
        values = np.abs(values)
        A = (vectors / np.sqrt(values + slack)) @ vectors.T @ A
    return inverse @ (vectors * values) @ vectors.T @ inverse


def estimator(n_steps: int) -> CoinPressCovariance:
    return CoinPressCovariance(
        epsilon=EPSILON,
        delta=DELTA,
        on_large_delta="warn",
        feature_scale=1.0,
        n_steps=n_steps,
        eigenvalue_bounds=(1.0, HIGH),
        assume_centered=True,
    )


def trimmed_error(samples: list[np.ndarray], estimate: Callable[[np.ndarray], np.ndarray]) -> float:
    errors = [float(np.linalg.norm(estimate(X) - np.eye(D))) for X in samples]
    return float(stats.trim_mean(errors, 0.1))


def measure(n_records: int, n_steps: int, samples: list, generator: np.random.Generator) -> dict:
    cell = {"n_records": n_records, "n_steps": n_steps, "published": PUBLISHED[n_records][n_steps]}
    if n_steps == 0:
        cell["measured"] = trimmed_error(samples, lambda X: np.cov(X.T, bias=True))
    else:
        fit = estimator(n_steps).fit
        cell["measured"] = trimmed_error(samples, lambda X: fit(X).covariance_)
        reruns = [published_steps(X, n_steps, generator) for X in samples]
        cell["rerun"] = trimmed_error(reruns, lambda M: M)
        cell["symmetric_part"] = trimmed_error(reruns, lambda M: (M + M.T) / 2)
    return cell | {"ratio": cell["measured"] / cell["published"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("results/coinpress.json"))
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    print("    n  steps  published  measured  ratio   rerun  symmetric part")
    cells = []
    for n_records in PUBLISHED:
        samples = [generator.standard_normal((n_records, D)) for _ in range(arguments.runs)]
        for n_steps in range(4):
            cell = measure(n_records, n_steps, samples, generator)
            cells.append(cell)
            line = "{n_records:5d} {n_steps:5d}   {published:8.3f}  {measured:8.3f} {ratio:6.2f}"
            more = "  {rerun:6.3f}  {symmetric_part:6.3f}" if n_steps else ""
            print((line + more).format(**cell), flush=True)
    about = {"cores": os.cpu_count(), "python": platform.python_version(), "hushcov": __version__}
    setting = {"n_features": D, "rho": RHO, "eigenvalue_bounds": [1.0, HIGH], "epsilon": EPSILON}
    content = {"machine": about, "runs": arguments.runs, "setting": setting, "cells": cells}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
