"""Tables of accuracy on pages of proofs, which privacy does not rest on.

    python benchmarks/studies/proof_tables.py eigen     # docs/proofs/eigen_sampling.md
    python benchmarks/studies/proof_tables.py scales    # docs/proofs/scales.md
    python benchmarks/studies/proof_tables.py guard     # docs/research.md

Means of several draws, errors in operator norm relative to the truth. A minute or two each.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterable

import numpy as np

from hushcov import EigenSamplingCovariance, GaussianCovariance
from hushcov.calibration import full_budget
from hushcov.fit.location import LocationParameters, find_location
from hushcov.kernel.accounting import ONE_REPLACED
from hushcov.kernel.noise import Entropy
from hushcov.kernel.session import Session
from hushcov.metrics import operator_norm_error
from hushcov.postprocess import guarded
from hushcov.simulate import gaussian_records
from hushcov.tables.sources import open_records

DRAWS = 10
EIGEN_SIZES = ((5, 10_000), (5, 100_000), (20, 100_000), (50, 100_000))
BLOCK = 5  # features that are related, by correlations of 1/2
MU = 0.2367  # of the whole budget: epsilon 1, delta 1e-6
SCALES = ((1_000, 15_000), (200, 5_000), (200, 2_000), (40, 900))
GUARDED = (
    *((64, 0.05, 1.0), (64, 0.05, 1.56), (64, 0.1, 1.56), (64, 0.1, 3.6)),
    *((200, 0.05, 1.0), (200, 0.05, 3.42)),
)  # features, deviation of the noise, norm of the truth


def line(cells: Iterable[object]) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def eigen() -> None:
    """Eigenvector sampling beside the Gaussian mechanism; scales are known."""
    budget = {"epsilon": 1.0, "assume_centered": True, "feature_scale": 1.0}
    ways = {
        "adaptive": EigenSamplingCovariance(**budget),
        "uniform": EigenSamplingCovariance(**budget, allocation="uniform"),
        "Gaussian": GaussianCovariance(**budget, delta=1e-6, on_large_delta="warn"),
    }
    line(("d", "n", *ways))
    line("---" for _ in range(2 + len(ways)))
    for d, n in EIGEN_SIZES:
        truth = np.kron(np.eye(d // BLOCK), 0.5 * np.eye(BLOCK) + 0.5)
        norm = np.linalg.norm(truth, 2)
        errors: dict[str, list[float]] = {name: [] for name in ways}
        for seed in range(DRAWS):
            rows = gaussian_records(truth, n, random_state=seed)
            for name, estimator in ways.items():
                found = estimator.fit(rows).covariance_
                errors[name].append(operator_norm_error(found, truth) / norm)
        line((d, f"{n:,}", *(f"{np.mean(each):.2g}" for each in errors.values())))


def scales() -> None:
    """Quantiles of scales over standard deviations, normal features, means known."""
    quantiles = (0.01, 0.25, 0.5, 0.75, 0.99)
    line(("d", "n", *(f"{100 * q:g} %" for q in quantiles), "beyond factor 2"))
    line("---" for _ in range(8))
    generator = np.random.default_rng(0)
    for d, n in SCALES:
        deviation = 10 ** generator.uniform(-6, 6, d)
        records = open_records(generator.standard_normal((n, d)) * deviation)
        parameters = LocationParameters(n, d, MU, known_mean=True)
        entropy = Entropy(generator, private=False)
        budget = full_budget(50.0, 0.05, ONE_REPLACED, private=False)
        ratio = find_location(Session(records, budget, entropy), parameters).scale / deviation
        beyond = np.mean(np.abs(np.log2(np.maximum(ratio, 1e-9))) > 1)
        shown = (f"{each:.2f}" for each in np.quantile(ratio, quantiles))
        line((d, f"{n:,}", *shown, f"{beyond:.3f}"))


def guard() -> None:
    """A matrix of unit variances with one factor, plus noise: as it is, and guarded."""
    line(("features", "sigma", "norm of the truth", "as it is", "guarded"))
    line("---" for _ in range(5))
    generator = np.random.default_rng(0)
    for d, sigma, norm in GUARDED:
        errors = []
        for _ in range(DRAWS):
            sign = generator.choice([-1.0, 1.0], d)
            truth = (norm - 1) / (d - 1) * np.multiply.outer(sign, sign)
            np.fill_diagonal(truth, 1.0)
            noise = np.triu(generator.normal(0, sigma, (d, d)), 1)
            noise += noise.T + np.diag(generator.normal(0, math.sqrt(2) * sigma, d))
            found = guarded(truth + noise, sigma, math.sqrt(2) * sigma, np.ones(d)).matrix
            errors.append([operator_norm_error(each, truth) for each in (truth + noise, found)])
        line((d, sigma, f"{norm:.2f}", *(f"{each:.2f}" for each in np.mean(errors, axis=0) / norm)))


def main() -> None:
    parts = {each.__name__: each for each in (eigen, scales, guard)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=tuple(parts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts[parser.parse_args().part]()


if __name__ == "__main__":
    main()
