"""How wide intervals of regressions are over those of least squares, by records and columns.

    python benchmarks/figures/widths.py --figure docs/figures/widths.png

Three-factor models, of which the first column is regressed on all others, at epsilon = 1 and
delta = 1e-6 with nothing known. Medians of six releases, where intervals are finite; lines are the
planning figure of `hushcov.fit.looks`. A quarter of an hour on two cores; `--draw` draws again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from pathlib import Path

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.fit.looks import expected_width
from hushcov.inputs import ReleaseInputs
from hushcov.report.style import LOOKS, caption, new_figure, write_png
from hushcov.simulate import gaussian_records

RECORDS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
FEATURES = (8, 16, 32, 64)
RELEASES = 6
WAYS = {"nothing declared": {}, "target declared": {"target": 0}}
MOST = 12.0  # widths beyond are not drawn
TEXT = (
    "What to see: how many times as wide 95 % intervals are as those of least squares without "
    "privacy, for columns that three factors nearly explain. Points are medians of six releases, "
    "lines what 'hushcov plan' expects. With a target declared they are narrower, above all where "
    "columns are many or records few."
)


def model(d: int) -> FloatArray:
    """Return correlations of a three-factor model."""
    loadings = np.random.default_rng(3).standard_normal((d, 3))
    covariance = loadings @ loadings.T + 0.3 * np.eye(d)
    deviations = np.sqrt(covariance.diagonal())
    return np.asarray(covariance / np.multiply.outer(deviations, deviations))


def width(d: int, n: int, seed: int, **options: int) -> float:
    """Return the median width of one release over that of least squares."""
    truth, on = model(d), np.arange(1, d)
    inner = truth[np.ix_(on, on)]
    left = truth[0, 0] - truth[on, 0] @ np.linalg.solve(inner, truth[on, 0])
    own = 1.96 * np.sqrt(left * np.linalg.inv(inner).diagonal() / n)
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, on_hopeless="warn", **options)
    found = est.fit(gaussian_records(truth, n, random_state=seed)).regression(0, "all", ridge=0)
    if len(found.lower) < d - 1:  # a column was not found
        return np.inf
    return float(np.median((found.upper - found.lower) / 2 / own))


def collect() -> list[dict]:
    cells = []
    for d in FEATURES:
        for n in RECORDS:
            for name, options in WAYS.items():
                found = [width(d, n, seed, **options) for seed in range(RELEASES)]
                middle = statistics.median(found)
                finite = middle if np.isfinite(middle) else None
                cells.append({"way": name, "features": d, "records": n, "width": finite})
                print(cells[-1], flush=True)
    return cells


def draw(cells: list[dict], path: Path) -> None:
    figure = new_figure(10, 4.6)
    panels = figure.subplots(1, len(WAYS), sharey=True)
    for axes, name in zip(panels, WAYS, strict=True):
        for d, (colour, marker) in zip(FEATURES, LOOKS, strict=False):
            own = [cell for cell in cells if (cell["way"], cell["features"]) == (name, d)]
            points = [(c["records"], c["width"]) for c in own if c["width"] and c["width"] < MOST]
            axes.plot(*zip(*points, strict=True), marker, color=colour, label=f"{d} columns")
            lines = []
            for n in RECORDS:
                inputs = ReleaseInputs(n, d, min(d, 5), 1.0, 1e-6)
                expected = expected_width(inputs.changed(**WAYS[name]))
                lines += [] if expected is None else [(n, expected)]
            axes.plot(*zip(*lines, strict=True), "-", color=colour, linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="records", title=name, ylim=(0.95, MOST))
        axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.minorticks_off()
    panels[0].set_ylabel("width over least squares")
    panels[0].legend(frameon=False)
    write_png(path, caption(figure, TEXT, width=130, headline="Twice as wide is usual"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, default=Path("results/widths.png"))
    parser.add_argument("--draw", action="store_true", help="draw again what was measured")
    options = parser.parse_args()
    path = options.figure.with_suffix(".json")
    if not options.draw:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_text(json.dumps(collect(), indent=1) + "\n")
    draw(json.loads(path.read_text()), options.figure)


if __name__ == "__main__":
    main()
