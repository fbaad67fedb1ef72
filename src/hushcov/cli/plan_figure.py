"""The figure of `hushcov plan`: predicted error against the number of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcov.exceptions import DataError
from hushcov.planning import COMPARED_MODELS, Forecast, predicted
from hushcov.report.heat import SEE
from hushcov.report.style import LOOKS, caption, new_figure, tidy, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Forecasts = Mapping[int, Sequence[Forecast]]  # by number of records
_TOP = 30.0  # errors far above 1 are all the same


def plan_figure(
    forecasts: Forecasts, *, title: str = "", target_error: float | None = None
) -> Figure:
    """Return predicted error against n, a panel a model, with a caption that says what to see.

    Parameters
    ----------
    forecasts : mapping of int to sequence of Forecast
        What to expect at each number of records; at least one forecast.
    title : str
        Size and budget of the plan.
    target_error : float, optional
        Errors up to here are shaded, relative to the covariance's norm.
    """
    if not any(forecasts.values()):
        raise DataError("forecasts must hold at least one forecast: there is nothing to draw.")
    figure = new_figure(12, 5.2)
    panels = figure.subplots(1, len(COMPARED_MODELS), sharey=True)
    for axes, model in zip(panels, COMPARED_MODELS, strict=True):
        _plan_panel(axes, forecasts, model, target_error)
    # The zero matrix, the target and every error that is not far above them.
    shown = [1.0] if target_error is None else [1.0, target_error]
    for each in (each for row in forecasts.values() for each in row):
        shown += [each.predicted_error[model] for model in COMPARED_MODELS]
    panels[0].set_ylim(min(shown) / 1.6, max(min(max(shown) * 1.6, _TOP), 2.0))
    panels[0].set_ylabel("predicted operator-norm error\n(relative to the covariance's norm)")
    note: dict[str, Any] = {"transform": panels[0].get_yaxis_transform(), "fontsize": 9}
    panels[0].text(0.99, 1.05, "zero matrix", ha="right", va="bottom", **note)
    if target_error is not None:
        words = f"target: at most {target_error:g}"
        panels[0].text(0.01, target_error / 1.05, words, va="top", **note)
    panels[0].legend(loc="lower left", frameon=False, fontsize=9)
    figure.suptitle(f"Predicted error against the number of records: {title}", fontsize=11)
    caption(figure, describe_plan(forecasts, target_error=target_error), width=150)
    return figure


def write_plan_figure(
    path: str | Path, forecasts: Forecasts, *, title: str = "", target_error: float | None = None
) -> Path:
    """Write `plan_figure` as a PNG file, and return its path."""
    figure = plan_figure(forecasts, title=title, target_error=target_error)
    return write_png(path, figure)


def describe_plan(forecasts: Forecasts, *, target_error: float | None = None) -> str:
    """Say what the figure shows, from the forecasts themselves."""
    goal = 1.0 if target_error is None else target_error
    verb = "beats the zero matrix" if target_error is None else "reaches the shaded target"
    parts = []
    for name in _present(forecasts):
        first = None  # the smallest n from which on every model's error is at most the goal
        for n, each in reversed(_curve(forecasts, name)):
            worst = max(each.predicted_error[model] for model in COMPARED_MODELS)
            if worst > goal or worst >= 1:
                break
            first = n
        start = f"from {first:,} records on" if first is not None else "at no number shown"
        parts.append(f"{name} {start}")
    some = any(each.rough for row in forecasts.values() for each in row)
    rough = " Open markers are rough: the mechanism's own search was not run." * some
    return (
        f"{SEE}which line is lowest, and where each {verb} on all three models: "
        f"{'; '.join(parts)}. No data was used: the lines are for covariances like the "
        f"models.{rough}"
    )


def _present(forecasts: Forecasts) -> list[str]:
    names = {each.mechanism for row in forecasts.values() for each in row}
    return [name for name in predicted() if name in names]


def _curve(forecasts: Forecasts, mechanism: str) -> list[tuple[int, Forecast]]:
    return [
        (n, each) for n in sorted(forecasts) for each in forecasts[n] if each.mechanism == mechanism
    ]


def _plan_panel(axes: Axes, forecasts: Forecasts, model: str, target_error: float | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name in _present(forecasts):
        colour, marker = LOOKS[list(predicted()).index(name) % len(LOOKS)]
        curve = _curve(forecasts, name)
        rough = any(each.rough for _, each in curve)
        axes.plot(
            [n for n, _ in curve],
            [each.predicted_error[model] for _, each in curve],
            color=colour,
            marker=marker,
            markersize=5,
            linestyle="dotted" if rough else "solid",
            linewidth=1.6,
            markerfacecolor="white" if rough else colour,
            label=f"{name} (rough)" if rough else name,
        )
    axes.axhline(1.0, color="black", linewidth=1.2, linestyle="dashed")
    if target_error is not None:
        axes.axhspan(1e-300, target_error, color="0.93", zorder=0)
    axes.set_title(model, fontsize=11)
    axes.set_xlabel("number of records")
    tidy(axes, colour="0.9")
