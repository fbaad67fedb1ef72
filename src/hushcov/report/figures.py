"""The heat map of a release as a figure of matplotlib, and panels for other figures."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.answers.names import feature_names
from hushcov.release import Release
from hushcov.release.view import view
from hushcov.report.heat import strongest_map
from hushcov.report.pages import page_colours, printable, short, verdict_colours
from hushcov.report.style import SEE, caption, new_figure, png, write_png
from hushcov.text.description import describe, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_COLOURS = "RdBu_r"  # white is zero; red and blue also differ for colour-blind readers
_NOISE_COLOUR = "0.55"  # a grey
_MOST_DRAWN, _FEW_NAMES = 120, 25
_LONGEST_NAME = 24  # letters


def release_figure(release: Release) -> Figure:
    """Return the heat map of a release, which notebooks show and `savefig` writes."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        found, judged, d = (
            strongest_map(view(release), _MOST_DRAWN),
            verdict(release),
            release.n_features,
        )
        pairs = describe(release, 0).lines()[0][1]
    n = len(found.order)
    figure = new_figure(*((7, 8) if n <= _FEW_NAMES else (9, 10)))
    axes = figure.subplots()
    image = panel(axes, found.cells, found.limit, "Released correlations")
    names = feature_names(release)[found.order]
    shown = [short(printable(str(name)), _LONGEST_NAME) for name in names]
    size = 9 if n <= _FEW_NAMES else max(4, 7 * 60 // max(n, 60))
    axes.set_xticks(range(n), shown, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(n), shown, fontsize=size, parse_math=False)
    colour_bar(image, [axes], shrink=0.8)
    title = textwrap.fill(f"{judged.word.capitalize()}: {judged.sentence}.", 95)
    figure.suptitle(title, fontsize=10, color=page_colours()[verdict_colours(judged.word)[0]])
    words = f"{SEE}red features vary together, blue ones in opposite directions, the stronger the "
    words += f"darker; white is zero, and grey was not found. {pairs}."
    words += f" {n:,} of {d:,} features are drawn." * (n < d)
    vars(figure)["_repr_png_"] = partial(png, figure)
    return caption(figure, words, width=90 if n <= _FEW_NAMES else 115)


def write_release_heatmap(path: str | Path, release: Release) -> Path:
    """Write `release_figure` as a PNG file, and return its path."""
    return write_png(path, release_figure(release))


def panel(axes: Axes, matrix: FloatArray, limit: float, title: str) -> AxesImage:
    """Draw a matrix; white is zero, and NaN is grey."""
    axes.set_facecolor(_NOISE_COLOUR)  # seen where there is no value
    image = axes.imshow(matrix, cmap=_COLOURS, vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_title(title, fontsize=11)
    return image


def colour_bar(image: AxesImage, axes: list[Axes], *, shrink: float) -> None:
    """Put a colour bar below `axes`; pointed ends say that some values pass the scale."""
    values, top = image.get_array(), image.get_clim()[1]
    largest = 0.0 if values is None else np.abs(np.ma.filled(values, 0.0)).max()
    extend = "both" if largest > top else "neither"
    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        label="correlation (no unit)",
        location="bottom",
        shrink=shrink,
        aspect=30,
        extend=extend,
    )
    bar.ax.locator_params(axis="x", nbins=8)
