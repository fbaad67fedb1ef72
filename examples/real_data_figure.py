"""The figure of `real_data.py`: a release beside what it estimates, and errors."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov.report.figures import colour_bar, panel
from hushcov.report.style import caption, new_figure

FloatArray = npt.NDArray[np.float64]

LOWEST, HIGHEST = 0.005, 20.0  # of the axis of errors; what is above is drawn at its end
CAPTION = (
    "What to see. Above: the release of {records:,} flights (epsilon = 1, delta = 1e-6, scales "
    "unknown) has the blocks of the sample correlations: timetable, delays, route, weather. Below: "
    "errors of {runs} releases each, median and range, relative to the norm of the sample "
    "covariance; triangles are beyond the axis. Tables with hundreds of records fail at epsilon = "
    "1: their scales are not found, and nothing bounds the error. Right: error against the number "
    "of flights used, measured, and as predicted for Gaussian records with an exactly sparse "
    "covariance."
)


def draw(
    document: dict[str, Any], columns: tuple[str, ...], sample: FloatArray, released: FloatArray
) -> Any:
    """Four panels: sample and released correlations, errors by dataset, errors by size."""
    figure = new_figure(13, 13.4)
    panels = figure.subplots(2, 2, height_ratios=(1.25, 1))
    titles = ("Sample correlations, not private", "Released correlations, epsilon = 1")
    for axes, matrix, title in zip(panels[0], (sample, released), titles, strict=True):
        image = panel(axes, matrix, 1.0, title)
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
        axes.set_yticks(range(len(columns)), columns, fontsize=8)
    colour_bar(image, list(panels[0]), shrink=0.5)
    draw_errors(panels[1, 0], [row for row in document["rows"] if row["epsilon"] == 1])
    draw_sizes(panels[1, 1], document["sizes"])
    largest = max(row["n"] for row in document["sizes"])
    text = CAPTION.format(records=largest, runs=len(document["rows"][0]["errors"]))
    caption(figure, text, width=165)
    return figure


def draw_errors(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Median and range of the errors, a group for each dataset."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    groups = {row["data"]: row["n"] for row in rows}
    for row in rows:
        position = names.index(row["mechanism"])
        x = list(groups).index(row["data"]) + (position - (len(names) - 1) / 2) * 0.1
        middle, colour = statistics.median(row["errors"]), f"C{position}"
        ends = np.clip([min(row["errors"]), max(row["errors"])], LOWEST, HIGHEST)
        axes.plot([x, x], ends, color=colour, linewidth=1.5)
        if max(row["errors"]) > HIGHEST:
            axes.plot(x, HIGHEST, "^", color=colour, markersize=5, clip_on=False)
        if middle <= HIGHEST:
            axes.plot(x, middle, "o", color=colour, markersize=4)
    for position, name in enumerate(names):
        axes.plot([], [], "o-", color=f"C{position}", label=name, markersize=4)
    axes.axhline(1, color="0.4", linestyle="--", linewidth=0.8, label="zero matrix")
    labels = [f"{name.replace(', ', chr(10))}\nn = {n:,}" for name, n in groups.items()]
    axes.set_xticks(range(len(groups)), labels, fontsize=7.5)
    axes.set(yscale="log", ylim=(LOWEST, HIGHEST), title="Error at epsilon = 1")
    axes.legend(fontsize=8, ncols=2, loc="lower right")
    finish(axes)


def draw_sizes(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Median errors against the number of records."""
    for position, name in enumerate(dict.fromkeys(row["mechanism"] for row in rows)):
        mine = [row for row in rows if row["mechanism"] == name]
        sizes = [row["n"] for row in mine]
        colour = {"PrivateSparse": "C0", "Gaussian": "C2", "CoinPress": "C5"}.get(name, "k")
        medians = [min(HIGHEST, statistics.median(row["errors"])) for row in mine]
        axes.plot(sizes, medians, "o-", color=colour, label=name, markersize=4)
        if position == 0:
            predicted = [row["predicted"] for row in mine]
            axes.plot(sizes, predicted, ":", color=colour, label=f"{name}, predicted")
    axes.axhline(1, color="0.4", linestyle="--", linewidth=0.8, label="zero matrix")
    axes.set(xscale="log", yscale="log", ylim=(LOWEST, HIGHEST), xlabel="flights used, n")
    axes.set_title("Flights, prepared: error at epsilon = 1")
    axes.legend(fontsize=8, ncols=2, loc="upper right")
    finish(axes)


def finish(axes: Any) -> None:
    """What both panels of errors share."""
    axes.set_ylabel("error / norm of the sample covariance (no unit)")
    axes.grid(alpha=0.2)
