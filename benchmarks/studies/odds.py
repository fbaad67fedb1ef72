"""Odds ratios of `logistic()` beside maximum likelihood on the records.

    python benchmarks/studies/odds.py --arrays FOLDER
    python benchmarks/studies/odds.py --tables fair --rows 20000 --runs 2

FOLDER holds .npz files with X and y; tables that are not there are left out. A table is the
population: maximum likelihood on all of its rows is the truth. "without noise" is the discriminant
function of these rows, which has its bias alone; releases are of rows drawn with replacement, as
many as --rows says, at epsilon 1 and delta 1e-6 with nothing known but which columns hold 0 and 1.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from rich.progress import track
from scipy import special
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from hushcov import PrivateSparseCovariance

Table = pd.DataFrame  # the target is called "target", and flags hold booleans


def of_statsmodels(name: str, target: str, above: float, columns: tuple[str, ...] = ()) -> Table:
    """A table of statsmodels whose target is whether a column lies above a number."""
    frame = getattr(sm.datasets, name).load_pandas().data.dropna()
    wanted = frame.pop(target) > above
    return with_flags(frame[list(columns)] if columns else frame, wanted)


def of_sklearn(load: Callable, columns: list[int], target: Callable) -> Table:
    """Some columns of a table of scikit-learn."""
    bunch = load()
    frame = pd.DataFrame(bunch.data[:, columns], columns=[f"x{i}" for i in columns])
    return with_flags(frame, target(bunch.target))


def of_arrays(folder: Path, name: str, columns: int, share: float) -> Table:
    """The first columns that vary, and whether the target is among its largest values."""
    held = np.load(folder / f"{name}.npz")
    X = held["X"][:, held["X"].std(axis=0) > 0][:, :columns].astype(float)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return with_flags(frame, held["y"] > np.quantile(held["y"], 1 - share))


def with_flags(frame: pd.DataFrame, target: np.ndarray) -> Table:
    """Put the target first, and make columns of 0 and 1 booleans."""
    flags = [name for name in frame if set(frame[name].unique()) == {0, 1}]
    frame = frame.astype(dict.fromkeys(flags, bool)).reset_index(drop=True)
    frame.insert(0, "target", np.asarray(target, dtype=bool))
    return frame


def simulated(share: float, flags: tuple[float, ...], effect: float, n: int = 400_000) -> Table:
    """Four normal columns and some flags of these shares, in a logistic model."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4)) @ np.linalg.cholesky(np.full((4, 4), 0.3) + 0.7 * np.eye(4)).T
    X = np.column_stack([X, *(rng.random(n) < each for each in flags)])
    slope = X @ (effect * np.array([1.0, -0.6, 0.4, 0.0, *np.ones(len(flags))]))
    levels = np.linspace(-30, 30, 4001)
    at = np.searchsorted([special.expit(slope + a).mean() for a in levels[::40]], share)
    level = levels[40 * max(at, 1)] - 0.6
    for _ in range(30):
        p = special.expit(slope + level)
        level += (share - p.mean()) / (p * (1 - p)).mean()
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return with_flags(frame, rng.random(n) < special.expit(slope + level))


def tables(folder: Path | None) -> dict[str, Callable[[], Table]]:
    """All tables, real ones first."""
    found = {
        "fair: any affair": lambda: of_statsmodels("fair", "affairs", 0),
        "randhie: any visit": lambda: of_statsmodels("randhie", "mdvis", 0),
        "anes96: vote": lambda: of_statsmodels("anes96", "vote", 0.5),
        "modechoice: chosen": lambda: of_statsmodels(
            "modechoice", "choice", 0.5, ("ttme", "invc", "invt", "gc", "hinc")
        ),
        "cancer: malignant": lambda: of_sklearn(
            datasets.load_breast_cancer, [0, 1, 4, 8], lambda y: y == 0
        ),
        "diabetes: above the median": lambda: of_sklearn(
            datasets.load_diabetes, [0, 1, 2, 3, 6, 7], lambda y: y > np.median(y)
        ),
    }
    asked = {
        "cps_wages": ("wage above the median", 4, 0.5),
        "elevators": ("largest tenth", 6, 0.1),
        "parkinsons": ("above the median", 4, 0.5),
        "pol": ("largest third", 6, 0.33),
    }
    for name, (words, columns, share) in asked.items():
        if folder is not None and (folder / f"{name}.npz").exists():
            found[f"{name}: {words}"] = lambda name=name, columns=columns, share=share: of_arrays(
                folder, name, columns, share
            )
    for share in (0.3, 0.03):
        for effect in (0.3, 1.0):
            words = f"simulated: share {share:g}, effect {effect:g}"
            found[words] = lambda share=share, effect=effect: simulated(share, (), effect)
            found[f"{words}, flags of 0.3 and 0.03"] = lambda share=share, effect=effect: simulated(
                share, (0.3, 0.03), effect
            )
    rare = "simulated: share 0.01, effect 2, flags of 0.1 and 0.01"
    found[rare] = lambda: simulated(0.01, (0.1, 0.01), 2.0)
    return found


def likelihood(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The intercept and log odds that make the records likeliest, by Newton's steps."""
    design, beta = np.column_stack([np.ones(len(X)), X]), np.zeros(X.shape[1] + 1)
    for _ in range(100):
        p = special.expit(design @ beta)
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        step = np.linalg.solve(hessian, design.T @ (y - p))
        size = min(1.0, 5.0 / np.abs(design @ step).max())
        beta = beta + size * step
        if np.abs(step * np.concatenate([[1.0], X.std(axis=0)])).max() < 1e-10:
            return beta
    raise ValueError("maximum likelihood does not exist: columns separate the target")


def discriminant(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The intercept and log odds of the discriminant function of the records; and R^2."""
    ones, zeros = X[y == 1].mean(axis=0), X[y == 0].mean(axis=0)
    within = np.cov((X - np.where(y[:, None] == 1, ones, zeros)).T, bias=True)
    beta, p = np.linalg.solve(np.atleast_2d(within), ones - zeros), y.mean()
    variance = p * (1 - p) * float((ones - zeros) @ beta)
    return np.concatenate([[special.logit(p) - (ones + zeros) @ beta / 2], beta]), variance / (
        1 + variance
    )


def likeliness(X: np.ndarray, y: np.ndarray, beta: np.ndarray) -> float:
    slope = beta[0] + X @ beta[1:]
    return float(np.mean(y * slope - np.logaddexp(0, slope)))


class Compared:
    """Log odds per standard deviation beside those of maximum likelihood on a table."""

    def __init__(self, table: Table) -> None:
        self.X, self.y = table.drop(columns="target").to_numpy(float), table.target.to_numpy(float)
        self.best, self.sd = likelihood(self.X, self.y), self.X.std(axis=0)
        self.without, self.r_squared = discriminant(self.X, self.y)

    def cells(self, beta: np.ndarray) -> tuple[float, float, float, float]:
        """Largest error, sum of errors over the sum of sizes, deviance explained, loss of AUC."""
        off = np.abs(beta[1:] - self.best[1:]) * self.sd
        size = np.abs(self.best[1:]) * self.sd
        none = np.zeros_like(beta)
        none[0] = special.logit(self.y.mean())
        least, most, own = (likeliness(self.X, self.y, b) for b in (none, self.best, beta))
        auc = [roc_auc_score(self.y, self.X @ b[1:]) for b in (self.best, beta)]
        return off.max(), off.sum() / size.sum(), (own - least) / (most - least), auc[0] - auc[1]


def released(
    table: Table, truth: Compared, n: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log odds of a release with their intervals; NaN for columns that were left out."""
    rows = table.sample(n, replace=True, random_state=seed, ignore_index=True)
    flags = {name: (0.0, 1.0) for name in rows if rows[name].dtype == bool}
    estimator = PrivateSparseCovariance(
        epsilon=1.0, delta=1e-6, random_state=seed, bounds=flags, on_hopeless="warn"
    )
    found = estimator.fit(rows).logistic("target", [name for name in rows if name != "target"])
    places = [list(table.columns).index(name) - 1 for name in found.features]
    ends = np.full((3, truth.X.shape[1]), np.nan)
    ends[:, places] = found.coefficients, found.coefficient_lower, found.coefficient_upper
    beta = np.concatenate([[found.intercept], np.nan_to_num(ends[0])])
    return beta, ends[1], ends[2]


def line(name: str, table: Table, n: int, runs: int) -> tuple[str, float]:
    """A row of the table in docs/questions.md, and the loss of AUC."""
    truth = Compared(table)
    bias, noisy, covered, covered_own = truth.cells(truth.without), [], [], []
    for seed in range(runs):
        beta, low, high = released(table, truth, n, seed)
        noisy.append(truth.cells(beta))
        known = ~np.isnan(low)
        for each, exact in ((covered, truth.best), (covered_own, truth.without)):
            each.append(((low <= exact[1:]) & (exact[1:] <= high))[known].mean())
    means = np.mean(noisy, axis=0)
    cells = [name, f"{truth.y.mean():.3g}", f"{truth.r_squared:.2f}"]
    for each in (bias, means):
        cells += [f"{each[0]:.2f}", f"{each[1]:.2f}", f"{each[2]:.3f}"]
    cells += [f"{np.mean(covered_own):.2f}", f"{np.mean(covered):.2f}"]
    return f"| {' | '.join(cells)} |", float(max(bias[3], means[3]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrays", type=Path)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--tables", default="", help="those whose name begins so")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # public tables: nothing to protect, nothing to refuse
    errors = "largest | all | explained"
    print(f"| table | share | R^2 | {errors} | {errors} | own | ML |")
    print("|---" * 11 + "|")
    lost = 0.0
    chosen = [each for each in tables(asked.arrays).items() if each[0].startswith(asked.tables)]
    for name, make in track(chosen, "tables", transient=True):
        text, loss = line(name, make(), asked.rows, asked.runs)
        lost = max(lost, loss)
        print(text, flush=True)
    print(f"AUC is at most {lost:.3f} below that of maximum likelihood.")


if __name__ == "__main__":
    main()
