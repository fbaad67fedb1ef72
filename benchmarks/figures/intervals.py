"""How often intervals of level 0.95 cover the truth, on normal, skewed and discrete columns.

    python benchmarks/figures/intervals.py    # a few minutes on one core; JSON and a table
    python benchmarks/figures/intervals.py --draw docs/figures/intervals.json --figure FILE.png

Twenty columns in ten pairs: two normal columns of correlation 0.6, each made into the law in
question by its quantile function. Means and scales are unknown, epsilon is 1, delta is 1e-6,
row_sparsity is 2, by PrivateSparseCovariance (the default), GaussianCovariance and
ScreenedCovariance. The
true covariance of a pair is computed, not estimated. Coverage counts related pairs that passed the
threshold, and all variances, where the interval is said to hold; its standard error is over
repetitions, which are independent. "holds" is the share of columns of which that is said. "ratio"
is the median over repetitions of the mean released value over the true one: what bounding the
records takes off. "lost" is the share of columns whose private scale is off by more than a factor
of 4.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special, stats

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.report.style import BLUE, VERMILION, caption, new_figure, tidy, write_png

EPSILON, DELTA, LEVEL = 1.0, 1e-6, 0.95
D, CORRELATION = 20, 0.6
SIZES = (10_000, 100_000)
Normals = np.ndarray
ESTIMATORS = (PrivateSparseCovariance, GaussianCovariance, ScreenedCovariance)
Estimator = GaussianCovariance | PrivateSparseCovariance | ScreenedCovariance


@dataclass(frozen=True)
class Law:
    """A column as a rising function of a normal variable; `steps` are its jumps, if it has any."""

    name: str
    of_normal: Callable[[Normals], np.ndarray]
    steps: tuple[float, ...] = ()

    def moments(self) -> tuple[float, float]:
        """Variance of a column, and covariance of a pair."""
        if self.steps:
            cuts = special.ndtri(self.steps)
            expected = np.multiply.outer(self.steps, self.steps)
            together = [[_both_below(a, b) for b in cuts] for a in cuts]
            alone = np.minimum.outer(self.steps, self.steps)
            return float(np.sum(alone - expected)), float(np.sum(together - expected))
        edges = np.linspace(-9, 9, 3001)
        middle = 0.5 * (edges[1:] + edges[:-1])
        values = self.of_normal(middle)
        weights = np.diff(special.ndtr(edges))
        rest = math.sqrt(1 - CORRELATION**2)  # deviation of one normal given the other
        given = np.diff(special.ndtr((edges - CORRELATION * middle[:, None]) / rest), axis=1)
        mean = weights @ values
        return weights @ (values - mean) ** 2, (weights * values) @ (given @ values) - mean**2


def _both_below(a: float, b: float) -> float:
    matrix = [[1.0, CORRELATION], [CORRELATION, 1.0]]
    return float(stats.multivariate_normal.cdf([a, b], cov=matrix))


def _stepped(*steps: float) -> Callable[[Normals], np.ndarray]:
    cuts = special.ndtri(steps)
    return lambda z: np.searchsorted(cuts, z).astype(float)


def _exponential(z: Normals) -> np.ndarray:
    return -special.log_ndtr(-z)


def _student(z: Normals) -> np.ndarray:
    # By the lower tail on both sides, where there are digits.
    return -np.sign(z) * stats.t.ppf(special.ndtr(-np.abs(z)), 5)


LAWS = (
    Law("normal", lambda z: z),
    Law("t, 5 degrees of freedom", _student),
    Law("exponential", _exponential),
    Law("lognormal", np.exp),
    Law("4/5 zeros, rest exponential", lambda z: np.maximum(0, _exponential(z) + math.log(0.2))),
    Law("0, 1, 2 (shares 0.49, 0.42, 0.09)", _stepped(0.49, 0.91), (0.49, 0.91)),
    Law("0 or 1, three in ten", _stepped(0.7), (0.7,)),
    Law("0 or 1, one in twenty", _stepped(0.95), (0.95,)),
)


def records(law: Law, n: int, generator: np.random.Generator) -> np.ndarray:
    normals = generator.standard_normal((n, D))
    first, second = normals[:, 0::2], normals[:, 1::2]
    normals[:, 1::2] = CORRELATION * first + math.sqrt(1 - CORRELATION**2) * second
    return law.of_normal(normals)


def fit(law: Law, n: int, seed: int, estimator: type[Estimator]) -> Estimator:
    generator = np.random.default_rng([seed, n])
    made = estimator(
        epsilon=EPSILON,
        delta=DELTA,
        row_sparsity=2,
        random_state=generator,
    )
    # Seeded noise warns; that few records are too few for scales would be said once for each fit.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(records(law, n, generator))


def held(estimator: Estimator, moments: tuple[float, float]) -> dict[str, float]:
    """Shares of one fit: intervals that hold the truth, pairs shown, values over the truth."""
    lower, upper = estimator.covariance_interval(LEVEL)
    holds = estimator.interval_holds_
    variance, covariance = moments
    pairs = np.arange(0, D, 2), np.arange(1, D, 2)
    shown = ~np.isnan(lower[pairs])
    counted = shown & holds[pairs[0]] & holds[pairs[1]]
    hits = (lower[pairs] <= covariance) & (covariance <= upper[pairs])
    of_variances = (np.diag(lower) <= variance) & (variance <= np.diag(upper))
    released = estimator.covariance_
    return {
        "shown": shown.mean(),
        "holds": holds.mean(),
        "pairs": hits[counted].mean() if counted.any() else math.nan,
        "variances": of_variances[holds].mean() if holds.any() else math.nan,
        "ratio of pairs": released[pairs][shown].mean() / covariance if shown.any() else math.nan,
        "ratio of variances": np.diag(released).mean() / variance,
        "lost": np.mean(np.abs(np.log2(estimator.feature_scale_**2 / variance)) > 4),
    }


def cell(law: Law, n: int, repetitions: int, estimator: type[Estimator]) -> dict[str, object]:
    moments = law.moments()
    fits = [fit(law, n, seed, estimator) for seed in range(repetitions)]
    rows = [held(each, moments) for each in fits]
    result: dict[str, object] = {
        "law": law.name,
        "n_records": n,
        "estimator": estimator.__name__,
        "repetitions": repetitions,
        "mechanisms": sorted({each.release_.mechanism for each in fits}),
    }
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        values = values[~np.isnan(values)]
        if not len(values):
            result[name] = None
            continue
        error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else None
        result[name] = {
            "mean": float(values.mean()),
            "standard_error": None if error is None else float(error),
            "median": float(np.median(values)),
        }
    return result


def line(result: dict) -> str:
    cells = [result["law"], f"{result['n_records']:,}", result["estimator"]]
    cells.append(f"{result['holds']['mean']:.2f}")
    for name in ("pairs", "variances"):
        found, ratio = result[name], result[f"ratio of {name}"]
        error = None if found is None else found["standard_error"]
        shown = "none" if found is None else f"{found['mean']:.2f}"
        cells.append(shown if error is None else f"{shown} ({error:.3f})")
        cells.append("none" if ratio is None else f"{ratio['median']:.3f}")
    cells.append(f"{result['lost']['mean']:.3f}")
    return "| " + " | ".join(cells) + " |"


def draw(results: list[dict], path: Path) -> None:
    """Coverage by the default, with nothing known."""
    ours = [each for each in results if each["estimator"] == PrivateSparseCovariance.__name__]
    figure = new_figure(11, 4.8)
    panels = figure.subplots(1, len(SIZES), sharey=True)
    names = [law.name for law in LAWS]
    for axes, n in zip(panels, SIZES, strict=True):
        for name, colour, marker, shift in (
            ("pairs", BLUE, "o", -0.12),
            ("variances", VERMILION, "s", 0.12),
        ):
            found = [each for each in ours if each["n_records"] == n and each[name]]
            places = [names.index(each["law"]) + shift for each in found]
            cover = [each[name]["mean"] for each in found]
            axes.plot(cover, places, marker, color=colour, markersize=7, label=name)
        for each in ours:
            if each["n_records"] == n and not each["pairs"]:
                axes.text(0.5, names.index(each["law"]), "said not to hold", va="center")
        axes.axvline(LEVEL, color="0.4", linestyle="--", linewidth=1)
        axes.set(title=f"{n:,} records", xlabel="share that holds the truth", xlim=(-0.05, 1.05))
        tidy(axes)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    panels[0].legend(loc="upper left", frameon=False)
    text = (
        "What to see: markers should lie on the dashed line, 0.95. Intervals of the default, of 20 "
        "columns at epsilon = 1, delta = 1e-6, nothing known; only those that are said to hold."
    )
    headline = "Intervals said to hold do; of 240 lognormal columns 2 were missed (10,000 records)"
    write_png(path, caption(figure, text, width=130, headline=headline))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("-o", "--output", type=Path, default=Path("intervals.json"))
    parser.add_argument("--figure", type=Path, help="file to draw into")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw what was measured before")
    options = parser.parse_args()
    if options.draw:
        draw(json.loads(options.draw.read_text()), options.figure)
        return
    print("| law | records | estimator | holds | pairs | ratio | variances | ratio | lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    results = []
    for law, n, estimator in itertools.product(LAWS, SIZES, ESTIMATORS):
        results.append(cell(law, n, options.repetitions, estimator))
        print(line(results[-1]), flush=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    if options.figure:
        draw(results, options.figure)


if __name__ == "__main__":
    main()
