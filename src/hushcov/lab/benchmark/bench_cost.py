"""What each contender costs: time and memory of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushcov.lab.benchmark.bench_look import LOOKS, tidy
from hushcov.lab.benchmark.cells import Cost
from hushcov.lab.benchmark.contenders import CONTENDERS
from hushcov.lab.benchmark.results import Results
from hushcov.report.backend import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CAPTION_WIDTH = 150


def cost_figure(results: Results) -> Figure:
    """Return time and memory at the base point, with a caption that says what to see."""
    costs = [results.cost(name) for name in results.benchmark.contenders]
    figure = new_figure(12.5, 2.6 + 0.36 * len(costs))
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, costs, [cost.seconds for cost in costs], "seconds of one fit, plan included", 0.01)
    _panel(
        right, costs, [cost.megabytes for cost in costs], "peak memory beyond the records, MB", 1.0
    )
    left.set_yticks(range(len(costs)), [CONTENDERS[cost.contender].title for cost in costs])
    left.set_ylim(len(costs) - 0.4, -0.6)
    figure.suptitle(headline(costs), fontsize=12)
    caption(figure, describe(results), width=_CAPTION_WIDTH)
    return figure


def headline(costs: Sequence[Cost]) -> str:
    """Say who takes longest."""
    timed = {cost.contender: cost.seconds for cost in costs if cost.seconds is not None}
    if not timed:
        return "No contender ran at the base point"
    slowest = max(timed, key=timed.__getitem__)
    return f"{CONTENDERS[slowest].title} takes longest: {_number(timed[slowest])} s for one fit"


def describe(results: Results) -> str:
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


def _panel(
    axes: Axes, costs: Sequence[Cost], values: Sequence[float | None], label: str, floor: float
) -> None:
    axes.set(xscale="log", xlabel=label)
    axes.set_xlim(floor, 6 * max([2 * floor, *(value for value in values if value)]))
    for position, (cost, value) in enumerate(zip(costs, values, strict=True)):
        end = max(value or 0.0, floor)
        colour = LOOKS[cost.contender].colour
        axes.barh(position, end - floor, left=floor, height=0.7, color=colour)
        text = _text(cost, value, floor)
        axes.text(end * 1.1, position, text, va="center", fontsize=9)
    tidy(axes)
    axes.tick_params(axis="y", length=0)


def _text(cost: Cost, value: float | None, floor: float) -> str:
    if value is None:
        return "skipped" if cost.skipped else "unknown"
    return _number(value) if value >= floor else f"below {floor:g}"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"
