"""Pairs that the default did not release, filled in by maximum entropy, against zeros.

python benchmarks/studies/completion.py --runs 2
python benchmarks/studies/completion.py --runs 2 --tables FOLDER

Errors of the completed matrix over those of the release; below 1 is better. "at best" is for a rule
that knew when to complete. Tables are those of `hushcov bench covariance`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.simulate import FAMILIES, gaussian_records, structured_covariance
from hushcov_lab.peers.pace import Completion
from hushcov_lab.rivals import covariance_study

SIZES = ((20, 10_000), (60, 10_000), (60, 100_000), (200, 30_000))
LEAST_NOISE = 1e-8
STEPS = 60


def completed(est: PrivateSparseCovariance) -> np.ndarray:
    """The estimate with its zeros filled in; what was released stays."""
    whole = est.covariance_.copy()
    found = np.flatnonzero(np.diag(whole) > 0)
    place = np.ix_(found, found)
    scale = np.sqrt(np.diag(whole)[found])
    correlation = whole[place] / np.outer(scale, scale)
    known = correlation != 0
    if known.all() or known.sum() == len(found):
        return whole
    noise = (est.noise_sd_[place] / np.outer(scale, scale)) ** 2
    noise = np.maximum(np.nan_to_num(noise, nan=LEAST_NOISE), LEAST_NOISE)
    made = Completion(np.ones(len(found)), float(np.median(np.diag(noise))))
    for i, j in zip(*np.nonzero(np.triu(known, 1)), strict=True):
        made.add((int(i), int(j)), correlation[i, j], noise[i, j])
    made.solve(STEPS)
    filled = np.where(known, correlation, made.covariance)
    whole[place] = filled * np.outer(scale, scale)
    return whole


def errors(X: np.ndarray, truth: np.ndarray, seed: int, **budget: object) -> tuple[str, np.ndarray]:
    """The structure that was found, and errors over those without completion, in two norms."""
    est = PrivateSparseCovariance(**budget, on_hopeless="warn", random_state=seed).fit(X)
    scale = np.sqrt(np.diag(truth))
    wrong = [(each - truth) / np.outer(scale, scale) for each in (completed(est), est.covariance_)]
    norms = np.array([[np.linalg.norm(each, 2), np.linalg.norm(each)] for each in wrong])
    return est.structure_.split(":")[0], norms[0] / norms[1]


def cells(folder: Path | None) -> Iterator[tuple[str, object]]:
    """Name of a cell, and what measures it for a seed."""
    if folder is None:
        for d, n in SIZES:
            for name in FAMILIES:

                def simulated(seed: int, name: str = name, d: int = d, n: int = n):
                    truth = structured_covariance(name, d, random_state=seed)
                    X = gaussian_records(truth, n, random_state=seed)
                    return errors(X, truth, seed, epsilon=1.0, delta=1e-7)

                yield f"{name} {d}, n = {n:,}", simulated
        return
    for cell in covariance_study.cells("quick", folder):

        def real(seed: int, cell: dict = cell):
            X = covariance_study.bounded_table(cell["table"], cell["folder"], seed)
            budget = {"epsilon": cell["epsilon"], "delta": 1 / len(X) ** 2}
            return errors(X, X.T @ X / len(X), seed, neighbours="add-remove", **budget)

        yield f"{cell['table']}, epsilon {cell['epsilon']:g}", real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--tables", type=Path, help="folder of .npz files; families without it")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logs = []
    for name, measure in cells(args.tables):
        found = [measure(seed) for seed in range(args.runs)]
        logs.append(np.mean([np.log(ratio) for _, ratio in found], axis=0))
        operator, frobenius = np.exp(logs[-1])
        kinds = "/".join(kind for kind, _ in found)
        print(f"{name}: operator {operator:.2f}, Frobenius {frobenius:.2f} ({kinds})", flush=True)
    for words, each in (("all", np.array(logs)), ("at best", np.minimum(logs, 0.0))):
        operator, frobenius = np.exp(each.mean(axis=0))
        print(f"{words}: operator {operator:.3f}, Frobenius {frobenius:.3f}")


if __name__ == "__main__":
    main()
