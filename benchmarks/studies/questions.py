"""Regression and conditional means of a release against those of the rows.

python benchmarks/studies/questions.py --question regression
python benchmarks/studies/questions.py --question conditional --cells 12,10000 --epsilons 0.5,1,3
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
from rich.progress import track
from unknown_tables import TABLES, Missing

from hushcov import PrivateSparseCovariance
from hushcov.answers.conditional import conditional
from hushcov.answers.regression import regress
from hushcov.release import Release
from hushcov.simulate import gaussian_records, structured_covariance

DELTA = 1e-6
N_ON = 3  # columns of a short regression, and of what is given
N_TARGETS = 6
SIMULATED = ("identity", "blocks", "factor")
Answers = dict[str, float]


def covariance(family: str, d: int, seed: int) -> np.ndarray:
    """A correlation matrix: blocks of six columns, one factor, or one of hushcov's families."""
    if family == "blocks":
        return np.where(np.subtract.outer(np.arange(d) // 6, np.arange(d) // 6) == 0, 0.5, 0.0) + (
            0.5 * np.eye(d)
        )
    if family == "factor":
        rng = np.random.default_rng(seed)
        loading = rng.uniform(0.3, 0.9, d) * rng.choice([-1, 1], d)
        return np.outer(loading, loading) + np.diag(1 - loading**2)
    return structured_covariance(family, d, random_state=seed)


def simulated(family: str, d: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with unknown means and scales, and their true means and covariance."""
    rng = np.random.default_rng(seed)
    scale, mean = np.exp(rng.normal(size=d)), 3 * rng.normal(size=d)
    mean = mean * scale
    C = covariance(family, d, seed)
    rows = gaussian_records(C, n, random_state=seed) * scale + mean
    return rows, mean, C * np.outer(scale, scale)


def release_of(rows: np.ndarray, epsilon: float, seed: int) -> Release:
    """The release of the default estimator, told nothing."""
    estimator = PrivateSparseCovariance(
        epsilon=epsilon,
        delta=DELTA,
        random_state=seed,
        on_hopeless="warn",
        on_large_delta="warn",
    )
    return estimator.fit(rows).release_


def least_squares(S: np.ndarray, y: int, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients and R^2 of a covariance."""
    b = np.linalg.lstsq(S[np.ix_(X, X)], S[X, y], rcond=None)[0]
    return b, float(S[X, y] @ b / S[y, y])


def loss(S: np.ndarray, y: int, X: np.ndarray, off: np.ndarray) -> float:
    """The standard deviation of what wrong coefficients add, over that of the target."""
    return float(np.sqrt(max(off @ S[np.ix_(X, X)] @ off, 0.0) / S[y, y]))


def lost(release: Release) -> np.ndarray:
    bad = ~(release.integers.diagonal() > 0)
    bad[list(release.making.unresolved)] = True
    return bad


def targets(release: Release) -> Iterator[tuple[int, np.ndarray]]:
    """Columns to ask for, each with the next ones of its block of six."""
    d, bad = release.n_features, lost(release)
    for y in np.unique(np.linspace(0, d - 1, N_TARGETS).astype(int)):
        block = [j for j in range(y // 6 * 6, min(y // 6 * 6 + 6, d)) if j != y]
        on = np.array([*block, *(j for j in range(d) if j != y and j not in block)])[:N_ON]
        if not bad[y] and not bad[on].any():
            yield int(y), on


def regressions(
    release: Release, rows: np.ndarray, mean: np.ndarray, S: np.ndarray
) -> Iterator[Answers]:
    """Regressions on three columns, and on what is found, held against the truth and the rows."""
    exact = np.cov(rows, rowvar=False)
    every = np.arange(len(S))
    for y, on in targets(release):
        for name, asked in (("three", on), ("found", None)):
            answer = regress(release, y, asked)
            X = np.array([int(each[1:]) for each in answer.features], dtype=np.int64)
            b, share = least_squares(S, y, X)
            of_rows, share_of_rows = least_squares(exact, y, X)
            yield {
                f"{name} n": len(X),
                f"{name} error": loss(S, y, X, answer.coefficients - b),
                f"{name} rows": loss(S, y, X, of_rows - b),
                f"{name} finite": float(np.mean(~answer.noise)) if len(X) else np.nan,
                f"{name} covered": _mean((answer.lower <= b) & (b <= answer.upper)),
                f"{name} R2": share,
                f"{name} R2 off": abs(answer.r_squared - share),
                f"{name} R2 rows": abs(share_of_rows - share),
                f"{name} R2 covered": answer.r_squared_lower
                <= share + 1e-12
                <= answer.r_squared_upper + 2e-12,
                f"{name} intercept": answer.intercept_lower
                <= mean[y] - mean[X] @ b
                <= answer.intercept_upper,
                f"{name} missed": least_squares(S, y, every[every != y])[1] - share,
            }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def conditionals(
    release: Release, rows: np.ndarray, mean: np.ndarray, S: np.ndarray
) -> Iterator[Answers]:
    """Means of columns given three others, at values drawn at random."""
    exact, own_mean = np.cov(rows, rowvar=False), rows.mean(axis=0)
    rng = np.random.default_rng(len(rows))
    for y, X in targets(release):
        at = rng.multivariate_normal(mean[X], S[np.ix_(X, X)])
        answer = conditional(release, dict(zip(X.tolist(), at.tolist(), strict=True)), y)
        b, share = least_squares(S, y, X)
        truth = mean[y] + b @ (at - mean[X])
        of_rows = own_mean[y] + least_squares(exact, y, X)[0] @ (at - own_mean[X])
        unit, left = np.sqrt(S[y, y]), np.sqrt(S[y, y] * (1 - share))
        yield {
            "mean off": abs(float(answer.mean[0]) - truth) / unit,
            "mean rows": abs(of_rows - truth) / unit,
            "covered": float(answer.lower[0] <= truth <= answer.upper[0]),
            "finite": float(np.isfinite(answer.upper[0])),
            "deviation off": abs(float(answer.deviation[0]) - left) / left,
        }


QUESTIONS: dict[str, Callable[..., Iterator[Answers]]] = {
    "regression": regressions,
    "conditional": conditionals,
}


def measured(
    questions: list[str], source: str, d: int, n: int, epsilon: float, seed: int
) -> dict[str, Answers]:
    """Means over the answers to each question, of one release."""
    if source in TABLES:
        rows = TABLES[source]()
        mean, S = rows.mean(axis=0), np.cov(rows, rowvar=False)
    else:
        rows, mean, S = simulated(source, d, n, seed)
    release = release_of(rows, epsilon, seed)
    found = {}
    for question in questions:
        columns = defaultdict(list)
        for answer in QUESTIONS[question](release, rows, mean, S):
            for name, value in answer.items():
                columns[name].append(float(value))
        found[question] = {name: float(np.nanmean(values)) for name, values in columns.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--question", default=",".join(QUESTIONS))
    parser.add_argument("--sources", default=",".join(SIMULATED), help="families or tables")
    parser.add_argument("--cells", default="6,10000 12,10000 50,10000", help="columns,rows")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    cells = [tuple(map(int, cell.split(","))) for cell in asked.cells.split()]
    questions = asked.question.split(",")
    heads: set[str] = set()
    for source in asked.sources.split(","):
        for d, n in cells:
            for epsilon in map(float, asked.epsilons.split(",")):
                name = f"{source} {d}, n = {n:,}, epsilon = {epsilon:g}"
                try:
                    runs = [
                        measured(questions, source, d, n, epsilon, seed)
                        for seed in track(range(asked.runs), name, transient=True)
                    ]
                except Missing as why:
                    print(f"{source}: {why}")
                    continue
                for question in questions:
                    _print(question, name, [run[question] for run in runs], heads)


def _print(question: str, name: str, runs: list[Answers], heads: set[str]) -> None:
    """A line of a table, after its head if that is new."""
    names = list(dict.fromkeys(column for run in runs for column in run))
    if not names:
        print(f"| {question}: {name} | nothing found |")
        return
    if question not in heads:
        heads.add(question)
        print(f"| {question} | {' | '.join(names)} |")
    values = [np.nanmean([run.get(column, np.nan) for run in runs]) for column in names]
    print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


if __name__ == "__main__":
    main()
