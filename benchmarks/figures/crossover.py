"""Which mechanism is best where, and how near the default comes when nothing is told.

    python benchmarks/figures/crossover.py --figure docs/figures/crossover.png

Random model, epsilon = 1, delta = 1e-6. Regions are predicted, for mechanisms that are told row
sparsity and scales. At some sizes they are measured, and beside them the default that is told
nothing: no means, no scales, no sparsity. Five minutes on one core; `--draw` draws again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.progress import Progress

import hushcov
from hushcov.metrics import operator_norm_error
from hushcov.report.style import caption, log_ticks, new_figure, write_png
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov_lab.benchmark.cells import DELTA, PRESETS, Point, SizeLadder
from hushcov_lab.benchmark.contenders import CONTENDERS, ZERO, ContenderSetting
from hushcov_lab.benchmark.work import predict

DEFAULT = "adaptive"
TOLD = ("screened", "gaussian-threshold", "gaussian", "separate")
PRESET = replace(
    PRESETS["full"],
    grid_entries=20_000_000,
    map_features=SizeLadder(25, 2_000, 10),
    map_records=SizeLadder(1_000, 1_000_000, 10),
)
SEEDS = 2
PALE = 0.4  # how much of a region's colour is left
BOX = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "0.6", "linewidth": 0.6}


def measured(point: Point) -> dict[str, float]:
    """Relative error of each, geometric mean over draws; of those that are told 1 at most.

    Whoever is told may also know when to take the zero matrix; the default has to find out.
    """
    size = point.n_features, point.row_sparsity
    truth = sparse_covariance(point.model, *size)
    norm = np.linalg.norm(truth, 2)
    logs: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        X = gaussian_records(truth, point.n_records, random_state=seed)
        setting = ContenderSetting(point, np.sqrt(np.diag(truth)), seed)
        estimators = {name: CONTENDERS[name].build(setting) for name in TOLD}
        estimators[DEFAULT] = hushcov.PrivateSparseCovariance(
            epsilon=point.epsilon,
            delta=DELTA,
            random_state=np.random.default_rng([1, seed]),
            on_large_delta="warn",
            on_hopeless="warn",
        )
        for name, estimator in estimators.items():
            error = operator_norm_error(estimator.fit(X).covariance_, truth) / norm
            error = error if name == DEFAULT else min(1.0, error)
            logs.setdefault(name, []).append(float(np.log(error)))
    return {name: float(np.exp(np.mean(each))) for name, each in logs.items()}


def best(errors: dict[str, float]) -> str:
    """The smallest, without the default; the zero matrix where none is below 1."""
    told = {name: error for name, error in errors.items() if name != DEFAULT}
    name = min(told, key=told.__getitem__)
    return name if told[name] < 1 else ZERO


def over_best(errors: dict[str, float]) -> float:
    """Error of the default over that of the best that is told."""
    return errors[DEFAULT] / min(1.0, *(errors[name] for name in TOLD))


def collect() -> list[dict]:
    rows = []
    grids = [point for k in PRESET.grid_sparsities for point in PRESET.grid(k)]
    maps = [point for k in PRESET.grid_sparsities for point in PRESET.map(k)]
    with Progress() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for point in progress.track(grids, description="measured"):
            rows.append({"kind": "measured", "point": vars(point), "errors": measured(point)})
        for point in progress.track(maps, description="predicted"):
            (cell,) = predict([point])
            rows.append({"kind": "predicted", "point": vars(point), "errors": dict(cell.errors)})
    return rows


def draw(rows: list[dict], path: Path) -> None:
    figure = new_figure(12.5, 6.4)
    panels = figure.subplots(1, len(PRESET.grid_sparsities), sharey=True)
    for axes, k in zip(panels, PRESET.grid_sparsities, strict=True):
        here = [row for row in rows if row["point"]["row_sparsity"] == k]
        regions(axes, [row for row in here if row["kind"] == "predicted"])
        for row in here:
            if row["kind"] == "measured":
                write(axes, row)
        axes.set(xscale="log", yscale="log", xlabel="number of features d")
        log_ticks(axes.xaxis, PRESET.grid_features)
        log_ticks(axes.yaxis, PRESET.grid_records)
        axes.set_title(f"k = {k} nonzeros of a row", fontsize=11)
    panels[0].set_ylabel("number of records n")
    legend(figure, rows)
    ratios = [over_best(row["errors"]) for row in rows if row["kind"] == "measured"]
    mean = float(np.exp(np.mean(np.log(ratios))))
    headline = (
        f"Told nothing, the default has {mean:.2f} times the error of the best that is told "
        f"(geometric mean of {len(ratios)} sizes)"
    )
    text = (
        "What to see: one mechanism is best nearly everywhere, if somebody tells it k. Regions are "
        "the smallest predicted error of mechanisms that are told row sparsity, means and scales; "
        "in grey none beats the zero matrix. A marker is the best of four of them as measured "
        "(screened, Gaussian with and without a threshold, separate). The number below it is the "
        "error of the default, which has to find out all of that, over that one's: from "
        f"{min(ratios):.2f} to {max(ratios):.2f}. Random model, epsilon = 1, delta = 1e-6, {SEEDS} "
        "draws at each size."
    )
    write_png(path, caption(figure, text, width=150, headline=headline))


def regions(axes, rows: list[dict]) -> None:
    from matplotlib.colors import ListedColormap

    names = [*CONTENDERS]
    d, n = PRESET.map_features.values(), PRESET.map_records.values()
    codes = np.array([names.index(best(row["errors"])) for row in rows])
    axes.pcolormesh(
        edges(d),
        edges(n),
        codes.reshape(len(d), len(n)).T,
        cmap=ListedColormap([pale(name) for name in names]),
        vmin=-0.5,
        vmax=len(names) - 0.5,
    )


def edges(values: tuple[int, ...]) -> np.ndarray:
    """Borders halfway between neighbours on a logarithmic axis."""
    logs = np.log(values)
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def pale(name: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    colour = to_rgb("0.5" if name == ZERO else CONTENDERS[name].look.colour)
    return tuple(1 - PALE * (1 - part) for part in colour)


def marker(name: str) -> dict:
    look = CONTENDERS[name].look
    return {
        "linestyle": "none",
        "marker": look.marker or "o",
        "markersize": 11 if look.marker == "*" else 8.5,
        "markerfacecolor": "0.45" if name == ZERO else look.colour,
        "markeredgecolor": "black",
    }


def write(axes, row: dict) -> None:
    place = row["point"]["n_features"], row["point"]["n_records"]
    axes.plot(*place, **marker(best(row["errors"])))
    text = f"{over_best(row['errors']):.2f}"
    offset = {"xytext": (0, -17), "textcoords": "offset points", "ha": "center", "va": "center"}
    axes.annotate(text, place, **offset, fontsize=9, bbox=BOX)


def legend(figure, rows: list[dict]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found = {(row["kind"], best(row["errors"])) for row in rows}
    titles = {name: each.title for name, each in CONTENDERS.items()}
    titles[ZERO] = "none beats the zero matrix"
    handles: list = [
        Patch(color=pale(name), label=f"predicted: {titles[name]}")
        for name in CONTENDERS
        if ("predicted", name) in found
    ]
    handles += [
        Line2D([], [], label=f"measured: {titles[name]}", **marker(name))
        for name in CONTENDERS
        if ("measured", name) in found
    ]
    handles.append(Patch(label="error of the default over that", **{"fc": "white", "ec": "0.6"}))
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results/crossover.json"))
    parser.add_argument("--figure", type=Path, default=Path("results/crossover.png"))
    parser.add_argument("--draw", action="store_true", help="only draw what --output has")
    arguments = parser.parse_args()
    if not arguments.draw:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(collect(), indent=1) + "\n")
    rows = json.loads(arguments.output.read_text())
    for row in rows:
        if row["kind"] == "measured":
            errors = ", ".join(f"{name} {error:.3g}" for name, error in row["errors"].items())
            point = Point(**row["point"])
            print(
                f"k = {point.row_sparsity}, d = {point.n_features}, n = {point.n_records}: {errors}"
            )
    arguments.figure.parent.mkdir(parents=True, exist_ok=True)
    draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
