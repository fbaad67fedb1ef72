"""The main figure of `hushcov bench`: error against each quantity that matters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hushcov.lab.benchmark.bench_look import LOOKS, log_ticks, short, tidy
from hushcov.lab.benchmark.contenders import CONTENDERS, ZERO
from hushcov.lab.benchmark.design import AXES, DELTA, Point
from hushcov.lab.benchmark.results import Results, Spread
from hushcov.report.backend import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {
    "n_records": "number of records n",
    "n_features": "number of features d",
    "row_sparsity": "nonzeros of a row k",
    "epsilon": "privacy budget epsilon",
}
_TOP = 4.0  # errors above that of the zero matrix are all the same
_CAPTION_WIDTH = 165


def error_figure(results: Results, model: str) -> Figure:
    """Return error against n, d, k and epsilon on a model, with a caption that says what to see."""
    figure = new_figure(13, 9.4)
    panels = figure.subplots(2, 2, sharey=True).ravel()
    smallest = 1.0
    for axes, axis in zip(panels, AXES, strict=True):
        smallest = min(smallest, _panel(axes, results, axis, model))
    for axes in (panels[0], panels[2]):
        axes.set_ylabel("operator-norm error\n(relative to the covariance's norm)")
    panels[0].set_ylim(smallest / 1.4, _TOP)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=10)
    figure.suptitle(headline(results, model), fontsize=13)
    caption(figure, describe(results, model), width=_CAPTION_WIDTH)
    return figure


def headline(results: Results, model: str) -> str:
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


def describe(results: Results, model: str) -> str:
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
    base = _base(results, model)
    return (
        "What to see: the lowest line is the best estimate, and above the dashed line the zero "
        "matrix, which needs no data, is better. Grey is not private: the dark line uses sparsity "
        "and is the goal, the pale one does not. Each panel varies one quantity around n = "
        f"{base.n_records:,}, d = {base.n_features}, k = {base.row_sparsity}, epsilon = "
        f"{short(base.epsilon)} (shaded); delta is {short(DELTA)}. All estimators see the same "
        f"records and know mean and scales. Lines are medians of {preset.seeds} seeds, bands their "
        f"range.{missing}"
    )


def _base(results: Results, model: str) -> Point:
    return replace(results.benchmark.preset.base, model=model)


def _line(results: Results, axis: str, model: str, contender: str) -> list[Spread]:
    points = results.benchmark.preset.sweep(axis, model)
    return [results.spread(point, contender) for point in points]


def _panel(axes: Axes, results: Results, axis: str, model: str) -> float:
    """Draw all lines against one quantity, and return the smallest error."""
    smallest = 1.0
    for name in results.benchmark.contenders:
        look = LOOKS[name]
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
