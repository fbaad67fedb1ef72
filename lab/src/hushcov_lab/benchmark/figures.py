"""The figures of `hushcov bench`: error, rates, the best mechanism by size, time and memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._words import number
from hushcov.fit import predicted
from hushcov.report.style import (
    GREEN,
    PURPLE,
    caption,
    log_ticks,
    new_figure,
    power,
    tidy,
    write_png,
)
from hushcov.simulate import MODELS
from hushcov_lab.benchmark.cells import AXES, DELTA, Cost, Point
from hushcov_lab.benchmark.contenders import CONTENDERS, ZERO, PlotStyle
from hushcov_lab.benchmark.results import (
    DECLARED,
    EXPONENTS,
    Curve,
    ErrorSpread,
    Rates,
    Results,
    Size,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TOP = 4.0  # errors above that of the zero matrix are all the same


def families_figure(results: Results) -> Figure:
    """Return the error of each contender on each family, with a caption that says what to see."""
    families = results.benchmark.preset.families
    figure = new_figure(12.5, 3.0 + 0.36 * len(families))
    axes = figure.subplots()
    for name in results.benchmark.contenders:
        if name == ZERO:
            continue
        found = [(_error(results, family, name), place) for place, family in enumerate(families)]
        known = [(min(error, TOP), place) for error, place in found if error is not None]
        errors, places = [error for error, _ in known], [place for _, place in known]
        look = CONTENDERS[name].look.plot() | {"linestyle": "none", "markersize": 7}
        axes.plot(errors, places, **look, label=CONTENDERS[name].title)
    axes.axvline(1.0, color="black", linestyle=(0, (6, 3)), linewidth=1)
    axes.set(xscale="log", xlabel="operator-norm error (relative to the covariance's norm)")
    axes.set_yticks(range(len(families)), families)
    axes.set_ylim(len(families) - 0.4, -0.6)
    axes.grid(axis="y", color="0.92")
    figure.legend(loc="outside right center", frameon=False, fontsize=10)
    tidy(axes)
    preset = results.benchmark.preset
    text = (
        "What to see: the leftmost marker of a row is the best estimate; right of the dashed line "
        "the zero matrix, which needs no data, is better. Each row is one structure, sparse or "
        f"not, with n = {preset.base.n_records:,}, d = {preset.base.n_features} and epsilon = "
        f"{number(preset.base.epsilon)}. Contenders that ask for a sparsity are told "
        f"{preset.base.row_sparsity}, which is wrong for most. Medians of {preset.grid_seeds} "
        "seeds."
    )
    return caption(figure, text, width=150, headline=_families_headline(results))


def over_best(results: Results, contender: str) -> dict[str, float]:
    """Return the error on each family over that of the best private contender besides."""
    found = {}
    for family in results.benchmark.preset.families:
        error = _error(results, family, contender)
        point = results.benchmark.preset.family(family)
        others = [each for name, each in results.ranking(point) if name != contender]
        if error is not None and others:
            found[family] = error / min(others)
    return found


def _error(results: Results, family: str, contender: str) -> float | None:
    return results.spread(results.benchmark.preset.family(family), contender).median


def _families_headline(results: Results) -> str:
    means = {}
    for each in results.ranked:
        ratios = over_best(results, each.name)
        if ratios:
            means[each.name] = statistics.fmean(map(math.log, ratios.values()))
    if not means:
        return "Structures that nobody was told"
    best = min(means, key=means.__getitem__)
    return (
        "Structures that nobody was told: "
        f"{CONTENDERS[best].title} has {math.exp(means[best]):.2f} times\n"
        "the error of the best of the others, in geometric mean"
    )


# What a caption says of lines, where they are drawn.
_DRAWN = {
    ZERO: ", and above the dashed line the zero matrix, which needs no data, is better",
    "thresholded": ". The dark grey line is not private, uses sparsity and is the goal",
    "empirical": ". The pale grey line is not private and does not use sparsity",
}
_ERROR, _RATES, _CROSSOVER, _COST = "error.png", "rates.png", "crossover.png", "cost.png"
_FAMILIES = "families.png"
_OTHER_MODELS = {model: f"error-{model}.png" for model in MODELS}

#: Every file that `write_figures` may write.
FIGURES = (_ERROR, *_OTHER_MODELS.values(), _FAMILIES, _RATES, _CROSSOVER, _COST)
_LABELS = {
    "n_records": "number of records n",
    "n_features": "number of features d",
    "row_sparsity": "nonzeros of a row k",
    "epsilon": "privacy budget epsilon",
}
_TITLES = {"multiscale": "multiscale threshold tests", "kumar": "Kumar et al."}
_LINES = {"multiscale": PlotStyle(PURPLE, "D"), "kumar": PlotStyle(GREEN, "v")}
_SYMBOLS = {"row_sparsity": "k", "n_features": "d"}
_REGIONS = (*predicted(), ZERO)
_PALE = 0.45  # how much of a region's colour is left, so that markers stand out


def write_figures(folder: Path, results: Results) -> list[Path]:
    """Write every figure into `folder` as a PNG file, and return their paths.

    `error.png` is for the model of the base point; other models have files of their own.
    """
    first, *others = results.benchmark.preset.models
    figures: dict[str, Callable[[], Figure]] = {_ERROR: partial(error_figure, results, first)}
    figures |= {_OTHER_MODELS[model]: partial(error_figure, results, model) for model in others}
    if results.benchmark.preset.families:
        figures[_FAMILIES] = partial(families_figure, results)
    figures |= {
        _RATES: partial(rates_figure, results.rates),
        _CROSSOVER: partial(crossover_figure, results),
        _COST: partial(cost_figure, results),
    }
    return [write_png(folder / name, draw()) for name, draw in figures.items()]


def error_figure(results: Results, model: str) -> Figure:
    """Return error against n, d, k and epsilon on a model, with a caption that says what to see."""
    figure = new_figure(13, 9.4)
    panels = figure.subplots(2, 2, sharey=True).ravel()
    smallest = 1.0
    for axes, axis in zip(panels, AXES, strict=True):
        smallest = min(smallest, _error_panel(axes, results, axis, model))
    for axes in (panels[0], panels[2]):
        axes.set_ylabel("operator-norm error\n(relative to the covariance's norm)")
    panels[0].set_ylim(smallest / 1.4, TOP)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=10)
    return caption(
        figure, describe_error(results, model), width=165, headline=error_headline(results, model)
    )


def error_headline(results: Results, model: str) -> str:
    """Say who is ahead at the base point of a model, and by how much."""
    ranked = results.ranking(_base(results, model))
    if not ranked or ranked[0][1] >= 1:
        return f"Model {model}: no private estimator beats the zero matrix at the base point"
    titles = [f"{CONTENDERS[name].title} ({error:.2g})" for name, error in ranked[:2]]
    ahead = f"Model {model}: {titles[0]} has the smallest error at the base point"
    if len(ranked) == 1:
        return ahead
    factor = ranked[1][1] / ranked[0][1]
    return f"{ahead},\n{factor:.1f} times smaller than {titles[1]}, the next private estimator"


def describe_error(results: Results, model: str) -> str:
    """Say what the figure shows, and how it was measured."""
    preset = results.benchmark.preset
    skipped = {
        f"{name}, {spread.skipped}"
        for axis in AXES
        for name in results.benchmark.contenders
        for spread in _line(results, axis, model, name)
        if spread.skipped is not None
    }
    missing = f" Not everywhere: {' '.join(sorted(skipped))}" if skipped else ""
    base, drawn = _base(results, model), results.benchmark.contenders
    lines = [words for name, words in _DRAWN.items() if name in drawn]
    return (
        f"What to see: the lowest line is the best estimate{''.join(lines)}. Each panel varies one "
        "quantity around n = "
        f"{base.n_records:,}, d = {base.n_features}, k = {base.row_sparsity}, epsilon = "
        f"{number(base.epsilon)} (shaded); delta is {number(DELTA)}. All estimators see the same "
        f"records and know mean and scales. Lines are medians of {preset.seeds} seeds, bands their "
        f"range.{missing}"
    )


def _base(results: Results, model: str) -> Point:
    return replace(results.benchmark.preset.base, model=model)


def _line(results: Results, axis: str, model: str, contender: str) -> list[ErrorSpread]:
    points = results.benchmark.preset.sweep(axis, model)
    return [results.spread(point, contender) for point in points]


def _error_panel(axes: Axes, results: Results, axis: str, model: str) -> float:
    """Draw all lines against one quantity, and return the smallest error."""
    smallest = 1.0
    for name in results.benchmark.contenders:
        look = CONTENDERS[name].look
        found = [s for s in _line(results, axis, model, name) if s.skipped is None]
        values = [getattr(spread.point, axis) for spread in found]
        low, high = ([getattr(s, end) for s in found] for end in ("smallest", "largest"))
        medians = [spread.median for spread in found if spread.median is not None]
        axes.plot(values, medians, label=CONTENDERS[name].title, **look.plot())
        if name != ZERO:
            axes.fill_between(values, low, high, color=look.colour, alpha=0.15, linewidth=0)
        smallest = min([smallest, *low])
    axes.set(xscale="log", yscale="log", xlabel=_LABELS[axis])
    log_ticks(axes.xaxis, getattr(results.benchmark.preset, axis))
    base = getattr(results.benchmark.preset.base, axis)
    axes.axvline(base, color="0.85", linewidth=6, zorder=0)
    tidy(axes)
    return smallest


def rates_figure(rates: Rates) -> Figure:
    """Return records against k and against d, with a caption that says what to see."""
    figure = new_figure(11.5, 5.8)
    left, right = figure.subplots(1, 2, sharey=True)
    _rates_panel(left, rates.against_sparsity)
    _rates_panel(right, rates.against_features)
    left.set_ylabel("records that the theorem asks for")
    return caption(figure, describe_rates(rates), width=140, headline=rates_headline(rates))


def rates_headline(rates: Rates) -> str:
    """Say which theorem grows faster in k, and which one starts from more records."""
    slopes = rates.against_sparsity.slopes
    first = {name: found[0] for name, found in rates.against_sparsity.n_records.items()}
    larger = "and from larger" if first["multiscale"] < first["kumar"] else "but from smaller"
    return (
        f"Kumar et al. need records that grow faster in k (exponent {slopes['kumar']:.2f} against "
        f"{slopes['multiscale']:.2f}), {larger} constants"
    )


def describe_rates(rates: Rates) -> str:
    """Say what the figure shows, from the numbers themselves."""
    sparsity, features = rates.against_sparsity, rates.against_features
    found = zip(sparsity.n_records["multiscale"], sparsity.n_records["kumar"], strict=True)
    ratios = [multiscale / kumar for multiscale, kumar in found]
    return (
        "What to see: on logarithmic axes a slope is an exponent. In k the multiscale theorem has "
        f"{sparsity.slopes['multiscale']:.2f} and that of Kumar et al. "
        f"{sparsity.slopes['kumar']:.2f}; in d they have {features.slopes['multiscale']:.2f} and "
        f"{features.slopes['kumar']:.2f}. That is with logarithms; dotted lines have the exponents "
        "of the rates without them: 1, 3/2 and twice 1/2. At its own constants the multiscale "
        f"theorem asks for {_ratio(ratios[0])} times the records of Kumar et al. at k = "
        f"{sparsity.values[0]}, and for {_ratio(ratios[-1])} times at k = {sparsity.values[-1]}. "
        "Theirs is for the noise they print, whose privacy proof has gaps. Nothing is measured "
        f"here: error {number(DECLARED['target_error'])}, epsilon = {number(DECLARED['epsilon'])}, "
        f"delta = {number(DECLARED['delta'])}, failure probability "
        f"{number(DECLARED['failure_probability'])}."
    )


def _ratio(value: float) -> str:
    return f"{value:.2g}" if 0.01 <= value < 1000 else power(value)


def _rates_panel(axes: Axes, curve: Curve) -> None:
    for name, n_records in curve.n_records.items():
        slope = f"{_TITLES[name]}: slope {curve.slopes[name]:.2f}"
        axes.plot(curve.values, n_records, label=slope, **_LINES[name].plot())
        exponent = EXPONENTS[curve.quantity][name]
        bare = [n_records[0] * (value / curve.values[0]) ** exponent for value in curve.values]
        axes.plot(curve.values, bare, color=_LINES[name].colour, linestyle="dotted")
    axes.set(xscale="log", yscale="log", xlabel=_LABELS[curve.quantity])
    ((name, value),) = curve.fixed.items()
    axes.set_title(f"{_SYMBOLS[name]} = {value:,}", fontsize=11)
    axes.legend(frameon=False, loc="upper left", fontsize=10)
    tidy(axes)


def cost_figure(results: Results) -> Figure:
    """Return time and memory at the base point, with a caption that says what to see."""
    costs = [results.cost(name) for name in results.benchmark.contenders]
    figure = new_figure(12.5, 2.6 + 0.36 * len(costs))
    left, right = figure.subplots(1, 2, sharey=True)
    seconds, megabytes = [each.seconds for each in costs], [each.megabytes for each in costs]
    _cost_panel(left, costs, seconds, "seconds of one fit, plan included", 0.01)
    _cost_panel(right, costs, megabytes, "peak memory beyond the records, MB", 1.0)
    left.set_yticks(range(len(costs)), [CONTENDERS[cost.contender].title for cost in costs])
    left.set_ylim(len(costs) - 0.4, -0.6)
    return caption(figure, describe_cost(results), width=150, headline=cost_headline(costs))


def cost_headline(costs: Sequence[Cost]) -> str:
    """Say who takes longest."""
    timed = {cost.contender: cost.seconds for cost in costs if cost.seconds is not None}
    if not timed:
        return "No contender ran at the base point"
    slowest = max(timed, key=timed.__getitem__)
    return f"{CONTENDERS[slowest].title} takes longest: {_number(timed[slowest])} s for one fit"


def describe_cost(results: Results) -> str:
    """Say what the figure shows, and how it was measured."""
    base = results.benchmark.preset.base
    megabytes = 8e-6 * base.n_records * base.n_features
    return (
        f"What to see: short bars are cheap; both axes are logarithmic. One fit at the base point "
        f"({base}), in a "
        "process of its own with one thread for linear algebra, after a small fit that loads and "
        "compiles the code. Memory is the peak of resident memory during the fit, beyond what is "
        f"resident before it, when code and records ({megabytes:,.0f} MB) are loaded."
    )


def _cost_panel(
    axes: Axes, costs: Sequence[Cost], values: Sequence[float | None], label: str, floor: float
) -> None:
    axes.set(xscale="log", xlabel=label)
    axes.set_xlim(floor, 6 * max([2 * floor, *(value for value in values if value)]))
    for position, (cost, value) in enumerate(zip(costs, values, strict=True)):
        end = max(value or 0.0, floor)
        colour = CONTENDERS[cost.contender].look.colour
        axes.barh(position, end - floor, left=floor, height=0.7, color=colour)
        text = "skipped" if cost.skipped else "unknown"
        if value is not None:
            text = _number(value) if value >= floor else f"below {floor:g}"
        axes.text(end * 1.1, position, text, va="center", fontsize=9)
    tidy(axes)
    axes.tick_params(axis="y", length=0)


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def crossover_figure(results: Results) -> Figure:
    """Return the map of the best mechanism at each k, with a caption that says what to see."""
    sparsities = results.benchmark.preset.grid_sparsities
    figure = new_figure(12.5, 6.6)
    panels = figure.subplots(1, len(sparsities), sharey=True, squeeze=False)[0]
    for axes, k in zip(panels, sparsities, strict=True):
        _regions(axes, results, k)
        for size in results.sizes(k):
            place = ([size.point.n_features], [size.point.n_records])
            if size.agrees is False:
                ring = {"markerfacecolor": "none", "markeredgecolor": "white"}
                axes.plot(*place, "o", markersize=19, markeredgewidth=2.5, **ring)
            axes.plot(*place, **_marker(size.measured))
        axes.set(xscale="log", yscale="log", xlabel="number of features d")
        log_ticks(axes.xaxis, results.benchmark.preset.grid_features)
        log_ticks(axes.yaxis, results.benchmark.preset.grid_records)
        axes.set_title(f"k = {k} nonzeros of a row", fontsize=11)
    panels[0].set_ylabel("number of records n")
    _legend(figure, results)
    return caption(
        figure, describe_crossover(results), width=150, headline=crossover_headline(results)
    )


def crossover_headline(results: Results) -> str:
    """Say how often the prediction holds."""
    held = [size.agrees for size in _sizes(results) if size.agrees is not None]
    if not held:
        return "The best mechanism by size: those that were predicted were not measured"
    return f"The best mechanism by size: the prediction holds at {sum(held)} of {len(held)} sizes"


def describe_crossover(results: Results) -> str:
    """Say what the figure shows, and how it was measured."""
    preset, sizes = results.benchmark.preset, _sizes(results)
    same = sum(size.predicted == size.measured for size in sizes)
    wins = {name: sum(size.measured == name for size in sizes) for name in CONTENDERS}
    tally = ", ".join(f"{name} {count}" for name, count in wins.items() if count)
    ringed, unknown = (sum(size.agrees is each for size in sizes) for each in (False, None))
    rings = f" In white rings ({ringed}) the predicted one is over 10 % worse." if ringed else ""
    rings += f" At {unknown} the predicted one was not measured." if unknown else ""
    return (
        "What to see: whether markers have the colour of the region they lie in. A region is the "
        "smallest predicted error of all mechanisms that can be planned, from public inputs "
        "alone (roughly for slow ones); in grey none is to beat the zero matrix. A "
        "marker is the private estimator of the smallest measured error, among all of the "
        f"benchmark: {tally}. It is the predicted one at {same} of {len(sizes)} sizes.{rings} "
        f"Model {preset.base.model}, epsilon = {number(preset.base.epsilon)}, delta = "
        f"{number(DELTA)}; smallest number of seeds: {preset.grid_seeds}."
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
