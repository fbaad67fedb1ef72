"""A release beside the truth, which is known in simulations only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hushcov._arrays import FloatArray, IndexArray
from hushcov.exceptions import DataError
from hushcov.report.backend import caption, new_figure
from hushcov.report.heatmap import check_square, colour_bar, colour_limit, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, which colour-blind readers can tell apart; markers differ too.
_FOUND, _MISSED, _FALSE = ("#0072B2", "o"), ("#E69F00", "X"), ("#D55E00", "s")
_MOST_FEATURES = 40  # of which every single entry can be seen
_CAPTION_WIDTH = 150


def truth_figure(truth: FloatArray, estimate: FloatArray, *, note: str = "") -> Figure:
    """Return a figure of true and released correlations, with a caption that says what to see.

    Parameters
    ----------
    truth, estimate : ndarray of shape (n_features, n_features)
        Correlations. The heat maps show at most 40 features, related ones side by side; the
        panel on the right shows every pair that is not zero in one of the two.
    note : str
        Where the matrices come from; ends the caption.

    Privacy
    -------
    Nothing here is private: the truth is known in simulations only.
    """
    check_square(truth)
    if truth.shape != estimate.shape:
        raise DataError(
            f"truth and estimate must have one shape, got {truth.shape} and {estimate.shape}: "
            "compare an estimate with its own truth."
        )
    figure = new_figure(13, 5.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    shown = np.ix_(*[_side_by_side(truth)] * 2)
    limit = colour_limit(truth[shown], estimate[shown])
    panel(left, truth[shown], limit, "Truth")
    image = panel(middle, estimate[shown], limit, "Release")
    for axes in (left, middle):
        _label(axes, len(truth[shown]), len(truth))
    colour_bar(image, [left, middle], shrink=0.6)
    _scatter(right, truth, estimate)
    caption(figure, f"{describe(truth, estimate)} {note}".strip(), width=_CAPTION_WIDTH)
    return figure


def write_truth_figure(
    path: str | Path, truth: FloatArray, estimate: FloatArray, *, note: str = ""
) -> Path:
    """Write `truth_figure` as a PNG file, and return its path."""
    truth_figure(truth, estimate, note=note).savefig(path, format="png", dpi=150)
    return Path(path)


def describe(truth: FloatArray, estimate: FloatArray) -> str:
    """Say what the figure shows, from the matrices themselves."""
    found, missed, false = (len(x) for x, _ in _points(truth, estimate))
    worst = float(np.abs(estimate - truth).max(initial=0.0))
    return (
        "What to see: where truth and release have equal colours they agree, and white is zero. "
        "On the right every dot is a pair of features; on the line the release equals the truth. "
        f"Related pairs found: {found:,}, missed: {missed:,}; unrelated pairs shown: {false:,}. No "
        f"correlation is off by more than {worst:.2g}."
    )


def _side_by_side(truth: FloatArray) -> IndexArray:
    """At most 40 features, all in their order where there are no more."""
    if len(truth) <= _MOST_FEATURES:
        return np.arange(len(truth))
    order = reverse_cuthill_mckee(sparse.csr_array(truth != 0), symmetric_mode=True)
    return np.asarray(order[::-1][:_MOST_FEATURES], dtype=np.intp)


def _label(axes: Axes, shown: int, d: int) -> None:
    if shown == d:
        axes.set_xlabel("feature")
        axes.locator_params(nbins=6, integer=True)
        return
    axes.set_xlabel(f"{shown} of {d:,} features, related ones side by side")
    axes.set_xticks([])
    axes.set_yticks([])


def _points(truth: FloatArray, estimate: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """True and released correlations of the pairs found, missed and false."""
    upper = np.triu_indices(len(truth), 1)
    x, y = truth[upper], estimate[upper]
    kinds = ((x != 0) & (y != 0), (x != 0) & (y == 0), (x == 0) & (y != 0))
    return [(x[kind], y[kind]) for kind in kinds]


def _scatter(axes: Axes, truth: FloatArray, estimate: FloatArray) -> None:
    names = ("found", "missed", "false")
    points = _points(truth, estimate)
    for name, (colour, marker), (x, y) in zip(
        names, (_FOUND, _MISSED, _FALSE), points, strict=True
    ):
        axes.plot(
            x,
            y,
            linestyle="none",
            marker=marker,
            markersize=4,
            color=colour,
            alpha=0.6 if name == "found" else 1.0,
            label=f"{name}: {len(x):,}",
        )
    values = [np.abs(part).max(initial=0.0) for pair in points for part in pair]
    reach = 1.1 * (max(values) or 1.0)
    axes.plot((-reach, reach), (-reach, reach), color="0.4", linewidth=1, zorder=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.set_title("Every pair that is not zero", fontsize=11)
    axes.set_xlabel("true correlation")
    axes.set_ylabel("released correlation")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=True, framealpha=1, edgecolor="none", loc="upper left", fontsize=9)
