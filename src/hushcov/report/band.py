"""The figure of a band: correlations along the columns, by distance, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hushcov.postprocess import Matrix, is_noise, upper_pairs
from hushcov.report.along import condensed
from hushcov.report.figures import check_square, colour_bar, panel
from hushcov.report.style import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def band_figure(correlation: Matrix) -> Figure:
    """Return a figure of released correlations of columns in a known order.

    Columns go from left to right and distances downwards; a cell shows the strongest of its pairs.
    """
    check_square(correlation)
    d = correlation.shape[0]
    rows, columns, values = upper_pairs(correlation)
    good = ~is_noise(values)
    reach = int((columns - rows).max(initial=1))
    cells = condensed(rows[good], columns[good], values[good], d, reach)
    figure = new_figure(11, 5.2)
    axes = figure.subplots()
    limit = float(np.abs(cells).max(initial=0.0)) or 1.0
    image = panel(axes, cells, min(1.0, limit), "Released correlations along the columns")
    image.set_extent((-0.5, d - 0.5, reach + 0.5, 0.5))
    axes.set_aspect("auto")
    axes.set_xlabel("column, counted from 0")
    axes.set_ylabel("columns apart")
    axes.locator_params(axis="y", nbins=8, integer=True)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    colour_bar(image, [axes], shrink=0.6)
    each = -(-d // cells.shape[1])
    dots = f" A dot shows the strongest pair of {each:,} columns." if each > 1 else ""
    lost = int(np.count_nonzero(~good))
    grey = (
        f" {lost:,} that are noise, beyond 1 or without a variance, are left out." if lost else ""
    )
    words = (
        f"What to see: {len(values):,} pairs at most {reach:,} columns apart, neighbours on top. "
        "Red ones vary together, blue ones in opposite directions, the stronger the darker; white "
        f"is zero or was not released.{dots}{grey}"
    )
    caption(figure, words, width=135)
    return figure
