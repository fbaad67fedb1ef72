"""Pictures of covariances: a release by itself, or beside the truth with the error."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hushcov.exceptions import DataError
from hushcov.metrics import operator_norm
from hushcov.report.backend import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

FloatArray = npt.NDArray[np.float64]

_COLOURS = "RdBu_r"  # white is zero; red and blue also differ for colour-blind readers
_MOST_CELLS = 400  # cells a panel can show side by side
_CAPTION_WIDTH = 158


def covariance_heatmap(
    truth: FloatArray, estimate: FloatArray, *, unit: str = "squared data unit", note: str = ""
) -> Figure:
    """Return a figure of truth, estimate and error, with a caption that says what to see.

    Parameters
    ----------
    truth, estimate : ndarray of shape (n_features, n_features)
        In the same unit. They share a colour scale; the error has its own.
    unit : str
        Unit of both, for the colour bars.
    note : str
        Where the matrices come from; ends the caption.

    Privacy
    -------
    Nothing here is private: the truth is known in simulations only.
    """
    _check_square(truth)
    if truth.shape != estimate.shape:
        raise DataError(
            f"truth and estimate must have one shape, got {truth.shape} and {estimate.shape}: "
            "compare an estimate with its own truth."
        )
    error = estimate - truth
    limit = colour_limit(truth, estimate)
    figure = new_figure(12, 5.7)
    left, middle, right = figure.subplots(1, 3)
    _panel(left, truth, limit, "Truth")
    image = _panel(middle, estimate, limit, "Released estimate")
    _colour_bar(image, [left, middle], f"covariance ({unit})", shrink=0.6)
    image = _panel(right, error, np.abs(error).max(), "Error: estimate - truth")
    _colour_bar(image, [right], f"error ({unit}), on its own scale", shrink=1.0)
    left.set_ylabel("feature")
    _caption(figure, (describe(truth, estimate), note), width=_CAPTION_WIDTH)
    return figure


def write_heatmap(
    path: str | Path,
    truth: FloatArray,
    estimate: FloatArray,
    *,
    unit: str = "squared data unit",
    note: str = "",
) -> Path:
    """Write `covariance_heatmap` as a PNG file, and return its path."""
    figure = covariance_heatmap(truth, estimate, unit=unit, note=note)
    figure.savefig(path, format="png", dpi=150)
    return Path(path)


def release_heatmap(estimate: FloatArray, *, note: str = "") -> Figure:
    """Return a figure of a release by itself, with a caption that says what to see.

    Parameters
    ----------
    estimate : ndarray of shape (n_features, n_features)
        Released correlations.
    note : str
        Where the release comes from; ends the caption.
    """
    _check_square(estimate)
    figure = new_figure(7, 7.4)
    axes = figure.subplots()
    image = _panel(axes, estimate, colour_limit(estimate, estimate), "Released correlations")
    _colour_bar(image, [axes], "correlation (no unit)", shrink=0.8)
    axes.set_ylabel("feature")
    _caption(figure, (describe_release(estimate), note), width=90)
    return figure


def write_release_heatmap(path: str | Path, estimate: FloatArray, *, note: str = "") -> Path:
    """Write `release_heatmap` as a PNG file, and return its path."""
    release_heatmap(estimate, note=note).savefig(path, format="png", dpi=150)
    return Path(path)


def describe_release(estimate: FloatArray) -> str:
    """Say what the figure of a release shows, from the matrix itself."""
    d = len(estimate)
    pairs = int(np.count_nonzero(np.triu(estimate, 1)))
    everything = d * (d - 1) // 2
    related = (
        "no pair of features is shown as related"
        if pairs == 0
        else f"{pairs:,} of {everything:,} pairs are coloured: red ones vary together, blue ones "
        "in opposite directions, and white is exactly zero"
    )
    noise = " Where nothing is zero, pale colours are noise." if 0 < pairs == everything else ""
    return (
        f"What to see: {related}.{noise} Every feature varies with itself: the diagonal."
        + _condensing(d)
    )


def colour_limit(truth: FloatArray, estimate: FloatArray) -> float:
    """Return the value of the strongest colour of the first two panels.

    Variances may pass it: on a scale made for them, covariances would all be pale.
    """
    both = np.abs(np.stack([truth, estimate]))
    covariances = both[:, ~np.eye(len(truth), dtype=bool)].max(initial=0.0)
    return float(min(both.max(), 1.5 * covariances) or both.max())


def describe(truth: FloatArray, estimate: FloatArray) -> str:
    """Say what the figure shows, from the matrices themselves."""
    worst = np.abs(estimate - truth).max()
    if worst == 0:
        return "What to see: the estimate equals the truth, and the error is zero everywhere."
    limit = colour_limit(truth, estimate)
    beyond = " (variances go beyond its ends)" if np.abs(truth).max() > limit else ""
    ratio = limit / worst
    finer = f", about {float(f'{ratio:.1g}'):,.0f} times finer" if ratio >= 2 else ""
    outside = np.count_nonzero(estimate[truth == 0])
    off_support = (
        "exactly zero wherever the truth is zero"
        if outside == 0
        else f"nonzero at {outside:,} entries where the truth is zero"
    )
    return (
        f"What to see: left and middle share a colour scale{beyond}: equal colours are equal "
        f"values. The error has its own scale{finer}. It is {off_support}, and no entry is off by "
        f"more than {worst:.2g}." + _condensing(len(truth))
    )


def _check_square(matrix: FloatArray) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"a covariance must be a square matrix, got shape {matrix.shape}.")


def _caption(figure: Figure, sentences: tuple[str, ...], *, width: int) -> None:
    text = "\n".join(textwrap.fill(part, width) for part in sentences if part)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=10, color="0.25")


def _condensing(d: int) -> str:
    width = _cell_width(d)
    return f" A dot shows the largest of {width} x {width} entries." if width > 1 else ""


def _cell_width(d: int) -> int:
    return math.ceil(d / _MOST_CELLS)


def _panel(axes: Axes, matrix: FloatArray, limit: float, title: str) -> AxesImage:
    d = len(matrix)
    image = axes.imshow(
        _condensed(matrix),
        cmap=_COLOURS,
        vmin=-limit or -1.0,
        vmax=limit or 1.0,
        extent=(-0.5, d - 0.5, d - 0.5, -0.5),  # features are counted from 0
        interpolation="nearest",
    )
    axes.set_title(f"{title}\noperator norm {operator_norm(matrix):.3g}", fontsize=11)
    axes.set_xlabel("feature")
    axes.locator_params(nbins=6, integer=True)
    return image


def _colour_bar(image: AxesImage, axes: list[Axes], label: str, *, shrink: float) -> None:
    """Put a colour bar below `axes`; pointed ends say that some values pass the scale."""
    values, top = image.get_array(), image.get_clim()[1]
    extend = "both" if values is not None and np.abs(values).max() > top else "neither"
    bar = axes[0].figure.colorbar(
        image, ax=axes, label=label, location="bottom", shrink=shrink, aspect=30, extend=extend
    )
    bar.ax.locator_params(nbins=8)
    bar.formatter.set_powerlimits((-2, 3))  # type: ignore[attr-defined]


def _condensed(matrix: FloatArray) -> FloatArray:
    """Keep the largest entry of each square of cells: averages would hide a sparse matrix."""
    width = _cell_width(len(matrix))
    if width == 1:
        return matrix
    cells = math.ceil(len(matrix) / width)
    padded = np.zeros((cells * width, cells * width))
    padded[: len(matrix), : len(matrix)] = matrix
    squares = padded.reshape(cells, width, cells, width).swapaxes(1, 2).reshape(cells, cells, -1)
    largest = np.abs(squares).argmax(axis=2)
    return np.take_along_axis(squares, largest[:, :, None], axis=2)[:, :, 0]
