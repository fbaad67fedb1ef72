"""How good the default is at which size, with nothing known: the map on the first page.

    python benchmarks/figures/sizes.py --figure docs/figures/sizes.png

Simulated normal columns with scales over two decades and offsets. Means, scales and structure are
found privately at epsilon = 1, delta = 1e-6. The error is the operator norm in units of the
standard deviations, over that of the correlation matrix: the zero matrix has 1, and so has a size
that is refused. Medians of three releases. Half an hour on two busy cores; `--draw` draws again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import warnings
from pathlib import Path

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import HopelessError
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.report.style import caption, new_figure, write_png
from hushcov.simulate import gaussian_records, structured_covariance

STRUCTURES = {
    "random": "few pairs: 4 partners each",
    "three-factors": "three factors move all",
    "wishart": "all pairs related, a little",
}
RECORDS = (1_000, 3_000, 10_000, 30_000, 100_000)
FEATURES = (5, 20, 50, 200, 1_000)
RELEASES = 3
MOST_GOOD, MOST_ROUGH = 0.1, 0.5  # errors, of which upper ends are about twice as large
COLOURS = ("#8fd0b8", "#f6dc9c", "#d9d9d9")  # good, rough, hopeless: told apart in grey, too
TEXT = (
    "What to see: each number is the measured error of the default, told nothing, at epsilon = 1 "
    "and delta = 1e-6; 0.1 is off by a tenth of the size of the matrix, and the zero matrix, which "
    "needs no data, has 1. Half the epsilon takes about twice the rows. 'refused': the program "
    "says before it reads a row that there is no use. Normal columns, medians of 3 releases."
)


def error(correlation: np.ndarray, n: int, seed: int) -> float | None:
    """Of one release; None where it is refused before anything is read."""
    scale = np.geomspace(1, 100, len(correlation))
    offset = 3 * np.random.default_rng(len(scale)).standard_normal(len(scale)) * scale
    rows = gaussian_records(correlation, n, random_state=seed) * scale + offset
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6)
    try:
        released = est.fit(rows).covariance_ / np.multiply.outer(scale, scale)
    except HopelessError:
        return None
    return float(operator_norm_error(released, correlation) / operator_norm(correlation))


def collect() -> list[dict]:
    cells = []
    for d, n, name in itertools.product(FEATURES, RECORDS, STRUCTURES):
        correlation = structured_covariance(name, d, random_state=7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns that are not found: that is in the error
            errors = [error(correlation, n, seed) for seed in range(RELEASES)]
        middle = None if None in errors else statistics.median(errors)
        cells.append({"structure": name, "features": d, "records": n, "error": middle})
        print(cells[-1], flush=True)
    return cells


def verdict(value: float | None) -> int:
    """The place of its colour."""
    return 2 if value is None or value > MOST_ROUGH else int(value > MOST_GOOD)


def draw(cells: list[dict], path: Path) -> None:
    from matplotlib.patches import Patch

    figure = new_figure(12.5, 5.2)
    panels = figure.subplots(1, len(STRUCTURES), sharey=True)
    for axes, (name, words) in zip(panels, STRUCTURES.items(), strict=True):
        for each in (cell for cell in cells if cell["structure"] == name):
            place = FEATURES.index(each["features"]), RECORDS.index(each["records"])
            write(axes, place, each["error"])
        axes.set(xlim=(-0.5, len(FEATURES) - 0.5), ylim=(-0.5, len(RECORDS) - 0.5))
        axes.set_xticks(range(len(FEATURES)), [f"{d:,}" for d in FEATURES])
        axes.set_yticks(range(len(RECORDS)), [f"{n:,}" for n in RECORDS])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(words, fontsize=11)
        axes.set_xlabel("columns")
    panels[0].set_ylabel("rows")
    words = (f"good: up to {MOST_GOOD}", f"rough: up to {MOST_ROUGH}", "hopeless")
    keys = [Patch(color=colour, label=word) for colour, word in zip(COLOURS, words, strict=True)]
    figure.legend(handles=keys, loc="outside right center", frameon=False)
    headline = "20 columns take 10,000 rows, 1,000 columns 100,000; more if all pairs are related"
    write_png(path, caption(figure, TEXT, width=150, headline=headline))


def write(axes, place: tuple[int, int], value: float | None) -> None:
    """One cell with its number."""
    from matplotlib.patches import Rectangle

    x, y = place
    colour = COLOURS[verdict(value)]
    axes.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=colour, linewidth=0))
    said = "refused" if value is None else f"{value:.3f}" if value < MOST_GOOD else f"{value:.2f}"
    axes.text(x, y, said, ha="center", va="center", fontsize=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, default=Path("results/sizes.png"))
    parser.add_argument("--draw", action="store_true", help="draw again what was measured")
    options = parser.parse_args()
    path = options.figure.with_suffix(".json")
    if not options.draw:
        path.write_text(json.dumps(collect(), indent=1) + "\n")
    draw(json.loads(path.read_text()), options.figure)


if __name__ == "__main__":
    main()
