"""Synthetic rows of a release: their correlations, and regressions on them as if they were real.

    python benchmarks/studies/synthetic.py

prints the table of docs/outputs.md, "Synthetic rows". Simulated tables at epsilon = 1, delta =
1e-6: a dozen normal columns in groups; fifty of five factors; and a survey with two categories,
two flags, counts and a skewed income, by its codebook, without and with bought quantiles. Errors
are of correlations in operator norm, medians over releases: that of the release, that of a million
synthetic rows, and their ratio. Coverage is of the 95 % intervals of three coefficients: asked of
the release, and by least squares on synthetic rows: as many as records, and ten times as many.
About five minutes.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from hushcov import PrivateSparseCovariance
from hushcov.answers.synthetic import SyntheticRows
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.codebook import Codebook, CodebookColumn

ROWS = 10**6
REGIONS, SCHOOLS = ("north", "east", "south", "west"), ("primary", "secondary", "university")
BOOK = Codebook(
    (
        CodebookColumn("age", "integer", 18, 100),
        CodebookColumn("region", "category", values=REGIONS),
        CodebookColumn("school", "category", values=SCHOOLS),
        CodebookColumn("smokes", "binary"),
        CodebookColumn("works", "binary"),
        CodebookColumn("children", "integer", 0, 12),
    )
)


def normal(n: int, rng: np.random.Generator) -> pd.DataFrame:
    rows = 50 + 10 * gaussian_records(sparse_covariance("block", 12, 4), n, random_state=rng)
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(12)])


def factors(n: int, rng: np.random.Generator) -> pd.DataFrame:
    loadings = np.random.default_rng(5).normal(size=(5, 50)) * 0.5
    rows = rng.normal(size=(n, 5)) @ loadings + rng.normal(size=(n, 50))
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(50)])


def survey(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """One-hot columns in place of categories, as the codebook codes them."""
    well, z = rng.normal(size=n), rng.normal(size=(n, 6))
    age = np.clip(np.rint(48 + 16 * z[:, 0]), 18, 100)
    school = np.digitize(well + 0.7 * z[:, 1] - 0.02 * (age - 48), [-0.6, 0.8])
    odds = np.stack([0.4 * well, 0.02 * (age - 48), -0.5 * well, np.full(n, -0.4)], axis=1)
    region = (odds + rng.gumbel(size=(n, 4))).argmax(axis=1)
    income = np.exp(7.5 + 0.4 * well + 0.25 * school + 0.4 * z[:, 2])
    table = {"age": age}
    table |= {f"region={name}": region == k for k, name in enumerate(REGIONS)}
    table |= {f"school={name}": school == k for k, name in enumerate(SCHOOLS)}
    table |= {"smokes": 0.6 * well + z[:, 3] < -0.8, "works": 0.05 * (age - 62) + z[:, 4] < 0}
    table |= {"children": np.minimum(rng.poisson(np.clip((age - 15) / 25, 0.1, 2)), 12)}
    table |= {"income": income, "pressure": 125 + 0.4 * (age - 48) - 3 * well + 12 * z[:, 5]}
    return pd.DataFrame(table, dtype=float)


def coded(rows: SyntheticRows, names: list[str]) -> pd.DataFrame:
    """The rows with one-hot columns again."""
    table = dict(rows.table())
    for name in names:
        category, sign, level = name.partition("=")
        if sign:
            table[name] = table[category] == level
    return pd.DataFrame({name: table[name] for name in names}, dtype=float)


def correlated(rows: pd.DataFrame) -> np.ndarray:
    return np.nan_to_num(np.corrcoef(rows.to_numpy(), rowvar=False))


def least_squares(rows: pd.DataFrame, target: str, on: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and half widths of their 95 % intervals."""
    x = rows[on].to_numpy() - rows[on].to_numpy().mean(axis=0)
    y = rows[target].to_numpy() - rows[target].to_numpy().mean()
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ (x.T @ y)
    left = y - x @ found
    return found, 1.96 * np.sqrt(np.diag(inverse) * (left @ left) / (len(y) - len(on) - 1))


TABLES = {
    "groups, 12 columns": (normal, 20_000, {}, ("x0", ["x1", "x2", "x3"])),
    "factors, 50 columns": (factors, 50_000, {}, ("x0", ["x1", "x2", "x3"])),
    "survey": (survey, 20_000, {}, ("pressure", ["age", "children", "smokes"])),
    "survey, marginals 0.1": (
        survey,
        20_000,
        {"marginals": 0.1},
        ("pressure", ["age", "children", "smokes"]),
    ),
}


def study(name: str, runs: int) -> tuple[list[float], list[float]]:
    make, n, options, (target, on) = TABLES[name]
    book = BOOK if make is survey else None
    large = make(2 * ROWS, np.random.default_rng(99))
    names, truth = list(large), correlated(large)
    right = least_squares(large, target, on)[0]
    del large
    errors, covered, bounds = [], [], None if book is None else book.bounds
    for run in range(runs):
        records = make(n, np.random.default_rng(run))
        est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, bounds=bounds, **options).fit(
            records
        )
        size = max(10 * n, ROWS // (3 if make is factors else 1))
        rows = coded(est.synthesize(size, random_state=run, codebook=book), names)
        released = np.where(np.isfinite(est.correlation_), est.correlation_, 0.0)
        errors.append([np.linalg.norm(x - truth, 2) for x in (released, correlated(rows))])
        asked = est.regression(target, on)
        inside = [np.mean((asked.lower <= right) & (right <= asked.upper))]
        for size in (n, 10 * n):
            found, half = least_squares(rows[:size], target, on)
            inside.append(np.mean(np.abs(found - right) <= half))
        covered.append(inside)
    middle = np.median(errors, axis=0)
    return [*middle, middle[1] / middle[0]], list(np.mean(covered, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    given = parser.parse_args()
    print(
        "| table | error of the release | of synthetic rows | ratio | covered: release | ", end=""
    )
    print("synthetic, n rows | 10 n rows |\n|---|---|---|---|---|---|---|")
    for name in given.tables:
        errors, covered = study(name, given.runs)
        cells = [*(f"{x:.3f}" for x in errors[:2]), f"{errors[2]:.2f}"]
        cells += [f"{x:.2f}" for x in covered]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
