"""Test R^2 of the regression rivals on public tables: medians over splits, and seconds of a fit.

    python benchmarks/studies/regression_rivals.py FOLDER --epsilon 1

FOLDER holds .npz files with X and y; identifiers are left out. A tenth of the records is kept for
the test; delta is 1/n^2 for n records that are fitted. "Given" calls the smallest and largest
values of the table public. "As published" is AdaSSP with the constants of its publication. For it
and for "bounds alone", given bounds scale the columns, and nothing that is released does.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from hushcov._arrays import FloatArray
from hushcov_lab.rivals.bounds import total_mu
from hushcov_lab.rivals.dpsgd import fit_between_bounds
from hushcov_lab.rivals.regression import RIVALS, Coefficients, ColumnBounds, RivalSilent
from hushcov_lab.rivals.sufficient import symmetric_noise
from hushcov_lab.rivals.tables import read_without_identifiers

PUBLISHED, BETWEEN_BOUNDS = "AdaSSP as published", "DP-SGD, bounds alone"


def fit_least_squares(X: FloatArray, y: FloatArray, **_: object) -> Coefficients:
    found = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    return Coefficients(float(found[0]), found[1:])


def fit_published(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds,
    rng: np.random.Generator,
) -> Coefficients:
    """AdaSSP with equal parts and its own bound on the noise, beside exact Gaussian accounting."""
    centre, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
    table = (np.column_stack([X, y]) - centre) / np.where(half > 0, half, 1.0)
    length = table.shape[1]
    rows = np.column_stack([np.ones(len(y)), table[:, :-1]]) / math.sqrt(length)
    deviation = math.sqrt(3) / total_mu(epsilon, delta)
    gram = rows.T @ rows
    smallest = np.linalg.eigvalsh(gram)[0] + deviation * (rng.standard_normal() - 1.645)
    norm = deviation * math.sqrt(length * math.log(2 * length**2 / 0.05))
    ridge = max(0.0, norm - max(0.0, smallest))
    noisy = gram + symmetric_noise(length, deviation, rng) + ridge * np.eye(length)
    found = np.linalg.solve(noisy, rows.T @ table[:, -1] + deviation * rng.standard_normal(length))
    found *= half[-1] / math.sqrt(length)
    slopes = found[1:] / np.where(half > 0, half, np.inf)[:-1]
    return Coefficients(float(centre[-1] + found[0] - slopes @ centre[:-1]), slopes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=15)
    parser.add_argument("--target", type=int, help="a column of X that y changes places with")
    options = parser.parse_args()
    methods = {
        "least squares": (fit_least_squares, False),
        PUBLISHED: (fit_published, True),
        BETWEEN_BOUNDS: (fit_between_bounds, True),
    }
    for rival in RIVALS.values():
        for given in (True, False) if rival.needs_bounds else (False,):
            words = {True: ", given", False: ", released"}[given] if rival.needs_bounds else ""
            methods[rival.title + words] = rival.fit, given
    print("| table | " + " | ".join(methods) + " |")
    print("|---" * (len(methods) + 1) + "|")
    seconds = defaultdict(list)
    for path in sorted(options.folder.glob("*.npz")):
        X, y = read_without_identifiers(path)
        if options.target is not None:
            if options.target >= X.shape[1]:
                continue
            X, y = np.column_stack([np.delete(X, options.target, 1), y]), X[:, options.target]
        table = np.column_stack([X, y])
        public = ColumnBounds(table.min(axis=0), table.max(axis=0))
        found = defaultdict(list)
        for split in range(options.splits):
            order = np.random.default_rng(split).permutation(len(y))
            fitted, tested = np.split(order, [len(y) * 9 // 10])
            for name, (fit, given) in methods.items():
                start = time.perf_counter()
                try:
                    answer = fit(
                        X[fitted],
                        y[fitted],
                        epsilon=options.epsilon,
                        delta=len(fitted) ** -2.0,
                        bounds=public if given else None,
                        rng=np.random.default_rng([split, 1]),
                    )
                except RivalSilent:
                    continue
                finally:
                    seconds[name].append(time.perf_counter() - start)
                error = np.mean((y[tested] - answer.predict(X[tested])) ** 2)
                found[name].append(1 - error / np.var(y[tested]))
        cells = [
            f"{np.median(found[name]):.3f}" if 2 * len(found[name]) > options.splits else "silent"
            for name in methods
        ]
        print(f"| {path.stem} ({len(y):,}, {X.shape[1]}) | " + " | ".join(cells) + " |", flush=True)
    medians = (f"{np.median(seconds[name]):.3f}" for name in methods)
    print("| seconds of a fit | " + " | ".join(medians) + " |")


if __name__ == "__main__":
    main()
