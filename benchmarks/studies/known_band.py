"""How many records fewer a known band needs, and what it costs to know only its largest width.

For each covariance and each way to tell, the smallest number of records at which the median error
of a few fits is 0.1 of the norm: numbers of records a sixth apart are tried until it is reached,
and the last two are joined by a line in logarithms. Means and scales are found privately, or known.

    python benchmarks/studies/known_band.py [--features 1000] [--families banded ...] [--told]
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

from hushcov import PrivateSparseCovariance

TARGET, RATIO, FITS = 0.1, 1.17, 3
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
WAYS: dict[str, dict[str, object]] = {
    "band of 5 known": {"bandwidth": 5},
    "up to 20, found": {"bandwidth": "up-to:20"},
    "band of 20 given": {"bandwidth": 20},
    "nothing said": {},
}


def distances(d: int) -> np.ndarray:
    """How many columns apart features are."""
    return np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


def banded(d: int) -> np.ndarray:
    """A triangle over five neighbours on each side."""
    return np.maximum(0.0, 1 - distances(d) / 6)


def autoregressive(d: int) -> np.ndarray:
    """Correlations of 0.8 to the power of the distance."""
    return 0.8 ** distances(d)


def random_signs(d: int) -> np.ndarray:
    """Five neighbours on each side, all as strongly correlated, with random signs."""
    random = np.random.default_rng(7)
    upper = sum(np.diag(random.choice([-1.0, 1.0], d - lag), lag) for lag in range(1, 6))
    both = upper + upper.T
    low = -float(eigsh(both, k=1, which="SA", return_eigenvectors=False)[0])
    return np.eye(d) + both / (1.1 * low)


def blocks(d: int) -> np.ndarray:
    """Blocks of two to six neighbours, as along a genome, correlated by 0.3 to 0.9."""
    random, truth, start = np.random.default_rng(11), np.eye(d), 0
    while start < d:
        stop = min(d, start + int(random.integers(2, 7)))
        truth[start:stop, start:stop] = random.uniform(0.3, 0.9)
        start = stop
    np.fill_diagonal(truth, 1.0)
    return truth


FAMILIES: dict[str, Callable[[int], np.ndarray]] = {
    "banded": banded,
    "autoregressive": autoregressive,
    "random signs": random_signs,
    "blocks": blocks,
}


def norm(matrix: np.ndarray) -> float:
    """The operator norm."""
    found = eigsh(matrix, k=1, which="LM", return_eigenvectors=False, tol=1e-4)
    return float(abs(found[0]))


def median_error(
    truth: np.ndarray, n: int, options: dict[str, object], told: dict[str, object]
) -> float:
    """Over the norm of the truth, of a few fits."""
    root = np.linalg.cholesky(truth + 1e-9 * np.eye(len(truth)))
    errors = []
    for seed in range(FITS):
        rows = np.random.default_rng([seed, n]).standard_normal((n, len(truth))) @ root.T
        found = PrivateSparseCovariance(
            **BUDGET, **options, **told, random_state=seed, on_hopeless="warn"
        ).fit(rows)
        estimate = found.covariance_
        dense = estimate.toarray() if sparse.issparse(estimate) else np.asarray(estimate)
        errors.append(norm(dense - truth) / norm(truth))
    return float(np.median(errors))


def smallest(
    truth: np.ndarray, options: dict[str, object], told: dict[str, object], start: int, most: int
) -> float:
    """The records that the target needs, about; infinite beyond `most`."""
    n, before = start, None
    while n <= most:
        error = median_error(truth, n, options, told)
        print(f"    {n:>7,} records: {error:.3f}", flush=True)
        if error <= TARGET:
            if before is None:
                return n
            share = math.log(before[1] / TARGET) / math.log(before[1] / error)
            return before[0] * (n / before[0]) ** share
        before, n = (n, error), round(n * RATIO)
    return math.inf


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--told", action="store_true", help="means and scales are known")
    parser.add_argument("--start", type=int, default=4000)
    parser.add_argument("--most", type=int, default=100_000)
    given = parser.parse_args()
    told = {"assume_centered": True, "feature_scale": 1.0} if given.told else {}
    warnings.simplefilter("ignore")
    for family in given.families:
        truth = FAMILIES[family](given.features)
        print(family)
        for way in given.ways:
            found = smallest(truth, WAYS[way], told, given.start, given.most)
            print(f"  {way}: {found:,.0f} records", flush=True)


if __name__ == "__main__":
    main()
