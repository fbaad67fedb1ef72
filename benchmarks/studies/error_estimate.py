"""Errors, intervals and flags of the default on tables of many kinds, and their constants.

    python benchmarks/studies/error_estimate.py --first 2000     # measure, on tables drawn anew
    python benchmarks/studies/error_estimate.py --held-out       # on kinds that were not fitted
    python benchmarks/studies/error_estimate.py --fit            # constants for this default

Tables are random: how many records and columns, how columns are related, and which kinds of columns
there are, each with parameters of its own. Errors are operator norms in standard deviations against
the table's own correlations, over their norm, without the columns that the verdict leaves out.
`--fit` prints constants for `release/coverage.py` and `postprocess/tails.py`; run it after the
default has changed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, stats

from hushcov import PrivateSparseCovariance
from hushcov.fit.adaptive import pairs as mechanism
from hushcov.fit.norms import NormBound
from hushcov.postprocess import tails as errors
from hushcov.release import Release, coverage
from hushcov.release.coverage import not_found
from hushcov.release.findings import constant_features
from hushcov.release.view import UNRELIABLE, view

BUDGET = {"delta": 1e-6, "on_hopeless": "warn"}
MOST_ENTRIES = 4e6
FITTED = {
    coverage: ("_STEEP", "_START", "_MORE", "_DEVIATIONS"),
    errors: ("_SAMPLING",),
}
Matrix = npt.NDArray[np.float64]
Draw = np.random.Generator


# ---- tables ----


def correlations(rng: Draw, d: int) -> Matrix:
    """Factors, strong or weak, blocks, a band, or nothing at all."""
    kinds = ("none", "factors", "weak", "blocks", "band")
    kind = rng.choice(kinds, p=[0.1, 0.4, 0.15, 0.2, 0.15])
    found = np.eye(d)
    if kind in ("factors", "weak"):
        rank, size = int(rng.integers(1, 7)), rng.uniform(0.3, 1.0) if kind == "factors" else 0.2
        loadings = size * rng.normal(size=(d, rank)) * (rng.random((d, rank)) < rng.uniform(0.2, 1))
        found += loadings @ loadings.T
    elif kind == "blocks":
        start = 0
        while start < d:
            stop = start + int(rng.integers(1, 8))
            found[start:stop, start:stop] += rng.uniform(0.1, 2.0)
            start = stop
    elif kind == "band":
        found = rng.uniform(0.3, 0.95) ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.sqrt(np.diag(found))
    return found / np.multiply.outer(root, root)


def _inflated(rng: Draw, z: Matrix, u: Matrix) -> Matrix:
    zeros = rng.uniform(0.2, 0.9)
    rest = stats.norm.ppf(np.clip((u - zeros) / (1 - zeros), 1e-6, 1 - 1e-9))
    return np.where(u < zeros, 0.0, np.exp(rng.uniform(0.5, 1.5) * rest))


def _flag(rng: Draw, z: Matrix, u: Matrix) -> Matrix:
    share = rng.choice([rng.uniform(0.2, 0.8), rng.uniform(0.02, 0.2), rng.uniform(0.004, 0.03)])
    return (u < share) * 1.0


COLUMNS: dict[str, Callable[[Draw, Matrix, Matrix], Matrix]] = {
    "normal": lambda rng, z, u: z,
    "rounded": lambda rng, z, u: np.round(z * rng.choice([1, 3, 10])),
    "lognormal": lambda rng, z, u: np.exp(rng.uniform(0.3, 1.7) * z),
    "t": lambda rng, z, u: stats.t.ppf(u, rng.uniform(2.3, 8)),
    "flag": _flag,
    "count": lambda rng, z, u: stats.nbinom.ppf(u, rng.uniform(0.3, 5), rng.uniform(0.1, 0.7)),
    "poisson": lambda rng, z, u: stats.poisson.ppf(u, np.exp(rng.uniform(-2, 3))),
    "inflated": _inflated,
    "ordinal": lambda rng, z, u: np.digitize(z, np.sort(rng.normal(size=rng.integers(1, 8)))) * 1.0,
    "uniform": lambda rng, z, u: u,
    "exponential": lambda rng, z, u: -np.log(1 - u),
    "bimodal": lambda rng, z, u: (
        z + rng.uniform(2, 5) * (rng.random(len(z)) < rng.uniform(0.1, 0.5))
    ),
}
FROM_ZERO = ("flag", "count", "poisson", "inflated")  # others may lie anywhere


def mixed(rng: Draw) -> Matrix:
    """Return a table of up to five kinds of columns."""
    n, d = int(10 ** rng.uniform(3.5, 5)), int(np.exp(rng.uniform(np.log(5), np.log(150))))
    n = min(n, int(MOST_ENTRIES / d))
    root = np.linalg.cholesky(correlations(rng, d) + 1e-9 * np.eye(d))
    z = rng.standard_normal((n, d)) @ root.T
    some = rng.choice(list(COLUMNS), size=int(rng.integers(1, 6)), replace=False)
    shares = rng.dirichlet(np.ones(len(some)))
    if rng.random() < 0.15:
        some, shares = np.array(["normal"]), np.ones(1)
    listed = []
    for j in range(d):
        kind = str(rng.choice(some, p=shares))
        column = COLUMNS[kind](rng, z[:, j], np.clip(stats.norm.cdf(z[:, j]), 1e-9, 1 - 1e-9))
        offset = 0.0 if kind in FROM_ZERO else rng.normal() * rng.choice([0, 10, 100])
        listed.append(column * np.exp(3 * rng.normal()) + offset)
    return np.stack(listed, axis=1)


def sensors(rng: Draw) -> Matrix:
    """Walks that drift, with spikes, in the order of time."""
    n, d = int(10 ** rng.uniform(3.8, 4.8)), int(rng.integers(8, 40))
    walk = np.cumsum(rng.standard_normal((n, 3)), axis=0) / np.sqrt(n)
    noise = rng.standard_normal((n, d)) + 8 * (rng.random((n, d)) < 0.003)
    return walk @ rng.normal(size=(3, d)) + rng.uniform(0.2, 1) * noise


def shares(rng: Draw) -> Matrix:
    """Parts of a whole, which add up to 1."""
    n, d = int(10 ** rng.uniform(3.8, 4.8)), int(rng.integers(6, 30))
    part = np.exp(rng.uniform(0.3, 1.5) * rng.standard_normal((n, d)) + rng.normal(size=d))
    return part / part.sum(axis=1, keepdims=True)


def genotypes(rng: Draw) -> Matrix:
    """Minor alleles in blocks, 0 to 2."""
    n, d = int(10 ** rng.uniform(3.8, 4.6)), int(rng.integers(20, 120))
    near = rng.uniform(0.5, 0.9) ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.linalg.cholesky(near)
    level = stats.norm.ppf(rng.uniform(0.03, 0.5, size=d))
    return sum(((rng.standard_normal((n, d)) @ root.T < level) * 1.0 for _ in range(2)), 0.0)


def products(rng: Draw) -> Matrix:
    """Measurements with their squares and products."""
    n, k = int(10 ** rng.uniform(3.8, 4.8)), int(rng.integers(3, 7))
    x = rng.standard_normal((n, k)) @ np.linalg.cholesky(correlations(rng, k)).T
    rows, columns = np.triu_indices(k)
    return np.hstack([x, x[:, rows] * x[:, columns]])


def clusters(rng: Draw) -> Matrix:
    """Groups of people that differ in all their columns, amounts among them."""
    n, d, k = int(10 ** rng.uniform(3.8, 4.8)), int(rng.integers(10, 60)), int(rng.integers(2, 6))
    group = rng.choice(k, size=n, p=rng.dirichlet(np.ones(k)))
    x = rng.normal(size=(k, d))[group] + rng.standard_normal((n, d))
    x[:, ::3] = np.exp(x[:, ::3])
    return x


HELD_OUT = (sensors, shares, genotypes, products, clusters)


def tables(first: int, number: int, *, held_out: bool) -> Iterator[tuple[str, Matrix]]:
    """Yield tables with their names."""
    for seed in range(first, first + number):
        make = HELD_OUT[seed % len(HELD_OUT)] if held_out else mixed
        x = make(np.random.default_rng([31, seed]))
        yield f"{make.__name__} {seed}", x[:, x.std(axis=0) > 0]


# ---- measurements ----


@dataclass(frozen=True, eq=False)
class Measured:
    """One release, the arguments of its error estimate, and what was true."""

    name: str
    release: Release
    call: tuple[tuple[Any, ...], dict[str, Any]]
    error: float
    truth: Matrix
    deviation: Matrix

    def estimate(self) -> tuple[float, float, float]:
        """Estimate the error by the present constants."""
        (matrix, noise_sd, n, *others), named = self.call
        tails, norm = self.release.making.tails, self.release.parameters["norm"]
        if named["tail"] is not None and tails is not None and isinstance(norm, dict):
            tail = coverage.missing_logarithm(tails, matrix.diagonal(), noise_sd, n)
            named = named | {"tail": tail + coverage.common_logarithm(tails, NormBound(**norm).cut)}
        return errors.estimate_error(matrix, noise_sd, n, *others, **named)


def measure(name: str, x: Matrix, epsilon: float, seed: int) -> Measured:
    """Fit a table once."""
    calls: list[Any] = []

    def listen(*given: Any, **named: Any) -> Any:
        calls.append((given, named))
        return errors.estimate_error(*given, **named)

    mechanism.estimate_error = listen  # type: ignore[attr-defined]
    try:
        found = PrivateSparseCovariance(epsilon=epsilon, random_state=seed, **BUDGET).fit(x)
    finally:
        mechanism.estimate_error = errors.estimate_error  # type: ignore[attr-defined]
    deviation = x.std(axis=0)
    truth, units = np.corrcoef(x.T), np.multiply.outer(deviation, deviation)
    estimate = found.covariance_
    estimate = estimate.toarray() if sparse.issparse(estimate) else estimate
    left_out = {*not_found(found.release_), *constant_features(found.release_)}
    kept = [i for i in range(len(truth)) if i not in left_out] or [0]
    part = np.ix_(kept, kept)
    off = (estimate / units - truth)[part]
    error = np.linalg.norm(off, 2) / np.linalg.norm(truth[part], 2)
    return Measured(name, found.release_, calls[-1], float(error), truth, deviation)


def covered(found: Measured) -> dict[str, float]:
    """Return shares of pairs and of variances that are covered, and of wrong alarms."""
    seen, d = view(found.release), len(found.truth)
    lost = np.isin(np.arange(d), found.release.making.unresolved)
    released = found.release.released
    released = released.toarray() if sparse.issparse(released) else released
    rows, columns = np.nonzero(np.triu(released & ~lost & ~lost[:, None], 1))
    table, own = seen.table((rows, columns)), seen.features()
    truth = found.truth[rows, columns]
    value = truth * found.deviation[rows] * found.deviation[columns]
    inside = (table.lower <= value) & (value <= table.upper)
    of_truth = (table.correlation_lower <= truth) & (truth <= table.correlation_upper)
    there = np.isfinite(table.correlation_lower)
    holds, own_holds = (each != UNRELIABLE for each in (table.status, own["status"]))
    square = found.deviation**2
    variances = (own["lower"] <= square) & (square <= own["upper"])

    def mean(values: npt.NDArray[np.bool_]) -> float:
        return float(values.mean()) if len(values) else np.nan

    return {
        "pairs": len(rows),
        "covariances": mean(inside[holds]),
        "correlations": mean(of_truth[holds & there]),
        "variances": mean(variances[own_holds & ~lost]),
        "wrong alarms": mean(inside & ~holds),
    }


def report(measured: list[Measured]) -> None:
    """Print what the estimates, intervals and flags are worth."""
    found = np.array([each.estimate() for each in measured])
    true = np.array([each.error for each in measured])
    error, least, most = found.T
    ratio = error / true
    inside, small = (least <= true) & (true <= most), true < 0.5
    print(f"{len(true)} tables; error inside its interval {inside.mean():.3f}", end="; ")
    print(f"below {np.mean(true < least):.3f}, above {np.mean(true > most):.3f}")
    levels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    quantiles = zip(levels, np.quantile(ratio, levels).round(2).tolist(), strict=True)
    print("estimate over error, quantiles", dict(quantiles))
    print("ends over each other, below an error of 0.5:", (most / least)[small].max().round(2))
    rows = [covered(each) for each in measured]
    for name in ("covariances", "correlations", "variances"):
        shares = np.array([row[name] for row in rows if row["pairs"] >= 20])
        print(f"{name} said to hold, of tables of 20 pairs or more: covered", end=" ")
        print(f"{np.nanmean(shares):.3f}, worst tenth {np.nanquantile(shares, 0.1):.3f},", end=" ")
        print(f"worst twentieth {np.nanquantile(shares, 0.05):.3f}, worst {np.nanmin(shares):.3f}")
    alarms = np.array([row["wrong alarms"] for row in rows])
    print(f"wrong alarms: mean {np.nanmean(alarms):.3f}, above 0.15 in", end=" ")
    print(f"{np.nanmean(alarms > 0.15):.3f} of the tables")
    for each, row in sorted(zip(measured, found, strict=True), key=lambda both: both[1][0]):
        if not row[1] <= each.error <= row[2]:
            print("  outside:", each.name, each.truth.shape, np.round([each.error, *row], 3))


def fit(measured: list[Measured]) -> None:
    """Print constants that bring estimates nearest to errors, and the widths that cover."""
    names = [(module, name) for module, listed in FITTED.items() for name in listed]
    true = np.array([each.error for each in measured])

    def logarithms(values: Matrix) -> Matrix:
        for (module, name), value in zip(names, values, strict=True):
            setattr(module, name, float(value))
        return np.log(np.array([each.estimate()[0] for each in measured]) / true)

    def cost(values: Matrix) -> float:
        """Penalise large misses less than squares do, and constants below zero."""
        off = np.abs(logarithms(np.maximum(values, 0.0)))
        bent = np.where(off < 0.7, off**2, 1.4 * off - 0.49)
        return float(np.mean(bent) - np.minimum(values, 0.0).sum())

    start = np.array([getattr(module, name) for module, name in names])
    print("cost", round(cost(start), 4))
    best = optimize.minimize(cost, start, method="Nelder-Mead", options={"maxfev": 250})
    print("cost", round(float(best.fun), 4))
    for (module, name), value in zip(names, np.maximum(best.x, 0.0), strict=True):
        print(f"  {module.__name__}.{name} = {value:.3g}")
    off = logarithms(np.maximum(best.x, 0.0))
    print("half the width that covers nine of ten:", round(float(np.quantile(np.abs(off), 0.9)), 2))


def flags(epsilon: float, number: int) -> None:
    """Print how many columns have a flag that changes from fit to fit."""
    shares = []
    for name, x in tables(10_000, number, held_out=False):
        found = [measure(name, x, epsilon, seed) for seed in range(10)]
        holds = np.array([view(each.release).coverage.holds for each in found])
        shares.append(float(np.mean(holds.any(axis=0) != holds.all(axis=0))))
    mean = round(float(np.mean(shares)), 3)
    print("columns whose flag changes in ten fits: mean", mean, "worst table", max(shares))


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--flags", type=int, default=0, help="tables of which flags are compared")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    every = tables(given.first, given.tables, held_out=given.held_out)
    measured = [measure(name, x, given.epsilon, 0) for name, x in every if min(x.shape) > 1]
    report(measured)
    if given.flags:
        flags(given.epsilon, given.flags)
    if given.fit:
        fit(measured)
        report(measured)


if __name__ == "__main__":
    main()
