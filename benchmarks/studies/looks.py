"""Further looks: width and coverage of regressions, R^2 lost, and the error of the covariance.

    python benchmarks/studies/looks.py models --runs 20
    python benchmarks/studies/looks.py lost --seeds 5 --folder FOLDER
    python benchmarks/studies/looks.py errors --seeds 5

`models` regresses one column of three-factor models on the others: coverage, and width over least
squares. `lost` regresses every column of public tables (`hushcov_lab.rivals.tables`) on all others:
R^2 of least squares less that of the coefficients, in the table itself. `errors` compares the error
of the covariance with that of a release for the covariance alone, for families and cells of
`benchmarks/guards/accuracy.py`. FOLDER holds .npz files with X and y; `--shares` tries shares of
the budget for the default other than those it has.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import hushcov.fit.looks
from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.exceptions import HushcovError
from hushcov.fit.looks import RULES
from hushcov.options import PURPOSES
from hushcov.simulate import FAMILIES, gaussian_records, structured_covariance

MODELS = ((15, 20_000, 0.5), (15, 20_000, 0.1), (30, 50_000, 0.3))
CELLS = "25,100000;50,30000;200,30000"
USUAL = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn"}


def factor_model(d: int, specific: float) -> FloatArray:
    """Return the correlations of a model with three factors."""
    loadings = np.random.default_rng(3).standard_normal((d, 3))
    model = loadings @ loadings.T + specific * np.eye(d)
    deviations = np.sqrt(model.diagonal())
    return np.asarray(model / np.multiply.outer(deviations, deviations))


def widths_and_coverage(d: int, n: int, specific: float, purpose: str, runs: int) -> None:
    """Print coverage and median width of intervals over those of least squares."""
    model = factor_model(d, specific)
    on = np.arange(1, d)
    inner = model[np.ix_(on, on)]
    truth = np.linalg.solve(inner, model[on, 0])
    residual = model[0, 0] - model[on, 0] @ truth
    least_squares = 1.96 * np.sqrt(residual * np.linalg.inv(inner).diagonal() / n)
    covered, widths = [], []
    for seed in range(runs):
        X = gaussian_records(model, n, random_state=seed)
        fitted = PrivateSparseCovariance(**USUAL, purpose=purpose).fit(X)
        found = fitted.regression(0, on="all", ridge=0)
        covered.append(np.mean((found.lower <= truth) & (truth <= found.upper)))
        widths.append(np.median((found.upper - found.lower) / 2 / least_squares))
    condition = np.linalg.cond(model)
    print(
        f"d = {d}, n = {n:,}, condition {condition:.0f}, {purpose}: coverage "
        f"{np.mean(covered):.3f}, width over least squares {np.median(widths):.2f}",
        flush=True,
    )


def explained(correlation: FloatArray, target: int, b: FloatArray) -> float:
    """Return the R^2 of coefficients in units of the deviations."""
    return float(2 * b @ correlation[:, target] - b @ correlation @ b)


def lost(X: FloatArray, purpose: str) -> list[tuple[float, float]]:
    """Return for every column the R^2 that is lost, and the R^2 that is left."""
    correlation, deviations = np.corrcoef(X.T), X.std(axis=0)
    fitted = PrivateSparseCovariance(**USUAL, purpose=purpose)
    fitted.fit(X)
    losses = []
    for target in range(X.shape[1]):
        on = np.arange(X.shape[1]) != target
        inner = correlation[np.ix_(on, on)]
        best = np.linalg.lstsq(inner, correlation[on, target], rcond=1e-10)[0]
        b = np.zeros(len(on))
        try:
            found = fitted.regression(target, on="all")
            places = [int(name.removeprefix("x")) for name in found.features]
            b[places] = found.coefficients * deviations[places] / deviations[target]
        except HushcovError:
            pass  # a column that was not found is predicted by its mean
        left = explained(correlation, target, b)
        losses.append((float(best @ correlation[on, target]) - left, left))
    return losses


def public_tables(folder: Path | None) -> Iterator[tuple[str, FloatArray]]:
    """Return the tables of the rivals that can be read here."""
    from hushcov_lab.rivals.tables import load_table, table_names

    for name in table_names(folder):
        try:
            table = load_table(name, folder, 0)
        except HushcovError as error:
            print(f"{name}: {error}")
            continue
        yield name, np.column_stack([table.X, table.y])


def error_of(X: FloatArray, truth: FloatArray, purpose: str, seed: int) -> float:
    """Return the error of the covariance over its norm, in units of the deviations."""
    fitted = PrivateSparseCovariance(**USUAL, purpose=purpose, random_state=seed).fit(X)
    deviations = np.sqrt(truth.diagonal())
    units = np.multiply.outer(deviations, deviations)
    difference = np.linalg.norm((fitted.covariance_ - truth) / units, 2)
    return float(difference / np.linalg.norm(truth / units, 2))


def print_errors(options: argparse.Namespace) -> None:
    """Print ratios of errors to those of a release for the covariance alone."""
    logs: dict[str, list[float]] = {purpose: [] for purpose in options.purposes}
    cells = [tuple(map(int, cell.split(","))) for cell in options.cells.split(";")]
    cases: list[tuple[str, list[tuple[FloatArray, FloatArray]]]] = []
    for d, n in cells:
        for family in FAMILIES:
            truth = structured_covariance(family, d, random_state=7)
            drawn = [
                (gaussian_records(truth, n, random_state=seed), truth)
                for seed in range(options.seeds)
            ]
            cases.append((f"{family} {d} {n:,}", drawn))
            _print_case(*cases.pop(), logs)
    if options.folder:
        for name, X in public_tables(options.folder):
            _print_case(name, [(X, np.cov(X.T))] * options.seeds, logs)
    for purpose, each in logs.items():
        print(
            f"{purpose}: geometric mean {np.exp(np.mean(each)):.3f}, worst {np.exp(max(each)):.3f}"
        )


def _print_case(
    name: str, drawn: list[tuple[FloatArray, FloatArray]], logs: dict[str, list[float]]
) -> None:
    def median(purpose: str) -> float:
        return float(np.median([error_of(*each, purpose, i) for i, each in enumerate(drawn)]))

    alone = median("covariance")
    words = [f"{name:32s} alone {alone:.4f}"]
    for purpose, found in logs.items():
        found.append(float(np.log(median(purpose) / alone)))
        words.append(f"{purpose} {np.exp(found[-1]):.3f}")
    print(", ".join(words), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("models", "lost", "errors"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tables", help="names of tables, with commas")
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--shares", help="of the first matrix and of the looks, with commas")
    parser.add_argument("--purposes", default=",".join(PURPOSES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.purposes = options.purposes.split(",")
    if options.shares:
        shares = tuple(map(float, options.shares.split(",")))
        hushcov.fit.looks.RULES = dataclasses.replace(RULES, shares_for_both=shares)
    if options.part == "models":
        for purpose in options.purposes:
            for model in MODELS:
                widths_and_coverage(*model, purpose, options.runs)
    elif options.part == "errors":
        options.purposes = [each for each in options.purposes if each != "covariance"]
        print_errors(options)
    else:
        medians: dict[str, list[float]] = {purpose: [] for purpose in options.purposes}
        wanted = None if options.tables is None else options.tables.split(",")
        for name, X in public_tables(options.folder):
            for purpose in options.purposes if wanted is None or name in wanted else ():
                found = [lost(X, purpose) for _ in range(options.seeds)]
                means = [np.mean([each[0] for each in one]) for one in found]
                worst = min(each[1] for one in found for each in one)
                medians[purpose].append(float(np.median(means)))
                print(
                    f"{name} {X.shape}, {purpose}: R^2 lost {medians[purpose][-1]:.4f}, least R^2 "
                    f"{worst:.3f}",
                    flush=True,
                )
        for purpose, each in medians.items():
            mean = np.exp(np.mean(np.log(np.maximum(each, 1e-4))))
            print(f"{purpose}: R^2 lost {mean:.4f} in geometric mean")


if __name__ == "__main__":
    main()
