"""The figure of `hushcov plan`: predicted error against the number of records."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hushcov.exceptions import DataError
from hushcov.planning import REFERENCE_MODELS, MultiscalePlan
from hushcov.report.backend import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart. Markers differ too, and get
# smaller, so that models with one error all show.
_LOOK = dict(
    zip(
        REFERENCE_MODELS,
        (("#0072B2", "o", 9), ("#D55E00", "s", 7), ("#009E73", "^", 6), ("#CC79A7", "D", 4)),
        strict=True,
    )
)
_STYLES = {"value": "solid", "gate": "dashed"}
_CAPTION_WIDTH = 118


def plan_figure(plans: Sequence[MultiscalePlan], *, target_error: float | None = None) -> Figure:
    """Return predicted error against n, with a caption that says what to see.

    Parameters
    ----------
    plans : sequence of MultiscalePlan
        For one size and budget, at any numbers of records and reconstructions; at least one.
    target_error : float, optional
        Errors up to here are shaded, in units of scale^2.
    """
    if not plans:
        raise DataError("plans must hold at least one plan: there is nothing to draw.")
    figure = new_figure(9, 6.2)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for reconstruction in _reconstructions(plans):
        for model in REFERENCE_MODELS:
            _line(axes, plans, reconstruction, model)
    _reference_lines(axes, plans, target_error)
    _decorate(axes, plans)
    caption = textwrap.fill(describe(plans, target_error=target_error), _CAPTION_WIDTH)
    figure.supxlabel(caption, x=0.01, ha="left", fontsize=10, color="0.25")
    return figure


def write_plan_figure(
    path: str | Path, plans: Sequence[MultiscalePlan], *, target_error: float | None = None
) -> Path:
    """Write `plan_figure` as a PNG file, and return its path."""
    plan_figure(plans, target_error=target_error).savefig(path, format="png", dpi=150)
    return Path(path)


def describe(plans: Sequence[MultiscalePlan], *, target_error: float | None = None) -> str:
    """Say what the figure shows, from the plans themselves."""
    # An error of 1 is a target kept, but the zero matrix not beaten.
    goal = math.nextafter(1.0, 0.0) if target_error is None else target_error
    verb = "beat the zero matrix" if target_error is None else "reach the shaded target"
    parts = []
    for reconstruction in _reconstructions(plans):
        first = _first_below(plans, reconstruction, goal)
        name = f"{reconstruction}s ({_STYLES[reconstruction]})"
        parts.append(
            f"{name} {verb} on every model from n = {_short(first)} on"
            if first is not None
            else f"{name} do not {verb} on every model at any n shown"
        )
    return (
        f"What to see: {'; '.join(parts)}. Each point is a design chosen for its n, and its error "
        "is predicted without any data, for covariances like the reference models."
    )


def _short(value: float) -> str:
    """A number without the padding of exponents: 30,000, 3e7 or 1e-6."""
    if 1 <= value < 1e6:
        return f"{value:,g}"
    return re.sub(r"e([+-])0*", lambda found: "e" + found[1].strip("+"), f"{value:.3g}")


def _reconstructions(plans: Sequence[MultiscalePlan]) -> list[str]:
    present = {plan.parameters.reconstruction for plan in plans}
    return [name for name in _STYLES if name in present]


def _curve(plans: Sequence[MultiscalePlan], reconstruction: str) -> list[MultiscalePlan]:
    chosen = (plan for plan in plans if plan.parameters.reconstruction == reconstruction)
    return sorted(chosen, key=lambda plan: plan.parameters.inputs.n_records)


def _first_below(plans: Sequence[MultiscalePlan], reconstruction: str, goal: float) -> int | None:
    """The smallest n shown from which on every model's error is at most the goal."""
    first = None
    for plan in reversed(_curve(plans, reconstruction)):
        if max(plan.predicted_error.values()) > goal:
            break
        first = plan.parameters.inputs.n_records
    return first


def _line(axes: Axes, plans: Sequence[MultiscalePlan], reconstruction: str, model: str) -> None:
    colour, marker, size = _LOOK[model]
    curve = _curve(plans, reconstruction)
    axes.plot(
        [plan.parameters.inputs.n_records for plan in curve],
        [plan.predicted_error[model] for plan in curve],
        color=colour,
        marker=marker,
        markersize=size,
        linestyle=_STYLES[reconstruction],
        linewidth=1.6,
        markerfacecolor=colour if reconstruction == "value" else "white",
    )


def _reference_lines(
    axes: Axes, plans: Sequence[MultiscalePlan], target_error: float | None
) -> None:
    """The zero matrix, and the target; the axis shows both and every error."""
    errors = [error for plan in plans for error in plan.predicted_error.values()]
    shown = [*errors, 1.0] + ([] if target_error is None else [target_error])
    bottom, top = min(shown) / 1.8, max(shown) * 1.8
    axes.set_ylim(bottom, top)
    right = axes.get_yaxis_transform()
    axes.axhline(1.0, color="black", linewidth=1.2)
    axes.text(0.99, 1.06, "zero matrix: needs no data", transform=right, ha="right", va="bottom")
    if target_error is not None:
        axes.axhspan(bottom, target_error, color="0.93", zorder=0)
        axes.text(
            0.01,
            target_error / 1.06,
            f"target: at most {target_error:g}",
            transform=right,
            va="top",
            color="0.35",
        )


def _decorate(axes: Axes, plans: Sequence[MultiscalePlan]) -> None:
    inputs = plans[0].parameters.inputs
    axes.set_title(
        f"Predicted error: d = {inputs.n_features:,}, k = {inputs.row_sparsity}, "
        f"epsilon = {_short(inputs.epsilon)}, delta = {_short(inputs.delta)}",
        fontsize=11,
    )
    axes.set_xlabel("number of records n")
    axes.set_ylabel("predicted operator-norm error (scale²)")
    axes.grid(which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for model, (colour, marker, size) in _LOOK.items():
        (handle,) = axes.plot([], [], linestyle="none", label=model)
        handle.set(color=colour, marker=marker, markersize=size)
    for reconstruction in _reconstructions(plans):
        axes.plot(
            [], [], color="0.3", linestyle=_STYLES[reconstruction], label=f"{reconstruction}s"
        )
    axes.legend(frameon=True, framealpha=1, edgecolor="none", fontsize=9, loc="lower left")
