"""Tables and the figure of docs/examples.md: what order is worth, over records and epsilon.

    python examples/glucose_tables.py --figure docs/figures/glucose.png

Measures `examples/glucose.py` with the band, with a width that is found, without knowledge of the
order, without privacy and from 500 public rows. About ten minutes; what is measured is kept beside
the figure, and `--draw` draws it again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from pathlib import Path
from typing import Any

import glucose
import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import HopelessError
from hushcov.report.style import LOOKS, caption, log_ticks, new_figure, tidy, write_png

RECORDS = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
EPSILONS, MIDDLE = (0.3, 1.0, 3.0), 50_000
RUNS = 3
PRIVATE: dict[str, dict[str, Any]] = {
    "band of 6 hours": {"bandwidth": glucose.BAND},
    "width found, 12 hours at most": {"bandwidth": "up-to:48"},
    "order not known": {},
}
ROWS, PUBLIC, STRAIGHT = "all rows, not private", "500 public rows", "a straight line"
MEASURES = {
    "correlations": "error of a correlation\nless than 6 hours apart (r.m.s.)",
    "gap": "error of a filled gap of two hours,\nover that with the true covariance",
    "found": "nights with a dip that are found (%)",
}
TEXT = (
    "What to see. Left: single correlations are better known from the release than from 500 public "
    "rows, from 50,000 people on. Middle and right: to fill gaps and to watch sensors 500 public "
    "rows of the same population do better; a release is for populations of which there are none. "
    "With 96 columns the default finds by itself what is near what, and an order is worth little "
    "but to few people. Below 10,000 people a fit is refused. epsilon = 1, delta = 1e-6, means and "
    "scales found privately, medians of 3."
)


class Judge:
    """New days, and what the true covariance makes of them."""

    def __init__(self) -> None:
        _, self.days = glucose.simulate(4_000, seed=98)
        self.truth = np.cov(glucose.simulate(300_000, seed=99)[1].T)
        self.best = self._gap(self.truth, 0.0, self.days)
        straight = statistics.fmean(glucose.straight_errors(self.days).values())
        self.straight = straight / self.best

    @staticmethod
    def _gap(covariance: Any, noise: float, days: Any) -> float:
        return statistics.fmean(glucose.gap_errors(covariance, noise, days).values())

    def measured(self, covariance: Any, noise: float, location: Any) -> dict[str, float]:
        """How far off correlations, gaps and alarms are."""
        lag = np.abs(np.subtract.outer(*[np.arange(glucose.QUARTERS)] * 2))
        near = (lag > 0) & (lag <= glucose.BAND)
        off = glucose.correlations(covariance) - glucose.correlations(self.truth)
        days, size = self.days - location, np.linalg.norm(glucose.correlations(self.truth), 2)
        return {
            "correlations": float(np.sqrt(np.mean(off[near] ** 2))),
            "norm": float(np.linalg.norm(off, 2) / size),
            "gap": self._gap(covariance, noise, days) / self.best,
            "covered": 100 * glucose.covered(covariance, noise, days),
            "found": 100 * glucose.alarms(covariance, noise, glucose.lain_on(days, seed=5)),
            "false": 100 * glucose.alarms(covariance, noise, days),
        }


def measure(way: str, rows: Any, epsilon: float, judge: Judge) -> dict[str, float] | None:
    """None where a fit is refused, or nothing was found to divide by."""
    if way not in PRIVATE:
        return judge.measured(np.cov(rows.T), 0.0, rows.mean(axis=0))
    est = PrivateSparseCovariance(epsilon=epsilon, delta=1e-6, **PRIVATE[way])
    try:
        covariance, noise = glucose.released(est.fit(rows))
        return judge.measured(covariance, noise, est.location_)
    except (HopelessError, np.linalg.LinAlgError):
        return None


def collect(path: Path, ways: list[str]) -> None:
    """Measure what is not in the file yet."""
    judge = Judge()
    cells = [(n, 1.0) for n in RECORDS]
    cells += [(MIDDLE, epsilon) for epsilon in EPSILONS if epsilon != 1]
    found = json.loads(path.read_text()) if path.exists() else {}
    found[STRAIGHT] = judge.straight
    for seed in range(RUNS):
        _, rows = glucose.simulate(max(RECORDS), seed=seed)
        for n, epsilon in cells:
            for way in ways:
                key = f"{way}/{n}/{epsilon:g}/{seed}"
                if key in found or (way not in PRIVATE and epsilon != 1):
                    continue
                part = rows[:500] if way == PUBLIC else rows[:n]
                found[key] = measure(way, part, epsilon, judge)
                print(key, found[key], flush=True)
                path.write_text(json.dumps(found, indent=1) + "\n")


def middle(found: dict, way: str, n: int, epsilon: float, what: str) -> float:
    """Median over the runs; not a number where most were refused."""
    runs = [found.get(f"{way}/{n}/{epsilon:g}/{seed}") for seed in range(RUNS)]
    values = [math.inf if run is None else run[what] for run in runs]
    value = statistics.median(values)
    return value if math.isfinite(value) else math.nan


def say(found: dict) -> None:
    """The tables."""
    print(f"gaps, {STRAIGHT}: {found[STRAIGHT]:.3f}")
    for what in ("correlations", "norm", "gap", "covered", "found", "false"):
        print(f"\n{what}\n| way | " + " | ".join(f"{n:,}" for n in RECORDS) + " |")
        for way in (*PRIVATE, ROWS, PUBLIC):
            values = (middle(found, way, n, 1.0, what) for n in RECORDS)
            print(f"| {way} | " + " | ".join(f"{value:.3g}" for value in values) + " |")
        for way in PRIVATE:
            values = (middle(found, way, MIDDLE, epsilon, what) for epsilon in EPSILONS)
            print(f"| {way}, n = {MIDDLE:,} | " + " | ".join(f"{v:.3g}" for v in values) + " |")


def draw(found: dict, path: Path) -> None:
    """Each measure over the number of people."""
    figure = new_figure(13.5, 5.2)
    panels = figure.subplots(1, len(MEASURES))
    for axes, (what, words) in zip(panels, MEASURES.items(), strict=True):
        for (colour, marker), way in zip(LOOKS, (*PRIVATE, ROWS, PUBLIC), strict=False):
            values = [middle(found, way, n, 1.0, what) for n in RECORDS]
            axes.plot(RECORDS, values, marker + "-", color=colour, label=way, markersize=5)
        axes.set(xscale="log", xlabel="people n", ylabel=words)
        log_ticks(axes.xaxis, RECORDS[::2])
        tidy(axes)
    panels[0].set_yscale("log")
    log_ticks(panels[0].yaxis, (0.003, 0.01, 0.03, 0.1, 0.3))
    panels[1].axhline(found[STRAIGHT], color="0.5", linestyle=":", label=STRAIGHT)
    panels[1].set_ylim(0.98, 1.16)
    panels[2].set_ylim(0, 100)
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    write_png(path, caption(figure, TEXT, width=165))


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, default=Path("glucose.png"))
    parser.add_argument("--ways", nargs="+", default=[*PRIVATE, ROWS, PUBLIC])
    parser.add_argument("--draw", action="store_true", help="draw again what was measured")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of errors that are predicted large: they are measured here
    path = options.figure.with_suffix(".json")
    if not options.draw:
        collect(path, options.ways)
    found = json.loads(path.read_text())
    say(found)
    draw(found, options.figure)


if __name__ == "__main__":
    main()
