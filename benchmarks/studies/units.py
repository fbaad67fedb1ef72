"""People with several rows: all of a person protected, beside other ways: `docs/research.md`.

    python benchmarks/studies/units.py
    python benchmarks/studies/units.py --people 3000 --seeds 1 --most 16

Rows of a person are independent, or share an effect of the person that has 80 % of the variance.
Errors are operator norms over that of the truth, the median of some seeds. "averaged" has one row
for each person, the mean of theirs, and its own truth; "one row" has one of theirs. Group privacy
is a fit of rows whose budget is so small that it holds for all rows of a person together.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.exceptions import HushcovError
from hushcov.metrics import operator_norm
from hushcov.simulate import gaussian_records, sparse_covariance

EPSILON, DELTA, SPARSITY = 1.0, 1e-6, 5
PERSON = 0.8  # of the variance, where rows of a person are alike
Matrix = npt.NDArray[np.float64]


def estimators() -> dict[str, tuple[Any, dict[str, Any]]]:
    """What is compared, by name."""
    return {
        "default": (PrivateSparseCovariance, {}),
        "screened": (ScreenedCovariance, {"row_sparsity": SPARSITY}),
        "gaussian": (GaussianCovariance, {"threshold": "universal"}),
    }


class People:
    """A table of rows in any order, and whose they are."""

    def __init__(self, people: int, rows: int, d: int, effect: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.truth = sparse_covariance("block", d, SPARSITY)
        self.most = rows
        self.sizes = rng.integers(1, rows + 1, people)
        owner = np.repeat(np.arange(people), self.sizes)
        own = gaussian_records(self.truth, len(owner), random_state=seed + 1)
        shared = gaussian_records(self.truth, people, random_state=seed + 2)
        X = math.sqrt(effect) * shared[owner] + math.sqrt(1 - effect) * own
        order = rng.permutation(len(owner))
        self.X, self.owner, self.effect = X[order], owner[order], effect

    def averaged(self) -> tuple[Matrix, Matrix]:
        """Means of people, and their covariance."""
        sums = [np.bincount(self.owner, column) for column in self.X.T]
        share = self.effect + (1 - self.effect) * float(np.mean(1 / self.sizes))
        return np.stack(sums, axis=1) / self.sizes[:, None], share * self.truth

    def one_row(self) -> Matrix:
        """One row of each."""
        return self.X[np.unique(self.owner, return_index=True)[1]]


def error(make: tuple[Any, dict[str, Any]], X: Matrix, truth: Matrix, **options: Any) -> float:
    """The relative error of a fit; of zeros where it is refused."""
    kind, given = make
    unit = {"unit": options.pop("unit")} if "unit" in options else {}
    budget = {"epsilon": EPSILON, "delta": DELTA, "on_hopeless": "warn"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = kind(**budget | given | options).fit(X, **unit)
        except HushcovError:
            return 1.0
    return operator_norm(fitted.covariance_ - truth) / operator_norm(truth)


def errors(people: People, name: str, most: list[int], seed: int) -> dict[str, float]:
    """Errors of one estimator, by what is done about rows of a person."""
    make, common = estimators()[name], {"random_state": seed}
    found = {
        f"M = {each}": error(
            make, people.X, people.truth, unit=people.owner, max_rows_per_unit=each, **common
        )
        for each in most
    }
    found["chosen"] = error(make, people.X, people.truth, unit=people.owner, **common)
    found["averaged"] = error(make, *people.averaged(), **common)
    found["one row"] = error(make, people.one_row(), people.truth, **common)
    group = {
        "epsilon": EPSILON / people.most,
        "delta": DELTA / (people.most * math.exp(EPSILON)),
    }
    found["group"] = error(make, people.X, people.truth, **common, **group)
    return found


def main() -> None:
    """Print a table for independent rows, and one for those that are alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=50, help="of a person, at most")
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--most", default="8,16,32,50")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="default,screened,gaussian")
    given = parser.parse_args()
    most = [int(each) for each in given.most.split(",")]
    for effect in (0.0, PERSON):
        print(f"\nperson effect {effect:.0%} of the variance", flush=True)
        for place, name in enumerate(given.only.split(",")):
            start, rows = time.monotonic(), []
            for seed in range(given.seeds):
                people = People(given.people, given.rows, given.features, effect, 10 * seed)
                rows.append(errors(people, name, most, seed + 1))
            if place == 0:
                print("| estimator | " + " | ".join(rows[0]) + " |", flush=True)
                print("|---" * (len(rows[0]) + 1) + "|", flush=True)
            medians = [f"{np.median([row[key] for row in rows]):.3f}" for key in rows[0]]
            print(f"| {name} | " + " | ".join(medians) + " |", flush=True)
            print(f"  ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
