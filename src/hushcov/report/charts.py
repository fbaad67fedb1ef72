"""The charts of a report: eigenvalues, and correlations along the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.report.pages import count, number
from hushcov.report.style import chart, ink, tidy

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (420.0, 320.0)  # pixels
_SIDES = (52.0, 20.0, 52.0, 34.0)  # room left, right, below and above the axes
_FEW = 60  # dots that may be large


def spectrum_chart(values: FloatArray, reach: float | None) -> Markup:
    """Eigenvalues by rank; shaded, how far errors reach from 1."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "eigenvalue (no unit)")
        axes.set_xlabel("rank of the eigenvalue", color=ink("muted"))
        draw_spectrum(axes, values, reach, ink)

    label = "Eigenvalues of the released correlations, the largest first"
    return chart(_SIZE, label, draw)


def _axes(figure: Figure, label: str) -> Axes:
    """Axes with room around them, and what is upwards written above them."""
    (width, height), (left, right, below, above) = _SIZE, _SIDES
    box = (left / width, below / height)
    axes = figure.add_axes((*box, 1 - (left + right) / width, 1 - (below + above) / height))
    figure.text(4 / width, 1 - 14 / height, label, color=ink("muted"))
    return axes


def _framed(axes: Axes, colour: Callable[[str], str] = ink) -> None:
    tidy(axes, colour=colour("line"))
    axes.xaxis.set_major_formatter(_tick)
    axes.yaxis.set_major_formatter(_tick)


def _tick(value: float, _: float) -> str:
    """A value beside its tick."""
    exact = float(f"{value:.12g}")  # sums of steps have rounding errors
    whole = abs(exact) >= 1000 and exact == round(exact)
    return count(round(exact)) if whole else number(exact)


_LONG = 30  # borders that can be named


def decay_chart(lags: Sequence[int], means: Sequence[float], noise: float | None) -> Markup:
    """Mean sizes of correlations by distance; dashed, what noise alone gives."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "mean size of a correlation")
        axes.set_xlabel("columns apart", color=ink("muted"))
        top = max(*means, noise or 0.0)
        axes.set(xlim=(min(lags) - 0.5, max(lags) + 0.5), ylim=(0, 1.15 * top or 1.0))
        axes.locator_params(axis="x", nbins=6, integer=True)
        _framed(axes)
        if noise is not None:
            _dashed(axes, noise, "noise alone")
        size = 6 if len(lags) <= _FEW else 3
        axes.plot(lags, means, color=ink("link"), marker="o", markersize=size, linewidth=2)

    return chart(_SIZE, "Mean size of correlations by distance", draw)


def order_chart(
    places: FloatArray, means: FloatArray, borders: Sequence[tuple[int, str]], noise: float | None
) -> Markup:
    """Mean sizes of correlations along the columns, with the ends of chromosomes."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "mean size of a correlation")
        axes.set_xlabel(
            "column" if not borders else "column; lines: chromosomes", color=ink("muted")
        )
        top = max(float(np.nanmax(means)) if np.isfinite(means).any() else 0.0, noise or 0.0)
        end = float(places[-1] + places[0])
        axes.set(xlim=(0, end), ylim=(0, 1.2 * top or 1.0))
        axes.locator_params(axis="x", nbins=4, integer=True, prune="upper")
        _framed(axes)
        for start, _ in borders[1:] if len(borders) <= _LONG else ():
            axes.axvline(start, color=ink("line"), linewidth=1)
        if noise is not None:
            _dashed(axes, noise, "noise alone")
        axes.plot(places, means, color=ink("link"), linewidth=1.6)

    return chart(_SIZE, "Mean size of correlations along the columns", draw)


def _dashed(
    axes: Axes, at: float, label: str, colour: Callable[[str], str] = ink, *, right: bool = False
) -> None:
    """Draw a dashed line, and above it the label that explains it."""
    axes.axhline(at, color=colour("muted"), linestyle=(0, (4, 3)), linewidth=1.4)
    end, shift, side = (1.0, 0, "right") if right else (0.0, 5, "left")
    look: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": side}
    axes.annotate(label, (end, at), xytext=(shift, 5), **look)


def draw_spectrum(
    axes: Axes, values: FloatArray, reach: float | None, colour: Callable[[str], str]
) -> None:
    """Draw eigenvalues by rank, in colours of the page by their names."""
    low, high = min(0.0, float(values.min())), max(1.2, float(values.max()))
    axes.set(xlim=(0.5, len(values) + 0.5), ylim=(1.05 * low, 1.08 * high))
    axes.locator_params(axis="x", nbins=6, integer=True)
    _framed(axes, colour)
    if reach is not None:
        band = np.clip((1 - reach, 1 + reach), *axes.get_ylim())
        axes.axhspan(*band, facecolor=colour("link"), edgecolor="none", alpha=0.14, zorder=0)
    _dashed(axes, 1.0, "unrelated features: 1", colour, right=True)
    ranks, size = range(1, len(values) + 1), 7 if len(values) <= _FEW else 4
    look: dict[str, Any] = {"markeredgewidth": 0, "clip_on": False, "zorder": 3}
    axes.plot(ranks, values, "o", markersize=size, color=colour("link"), **look)
