"""Which mechanism is best at which size: predicted regions, and measured winners on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov.lab.benchmark.contenders import CONTENDERS, ZERO
from hushcov.lab.benchmark.design import DELTA
from hushcov.lab.benchmark.results import Results, Size
from hushcov.lab.drawing import log_ticks, short
from hushcov.planning import predicted
from hushcov.report.style import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REGIONS = (*predicted(), ZERO)
_PALE = 0.45  # how much of a region's colour is left, so that markers stand out
_CAPTION_WIDTH = 150


def crossover_figure(results: Results) -> Figure:
    """Return the map of the best mechanism at each k, with a caption that says what to see."""
    sparsities = results.benchmark.preset.grid_sparsities
    figure = new_figure(12.5, 6.6)
    panels = figure.subplots(1, len(sparsities), sharey=True, squeeze=False)[0]
    for axes, k in zip(panels, sparsities, strict=True):
        _regions(axes, results, k)
        _winners(axes, results.sizes(k))
        axes.set(xscale="log", yscale="log", xlabel="number of features d")
        log_ticks(axes.xaxis, results.benchmark.preset.grid_features)
        log_ticks(axes.yaxis, results.benchmark.preset.grid_records)
        axes.set_title(f"k = {k} nonzeros of a row", fontsize=11)
    panels[0].set_ylabel("number of records n")
    _legend(figure, results)
    figure.suptitle(headline(results), fontsize=12)
    caption(figure, describe(results), width=_CAPTION_WIDTH)
    return figure


def headline(results: Results) -> str:
    """Say how often the prediction holds."""
    sizes = _sizes(results)
    agree = sum(size.agrees for size in sizes)
    return f"The best mechanism by size: the prediction holds at {agree} of {len(sizes)} sizes"


def describe(results: Results) -> str:
    """Say what the figure shows, and how it was measured."""
    preset, sizes = results.benchmark.preset, _sizes(results)
    same = sum(size.predicted == size.measured for size in sizes)
    wins = {name: sum(size.measured == name for size in sizes) for name in CONTENDERS}
    tally = ", ".join(f"{name} {count}" for name, count in wins.items() if count)
    ringed = sum(not size.agrees for size in sizes)
    rings = f" In white rings ({ringed}) the predicted one is over 10 % worse." if ringed else ""
    return (
        "What to see: whether markers have the colour of the region they lie in. A region is the "
        "smallest predicted error of the four mechanisms that can be planned, from public inputs "
        "alone (roughly for the multiscale one); in grey none is to beat the zero matrix. A "
        "marker is the private estimator of the smallest measured error, among all of the "
        f"benchmark: {tally}. It is the predicted one at {same} of {len(sizes)} sizes.{rings} "
        f"Model {preset.base.model}, epsilon = {short(preset.base.epsilon)}, delta = "
        f"{short(DELTA)}; smallest number of seeds: {preset.grid_seeds}."
    )


def _sizes(results: Results) -> list[Size]:
    return [size for k in results.benchmark.preset.grid_sparsities for size in results.sizes(k)]


def _regions(axes: Axes, results: Results, row_sparsity: int) -> None:
    from matplotlib.colors import ListedColormap

    preset = results.benchmark.preset
    d, n = preset.map_features.values(), preset.map_records.values()
    winners = [results.predicted_winner(point) for point in preset.map(row_sparsity)]
    codes = np.array([_REGIONS.index(name) for name in winners]).reshape(len(d), len(n)).T
    axes.pcolormesh(
        _edges(d),
        _edges(n),
        codes,
        cmap=ListedColormap([_region_colour(name) for name in _REGIONS]),
        vmin=-0.5,
        vmax=len(_REGIONS) - 0.5,
        shading="flat",
    )


def _edges(values: Sequence[int]) -> list[float]:
    """Borders halfway between neighbours on a logarithmic axis."""
    logs = np.log(values)
    middle = (logs[1:] + logs[:-1]) / 2
    ends = (2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1])
    return [math.exp(end) for end in ends]


def _region_colour(name: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb("0.5" if name == ZERO else CONTENDERS[name].look.colour)
    return (1 - _PALE * (1 - red), 1 - _PALE * (1 - green), 1 - _PALE * (1 - blue))


def _winners(axes: Axes, sizes: Sequence[Size]) -> None:
    for size in sizes:
        place = ([size.point.n_features], [size.point.n_records])
        if not size.agrees:
            axes.plot(
                *place,
                "o",
                markersize=19,
                markerfacecolor="none",
                markeredgecolor="white",
                markeredgewidth=2.5,
            )
        axes.plot(*place, **_marker(size.measured))


def _marker(name: str) -> dict[str, Any]:
    look = CONTENDERS[name].look
    return {
        "linestyle": "none",
        "marker": look.marker or "o",
        "markersize": 11 if look.marker == "*" else 8.5,
        "markerfacecolor": "0.45" if name == ZERO else look.colour,
        "markeredgecolor": "black",
        "markeredgewidth": 0.8,
    }


def _legend(figure: Figure, results: Results) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    preset = results.benchmark.preset
    points = [point for k in preset.grid_sparsities for point in preset.map(k)]
    predicted = {results.predicted_winner(point) for point in points}
    measured = {size.measured for size in _sizes(results)}
    handles: list[Artist] = [
        Patch(color=_region_colour(name), label=f"predicted: {_title(name)}")
        for name in _REGIONS
        if name in predicted
    ]
    handles += [
        Line2D([], [], label=f"measured: {_title(name)}", **_marker(name))
        for name in CONTENDERS
        if name in measured
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=10)


def _title(name: str) -> str:
    return "none beats the zero matrix" if name == ZERO else CONTENDERS[name].title
