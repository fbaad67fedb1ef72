"""What a wrong or a missing parameter costs: `docs/parameters.md`.

    python benchmarks/studies/wrong_numbers.py             # about three minutes on two cores
    python benchmarks/studies/wrong_numbers.py --bounds    # rare answers, with bounds and without

Random model, 100 columns, true row sparsity 5, 50,000 normal records, epsilon 1, delta 1e-6, and
nothing known, but for what a table says. Errors are relative operator norms, medians over releases.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from typing import Any

import numpy as np

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.simulate import gaussian_records, sparse_covariance

FEATURES, SPARSITY, RECORDS = 100, 5, 50_000
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
MEAN_KNOWN = {"assume_centered": True}
SPARSITIES = (2, 3, 5, 10, 20, 50)
FACTORS = (0.1, 0.25, 0.5, 1, 2, 4, 10)  # of the scales, where wrong ones are given
EPSILONS, DELTAS = (0.1, 0.3, 1, 3, 10), (1e-5, 1e-6, 1e-8, 1e-10)
QUESTIONS, RARE = 20, 0.01  # yes and no, and the share of yes


def settings(deviation: Any) -> dict[str, dict[str, tuple[Any, dict[str, Any]]]]:
    """Tables, and of each its columns: an estimator and its options."""
    ours = PrivateSparseCovariance
    known = {"nothing": {}, "scales": {"feature_scale": deviation}, "mean": MEAN_KNOWN}
    known["mean and scales"] = known["mean"] | known["scales"]
    told = {str(k): {"row_sparsity": k} for k in SPARSITIES}
    scaled = {str(f): MEAN_KNOWN | {"feature_scale": f * deviation} for f in FACTORS}
    return {
        "row sparsity, ScreenedCovariance": {k: (ScreenedCovariance, v) for k, v in told.items()},
        "row sparsity, the default": {k: (ours, v) for k, v in told.items()},
        "scales over the true ones, mean known": {k: (ours, v) for k, v in scaled.items()},
        "epsilon": {str(e): (ours, {"epsilon": e}) for e in EPSILONS},
        "delta": {str(e): (ours, {"delta": e}) for e in DELTAS},
        "known": {k: (ours, v) for k, v in known.items()},
    }


def shown(name: str, cells: dict[str, str]) -> None:
    """A table of two lines, as Markdown."""
    for words in ((name, *cells), ("---", *("---" for _ in cells)), ("error", *cells.values())):
        print("| " + " | ".join(words) + " |")
    print(flush=True)


def wrong_numbers(releases: int) -> None:
    """Errors of all settings on the same records; the noise is new each time."""
    truth = sparse_covariance("random", FEATURES, SPARSITY)
    rows = gaussian_records(truth, RECORDS)
    for name, columns in settings(np.sqrt(np.diag(truth))).items():
        cells = {}
        for label, (estimator, options) in columns.items():
            made = estimator(**BUDGET | options)
            found = [made.fit(rows).covariance_ for _ in range(releases)]
            errors = [operator_norm_error(each, truth) / operator_norm(truth) for each in found]
            cells[label] = f"{statistics.median(errors):.2g}"
        shown(name, cells)


def rare_answers(releases: int) -> None:
    """How many columns of rare answers are found, and the error, without bounds and with."""
    print("| records | nothing known | not found | with bounds | not found |")
    print("|---|---|---|---|---|")
    for n in (10_000, 20_000, 50_000, 100_000):
        answers = (np.random.default_rng(0).random((n, QUESTIONS)) < RARE).astype(float)
        truth = RARE * (1 - RARE) * np.eye(QUESTIONS)
        cells = [f"{n:,}"]
        for bounds in (None, dict.fromkeys(range(QUESTIONS), (0, 1))):
            made = GaussianCovariance(**BUDGET, bounds=bounds)
            errors, lost = [], []
            for _ in range(releases):
                made.fit(answers)
                errors.append(operator_norm_error(made.covariance_, truth) / operator_norm(truth))
                lost.append(len(made.unresolved_features_))
            cells += [f"{statistics.median(errors):.2g}", f"{statistics.median(lost):.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--bounds", action="store_true", help="the table of rare answers")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that are wrong, which is the point
        (rare_answers if options.bounds else wrong_numbers)(options.releases)


if __name__ == "__main__":
    main()
