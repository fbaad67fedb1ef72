"""Regressions on columns that nearly determine each other, from releases: coverage and width.

python benchmarks/studies/collinear.py --table pair
python benchmarks/studies/collinear.py --table wages --runs 20
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import hushcov
from hushcov.answers.regression import regress
from hushcov.release import Release

EPSILON, DELTA = 1.0, 1e-6
MECHANISMS = {"gaussian": hushcov.GaussianCovariance, "default": hushcov.PrivateSparseCovariance}
COEFFICIENTS = {"usual": (0.285, -0.19, 0.35, -0.2), "strong": (0.9, -0.7, 0.3, -0.2)}
CENTRE = 20.0  # of experience, a public value


def release_of(rows: np.ndarray, mechanism: str, seed: int) -> Release:
    options = {"epsilon": EPSILON, "delta": DELTA, "random_state": seed}
    return MECHANISMS[mechanism](**options).fit(rows).release_


def correlated(kind: str, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """A target with four normal columns, of which the first two have this correlation."""
    b, S = np.array(COEFFICIENTS[kind]), np.eye(5)
    S[1, 2] = S[2, 1] = correlation
    S[3, 1:3] = S[1:3, 3] = -0.35
    S[0, 1:] = S[1:, 0] = S[1:, 1:] @ b
    return b, S


def pair(runs: int, n: int) -> None:
    """How often intervals cover the true coefficients, and how wide they are."""
    print("| mechanism | coefficients | correlation | ridge | covered | half width | R^2 covered |")
    for mechanism in MECHANISMS:
        for kind in COEFFICIENTS:
            for correlation in (0.5, 0.97, 0.995):
                b, S = correlated(kind, correlation)
                root, rng = np.linalg.cholesky(S), np.random.default_rng(0)
                covered, width, ridge, shares = [], [], 0, 0
                for seed in range(runs):
                    rows = rng.standard_normal((n, 5)) @ root.T
                    found = regress(release_of(rows, mechanism, seed), 0, [1, 2, 3, 4])
                    covered.append((found.lower <= b) & (b <= found.upper))
                    width.append((found.upper - found.lower) / 2)
                    ridge += found.hidden.any()
                    ends = found.r_squared_lower, found.r_squared_upper
                    shares += ends[0] <= b @ S[1:, 0] <= ends[1]
                cells = [f"{value / runs:.2f}" for value in (ridge, shares)]
                middle = [_in_pairs(np.mean(covered, 0)), _in_pairs(np.median(width, 0))]
                words = [mechanism, kind, f"{correlation:g}", cells[0], *middle, cells[1]]
                print(f"| {' | '.join(words)} |", flush=True)


def _in_pairs(values: np.ndarray) -> str:
    """The two columns that go together, and the two others."""
    return f"{values[:2].mean():.3f}, {values[2:].mean():.3f}"


def wages(runs: int, n: int) -> None:
    """Experience and its square, as it is and centred, over intervals of least squares."""
    print("| mechanism | square | ridge | covered | width over least squares, by column |")
    for mechanism in MECHANISMS:
        for centre in (0.0, CENTRE):
            ratios, covered, ridge = [], [], 0
            for seed in range(runs):
                rng = np.random.default_rng(seed)
                education = np.clip(np.rint(13 + 2.8 * rng.standard_normal(n)), 0, 20)
                experience = np.clip(60 * rng.beta(1.6, 2.6, n), 0, 55)
                female = (rng.random(n) < 0.45).astype(float)
                effects = 0.1 * education + 0.022 * experience - 0.0003 * experience**2
                wage = effects - 0.39 * female + 0.75 * rng.standard_normal(n)
                columns = [education, experience, (experience - centre) ** 2, female]
                b, half = least_squares(np.column_stack(columns), wage)
                rows = np.column_stack([wage, *columns])
                found = regress(release_of(rows, mechanism, seed), 0, [1, 2, 3, 4])
                ratios.append((found.upper - found.lower) / 2 / half)
                covered.append((found.lower <= b) & (b <= found.upper))
                ridge += found.hidden.any()
            name = f"centred at {centre:g}" if centre else "as it is"
            widths = ", ".join(f"{value:.1f}" for value in np.median(ratios, axis=0))
            cells = [mechanism, name, f"{ridge / runs:.2f}", f"{np.mean(covered):.2f}", widths]
            print(f"| {' | '.join(cells)} |", flush=True)


def least_squares(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and half widths of their intervals, without privacy."""
    design = np.column_stack([np.ones(len(X)), X])
    b, (left,), *_ = np.linalg.lstsq(design, y, rcond=None)
    inverse = np.linalg.inv(design.T @ design)
    return b[1:], 1.96 * np.sqrt(np.diag(inverse)[1:] * left / len(X))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=("pair", "wages"), default="pair")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated: nothing to protect, nothing to refuse
    {"pair": pair, "wages": wages}[asked.table](asked.runs, asked.rows)


if __name__ == "__main__":
    main()
