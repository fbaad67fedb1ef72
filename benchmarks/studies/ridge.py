"""Prediction error of `regression()` with its own ridge, with ridge 0, and of the mean.

    python benchmarks/studies/ridge.py FOLDER --runs 3
    python benchmarks/studies/ridge.py FOLDER --runs 3 --tables held-out

FOLDER holds .npz files with X and y; tables that are not there are left out. Errors are squared
errors on rows that were not fitted, over the variance of the target, for four targets of each
table on one column, on three and on all. Three tables were held out while the rule was chosen.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from rich.progress import track
from statsmodels.api import datasets

from hushcov import PrivateSparseCovariance
from hushcov.answers.regression import regress
from hushcov.answers.uncertain import nothing_known
from hushcov.release import Release
from hushcov.simulate import gaussian_records, structured_covariance

EPSILON, DELTA = 1.0, 1e-6
SIZES = 5_000, 20_000, 100_000
N_TARGETS = 4
N_TEST, N_TRUTH = 100_000, 20  # simulated rows, and how many times as many say the truth
Rows = np.ndarray


def patients(n: int, rng: np.random.Generator) -> Rows:
    """The table of examples/tutorial.ipynb."""
    age, height = rng.normal(52, 15, n), rng.normal(170, 9, n)
    smoker = (rng.random(n) < 0.25).astype(float)
    weight = 76 + 1.0 * (height - 170) + 11 * rng.normal(size=n)
    systolic = 125 + 0.4 * (age - 52) + 0.3 * (weight - 76) + 5 * smoker + 11 * rng.normal(size=n)
    glucose = 5.6 + 1.1 * rng.normal(size=n)
    hba1c = 5.7 + 0.65 * (glucose - 5.6) + 0.4 * rng.normal(size=n)
    insulin = 9 + 2.5 * (glucose - 5.6) + 3 * rng.normal(size=n)
    pulse = 72 + 3 * smoker - 0.2 * (age - 52) + 9 * rng.normal(size=n)
    columns = (systolic, age, height, weight, smoker, glucose, hba1c, insulin, pulse)
    return np.column_stack(columns)


def wages(n: int, rng: np.random.Generator) -> Rows:
    """A wage on education, experience, its square and sex; the square nearly follows."""
    education = np.clip(np.rint(13 + 2.8 * rng.standard_normal(n)), 0, 20)
    experience, female = np.clip(60 * rng.beta(1.6, 2.6, n), 0, 55), rng.random(n) < 0.45
    wage = 0.1 * education + 0.022 * experience - 0.0003 * experience**2 - 0.39 * female
    wage += 0.75 * rng.standard_normal(n)
    return np.column_stack([wage, education, experience, experience**2, female])


def family(name: str, d: int) -> Callable[[int, np.random.Generator], Rows]:
    def draw(n: int, rng: np.random.Generator) -> Rows:
        matrix = structured_covariance(name, d)
        rows = gaussian_records(matrix, n, random_state=int(rng.integers(2**31)))
        return rows * np.geomspace(1, 30, d) + 5

    return draw


def lognormal(n: int, rng: np.random.Generator) -> Rows:
    """Columns of long tails: exponentials of a chain."""
    seed = int(rng.integers(2**31))
    return np.exp(gaussian_records(structured_covariance("ar-0.8", 14), n, random_state=seed))


def students(n: int, rng: np.random.Generator) -> Rows:
    """Columns of very long tails: Student's t with three degrees of freedom, three factors."""
    seed = int(rng.integers(2**31))
    rows = gaussian_records(structured_covariance("three-factors", 20), n, random_state=seed)
    return rows / np.sqrt(rng.chisquare(3, (n, 20)) / 3)


def spikes(n: int, rng: np.random.Generator) -> Rows:
    """Half of the columns are nearly always 0 and sometimes very large; three factors."""
    seed = int(rng.integers(2**31))
    rows = gaussian_records(structured_covariance("three-factors", 30), n, random_state=seed)
    large = np.exp(1.5 * rows[:, :15]) * (rng.random((n, 15)) < 0.05)
    return np.column_stack([rows[:, 15:], large])


SIMULATED = {
    "patients": patients,
    "wages": wages,
    "lognormal": lognormal,
    "students": students,
    "spikes": spikes,
    "ar-0.5, 12 columns": family("ar-0.5", 12),
    "factor-blocks, 30 columns": family("factor-blocks", 30),
    "three-factors, 40 columns": family("three-factors", 40),
    "mixed-blocks, 60 columns": family("mixed-blocks", 60),
    "identity, 10 columns": family("identity", 10),
    "ar-0.8, 24 columns": family("ar-0.8", 24),
}
PACKAGED = {"fair": "affairs", "randhie": "mdvis"}  # of statsmodels, with the usual target
FILES = ("cps_wages", "elevators", "parkinsons", "pol", "pumadyn32nm", "tamielectric")
HELD_OUT = ("ar-0.8, 24 columns", "elevators", "randhie")


@dataclass(frozen=True)
class Fold:
    """Rows to fit and rows to test, and the covariance that intervals are to cover."""

    name: str
    fitted: Rows
    tested: Rows
    truth: np.ndarray


@cache
def simulated_truth(name: str) -> np.ndarray:
    rng = np.random.default_rng(1_000)
    draws = (np.cov(SIMULATED[name](N_TEST, rng), rowvar=False) for _ in range(N_TRUTH))
    return sum(draws) / N_TRUTH


def folds(name: str, folder: Path, seed: int) -> Iterator[Fold]:
    """Split a table, or draw one: at every size that it has, less a tenth for the test."""
    rng = np.random.default_rng(seed)
    if name in SIMULATED:
        tested = SIMULATED[name](N_TEST, rng)
        truth = simulated_truth(name)
        for n in SIZES:
            yield Fold(f"{name}, n = {n:,}", SIMULATED[name](n, rng), tested, truth)
        return
    if name in PACKAGED:
        frame = getattr(datasets, name).load_pandas().data
        target = frame.pop(PACKAGED[name])
        rows = np.column_stack([target, frame]).astype(np.float64)
    else:
        with np.load(folder / f"{name}.npz") as file:
            rows = np.column_stack([file["y"], file["X"]]).astype(np.float64)
    rows = rng.permutation(rows)
    most = len(rows) * 9 // 10
    for n in sorted({min(size, most) for size in SIZES}):
        yield Fold(f"{name}, n = {n:,}", rows[:n], rows[most:], np.cov(rows, rowvar=False))


def release_of(rows: Rows, seed: int) -> Release:
    estimator = PrivateSparseCovariance(
        epsilon=EPSILON,
        delta=DELTA,
        random_state=seed,
        on_hopeless="warn",
        on_large_delta="warn",
    )
    return estimator.fit(rows).release_


def questions(release: Release, fold: Fold) -> Iterator[tuple[int, np.ndarray]]:
    """Some targets, each on the nearest other column, on three, and on all that vary."""
    d = release.n_features
    strength = np.abs(np.nan_to_num(np.corrcoef(fold.fitted, rowvar=False)))
    good = ~nothing_known(release) & (fold.tested.std(axis=0) > 0)
    for y in np.unique(np.linspace(0, d - 1, N_TARGETS).astype(int)):
        others = np.flatnonzero(good & (np.arange(d) != y))
        if good[y] and len(others) >= 3:
            yield int(y), others[[np.argmax(strength[y, others])]]
            yield int(y), others[:3]
            yield int(y), others


def answers(release: Release, fold: Fold) -> Iterator[tuple[float, ...]]:
    """Errors of the mean, of ridge 0 and of the chosen ridge; coverage; both ridges used."""
    mean, S = fold.tested.mean(axis=0), np.cov(fold.tested, rowvar=False, bias=True)

    def error(y: int, X: np.ndarray, intercept: float, b: np.ndarray) -> float:
        tilde = np.zeros(len(mean))
        tilde[y], tilde[X] = 1.0, -b
        return float((tilde @ S @ tilde + (tilde @ mean - intercept) ** 2) / S[y, y])

    for y, X in questions(release, fold):
        auto, zero = (regress(release, y, X.tolist(), ridge=ridge) for ridge in ("auto", 0))
        b = np.linalg.lstsq(fold.truth[np.ix_(X, X)], fold.truth[X, y], rcond=1e-10)[0]
        covered = (auto.lower <= b) & (b <= auto.upper)
        yield (
            error(y, X, float(release.location[y]), np.zeros(len(X))),
            *(error(y, X, each.intercept, each.coefficients) for each in (zero, auto)),
            float(covered.mean()),
            float(auto.ridge > 0 or auto.multiplier < 1),
        )


def measured(names: list[str], folder: Path, runs: int) -> dict[str, np.ndarray]:
    """All answers of every table and size, a row each."""
    found: dict[str, list[tuple[float, ...]]] = {}
    work = [(name, seed) for name in names for seed in range(runs)]
    for name, seed in track(work, "releases", transient=True):
        for fold in folds(name, folder, seed):
            release = release_of(fold.fitted, seed)
            found.setdefault(fold.name, []).extend(answers(release, fold))
    return {name: np.array(rows) for name, rows in found.items() if rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tables", default="all", help="all, held-out, or names with commas")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # public tables: nothing to protect, nothing to refuse
    here = [name for name in FILES if (asked.folder / f"{name}.npz").exists()]
    names = [name for name in (*SIMULATED, *PACKAGED, *here) if name not in HELD_OUT]
    if asked.tables != "all":
        names = [*HELD_OUT] if asked.tables == "held-out" else asked.tables.split(",")
    found = measured(names, asked.folder, asked.runs)
    print("| table | mean | ridge 0 | chosen | shrunk | worse than 0 | than the mean | covered |")
    print("|---" * 8 + "|")
    for name, rows in (*found.items(), ("all", np.concatenate([*found.values()]))):
        mean, zero, auto, covered, shrunk = rows.T
        cells = [f"{np.mean(each):.3f}" for each in (mean, np.minimum(zero, 9.999), auto)]
        cells += [f"{np.mean(shrunk):.2f}", f"{np.mean(auto > zero + 1e-6):.2f}"]
        cells += [f"{np.mean(auto > mean):.3f} ({np.mean(zero > mean):.2f})"]
        print(f"| {name} | {' | '.join(cells)} | {np.mean(covered):.3f} |", flush=True)


if __name__ == "__main__":
    main()
