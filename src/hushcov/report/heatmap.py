"""Heat maps of released correlations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hushcov.exceptions import DataError
from hushcov.report.backend import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

FloatArray = npt.NDArray[np.float64]

_COLOURS = "RdBu_r"  # white is zero; red and blue also differ for colour-blind readers
_MOST_CELLS = 400  # cells a panel can show side by side
_CAPTION_WIDTH = 90


def release_heatmap(correlation: FloatArray) -> Figure:
    """Return a figure of released correlations, with a caption that says what to see."""
    check_square(correlation)
    figure = new_figure(7, 7.4)
    axes = figure.subplots()
    image = panel(axes, _condensed(correlation), colour_limit(correlation), "Released correlations")
    d = len(correlation)
    image.set_extent((-0.5, d - 0.5, d - 0.5, -0.5))  # features are counted from 0
    axes.set_xlabel("feature")
    axes.set_ylabel("feature")
    axes.locator_params(nbins=6, integer=True)
    colour_bar(image, [axes], shrink=0.8)
    caption(figure, describe_release(correlation), width=_CAPTION_WIDTH)
    return figure


def write_release_heatmap(path: str | Path, correlation: FloatArray) -> Path:
    """Write `release_heatmap` as a PNG file, and return its path."""
    release_heatmap(correlation).savefig(path, format="png", dpi=150)
    return Path(path)


def describe_release(correlation: FloatArray) -> str:
    """Say what the figure of a release shows, from the matrix itself."""
    d = len(correlation)
    pairs, candidates = int(np.count_nonzero(np.triu(correlation, 1))), d * (d - 1) // 2
    if pairs == 0:
        return "What to see: no pair of features is shown as related; the diagonal stands alone."
    width = _cell_width(d)
    noise = " Nothing is zero, so that pale colours may be noise." if pairs == candidates else ""
    dots = f" A dot shows the largest of {width} x {width} entries." if width > 1 else ""
    return (
        f"What to see: {pairs:,} of {candidates:,} pairs of features are coloured. Red ones vary "
        "together, blue ones in opposite directions, the stronger the darker; white is exactly "
        f"zero. The diagonal is each feature with itself.{noise}{dots}"
    )


def colour_limit(*correlations: FloatArray) -> float:
    """Return the value of the strongest colour.

    The diagonal may pass it: on a scale made for it, other correlations would all be pale.
    """
    largest = max(float(np.abs(matrix).max(initial=0.0)) for matrix in correlations)
    apart = max(
        float(np.abs(matrix[~np.eye(len(matrix), dtype=bool)]).max(initial=0.0))
        for matrix in correlations
    )
    return min(largest, 1.5 * apart) or largest or 1.0


def panel(axes: Axes, matrix: FloatArray, limit: float, title: str) -> AxesImage:
    """Draw a matrix; white is zero."""
    image = axes.imshow(matrix, cmap=_COLOURS, vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_title(title, fontsize=11)
    return image


def colour_bar(image: AxesImage, axes: list[Axes], *, shrink: float) -> None:
    """Put a colour bar below `axes`; pointed ends say that some values pass the scale."""
    values, top = image.get_array(), image.get_clim()[1]
    extend = "both" if values is not None and np.abs(values).max() > top else "neither"
    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        label="correlation (no unit)",
        location="bottom",
        shrink=shrink,
        aspect=30,
        extend=extend,
    )
    bar.ax.locator_params(nbins=8)


def check_square(matrix: FloatArray) -> None:
    """Refuse what is not a square matrix."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"correlations must be a square matrix, got shape {matrix.shape}.")


def _cell_width(d: int) -> int:
    return math.ceil(d / _MOST_CELLS)


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
