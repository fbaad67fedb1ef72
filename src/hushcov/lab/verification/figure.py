"""The figure of `hushcov verify`: errors against the target, run by run and against n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushcov.lab.drawing import power
from hushcov.lab.verification.simulation import Setting, Sweep
from hushcov.lab.verification.theorem import Verification
from hushcov.report.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    caption,
    new_figure,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SPREAD = 0.6  # width of a column of points, in units of the distance between columns
_CAPTION_WIDTH = 150


def verification_figure(verifications: Sequence[Verification], sweeps: Sequence[Sweep]) -> Figure:
    """Return errors with a caption: every run, and the same settings at other n."""
    figure = new_figure(11, 5.6)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.35))
    _runs_panel(left, verifications)
    _records_panel(right, sweeps)
    floor = _mean_share(verifications)
    for axes in (left, right):
        axes.set_yscale("log")
        axes.axhline(1.0, color="black", linewidth=1.2)
        axes.axhline(floor, color="0.5", linewidth=1.0, linestyle=(0, (1, 2)))
        tidy(axes, "y")
    smallest = min(min(item.relative_errors) for item in verifications)
    bottom = min(floor, smallest) / 4
    left.set_ylim(bottom, 2.5)
    left.text(0.01, 1.08, "target of Theorem 1", transform=left.get_yaxis_transform(), va="bottom")
    left.text(
        0.01,
        1.15 * bottom,
        "grey: 17/16 k t₀, bound for the conditional mean",
        transform=left.get_yaxis_transform(),
        va="bottom",
        color="0.35",
    )
    caption(figure, describe(verifications, sweeps), width=_CAPTION_WIDTH)
    return figure


def describe(verifications: Sequence[Verification], sweeps: Sequence[Sweep]) -> str:
    """Say what the figure shows, from the numbers themselves."""
    errors = np.concatenate([item.relative_errors for item in verifications])
    missed = int(np.sum(errors > 1))
    verdict = (
        f"all {len(errors)} runs keep the target, the worst with a factor "
        f"{1 / errors.max():.0f} to spare"
        if missed == 0
        else f"{missed} of {len(errors)} runs miss the target"
    )
    medians = [[np.median(point) for point in sweep.relative_errors] for sweep in sweeps]
    change = max(max(row) / min(row) for row in medians)
    spread = max(max(item.relative_errors) / min(item.relative_errors) for item in verifications)
    share = np.median([run.mean_error / run.error for item in verifications for run in item.runs])
    return (
        f"What to see: {verdict}. The conditional mean alone, which leaves out thresholds below "
        f"t₀ whatever n is, accounts for {100 * share:.0f} % of the error of a typical run; its "
        f"bound is the grey line. Over all n on the right a median moves by at most "
        f"{100 * (change - 1):.0f} %, while single runs on the left spread by "
        f"{100 * (spread - 1):.0f} %. Dotted: smallest n with the privacy condition; dashed: with "
        "the r and b conditions too."
    )


def _mean_share(verifications: Sequence[Verification]) -> float:
    """17/16 k t_0 over the target: 17/4096 whatever the setting."""
    setting = verifications[0].setting
    k = setting.parameters.inputs.row_sparsity
    return 17 / 16 * k * setting.base_threshold / setting.target


def _runs_panel(axes: Axes, verifications: Sequence[Verification]) -> None:
    for position, item in enumerate(verifications):
        errors = item.relative_errors
        offsets = (np.arange(len(errors)) + 0.5) / len(errors) - 0.5
        axes.plot(
            position + _SPREAD * offsets,
            errors,
            linestyle="none",
            marker=_MARKERS[position % len(_MARKERS)],
            markersize=4,
            alpha=0.8,
            color=_COLOURS[position % len(_COLOURS)],
        )
    axes.set_xticks(
        range(len(verifications)),
        [f"{_name(item.setting)}\nn = {_size(item.setting)}" for item in verifications],
    )
    axes.set_xlim(-0.6, len(verifications) - 0.4)
    axes.set_xlabel("setting; one point a run, in the order they were drawn")
    axes.set_ylabel("operator-norm error / target\n(target: target_error times scale²)")
    axes.set_title("Every run", fontsize=11)


def _records_panel(axes: Axes, sweeps: Sequence[Sweep]) -> None:
    for position, sweep in enumerate(sweeps):
        colour = _COLOURS[position % len(_COLOURS)]
        axes.plot(
            sweep.records,
            [np.median(point) for point in sweep.relative_errors],
            color=colour,
            marker=_MARKERS[position % len(_MARKERS)],
            markersize=4,
            label=_name(sweep.setting),
        )
        parameters = sweep.setting.parameters
        axes.axvline(parameters.smallest_private_n, color=colour, linestyle=":", linewidth=1)
        axes.axvline(parameters.smallest_accurate_n, color=colour, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("number of records n")
    runs = len(sweeps[0].relative_errors[0])
    axes.set_title(f"Against n: median of {runs} runs", fontsize=11)
    axes.legend(frameon=True, framealpha=1, edgecolor="none", loc="center right", fontsize=9)


def _name(setting: Setting) -> str:
    inputs = setting.parameters.inputs
    return f"d = {inputs.n_features}, k = {inputs.row_sparsity}"


def _size(setting: Setting) -> str:
    return power(setting.parameters.inputs.n_records)
