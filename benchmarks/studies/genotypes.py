"""Private LD of simulated genotypes beside other mechanisms: errors of correlations in a window.

Genotypes are sums of two haplotypes, each by thresholds of a first-order normal process, with
frequencies of the rarer allele from 0.05 to 0.5. Errors are against the sample's own correlations.

    python benchmarks/studies/genotypes.py
"""

from __future__ import annotations

import argparse
import math
import time
import warnings

import numpy as np
from scipy import special

from hushcov import GaussianCovariance, GenotypeCovariance, PrivateSparseCovariance
from hushcov.calibration import calibrate_gaussian

LINK = 0.9  # correlation of neighbours in the normal process
DELTA = 1e-6


def genotypes(n, d, rng):
    """Genotypes 0, 1, 2 of a chain of variants."""
    cut, table = special.ndtri(rng.uniform(0.05, 0.5, d)), np.zeros((n, d), dtype=np.int8)
    for _ in range(2):
        z = rng.standard_normal(n)
        for j in range(d):
            table[:, j] += z < cut[j]
            z = LINK * z + math.sqrt(1 - LINK**2) * rng.standard_normal(n)
    return table


def window_error(covariance, truth, rows, columns):
    """Root mean square error of correlations in the window, none beyond 1."""
    own = np.asarray(covariance.diagonal())
    unit = np.sqrt(np.where(own > 0, own, np.inf))
    entries = np.asarray(covariance[rows, columns]) / (unit[rows] * unit[columns])
    return float(np.sqrt(np.mean((np.clip(entries, -1, 1) - truth) ** 2)))


def main():
    """Print a table of errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--variants", type=int, default=1_000)
    parser.add_argument("--bandwidth", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    given = parser.parse_args()
    n, d, w = given.records, given.variants, given.bandwidth
    table = genotypes(n, d, np.random.default_rng(0))
    numbers = table.astype(np.float64)
    rows, columns = (each for each in np.triu_indices(d, 1))
    near = columns - rows <= w
    rows, columns = rows[near], columns[near]
    truth = np.corrcoef(numbers.T)[rows, columns]
    size = np.sqrt(np.mean(truth**2))
    print(f"{n:,} x {d:,}, window {w}; root mean square r in the window {size:.3f}")
    for epsilon in given.epsilon:
        mu = calibrate_gaussian(epsilon, DELTA)
        print(
            f"epsilon {epsilon:g}: 2 sqrt(pairs) / (n mu) = {2 * len(rows) ** 0.5 / (n * mu):.4f}"
        )
        usual = {"epsilon": epsilon, "delta": DELTA, "on_hopeless": "warn"}
        bounds = {"bounds": [(0.0, 2.0)] * d}
        frequencies = {"frequencies": numbers.mean(axis=0) / 2}
        fits = {
            "genotypes": (GenotypeCovariance(bandwidth=w, **usual), table),
            "genotypes, a person more or less": (
                GenotypeCovariance(bandwidth=w, neighbours="add-remove", **usual),
                table,
            ),
            "genotypes, public frequencies": (
                GenotypeCovariance(bandwidth=w, **frequencies, **usual),
                table,
            ),
            "default, band known": (
                PrivateSparseCovariance(bandwidth=w, **usual, **bounds),
                numbers,
            ),
            "Gaussian, every pair": (GaussianCovariance(**usual, **bounds), numbers),
        }
        for name, (estimator, X) in fits.items():
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(X)
            error = window_error(estimator.covariance_, truth, rows, columns)
            noise = estimator.release_.noise_sd
            said = "" if noise is None else f", noise {noise[0]:.4f}"
            print(f"  {name}: error of r {error:.4f}{said}, {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
