"""The default on tables that are not what textbooks have, as they come and with what helps.

    python benchmarks/figures/awkward.py --figure docs/figures/awkward.png    # a minute

20,000 rows of 20 simulated columns in groups of four, or what the name says; epsilon = 1, delta =
1e-6, nothing known but where the name says so. The error is the operator norm in units of the
standard deviations, over that of the true correlation matrix; the zero matrix has 1. Medians of
five releases.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import HopelessError
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.report.style import BLUE, VERMILION, caption, new_figure, tidy, write_png
from hushcov.simulate import gaussian_records, sparse_covariance, structured_covariance
from hushcov.tables.sources import open_records

ROWS, COLUMNS, RELEASES = 20_000, 20, 5
PEOPLE, RARE = 5_000, 0.01  # of several rows each; the share of a rare answer
BLOCKS = sparse_covariance("block", COLUMNS, 4)
Matrix = Any
TEXT = (
    "What to see: further left is better, and on the dashed line zeros would do as well. Blue: "
    "what helps is done, or nothing need be. Orange: the table as it comes, or the wrong option. "
    "20,000 rows of 20 columns unless said otherwise, epsilon = 1, delta = 1e-6, medians of 5."
)


def released(rows: Any, truth: Matrix, **options: Any) -> float:
    """The error of one release; 1 where it is refused, as of zeros."""
    unit = options.pop("unit", None)
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, **options)
    deviation = np.sqrt(np.diag(truth))
    units = np.multiply.outer(deviation, deviation)
    try:
        est.fit(rows) if unit is None else est.fit(rows, unit=unit)
    except HopelessError:
        return 1.0
    error = operator_norm_error(est.covariance_ / units, truth / units)
    return float(error / operator_norm(truth / units))


def lognormal_covariance() -> Matrix:
    """Of exponentials of the normal columns."""
    half = np.exp(np.diag(BLOCKS) / 2)
    return np.multiply.outer(half, half) * (np.exp(BLOCKS) - 1)


def rare() -> tuple[Matrix, Matrix]:
    answers = (np.random.default_rng(0).random((ROWS, COLUMNS)) < RARE).astype(float)
    return answers, RARE * (1 - RARE) * np.eye(COLUMNS)


def missing(rows: Matrix) -> Any:
    holes = np.random.default_rng(1).random(rows.shape) < 0.01
    return open_records(np.where(holes, np.nan, rows)).with_gaps()


def visits(alike: float) -> tuple[Matrix, Matrix, Matrix]:
    """Rows of people, of whom a share of the variance is their own; and whose each row is."""
    each = ROWS // PEOPLE
    own = gaussian_records(BLOCKS, PEOPLE, random_state=2)
    noise = gaussian_records(BLOCKS, ROWS, random_state=3)
    rows = np.sqrt(alike) * np.repeat(own, each, axis=0) + np.sqrt(1 - alike) * noise
    return rows, BLOCKS, np.repeat(np.arange(PEOPLE), each)


def cases() -> dict[str, tuple[bool, Callable[[], float]]]:
    """What is tried: whether it is sound advice, and one release."""
    plain = gaussian_records(BLOCKS, ROWS)
    factors = structured_covariance("three-factors", COLUMNS, random_state=7)
    dense = structured_covariance("wishart", COLUMNS, random_state=7)
    answers, of_answers = rare()
    ordered = plain[np.argsort(plain[:, 0])]
    alike, _, whose = visits(0.8)
    apart, _, _ = visits(0.0)
    few = plain[:1_000]
    known = {"assume_centered": True, "feature_scale": np.sqrt(np.diag(BLOCKS))}
    yes_no = dict.fromkeys(range(COLUMNS), (0, 1))
    return {
        "few pairs related": (True, lambda: released(plain, BLOCKS)),
        "not sparse: three factors": (
            True,
            lambda: released(gaussian_records(factors, ROWS), factors),
        ),
        "not sparse: all pairs, a little": (
            True,
            lambda: released(gaussian_records(dense, ROWS), dense),
        ),
        "skewed: lognormal": (False, lambda: released(np.exp(plain), lognormal_covariance())),
        "skewed: logarithms of the same": (True, lambda: released(plain, BLOCKS)),
        "small: 1,000 rows": (False, lambda: released(few, BLOCKS)),
        "small: 1,000 rows, 5 columns": (
            True,
            lambda: released(few[:, :5], BLOCKS[:5, :5]),
        ),
        "small: 1,000 rows, means and scales known": (
            True,
            lambda: released(few, BLOCKS, **known),
        ),
        "yes or no, 1 % yes": (False, lambda: released(answers, of_answers)),
        "yes or no, 1 % yes, bounds given": (
            True,
            lambda: released(answers, of_answers, bounds=yes_no),
        ),
        "sorted by a column": (True, lambda: released(ordered, BLOCKS)),
        "missing: 1 % of values, drop_nulls": (True, lambda: released(missing(plain), BLOCKS)),
        "4 rows a person, unrelated, unit=": (
            True,
            lambda: released(apart, BLOCKS, unit=whose),
        ),
        "4 rows a person, alike, unit=": (True, lambda: released(alike, BLOCKS, unit=whose)),
    }


def draw(cells: list[dict], path: Path) -> None:
    figure = new_figure(10, 6.2)
    axes = figure.subplots()
    places = range(len(cells))
    for place, cell in zip(places, cells, strict=True):
        colour, marker = (BLUE, "o") if cell["sound"] else (VERMILION, "s")
        axes.plot([cell["error"]], [place], marker, color=colour, markersize=8)
        axes.text(cell["error"] * 1.08, place, f"{cell['error']:.2g}", va="center", fontsize=9)
    axes.axvline(1, color="0.4", linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="error over the norm of the covariance", xlim=(0.01, 1.6))
    axes.set_xticks([0.01, 0.03, 0.1, 0.3, 1], ["0.01", "0.03", "0.1", "0.3", "1"])
    axes.set_xticks([], minor=True)
    axes.set_yticks(places, [cell["case"] for cell in cells])
    axes.invert_yaxis()
    tidy(axes)
    headline = "Most awkward tables can be repaired by one option; too few rows cannot"
    write_png(path, caption(figure, TEXT, width=120, headline=headline))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, default=Path("results/awkward.png"))
    parser.add_argument("--draw", action="store_true", help="draw again what was measured")
    options = parser.parse_args()
    path = options.figure.with_suffix(".json")
    if not options.draw:
        cells = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what cannot be found: that is in the error
            for name, (sound, release) in cases().items():
                error = statistics.median(release() for _ in range(RELEASES))
                cells.append({"case": name, "sound": sound, "error": error})
                print(f"| {name} | {error:.2g} |", flush=True)
        path.write_text(json.dumps(cells, indent=1) + "\n")
    draw(json.loads(path.read_text()), options.figure)


if __name__ == "__main__":
    main()
